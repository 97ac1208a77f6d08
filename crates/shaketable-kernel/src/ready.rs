//! What is ready to run: the queue that wakers and other threads push into, and the kernel pops from.
//!
//! One FIFO per priority. A `Waker` must be `Send + Sync`, yet nearly every wake-up happens on the kernel's own thread, ten
//! thousand times in a simulation of milliseconds, where a lock would cost more than the queue. So each thread
//! knows the [`Queues`] of the kernels that live on it, and a waker that finds its kernel's there pushes without a lock. From any other
//! thread it takes the way of [`Shared`], behind a mutex, which the kernel empties into its queues: safe by construction
//! instead of by promise. Inbox closures wait in the same queue at the priority of FoundationDB's
//! `DefaultOnMainThread`, so that their order among tasks is the real client's.

use crate::kernel::Kernel;
use crate::task::TaskId;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

/// How urgent a task is: among ready tasks the highest priority runs first, equals run in the order they
/// became ready. The names and numbers are FoundationDB's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Priority {
    Min = 1000,
    Low = 2000,
    FetchKeys = 2500,
    UpdateStorage = 3000,
    DataDistribution = 3502,
    DefaultEndpoint = 5000,
    DefaultYield = 7000,
    DefaultDelay = 7010,
    DefaultOnMainThread = 7500,
    DefaultPromiseEndpoint = 8000,
    GetConsistentReadVersion = 8500,
    ProxyCommit = 8545,
    TLogCommit = 8570,
    ClusterController = 8650,
    FailureMonitor = 8700,
    Coordination = 8800,
    ReadSocket = 9000,
    DiskIoComplete = 9150,
    Max = 1_000_000,
}

impl Priority {
    const LEVELS: usize = 19;

    /// The rank among all priorities, lowest first.
    const fn level(self) -> u8 {
        match self {
            Priority::Min => 0,
            Priority::Low => 1,
            Priority::FetchKeys => 2,
            Priority::UpdateStorage => 3,
            Priority::DataDistribution => 4,
            Priority::DefaultEndpoint => 5,
            Priority::DefaultYield => 6,
            Priority::DefaultDelay => 7,
            Priority::DefaultOnMainThread => 8,
            Priority::DefaultPromiseEndpoint => 9,
            Priority::GetConsistentReadVersion => 10,
            Priority::ProxyCommit => 11,
            Priority::TLogCommit => 12,
            Priority::ClusterController => 13,
            Priority::FailureMonitor => 14,
            Priority::Coordination => 15,
            Priority::ReadSocket => 16,
            Priority::DiskIoComplete => 17,
            Priority::Max => 18,
        }
    }
}

/// Posts closures to a kernel from any thread. They run later, in the order of posting, on the kernel's thread.
///
/// An inbox can exist before its kernel does (see [`Kernel::real_with`]): what is posted meanwhile waits.
/// What is posted after the kernel is gone is dropped silently.
#[derive(Clone)]
pub struct Inbox(pub(crate) Arc<Shared>);

impl Default for Inbox {
    fn default() -> Self {
        Inbox::new()
    }
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox")
            .field("closed", &self.0.lock().closed)
            .finish_non_exhaustive()
    }
}

impl Inbox {
    /// An inbox that waits for its kernel.
    pub fn new() -> Inbox {
        Inbox(Arc::new(Shared::new()))
    }

    /// Runs `call` on the kernel's thread, after everything posted before.
    pub fn post(&self, call: impl FnOnce(&Kernel) + Send + 'static) {
        self.0.push(Box::new(call));
    }

    /// Whether the caller stands on the thread that runs the kernel, where waiting for it would be waiting for ever.
    pub fn is_kernel_thread(&self) -> bool {
        self.0.queues(|_| ()).is_some()
    }
}

/// A closure from the inbox.
pub(crate) type Call = Box<dyn FnOnce(&Kernel) + Send>;

/// One thing to run.
pub(crate) enum Item {
    Task(TaskId),
    Call(Call),
}

/// A task, as the thread knows it on which its kernel lives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Local {
    id: TaskId,
    level: u8,
    /// Where the kernel's queues are among those of the thread, and the kernel's number there.
    place: u32,
    kernel: u64,
}

thread_local! {
    /// The queues of the kernels that live on this thread, each at the place that its [`Shared`] knows.
    static HERE: RefCell<Vec<Option<Rc<Queues>>>> = const { RefCell::new(Vec::new()) };
    static KERNELS: Cell<u64> = const { Cell::new(0) };
}

/// Wakes a task, if its kernel still exists.
#[inline]
pub(crate) fn wake(task: Local) {
    let _ = HERE.try_with(|here| {
        let here = here.borrow();
        if let Some(Some(queues)) = here.get(task.place as usize)
            && queues.kernel == task.kernel
        {
            queues.levels.borrow_mut().wake(task.level, task.id);
        }
    });
}

/// What is ready, as the kernel's own thread sees it.
pub(crate) struct Ready {
    queues: Rc<Queues>,
    pub(crate) shared: Arc<Shared>,
}

impl Ready {
    /// Makes the calling thread the kernel's.
    ///
    /// # Panics
    /// If the inbox has a kernel already.
    pub(crate) fn new(inbox: Inbox) -> Ready {
        let shared = inbox.0;
        let kernel = KERNELS.get();
        KERNELS.set(kernel + 1);
        let queues = Rc::new(Queues {
            levels: RefCell::default(),
            kernel,
            shared: shared.clone(),
        });
        let place = HERE.with_borrow_mut(|here| {
            let place = here.iter().position(Option::is_none);
            let place = place.unwrap_or_else(|| {
                here.push(None);
                here.len() - 1
            });
            here[place] = Some(queues.clone());
            place as u32
        });
        let before = shared.place.swap(place, Ordering::AcqRel);
        assert_eq!(before, NOWHERE, "an inbox belongs to one kernel");
        Ready { queues, shared }
    }

    /// Makes room for a task, and a waker for it.
    pub(crate) fn admit(&self, id: TaskId, priority: Priority) -> (Local, Waker) {
        let queued = &mut self.queues.levels.borrow_mut().queued;
        let index = id.index as usize;
        if queued.len() <= index {
            queued.resize(index + 1, None);
        }
        let local = Local {
            id,
            level: priority.level(),
            place: self.shared.place.load(Ordering::Relaxed),
            kernel: self.queues.kernel,
        };
        let waker = TaskWaker {
            task: local,
            posted: AtomicBool::new(false),
            shared: self.shared.clone(),
        };
        (local, Waker::from(Arc::new(waker)))
    }

    /// Wakes a task.
    pub(crate) fn wake(&self, task: Local) {
        let mut levels = self.queues.levels.borrow_mut();
        levels.wake(task.level, task.id);
    }

    /// The next thing to run.
    #[inline]
    pub(crate) fn pop(&self) -> Option<Item> {
        self.queues.receive();
        self.queues.levels.borrow_mut().pop()
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.shared.posted.load(Ordering::Acquire) && self.queues.levels.borrow().is_empty()
    }

    /// Blocks until another thread posts something or `timeout` has passed. Nothing may be ready.
    pub(crate) fn wait(&self, timeout: Option<Duration>) {
        let long = timeout.is_none_or(|timeout| timeout > SPIN_WORTHWHILE);
        let posted = || self.shared.posted.load(Ordering::Acquire);
        if self.is_empty() && !(long && spin_until(posted)) {
            self.shared.wait(timeout);
        }
    }

    /// Drops what waits and whatever will be pushed from now on.
    pub(crate) fn close(&self) {
        let place = self.shared.place.load(Ordering::Relaxed) as usize;
        // At the end of a thread there may be nothing left to leave.
        let _ = HERE.try_with(|here| {
            let own = |queues: &mut Rc<Queues>| Rc::ptr_eq(queues, &self.queues);
            here.borrow_mut()[place].take_if(own)
        });
        let posted = self.shared.close();
        let waiting = self.queues.levels.take();
        drop((waiting, posted)); // destructors of closures may post
    }
}

/// Looks again and again, for some ten microseconds, whether something has happened; says whether it has.
///
/// Two threads that work hand in hand wait for one another no longer than this, as a rule, while waking a thread that sleeps takes longer on a machine
/// that is idle, and much longer on a virtual one. No longer than that: on a busy machine it is the thread that sleeps which is given a processor first.
pub fn spin_until(happened: impl Fn() -> bool) -> bool {
    (0..SPINS).any(|_| {
        std::hint::spin_loop();
        happened()
    })
}

const SPINS: u32 = 1000;
/// Before shorter pauses there is no time to lose.
const SPIN_WORTHWHILE: Duration = Duration::from_millis(1);

/// The queues of one kernel, for its own thread.
struct Queues {
    levels: RefCell<Levels>,
    /// Tells it from other kernels of the thread.
    kernel: u64,
    shared: Arc<Shared>,
}

impl Queues {
    /// Takes over what other threads have posted.
    #[inline(always)]
    fn receive(&self) {
        if self.shared.posted.load(Ordering::Acquire) {
            self.take_posted();
        }
    }

    #[cold]
    fn take_posted(&self) {
        let posted = self.shared.take();
        let mut levels = self.levels.borrow_mut();
        for posted in posted {
            match posted {
                Posted::Call(call) => levels.push(CALLS, Item::Call(call)),
                Posted::Task(waker) => {
                    // A swap: the work of a thread that found it posted must be seen by the poll that follows.
                    waker.posted.swap(false, Ordering::AcqRel);
                    levels.wake(waker.task.level, waker.task.id);
                }
            }
        }
    }
}

/// The level of closures from the inbox.
const CALLS: u8 = Priority::DefaultOnMainThread.level();

#[derive(Default)]
struct Levels {
    /// The task that is ready while nothing else is, which is how it is most of the time. Then the queues are empty.
    only: Option<(u8, TaskId)>,
    queues: [VecDeque<Item>; Priority::LEVELS],
    /// Bit `n` is set when queue `n` holds something.
    occupied: u32,
    /// By the index of a task: the generation of the one that waits in a queue.
    queued: Vec<Option<u32>>,
}

impl Levels {
    fn is_empty(&self) -> bool {
        self.only.is_none() && self.occupied == 0
    }

    fn push(&mut self, level: u8, item: Item) {
        if let Some((level, id)) = self.only.take() {
            self.queue(level, Item::Task(id));
        }
        self.queue(level, item);
    }

    #[inline]
    fn queue(&mut self, level: u8, item: Item) {
        self.queues[usize::from(level)].push_back(item);
        self.occupied |= 1 << level;
    }

    /// Queues a task. Woken twice before it runs, it is queued once.
    #[inline]
    fn wake(&mut self, level: u8, id: TaskId) {
        // After a shutdown there is no room for tasks that were there before.
        let Some(queued) = self.queued.get_mut(id.index as usize) else {
            return;
        };
        if *queued != Some(id.generation) {
            *queued = Some(id.generation);
            if self.is_empty() {
                self.only = Some((level, id));
            } else {
                self.push(level, Item::Task(id));
            }
        }
    }

    #[inline]
    fn pop(&mut self) -> Option<Item> {
        if let Some((_, id)) = self.only.take() {
            self.unmark(id);
            return Some(Item::Task(id));
        }
        if self.occupied == 0 {
            return None;
        }
        let level = 31 - self.occupied.leading_zeros();
        let queue = &mut self.queues[level as usize];
        let item = queue.pop_front();
        if queue.is_empty() {
            self.occupied &= !(1 << level);
        }
        if let Some(Item::Task(id)) = item {
            self.unmark(id);
        }
        item
    }

    /// From now on a wake-up counts again.
    #[inline]
    fn unmark(&mut self, id: TaskId) {
        let queued = &mut self.queued[id.index as usize];
        if *queued == Some(id.generation) {
            *queued = None;
        }
    }
}

/// The part of a kernel that other threads may touch.
pub(crate) struct Shared {
    /// Where the kernel's queues are among those of its thread.
    place: AtomicU32,
    /// Whether `state` holds anything.
    posted: AtomicBool,
    state: Mutex<State>,
    arrived: Condvar,
}

/// The place of a kernel that does not exist yet.
const NOWHERE: u32 = u32::MAX;

/// What another thread wants.
enum Posted {
    Task(Arc<TaskWaker>),
    Call(Call),
}

struct State {
    items: Vec<Posted>,
    waiting: bool,
    closed: bool,
}

impl Shared {
    fn new() -> Shared {
        Shared {
            place: AtomicU32::new(NOWHERE),
            posted: AtomicBool::new(false),
            state: Mutex::new(State {
                items: Vec::new(),
                waiting: false,
                closed: false,
            }),
            arrived: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The kernel's queues, if this is its thread and it is not closed.
    #[inline]
    fn queues<T>(&self, look: impl FnOnce(&Queues) -> T) -> Option<T> {
        let place = self.place.load(Ordering::Acquire);
        let look = |here: &RefCell<Vec<Option<Rc<Queues>>>>| {
            let here = here.borrow();
            let queues = here.get(place as usize)?.as_ref()?;
            // Another thread has another kernel in that place, or none.
            std::ptr::eq(&*queues.shared, self).then(|| look(queues))
        };
        HERE.try_with(look).ok().flatten()
    }

    fn push(&self, call: Call) {
        let mut call = Some(call);
        self.queues(|queues| {
            queues.receive(); // it was posted before
            let item = call.take().map(Item::Call);
            item.map(|item| queues.levels.borrow_mut().push(CALLS, item))
        });
        if let Some(call) = call {
            self.post(Posted::Call(call));
        }
    }

    /// Leaves something for the kernel's thread.
    fn post(&self, item: Posted) {
        let mut state = self.lock();
        if state.closed {
            drop(state); // the item's destructor may come back here
            return;
        }
        state.items.push(item);
        self.posted.store(true, Ordering::Release);
        let waiting = std::mem::take(&mut state.waiting);
        drop(state); // whoever is woken would only wait for the lock
        if waiting {
            self.arrived.notify_one();
        }
    }

    fn take(&self) -> Vec<Posted> {
        let mut state = self.lock();
        self.posted.store(false, Ordering::Relaxed);
        std::mem::take(&mut state.items)
    }

    fn wait(&self, timeout: Option<Duration>) {
        let mut state = self.lock();
        if !state.items.is_empty() || state.closed {
            return;
        }
        state.waiting = true;
        match timeout {
            Some(timeout) => {
                self.arrived
                    .wait_while_for(&mut state, |state| state.waiting, timeout);
            }
            None => self.arrived.wait_while(&mut state, |state| state.waiting),
        }
        state.waiting = false;
    }

    /// Refuses what will be posted from now on; gives what was.
    fn close(&self) -> Vec<Posted> {
        self.lock().closed = true;
        self.take()
    }
}

/// The waker of one task.
struct TaskWaker {
    task: Local,
    /// Whether another thread has posted it: woken twice from there, it is posted once.
    posted: AtomicBool,
    shared: Arc<Shared>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let Local { level, id, .. } = self.task;
        let here = self
            .shared
            .queues(|queues| queues.levels.borrow_mut().wake(level, id));
        if here.is_none() && !self.posted.swap(true, Ordering::AcqRel) {
            self.shared.post(Posted::Task(self.clone()));
        }
    }
}
