//! An event that happens repeatedly, and the tasks that wait for the next time.

use crate::wakeup::Wakeup;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Lets many tasks wait for something to happen.
#[derive(Clone, Default)]
pub struct Notify(Rc<NotifyState>);

#[derive(Default)]
struct NotifyState {
    /// How often it has happened.
    count: Cell<u64>,
    next_waiter: Cell<u64>,
    /// In the order in which they began to wait. Usually there is one, so a vector beats a tree.
    waiters: RefCell<Vec<(u64, Wakeup)>>,
}

impl Notify {
    /// Creates an event that has not happened yet.
    pub fn new() -> Notify {
        Notify::default()
    }

    /// Makes it happen: every task that waits now is woken.
    #[inline]
    pub fn notify_all(&self) {
        self.0.count.set(self.0.count.get() + 1);
        if !self.0.waiters.borrow().is_empty() {
            self.wake_waiters();
        }
    }

    fn wake_waiters(&self) {
        let mut waiters = self.0.waiters.borrow_mut();
        // Usually there is one, which needs none of what a list does.
        if waiters.len() > 1 {
            drop(waiters);
            return self.wake_many();
        }
        let only = waiters.pop();
        drop(waiters);
        if let Some((_, wakeup)) = only {
            wakeup.wake();
        }
    }

    #[cold]
    fn wake_many(&self) {
        let mut waiters = self.0.waiters.take();
        for (_, wakeup) in waiters.drain(..) {
            wakeup.wake();
        }
        // The memory is reused for the next waiters, unless a task has begun to wait in the
        // meantime.
        let mut now = self.0.waiters.borrow_mut();
        if now.is_empty() {
            *now = waiters;
        }
    }

    /// Waits until it next happens, counted from this call and not from the first poll.
    pub fn notified(&self) -> Notified {
        Notified {
            notify: self.clone(),
            seen: self.0.count.get(),
            waiter: None,
        }
    }
}

/// See [`Notify::notified`].
#[must_use = "a future does nothing unless it is awaited"]
pub struct Notified {
    notify: Notify,
    seen: u64,
    waiter: Option<u64>,
}

impl Future for Notified {
    type Output = ();
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let state = &this.notify.0;
        if state.count.get() != this.seen {
            this.waiter = None; // it was taken off the list
            return Poll::Ready(());
        }
        let mut waiters = state.waiters.borrow_mut();
        match this.waiter {
            None => {
                let waiter = state.next_waiter.get();
                state.next_waiter.set(waiter + 1);
                waiters.push((waiter, Wakeup::of(cx)));
                this.waiter = Some(waiter);
            }
            Some(waiter) => {
                if let Ok(index) = waiters.binary_search_by_key(&waiter, |(other, _)| *other)
                    && !waiters[index].1.is_of(cx)
                {
                    waiters[index].1 = Wakeup::of(cx);
                }
            }
        }
        Poll::Pending
    }
}

impl Drop for Notified {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter {
            let mut waiters = self.notify.0.waiters.borrow_mut();
            // Usually it is the last one, or the only one.
            if waiters.last().is_some_and(|(last, _)| *last == waiter) {
                waiters.pop();
            } else if let Ok(index) = waiters.binary_search_by_key(&waiter, |(other, _)| *other) {
                waiters.remove(index);
            }
        }
    }
}

impl fmt::Debug for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notify").finish_non_exhaustive()
    }
}

impl fmt::Debug for Notified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notified").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kernel, Priority, ProcessSpec};

    #[test]
    fn notified_counts_from_its_creation() {
        let kernel = Kernel::simulation(1);
        let notify = Notify::new();
        let early = notify.notified();
        notify.notify_all();
        let late = notify.notified();
        assert_eq!(kernel.block_on(early), Ok(()));
        assert!(kernel.block_on(late).is_err());
    }

    #[test]
    fn waiters_are_woken_in_the_order_in_which_they_began_to_wait() {
        let kernel = Kernel::simulation(1);
        let process = kernel.add_process(ProcessSpec::default());
        let (notify, order) = (Notify::new(), Rc::new(RefCell::new(Vec::new())));
        for n in 0..5 {
            let (notified, order) = (notify.notified(), order.clone());
            let task = async move {
                notified.await;
                order.borrow_mut().push(n);
            };
            kernel.spawn(process, Priority::DefaultDelay, task).detach();
        }
        kernel.run_ready().unwrap();
        notify.notify_all();
        kernel.run_ready().unwrap();
        assert_eq!(*order.borrow(), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_waiter_that_gives_up_leaves_nothing_behind() {
        let kernel = Kernel::simulation(1);
        let notify = Notify::new();
        assert_eq!(
            kernel.block_on(kernel.timeout(1.0, notify.notified())),
            Ok(None)
        );
        assert!(notify.0.waiters.borrow().is_empty());
    }
}
