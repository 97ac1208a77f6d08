//! Where a run is: its test, its phase, and the workloads that have not ended it.

use crate::verdict::Phase;
use shaketable_kernel::Time;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

/// The progress of one run.
#[derive(Default)]
pub(super) struct Progress {
    pub(super) test: Cell<usize>,
    pub(super) phase: Cell<Phase>,
    pub(super) phase_began: Cell<Time>,
    pending: RefCell<Vec<Pending>>,
    /// How many of them can only be woken by a future that was lent to them.
    pending_on_lent_futures: Cell<usize>,
    /// Whether the run ends after what is happening now.
    pub(super) over: Cell<bool>,
    /// How many fault workloads are under way, and when the last one ended.
    faults_running: Cell<usize>,
    calm_since: Cell<Time>,
    /// Tests by the answers of their clients, which is what the console counts.
    pub(super) tests_passed: Cell<u32>,
    pub(super) tests_failed: Cell<u32>,
    /// Tests in which anything went wrong.
    failed: RefCell<BTreeSet<usize>>,
}

/// A workload in a phase.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pending {
    pub(super) client: u32,
    pub(super) workload: usize,
    pub(super) waits_for: WaitsFor,
}

/// What a workload in a phase may wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitsFor {
    /// Futures of the C API that were lent to a library: without one nothing can wake it.
    LentFutures,
    /// Anything in the simulation.
    Anything,
}

impl Progress {
    /// A phase of a workload has begun.
    pub(super) fn begin(&self, pending: Pending) {
        self.pending.borrow_mut().push(pending);
        self.count_pending();
    }

    /// It has ended.
    pub(super) fn end(&self, client: u32, workload: usize) {
        self.pending
            .borrow_mut()
            .retain(|pending| (pending.client, pending.workload) != (client, workload));
        self.count_pending();
    }

    /// Whatever was under way is no longer waited for.
    pub(super) fn forget_pending(&self) {
        self.pending.borrow_mut().clear();
        self.count_pending();
    }

    /// A fault workload begins.
    pub(super) fn begin_fault(&self) {
        self.faults_running.set(self.faults_running.get() + 1);
    }

    /// A fault workload has ended.
    pub(super) fn end_fault(&self, now: Time) {
        self.faults_running.set(self.faults_running.get() - 1);
        self.calm_since.set(now);
    }

    /// Since when no fault workload has been running, if none is.
    pub(super) fn calm_since(&self) -> Option<Time> {
        (self.faults_running.get() == 0).then(|| self.calm_since.get())
    }

    /// The workloads whose phase has not ended.
    pub(super) fn pending(&self) -> Vec<Pending> {
        self.pending.borrow().clone()
    }

    fn count_pending(&self) {
        let pending = self.pending.borrow();
        let lent = pending
            .iter()
            .filter(|pending| pending.waits_for == WaitsFor::LentFutures);
        self.pending_on_lent_futures.set(lent.count());
    }

    /// Whether a workload of a library is in a phase.
    pub(super) fn waits_for_libraries(&self) -> bool {
        self.pending_on_lent_futures.get() > 0
    }

    pub(super) fn count_test(&self, passed: bool) {
        let counter = if passed {
            &self.tests_passed
        } else {
            &self.tests_failed
        };
        counter.set(counter.get() + 1);
        if !passed {
            self.note_failed();
        }
    }

    /// Something went wrong in the current test.
    pub(super) fn note_failed(&self) {
        self.failed.borrow_mut().insert(self.test.get());
    }

    /// How many tests passed and failed. FoundationDB's console counts the answers of the clients
    /// alone: a test that logged an error has failed all the same.
    pub(super) fn verdicts(&self) -> (u32, u32) {
        let ended = (self.tests_passed.get() + self.tests_failed.get()) as usize;
        let failed = self.failed.borrow();
        let passed = (0..ended).filter(|test| !failed.contains(test)).count();
        (passed as u32, failed.len() as u32)
    }
}
