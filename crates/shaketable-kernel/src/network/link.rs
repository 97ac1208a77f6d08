//! The way from one process to another: what is on it, and what is known about it.

use crate::failure::Watch;
use crate::kernel::Kernel;
use crate::process::ProcessId;
use crate::request::{Contents, Pending, Place};
use crate::time::Time;
use crate::timer::TimerId;
use std::collections::VecDeque;
use std::rc::Rc;

/// The way from one process to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LinkId {
    pub(crate) from: ProcessId,
    pub(crate) to: ProcessId,
}

impl LinkId {
    pub(crate) fn back(self) -> LinkId {
        LinkId {
            from: self.to,
            to: self.from,
        }
    }

    /// The link that stands for the connection: the one from the earlier process to the later.
    pub(crate) fn first(self) -> LinkId {
        if self.from <= self.to {
            self
        } else {
            self.back()
        }
    }
}

/// A message on its way.
pub(crate) enum Parcel {
    Request(Place, Box<dyn Contents>),
    /// The answer to a request, in the place where the request waits for it.
    Answer(Rc<Pending>),
    /// The news that its sender has come back to life, as that incarnation.
    Return {
        incarnation: u32,
    },
}

impl Parcel {
    /// Called when the message has arrived over that link; `alone` if no other code is running at
    /// the moment, such as its sender. Inlined where links are served, so that a message is taken
    /// apart where it lies.
    #[inline(always)]
    pub(crate) fn arrive(self, kernel: &Kernel, id: LinkId, alone: bool) {
        match self {
            Parcel::Request(place, contents) => kernel.receive(id, place, contents, alone),
            Parcel::Answer(request) => request.arrive(kernel),
            Parcel::Return { incarnation } => kernel.hear_of_return(id.back(), incarnation),
        }
    }
}

/// What becomes of a message when the connection that carries it breaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// It arrives, or is lost.
    #[default]
    AtMostOnce,
    /// It travels over the next connection.
    Reliable,
    /// It is the news of the break, and needs no connection.
    News,
}

/// What every message reads comes first: with many clients each message is on another link, and
/// waits for every piece of memory that is not in the cache.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Link {
    pub(super) queue: Queue,
    /// The time until which nothing arrives because the connection is silently broken, or being
    /// made.
    pub(super) mute_until: Time,
    /// The timer for the first message.
    pub(super) timer: Option<TimerId>,
    /// The number of this connection, counted from the first, and whether it has been made.
    pub(super) connection: u32,
    /// How many messages were sent.
    pub(super) sent: u32,
    pub(super) connected: Connected,
    /// Whether the silence of the connection is being timed; of its two links, the first one keeps
    /// this.
    pub(crate) monitored: bool,
    pending: Awaited,
    /// What the sender of this link knows about its receiver, if it watches it.
    pub(crate) watch: Option<Box<Watch>>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Connected {
    #[default]
    NotYet,
    Yes,
    /// It broke.
    NoMore,
}

/// What a link knows of a message on its way, whatever is in it.
#[derive(Clone, Copy, Default)]
pub(super) struct Label {
    pub(super) due: Time,
    pub(super) connection: u32,
    /// Which message of its link it is.
    pub(super) number: u32,
    pub(super) delivery: Delivery,
}

/// The messages on a link, in the order in which they were sent. Usually there is one at most: its
/// label is read where it lies, and only its parcel is taken out.
#[derive(Default)]
pub(super) struct Queue {
    first: Option<Parcel>,
    /// That of the first.
    label: Label,
    /// The others; stays once there has been one.
    #[expect(
        clippy::box_collection,
        reason = "every link has the field and few need it"
    )]
    rest: Option<Box<VecDeque<(Label, Parcel)>>>,
}

impl Queue {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    #[inline]
    pub(super) fn front(&self) -> Option<Label> {
        self.first.is_some().then_some(self.label)
    }

    #[inline]
    pub(super) fn push_back(&mut self, label: Label, parcel: Parcel) {
        if self.first.is_none() {
            self.label = label;
            self.first = Some(parcel);
        } else {
            let rest = self.rest.get_or_insert_default();
            rest.push_back((label, parcel));
        }
    }

    #[inline]
    pub(super) fn pop_front(&mut self) -> Option<Parcel> {
        let first = self.first.take();
        if let Some(rest) = &mut self.rest
            && let Some((label, parcel)) = rest.pop_front()
        {
            self.label = label;
            self.first = Some(parcel);
        }
        first
    }
}

/// The requests that wait for their reply, each in a place with a number.
struct Awaited {
    places: Vec<AwaitedPlace>,
    /// The place that became free last, or [`NO_PLACE`].
    free: u32,
    /// How many requests there are.
    count: u32,
}

enum AwaitedPlace {
    Taken(Rc<Pending>),
    /// And the one that became free before it.
    Free(u32),
}

const NO_PLACE: u32 = u32::MAX;

impl Default for Awaited {
    fn default() -> Awaited {
        Awaited {
            places: Vec::new(),
            free: NO_PLACE,
            count: 0,
        }
    }
}

impl Link {
    /// Whether the sender waits for a reply.
    pub(crate) fn awaits(&self) -> bool {
        self.pending.count > 0
    }

    /// The requests that wait for their reply, in the order of their places.
    pub(super) fn pending(&self) -> Vec<Rc<Pending>> {
        let requests = self.pending.places.iter().filter_map(|place| match place {
            AwaitedPlace::Taken(request) => Some(request.clone()),
            AwaitedPlace::Free(_) => None,
        });
        requests.collect()
    }

    /// Keeps a request that waits for its reply, and tells it its place.
    #[inline]
    pub(super) fn keep(&mut self, request: Rc<Pending>) {
        let Awaited {
            places,
            free,
            count,
        } = &mut self.pending;
        *count += 1;
        if *free == NO_PLACE {
            request.registered(places.len() as u32);
            places.push(AwaitedPlace::Taken(request));
            return;
        }
        request.registered(*free);
        let place = &mut places[*free as usize];
        match std::mem::replace(place, AwaitedPlace::Taken(request)) {
            AwaitedPlace::Free(before) => *free = before,
            AwaitedPlace::Taken(_) => unreachable!("a free place holds no request"),
        }
    }

    /// Gives up the place of a request, and returns the request for the caller to drop. `None` if
    /// there is no such place.
    #[inline]
    pub(super) fn forget(&mut self, place: u32) -> Option<Rc<Pending>> {
        let Awaited {
            places,
            free,
            count,
        } = &mut self.pending;
        let found = places.get_mut(place as usize)?;
        match std::mem::replace(found, AwaitedPlace::Free(*free)) {
            AwaitedPlace::Taken(request) => {
                *free = place;
                *count -= 1;
                Some(request)
            }
            AwaitedPlace::Free(_) => unreachable!("a request is forgotten once"),
        }
    }
}
