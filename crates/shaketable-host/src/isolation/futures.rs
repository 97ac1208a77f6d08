//! Other futures of a run: its process is copied at moments, and each copy goes on with other
//! draws.
//!
//! One process, the trunk, simulates the run as it was. At each moment it forks once for each seed,
//! and waits: the copy gives all streams that seed and lives to its end, while the trunk stands
//! still. What lies before a moment is simulated once, whatever the number of futures. A copy is
//! exactly what a run with [`Reseed`](shaketable_kernel::Reseed) from that moment on would have
//! become.
//!
//! A process with threads cannot be copied: they would be missing in the copy. Then there is no
//! answer, and each future has to be simulated from its beginning.

use super::beacon::Beacon;
use super::fork::{Child, ChildEnd, Fork, Report};
use super::{Isolation, Judge};
use crate::hermetic;
use crate::plan::{Futures, Plan, Recording, Settings};
use crate::tester;
use crate::verdict::{Failure, Outcome};
use shaketable_kernel::{Kernel, Time};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// The signatures of failures, by moment and by seed.
type Signatures = Vec<Vec<Vec<String>>>;

impl Isolation {
    /// Simulates futures; the outcome says nothing but what became of them.
    pub(super) fn run_futures(
        &self,
        plan: &Plan,
        settings: &Settings,
        seed: u32,
        futures: &Futures,
    ) -> Outcome {
        let count = futures.moments.len() * futures.seeds.len() + 1;
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let child = Child::fork_trunk(|report| {
            let trunk = Rc::new(Trunk {
                plan: plan.clone(),
                seed,
                time_limit: self.time_limit,
                futures: futures.clone(),
                report: RefCell::new(Some(report)),
                is_branch: Cell::new(false),
                ended: RefCell::default(),
            });
            let nothing = Recording::Nothing;
            let outcome = tester::play(plan, settings, seed, &nothing, |kernel| {
                trunk.begin(kernel);
            });
            trunk.end(&outcome);
        });
        let end = child.and_then(|child| child.wait(self.time_limit.saturating_mul(count)));
        let futures = match end {
            Ok(ChildEnd::Reported(report)) => serde_json::from_slice(&report).unwrap_or_default(),
            _ => Signatures::new(),
        };
        Outcome {
            seed,
            futures,
            ..Outcome::default()
        }
    }
}

/// The run that is copied, and in a copy what it is a copy of.
struct Trunk {
    plan: Plan,
    seed: u32,
    time_limit: Duration,
    futures: Futures,
    /// Where this process reports: a copy has its own.
    report: RefCell<Option<Report>>,
    is_branch: Cell<bool>,
    ended: RefCell<Signatures>,
}

impl Trunk {
    /// Plans the copies; those at the very beginning are made now.
    fn begin(self: &Rc<Self>, kernel: &Kernel) {
        for moment in self.futures.moments.clone() {
            let time = Time::from_secs(moment);
            if time <= kernel.now() {
                self.copy(kernel);
            } else {
                let trunk = self.clone();
                kernel.call_at(time, move |kernel| trunk.copy(kernel));
            }
        }
    }

    /// Copies this process for each seed, one after the other. Returns in the trunk, and in each
    /// copy.
    fn copy(&self, kernel: &Kernel) {
        if self.is_branch.get() {
            return;
        }
        let judge = Judge {
            plan: &self.plan,
            seed: self.seed,
            recording: &Recording::Nothing,
            time_limit: self.time_limit,
        };
        let saved = Beacon::current().save();
        let mut ended = Vec::new();
        for seed in &self.futures.seeds {
            Beacon::restore(&saved);
            match hermetic::outside(|| fork_alone(self.time_limit)) {
                Some(Copied::Itself(report)) => {
                    self.report.replace(Some(report));
                    self.is_branch.set(true);
                    kernel.reseed_streams("", *seed);
                    return;
                }
                Some(Copied::Ended(end)) => {
                    let outcome = judge.outcome(end);
                    let failures = outcome.failures.iter();
                    ended.push(failures.map(Failure::signature).collect());
                }
                None => self.send(&Signatures::new()),
            }
        }
        Beacon::restore(&saved);
        self.ended.borrow_mut().push(ended);
        if self.ended.borrow().len() == self.futures.moments.len() {
            self.send(&*self.ended.borrow());
        }
    }

    /// The simulation has ended in this process.
    fn end(&self, outcome: &Outcome) {
        match self.is_branch.get() {
            true => self.send(outcome),
            // Moments after the end have no futures.
            false => self.send(&Signatures::new()),
        }
    }

    fn send(&self, what: &impl serde::Serialize) {
        let report = self.report.take().expect("a process reports once");
        // An empty report cannot be read, and counts as none.
        let bytes = serde_json::to_vec(what).unwrap_or_default();
        hermetic::outside(|| report.send(bytes))
    }
}

/// What a fork has become.
pub(super) enum Copied {
    /// This process is the copy.
    Itself(Report),
    /// The copy has ended.
    Ended(std::io::Result<ChildEnd>),
}

/// Copies this process, if it has no threads that a copy would lack, and waits for the copy's end.
pub(super) fn fork_alone(limit: Duration) -> Option<Copied> {
    let threads = std::fs::read_dir("/proc/self/task").ok()?.count();
    if threads != 1 {
        return None;
    }
    Some(match Child::branch() {
        Ok(Fork::Child(report)) => Copied::Itself(report),
        Ok(Fork::Parent(child)) => Copied::Ended(child.wait(limit)),
        Err(error) => Copied::Ended(Err(error)),
    })
}
