//! Requests and replies: the one way processes talk.
//!
//! A message is a plain Rust value and may carry endpoints. A request is sent when [`Endpoint::request`] is called,
//! not when its future is first polled, and ends in exactly one way: with its reply, `Refused`, or `MaybeDelivered`.
//! Dropping the future forgets the request on this side; the receiver may still serve it.
//!
//! Most servers answer each request by itself, in the order they come: [`RequestStream::serve`]. Then a message from another process is handled right where its
//! time has come, without waking a task for it; that is half of what a message costs. A message a process sends to itself, or over a network
//! without latency, arrives while its sender is still at work, so that one waits its turn in the queue.

use crate::kernel::{Kernel, WeakKernel};
use crate::network::{Delivery, LinkId, Parcel};
use crate::process::ProcessId;
use crate::sync::Completion;
use crate::wakeup::{self, Wakeup};
use futures_core::Stream;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A message that wants an answer.
pub trait Request: 'static {
    /// The answer.
    type Reply: 'static;
}

/// Why a request has no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Disconnected {
    /// The receiver was dead or had stopped listening: it has certainly not processed the request.
    #[error("the receiver is dead or does not listen; the request was not processed")]
    Refused,
    /// The connection broke, the receiver died, or it dropped the reply: it may have processed the request.
    #[error("the connection to the receiver was lost; the request may have been processed")]
    MaybeDelivered,
}

/// Where requests of one kind can be sent. It may travel inside messages.
///
/// The endpoint that [`Kernel::listen`] gives leads to that one stream and dies with it. The one that
/// [`Kernel::well_known_endpoint`] gives leads to whatever listens under a name when the request arrives, also after a reboot.
pub struct Endpoint<Q: Request>(Target<Q>);

enum Target<Q: Request> {
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

    /// Sends a request from a process and waits for what becomes of it.
    pub fn request(&self, from: ProcessId, request: Q) -> Requesting<Q::Reply> {
        self.ask(from, request, false)
    }

    /// The same for a request that outlives its connection: it is delivered and answered over the next one, and ends
    /// without an answer only if the receiver dies or refuses. Most requests between servers are of this kind.
    pub fn request_reliably(&self, from: ProcessId, request: Q) -> Requesting<Q::Reply> {
        self.ask(from, request, true)
    }

    fn ask(&self, from: ProcessId, request: Q, reliable: bool) -> Requesting<Q::Reply> {
        let (pending, kernel) = self.prepare(from, reliable, Completion::new());
        let Some(kernel) = kernel else {
            pending.complete(Err(Disconnected::Refused));
            return Requesting(pending);
        };
        let id = LinkId {
            from,
            to: pending.to,
        };
        if id.from != id.to {
            let mut network = kernel.0.network.borrow_mut();
            let slot = network.register(id, pending.clone());
            pending.slot.set(Some(slot));
        }
        self.ship(&kernel, request, pending.clone());
        kernel.monitor(id);
        Requesting(pending)
    }

    /// Sends a request whose fate is of no interest: nobody waits, so nobody is told, and no silence counts.
    pub fn send(&self, from: ProcessId, request: Q) {
        if let (pending, Some(kernel)) = self.prepare(from, false, Completion::closed()) {
            self.ship(&kernel, request, pending);
        }
    }

    /// What becomes of a request; and the kernel, if the sender lives.
    fn prepare(
        &self,
        from: ProcessId,
        reliable: bool,
        outcome: Completion<Result<Q::Reply, Disconnected>>,
    ) -> (Rc<Pending<Q::Reply>>, Option<Kernel>) {
        let to = self.process();
        let weak = match &self.0 {
            Target::Stream(core) => &core.kernel,
            Target::WellKnown { kernel, .. } => kernel,
        };
        let kernel = weak.upgrade().filter(|kernel| kernel.is_alive(from));
        let incarnation = match (&self.0, &kernel) {
            (Target::Stream(core), _) => core.incarnation,
            (Target::WellKnown { .. }, Some(kernel)) => kernel.incarnation(to),
            (Target::WellKnown { .. }, None) => 0,
        };
        let pending = Rc::new(Pending {
            kernel: weak.clone(),
            from,
            to,
            reliable,
            incarnation: Cell::new(incarnation),
            slot: Cell::new(None),
            outcome,
        });
        (pending, kernel)
    }

    fn ship(&self, kernel: &Kernel, request: Q, pending: Rc<Pending<Q::Reply>>) {
        let (from, to) = (pending.from, pending.to);
        let reply = Reply {
            pending,
            answered: false,
        };
        let parcel = RequestParcel {
            target: self.0.clone(),
            request,
            reply,
        };
        kernel.ship(from, to, std::any::type_name::<Q>(), Box::new(parcel));
    }
}

/// The pending side of [`Endpoint::request`].
#[must_use = "dropping this forgets the request"]
pub struct Requesting<R>(Rc<Pending<R>>);

impl<R> Future for Requesting<R> {
    type Output = Result<R, Disconnected>;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.outcome.poll(cx)
    }
}

impl<R> Drop for Requesting<R> {
    fn drop(&mut self) {
        self.0.unregister();
        self.0.outcome.close();
    }
}

impl<R> fmt::Debug for Requesting<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Requesting({:?} -> {:?})", self.0.from, self.0.to)
    }
}

/// Where the requests of one kind arrive, in the order of each sender. It is also a `Stream`.
pub struct RequestStream<Q: Request>(Rc<Core<Q>>);

impl<Q: Request> RequestStream<Q> {
    /// The next request, and the handle to answer it with.
    pub async fn recv(&mut self) -> (Q, Reply<Q::Reply>) {
        std::future::poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// The next request if it is there already.
    pub fn try_recv(&mut self) -> Option<(Q, Reply<Q::Reply>)> {
        self.0.state.borrow_mut().queue.pop_front()
    }

    /// Calls `handle` for each request, in the order they arrive, for as long as this future lives.
    pub async fn serve(mut self, handle: impl FnMut(Q, Reply<Q::Reply>) + 'static) {
        let handle = Rc::new(RefCell::new(handle));
        self.0.state.borrow_mut().handler = Some(handle.clone());
        loop {
            let (request, reply) = self.recv().await;
            handle.borrow_mut()(request, reply);
        }
    }

    /// Another handle to send requests here.
    pub fn endpoint(&self) -> Endpoint<Q> {
        Endpoint(Target::Stream(self.0.clone()))
    }

    fn poll_recv(&self, cx: &mut Context<'_>) -> Poll<(Q, Reply<Q::Reply>)> {
        let mut state = self.0.state.borrow_mut();
        if let Some(incoming) = state.queue.pop_front() {
            return Poll::Ready(incoming);
        }
        wakeup::remember(&mut state.wakeup, cx);
        Poll::Pending
    }
}

impl<Q: Request> Stream for RequestStream<Q> {
    type Item = (Q, Reply<Q::Reply>);
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_recv(cx).map(Some)
    }
}

impl<Q: Request> Drop for RequestStream<Q> {
    fn drop(&mut self) {
        for (request, reply) in self.0.take_queue() {
            drop(request);
            reply.refuse();
        }
    }
}

impl<Q: Request> fmt::Debug for RequestStream<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "RequestStream<{}>({:?})",
            std::any::type_name::<Q>(),
            self.0.process
        )
    }
}

/// Answers one request. Dropping it unused tells the requester `MaybeDelivered`.
#[must_use = "dropping a reply unused tells the requester that its request may have been processed"]
pub struct Reply<R: 'static> {
    pending: Rc<Pending<R>>,
    answered: bool,
}

impl<R: 'static> Reply<R> {
    /// Sends the answer.
    pub fn send(mut self, value: R) {
        self.answer(Ok(value));
    }

    /// The process that asks.
    pub fn from(&self) -> ProcessId {
        self.pending.from
    }

    /// Whether nobody waits for the answer any more.
    pub fn is_closed(&self) -> bool {
        !self.pending.outcome.is_awaited()
    }

    fn refuse(mut self) {
        self.answer(Err(Disconnected::Refused));
    }

    fn answer(&mut self, result: Result<R, Disconnected>) {
        self.answered = true;
        if self.is_closed() {
            return;
        }
        let Some(kernel) = self.pending.kernel.upgrade() else {
            return;
        };
        let Pending { from, to, .. } = *self.pending;
        let parcel = ReplyParcel {
            pending: self.pending.clone(),
            result,
        };
        kernel.ship(to, from, std::any::type_name::<R>(), Box::new(parcel));
    }

    /// Whether the process that took the request is still in the same life.
    fn receiver_lives(&self) -> bool {
        let pending = &self.pending;
        pending.kernel.upgrade().is_some_and(|kernel| {
            kernel.is_alive(pending.to)
                && kernel.incarnation(pending.to) == pending.incarnation.get()
        })
    }
}

impl<R: 'static> Drop for Reply<R> {
    fn drop(&mut self) {
        // The death of a process tells its requesters by itself.
        if !self.answered && self.receiver_lives() {
            self.answer(Err(Disconnected::MaybeDelivered));
        }
    }
}

impl<R: 'static> fmt::Debug for Reply<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reply({:?} -> {:?})", self.pending.to, self.pending.from)
    }
}

impl Kernel {
    /// Opens a place where requests of one kind arrive at a process. It closes when the stream is dropped or the process dies.
    pub fn listen<Q: Request>(&self, process: ProcessId) -> (Endpoint<Q>, RequestStream<Q>) {
        let core = Rc::new(Core {
            kernel: self.downgrade(),
            process,
            incarnation: self.incarnation(process),
            state: RefCell::new(StreamState {
                open: self.is_alive(process),
                queue: VecDeque::new(),
                wakeup: None,
                handler: None,
            }),
        });
        let close: Rc<dyn CloseStream> = core.clone();
        self.add_stream(process, Rc::downgrade(&close));
        (Endpoint(Target::Stream(core.clone())), RequestStream(core))
    }

    /// Like [`Kernel::listen`], under a name by which it can be found without having been told of: after
    /// a reboot the process listens again under the same name. The last one to listen under a name has it.
    pub fn listen_well_known<Q: Request>(
        &self,
        process: ProcessId,
        name: &'static str,
    ) -> RequestStream<Q> {
        let (_, stream) = self.listen::<Q>(process);
        if self.is_alive(process) {
            let core: Rc<dyn Any> = stream.0.clone();
            self.set_well_known(process, name, Rc::downgrade(&core));
        }
        stream
    }

    /// Where the requests to a well-known name of a process go, whether or not anybody listens there yet.
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

/// A stream that dies with its process.
pub(crate) trait CloseStream {
    fn close(&self);
}

/// A request that can be told that its connection is lost.
pub(crate) trait PendingRequest {
    fn incarnation(&self) -> u32;
    fn is_reliable(&self) -> bool;
    fn disconnect(&self);
}

struct Core<Q: Request> {
    kernel: WeakKernel,
    process: ProcessId,
    incarnation: u32,
    state: RefCell<StreamState<Q>>,
}

struct StreamState<Q: Request> {
    open: bool,
    queue: VecDeque<(Q, Reply<Q::Reply>)>,
    wakeup: Option<Wakeup>,
    handler: Option<Handler<Q>>,
}

/// See [`RequestStream::serve`].
type Handler<Q> = Rc<RefCell<dyn FnMut(Q, Reply<<Q as Request>::Reply>)>>;

impl<Q: Request> Core<Q> {
    fn take_queue(&self) -> VecDeque<(Q, Reply<Q::Reply>)> {
        let mut state = self.state.borrow_mut();
        state.open = false;
        state.wakeup = None;
        let handler = state.handler.take();
        let queue = std::mem::take(&mut state.queue);
        drop(state); // what the handler holds may come back here
        drop(handler);
        queue
    }
}

impl<Q: Request> CloseStream for Core<Q> {
    fn close(&self) {
        let queue = self.take_queue();
        drop(queue);
    }
}

struct Pending<R> {
    kernel: WeakKernel,
    from: ProcessId,
    to: ProcessId,
    reliable: bool,
    /// Of the receiver, as far as known.
    incarnation: Cell<u32>,
    /// Its place among the requests pending over the link.
    slot: Cell<Option<u32>>,
    outcome: Completion<Result<R, Disconnected>>,
}

impl<R> Pending<R> {
    fn delivery(&self) -> Delivery {
        if self.reliable {
            Delivery::Reliable
        } else {
            Delivery::AtMostOnce
        }
    }

    /// The first outcome counts; later ones are dropped.
    fn complete(&self, result: Result<R, Disconnected>) {
        if self.outcome.complete(result) {
            self.unregister();
        }
    }

    fn unregister(&self) {
        if let Some(slot) = self.slot.take()
            && let Some(kernel) = self.kernel.upgrade()
        {
            let request = kernel.0.network.borrow_mut().unregister(
                LinkId {
                    from: self.from,
                    to: self.to,
                },
                slot,
            );
            drop(request);
        }
    }
}

impl<R> PendingRequest for Pending<R> {
    fn incarnation(&self) -> u32 {
        self.incarnation.get()
    }

    fn is_reliable(&self) -> bool {
        self.reliable
    }

    fn disconnect(&self) {
        self.complete(Err(Disconnected::MaybeDelivered));
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
        let open = core.filter(|core| core.state.borrow().open);
        let Some(core) = open else {
            drop(request);
            reply.refuse();
            return;
        };
        reply.pending.incarnation.set(core.incarnation);
        let wakeup = {
            let mut state = core.state.borrow_mut();
            if alone
                && state.queue.is_empty()
                && let Some(handler) = state.handler.clone()
            {
                drop(state);
                return kernel.run_as(core.process, || handler.borrow_mut()(request, reply));
            }
            state.queue.push_back((request, reply));
            state.wakeup.take()
        };
        if let Some(wakeup) = wakeup {
            wakeup.wake();
        }
    }

    fn delivery(&self) -> Delivery {
        self.reply.pending.delivery()
    }
}

struct ReplyParcel<R> {
    pending: Rc<Pending<R>>,
    result: Result<R, Disconnected>,
}

impl<R: 'static> Parcel for ReplyParcel<R> {
    fn arrive(self: Box<Self>, _: &Kernel, _: bool) {
        self.pending.complete(self.result);
    }

    fn delivery(&self) -> Delivery {
        self.pending.delivery()
    }
}
