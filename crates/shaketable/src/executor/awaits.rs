//! The awaits of a scope, counted, so that its owner can let it die at one of them.
//!
//! An await is a poll that returned `Pending`: the code cannot go on, the host gets its thread
//! back, and a process can die there. Awaits are numbered from 1, over all tasks of the scope. With
//! tokio a whole turn counts as one, unless a task of ours waited in it.
//!
//! A moment is one of two at each await. *As it begins to wait*, what was requested is under way
//! and may or may not happen. *When it would go on*, what was waited for has happened, and the code
//! never learns of it. Either way the scope is *dying* from then on: no task of it is polled any
//! more but the first, which is the phase, and that one carries out the sentence.

use super::task::Header;
use std::cell::Cell;
use std::fmt;
use std::ptr::NonNull;

/// At which await, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment {
    /// The number of the await, from 1.
    pub(crate) at: u64,
    /// Not as it begins to wait, but when it would go on.
    pub(crate) is_late: bool,
}

/// As the test file writes it: `12`, or `12+` for a late one.
impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let late = if self.is_late { "+" } else { "" };
        write!(f, "{}{late}", self.at)
    }
}

/// The count of a scope, and the moment at which it dies.
pub(crate) struct Awaits {
    count: Cell<u64>,
    end: Cell<Option<Moment>>,
    /// Asked at each await, with its number, whether the scope dies there.
    ask: Option<Box<dyn Fn(u64) -> Option<Moment>>>,
    doomed: Cell<Doomed>,
}

/// What must not go on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Doomed {
    Nothing,
    /// This task, once something wakes it.
    Task(NonNull<Header>),
    /// The next turn of tokio.
    #[cfg(feature = "tokio")]
    Turn,
    /// Everything but the phase, which carries it out.
    All,
    /// Everything: the phase has begun to.
    Dead,
}

impl Awaits {
    /// Counts from `count` on, which were before; `None` lets the scope live.
    pub(crate) fn new(count: u64, end: Option<Moment>) -> Self {
        Awaits {
            count: Cell::new(count),
            end: Cell::new(end),
            ask: None,
            doomed: Cell::new(Doomed::Nothing),
        }
    }

    /// Counts from the first on; `ask` says at each await whether the scope dies there.
    pub(crate) fn asking(ask: impl Fn(u64) -> Option<Moment> + 'static) -> Self {
        Awaits {
            ask: Some(Box::new(ask)),
            ..Awaits::new(0, None)
        }
    }

    /// How many there were.
    #[cfg(feature = "tokio")]
    pub(crate) fn count(&self) -> u64 {
        self.count.get()
    }

    /// The moment at which the scope dies.
    pub(crate) fn moment(&self) -> Option<Moment> {
        self.end.get()
    }

    /// Whether the phase must carry out its end, and nothing else may go on.
    pub(crate) fn is_dying(&self) -> bool {
        self.doomed.get() == Doomed::All
    }

    /// Whether not even the phase may go on.
    pub(crate) fn is_dead(&self) -> bool {
        self.doomed.get() == Doomed::Dead
    }

    /// The phase begins to carry it out: from now on nothing of the scope is polled.
    pub(crate) fn bury(&self) {
        self.doomed.set(Doomed::Dead);
    }

    /// A task begins to wait. Returns whether the scope dies of it.
    pub(super) fn begin(&self, task: NonNull<Header>) -> bool {
        self.count_one(Doomed::Task(task))
    }

    /// A turn of tokio is over. Returns whether the scope dies of it.
    #[cfg(feature = "tokio")]
    pub(super) fn begin_turn(&self) -> bool {
        self.count_one(Doomed::Turn)
    }

    /// A task would go on, or is gone. Returns whether the scope dies of it.
    pub(super) fn end(&self, task: NonNull<Header>) -> bool {
        self.meet(Doomed::Task(task))
    }

    /// A turn of tokio begins. Returns whether the scope dies of it.
    #[cfg(feature = "tokio")]
    pub(super) fn end_turn(&self) -> bool {
        self.meet(Doomed::Turn)
    }

    fn count_one(&self, waiting: Doomed) -> bool {
        if self.is_dying() || self.is_dead() {
            return false;
        }
        self.count.set(self.count.get() + 1);
        if let (Some(ask), None) = (&self.ask, self.end.get()) {
            self.end.set(ask(self.count.get()));
        }
        match self.end.get() {
            Some(end) if end.at != self.count.get() => false,
            Some(Moment { is_late: true, .. }) => {
                self.doomed.set(waiting);
                false
            }
            Some(_) => {
                self.doomed.set(Doomed::All);
                true
            }
            None => false,
        }
    }

    fn meet(&self, waiting: Doomed) -> bool {
        let is_met = self.doomed.get() == waiting;
        if is_met {
            self.doomed.set(Doomed::All);
        }
        is_met
    }
}
