//! One attempt of a transaction: what is under way, and how it ends all at once.
//!
//! FoundationDB's transactions have a "reset promise": cancelling, resetting, timing out, or using
//! a transaction while it commits ends everything that is pending with one error. An attempt keeps
//! the operations that are under way for that moment. It also remembers what became of the reads: a
//! commit waits for them, and fails with the first error that any of them had.

use crate::client::pending::Fail;
use crate::error::Error;
use shaketable_kernel::{Job, Waiters};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

/// The operations of one attempt.
#[derive(Default)]
pub(crate) struct Attempt {
    broken: Cell<Option<Error>>,
    operations: RefCell<Operations>,
    /// Operations that wait for the stamp of the commit. They end before the commit does.
    stamps: RefCell<Vec<Rc<dyn Fail>>>,
    reading: RefCell<Reading>,
    /// Tasks that wait for the end of the attempt, or of its reads.
    waiters: Waiters,
}

#[derive(Default)]
struct Operations {
    slots: Vec<Option<Operation>>,
    free: Vec<usize>,
}

struct Operation {
    fail: Rc<dyn Fail>,
    task: Option<Job>,
}

#[derive(Default)]
struct Reading {
    /// All reads that were ever begun, including those whose result was known at once.
    begun: u64,
    outstanding: u64,
    error: Option<Error>,
}

impl Attempt {
    /// The error with which everything ends, if that has happened.
    pub(crate) fn broken(&self) -> Option<Error> {
        self.broken.get()
    }

    /// Ends everything that is pending, and everything that comes later, with an error. Only the
    /// first error counts. The caller must hold no borrow: callbacks may run.
    pub(crate) fn end(&self, error: Error) {
        if self.broken.get().is_some() {
            return;
        }
        self.broken.set(Some(error));
        // Nearly always everything has ended by itself.
        if self.stamps.borrow().is_empty() && self.operations.borrow().slots.is_empty() {
            return self.waiters.wake_all();
        }
        let stamps = self.stamps.take();
        let operations = self.operations.take();
        self.waiters.wake_all();
        for stamp in stamps {
            stamp.fail(error);
        }
        for operation in operations.slots.into_iter().flatten() {
            drop(operation.task);
            operation.fail.fail(error);
        }
    }

    /// Waits until the attempt ends and returns its error.
    pub(crate) async fn ended(&self) -> Error {
        self.waiters.until(|| self.broken.get()).await
    }

    /// Remembers an operation that waits for the stamp of the commit. Needs no place of its own: to
    /// fail one that has its result does nothing.
    pub(super) fn add_stamp(&self, fail: Rc<dyn Fail>) {
        self.stamps.borrow_mut().push(fail);
    }

    /// Reserves a place for an operation.
    pub(super) fn add(&self, fail: Rc<dyn Fail>) -> usize {
        let mut operations = self.operations.borrow_mut();
        let operation = Some(Operation { fail, task: None });
        match operations.free.pop() {
            Some(index) => {
                operations.slots[index] = operation;
                index
            }
            None => {
                operations.slots.push(operation);
                operations.slots.len() - 1
            }
        }
    }

    /// Keeps the task of an operation, to be dropped if the attempt ends first.
    pub(super) fn keep(&self, index: usize, task: Job) {
        match self.operations.borrow_mut().slots.get_mut(index) {
            Some(Some(operation)) => operation.task = Some(task),
            _ => drop(task),
        }
    }

    /// Forgets an operation that has ended by itself.
    pub(super) fn remove(&self, index: usize) {
        let mut operations = self.operations.borrow_mut();
        if let Some(operation) = operations.slots.get_mut(index).and_then(Option::take) {
            if index + 1 == operations.slots.len() {
                operations.slots.pop();
            } else {
                operations.free.push(index);
            }
            if let Some(task) = operation.task {
                task.detach();
            }
        }
    }

    /// Counts a read whose result was known at once.
    pub(super) fn count_read<T>(&self, result: &Result<T, Error>) {
        self.begin_read();
        self.end_read(result.as_ref().err().copied());
    }

    pub(crate) fn begin_read(&self) {
        let mut reading = self.reading.borrow_mut();
        reading.begun += 1;
        reading.outstanding += 1;
    }

    pub(crate) fn end_read(&self, error: Option<Error>) {
        let mut reading = self.reading.borrow_mut();
        reading.outstanding -= 1;
        reading.error = reading.error.or(error);
        let wakes = reading.outstanding == 0 || error.is_some();
        drop(reading);
        if wakes {
            self.waiters.wake_all();
        }
    }

    /// Whether anything was ever read.
    pub(super) fn has_read(&self) -> bool {
        self.reading.borrow().begun > 0
    }

    /// What became of the reads: nothing yet, an error, or success of all of them.
    pub(super) fn reads(&self) -> Option<Result<(), Error>> {
        let reading = self.reading.borrow();
        match reading.error {
            Some(error) => Some(Err(error)),
            None => (reading.outstanding == 0).then_some(Ok(())),
        }
    }

    /// Waits for the reads that are under way, or for the first error of any of them.
    pub(super) async fn reads_done(&self) -> Result<(), Error> {
        self.waiters.until(|| self.reads()).await
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt")
            .field("broken", &self.broken)
            .finish_non_exhaustive()
    }
}
