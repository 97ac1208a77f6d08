//! A role: the tasks by which one process plays one part in a generation.
//!
//! A role ends in one of three ways: its process dies, its worker stops it because a newer generation
//! has begun, or it gives itself up because it lost contact with a part of its generation. In each
//! case its request streams close, and whoever waits for it, the cluster controller first of all,
//! learns so from its broken [`WaitFailure`].

use crate::server::env::Env;
use shaketable_kernel::{Endpoint, Priority, ProcessId, Reply, Request, Task};
use std::cell::RefCell;
use std::rc::Rc;

/// Held by a role for as long as it lives.
#[derive(Debug)]
pub struct WaitFailure;
impl Request for WaitFailure {
    /// Never answered.
    type Reply = ();
}

/// The tasks of a role. Clones are the same role.
#[derive(Clone)]
pub struct Role(Rc<Inner>);

struct Inner {
    env: Env,
    process: ProcessId,
    priority: Priority,
    tasks: RefCell<Vec<Task<()>>>,
}

impl Role {
    /// A role on a process.
    pub fn new(env: &Env, process: ProcessId, priority: Priority) -> Role {
        Role(Rc::new(Inner {
            env: env.clone(),
            process,
            priority,
            tasks: RefCell::default(),
        }))
    }

    /// The process that plays it.
    pub fn process(&self) -> ProcessId {
        self.0.process
    }

    /// What all servers share.
    pub fn env(&self) -> &Env {
        &self.0.env
    }

    /// Answers requests of one kind by calling `handle` for each, in the order they arrive.
    pub fn serve<Q: Request>(
        &self,
        handle: impl FnMut(Q, Reply<Q::Reply>) + 'static,
    ) -> Endpoint<Q> {
        let (endpoint, stream) = self.0.env.kernel().listen::<Q>(self.0.process);
        self.spawn(stream.serve(handle));
        endpoint
    }

    /// Like [`Role::serve`], at a name by which the process is found also after a reboot.
    pub fn serve_well_known<Q: Request>(
        &self,
        name: &'static str,
        handle: impl FnMut(Q, Reply<Q::Reply>) + 'static,
    ) {
        let kernel = self.0.env.kernel();
        let stream = kernel.listen_well_known::<Q>(self.0.process, name);
        self.spawn(stream.serve(handle));
    }

    /// Where others wait for the end of this role.
    pub fn serve_failure(&self) -> Endpoint<WaitFailure> {
        let mut waiting = Vec::new();
        self.serve(move |WaitFailure, reply| {
            waiting.retain(|reply: &Reply<()>| !reply.is_closed());
            waiting.push(reply);
        })
    }

    /// Runs a task that ends with the role. The role lives as long as one of its tasks does.
    pub fn spawn(&self, future: impl Future<Output = ()> + 'static) {
        let role = self.clone();
        let body = async move {
            future.await;
            drop(role);
        };
        let task = self
            .0
            .env
            .kernel()
            .spawn(self.0.process, self.0.priority, body);
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
