//! One turn of a runtime: from the first task that is ready to the moment when none is.

use std::cell::{Cell, RefCell};
use std::os::fd::RawFd;
use std::ptr;
use std::task::{Poll, Waker};
use std::time::Duration;
use tokio::runtime::LocalRuntime;

/// How a turn ended.
pub(super) enum Ended {
    /// No task is ready. Tokio wants to sleep for this long, or until it is woken.
    Idle(Option<Duration>),
    /// A phase is over, this one or, rarely, another.
    Phase,
    /// Tokio's loop went round too often while simulated time stood still.
    Spinning,
}

/// A turn that is under way.
pub(super) struct Turn<'a> {
    epoll: RawFd,
    /// How tokio would go to sleep, in milliseconds as `epoll_wait` takes them.
    sleep: Cell<Option<i32>>,
    /// How often tokio's loop went round since the host's last turn.
    rounds: &'a Cell<u32>,
    rounds_max: u32,
    waker: RefCell<Option<Waker>>,
}

thread_local! {
    /// The turn of this thread. A plain word without a destructor: it is read by `epoll_wait`.
    static CURRENT: Cell<*const Turn<'static>> = const { Cell::new(ptr::null()) };
    /// What waits for the end of the turn.
    static PUT_OFF: RefCell<Vec<Box<dyn FnOnce()>>> = const { RefCell::new(Vec::new()) };
}

/// Tokio's loop goes round once for 61 polls, or for one if a task yields. A task may be polled a
/// million times; this many rounds take about as long.
const POLLS_PER_ROUND: u32 = 8;

/// Whether a turn is under way on this thread.
pub(in crate::executor) fn is_in_turn() -> bool {
    !CURRENT.get().is_null()
}

/// Runs `body` when the turn is over, and ends the turn as soon as it can end; at once if there is
/// none.
pub(crate) fn after_turn(body: impl FnOnce() + 'static) {
    if !is_in_turn() {
        return body();
    }
    PUT_OFF.with_borrow_mut(|put_off| put_off.push(Box::new(body)));
}

/// Whether something waits for the end of the turn.
pub(in crate::executor) fn is_ending() -> bool {
    PUT_OFF.with_borrow(|put_off| !put_off.is_empty())
}

/// Runs what waited for the end of a turn.
pub(super) fn settle() {
    for body in PUT_OFF.take() {
        body();
    }
}

/// The answer to `epoll_wait`, if the runtime of this thread's turn asks: it never sleeps, and the
/// turn learns that it wanted to.
pub(super) fn wait(epoll: RawFd, milliseconds: i32) -> Option<()> {
    let turn = CURRENT.get();
    if turn.is_null() {
        return None;
    }
    // SAFETY: set by `Turn::run`, which resets it before the turn goes.
    let turn = unsafe { &*turn };
    if turn.epoll != epoll {
        return None;
    }
    let rounds = turn.rounds.get().saturating_add(1);
    turn.rounds.set(rounds);
    if milliseconds != 0 {
        turn.sleep.set(Some(milliseconds));
    }
    if (milliseconds != 0 || rounds >= turn.rounds_max)
        && let Ok(waker) = turn.waker.try_borrow()
        && let Some(waker) = &*waker
    {
        waker.wake_by_ref();
    }
    Some(())
}

impl<'a> Turn<'a> {
    pub(super) fn new(epoll: RawFd, poll_budget: u32, rounds: &'a Cell<u32>) -> Turn<'a> {
        Turn {
            epoll,
            sleep: Cell::new(None),
            rounds,
            rounds_max: (poll_budget / POLLS_PER_ROUND).max(1),
            waker: RefCell::new(None),
        }
    }

    /// Lets `tokio` run. `run_own` polls what our own queue has for this phase, and returns whether
    /// there was anything.
    pub(super) fn run(&self, tokio: &LocalRuntime, mut run_own: impl FnMut() -> bool) -> Ended {
        struct Leave(*const Turn<'static>);
        impl Drop for Leave {
            fn drop(&mut self) {
                CURRENT.set(self.0);
            }
        }
        let _leave = Leave(CURRENT.replace(ptr::from_ref(self).cast()));
        tokio.block_on(std::future::poll_fn(|context| {
            self.waker
                .borrow_mut()
                .get_or_insert_with(|| context.waker().clone());
            let sleep = self.sleep.take();
            let is_idle = !run_own();
            if is_ending() {
                return Poll::Ready(Ended::Phase);
            }
            if self.rounds.get() >= self.rounds_max {
                return Poll::Ready(Ended::Spinning);
            }
            match sleep {
                Some(milliseconds) if is_idle => {
                    let milliseconds = u64::try_from(milliseconds).ok();
                    Poll::Ready(Ended::Idle(milliseconds.map(Duration::from_millis)))
                }
                // Tokio looks at its own tasks next, and comes back before it sleeps.
                _ => Poll::Pending,
            }
        }))
    }
}
