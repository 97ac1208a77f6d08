//! A role: the tasks by which one process plays one part in a generation.
//!
//! A role ends in one of three ways: its process dies, its worker stops it because a newer
//! generation has begun, or it gives up because it lost contact with a part of its generation. In
//! each case its request streams close, and every task waiting for its end, above all the cluster
//! controller's, sees its [`WaitFailure`] break.

use crate::server::env::Env;
use pin_project_lite::pin_project;
use shaketable_kernel::{Endpoint, Priority, ProcessId, Reply, Request, Task};
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
    tasks: RefCell<Vec<Task<()>>>,
}

impl Role {
    /// A role on the process of this environment.
    pub fn new(env: &Env, priority: Priority) -> Role {
        Role(Rc::new(Inner {
            env: env.clone(),
            priority,
            tasks: RefCell::default(),
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
        self.spawn(stream.serve(handle));
        endpoint
    }

    /// Like [`Role::serve`], at a name by which the process is still found after a reboot.
    pub fn serve_well_known<Q: Request>(
        &self,
        name: &'static str,
        handle: impl FnMut(Q, Reply<Q::Reply>) + 'static,
    ) {
        let stream = self.0.env.process().listen_well_known::<Q>(name);
        self.spawn(stream.serve(handle));
    }

    /// Returns the endpoint at which others wait for the end of this role.
    pub fn serve_failure(&self) -> Endpoint<WaitFailure> {
        let mut waiting = Vec::new();
        self.serve(move |WaitFailure, reply| {
            waiting.retain(|reply: &Reply<()>| !reply.is_closed());
            waiting.push(reply);
        })
    }

    /// Runs a task that ends with the role. The role lives as long as one of its tasks does.
    pub fn spawn(&self, future: impl Future<Output = ()> + 'static) {
        let body = Body {
            future: Some(future),
            role: Some(self.clone()),
        };
        let task = self.0.env.process().spawn(self.0.priority, body);
        let mut tasks = self.0.tasks.borrow_mut();
        if tasks.len() == tasks.capacity() {
            tasks.retain(|task| !task.is_finished());
        }
        tasks.push(task);
    }

    /// Ends the role.
    pub fn stop(&self) {
        let tasks = self.0.tasks.take();
        drop(tasks);
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
