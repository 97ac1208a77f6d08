//! What is ready to run: the queue that wakers push into and the kernel pops from.
//!
//! There is one FIFO per priority. A `Waker` must be `Send + Sync`, yet nearly every wake-up
//! happens on the kernel's own thread, ten thousand times in a simulation of milliseconds, where a
//! lock would cost more than the queue. So each thread knows the [`Queues`] of the kernels that
//! live on it, and a waker that finds its kernel's queues there pushes without a lock. From any
//! other thread it goes through [`crate::inbox`], which the kernel empties into its queues: safe by
//! construction instead of by promise. Closures from the inbox wait in the same queue at the
//! priority of FoundationDB's `DefaultOnMainThread`, so that their order among tasks is the real
//! client's.

use crate::crowd::Offers;
use crate::inbox::{Call, Inbox, NOWHERE, Posted, SPIN_WORTHWHILE, Shared, TaskWaker, spin_until};
use crate::outside::Outside;
use crate::priority::Priority;
use crate::request::Core;
use crate::task::TaskId;
use crate::wakeup::Wakeup;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Duration;

/// The next thing to run: numbers, which are moved without a thought for what they would have to
/// drop.
#[derive(Clone, Copy)]
pub(crate) enum Next {
    Task(TaskId),
    /// What [`Ready::take_other`] returns for this level.
    Other(u8),
}

/// Something to run that is no task.
pub(crate) enum Other {
    Call(Call),
    Serve(Rc<Core>),
}

/// A task, as known to the thread that its kernel lives on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Local {
    id: TaskId,
    /// The kernel's number, and where its queues are among those of its thread.
    kernel: u32,
    place: u16,
    level: u8,
}

impl Local {
    /// No task of any kernel.
    pub(crate) const NONE: Local = Local {
        id: TaskId {
            index: u32::MAX,
            generation: u32::MAX,
        },
        kernel: u32::MAX,
        place: u16::MAX,
        level: 0,
    };
}

impl PartialEq for Local {
    /// Whether it is the same task of the same kernel. The rest follows from that.
    #[inline]
    fn eq(&self, other: &Local) -> bool {
        self.id == other.id && self.kernel == other.kernel
    }
}

thread_local! {
    /// The queues of the kernels that live on this thread, each at the place that its [`Shared`]
    /// knows.
    static HERE: RefCell<Vec<Option<Rc<Queues>>>> = const { RefCell::new(Vec::new()) };
}

/// The queues of a kernel, if it lives on this thread and is not closed. The number decides: on
/// another thread that place holds another kernel, or none.
#[inline]
pub(crate) fn queues<T>(kernel: u32, place: u32, look: impl FnOnce(&Queues) -> T) -> Option<T> {
    let look = |here: &RefCell<Vec<Option<Rc<Queues>>>>| {
        let here = here.borrow();
        let queues = here.get(place as usize)?.as_ref()?;
        (queues.kernel == kernel).then(|| look(queues))
    };
    HERE.try_with(look).ok().flatten()
}

/// Wakes a task, if its kernel still exists.
#[inline]
pub(crate) fn wake(task: Local) {
    queues(task.kernel, u32::from(task.place), |queues| {
        queues.wake(task)
    });
}

/// What is ready, as the kernel's own thread sees it.
pub(crate) struct Ready {
    queues: Rc<Queues>,
    /// Where they are among those of this thread.
    place: u16,
    pub(crate) shared: Arc<Shared>,
}

impl Ready {
    /// Makes the calling thread the kernel's.
    ///
    /// # Panics
    /// If the inbox already has a kernel.
    pub(crate) fn new(inbox: Inbox) -> Ready {
        let shared = inbox.0;
        let queues = Rc::new(Queues {
            levels: RefCell::default(),
            kernel: shared.kernel,
            shared: shared.clone(),
        });
        let place = HERE.with_borrow_mut(|here| {
            let place = here.iter().position(Option::is_none);
            let place = place.unwrap_or_else(|| {
                here.push(None);
                here.len() - 1
            });
            here[place] = Some(queues.clone());
            u16::try_from(place).expect("fewer than 2^16 kernels live on a thread")
        });
        let before = shared.place.swap(u32::from(place), Ordering::AcqRel);
        assert_eq!(before, NOWHERE, "an inbox belongs to one kernel");
        Ready {
            queues,
            place,
            shared,
        }
    }

    /// Makes room for a task, and a waker for it: the one that is there, unless it is in use.
    pub(crate) fn admit(
        &self,
        id: TaskId,
        priority: Priority,
        waker: &mut Option<Arc<TaskWaker>>,
    ) -> (Local, Waker) {
        let queued = &mut self.queues.levels.borrow_mut().queued;
        let index = id.index as usize;
        if queued.len() <= index {
            queued.resize(index + 1, None);
        }
        let local = Local {
            id,
            kernel: self.queues.kernel,
            place: self.place,
            level: priority.level(),
        };
        let waker = match waker {
            Some(waker) => {
                match Arc::get_mut(waker) {
                    Some(unused) => unused.serve(local),
                    None => *waker = TaskWaker::new(local, self.shared.clone()),
                }
                waker
            }
            None => waker.insert(TaskWaker::new(local, self.shared.clone())),
        };
        (local, Waker::from(waker.clone()))
    }

    /// Wakes a task.
    pub(crate) fn wake(&self, task: Local) {
        self.queues.wake(task);
    }

    /// Wakes a task: nearly always one of this kernel, whose queues need not be looked for.
    #[inline]
    pub(crate) fn wake_task(&self, task: Local) {
        if task.kernel == self.queues.kernel {
            self.queues.wake(task);
        } else {
            wake(task);
        }
    }

    /// Wakes whatever it is that waits.
    #[inline]
    pub(crate) fn wake_up(&self, wakeup: Wakeup) {
        match wakeup {
            Wakeup::Task(task) => self.wake_task(task),
            Wakeup::Waker(waker) => waker.wake(),
        }
    }

    /// Takes what [`Next::Other`] stands for.
    pub(crate) fn take_other(&self, level: u8) -> Other {
        let other = self.queues.levels.borrow_mut().others[usize::from(level)].pop_front();
        other.expect("it was queued when it was said to be next")
    }

    /// Queues a stream whose requests want to be served.
    pub(crate) fn push_served(&self, priority: Priority, served: Rc<Core>) {
        let mut levels = self.queues.levels.borrow_mut();
        levels.push_other(priority.level(), Other::Serve(served));
    }

    /// The next thing to run.
    #[inline(always)]
    pub(crate) fn pop(&self) -> Option<Next> {
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

    /// Like [`Ready::wait`], for a kernel that also hears from the outside.
    pub(crate) fn wait_outside(&self, outside: &dyn Outside, timeout: Option<Duration>) {
        let long = timeout.is_none_or(|timeout| timeout > SPIN_WORTHWHILE);
        let mut offers = if long { Offers::begin() } else { None };
        for _ in 0..outside.patience() {
            let news = outside.look();
            if news || !self.is_empty() {
                return;
            }
            if !offers.as_mut().is_some_and(Offers::offer) {
                break;
            }
        }
        self.shared.wait_outside(|| outside.wait(timeout));
        outside.look();
    }

    /// Drops what waits and everything that will be pushed from now on.
    pub(crate) fn close(&self) {
        let place = self.shared.place.load(Ordering::Relaxed) as usize;
        // At the end of a thread the thread-local list may already be gone.
        let _ = HERE.try_with(|here| {
            let own = |queues: &mut Rc<Queues>| Rc::ptr_eq(queues, &self.queues);
            here.borrow_mut()[place].take_if(own)
        });
        let posted = self.shared.close();
        let waiting = self.queues.levels.take();
        drop((waiting, posted)); // destructors of closures may post
    }
}

/// The queues of one kernel, for its own thread.
pub(crate) struct Queues {
    levels: RefCell<Levels>,
    /// The kernel's number.
    kernel: u32,
    shared: Arc<Shared>,
}

impl Queues {
    /// Queues a task.
    #[inline(always)]
    pub(crate) fn wake(&self, task: Local) {
        self.levels.borrow_mut().wake(task.level, task.id);
    }

    /// Queues a closure, after those that other threads have posted.
    pub(crate) fn push_call(&self, call: Call) {
        self.receive();
        let mut levels = self.levels.borrow_mut();
        levels.push_other(CALLS, Other::Call(call));
    }

    /// Moves what other threads have posted into the queues.
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
                Posted::Call(call) => levels.push_other(CALLS, Other::Call(call)),
                Posted::Task(waker) => {
                    let task = waker.receive();
                    levels.wake(task.level, task.id);
                }
            }
        }
    }
}

/// The level of closures from the inbox.
const CALLS: u8 = Priority::DefaultOnMainThread.level();

#[derive(Default)]
struct Levels {
    /// The task that is ready while nothing else is, which is the usual case. The queues are then
    /// empty.
    only: Option<(u8, TaskId)>,
    queues: [VecDeque<Next>; Priority::LEVELS],
    /// What is queued that is no task, in the same order.
    others: [VecDeque<Other>; Priority::LEVELS],
    /// Bit `n` is set when queue `n` holds something.
    occupied: u32,
    /// By the index of a task: the generation of the task that waits in a queue.
    queued: Vec<Option<u32>>,
}

impl Levels {
    fn is_empty(&self) -> bool {
        self.only.is_none() && self.occupied == 0
    }

    fn push_other(&mut self, level: u8, other: Other) {
        self.others[usize::from(level)].push_back(other);
        self.push(level, Next::Other(level));
    }

    fn push(&mut self, level: u8, next: Next) {
        if let Some((level, id)) = self.only.take() {
            self.queue(level, Next::Task(id));
        }
        self.queue(level, next);
    }

    #[inline]
    fn queue(&mut self, level: u8, next: Next) {
        let queue = &mut self.queues[usize::from(level)];
        let occupied = self.occupied & (1 << level) != 0;
        assert!(occupied != queue.is_empty(), "queue and occupancy disagree");
        queue.push_back(next);
        self.occupied |= 1 << level;
    }

    /// Queues a task. If woken twice before it runs, it is queued once.
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
                self.push(level, Next::Task(id));
            }
        }
    }

    #[inline(always)]
    fn pop(&mut self) -> Option<Next> {
        if let Some((_, id)) = self.only.take() {
            self.unmark(id);
            return Some(Next::Task(id));
        }
        if self.occupied == 0 {
            return None;
        }
        self.pop_queued()
    }

    #[inline(never)]
    fn pop_queued(&mut self) -> Option<Next> {
        let level = 31 - self.occupied.leading_zeros();
        let queue = &mut self.queues[level as usize];
        let next = queue.pop_front();
        assert!(next.is_some(), "queue and occupancy disagree");
        if queue.is_empty() {
            self.occupied &= !(1 << level);
        }
        if let Some(Next::Task(id)) = next {
            self.unmark(id);
        }
        next
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
