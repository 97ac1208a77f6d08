//! The way into a kernel from other threads.
//!
//! Two kinds of things come this way: closures, which an [`Inbox`] posts, and tasks, which their
//! wakers post when they are woken on another thread. Both wait behind one lock until the kernel's
//! thread moves them into its queues ([`crate::ready`]). That thread may be asleep; a post wakes
//! it. On the kernel's own thread neither goes through the lock.

use crate::kernel::Kernel;
use crate::ready::{self, Local, Queues};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::Wake;
use std::time::Duration;

/// Posts closures to a kernel from any thread. They run later, in the order of posting, on the
/// kernel's thread.
///
/// An inbox can exist before its kernel does (see [`Kernel::real_with`]): closures posted before
/// then wait. Closures posted after the kernel is gone are dropped silently.
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

    /// Whether the caller is on the thread that runs the kernel, where waiting for the kernel would
    /// never end.
    pub fn is_kernel_thread(&self) -> bool {
        self.0.queues(|_| ()).is_some()
    }
}

/// A closure from the inbox.
pub(crate) type Call = Box<dyn FnOnce(&Kernel) + Send>;

/// Polls `happened` for about ten microseconds; returns whether it became true.
///
/// Two threads that work closely together rarely wait for each other longer than this, while waking
/// a sleeping thread takes longer on an idle machine, and much longer on a virtual one. It spins no
/// longer than that because a busy machine gives a processor to the sleeping thread first.
pub(crate) fn spin_until(happened: impl Fn() -> bool) -> bool {
    (0..SPINS).any(|_| {
        std::hint::spin_loop();
        happened()
    })
}

const SPINS: u32 = 1000;
/// Spinning is not worthwhile before a pause shorter than this.
pub(crate) const SPIN_WORTHWHILE: Duration = Duration::from_millis(1);

/// The part of a kernel that other threads may touch.
pub(crate) struct Shared {
    /// Distinguishes the kernel from all others in the program.
    pub(crate) kernel: u32,
    /// Where the kernel's queues are among those of its thread.
    pub(crate) place: AtomicU32,
    /// Whether `state` holds anything.
    pub(crate) posted: AtomicBool,
    state: Mutex<State>,
    arrived: Condvar,
}

/// See [`Kernel::set_outside`].
pub(crate) type WakeOutside = Arc<dyn Fn() + Send + Sync>;

/// The place of a kernel that does not exist yet.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// What another thread has posted.
pub(crate) enum Posted {
    Task(Arc<TaskWaker>),
    Call(Call),
}

struct State {
    items: Vec<Posted>,
    waiting: bool,
    closed: bool,
    /// Ends the wait of a kernel that waits for the outside.
    wake_outside: Option<WakeOutside>,
}

impl Shared {
    fn new() -> Shared {
        static KERNELS: AtomicU64 = AtomicU64::new(0);
        let kernel = KERNELS.fetch_add(1, Ordering::Relaxed);
        Shared {
            kernel: u32::try_from(kernel).expect("a program makes fewer than 2^32 kernels"),
            place: AtomicU32::new(NOWHERE),
            posted: AtomicBool::new(false),
            state: Mutex::new(State {
                items: Vec::new(),
                waiting: false,
                closed: false,
                wake_outside: None,
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
        ready::queues(self.kernel, self.place.load(Ordering::Acquire), look)
    }

    fn push(&self, call: Call) {
        let mut call = Some(call);
        self.queues(|queues| {
            if let Some(call) = call.take() {
                queues.push_call(call);
            }
        });
        if let Some(call) = call {
            self.post(Posted::Call(call));
        }
    }

    /// Leaves something for the kernel's thread.
    fn post(&self, item: Posted) {
        let mut state = self.lock();
        if state.closed {
            drop(state); // the item's destructor may call back here
            return;
        }
        state.items.push(item);
        self.posted.store(true, Ordering::Release);
        let waiting = std::mem::take(&mut state.waiting);
        let wake_outside = state.wake_outside.as_ref().filter(|_| waiting).cloned();
        drop(state); // a thread that is woken would only wait for the lock
        match wake_outside {
            Some(wake) => wake(),
            None if waiting => {
                self.arrived.notify_one();
            }
            None => {}
        }
    }

    /// From now on the kernel waits for the outside, and this ends its wait.
    ///
    /// # Panics
    /// If it already has one.
    pub(crate) fn set_wake(&self, wake: WakeOutside) {
        let before = self.lock().wake_outside.replace(wake);
        assert!(before.is_none(), "a kernel has one outside");
    }

    /// Runs `wait` unless something has been posted; a post from now on ends it.
    pub(crate) fn wait_outside(&self, wait: impl FnOnce()) {
        {
            let mut state = self.lock();
            if !state.items.is_empty() || state.closed {
                return;
            }
            state.waiting = true;
        }
        wait();
        self.lock().waiting = false;
    }

    pub(crate) fn take(&self) -> Vec<Posted> {
        let mut state = self.lock();
        self.posted.store(false, Ordering::Relaxed);
        std::mem::take(&mut state.items)
    }

    pub(crate) fn wait(&self, timeout: Option<Duration>) {
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

    /// Refuses everything posted from now on; returns what has been posted so far.
    pub(crate) fn close(&self) -> Vec<Posted> {
        self.lock().closed = true;
        self.take()
    }
}

/// The waker of one task.
pub(crate) struct TaskWaker {
    task: Local,
    /// Whether another thread has posted it: if woken twice from there, it is posted once.
    posted: AtomicBool,
    shared: Arc<Shared>,
}

impl TaskWaker {
    pub(crate) fn new(task: Local, shared: Arc<Shared>) -> Arc<TaskWaker> {
        Arc::new(TaskWaker {
            task,
            posted: AtomicBool::new(false),
            shared,
        })
    }

    /// Wakes another task from now on: the one that it was for has ended, and nothing else holds
    /// it.
    pub(crate) fn serve(&mut self, task: Local) {
        self.task = task;
        *self.posted.get_mut() = false;
    }

    /// Takes the task out of what was posted: from now on a wake-up from another thread posts it
    /// again.
    pub(crate) fn receive(&self) -> Local {
        // A swap, because the poll that follows must see the work of a thread that found it posted.
        self.posted.swap(false, Ordering::AcqRel);
        self.task
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let here = self.shared.queues(|queues| queues.wake(self.task));
        if here.is_none() && !self.posted.swap(true, Ordering::AcqRel) {
            self.shared.post(Posted::Task(self.clone()));
        }
    }
}
