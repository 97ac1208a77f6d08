//! What is ready to run: the queue that wakers and other threads push into, and the kernel pops from.
//!
//! One FIFO per priority. A `Waker` must be `Send + Sync`, so the queue sits behind a mutex; on the kernel's
//! own thread that mutex is never contended, and a foreign thread that wakes a task or posts a closure is
//! safe by construction instead of by promise. Inbox closures wait in the same queue at the priority of
//! FoundationDB's `DefaultOnMainThread`, so that their order among tasks is the real client's.

use crate::kernel::Kernel;
use crate::task::TaskId;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Wake;
use std::thread::ThreadId;
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
    fn level(self) -> u8 {
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
        self.0.push(
            Priority::DefaultOnMainThread.level(),
            Item::Call(Box::new(call)),
        );
    }

    /// Whether the caller stands on the thread that runs the kernel, where waiting for it would be waiting for ever.
    pub fn is_kernel_thread(&self) -> bool {
        self.0.thread.get() == Some(&std::thread::current().id())
    }
}

/// A closure from the inbox.
pub(crate) type Call = Box<dyn FnOnce(&Kernel) + Send>;

/// One thing to run.
pub(crate) enum Item {
    Task(TaskId),
    Call(Call),
}

/// The part of a kernel that other threads may touch.
pub(crate) struct Shared {
    state: Mutex<State>,
    posted: Condvar,
    thread: OnceLock<ThreadId>,
}

struct State {
    queues: [VecDeque<Item>; Priority::LEVELS],
    /// Bit `n` is set when queue `n` holds something.
    occupied: u32,
    waiting: bool,
    closed: bool,
}

impl Shared {
    fn new() -> Shared {
        Shared {
            state: Mutex::new(State {
                queues: std::array::from_fn(|_| VecDeque::new()),
                occupied: 0,
                waiting: false,
                closed: false,
            }),
            posted: Condvar::new(),
            thread: OnceLock::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Names the calling thread as the kernel's. The first one stays.
    pub(crate) fn adopt_thread(&self) {
        let _ = self.thread.set(std::thread::current().id());
    }

    fn push(&self, level: u8, item: Item) {
        let mut state = self.lock();
        if state.closed {
            drop(state); // the item's destructor may come back here
            return;
        }
        state.queues[usize::from(level)].push_back(item);
        state.occupied |= 1 << level;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state); // whoever is woken would only wait for the lock
        if waiting {
            self.posted.notify_one();
        }
    }

    pub(crate) fn pop(&self) -> Option<Item> {
        let mut state = self.lock();
        if state.occupied == 0 {
            return None;
        }
        let level = 31 - state.occupied.leading_zeros();
        let queue = &mut state.queues[level as usize];
        let item = queue.pop_front();
        if queue.is_empty() {
            state.occupied &= !(1 << level);
        }
        item
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().occupied == 0
    }

    /// Blocks until something is ready or `timeout` has passed.
    pub(crate) fn wait(&self, timeout: Option<Duration>) {
        let mut state = self.lock();
        if state.occupied != 0 || state.closed {
            return;
        }
        state.waiting = true;
        match timeout {
            Some(timeout) => {
                self.posted
                    .wait_while_for(&mut state, |state| state.waiting, timeout);
            }
            None => self.posted.wait_while(&mut state, |state| state.waiting),
        }
        state.waiting = false;
    }

    /// Drops what waits and whatever will be pushed from now on.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.occupied = 0;
        let dropped: Vec<_> = state.queues.iter_mut().map(std::mem::take).collect();
        drop(state); // destructors of closures may post
        drop(dropped);
    }
}

/// The waker of one task. Woken twice before the task runs, it is queued once.
pub(crate) struct TaskWaker {
    pub(crate) id: TaskId,
    level: u8,
    queued: AtomicBool,
    shared: Arc<Shared>,
}

impl TaskWaker {
    pub(crate) fn new(id: TaskId, priority: Priority, shared: Arc<Shared>) -> Arc<TaskWaker> {
        Arc::new(TaskWaker {
            id,
            level: priority.level(),
            queued: AtomicBool::new(false),
            shared,
        })
    }

    /// The task is about to be polled: the next wake-up counts again.
    pub(crate) fn rearm(&self) {
        self.queued.store(false, Ordering::Release);
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.shared.push(self.level, Item::Task(self.id));
        }
    }
}
