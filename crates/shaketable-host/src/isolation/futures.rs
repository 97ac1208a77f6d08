//! Other futures of a run: its process is copied at moments, and each copy goes on with other
//! draws.
//!
//! At each moment the trunk is copied once for each seed. The copy gives all streams that seed and
//! lives to its end; it is exactly what a run with [`Reseed`](shaketable_kernel::Reseed) from that
//! moment on would have become. If the process cannot be copied there is no answer, and each future
//! has to be simulated from its beginning.

use super::Isolation;
use super::trunk::{Copied, Trunk};
use crate::plan::{Futures, Plan, Recording, Settings};
use crate::tester;
use crate::verdict::Outcome;
use shaketable_kernel::{Kernel, Time};
use std::cell::RefCell;
use std::rc::Rc;

/// What became of the futures, by moment and by seed.
type Ended = Vec<Vec<Outcome>>;

impl Isolation {
    /// Simulates futures; the outcome says nothing but what became of them.
    pub(super) fn run_futures(
        &self,
        plan: &Plan,
        settings: &Settings,
        seed: u64,
        futures: &Futures,
    ) -> Outcome {
        let count = futures.moments.len() * futures.seeds.len();
        let mut ended: Ended = Trunk::run(self, plan, seed, count, |trunk| {
            let branches = Rc::new(Branches {
                trunk,
                futures: futures.clone(),
                ended: RefCell::default(),
            });
            let nothing = Recording::Nothing;
            let outcome = tester::play(plan, settings, seed, &nothing, |kernel| {
                branches.begin(kernel);
            });
            branches.end(&outcome);
        });
        for outcome in ended.iter_mut().flatten() {
            super::settle(outcome);
        }
        Outcome {
            seed,
            futures: ended,
            ..Outcome::default()
        }
    }
}

/// The copies of a run.
struct Branches {
    trunk: Rc<Trunk>,
    futures: Futures,
    ended: RefCell<Ended>,
}

impl Branches {
    /// Plans the copies; those at the very beginning are made now.
    fn begin(self: &Rc<Self>, kernel: &Kernel) {
        for moment in self.futures.moments.clone() {
            let time = Time::from_secs(moment);
            if time <= kernel.now() {
                self.copy(kernel);
            } else {
                let branches = self.clone();
                kernel.call_at(time, move |kernel| branches.copy(kernel));
            }
        }
    }

    /// Copies this process for each seed, one after the other. Returns in the trunk, and in each
    /// copy.
    fn copy(&self, kernel: &Kernel) {
        if self.trunk.is_copy() {
            return;
        }
        let mut ended = Vec::new();
        for seed in &self.futures.seeds {
            match self.trunk.copy() {
                Copied::Itself => {
                    kernel.reseed_streams("", *seed);
                    return;
                }
                Copied::Ended(outcome) => ended.push(*outcome),
                Copied::Impossible => self.trunk.send(&Ended::new()),
            }
        }
        self.ended.borrow_mut().push(ended);
        if self.ended.borrow().len() == self.futures.moments.len() {
            self.trunk.send(&*self.ended.borrow());
        }
    }

    /// The simulation has ended in this process.
    fn end(&self, outcome: &Outcome) {
        match self.trunk.is_copy() {
            true => self.trunk.send(outcome),
            // Moments after the end have no futures.
            false => self.trunk.send(&Ended::new()),
        }
    }
}
