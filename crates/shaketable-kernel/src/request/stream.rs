//! The receiving end: streams of requests, and the handlers that serve them.
//!
//! A request stays in the block in which it was sent until its handler takes it out: moving it from
//! the network to the queue and to the handler would copy it each time. So everything up to there
//! is the same for requests of all kinds, and is compiled once.

use super::Request;
use super::endpoint::{Endpoint, Target};
use super::pending::Reply;
use crate::kernel::{Kernel, WeakKernel};
use crate::priority::Priority;
use crate::process::ProcessId;
use crate::wakeup::{self, Wakeup};
use futures_core::Stream;
use std::any::{Any, TypeId};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Where the requests of one kind arrive, those of each sender in order. It is also a `Stream`.
pub struct RequestStream<Q: Request> {
    listening: Listening,
    kind: PhantomData<fn() -> Q>,
}

impl<Q: Request> RequestStream<Q> {
    /// Returns the next request, and the handle to answer it with.
    pub async fn recv(&mut self) -> (Q, Reply<Q::Reply>) {
        std::future::poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Returns the next request if it has already arrived.
    pub fn try_recv(&mut self) -> Option<(Q, Reply<Q::Reply>)> {
        let next = self.listening.0.state.borrow_mut().queue.pop_front();
        next.map(unpack)
    }

    /// Calls `handle` for each request, in the order they arrive, for as long as what this returns
    /// lives, and the process. A request that arrives while other code runs, such as its sender's,
    /// waits for its turn among what is ready, at this priority. No task is needed for that.
    pub fn serve(
        self,
        priority: Priority,
        mut handle: impl FnMut(Q, Reply<Q::Reply>) + 'static,
    ) -> Serving {
        let handle = move |contents| {
            let (request, reply) = unpack(contents);
            handle(request, reply);
        };
        let handle = Rc::new(RefCell::new(handle));
        self.listening.0.serve_by(priority, handle);
        Serving(self.listening)
    }

    /// Returns another handle for sending requests here.
    pub fn endpoint(&self) -> Endpoint<Q> {
        Endpoint::to(Target::Stream(self.listening.0.clone()))
    }

    fn poll_recv(&self, cx: &mut Context<'_>) -> Poll<(Q, Reply<Q::Reply>)> {
        self.listening.0.poll_next(cx).map(unpack)
    }
}

/// Requests that a handler serves; see [`RequestStream::serve`]. Dropping it closes the stream.
#[must_use = "dropping this closes the stream"]
pub struct Serving(#[expect(dead_code, reason = "it is held until this is dropped")] Listening);

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Serving")
    }
}

impl<Q: Request> Stream for RequestStream<Q> {
    type Item = (Q, Reply<Q::Reply>);
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_recv(cx).map(Some)
    }
}

impl<Q: Request> fmt::Debug for RequestStream<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "RequestStream<{}>({:?})",
            std::any::type_name::<Q>(),
            self.listening.0.process
        )
    }
}

impl Kernel {
    /// Opens a place where requests of one kind arrive at a process. It closes when the stream is
    /// dropped or the process dies.
    pub fn listen<Q: Request>(&self, process: ProcessId) -> (Endpoint<Q>, RequestStream<Q>) {
        let core = self.open_stream(process, TypeId::of::<Packed<Q>>());
        let stream = RequestStream {
            listening: Listening(core.clone()),
            kind: PhantomData,
        };
        (Endpoint::to(Target::Stream(core)), stream)
    }

    /// Like [`Kernel::listen`], under a name that is known beforehand: after a reboot the process
    /// listens again under the same name. The last stream to listen under a name owns it.
    pub fn listen_well_known<Q: Request>(
        &self,
        process: ProcessId,
        name: &'static str,
    ) -> RequestStream<Q> {
        let (_, stream) = self.listen::<Q>(process);
        if self.is_alive(process) {
            self.set_well_known(process, name, Rc::downgrade(&stream.listening.0));
        }
        stream
    }

    fn open_stream(&self, process: ProcessId, kind: TypeId) -> Rc<Core> {
        let core = Rc::new(Core {
            kernel: self.downgrade(),
            process,
            incarnation: self.incarnation(process),
            kind,
            open: Cell::new(self.is_alive(process)),
            state: RefCell::default(),
        });
        self.add_stream(process, Rc::downgrade(&core));
        core
    }
}

/// A request of some kind, and what answers it.
pub(crate) trait Contents: Any {
    /// Records that it has reached a stream of this incarnation of its receiver.
    fn received_by(&self, incarnation: u32);
    /// Ends it: it was certainly not processed.
    fn refuse(self: Box<Self>);
    /// The type of the request.
    fn kind(&self) -> &'static str;
}

/// See [`Contents`].
pub(super) struct Packed<Q: Request> {
    pub(super) request: Q,
    pub(super) reply: Reply<Q::Reply>,
}

impl<Q: Request> Contents for Packed<Q> {
    fn received_by(&self, incarnation: u32) {
        self.reply.received_by(incarnation);
    }

    fn refuse(self: Box<Self>) {
        let Packed { request, reply } = *self;
        drop(request);
        reply.refuse();
    }

    fn kind(&self) -> &'static str {
        std::any::type_name::<Q>()
    }
}

#[inline]
fn unpack<Q: Request>(contents: Box<dyn Contents>) -> (Q, Reply<Q::Reply>) {
    let contents: Box<dyn Any> = contents;
    let Ok(packed) = contents.downcast::<Packed<Q>>() else {
        panic!("a stream takes requests of one kind");
    };
    let Packed { request, reply } = *packed;
    (request, reply)
}

/// A stream that nothing reads from any more refuses what has arrived.
struct Listening(Rc<Core>);

impl Drop for Listening {
    fn drop(&mut self) {
        for contents in self.0.take_queue() {
            contents.refuse();
        }
    }
}

/// What the two handles of a stream share.
pub(crate) struct Core {
    pub(super) kernel: WeakKernel,
    pub(super) process: ProcessId,
    pub(super) incarnation: u32,
    /// What it takes.
    kind: TypeId,
    open: Cell<bool>,
    state: RefCell<StreamState>,
}

#[derive(Default)]
struct StreamState {
    queue: VecDeque<Box<dyn Contents>>,
    wakeup: Option<Wakeup>,
    handler: Option<(Priority, Handler)>,
    /// Whether it waits among what is ready, to serve what is queued.
    has_turn: bool,
}

/// See [`RequestStream::serve`].
type Handler = Rc<RefCell<dyn FnMut(Box<dyn Contents>)>>;

impl Core {
    pub(super) fn is_open(&self) -> bool {
        self.open.get()
    }

    /// # Panics
    /// If requests of this kind do not belong here.
    pub(super) fn assert_takes(&self, contents: &dyn Contents, name: &str) {
        let any: &dyn Any = contents;
        assert!(
            any.type_id() == self.kind,
            "a {} was sent to {name:?} of {:?}, which takes other requests",
            contents.kind(),
            self.process
        );
    }

    /// Receives a request. If no other code is running (`alone`) and nothing is queued before it,
    /// the handler serves it at once; otherwise it is queued.
    pub(super) fn receive(
        self: Rc<Self>,
        kernel: &Kernel,
        contents: Box<dyn Contents>,
        alone: bool,
    ) {
        let lives = kernel.lives(self.process, self.incarnation);
        assert!(
            lives,
            "a message arrives only in the life in which its stream was opened"
        );
        contents.received_by(self.incarnation);
        let wakeup = {
            let mut guard = self.state.borrow_mut();
            let state = &mut *guard;
            if let Some((priority, handler)) = &state.handler {
                if alone && state.queue.is_empty() {
                    let handler = handler.clone();
                    drop(guard);
                    return kernel.run_as(self.process, || handler.borrow_mut()(contents));
                }
                if !std::mem::replace(&mut state.has_turn, true) {
                    kernel.0.ready.push_served(*priority, self.clone());
                }
            }
            state.queue.push_back(contents);
            state.wakeup.take()
        };
        if let Some(wakeup) = wakeup {
            wakeup.wake();
        }
    }

    /// Serves the requests that wait for their turn.
    pub(crate) fn serve(&self, kernel: &Kernel) {
        loop {
            let mut state = self.state.borrow_mut();
            let next = state.queue.pop_front();
            let (Some(contents), Some((_, handler))) = (next, &state.handler) else {
                state.has_turn = false;
                return;
            };
            let handler = handler.clone();
            drop(state);
            kernel.run_as(self.process, || handler.borrow_mut()(contents));
        }
    }

    /// Closes the stream of a process that has died.
    pub(crate) fn close(&self) {
        let queue = self.take_queue();
        drop(queue);
    }

    fn serve_by(&self, priority: Priority, handler: Handler) {
        if self.is_open() {
            let mut state = self.state.borrow_mut();
            state.handler = Some((priority, handler));
            assert!(
                state.queue.is_empty(),
                "what is served is served from the beginning"
            );
        }
    }

    fn poll_next(&self, cx: &Context<'_>) -> Poll<Box<dyn Contents>> {
        let mut state = self.state.borrow_mut();
        if let Some(contents) = state.queue.pop_front() {
            return Poll::Ready(contents);
        }
        wakeup::remember(&mut state.wakeup, cx);
        Poll::Pending
    }

    fn take_queue(&self) -> VecDeque<Box<dyn Contents>> {
        self.open.set(false);
        let mut state = self.state.borrow_mut();
        state.wakeup = None;
        let handler = state.handler.take();
        let queue = std::mem::take(&mut state.queue);
        drop(state); // what the handler holds may call back here
        drop(handler);
        queue
    }
}
