//! Histories: what every client called and what was returned, checked for linearizability.
//!
//! A counter that ends with the right number may have shown wrong ones in between. A [`History`]
//! keeps each operation with the moment it was called, the moment it returned, and what it
//! returned. [`History::check`] looks for *one* order of all of them that explains every result: an
//! order in which an operation that returned before another was called also comes before it.
//!
//! * An operation of unknown fate (1021, `maybe_committed`) may have happened at any time since its
//!   call, or never. This is what a hand-written check gets wrong first.
//! * Where FoundationDB gives a version it is used: operations that committed or read at known
//!   versions are ordered by them, which leaves little to search.
//! * A contradiction is cut down before it is shown: to the shortest beginning of the history that
//!   has no explanation, without what can only have left one state before it, and without the reads
//!   that do not matter.
//!
//! The clients of a simulation share one thread, so they share a history by its name: no database
//! is needed to bring their parts together.

mod check;
mod models;
mod search;
mod shown;

pub use models::{
    AppendList, Counter, CounterOperation, ListOperation, Model, Queue, QueueOperation, Register,
    RegisterOperation, Set, SetOperation,
};
pub use shown::NotLinearizable;

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The operations of all clients on one object.
///
/// ```
/// use shaketable::history::{History, Register, RegisterOperation::{Read, Write}};
///
/// // In every client, and in `check`: the same history.
/// let history: History<Register<u64>> = History::shared("balance of ada");
///
/// let call = history.call(0, Write(5));
/// // … db.run(…).await: the commit was answered with commit_unknown_result, and not tried again …
/// call.unknown();
///
/// let call = history.call(1, Read);
/// // … another client reads the value …
/// call.returned(Some(5));
///
/// assert!(history.check().is_ok());
///
/// let call = history.call(1, Read);
/// call.returned(None);
/// let contradiction = history.check().unwrap_err();
/// assert!(contradiction.to_string().contains("Read -> None"));
/// ```
pub struct History<M: Model> {
    records: Rc<RefCell<Records<M>>>,
}

struct Records<M: Model> {
    /// One tick for each call and each return: the order in which they happened.
    clock: u64,
    operations: Vec<Record<M>>,
}

/// One operation.
struct Record<M: Model> {
    client: i32,
    operation: M::Operation,
    called: u64,
    outcome: Outcome<M::Output>,
}

enum Outcome<O> {
    /// It may have happened, or may still happen.
    Unknown,
    /// It certainly did not happen.
    Failed,
    /// It happened, and returned this.
    Returned {
        at: u64,
        output: O,
        order: Option<Order>,
    },
}

/// The place that a version gives to an operation: a read sees all that was committed up to its
/// version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    Committed(i64),
    Read(i64),
}

impl Order {
    /// Versions first; at one version commits come before reads. Equal ones have no order.
    fn key(self) -> (i64, bool) {
        match self {
            Order::Committed(version) => (version, false),
            Order::Read(version) => (version, true),
        }
    }
}

/// An operation that was called and has not returned. If it is dropped without a result, its fate
/// is unknown.
///
/// ```
/// # use shaketable::history::{Counter, CounterOperation, History};
/// let history = History::<Counter>::new();
/// let call = history.call(0, CounterOperation::Add(1));
/// // … the transaction …
/// call.returned(None);
/// ```
#[must_use = "say how the operation ended; a call that is dropped is of unknown fate"]
pub struct Call<M: Model> {
    records: Rc<RefCell<Records<M>>>,
    index: usize,
}

thread_local! {
    static SHARED: RefCell<BTreeMap<String, Box<dyn Any>>> = const { RefCell::new(BTreeMap::new()) };
}

impl<M: Model> Default for History<M> {
    fn default() -> Self {
        History::new()
    }
}

impl<M: Model> Clone for History<M> {
    fn clone(&self) -> Self {
        History {
            records: self.records.clone(),
        }
    }
}

impl<M: Model> History<M> {
    /// An empty history, shared only with its clones.
    ///
    /// ```
    /// # use shaketable::history::{Counter, CounterOperation, History};
    /// let history = History::<Counter>::new();
    /// let for_another_client = history.clone();
    /// for_another_client.call(1, CounterOperation::Add(1)).returned(None);
    /// assert_eq!(history.len(), 1);
    /// ```
    pub fn new() -> Self {
        History {
            records: Rc::new(RefCell::new(Records {
                clock: 0,
                operations: Vec::new(),
            })),
        }
    }

    /// The history of this name, one for all clients of the simulation.
    ///
    /// # Panics
    ///
    /// If the name belongs to a history of another model.
    ///
    /// ```
    /// # use shaketable::history::{Counter, CounterOperation, History};
    /// let history = History::<Counter>::shared("visitors");
    /// history.call(0, CounterOperation::Add(1)).returned(None);
    /// assert_eq!(History::<Counter>::shared("visitors").len(), 1);
    /// ```
    pub fn shared(name: &str) -> Self {
        SHARED.with_borrow_mut(|all| {
            let known = all
                .entry(name.to_owned())
                .or_insert_with(|| Box::new(History::<M>::new()));
            let known = known.downcast_ref::<History<M>>();
            known
                .unwrap_or_else(|| panic!("the history `{name}` is one of another model"))
                .clone()
        })
    }

    /// Records that a client is about to do something.
    ///
    /// ```
    /// # use shaketable::history::{Counter, CounterOperation, History};
    /// # let history = History::<Counter>::new();
    /// let call = history.call(0, CounterOperation::AddAndGet(1));
    /// // … the transaction …
    /// call.returned(Some(1));
    /// ```
    pub fn call(&self, client: i32, operation: M::Operation) -> Call<M> {
        let mut records = self.records.borrow_mut();
        let called = records.tick();
        records.operations.push(Record {
            client,
            operation,
            called,
            outcome: Outcome::Unknown,
        });
        Call {
            records: self.records.clone(),
            index: records.operations.len() - 1,
        }
    }

    /// How many operations were called.
    ///
    /// ```
    /// # use shaketable::history::{Counter, CounterOperation, History};
    /// # let history = History::<Counter>::new();
    /// drop(history.call(0, CounterOperation::Read));
    /// assert_eq!(history.len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        self.records.borrow().operations.len()
    }

    /// Whether nothing was called yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether one order explains every result.
    ///
    /// A contradiction is also written to stderr, where a test shows it, and to the trace, as one
    /// `WorkloadHistory` event per operation, because the trace cuts the error of a phase to one
    /// line.
    ///
    /// Thousands of operations are quick if few of them overlap, or if most have versions.
    /// Otherwise the search is exponential, and ends undecided after a million steps
    /// ([`NotLinearizable::is_undecided`]).
    ///
    /// ```
    /// # use shaketable::history::{Counter, CounterOperation, History};
    /// # let history = History::<Counter>::new();
    /// history.call(0, CounterOperation::Add(1)).returned(None);
    /// history.call(1, CounterOperation::Read).returned(Some(2));
    /// let error = history.check().unwrap_err();
    /// assert!(error.to_string().contains("1 before these can only leave 1"));
    /// ```
    pub fn check(&self) -> Result<(), NotLinearizable> {
        let records = self.records.borrow();
        check::check::<M>(&records.operations).inspect_err(shown::tell)
    }
}

impl<M: Model> Records<M> {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }
}

impl<M: Model> Call<M> {
    /// The operation happened, and returned this.
    ///
    /// ```
    /// # use shaketable::history::{Counter, CounterOperation, History};
    /// # let history = History::<Counter>::new();
    /// history.call(0, CounterOperation::Read).returned(Some(0));
    /// assert!(history.check().is_ok());
    /// ```
    pub fn returned(self, output: M::Output) {
        self.end(output, None);
    }

    /// The operation happened in a transaction that committed at this version.
    ///
    /// ```
    /// # use shaketable::history::{Counter, CounterOperation, History};
    /// # let history = History::<Counter>::new();
    /// let (first, second) = (
    ///     history.call(0, CounterOperation::AddAndGet(1)),
    ///     history.call(1, CounterOperation::AddAndGet(1)),
    /// );
    /// // They overlap, but the versions say which was first.
    /// second.committed(Some(1), 100);
    /// first.committed(Some(2), 200);
    /// assert!(history.check().is_ok());
    /// ```
    pub fn committed(self, output: M::Output, version: i64) {
        self.end(output, Some(Order::Committed(version)));
    }

    /// The operation only read, at this read version.
    ///
    /// ```
    /// # use shaketable::history::{Counter, CounterOperation, History};
    /// # let history = History::<Counter>::new();
    /// history.call(0, CounterOperation::Add(1)).committed(None, 100);
    /// history.call(1, CounterOperation::Read).read(Some(1), 150);
    /// assert!(history.check().is_ok());
    /// ```
    pub fn read(self, output: M::Output, version: i64) {
        self.end(output, Some(Order::Read(version)));
    }

    /// The operation may have happened, and may still happen: `commit_unknown_result`, a timeout, a
    /// client that gave up.
    ///
    /// ```
    /// # use shaketable::history::{Counter, CounterOperation, History};
    /// # let history = History::<Counter>::new();
    /// history.call(0, CounterOperation::Add(1)).unknown();
    /// history.call(1, CounterOperation::Read).returned(Some(0)); // not yet ...
    /// history.call(1, CounterOperation::Read).returned(Some(1)); // ... and now
    /// assert!(history.check().is_ok());
    /// ```
    pub fn unknown(self) {}

    /// The operation certainly did not happen: a conflict that was not tried again, an error before
    /// the commit.
    ///
    /// ```
    /// # use shaketable::history::{Counter, CounterOperation, History};
    /// # let history = History::<Counter>::new();
    /// history.call(0, CounterOperation::Add(1)).failed();
    /// history.call(1, CounterOperation::Read).returned(Some(0));
    /// assert!(history.check().is_ok());
    /// ```
    pub fn failed(self) {
        self.records.borrow_mut().operations[self.index].outcome = Outcome::Failed;
    }

    fn end(self, output: M::Output, order: Option<Order>) {
        let mut records = self.records.borrow_mut();
        let at = records.tick();
        records.operations[self.index].outcome = Outcome::Returned { at, output, order };
    }
}

#[cfg(test)]
mod tests;
