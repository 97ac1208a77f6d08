//! The sending end: where requests can be sent, and how one is shipped.

use super::Request;
use super::pending::{Course, Pending, Reply, Requesting};
use super::stream::{Contents, Core, Packed};
use crate::kernel::{Kernel, WeakKernel};
use crate::network::{Delivery, LinkId, Parcel};
use crate::process::ProcessId;
use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;

/// Where requests of one kind can be sent. It may travel inside messages.
///
/// The endpoint that [`Kernel::listen`] returns leads to that one stream and dies with it. The one
/// that [`Kernel::well_known_endpoint`] returns leads to the stream that listens under a name when
/// the request arrives, even after a reboot.
pub struct Endpoint<Q: Request> {
    target: Target,
    kind: PhantomData<fn(Q)>,
}

#[derive(Clone)]
pub(super) enum Target {
    Stream(Rc<Core>),
    WellKnown {
        kernel: WeakKernel,
        process: ProcessId,
        name: &'static str,
    },
}

/// What a request on its way knows of its target: the process is at the end of its link.
pub(crate) enum Place {
    Stream(Rc<Core>),
    WellKnown(&'static str),
}

impl<Q: Request> Clone for Endpoint<Q> {
    fn clone(&self) -> Self {
        Endpoint::to(self.target.clone())
    }
}

impl<Q: Request> fmt::Debug for Endpoint<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = std::any::type_name::<Q>();
        write!(f, "Endpoint<{kind}>({:?}", self.process())?;
        if let Target::WellKnown { name, .. } = &self.target {
            write!(f, ", {name:?}")?;
        }
        write!(f, ")")
    }
}

impl<Q: Request> PartialEq for Endpoint<Q> {
    fn eq(&self, other: &Self) -> bool {
        match (&self.target, &other.target) {
            (Target::Stream(a), Target::Stream(b)) => Rc::ptr_eq(a, b),
            (
                Target::WellKnown {
                    process: a,
                    name: b,
                    ..
                },
                Target::WellKnown {
                    process: c,
                    name: d,
                    ..
                },
            ) => (a, b) == (c, d),
            _ => false,
        }
    }
}

impl<Q: Request> Eq for Endpoint<Q> {}

impl<Q: Request> Endpoint<Q> {
    pub(super) fn to(target: Target) -> Endpoint<Q> {
        Endpoint {
            target,
            kind: PhantomData,
        }
    }

    /// The process that listens.
    pub fn process(&self) -> ProcessId {
        self.target.process()
    }

    /// Sends a request from a process and returns a future of its outcome.
    pub fn request(&self, from: ProcessId, request: Q) -> Requesting<Q::Reply> {
        self.ask(from, request, Delivery::AtMostOnce)
    }

    /// The same for a request that outlives its connection: it is delivered and answered over the
    /// next one, and ends without an answer only if the receiver dies or refuses. Most requests
    /// between servers are of this kind.
    pub fn request_reliably(&self, from: ProcessId, request: Q) -> Requesting<Q::Reply> {
        self.ask(from, request, Delivery::Reliable)
    }

    fn ask(&self, from: ProcessId, request: Q, delivery: Delivery) -> Requesting<Q::Reply> {
        let to = self.process();
        let id = LinkId { from, to };
        let (course, kernel) = self.target.begin(id, delivery);
        let pending = Pending::new(course);
        if let Some(kernel) = kernel {
            let reply = Reply::new(pending.clone());
            let packed = Box::new(Packed { request, reply });
            let name = std::any::type_name::<Q>();
            let target = &self.target;
            target.ask(&kernel, id, delivery, name, packed, pending.clone());
        }
        Requesting(pending)
    }

    /// Sends a request whose outcome does not matter: nothing waits for it, and no silence is
    /// noticed.
    pub fn send(&self, from: ProcessId, request: Q) {
        if let Some(kernel) = self.target.kernel_of(from) {
            let to = self.process();
            let id = LinkId { from, to };
            let reply = Reply::unwanted(id);
            let parcel = self.target.parcel(Box::new(Packed { request, reply }));
            kernel.ship(id, std::any::type_name::<Q>(), parcel, Delivery::AtMostOnce);
        }
    }
}

/// The part of sending that is the same for all kinds of requests.
impl Target {
    fn process(&self) -> ProcessId {
        match self {
            Target::Stream(core) => core.process,
            Target::WellKnown { process, .. } => *process,
        }
    }

    fn weak_kernel(&self) -> &WeakKernel {
        match self {
            Target::Stream(core) => &core.kernel,
            Target::WellKnown { kernel, .. } => kernel,
        }
    }

    /// The kernel, if the sender is alive.
    #[inline(always)]
    fn kernel_of(&self, from: ProcessId) -> Option<Kernel> {
        let kernel = self.weak_kernel().upgrade();
        kernel.filter(|kernel| kernel.is_alive(from))
    }

    /// Prepares a request; returns the kernel too, if the sender is alive.
    fn begin(&self, link: LinkId, delivery: Delivery) -> (Course, Option<Kernel>) {
        let kernel = self.kernel_of(link.from);
        let incarnation = match (self, &kernel) {
            (Target::Stream(core), _) => core.incarnation,
            (Target::WellKnown { .. }, Some(kernel)) => kernel.incarnation(link.to),
            (Target::WellKnown { .. }, None) => 0,
        };
        let course = Course::new(self.weak_kernel().clone(), link, delivery, incarnation);
        match kernel {
            Some(kernel) => (course, Some(kernel)),
            None => (course.refused(), None),
        }
    }

    /// Registers a request with its link, so that it learns when its connection is lost, and sends
    /// it. There is no connection between a process and itself.
    fn ask(
        &self,
        kernel: &Kernel,
        id: LinkId,
        delivery: Delivery,
        name: &'static str,
        contents: Box<dyn Contents>,
        pending: Rc<Pending>,
    ) {
        if id.from != id.to {
            kernel.0.network.borrow_mut().register(id, pending);
        }
        kernel.ship(id, name, self.parcel(contents), delivery);
        kernel.monitor(id);
    }

    fn parcel(&self, contents: Box<dyn Contents>) -> Parcel {
        let place = match self {
            Target::Stream(core) => Place::Stream(core.clone()),
            Target::WellKnown { name, .. } => Place::WellKnown(name),
        };
        Parcel::Request(place, contents)
    }
}

impl Kernel {
    /// Returns the endpoint for a well-known name of a process, whether or not a stream listens
    /// there yet.
    pub fn well_known_endpoint<Q: Request>(
        &self,
        process: ProcessId,
        name: &'static str,
    ) -> Endpoint<Q> {
        Endpoint::to(Target::WellKnown {
            kernel: self.downgrade(),
            process,
            name,
        })
    }

    /// A request has arrived at the end of its link; `alone` if no other code is running.
    pub(crate) fn receive(
        &self,
        id: LinkId,
        place: Place,
        contents: Box<dyn Contents>,
        alone: bool,
    ) {
        let core = match place {
            Place::Stream(core) => Some(core),
            Place::WellKnown(name) => {
                let core = self.well_known(id.to, name);
                if let Some(core) = &core {
                    core.assert_takes(&*contents, name);
                }
                core
            }
        };
        match core.filter(|core| core.is_open()) {
            Some(core) => core.receive(self, contents, alone),
            // Nobody answers for the dead, but one who knows that they are dead need not wait.
            None if self.is_silent(id) => {}
            None => contents.refuse(),
        }
    }
}
