//! The receiving end: streams of requests, and the handlers that serve them.

use super::Request;
use super::endpoint::{Endpoint, Target};
use super::pending::Reply;
use crate::kernel::{Kernel, WeakKernel};
use crate::priority::Priority;
use crate::process::ProcessId;
use crate::wakeup::{self, Wakeup};
use futures_core::Stream;
use std::any::Any;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Where the requests of one kind arrive, those of each sender in order. It is also a `Stream`.
pub struct RequestStream<Q: Request>(pub(super) Rc<Core<Q>>);

impl<Q: Request> RequestStream<Q> {
    /// Returns the next request, and the handle to answer it with.
    pub async fn recv(&mut self) -> (Q, Reply<Q::Reply>) {
        std::future::poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Returns the next request if it has already arrived.
    pub fn try_recv(&mut self) -> Option<(Q, Reply<Q::Reply>)> {
        self.0.state.borrow_mut().queue.pop_front()
    }

    /// Calls `handle` for each request, in the order they arrive, for as long as what this returns
    /// lives, and the process. A request that arrives while other code runs, such as its sender's,
    /// waits for its turn among what is ready, at this priority. No task is needed for that.
    pub fn serve(
        self,
        priority: Priority,
        handle: impl FnMut(Q, Reply<Q::Reply>) + 'static,
    ) -> Serving {
        let mut state = self.0.state.borrow_mut();
        if state.open {
            state.handler = Some((priority, Rc::new(RefCell::new(handle))));
            assert!(
                state.queue.is_empty(),
                "what is served is served from the beginning"
            );
        }
        drop(state);
        Serving(Box::new(self))
    }

    /// Returns another handle for sending requests here.
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

/// Requests that a handler serves; see [`RequestStream::serve`]. Dropping it closes the stream.
#[must_use = "dropping this closes the stream"]
pub struct Serving(#[expect(dead_code, reason = "it is held until this is dropped")] Box<dyn Any>);

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

impl Kernel {
    /// Opens a place where requests of one kind arrive at a process. It closes when the stream is
    /// dropped or the process dies.
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
                has_turn: false,
            }),
        });
        let close: Rc<dyn CloseStream> = core.clone();
        self.add_stream(process, Rc::downgrade(&close));
        (Endpoint(Target::Stream(core.clone())), RequestStream(core))
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
            let core: Rc<dyn Any> = stream.0.clone();
            self.set_well_known(process, name, Rc::downgrade(&core));
        }
        stream
    }
}

/// A stream that dies with its process.
pub(crate) trait CloseStream {
    fn close(&self);
}

/// A stream with requests that wait for their turn.
pub(crate) trait Served {
    fn serve(&self, kernel: &Kernel);
}

/// What the two handles of a stream share.
pub(super) struct Core<Q: Request> {
    pub(super) kernel: WeakKernel,
    pub(super) process: ProcessId,
    pub(super) incarnation: u32,
    state: RefCell<StreamState<Q>>,
}

struct StreamState<Q: Request> {
    open: bool,
    queue: VecDeque<(Q, Reply<Q::Reply>)>,
    wakeup: Option<Wakeup>,
    handler: Option<(Priority, Handler<Q>)>,
    /// Whether it waits among what is ready, to serve what is queued.
    has_turn: bool,
}

/// See [`RequestStream::serve`].
type Handler<Q> = Rc<RefCell<dyn FnMut(Q, Reply<<Q as Request>::Reply>)>>;

impl<Q: Request> Core<Q> {
    pub(super) fn is_open(&self) -> bool {
        self.state.borrow().open
    }

    /// Receives a request. If no other code is running (`alone`) and nothing is queued before it,
    /// the handler serves it at once; otherwise it is queued.
    pub(super) fn receive(
        self: &Rc<Self>,
        kernel: &Kernel,
        request: Q,
        reply: Reply<Q::Reply>,
        alone: bool,
    ) {
        let lives = kernel.lives(self.process, self.incarnation);
        assert!(
            lives,
            "a message arrives only in the life in which its stream was opened"
        );
        reply.received_by(self.incarnation);
        let wakeup = {
            let mut guard = self.state.borrow_mut();
            let state = &mut *guard;
            if let Some((priority, handler)) = &state.handler {
                if alone && state.queue.is_empty() {
                    let handler = handler.clone();
                    drop(guard);
                    return kernel.run_as(self.process, || handler.borrow_mut()(request, reply));
                }
                if !std::mem::replace(&mut state.has_turn, true) {
                    kernel.0.ready.push_served(*priority, self.clone());
                }
            }
            state.queue.push_back((request, reply));
            state.wakeup.take()
        };
        if let Some(wakeup) = wakeup {
            wakeup.wake();
        }
    }

    fn take_queue(&self) -> VecDeque<(Q, Reply<Q::Reply>)> {
        let mut state = self.state.borrow_mut();
        state.open = false;
        state.wakeup = None;
        let handler = state.handler.take();
        let queue = std::mem::take(&mut state.queue);
        drop(state); // what the handler holds may call back here
        drop(handler);
        queue
    }
}

impl<Q: Request> Served for Core<Q> {
    fn serve(&self, kernel: &Kernel) {
        loop {
            let mut state = self.state.borrow_mut();
            let next = state.queue.pop_front();
            let (Some((request, reply)), Some((_, handler))) = (next, &state.handler) else {
                state.has_turn = false;
                return;
            };
            let handler = handler.clone();
            drop(state);
            kernel.run_as(self.process, || handler.borrow_mut()(request, reply));
        }
    }
}

impl<Q: Request> CloseStream for Core<Q> {
    fn close(&self) {
        let queue = self.take_queue();
        drop(queue);
    }
}
