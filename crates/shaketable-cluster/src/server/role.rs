//! A role: the tasks, and the requests served, by which one process plays one part in a generation.
//!
//! A role ends in one of three ways: its process dies, its worker stops it because a newer
//! generation has begun, or it gives up because it lost contact with a part of its generation. In
//! each case its request streams close, and every task waiting for its end, above all the cluster
//! controller's, sees its [`WaitFailure`] break.

use crate::server::env::Env;
use pin_project_lite::pin_project;
use shaketable_kernel::{
    Endpoint, Job, Priority, ProcessId, Reply, Request, RequestStream, Serving,
};
use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// Held by a role for as long as it lives.
#[derive(Debug)]
pub struct WaitFailure;
impl Request for WaitFailure {
    /// Never answered.
    type Reply = ();
}

/// The tasks of a role. Clones share the same role.
#[derive(Clone)]
pub struct Role(Rc<Inner>);

struct Inner {
    env: Env,
    priority: Priority,
    parts: RefCell<Vec<Part>>,
}

/// What a role consists of, in the order in which it began: so it ends.
enum Part {
    Task(Job),
    Served(#[expect(dead_code, reason = "it is held until the role ends")] Serving),
}

impl Role {
    /// A role on the process of this environment.
    pub fn new(env: &Env, priority: Priority) -> Role {
        Role(Rc::new(Inner {
            env: env.clone(),
            priority,
            parts: RefCell::default(),
        }))
    }

    /// The process that plays it.
    pub fn process(&self) -> ProcessId {
        self.0.env.process().id()
    }

    /// The process it runs on, and the instruments of the run.
    pub fn env(&self) -> &Env {
        &self.0.env
    }

    /// Answers requests of one kind by calling `handle` for each, in the order they arrive.
    pub fn serve<Q: Request>(
        &self,
        handle: impl FnMut(Q, Reply<Q::Reply>) + 'static,
    ) -> Endpoint<Q> {
        let (endpoint, stream) = self.0.env.process().listen::<Q>();
        self.serve_stream(stream, handle);
        endpoint
    }

    fn serve_stream<Q: Request>(
        &self,
        stream: RequestStream<Q>,
        mut handle: impl FnMut(Q, Reply<Q::Reply>) + 'static,
    ) {
        // The role lives as long as it is asked for something.
        let role = self.clone();
        let serving = stream.serve(self.0.priority, move |request, reply| {
            let _lives = &role;
            handle(request, reply);
        });
        self.0.parts.borrow_mut().push(Part::Served(serving));
    }

    /// Like [`Role::serve`], at a name by which the process is still found after a reboot.
    pub fn serve_well_known<Q: Request>(
        &self,
        name: &'static str,
        handle: impl FnMut(Q, Reply<Q::Reply>) + 'static,
    ) {
        let stream = self.0.env.process().listen_well_known::<Q>(name);
        self.serve_stream(stream, handle);
    }

    /// Returns the endpoint at which others wait for the end of this role.
    pub fn serve_failure(&self) -> Endpoint<WaitFailure> {
        let mut waiting = Vec::new();
        self.serve(move |WaitFailure, reply| {
            waiting.retain(|reply: &Reply<()>| !reply.is_closed());
            waiting.push(reply);
        })
    }

    /// Runs a task that ends with the role. The role lives as long as one of its tasks does, or
    /// until it is stopped.
    pub fn spawn(&self, future: impl Future<Output = ()> + 'static) {
        let body = Body {
            future: Some(future),
            role: Some(self.clone()),
        };
        let task = self.0.env.process().start(self.0.priority, body);
        let mut parts = self.0.parts.borrow_mut();
        if parts.len() == parts.capacity() {
            parts.retain(|part| !matches!(part, Part::Task(task) if task.is_finished()));
        }
        parts.push(Part::Task(task));
    }

    /// Ends the role.
    pub fn stop(&self) {
        let parts = self.0.parts.take();
        drop(parts);
    }
}

pin_project! {
    /// A task of a role. Not an `async` block, which would reserve room for the future twice.
    struct Body<F> {
        #[pin]
        future: Option<F>,
        role: Option<Role>,
    }
}

impl<F: Future<Output = ()>> Future for Body<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        if let Some(future) = this.future.as_mut().as_pin_mut() {
            ready!(future.poll(context));
        }
        this.future.set(None);
        *this.role = None;
        Poll::Ready(())
    }
}
