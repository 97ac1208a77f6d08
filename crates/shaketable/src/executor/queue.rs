//! The ready queue of a thread, and the one loop that polls.
//!
//! The queue is a chain through the tasks themselves: queueing allocates nothing. It lives in a
//! thread-local without a destructor, which costs no more than an address; a second thread-local,
//! touched once, has the destructor that cleans up when the thread ends. That second one has
//! another use: the C library will not unmap a shared library while such a destructor is pending,
//! so a workload library stays where it is even if the host closes it while callbacks are still on
//! their way.

use super::Failure;
use super::home::Home;
use super::scope::Scope;
use super::task::{Header, TaskRef};
use std::cell::Cell;
use std::ptr::{self, NonNull};
#[cfg(feature = "tokio")]
use std::rc::Rc;
use std::sync::Arc;

/// Deeper than this, `fdb_spawn` inside `fdb_spawn` queues instead of polling at once, so that a
/// chain of tasks that spawn each other ends in the budget and not in a stack overflow.
const NESTING_MAX: u32 = 64;

/// How often one task may be polled in one drain, by default.
const POLL_BUDGET_DEFAULT: u32 = 1_000_000;

/// The polls of one drain, in budgets of a single task. Catches tasks that keep spawning others.
const DRAIN_BUDGETS: u64 = 16;

/// What a thread knows about its tasks.
pub(super) struct Queue {
    /// Null until the thread spawns its first task, and again when it ends.
    home: Cell<*const Home>,
    /// Tasks that are not deallocated yet.
    live: Cell<usize>,
    first: Cell<Option<NonNull<Header>>>,
    last: Cell<Option<NonNull<Header>>>,
    /// A frame further down the stack will drain.
    active: Cell<bool>,
    nesting: Cell<u32>,
    drain: Cell<u32>,
    /// Polls in this drain, of all tasks together.
    polls: Cell<u64>,
    scope: Cell<*const Scope>,
    poll_budget: Cell<u32>,
}

thread_local! {
    static QUEUE: Queue = const {
        Queue {
            home: Cell::new(ptr::null()),
            live: Cell::new(0),
            first: Cell::new(None),
            last: Cell::new(None),
            active: Cell::new(false),
            nesting: Cell::new(0),
            drain: Cell::new(0),
            polls: Cell::new(0),
            scope: Cell::new(ptr::null()),
            poll_budget: Cell::new(POLL_BUDGET_DEFAULT),
        }
    };

    static CLOSING: Closing = Closing(Arc::new(Home::default()));
}

struct Closing(Arc<Home>);

impl Drop for Closing {
    fn drop(&mut self) {
        with(|queue| {
            self.0.close();
            while let Some(task) = queue.pop() {
                task.release(queue);
            }
            if queue.live.get() > 0 {
                // Wakers of these tasks are still somewhere, and will come back here.
                std::mem::forget(self.0.clone());
            }
            queue.home.set(ptr::null());
        });
    }
}

/// This thread's queue. Looked up once per call from outside and handed down: in a shared library
/// the look-up is a call of its own.
pub(super) fn with<T>(body: impl FnOnce(&Queue) -> T) -> T {
    QUEUE.with(body)
}

/// Makes this thread a home, if it is not one yet.
pub(super) fn attach() -> Arc<Home> {
    let home = with(Queue::attach);
    // SAFETY: the pointer is that of the `Arc` in `CLOSING`, which clears it before it goes.
    unsafe {
        Arc::increment_strong_count(home);
        Arc::from_raw(home)
    }
}

/// How many tasks of this thread are not deallocated.
#[cfg(test)]
pub(super) fn live_tasks() -> usize {
    with(|queue| queue.live.get())
}

/// Whether this thread runs tasks.
pub(crate) fn is_attached() -> bool {
    with(|queue| !queue.home.get().is_null())
}

/// Polls a new task at once; at the bottom of the stack, drains what that woke.
pub(super) fn start(queue: &Queue, task: TaskRef) {
    #[cfg(feature = "tokio")]
    if !super::runtime::is_in_turn() && task.scope().is_some_and(|scope| scope.runtime().is_some())
    {
        // It is polled inside its runtime, by the drain that is running or by one that begins now.
        task.deliver(queue);
        return drain();
    }
    if !queue.active.get() {
        queue.active.set(true);
        queue.next_drain();
        task.poll(queue);
        task.release(queue);
        queue.run();
        queue.active.set(false);
    } else if queue.nesting.get() < NESTING_MAX {
        queue.nesting.set(queue.nesting.get() + 1);
        queue.polls.set(queue.polls.get() + 1);
        task.poll(queue);
        queue.nesting.set(queue.nesting.get() - 1);
        task.release(queue);
    } else {
        task.deliver(queue);
    }
}

/// Polls until nothing is ready, unless a drain is running already: then that one will do it.
pub(super) fn drain() {
    with(|queue| {
        if queue.active.replace(true) {
            return;
        }
        queue.next_drain();
        queue.run();
        queue.active.set(false);
    });
}

pub(super) fn set_poll_budget(polls: u32) {
    with(|queue| queue.poll_budget.set(polls));
}

/// Declares which scope new tasks belong to; returns what was declared before.
pub(crate) fn enter_scope(scope: &Scope) -> *const Scope {
    with(|queue| queue.enter_scope(scope))
}

/// Undoes [`enter_scope`].
pub(crate) fn leave_scope(outer: *const Scope) {
    with(|queue| queue.leave_scope(outer));
}

impl Queue {
    /// The home of this thread, which is made one if it is not yet.
    pub(super) fn attach(&self) -> *const Home {
        let home = self.home.get();
        if home.is_null() {
            return self.attach_first();
        }
        home
    }

    #[cold]
    fn attach_first(&self) -> *const Home {
        super::panics::install_hook();
        let home = CLOSING.try_with(|closing| Arc::as_ptr(&closing.0));
        // A thread that spawns in its last moments gets a home that is never closed.
        let home = home.unwrap_or_else(|_| Arc::into_raw(Arc::new(Home::default())));
        self.home.set(home);
        home
    }

    /// Whether this is the thread of `home`.
    pub(super) fn is_home(&self, home: *const Home) -> bool {
        ptr::eq(self.home.get(), home)
    }

    /// Counts a task that was made, for the end of the thread.
    pub(super) fn born(&self) {
        self.live.set(self.live.get() + 1);
    }

    /// Counts a task that was deallocated.
    pub(super) fn buried(&self) {
        self.live.set(self.live.get() - 1);
    }

    pub(super) fn enter_scope(&self, scope: *const Scope) -> *const Scope {
        self.scope.replace(scope)
    }

    pub(super) fn leave_scope(&self, outer: *const Scope) {
        self.scope.set(outer);
    }

    /// The scope that was entered last and not left; null if there is none.
    pub(super) fn current_scope(&self) -> *const Scope {
        self.scope.get()
    }

    /// Appends a task.
    pub(super) fn push(&self, task: TaskRef) {
        let header = task.into_raw();
        match self.last.replace(Some(header)) {
            // SAFETY: the queue holds a reference to every task in it.
            Some(last) => unsafe { last.as_ref() }.next.set(Some(header)),
            None => self.first.set(Some(header)),
        }
    }

    fn next_drain(&self) {
        self.drain.set(self.drain.get().wrapping_add(1));
        self.polls.set(0);
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

    /// Polls until nothing is ready.
    #[inline]
    fn run(&self) {
        #[cfg(feature = "tokio")]
        super::runtime::run(self);
        #[cfg(not(feature = "tokio"))]
        {
            self.receive();
            if self.first.get().is_some() {
                self.run_all();
            }
        }
    }

    /// Takes in what other threads have sent.
    #[inline]
    pub(super) fn receive(&self) {
        let home = self.home.get();
        if !home.is_null() {
            // SAFETY: the pointer is cleared before the home goes.
            unsafe { &*home }.receive(self);
        }
    }

    #[cfg(not(feature = "tokio"))]
    fn run_all(&self) {
        while let Some(task) = self.pop() {
            self.run_task(task);
            self.receive();
        }
    }

    /// Polls a task that was in the queue, unless its budget is used up.
    #[inline]
    fn run_task(&self, task: TaskRef) {
        let budget = self.poll_budget.get();
        let polls = self.polls.get() + 1;
        self.polls.set(polls);
        let own = task.count_poll(self.drain.get());
        if own >= budget {
            task.fail(self, Failure::Spinning(own));
        } else if polls > u64::from(budget) * DRAIN_BUDGETS {
            task.fail(self, Failure::Endless(polls));
        } else {
            task.poll(self);
        }
        task.release(self);
    }
}

#[cfg(feature = "tokio")]
impl Queue {
    pub(super) fn poll_budget(&self) -> u32 {
        self.poll_budget.get()
    }

    /// The owner of the first task in the queue; `None` if the queue is empty.
    pub(super) fn front(&self) -> Option<Option<Rc<Scope>>> {
        let header = self.first.get()?;
        // SAFETY: the queue holds a reference to every task in it.
        let task = unsafe { TaskRef::borrow(header) };
        let scope = task.scope();
        task.release(self);
        Some(scope)
    }

    /// Polls the first task in the queue.
    pub(super) fn run_first(&self) {
        if let Some(task) = self.pop() {
            self.run_task(task);
        }
    }

    /// Polls the tasks at the front of the queue that belong to `owner`, up to the end of its
    /// phase; returns whether there was one.
    pub(super) fn run_of(&self, owner: &Rc<Scope>) -> bool {
        let mut is_any = false;
        while let Some(Some(scope)) = self.front()
            && Rc::ptr_eq(&scope, owner)
        {
            self.run_first();
            self.receive();
            is_any = true;
            if super::runtime::is_ending() {
                break;
            }
        }
        is_any
    }
}
