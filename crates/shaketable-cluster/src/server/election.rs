//! Election: how a cluster gets a new controller when it has lost its own.
//!
//! Coordinators watch the controller. When a majority of them has lost sight of it, one of those
//! that noticed asks the fittest process it can reach to lead. Two may do so at once; then the
//! later one leads and the other steps down. That is harmless: what a controller does counts only
//! if the coordinators' register agrees.

use crate::server::controller::Surroundings;
use crate::server::layout::Fitness;
use crate::server::worker::Lead;
use shaketable_kernel::{Endpoint, ProcessId, first_of};
use std::rc::Rc;

/// The shortest and longest time a coordinator waits before it acts, in seconds.
const CANDIDACY: (f64, f64) = (0.2, 1.0);
/// The pause before it tries again, in seconds.
const RETRY: f64 = 0.5;

impl Surroundings {
    /// Whether, as far as this process knows, there is no leader.
    pub fn has_leader_failed(&self) -> bool {
        let here = self.env.process();
        match self.leader.get() {
            None => true,
            Some(leader) => {
                here.is_failed(leader.process)
                    || here.has_died_since(leader.process, leader.incarnation)
            }
        }
    }
}

/// A coordinator's part in elections, for as long as its process lives.
pub async fn watch_leader(around: Rc<Surroundings>) {
    let here = around.env.process().clone();
    let stream = here.stream("election");
    loop {
        around.coordinators.include_here().await;
        let changed = around.leader.on_change();
        if let Some(leader) = around.leader.get()
            && !around.has_leader_failed()
        {
            let failed = here.on_failed(leader.process);
            let _ = first_of(failed, changed).await;
            continue;
        }
        if !around.env.is_instant() {
            here.sleep(stream.range(CANDIDACY.0, CANDIDACY.1)).await;
        }
        if around.has_leader_failed() && !elect(&around).await {
            here.sleep(RETRY).await;
        }
    }
}

/// Makes a process lead, if a majority of coordinators agrees that there is no leader.
async fn elect(around: &Surroundings) -> bool {
    let here = around.env.process();
    if !around.coordinators.have_lost_leader().await {
        return false;
    }
    let mut candidates: Vec<ProcessId> = around
        .servers
        .iter()
        .copied()
        .filter(|candidate| here.is_truly_alive(*candidate) && !here.is_failed(*candidate))
        .collect();
    candidates.sort_by_key(|candidate| Fitness::Stateless.of(&here.describe(*candidate).class));
    for candidate in candidates {
        let lead: Endpoint<Lead> = here.well_known_endpoint(candidate, "worker lead");
        if here.request(&lead, Lead).await.is_ok() {
            return true;
        }
    }
    false
}
