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

use super::Failure;
use super::home::Home;
use super::join::JoinError;
use super::queue::{self, Queue};
use super::scope::Scope;
use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::future::Future;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::rc::Rc;
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
    /// Outlives the task: see the end of a thread in `queue`.
    home: *const Home,
    flags: Cell<u8>,
    /// The drain in which `polls` counts.
    drain: Cell<u32>,
    polls: Cell<u32>,
    /// Link of the ready queue.
    pub(super) next: Cell<Option<NonNull<Header>>>,
    /// Who answers for this task: an `Rc` in raw form, or null. Given back as soon as the future is
    /// gone.
    scope: Cell<*const Scope>,
    /// Links of the scope's list.
    pub(super) scope_previous: Cell<Option<NonNull<Header>>>,
    pub(super) scope_next: Cell<Option<NonNull<Header>>>,
    joiner: UnsafeCell<Option<Waker>>,
}

/// The future is pending, came to its end, or panicked.
type Polled = Poll<Result<(), Box<dyn Any + Send>>>;

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
    /// A task whose output nobody will ask for.
    pub(super) fn detached<F>(queue: &Queue, future: F) -> Self
    where
        F: Future<Output = ()> + 'static,
    {
        let table = const {
            &Table {
                poll: poll::<F, false>,
                discard: discard::<F>,
                deallocate: deallocate::<F>,
            }
        };
        TaskRef::new(queue, future, table, 0)
    }

    /// A task that waits with its output for the one [`Joint`] that is made of it.
    pub(super) fn joinable<F>(queue: &Queue, future: F) -> Self
    where
        F: Future + 'static,
    {
        let table = const {
            &Table {
                poll: poll::<F, true>,
                discard: discard::<F>,
                deallocate: deallocate::<F>,
            }
        };
        TaskRef::new(queue, future, table, JOINABLE)
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
        // Written in its place: a future can be large, and moving it twice costs twice.
        let mut cell = Box::<Task<F>>::new_uninit();
        cell.write(Task {
            header,
            stage: UnsafeCell::new(Stage::Pending(future)),
        });
        // SAFETY: written just above.
        let cell = unsafe { cell.assume_init() };
        let task = TaskRef(NonNull::from(Box::leak(cell)).cast::<Header>());
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
    pub(super) fn poll(&self, queue: &Queue) {
        let header = self.header();
        let flags = header.flags.get();
        if flags & (POLLING | DONE) != 0 {
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
            Poll::Pending => {}
            Poll::Ready(Ok(())) => drop(self.retire()),
            Poll::Ready(Err(payload)) => self.fail(queue, Failure::panic(payload)),
        }
    }

    /// Drops the future and tells the joiner why. Harmless on a task that is done.
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
        scope.unlink(self.0);
        Some(scope)
    }

    /// Tells whoever answers for this task.
    pub(super) fn report(&self, failure: &Failure) {
        let scope = self.header().scope.get();
        let scope = (!scope.is_null()).then(|| {
            // SAFETY: the count keeps the scope alive while user code may run.
            unsafe {
                Rc::increment_strong_count(scope);
                Rc::from_raw(scope)
            }
        });
        self.report_to(scope.as_deref(), failure);
    }

    fn report_to(&self, scope: Option<&Scope>, failure: &Failure) {
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
        let joiner = self.header().joiner.get();
        // SAFETY: home thread; the reference does not outlive the statement.
        let is_known = unsafe { (*joiner).as_ref() }.is_some_and(|w| w.will_wake(context.waker()));
        if !is_known {
            let waker = context.waker().clone();
            // SAFETY: as above. The old waker is dropped afterwards, because that may run user code.
            let old = unsafe { (*joiner).replace(waker) };
            drop(old);
        }
        Poll::Pending
    }

    pub(super) fn abort(&self) {
        // The reference keeps the task whole while its future is dropped.
        retain(self.header);
        queue::with(|queue| TaskRef(self.header).stop(queue, JoinError::aborted()));
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
unsafe fn poll<F: Future, const JOIN: bool>(
    header: NonNull<Header>,
    context: &mut Context<'_>,
) -> Polled {
    let polled = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: by the caller's promise.
        let stage = unsafe { &mut *header.cast::<Task<F>>().as_ref().stage.get() };
        let Stage::Pending(future) = stage else {
            return Poll::Ready(());
        };
        // SAFETY: the future never moves out of its heap cell: it is dropped in place.
        let future = unsafe { Pin::new_unchecked(future) };
        future.poll(context).map(|output| {
            *stage = match JOIN {
                true => Stage::Finished(Ok(output)),
                false => Stage::Consumed,
            };
        })
    }));
    match polled {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(())) => {
            if JOIN {
                // SAFETY: by the caller's promise.
                unsafe { settle::<F>(header) };
            }
            Poll::Ready(Ok(()))
        }
        Err(payload) => Poll::Ready(Err(payload)),
    }
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
/// Home thread, the task is done, no reference and no joint left; `header` belongs to a task over `F`.
unsafe fn deallocate<F: Future>(header: NonNull<Header>) {
    // Done, so future, output, scope and joiner are gone: what is left is memory.
    // SAFETY: allocated by `TaskRef::new` with this very layout.
    drop(unsafe { Box::from_raw(header.cast::<MaybeUninit<Task<F>>>().as_ptr()) });
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
    queue::with(|queue| {
        // SAFETY: the caller gives up a reference it holds.
        unsafe {
            if queue.is_home(header.as_ref().home) {
                release_at_home(queue, header);
            } else {
                release_abroad(header);
            }
        }
    });
}

/// # Safety
///
/// The caller is on the task's thread, and gives up a reference that it holds.
unsafe fn release_at_home(queue: &Queue, header: NonNull<Header>) {
    // SAFETY: by the caller's promise.
    let task = unsafe { header.as_ref() };
    if task.references.fetch_sub(1, Ordering::Release) != 1 {
        return;
    }
    fence(Ordering::Acquire);
    if task.flags.get() & DONE == 0 {
        // SAFETY: the count is zero, so nobody else knows the task.
        return unsafe { abandon(queue, header) };
    }
    if task.flags.get() & JOINABLE == 0 {
        // SAFETY: the count is zero, there is no joint, and this is the home thread.
        unsafe { (task.table.deallocate)(header) };
        queue.buried();
    }
}

/// The last waker of a pending task is gone: nothing can run it any more.
///
/// # Safety
///
/// Home thread, and the count is zero.
#[cold]
unsafe fn abandon(queue: &Queue, header: NonNull<Header>) {
    // A future may wake its own task while it is dropped, so there is a reference again meanwhile.
    // SAFETY: by the caller's promise.
    unsafe { header.as_ref() }
        .references
        .store(1, Ordering::Relaxed);
    let last = TaskRef(header);
    last.stop(queue, JoinError::stuck());
    last.release(queue);
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
    // SAFETY: a home outlives its tasks.
    unsafe { &*task.home }.send_release(TaskRef(header));
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
    wake(TaskRef::clone(&task));
}

fn waker_drop(data: *const ()) {
    release(header_of(data));
}

/// Queues the task; polls nothing.
fn wake(task: TaskRef) {
    queue::with(|queue| {
        let home = task.header().home;
        if queue.is_home(home) {
            task.deliver(queue);
        } else {
            // SAFETY: a home outlives its tasks.
            unsafe { &*home }.send_wake(task);
        }
    });
}
