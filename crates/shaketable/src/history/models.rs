//! Sequential models: what an object does when its operations come one after another.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;

/// An object as a sequential program: a state, and what each operation does to it and returns.
///
/// ```
/// use shaketable::history::{History, Model};
///
/// /// Hands out numbers, each once.
/// struct Tickets;
///
/// impl Model for Tickets {
///     type State = u64;
///     type Operation = ();
///     type Output = u64;
///
///     fn initial() -> u64 { 0 }
///     fn apply(state: &mut u64, _take: &()) -> u64 { *state += 1; *state }
/// }
///
/// let history = History::<Tickets>::new();
/// history.call(0, ()).returned(1);
/// history.call(1, ()).returned(1);
/// assert!(history.check().is_err());
/// ```
pub trait Model: 'static {
    /// The state of the object.
    type State: Clone + Eq + Hash + Debug;
    /// The operations on it.
    type Operation: PartialEq + Debug;
    /// What an operation returns.
    type Output: PartialEq + Debug;

    /// The object before the first operation.
    fn initial() -> Self::State;

    /// Applies an operation and returns its result.
    fn apply(state: &mut Self::State, operation: &Self::Operation) -> Self::Output;

    /// Whether an operation only reads. Reads may be left out when a contradiction is shown.
    fn is_read(_operation: &Self::Operation) -> bool {
        false
    }
}

/// One value, absent at first.
///
/// ```
/// use shaketable::history::{History, Register, RegisterOperation};
///
/// let history = History::<Register<&str>>::new();
/// history.call(0, RegisterOperation::Write("ada")).returned(None);
/// history.call(1, RegisterOperation::CompareAndSet("ada", "bob")).returned(Some("ada"));
/// history.call(2, RegisterOperation::Read).returned(Some("bob"));
/// assert!(history.check().is_ok());
/// ```
#[derive(Debug)]
pub struct Register<T>(std::marker::PhantomData<T>);

/// The operations of a [`Register`].
///
/// ```
/// use shaketable::history::{Model, Register, RegisterOperation};
///
/// let mut state = Some(1);
/// let output = Register::apply(&mut state, &RegisterOperation::CompareAndSet(1, 2));
/// assert_eq!((state, output), (Some(2), Some(1)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegisterOperation<T> {
    /// Returns the value.
    Read,
    /// Sets the value; returns `None`.
    Write(T),
    /// Sets the value to the second if it equals the first; returns the first if it did, otherwise
    /// `None`.
    CompareAndSet(T, T),
}

impl<T: Clone + Eq + Hash + Debug + 'static> Model for Register<T> {
    type State = Option<T>;
    type Operation = RegisterOperation<T>;
    type Output = Option<T>;

    fn initial() -> Option<T> {
        None
    }

    fn apply(state: &mut Option<T>, operation: &RegisterOperation<T>) -> Option<T> {
        match operation {
            RegisterOperation::Read => state.clone(),
            RegisterOperation::Write(value) => {
                *state = Some(value.clone());
                None
            }
            RegisterOperation::CompareAndSet(old, new) if state.as_ref() == Some(old) => {
                state.replace(new.clone())
            }
            RegisterOperation::CompareAndSet(..) => None,
        }
    }

    fn is_read(operation: &RegisterOperation<T>) -> bool {
        matches!(operation, RegisterOperation::Read)
    }
}

/// A number, 0 at first.
///
/// ```
/// use shaketable::history::{Counter, CounterOperation, History};
///
/// let history = History::<Counter>::new();
/// history.call(0, CounterOperation::Add(2)).returned(None);
/// history.call(1, CounterOperation::AddAndGet(3)).returned(Some(5));
/// assert!(history.check().is_ok());
/// ```
#[derive(Debug)]
pub struct Counter;

/// The operations of a [`Counter`].
///
/// ```
/// use shaketable::history::{Counter, CounterOperation, Model};
///
/// let mut state = 1;
/// assert_eq!(Counter::apply(&mut state, &CounterOperation::AddAndGet(2)), Some(3));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CounterOperation {
    /// Returns the number.
    Read,
    /// Adds, and returns `None`.
    Add(i64),
    /// Adds, and returns the sum.
    AddAndGet(i64),
}

impl Model for Counter {
    type State = i64;
    type Operation = CounterOperation;
    type Output = Option<i64>;

    fn initial() -> i64 {
        0
    }

    fn apply(state: &mut i64, operation: &CounterOperation) -> Option<i64> {
        match operation {
            CounterOperation::Read => Some(*state),
            CounterOperation::Add(amount) => {
                *state += amount;
                None
            }
            CounterOperation::AddAndGet(amount) => {
                *state += amount;
                Some(*state)
            }
        }
    }

    fn is_read(operation: &CounterOperation) -> bool {
        matches!(operation, CounterOperation::Read)
    }
}

/// A set, empty at first.
///
/// ```
/// use shaketable::history::{History, Set, SetOperation};
///
/// let history = History::<Set<u32>>::new();
/// history.call(0, SetOperation::Add(7)).returned(None);
/// history.call(1, SetOperation::Read).returned(Some([7].into()));
/// assert!(history.check().is_ok());
/// ```
#[derive(Debug)]
pub struct Set<T>(std::marker::PhantomData<T>);

/// The operations of a [`Set`].
///
/// ```
/// use shaketable::history::{Model, Set, SetOperation};
///
/// let mut state = [1, 2].into();
/// Set::apply(&mut state, &SetOperation::Remove(1));
/// assert_eq!(state, [2].into());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetOperation<T> {
    /// Puts a value in; returns `None`.
    Add(T),
    /// Takes a value out; returns `None`.
    Remove(T),
    /// Returns all values.
    Read,
}

impl<T: Clone + Ord + Hash + Debug + 'static> Model for Set<T> {
    type State = BTreeSet<T>;
    type Operation = SetOperation<T>;
    type Output = Option<BTreeSet<T>>;

    fn initial() -> BTreeSet<T> {
        BTreeSet::new()
    }

    fn apply(state: &mut BTreeSet<T>, operation: &SetOperation<T>) -> Option<BTreeSet<T>> {
        match operation {
            SetOperation::Add(value) => {
                state.insert(value.clone());
                None
            }
            SetOperation::Remove(value) => {
                state.remove(value);
                None
            }
            SetOperation::Read => Some(state.clone()),
        }
    }

    fn is_read(operation: &SetOperation<T>) -> bool {
        matches!(operation, SetOperation::Read)
    }
}

/// A queue, empty at first.
///
/// ```
/// use shaketable::history::{History, Queue, QueueOperation};
///
/// let history = History::<Queue<u32>>::new();
/// history.call(0, QueueOperation::Push(7)).returned(None);
/// history.call(1, QueueOperation::Pop).returned(Some(7));
/// history.call(1, QueueOperation::Pop).returned(Some(7));
/// assert!(history.check().is_err(), "what was pushed once comes out once");
/// ```
#[derive(Debug)]
pub struct Queue<T>(std::marker::PhantomData<T>);

/// The operations of a [`Queue`].
///
/// ```
/// use shaketable::history::{Model, Queue, QueueOperation};
///
/// let mut state = [1, 2].into();
/// assert_eq!(Queue::apply(&mut state, &QueueOperation::Pop), Some(1));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueOperation<T> {
    /// Puts a value at the end; returns `None`.
    Push(T),
    /// Takes the value at the front; returns `None` when the queue is empty.
    Pop,
}

impl<T: Clone + Eq + Hash + Debug + 'static> Model for Queue<T> {
    type State = VecDeque<T>;
    type Operation = QueueOperation<T>;
    type Output = Option<T>;

    fn initial() -> VecDeque<T> {
        VecDeque::new()
    }

    fn apply(state: &mut VecDeque<T>, operation: &QueueOperation<T>) -> Option<T> {
        match operation {
            QueueOperation::Push(value) => {
                state.push_back(value.clone());
                None
            }
            QueueOperation::Pop => state.pop_front(),
        }
    }
}

/// A list that only grows, empty at first.
///
/// ```
/// use shaketable::history::{AppendList, History, ListOperation};
///
/// let history = History::<AppendList<u32>>::new();
/// history.call(0, ListOperation::Append(1)).returned(None);
/// history.call(0, ListOperation::Append(2)).returned(None);
/// history.call(1, ListOperation::Read).returned(Some(vec![2, 1]));
/// assert!(history.check().is_err(), "the order is another one");
/// ```
#[derive(Debug)]
pub struct AppendList<T>(std::marker::PhantomData<T>);

/// The operations of an [`AppendList`].
///
/// ```
/// use shaketable::history::{AppendList, ListOperation, Model};
///
/// let mut state = vec![1];
/// AppendList::apply(&mut state, &ListOperation::Append(2));
/// assert_eq!(state, [1, 2]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListOperation<T> {
    /// Puts a value at the end; returns `None`.
    Append(T),
    /// Returns the whole list.
    Read,
}

impl<T: Clone + Eq + Hash + Debug + 'static> Model for AppendList<T> {
    type State = Vec<T>;
    type Operation = ListOperation<T>;
    type Output = Option<Vec<T>>;

    fn initial() -> Vec<T> {
        Vec::new()
    }

    fn apply(state: &mut Vec<T>, operation: &ListOperation<T>) -> Option<Vec<T>> {
        match operation {
            ListOperation::Append(value) => {
                state.push(value.clone());
                None
            }
            ListOperation::Read => Some(state.clone()),
        }
    }

    fn is_read(operation: &ListOperation<T>) -> bool {
        matches!(operation, ListOperation::Read)
    }
}
