//! How the tasks of one process talk: [`oneshot`], [`channel`], [`AsyncVar`], [`Notify`].
//!
//! All of them are cheap handles for one thread. A wake-up queues the waiting task; it never runs inside the
//! call that caused it. Waiters are woken in the order in which they began to wait.

use crate::wakeup::{self, Wakeup};
use futures_core::Stream;
use std::cell::{Cell, Ref, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A value that is sent once.
pub fn oneshot<T>() -> (OneshotSender<T>, OneshotReceiver<T>) {
    let state = Rc::new(RefCell::new(Oneshot {
        value: None,
        wakeup: None,
        sender: true,
        receiver: true,
    }));
    (OneshotSender(state.clone()), OneshotReceiver(state))
}

/// The sender went away without sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the sender was dropped before it sent a value")]
pub struct Cancelled;

struct Oneshot<T> {
    value: Option<T>,
    wakeup: Option<Wakeup>,
    sender: bool,
    receiver: bool,
}

/// Sends the value of a [`oneshot`].
pub struct OneshotSender<T>(Rc<RefCell<Oneshot<T>>>);

impl<T> OneshotSender<T> {
    /// Sends the value; gives it back if nobody can receive it any more.
    pub fn send(self, value: T) -> Result<(), T> {
        let mut state = self.0.borrow_mut();
        if !state.receiver {
            return Err(value);
        }
        state.value = Some(value);
        Ok(())
    }

    /// Whether the receiver is gone.
    pub fn is_closed(&self) -> bool {
        !self.0.borrow().receiver
    }
}

impl<T> Drop for OneshotSender<T> {
    fn drop(&mut self) {
        let wakeup = {
            let mut state = self.0.borrow_mut();
            state.sender = false;
            state.wakeup.take()
        };
        if let Some(wakeup) = wakeup {
            wakeup.wake();
        }
    }
}

/// Receives the value of a [`oneshot`].
pub struct OneshotReceiver<T>(Rc<RefCell<Oneshot<T>>>);

impl<T> Future for OneshotReceiver<T> {
    type Output = Result<T, Cancelled>;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.borrow_mut();
        if let Some(value) = state.value.take() {
            return Poll::Ready(Ok(value));
        }
        if !state.sender {
            return Poll::Ready(Err(Cancelled));
        }
        wakeup::remember(&mut state.wakeup, cx);
        Poll::Pending
    }
}

impl<T> Drop for OneshotReceiver<T> {
    fn drop(&mut self) {
        let value = {
            let mut state = self.0.borrow_mut();
            state.receiver = false;
            state.wakeup = None;
            state.value.take()
        };
        drop(value);
    }
}

/// A queue without bound.
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
    /// Queues a value; gives it back if nobody can receive it any more.
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
    /// The next value, or `None` when all senders are gone and the queue is empty.
    pub async fn recv(&mut self) -> Option<T> {
        std::future::poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// The next value if it is there already.
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

/// Lets many tasks wait for something to happen.
#[derive(Clone, Default)]
pub struct Notify(Rc<NotifyState>);

#[derive(Default)]
struct NotifyState {
    /// How often it has happened.
    count: Cell<u64>,
    next_waiter: Cell<u64>,
    /// In the order in which they began to wait. Mostly there is one, so a row beats a tree.
    waiters: RefCell<Vec<(u64, Wakeup)>>,
}

impl Notify {
    /// Nothing has happened yet.
    pub fn new() -> Notify {
        Notify::default()
    }

    /// It happens: everybody who waits now is woken.
    pub fn notify_all(&self) {
        self.0.count.set(self.0.count.get() + 1);
        if self.0.waiters.borrow().is_empty() {
            return;
        }
        let mut waiters = self.0.waiters.take();
        for (_, wakeup) in waiters.drain(..) {
            wakeup.wake();
        }
        // The memory serves the next ones, unless somebody has begun to wait meanwhile.
        let mut now = self.0.waiters.borrow_mut();
        if now.is_empty() {
            *now = waiters;
        }
    }

    /// Waits until it happens the next time, counted from this call and not from the first poll.
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
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let state = self.notify.0.clone();
        if state.count.get() != self.seen {
            return Poll::Ready(());
        }
        let mut waiters = state.waiters.borrow_mut();
        match self.waiter {
            None => {
                let waiter = state.next_waiter.get();
                state.next_waiter.set(waiter + 1);
                waiters.push((waiter, Wakeup::of(cx)));
                drop(waiters);
                self.waiter = Some(waiter);
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
            if let Ok(index) = waiters.binary_search_by_key(&waiter, |(other, _)| *other) {
                waiters.remove(index);
            }
        }
    }
}

/// A value that one can wait for a change of. Clones share it.
#[derive(Default)]
pub struct AsyncVar<T>(Rc<AsyncVarState<T>>);

#[derive(Default)]
struct AsyncVarState<T> {
    value: RefCell<T>,
    changed: Notify,
}

impl<T> AsyncVar<T> {
    /// Begins with that value.
    pub fn new(value: T) -> AsyncVar<T> {
        AsyncVar(Rc::new(AsyncVarState {
            value: RefCell::new(value),
            changed: Notify::new(),
        }))
    }

    /// Looks at the value. The guard must not live across an `await`.
    pub fn borrow(&self) -> Ref<'_, T> {
        self.0.value.borrow()
    }

    /// A copy of the value.
    pub fn get(&self) -> T
    where
        T: Clone,
    {
        self.0.value.borrow().clone()
    }

    /// Sets the value; if it differs from the old one, everybody who waits is woken.
    pub fn set(&self, value: T)
    where
        T: PartialEq,
    {
        if *self.0.value.borrow() != value {
            self.replace(value);
        }
    }

    /// Sets the value and wakes everybody, equal or not.
    pub fn replace(&self, value: T) -> T {
        let old = self.0.value.replace(value);
        self.0.changed.notify_all();
        old
    }

    /// Changes the value in place and wakes everybody.
    pub fn update<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let result = change(&mut self.0.value.borrow_mut());
        self.0.changed.notify_all();
        result
    }

    /// Waits for the next change, counted from this call.
    pub fn on_change(&self) -> Notified {
        self.0.changed.notified()
    }

    /// Waits until the value satisfies the condition; at once if it does already.
    pub async fn wait_for(&self, mut condition: impl FnMut(&T) -> bool) {
        loop {
            let changed = self.on_change();
            if condition(&self.borrow()) {
                return;
            }
            changed.await;
        }
    }
}

impl<T> Clone for AsyncVar<T> {
    fn clone(&self) -> Self {
        AsyncVar(self.0.clone())
    }
}

macro_rules! opaque {
    ($($name:ident $(<$parameter:ident>)?),*) => {$(
        impl$(<$parameter>)? fmt::Debug for $name$(<$parameter>)? {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )*};
}
opaque!(
    OneshotSender<T>,
    OneshotReceiver<T>,
    Sender<T>,
    Receiver<T>,
    Notify,
    Notified
);

impl<T: fmt::Debug> fmt::Debug for AsyncVar<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AsyncVar")
            .field(&self.0.value.borrow())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Deadlock, Kernel, Priority, ProcessSpec};

    #[test]
    fn a_oneshot_carries_one_value_or_the_news_that_there_is_none() {
        let kernel = Kernel::simulation(1);
        let (sender, receiver) = oneshot();
        sender.send(5).unwrap();
        assert_eq!(kernel.block_on(receiver), Ok(Ok(5)));
        let (sender, receiver) = oneshot::<u8>();
        drop(sender);
        assert_eq!(kernel.block_on(receiver), Ok(Err(Cancelled)));
        let (sender, receiver) = oneshot();
        drop(receiver);
        assert!(sender.is_closed());
        assert_eq!(sender.send("back"), Err("back"));
    }

    #[test]
    fn a_receiver_that_waits_is_woken_by_the_value_and_by_the_loss_of_the_sender() {
        let kernel = Kernel::simulation(1);
        let process = kernel.add_process(ProcessSpec::default());
        for send in [true, false] {
            let (sender, receiver) = oneshot();
            let task = kernel.spawn(process, Priority::DefaultDelay, receiver);
            kernel.run_ready().unwrap();
            if send {
                sender.send(1).unwrap();
            } else {
                drop(sender);
            }
            assert_eq!(
                kernel.block_on(task),
                Ok(if send { Ok(1) } else { Err(Cancelled) })
            );
        }
    }

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

    #[test]
    fn a_variable_tells_of_changes_and_keeps_silent_about_equal_values() {
        let kernel = Kernel::simulation(1);
        let variable = AsyncVar::new(1);
        let change = variable.on_change();
        variable.set(1);
        assert!(
            kernel
                .block_on(kernel.timeout(1.0, change))
                .unwrap()
                .is_none()
        );
        let change = variable.on_change();
        variable.clone().set(2);
        assert_eq!(kernel.block_on(change), Ok(()));
        let change = variable.on_change();
        assert_eq!(variable.replace(2), 2);
        assert_eq!(kernel.block_on(change), Ok(()));
        let change = variable.on_change();
        variable.update(|value| *value += 1);
        assert_eq!(kernel.block_on(change), Ok(()));
        assert_eq!(variable.get(), 3);
    }

    #[test]
    fn waiting_for_a_condition_ends_when_it_holds() {
        let kernel = Kernel::simulation(1);
        let process = kernel.add_process(ProcessSpec::default());
        let variable = AsyncVar::new(0);
        let (kernel2, variable2) = (kernel.clone(), variable.clone());
        kernel
            .spawn(process, Priority::DefaultDelay, async move {
                for n in 1..10 {
                    kernel2.sleep(1.0).await;
                    variable2.set(n);
                }
            })
            .detach();
        kernel.block_on(variable.wait_for(|n| *n >= 3)).unwrap();
        assert_eq!(kernel.now().as_secs(), 3.0);
    }
}
