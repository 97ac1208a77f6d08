//! One task: a reference-counted cell around a future, in one allocation.
//!
//! Life of a task, in the words of the executor's contract:
//!
//! * it is born holding its future and one reference;
//! * while it is polled the future is *out of its slot* (`POLLING`): a re-entrant poll finds
//!   nothing to poll, a wake-up only queues;
//! * pending, the future goes back; ready, it is dropped at once, long before the last waker;
//! * when the last waker is gone the task is gone, and if its future was still pending nothing in
//!   the world could have woken it: it is dropped and its join handle returns that error.
//!
//! # Threads
//!
//! A `Waker` may travel to any thread, so three fields are shared: the reference count (atomic),
//! the home and the function table (never change). Everything else belongs to the home thread alone
//! and is plain memory, which keeps the common path free of locks and of atomic operations other
//! than the count. A foreign thread never frees a task and never touches its future: it hands what
//! it holds to the home's inbox.
//!
//! `cell` is what depends on the type of the future, `references` the count and the wakers, `joint`
//! the join handle's hold.

mod cell;
mod joint;
mod references;

pub(super) use joint::Joint;

use super::Failure;
use super::home::Home;
use super::join::JoinError;
use super::queue::{self, Queue};
use super::scope::Scope;
use crate::stderr::complain;
use cell::{Table, allocate};
use references::{release, release_at_home, retain, waker};
use std::cell::{Cell, UnsafeCell};
use std::future::Future;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll, Waker};

/// In the ready queue of its home thread.
const QUEUED: u8 = 1;
/// The future is out of its slot: it is being polled.
const POLLING: u8 = 1 << 1;
/// The future is gone.
const DONE: u8 = 1 << 2;
/// Drop the future as soon as it is back in its slot.
const ABORTED: u8 = 1 << 3;
/// A join handle exists; the output must wait for it.
const JOINABLE: u8 = 1 << 4;

/// What every task looks like, whatever its future.
pub(super) struct Header {
    /// Wakers and queue entries. The join handle is not counted: it cannot make the task run.
    references: AtomicUsize,
    table: &'static Table,
    /// Outlives the task: see the end of a thread in `queue`.
    home: *const Home,
    flags: Cell<u8>,
    /// The drain in which `polls` counts.
    drain: Cell<u32>,
    polls: Cell<u32>,
    /// Link of the ready queue.
    pub(super) next: Cell<Option<NonNull<Header>>>,
    /// The owner of this task: an `Rc` in raw form, or null. Given back as soon as the future is
    /// gone.
    scope: Cell<*const Scope>,
    /// Links of the scope's list.
    pub(super) scope_previous: Cell<Option<NonNull<Header>>>,
    pub(super) scope_next: Cell<Option<NonNull<Header>>>,
    joiner: UnsafeCell<Option<Waker>>,
}

/// A counted reference to a task, as a waker or the ready queue holds it.
pub(super) struct TaskRef(NonNull<Header>);

impl TaskRef {
    /// A task whose output nothing will ask for.
    pub(super) fn detached<F>(queue: &Queue, future: F) -> Self
    where
        F: Future<Output = ()> + 'static,
    {
        TaskRef::new(queue, future, const { &Table::of::<F, false>() }, 0)
    }

    /// A task that waits with its output for the one [`Joint`] that is made of it.
    pub(super) fn joinable<F>(queue: &Queue, future: F) -> Self
    where
        F: Future + 'static,
    {
        TaskRef::new(queue, future, const { &Table::of::<F, true>() }, JOINABLE)
    }

    #[inline]
    fn new<F: Future>(queue: &Queue, future: F, table: &'static Table, flags: u8) -> Self {
        let header = Header {
            references: AtomicUsize::new(1),
            table,
            home: queue.attach(),
            flags: Cell::new(flags),
            drain: Cell::new(0),
            polls: Cell::new(0),
            next: Cell::new(None),
            scope: Cell::new(ptr::null()),
            scope_previous: Cell::new(None),
            scope_next: Cell::new(None),
            joiner: UnsafeCell::new(None),
        };
        queue.born();
        let task = TaskRef(allocate(header, future));
        if let Some(scope) = Scope::current_in(queue) {
            scope.link(task.0);
            task.header().scope.set(Rc::into_raw(scope));
        }
        task
    }

    /// One more reference to a task that is known to be alive.
    ///
    /// # Safety
    ///
    /// It is.
    pub(super) unsafe fn borrow(header: NonNull<Header>) -> Self {
        retain(header);
        TaskRef(header)
    }

    /// Gives the reference up on the task's own thread.
    pub(super) fn release(self, queue: &Queue) {
        // SAFETY: the reference is given up here.
        unsafe { release_at_home(queue, self.into_raw()) };
    }

    /// Queues a task of this thread, unless it is queued already or done.
    pub(super) fn deliver(self, queue: &Queue) {
        let flags = &self.header().flags;
        if flags.get() & (QUEUED | DONE) == 0 {
            flags.set(flags.get() | QUEUED);
            queue.push(self);
        } else {
            self.release(queue);
        }
    }

    fn header(&self) -> &Header {
        // SAFETY: a counted reference keeps the allocation alive.
        unsafe { self.0.as_ref() }
    }

    pub(super) fn as_raw(&self) -> NonNull<Header> {
        self.0
    }

    pub(super) fn into_raw(self) -> NonNull<Header> {
        ManuallyDrop::new(self).0
    }

    /// # Safety
    ///
    /// `raw` comes from [`TaskRef::into_raw`], and each such call is undone once.
    pub(super) unsafe fn from_raw(raw: NonNull<Header>) -> Self {
        TaskRef(raw)
    }

    /// Marks the task as taken from the queue.
    pub(super) fn unqueue(&self) {
        let flags = &self.header().flags;
        flags.set(flags.get() & !QUEUED);
    }

    /// Counts a poll in the drain numbered `drain` and returns how many there were before.
    pub(super) fn count_poll(&self, drain: u32) -> u32 {
        let header = self.header();
        if header.drain.replace(drain) != drain {
            header.polls.set(0);
        }
        let before = header.polls.get();
        header.polls.set(before + 1);
        before
    }

    /// Polls the future, unless it is out of its slot or gone.
    pub(super) fn poll(&self, queue: &Queue) {
        let header = self.header();
        let flags = header.flags.get();
        if flags & (POLLING | DONE) != 0 {
            return;
        }
        // SAFETY: the task holds its scope, unless that is null.
        if let Some(scope) = unsafe { header.scope.get().as_ref() }
            && scope.is_dead(self.0, queue)
        {
            return;
        }
        header.flags.set(flags | POLLING);
        // The scope leaves its place only in `retire`, which waits for POLLING to end.
        let outer = queue.enter_scope(header.scope.get());
        // The waker borrows our reference: polling costs no count unless the future clones it.
        let waker = ManuallyDrop::new(waker(self.0));
        let mut context = Context::from_waker(&waker);
        // SAFETY: this thread is the home, and POLLING gives exclusive use of the future.
        let outcome = unsafe { (header.table.poll)(self.0, &mut context) };
        queue.leave_scope(outer);
        header.flags.set(header.flags.get() & !POLLING);
        match outcome {
            Poll::Pending if header.flags.get() & ABORTED != 0 => {
                self.stop(queue, JoinError::aborted());
            }
            Poll::Pending => {
                // SAFETY: the task holds its scope, unless that is null.
                if let Some(scope) = unsafe { header.scope.get().as_ref() } {
                    scope.note_await(self.0, queue);
                }
            }
            Poll::Ready(Ok(())) => drop(self.retire()),
            Poll::Ready(Err(payload)) => self.fail(queue, Failure::panic(payload)),
        }
    }

    /// Drops the future and leaves the reason for the joiner. Harmless on a task that is done.
    pub(super) fn stop(&self, queue: &Queue, reason: JoinError) {
        let header = self.header();
        let flags = header.flags.get();
        if flags & DONE != 0 {
            return;
        }
        if flags & POLLING != 0 {
            header.flags.set(flags | ABORTED);
            return;
        }
        // While it is dropped the future is out of its slot, too.
        header.flags.set(flags | POLLING);
        let outer = queue.enter_scope(header.scope.get());
        // SAFETY: this thread is the home, and POLLING gives exclusive use of the future.
        let failure = unsafe { (header.table.discard)(self.0, reason) };
        queue.leave_scope(outer);
        let scope = self.retire();
        if let Some(failure) = failure {
            self.report_to(scope.as_deref(), &failure);
        }
    }

    /// Drops the future after reporting why the executor gave up on it.
    #[cold]
    pub(super) fn fail(&self, queue: &Queue, failure: Failure) {
        self.report(&failure);
        self.stop(queue, JoinError::failed(failure));
    }

    pub(super) fn is_done(&self) -> bool {
        self.header().flags.get() & DONE != 0
    }

    /// The future is gone: settles with the joiner and the scope, which is given back.
    #[inline]
    fn retire(&self) -> Option<Rc<Scope>> {
        let header = self.header();
        let flags = header.flags.get();
        header.flags.set((flags & !POLLING) | DONE);
        let scope = self.take_scope();
        if flags & JOINABLE != 0 {
            // SAFETY: home thread; the reference does not outlive the statement.
            if let Some(joiner) = unsafe { (*header.joiner.get()).take() } {
                joiner.wake();
            }
        }
        scope
    }

    fn take_scope(&self) -> Option<Rc<Scope>> {
        let scope = self.header().scope.replace(ptr::null());
        if scope.is_null() {
            return None;
        }
        // SAFETY: `new` put it there with `Rc::into_raw`, and it is taken once.
        let scope = unsafe { Rc::from_raw(scope) };
        if let Some(awaits) = scope.awaits()
            && awaits.end(self.0)
        {
            queue::with(|queue| scope.die(queue));
        }
        scope.unlink(self.0);
        Some(scope)
    }

    /// The owner of this task, unless its future is gone.
    pub(super) fn scope(&self) -> Option<Rc<Scope>> {
        let scope = self.header().scope.get();
        (!scope.is_null()).then(|| {
            // SAFETY: the count keeps the scope alive while user code may run.
            unsafe {
                Rc::increment_strong_count(scope);
                Rc::from_raw(scope)
            }
        })
    }

    /// Reports to the owner of this task.
    pub(super) fn report(&self, failure: &Failure) {
        self.report_to(self.scope().as_deref(), failure);
    }

    fn report_to(&self, scope: Option<&Scope>, failure: &Failure) {
        let joined = self.header().flags.get() & JOINABLE != 0;
        match scope {
            Some(scope) => scope.report(failure, joined),
            None => complain!("{failure}"),
        }
    }
}

impl Clone for TaskRef {
    fn clone(&self) -> Self {
        retain(self.0);
        TaskRef(self.0)
    }
}

impl Drop for TaskRef {
    fn drop(&mut self) {
        release(self.0);
    }
}
