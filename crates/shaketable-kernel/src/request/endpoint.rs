//! The sending end: where requests can be sent, and how one is shipped.

use super::pending::{Pending, Reply, Requesting};
use super::stream::Core;
use super::{Disconnected, Request};
use crate::kernel::{Kernel, WeakKernel};
use crate::network::{Delivery, LinkId, Parcel};
use crate::process::ProcessId;
use std::fmt;
use std::rc::Rc;

/// Where requests of one kind can be sent. It may travel inside messages.
///
/// The endpoint that [`Kernel::listen`] returns leads to that one stream and dies with it. The one
/// that [`Kernel::well_known_endpoint`] returns leads to the stream that listens under a name when
/// the request arrives, even after a reboot.
pub struct Endpoint<Q: Request>(pub(super) Target<Q>);

pub(super) enum Target<Q: Request> {
    Stream(Rc<Core<Q>>),
    WellKnown {
        kernel: WeakKernel,
        process: ProcessId,
        name: &'static str,
    },
}

impl<Q: Request> Clone for Endpoint<Q> {
    fn clone(&self) -> Self {
        Endpoint(self.0.clone())
    }
}

impl<Q: Request> Clone for Target<Q> {
    fn clone(&self) -> Self {
        match self {
            Target::Stream(core) => Target::Stream(core.clone()),
            Target::WellKnown {
                kernel,
                process,
                name,
            } => Target::WellKnown {
                kernel: kernel.clone(),
                process: *process,
                name,
            },
        }
    }
}

impl<Q: Request> fmt::Debug for Endpoint<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = std::any::type_name::<Q>();
        write!(f, "Endpoint<{kind}>({:?}", self.process())?;
        if let Target::WellKnown { name, .. } = &self.0 {
            write!(f, ", {name:?}")?;
        }
        write!(f, ")")
    }
}

impl<Q: Request> PartialEq for Endpoint<Q> {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
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
    /// The process that listens.
    pub fn process(&self) -> ProcessId {
        match &self.0 {
            Target::Stream(core) => core.process,
            Target::WellKnown { process, .. } => *process,
        }
    }

    /// Sends a request from a process and returns a future of its outcome.
    pub fn request(&self, from: ProcessId, request: Q) -> Requesting<Q::Reply> {
        self.ask(from, request, false)
    }

    /// The same for a request that outlives its connection: it is delivered and answered over the
    /// next one, and ends without an answer only if the receiver dies or refuses. Most requests
    /// between servers are of this kind.
    pub fn request_reliably(&self, from: ProcessId, request: Q) -> Requesting<Q::Reply> {
        self.ask(from, request, true)
    }

    fn ask(&self, from: ProcessId, request: Q, reliable: bool) -> Requesting<Q::Reply> {
        let (pending, kernel) = self.prepare(from, reliable);
        let Some(kernel) = kernel else {
            pending.complete(Err(Disconnected::Refused));
            return Requesting(pending);
        };
        pending.register(&kernel);
        let id = pending.link();
        self.ship(&kernel, request, Reply::new(pending.clone()));
        kernel.monitor(id);
        Requesting(pending)
    }

    /// Sends a request whose outcome does not matter: nothing waits for it, and no silence is
    /// noticed.
    pub fn send(&self, from: ProcessId, request: Q) {
        if let Some(kernel) = self.kernel(from) {
            let to = self.process();
            self.ship(&kernel, request, Reply::unwanted(LinkId { from, to }));
        }
    }

    /// The kernel, if the sender is alive.
    fn kernel(&self, from: ProcessId) -> Option<Kernel> {
        let kernel = self.weak_kernel().upgrade();
        kernel.filter(|kernel| kernel.is_alive(from))
    }

    fn weak_kernel(&self) -> &WeakKernel {
        match &self.0 {
            Target::Stream(core) => &core.kernel,
            Target::WellKnown { kernel, .. } => kernel,
        }
    }

    /// Prepares the pending request; returns the kernel too, if the sender is alive.
    fn prepare(&self, from: ProcessId, reliable: bool) -> (Rc<Pending<Q::Reply>>, Option<Kernel>) {
        let (to, kernel) = (self.process(), self.kernel(from));
        let incarnation = match (&self.0, &kernel) {
            (Target::Stream(core), _) => core.incarnation,
            (Target::WellKnown { .. }, Some(kernel)) => kernel.incarnation(to),
            (Target::WellKnown { .. }, None) => 0,
        };
        let link = LinkId { from, to };
        let kernel_of_reply = self.weak_kernel().clone();
        let pending = Pending::new(kernel_of_reply, link, reliable, incarnation);
        (pending, kernel)
    }

    fn ship(&self, kernel: &Kernel, request: Q, reply: Reply<Q::Reply>) {
        let LinkId { from, to } = reply.link();
        let parcel = RequestParcel {
            target: self.0.clone(),
            request,
            reply,
        };
        kernel.ship(from, to, std::any::type_name::<Q>(), Box::new(parcel));
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
        Endpoint(Target::WellKnown {
            kernel: self.downgrade(),
            process,
            name,
        })
    }
}

struct RequestParcel<Q: Request> {
    target: Target<Q>,
    request: Q,
    reply: Reply<Q::Reply>,
}

impl<Q: Request> Parcel for RequestParcel<Q> {
    fn arrive(self: Box<Self>, kernel: &Kernel, alone: bool) {
        let RequestParcel {
            target,
            request,
            reply,
        } = *self;
        let core = match target {
            Target::Stream(core) => Some(core),
            Target::WellKnown { process, name, .. } => kernel.well_known(process, name).map(|core| {
                core.downcast::<Core<Q>>().unwrap_or_else(|_| {
                    let kind = std::any::type_name::<Q>();
                    panic!("a {kind} was sent to {name:?} of {process:?}, which takes other requests")
                })
            }),
        };
        match core.filter(|core| core.is_open()) {
            Some(core) => core.receive(kernel, request, reply, alone),
            // Nobody answers for the dead, but one who knows that they are dead need not wait.
            None if kernel.is_silent(reply.link()) => {}
            None => {
                drop(request);
                reply.refuse();
            }
        }
    }

    fn delivery(&self) -> Delivery {
        self.reply.delivery()
    }
}
