//! Election: how a cluster gets a new controller when it has lost its own.
//!
//! Coordinators watch the controller. When a majority of them has lost sight of it, one of those
//! that noticed asks the fittest process it can reach to lead. Two may do so at once; then the
//! later one leads and the other steps down. That is harmless: what a controller does counts only
//! if the coordinators' register agrees.

use crate::server::controller::Surroundings;
use crate::server::layout::Fitness;
use crate::server::role::Role;
use crate::server::worker::Lead;
use shaketable_kernel::{Endpoint, Kernel, Priority, ProcessId, Request, first_of};
use std::rc::Rc;

/// The shortest and longest time a coordinator waits before it acts, in seconds.
const CANDIDACY: (f64, f64) = (0.2, 1.0);
/// The pause before it tries again, in seconds.
const RETRY: f64 = 0.5;

/// Asks a coordinator whether it has lost sight of the controller.
#[derive(Debug)]
pub struct HasLeaderFailed;
impl Request for HasLeaderFailed {
    type Reply = bool;
}

/// The endpoint at which a coordinator answers that.
pub fn opinion_endpoint(kernel: &Kernel, coordinator: ProcessId) -> Endpoint<HasLeaderFailed> {
    kernel.well_known_endpoint(coordinator, "coordinator opinion")
}

/// Starts a coordinator's part in elections: called at every boot.
pub fn start(around: &Surroundings, process: ProcessId) {
    let role = Role::new(&around.env, process, Priority::Coordination);
    let asked = around.clone();
    role.serve_well_known("coordinator opinion", move |HasLeaderFailed, reply| {
        reply.send(asked.has_leader_failed(process));
    });
    role.spawn(watch_leader(Rc::new(around.clone()), process));
}

impl Surroundings {
    /// Whether, as far as a process knows, there is no leader.
    fn has_leader_failed(&self, observer: ProcessId) -> bool {
        let kernel = self.env.kernel();
        match self.leader.get() {
            None => true,
            Some(leader) => {
                kernel.is_failed(observer, leader.process)
                    || kernel.incarnation(leader.process) != leader.incarnation
            }
        }
    }
}

async fn watch_leader(around: Rc<Surroundings>, process: ProcessId) {
    let kernel = around.env.kernel().clone();
    let stream = kernel.stream("election");
    loop {
        let changed = around.leader.on_change();
        if let Some(leader) = around.leader.get()
            && !around.has_leader_failed(process)
        {
            let failed = kernel.on_failed(process, leader.process);
            let _ = first_of(failed, changed).await;
            continue;
        }
        if !around.env.is_instant() {
            kernel.sleep(stream.range(CANDIDACY.0, CANDIDACY.1)).await;
        }
        if around.has_leader_failed(process) && !elect(&around, process).await {
            kernel.sleep(RETRY).await;
        }
    }
}

/// Makes a process lead, if a majority of coordinators agrees that there is no leader.
async fn elect(around: &Surroundings, process: ProcessId) -> bool {
    let kernel = around.env.kernel();
    let coordinators = &around.coordinators.processes;
    let opinions: Vec<_> = coordinators
        .iter()
        .map(|other| opinion_endpoint(kernel, *other).request(process, HasLeaderFailed))
        .collect();
    let mut votes = 0;
    for opinion in opinions {
        votes += usize::from(opinion.await == Ok(true));
    }
    if votes <= coordinators.len() / 2 {
        return false;
    }
    let mut candidates: Vec<ProcessId> = around
        .servers
        .iter()
        .copied()
        .filter(|candidate| kernel.is_alive(*candidate) && !kernel.is_failed(process, *candidate))
        .collect();
    candidates.sort_by_key(|candidate| Fitness::Stateless.of(&kernel.process(*candidate).class));
    for candidate in candidates {
        let lead: Endpoint<Lead> = kernel.well_known_endpoint(candidate, "worker lead");
        if lead.request(process, Lead).await.is_ok() {
            return true;
        }
    }
    false
}
