//! An unbounded queue between tasks.

use crate::wakeup::{self, Wakeup};
use futures_core::Stream;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Creates an unbounded queue.
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let state = Rc::new(RefCell::new(Channel {
        queue: VecDeque::new(),
        wakeup: None,
        senders: 1,
        receiver: true,
    }));
    (Sender(state.clone()), Receiver(state))
}

struct Channel<T> {
    queue: VecDeque<T>,
    wakeup: Option<Wakeup>,
    senders: usize,
    receiver: bool,
}

/// Sends into a [`channel`].
pub struct Sender<T>(Rc<RefCell<Channel<T>>>);

impl<T> Sender<T> {
    /// Queues a value; returns it if the receiver is gone.
    pub fn send(&self, value: T) -> Result<(), T> {
        let wakeup = {
            let mut state = self.0.borrow_mut();
            if !state.receiver {
                return Err(value);
            }
            state.queue.push_back(value);
            state.wakeup.take()
        };
        if let Some(wakeup) = wakeup {
            wakeup.wake();
        }
        Ok(())
    }

    /// Whether the receiver is gone.
    pub fn is_closed(&self) -> bool {
        !self.0.borrow().receiver
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.borrow_mut().senders += 1;
        Sender(self.0.clone())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let wakeup = {
            let mut state = self.0.borrow_mut();
            assert!(state.senders > 0, "a sender is dropped once");
            state.senders -= 1;
            if state.senders == 0 {
                state.wakeup.take()
            } else {
                None
            }
        };
        if let Some(wakeup) = wakeup {
            wakeup.wake();
        }
    }
}

/// Receives from a [`channel`]. It is also a `Stream`.
pub struct Receiver<T>(Rc<RefCell<Channel<T>>>);

impl<T> Receiver<T> {
    /// Returns the next value, or `None` when all senders are gone and the queue is empty.
    pub async fn recv(&mut self) -> Option<T> {
        std::future::poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Returns the next value if it is already there.
    pub fn try_recv(&mut self) -> Option<T> {
        self.0.borrow_mut().queue.pop_front()
    }

    fn poll_recv(&self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut state = self.0.borrow_mut();
        if let Some(value) = state.queue.pop_front() {
            return Poll::Ready(Some(value));
        }
        if state.senders == 0 {
            return Poll::Ready(None);
        }
        wakeup::remember(&mut state.wakeup, cx);
        Poll::Pending
    }
}

impl<T> Stream for Receiver<T> {
    type Item = T;
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.poll_recv(cx)
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let queue = {
            let mut state = self.0.borrow_mut();
            state.receiver = false;
            state.wakeup = None;
            std::mem::take(&mut state.queue)
        };
        drop(queue);
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Deadlock, Kernel};

    #[test]
    fn a_channel_keeps_order_and_ends_with_its_last_sender() {
        let kernel = Kernel::simulation(1);
        let (sender, mut receiver) = channel();
        let other = sender.clone();
        sender.send(1).unwrap();
        other.send(2).unwrap();
        drop(sender);
        assert_eq!(kernel.block_on(receiver.recv()), Ok(Some(1)));
        assert_eq!(receiver.try_recv(), Some(2));
        assert_eq!(receiver.try_recv(), None);
        assert!(matches!(
            kernel.block_on(receiver.recv()),
            Err(Deadlock::NothingToDo { .. })
        ));
        drop(other);
        assert_eq!(kernel.block_on(receiver.recv()), Ok(None));
    }

    #[test]
    fn a_channel_without_receiver_gives_values_back() {
        let (sender, receiver) = channel();
        drop(receiver);
        assert!(sender.is_closed());
        assert_eq!(sender.send(1), Err(1));
    }
}
