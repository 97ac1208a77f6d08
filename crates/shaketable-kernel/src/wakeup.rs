//! Which task to wake when something has happened.
//!
//! A future of the kernel is nearly always polled by a task of the kernel, and woken on the same
//! thread. Keeping a `Waker` for that means counting its references up and down atomically, and
//! looking at the object behind it, ten thousand times in a simulation of milliseconds. A task's
//! number is enough. So while a task is polled, its thread knows which one, and a future that finds
//! itself polled with that task's waker keeps the number instead. With any other waker, since a
//! combinator may bring its own, it keeps the waker.

use crate::ready::{self, Local};
use std::cell::Cell;
use std::task::{Context, Waker};

/// See the module documentation. It stays on its thread.
pub(crate) enum Wakeup {
    Task(Local),
    Waker(Waker),
}

impl Wakeup {
    /// The task that is polling.
    #[inline]
    pub(crate) fn of(cx: &Context<'_>) -> Wakeup {
        match polled_by(cx) {
            Some(task) => Wakeup::Task(task),
            None => Wakeup::Waker(cx.waker().clone()),
        }
    }

    /// Whether it is the task that is polling.
    #[inline]
    pub(crate) fn is_of(&self, cx: &Context<'_>) -> bool {
        match self {
            Wakeup::Task(task) => polled_by(cx).is_some_and(|polled| polled == *task),
            Wakeup::Waker(waker) => waker.will_wake(cx.waker()),
        }
    }

    #[inline]
    pub(crate) fn wake(self) {
        match self {
            Wakeup::Task(task) => ready::wake(task),
            Wakeup::Waker(waker) => waker.wake(),
        }
    }
}

/// The task whose own waker this is, if one is being polled.
#[inline]
pub(crate) fn polled_by(cx: &Context<'_>) -> Option<Local> {
    POLLED.with(|polled| std::ptr::eq(polled.waker.get(), cx.waker()).then(|| polled.task.get()))
}

/// Remembers the task that is polling, unless it is already remembered.
#[inline]
pub(crate) fn remember(place: &mut Option<Wakeup>, cx: &Context<'_>) {
    if !place.as_ref().is_some_and(|wakeup| wakeup.is_of(cx)) {
        *place = Some(Wakeup::of(cx));
    }
}

/// While this is alive, the thread polls a task with that waker.
pub(crate) struct Polling(());

impl Polling {
    #[inline]
    pub(crate) fn begin(task: Local, waker: &Waker) -> Polling {
        POLLED.with(|polled| {
            polled.waker.set(waker);
            polled.task.set(task);
        });
        Polling(())
    }
}

impl Drop for Polling {
    #[inline]
    fn drop(&mut self) {
        POLLED.with(|polled| polled.waker.set(std::ptr::null()));
    }
}

thread_local! {
    static POLLED: Polled = const {
        Polled {
            waker: Cell::new(std::ptr::null()),
            task: Cell::new(Local::NONE),
        }
    };
}

struct Polled {
    /// Where the waker is while the task is polled, and null while none is. Only compared: a waker
    /// at the same place is the same one, and a copy of it elsewhere is as good as any other waker.
    waker: Cell<*const Waker>,
    task: Cell<Local>,
}
