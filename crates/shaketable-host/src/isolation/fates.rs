//! Other outcomes of the operations of a run: its process is copied at an operation, and the copy
//! meets another outcome.
//!
//! An await of a client is an operation too: its other outcome is that the client dies there.
//!
//! When an operation comes up for which outcomes are to be tried, the trunk is copied once for
//! each. In the copy that outcome is forced, and the copy lives to its end; it is exactly what a
//! run of a case that lists the outcome would have become. If the process cannot be copied there is
//! no answer.

use super::Isolation;
use super::trunk::{Copied, Trunk};
use crate::plan::{Fates, Plan, Recording, Settings};
use crate::tester;
use crate::verdict::{Fate, Outcome};
use shaketable_kernel::DecisionName;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// What became of each copy, in the order of the tries.
type Answers = Vec<Option<Fate>>;

impl Isolation {
    /// Simulates copies that meet other outcomes; the outcome says nothing but what became of them.
    pub(super) fn run_fates(
        &self,
        plan: &Plan,
        settings: &Settings,
        seed: u64,
        fates: &Fates,
    ) -> Outcome {
        let fates = Trunk::run(self, plan, seed, fates.tries.len(), |trunk| {
            let tries = Rc::new(Tries::new(trunk, fates));
            let watching = tries.clone();
            let nothing = Recording::Nothing;
            let outcome = tester::play(plan, settings, seed, &nothing, |kernel| {
                // A case names decisions already, and a list that is not read costs time.
                if !kernel.is_deciding() {
                    kernel.list_decisions();
                }
                kernel.leave_decisions_unread();
                kernel.watch_visits(move |name| watching.visit(name));
            });
            tries.end(&outcome);
        });
        Outcome {
            seed,
            fates,
            ..Outcome::default()
        }
    }
}

/// The copies of a run.
struct Tries {
    trunk: Rc<Trunk>,
    /// What is to be tried at each operation, with its number among the tries.
    tries: RefCell<BTreeMap<String, Vec<(usize, String)>>>,
    answers: RefCell<Answers>,
}

impl Tries {
    fn new(trunk: Rc<Trunk>, fates: &Fates) -> Tries {
        let mut tries: BTreeMap<String, Vec<(usize, String)>> = BTreeMap::new();
        for (index, (name, outcome)) in fates.tries.iter().enumerate() {
            let of_name = tries.entry(name.clone()).or_default();
            of_name.push((index, outcome.clone()));
        }
        Tries {
            trunk,
            answers: RefCell::new(vec![None; fates.tries.len()]),
            tries: RefCell::new(tries),
        }
    }

    /// An operation comes up. Returns in the trunk, and in each copy with the outcome that it
    /// meets.
    fn visit(&self, name: &DecisionName) -> Option<String> {
        if self.trunk.is_copy() {
            return None;
        }
        let tries = self.tries.borrow_mut().remove(&name.to_string())?;
        for (index, outcome) in tries {
            match self.trunk.copy() {
                Copied::Itself => return Some(outcome),
                Copied::Ended(ended) => {
                    self.answers.borrow_mut()[index] = Some(Fate::from(*ended));
                }
                Copied::Impossible => self.trunk.send(&Answers::new()),
            }
        }
        if self.tries.borrow().is_empty() {
            self.trunk.send(&*self.answers.borrow());
        }
        None
    }

    /// The simulation has ended in this process.
    fn end(&self, outcome: &Outcome) {
        match self.trunk.is_copy() {
            true => self.trunk.send(outcome),
            // Some operations never came.
            false => self.trunk.send(&*self.answers.borrow()),
        }
    }
}
