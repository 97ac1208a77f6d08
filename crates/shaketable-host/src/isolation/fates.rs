//! Other outcomes of the operations of a run: its process is copied at an operation, and the copy
//! meets another outcome.
//!
//! One process, the trunk, simulates the run as it is. When an operation comes up for which outcomes
//! are to be tried, it forks once for each, and waits: in the copy that outcome is forced, and the
//! copy lives to its end, while the trunk stands still. What lies before the operation is simulated
//! once, whatever the number of outcomes and operations. A copy is exactly what a run of a case that
//! lists the outcome would have become.
//!
//! A process with threads cannot be copied, as in `futures.rs`; then there is no answer.

use super::beacon::Beacon;
use super::fork::{Child, ChildEnd, Report};
use super::futures::{Copied, fork_alone};
use super::{Isolation, Judge};
use crate::hermetic;
use crate::plan::{Fates, Plan, Recording, Settings};
use crate::tester;
use crate::verdict::{Failure, Outcome};
use shaketable_kernel::DecisionName;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// The failures of each copy, in the order of the tries.
type Answers = Vec<Option<Vec<Failure>>>;

impl Isolation {
    /// Simulates copies that meet other outcomes; the outcome says nothing but what became of them.
    pub(super) fn run_fates(
        &self,
        plan: &Plan,
        settings: &Settings,
        seed: u32,
        fates: &Fates,
    ) -> Outcome {
        let count = u32::try_from(fates.tries.len() + 1).unwrap_or(u32::MAX);
        let child = Child::fork_trunk(|report| {
            let trunk = Rc::new(Trunk::new(self, plan, seed, fates, report));
            let watching = trunk.clone();
            let nothing = Recording::Nothing;
            let outcome = tester::play(plan, settings, seed, &nothing, |kernel| {
                kernel.list_decisions();
                kernel.watch_visits(move |name| watching.visit(name));
            });
            trunk.end(&outcome);
        });
        let end = child.and_then(|child| child.wait(self.time_limit.saturating_mul(count)));
        let fates = match end {
            Ok(ChildEnd::Reported(report)) => serde_json::from_slice(&report).unwrap_or_default(),
            _ => Answers::new(),
        };
        Outcome {
            seed,
            fates,
            ..Outcome::default()
        }
    }
}

/// The run that is copied, and in a copy what it is a copy of.
struct Trunk {
    plan: Plan,
    seed: u32,
    time_limit: Duration,
    /// What is to be tried at each operation, with its number among the tries.
    tries: RefCell<BTreeMap<String, Vec<(usize, String)>>>,
    answers: RefCell<Answers>,
    /// Where this process reports: a copy has its own.
    report: RefCell<Option<Report>>,
    is_copy: Cell<bool>,
}

impl Trunk {
    fn new(isolation: &Isolation, plan: &Plan, seed: u32, fates: &Fates, report: Report) -> Trunk {
        let mut tries: BTreeMap<String, Vec<(usize, String)>> = BTreeMap::new();
        for (index, (name, outcome)) in fates.tries.iter().enumerate() {
            let of_name = tries.entry(name.clone()).or_default();
            of_name.push((index, outcome.clone()));
        }
        Trunk {
            plan: plan.clone(),
            seed,
            time_limit: isolation.time_limit,
            answers: RefCell::new(vec![None; fates.tries.len()]),
            tries: RefCell::new(tries),
            report: RefCell::new(Some(report)),
            is_copy: Cell::new(false),
        }
    }

    /// An operation comes up. Returns in the trunk, and in each copy with the outcome that it meets.
    fn visit(&self, name: &DecisionName) -> Option<String> {
        if self.is_copy.get() {
            return None;
        }
        let tries = self.tries.borrow_mut().remove(&name.to_string())?;
        let judge = Judge {
            plan: &self.plan,
            seed: self.seed,
            recording: &Recording::Nothing,
            time_limit: self.time_limit,
        };
        let saved = Beacon::current().save();
        for (index, outcome) in tries {
            Beacon::restore(&saved);
            match hermetic::outside(|| fork_alone(self.time_limit)) {
                Some(Copied::Itself(report)) => {
                    self.report.replace(Some(report));
                    self.is_copy.set(true);
                    return Some(outcome);
                }
                Some(Copied::Ended(end)) => {
                    let failures = judge.outcome(end).failures;
                    self.answers.borrow_mut()[index] = Some(failures);
                }
                None => self.send(&Answers::new()),
            }
        }
        Beacon::restore(&saved);
        if self.tries.borrow().is_empty() {
            self.send(&*self.answers.borrow());
        }
        None
    }

    /// The simulation has ended in this process.
    fn end(&self, outcome: &Outcome) {
        match self.is_copy.get() {
            true => self.send(outcome),
            // Some operations never came.
            false => self.send(&*self.answers.borrow()),
        }
    }

    fn send(&self, what: &impl serde::Serialize) {
        let report = self.report.take().expect("a process reports once");
        // An empty report cannot be read, and counts as none.
        let bytes = serde_json::to_vec(what).unwrap_or_default();
        hermetic::outside(|| report.send(bytes))
    }
}
