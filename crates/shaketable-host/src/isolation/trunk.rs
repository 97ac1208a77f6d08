//! A run whose process is copied while it is simulated.
//!
//! One process, the trunk, simulates the run as it is. Where something else is to be tried it forks
//! and waits: the copy goes its own way to its end and reports, while the trunk stands still. So
//! what lies before a copy is simulated once, whatever the number of copies. `futures.rs` decides
//! to copy at moments and draws the rest anew, `fates.rs` at operations and forces an outcome.
//!
//! A process with threads cannot be copied: they would be missing in the copy. Then there is no
//! answer.

use super::beacon::Beacon;
use super::fork::{Child, ChildEnd, Fork, Report};
use super::{Isolation, Judge};
use crate::hermetic;
use crate::plan::{Plan, Recording};
use crate::verdict::Outcome;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;

/// The run that is copied, and in a copy what it is a copy of.
pub(super) struct Trunk {
    plan: Plan,
    seed: u64,
    time_limit: Duration,
    /// Where this process reports: a copy has its own.
    report: RefCell<Option<Report>>,
    is_copy: Cell<bool>,
}

/// What a copy has become.
pub(super) enum Copied {
    /// This process is the copy.
    Itself,
    /// The copy has ended, with this outcome.
    Ended(Box<Outcome>),
    /// The process cannot be copied.
    Impossible,
}

/// The two processes after a copy, while it still lives.
pub(super) enum Branch {
    /// This process is the copy.
    Copy,
    /// This process was copied, or should have been.
    Trunk(io::Result<Child>),
    /// The process cannot be copied.
    Impossible,
}

impl Trunk {
    /// Starts a process for a run that is copied at most `copies` times. Returns what it reports,
    /// or nothing at all if it does not.
    pub(super) fn run<T: DeserializeOwned + Default>(
        isolation: &Isolation,
        plan: &Plan,
        seed: u64,
        copies: usize,
        work: impl FnOnce(Rc<Trunk>),
    ) -> T {
        let child = Child::fork_trunk(|report| {
            work(Rc::new(Trunk {
                plan: plan.clone(),
                seed,
                time_limit: isolation.time_limit,
                report: RefCell::new(Some(report)),
                is_copy: Cell::new(false),
            }));
        });
        let count = u32::try_from(copies + 1).unwrap_or(u32::MAX);
        let end = child.and_then(|child| child.wait(isolation.time_limit.saturating_mul(count)));
        match end {
            Ok(ChildEnd::Reported(report)) => serde_json::from_slice(&report).unwrap_or_default(),
            _ => T::default(),
        }
    }

    /// Whether this process is a copy, which is not copied again.
    pub(super) fn is_copy(&self) -> bool {
        self.is_copy.get()
    }

    /// Copies this process, and waits for the copy's end. Returns in both.
    pub(super) fn copy(&self) -> Copied {
        let saved = Beacon::current().save();
        let end = match self.branch() {
            Branch::Copy => return Copied::Itself,
            Branch::Trunk(Ok(child)) => hermetic::outside(|| child.wait(self.time_limit)),
            Branch::Trunk(Err(error)) => Err(error),
            Branch::Impossible => return Copied::Impossible,
        };
        let judge = Judge {
            plan: &self.plan,
            seed: self.seed,
            recording: &Recording::Nothing,
            time_limit: self.time_limit,
        };
        let outcome = judge.outcome(end);
        Beacon::restore(&saved);
        Copied::Ended(Box::new(outcome))
    }

    /// Copies this process. Returns in both.
    pub(super) fn branch(&self) -> Branch {
        match hermetic::outside(fork_alone) {
            Some(Ok(Fork::Child(report))) => {
                self.report.replace(Some(report));
                self.is_copy.set(true);
                Branch::Copy
            }
            Some(Ok(Fork::Parent(child))) => Branch::Trunk(Ok(child)),
            Some(Err(error)) => Branch::Trunk(Err(error)),
            None => Branch::Impossible,
        }
    }

    /// Reports, and ends this process.
    pub(super) fn send(&self, what: &impl Serialize) -> ! {
        let report = self.report.take().expect("a process reports once");
        // An empty report cannot be read, and counts as none.
        let bytes = serde_json::to_vec(what).unwrap_or_default();
        hermetic::outside(|| report.send(bytes))
    }
}

/// Copies this process, if it has no threads that a copy would lack.
fn fork_alone() -> Option<io::Result<Fork>> {
    let threads = std::fs::read_dir("/proc/self/task").ok()?.count();
    (threads == 1).then(Child::branch)
}
