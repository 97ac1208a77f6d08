//! The way from one process to another: what is on it, and what is known about it.

use crate::failure::Watch;
use crate::kernel::Kernel;
use crate::process::ProcessId;
use crate::request::PendingRequest;
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
pub(crate) trait Parcel {
    /// Called when the message has arrived; `alone` if no other code is running at the moment, such
    /// as its sender.
    fn arrive(self: Box<Self>, kernel: &Kernel, alone: bool);
    /// What becomes of it when its connection breaks.
    fn delivery(&self) -> Delivery;
}

/// What becomes of a message when the connection that carries it breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// It arrives, or is lost.
    AtMostOnce,
    /// It travels over the next connection.
    Reliable,
    /// It is the news of the break, and needs no connection.
    News,
}

#[derive(Default)]
pub(crate) struct Link {
    pub(super) queue: VecDeque<InFlight>,
    /// The timer for the first message.
    pub(super) timer: Option<TimerId>,
    /// The number of this connection, counted from the first, and whether it has been made.
    pub(super) connection: u32,
    pub(super) connected: Connected,
    /// The time until which nothing arrives because the connection is silently broken, or being
    /// made.
    pub(super) mute_until: Time,
    /// How many messages were sent.
    pub(super) sent: u32,
    pub(super) pending: Vec<Option<Rc<dyn PendingRequest>>>,
    pub(super) free: Vec<u32>,
    /// What the sender of this link knows about its receiver, if it watches it.
    pub(crate) watch: Option<Box<Watch>>,
    /// Whether the silence of the connection is being timed; of its two links, the first one keeps
    /// this.
    pub(crate) monitored: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Connected {
    #[default]
    NotYet,
    Yes,
    /// It broke.
    NoMore,
}

pub(super) struct InFlight {
    pub(super) due: Time,
    pub(super) connection: u32,
    /// Which message of its link it is.
    pub(super) number: u32,
    pub(super) parcel: Box<dyn Parcel>,
}

impl Link {
    /// Whether the sender waits for a reply.
    pub(crate) fn awaits(&self) -> bool {
        self.pending.len() > self.free.len()
    }

    pub(super) fn pending(&self) -> Vec<Rc<dyn PendingRequest>> {
        self.pending.iter().flatten().cloned().collect()
    }
}
