//! One task: a reference-counted cell around a future, in one allocation.
//!
//! Life of a task, in the words of the executor's contract:
//!
//! * it is born holding its future and one reference;
//! * while it is polled the future is *out of its slot* (`POLLING`): a re-entrant poll finds nothing
//!   to poll, a wake-up only queues;
//! * pending, the future goes back; ready, it is dropped at once, long before the last waker;
//! * when the last waker is gone the task is gone, and if its future was still pending nothing in
//!   the world could have woken it: it is dropped and its join handle learns so.
//!
//! # Threads
//!
//! A `Waker` may travel to any thread, so three fields are shared: the reference count (atomic),
//! the home and the function table (never change). Everything else belongs to the home thread
//! alone and is plain memory, which keeps the path everybody takes free of locks and of atomic
//! operations other than the count. A foreign thread never frees a task and never touches its
//! future: it hands what it holds to the home's inbox.

use super::home::Home;
use super::join::JoinError;
use super::scope::Scope;
use super::{Failure, queue};
use std::cell::{Cell, UnsafeCell};
use std::future::Future;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

/// In the ready queue of its home thread.
const QUEUED: u8 = 1;
/// The future is out of its slot: somebody is polling it.
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
    home: Arc<Home>,
    flags: Cell<u8>,
    /// The drain in which `polls` counts.
    drain: Cell<u32>,
    polls: Cell<u32>,
    /// Link of the ready queue.
    pub(super) next: Cell<Option<NonNull<Header>>>,
    /// Who answers for this task; gone as soon as the future is.
    scope: UnsafeCell<Option<Rc<Scope>>>,
    /// Links of the scope's list.
    pub(super) scope_previous: Cell<Option<NonNull<Header>>>,
    pub(super) scope_next: Cell<Option<NonNull<Header>>>,
    joiner: UnsafeCell<Option<Waker>>,
}

/// The future is pending, came to its end, or panicked.
type Polled = Poll<Result<(), Failure>>;

/// What depends on the type of the future.
struct Table {
    poll: unsafe fn(NonNull<Header>, &mut Context<'_>) -> Polled,
    discard: unsafe fn(NonNull<Header>, JoinError) -> Option<Failure>,
    deallocate: unsafe fn(NonNull<Header>),
}

#[repr(C)]
struct Task<F: Future> {
    header: Header,
    stage: UnsafeCell<Stage<F>>,
}

enum Stage<F: Future> {
    Pending(F),
    Finished(Result<F::Output, JoinError>),
    Consumed,
}

/// A counted reference to a task, as a waker or the ready queue holds it.
pub(super) struct TaskRef(NonNull<Header>);

impl TaskRef {
    /// Puts `future` into a new task that belongs to this thread and to `scope`.
    pub(super) fn new<F>(future: F, scope: Option<Rc<Scope>>, home: Arc<Home>, join: bool) -> Self
    where
        F: Future + 'static,
    {
        let cell = Box::new(Task {
            header: Header {
                references: AtomicUsize::new(1),
                table: &Table {
                    poll: poll::<F>,
                    discard: discard::<F>,
                    deallocate: deallocate::<F>,
                },
                home,
                flags: Cell::new(if join { JOINABLE } else { 0 }),
                drain: Cell::new(0),
                polls: Cell::new(0),
                next: Cell::new(None),
                scope: UnsafeCell::new(scope),
                scope_previous: Cell::new(None),
                scope_next: Cell::new(None),
                joiner: UnsafeCell::new(None),
            },
            stage: UnsafeCell::new(Stage::Pending(future)),
        });
        let header = NonNull::from(Box::leak(cell)).cast::<Header>();
        let task = TaskRef(header);
        // SAFETY: nobody else knows the task yet.
        if let Some(scope) = unsafe { &*task.header().scope.get() } {
            scope.link(header);
        }
        task
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

    /// Counts a poll in the drain numbered `drain` and answers how many there were before.
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
    pub(super) fn poll(&self) {
        let header = self.header();
        let flags = header.flags.get();
        if flags & (POLLING | DONE) != 0 {
            return;
        }
        header.flags.set(flags | POLLING);
        // SAFETY: the scope leaves its place only in `retire`, which waits for POLLING to end.
        let scope = unsafe { (*header.scope.get()).as_deref() };
        let outer = queue::enter_scope(scope);
        // The waker borrows our reference: polling costs no count unless the future clones it.
        let waker = ManuallyDrop::new(waker(self.0));
        let mut context = Context::from_waker(&waker);
        // SAFETY: this thread is the home, and POLLING gives exclusive use of the future.
        let outcome = unsafe { (header.table.poll)(self.0, &mut context) };
        queue::leave_scope(outer);
        header.flags.set(header.flags.get() & !POLLING);
        match outcome {
            Poll::Pending if header.flags.get() & ABORTED != 0 => self.stop(JoinError::aborted()),
            Poll::Pending => {}
            Poll::Ready(Ok(())) => self.retire(None),
            Poll::Ready(Err(failure)) => self.fail(failure),
        }
    }

    /// Drops the future and tells the joiner why. Harmless on a task that is done.
    pub(super) fn stop(&self, reason: JoinError) {
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
        // SAFETY: as for `poll`.
        let scope = unsafe { (*header.scope.get()).as_deref() };
        let outer = queue::enter_scope(scope);
        // SAFETY: this thread is the home, and POLLING gives exclusive use of the future.
        let failure = unsafe { (header.table.discard)(self.0, reason) };
        queue::leave_scope(outer);
        self.retire(failure);
    }

    /// Drops the future after reporting why the executor gave up on it.
    pub(super) fn fail(&self, failure: Failure) {
        self.report(&failure);
        self.stop(JoinError::failed(failure));
    }

    pub(super) fn is_done(&self) -> bool {
        self.header().flags.get() & DONE != 0
    }

    /// The future is gone: settle with the scope and the joiner.
    fn retire(&self, failure: Option<Failure>) {
        let header = self.header();
        header.flags.set((header.flags.get() & !POLLING) | DONE);
        // SAFETY: home thread, and no `poll` borrows the scope any more.
        let scope = unsafe { (*header.scope.get()).take() };
        if let Some(scope) = &scope {
            scope.unlink(self.0);
        }
        if let Some(failure) = failure {
            self.report_to(scope.as_ref(), &failure);
        }
        // SAFETY: home thread; the reference does not outlive the statement.
        if let Some(joiner) = unsafe { (*header.joiner.get()).take() } {
            joiner.wake();
        }
    }

    /// Tells whoever answers for this task.
    pub(super) fn report(&self, failure: &Failure) {
        // SAFETY: home thread; the clone keeps the scope alive while user code may run.
        let scope = unsafe { (*self.header().scope.get()).clone() };
        self.report_to(scope.as_ref(), failure);
    }

    fn report_to(&self, scope: Option<&Rc<Scope>>, failure: &Failure) {
        let joined = self.header().flags.get() & JOINABLE != 0;
        match scope {
            Some(scope) => scope.report(failure, joined),
            None => eprintln!("shaketable: {failure}"),
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

/// The join handle's side: not counted, home thread only, gone before the task.
pub(super) struct Joint<T> {
    header: NonNull<Header>,
    take: unsafe fn(NonNull<Header>) -> Option<Result<T, JoinError>>,
}

impl<T> Joint<T> {
    /// The one joint of a task made with `join`.
    pub(super) fn new<F>(task: &TaskRef) -> Self
    where
        F: Future<Output = T> + 'static,
    {
        debug_assert!(task.header().flags.get() & JOINABLE != 0);
        Joint {
            header: task.0,
            take: take_output::<F>,
        }
    }

    fn header(&self) -> &Header {
        // SAFETY: JOINABLE keeps the allocation alive until this joint is dropped.
        unsafe { self.header.as_ref() }
    }

    pub(super) fn is_done(&self) -> bool {
        self.header().flags.get() & DONE != 0
    }

    /// The output, once; `None` while the task runs.
    pub(super) fn poll(&self, context: &Context<'_>) -> Poll<Result<T, JoinError>> {
        if self.is_done() {
            // SAFETY: done, so nobody uses the stage; `take` fits the future by construction.
            let output = unsafe { (self.take)(self.header) };
            return Poll::Ready(output.unwrap_or_else(|| Err(JoinError::taken())));
        }
        // SAFETY: home thread; `clone` and `drop` of a waker do not come back here.
        let joiner = unsafe { &mut *self.header().joiner.get() };
        match joiner {
            Some(waker) => waker.clone_from(context.waker()),
            None => *joiner = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    pub(super) fn abort(&self) {
        // The reference keeps the task whole while its future is dropped.
        retain(self.header);
        TaskRef(self.header).stop(JoinError::aborted());
    }
}

impl<T> Drop for Joint<T> {
    fn drop(&mut self) {
        retain(self.header);
        let task = TaskRef(self.header);
        let header = task.header();
        if task.is_done() {
            // SAFETY: done, so nobody uses the stage; `take` fits the future by construction.
            let output = AssertUnwindSafe(|| drop(unsafe { (self.take)(self.header) }));
            if let Err(payload) = catch_unwind(output) {
                task.report(&Failure::panic(payload));
            }
        }
        header.flags.set(header.flags.get() & !JOINABLE);
        // SAFETY: home thread; a detached task has no joiner.
        drop(unsafe { (*header.joiner.get()).take() });
    }
}

/// # Safety
///
/// Home thread, exclusive use of the future; `header` belongs to a task over `F`.
unsafe fn poll<F: Future>(header: NonNull<Header>, context: &mut Context<'_>) -> Polled {
    // SAFETY: by the caller's promise.
    let stage = unsafe { &mut *header.cast::<Task<F>>().as_ref().stage.get() };
    let polled = catch_unwind(AssertUnwindSafe(|| {
        let Stage::Pending(future) = stage else {
            return Poll::Ready(());
        };
        // SAFETY: the future never moves out of its heap cell: it is dropped in place.
        let future = unsafe { Pin::new_unchecked(future) };
        future.poll(context).map(|output| {
            *stage = Stage::Finished(Ok(output));
        })
    }));
    match polled {
        Ok(Poll::Pending) => return Poll::Pending,
        Ok(Poll::Ready(())) => {}
        Err(payload) => return Poll::Ready(Err(Failure::panic(payload))),
    }
    // SAFETY: by the caller's promise.
    unsafe { settle::<F>(header) };
    Poll::Ready(Ok(()))
}

/// Drops the future in its place and leaves `reason` for the joiner.
///
/// # Safety
///
/// As for [`poll`].
unsafe fn discard<F: Future>(header: NonNull<Header>, reason: JoinError) -> Option<Failure> {
    // SAFETY: by the caller's promise.
    let stage = unsafe { &mut *header.cast::<Task<F>>().as_ref().stage.get() };
    let dropped = catch_unwind(AssertUnwindSafe(|| {
        *stage = Stage::Finished(Err(reason));
    }));
    // SAFETY: by the caller's promise.
    unsafe { settle::<F>(header) };
    dropped.err().map(Failure::panic)
}

/// Forgets an output nobody will ask for.
///
/// # Safety
///
/// As for [`poll`]; the future is gone.
unsafe fn settle<F: Future>(header: NonNull<Header>) {
    // SAFETY: by the caller's promise.
    let cell = unsafe { header.cast::<Task<F>>().as_ref() };
    if cell.header.flags.get() & JOINABLE == 0 {
        // SAFETY: by the caller's promise.
        let stage = unsafe { &mut *cell.stage.get() };
        let output = std::mem::replace(stage, Stage::Consumed);
        let _ = catch_unwind(AssertUnwindSafe(|| drop(output)));
    }
}

/// # Safety
///
/// Home thread, the task is done, and `header` belongs to a task over `F`.
unsafe fn take_output<F: Future>(header: NonNull<Header>) -> Option<Result<F::Output, JoinError>> {
    // SAFETY: by the caller's promise.
    let stage = unsafe { &mut *header.cast::<Task<F>>().as_ref().stage.get() };
    match std::mem::replace(stage, Stage::Consumed) {
        Stage::Finished(output) => Some(output),
        Stage::Pending(_) | Stage::Consumed => None,
    }
}

/// # Safety
///
/// Home thread, no reference and no joint left; `header` belongs to a task over `F`.
unsafe fn deallocate<F: Future>(header: NonNull<Header>) {
    // SAFETY: allocated by `TaskRef::new` as this very type.
    drop(unsafe { Box::from_raw(header.cast::<Task<F>>().as_ptr()) });
}

fn retain(header: NonNull<Header>) {
    // SAFETY: the caller holds a reference or the joint.
    let before = unsafe { header.as_ref() }
        .references
        .fetch_add(1, Ordering::Relaxed);
    if before > usize::MAX / 2 {
        std::process::abort();
    }
}

fn release(header: NonNull<Header>) {
    // SAFETY: the caller gives up a reference it holds.
    let task = unsafe { header.as_ref() };
    if !queue::is_home(&task.home) {
        return release_abroad(header);
    }
    if task.references.fetch_sub(1, Ordering::Release) != 1 {
        return;
    }
    fence(Ordering::Acquire);
    if task.flags.get() & DONE == 0 {
        // Pending, and the last waker is gone. A task that is being dropped may be woken by its own
        // future, so it needs a reference again while that happens.
        task.references.store(1, Ordering::Relaxed);
        let last = TaskRef(header);
        last.stop(JoinError::stuck());
        return drop(last);
    }
    if task.flags.get() & JOINABLE == 0 {
        // SAFETY: the count is zero, there is no joint, and this is the home thread.
        unsafe { (task.table.deallocate)(header) };
    }
}

/// Gives up a reference away from home: everybody but the last may simply go.
#[cold]
fn release_abroad(header: NonNull<Header>) {
    // SAFETY: the caller gives up a reference it holds.
    let task = unsafe { header.as_ref() };
    let mut count = task.references.load(Ordering::Relaxed);
    while count > 1 {
        match task.references.compare_exchange_weak(
            count,
            count - 1,
            Ordering::Release,
            Ordering::Relaxed,
        ) {
            Ok(_) => return,
            Err(now) => count = now,
        }
    }
    let home = task.home.clone();
    home.send_release(TaskRef(header));
}

static WAKER: RawWakerVTable =
    RawWakerVTable::new(waker_clone, waker_wake, waker_wake_by_ref, waker_drop);

fn waker(header: NonNull<Header>) -> Waker {
    // SAFETY: the table keeps the contract: the count is atomic, and every function may be called
    // from any thread.
    unsafe { Waker::from_raw(RawWaker::new(header.as_ptr().cast_const().cast(), &WAKER)) }
}

fn header_of(data: *const ()) -> NonNull<Header> {
    // SAFETY: only `waker` makes these wakers, from a non-null pointer.
    unsafe { NonNull::new_unchecked(data.cast_mut().cast()) }
}

fn waker_clone(data: *const ()) -> RawWaker {
    retain(header_of(data));
    RawWaker::new(data, &WAKER)
}

fn waker_wake(data: *const ()) {
    wake(TaskRef(header_of(data)));
}

fn waker_wake_by_ref(data: *const ()) {
    let task = ManuallyDrop::new(TaskRef(header_of(data)));
    let header = task.header();
    if queue::is_home(&header.home) && header.flags.get() & (QUEUED | DONE) != 0 {
        return;
    }
    wake(TaskRef::clone(&task));
}

fn waker_drop(data: *const ()) {
    release(header_of(data));
}

/// Queues the task; polls nothing.
fn wake(task: TaskRef) {
    let header = task.header();
    if !queue::is_home(&header.home) {
        let home = header.home.clone();
        return home.send_wake(task);
    }
    deliver(task);
}

/// Queues a task of this thread, unless it is queued already or done.
pub(super) fn deliver(task: TaskRef) {
    let header = task.header();
    let flags = header.flags.get();
    if flags & (QUEUED | DONE) == 0 {
        header.flags.set(flags | QUEUED);
        queue::push(task);
    }
}
