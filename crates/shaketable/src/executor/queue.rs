//! The ready queue of a thread, and the one loop that polls.
//!
//! The queue is a chain through the tasks themselves: queueing allocates nothing. It lives in a
//! thread-local without a destructor, which costs no more than an address; a second thread-local,
//! touched once, has the destructor that closes shop when the thread ends. That second one has
//! another use: the C library will not unmap a shared library while such a destructor is pending,
//! so a workload library stays where it is even if the host closes it while callbacks are still on
//! their way.

use super::Failure;
use super::home::Home;
use super::scope::Scope;
use super::task::{Header, TaskRef};
use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// Deeper than this, `fdb_spawn` inside `fdb_spawn` queues instead of polling at once, so that a
/// chain of tasks that spawn each other ends in the budget and not in a stack overflow.
const NESTING_MAX: u32 = 64;

/// How often one task may be polled in one drain, unless somebody says otherwise.
const POLL_BUDGET_DEFAULT: u32 = 1_000_000;

/// The polls of one drain, in budgets of a single task. Catches tasks that breed for ever.
const DRAIN_BUDGETS: u64 = 16;

struct Queue {
    /// Null until the thread spawns its first task, and again when it ends.
    home: Cell<*const Home>,
    first: Cell<Option<NonNull<Header>>>,
    last: Cell<Option<NonNull<Header>>>,
    /// Somebody further down the stack will drain.
    active: Cell<bool>,
    nesting: Cell<u32>,
    drain: Cell<u32>,
    scope: Cell<*const Scope>,
    poll_budget: Cell<u32>,
}

thread_local! {
    static QUEUE: Queue = const {
        Queue {
            home: Cell::new(ptr::null()),
            first: Cell::new(None),
            last: Cell::new(None),
            active: Cell::new(false),
            nesting: Cell::new(0),
            drain: Cell::new(0),
            scope: Cell::new(ptr::null()),
            poll_budget: Cell::new(POLL_BUDGET_DEFAULT),
        }
    };

    static CLOSING: Closing = Closing(Arc::new(Home::new()));
}

struct Closing(Arc<Home>);

impl Drop for Closing {
    fn drop(&mut self) {
        QUEUE.with(|queue| {
            self.0.close();
            while let Some(task) = queue.pop() {
                drop(task);
            }
            queue.home.set(ptr::null());
        });
    }
}

/// Makes this thread a home, if it is not one yet.
pub(super) fn attach() -> Arc<Home> {
    let home = QUEUE.with(|queue| queue.home.get());
    if home.is_null() {
        return attach_first();
    }
    // SAFETY: the pointer is that of the `Arc` in `CLOSING`, which clears it before it goes.
    unsafe {
        Arc::increment_strong_count(home);
        Arc::from_raw(home)
    }
}

#[cold]
fn attach_first() -> Arc<Home> {
    super::panics::install_hook();
    let home = CLOSING.with(|closing| closing.0.clone());
    QUEUE.with(|queue| queue.home.set(Arc::as_ptr(&home)));
    home
}

/// Whether this thread runs tasks.
pub(crate) fn is_attached() -> bool {
    QUEUE.with(|queue| !queue.home.get().is_null())
}

/// Whether this is the thread of `home`.
pub(super) fn is_home(home: &Arc<Home>) -> bool {
    QUEUE.with(|queue| ptr::eq(queue.home.get(), Arc::as_ptr(home)))
}

/// Appends a task.
pub(super) fn push(task: TaskRef) {
    QUEUE.with(|queue| {
        let header = task.into_raw();
        match queue.last.replace(Some(header)) {
            // SAFETY: the queue holds a reference to every task in it.
            Some(last) => unsafe { last.as_ref() }.next.set(Some(header)),
            None => queue.first.set(Some(header)),
        }
    });
}

/// Polls a new task at once; at the bottom of the stack, drains what that woke.
pub(super) fn start(task: TaskRef) {
    QUEUE.with(|queue| {
        if !queue.active.get() {
            queue.active.set(true);
            queue.next_drain();
            task.poll();
            drop(task);
            queue.run();
            queue.active.set(false);
        } else if queue.nesting.get() < NESTING_MAX {
            queue.nesting.set(queue.nesting.get() + 1);
            task.poll();
            queue.nesting.set(queue.nesting.get() - 1);
        } else {
            super::task::deliver(task);
        }
    });
}

/// Polls until nothing is ready, unless a drain is running already: then that one will do it.
pub(super) fn drain() {
    QUEUE.with(|queue| {
        if queue.active.replace(true) {
            return;
        }
        queue.next_drain();
        queue.run();
        queue.active.set(false);
    });
}

pub(super) fn set_poll_budget(polls: u32) {
    QUEUE.with(|queue| queue.poll_budget.set(polls));
}

/// Declares which scope new tasks belong to; answers what was declared before.
pub(crate) fn enter_scope(scope: Option<&Scope>) -> *const Scope {
    let scope = scope.map_or(ptr::null(), ptr::from_ref);
    QUEUE.with(|queue| queue.scope.replace(scope))
}

/// Undoes [`enter_scope`].
pub(crate) fn leave_scope(outer: *const Scope) {
    QUEUE.with(|queue| queue.scope.set(outer));
}

/// The scope that was entered last and not left; null if there is none.
pub(super) fn current_scope() -> *const Scope {
    QUEUE.with(|queue| queue.scope.get())
}

impl Queue {
    fn next_drain(&self) {
        self.drain.set(self.drain.get().wrapping_add(1));
    }

    fn pop(&self) -> Option<TaskRef> {
        let header = self.first.get()?;
        // SAFETY: the queue holds a reference to every task in it, and gives this one away.
        let task = unsafe { TaskRef::from_raw(header) };
        // SAFETY: as above.
        let next = unsafe { header.as_ref() }.next.take();
        self.first.set(next);
        if next.is_none() {
            self.last.set(None);
        }
        task.unqueue();
        Some(task)
    }

    fn run(&self) {
        let budget = self.poll_budget.get();
        let mut polls: u64 = 0;
        loop {
            let home = self.home.get();
            if !home.is_null() {
                // SAFETY: the pointer is cleared before the home goes.
                unsafe { &*home }.receive();
            }
            let Some(task) = self.pop() else { break };
            polls += 1;
            let own = task.count_poll(self.drain.get());
            if own >= budget || polls > u64::from(budget) * DRAIN_BUDGETS {
                task.fail(Failure::Spinning(own));
            } else {
                task.poll();
            }
        }
    }
}
