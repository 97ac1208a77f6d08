//! The executor of the crate `shaketable`, away from any simulation: tasks that only spawn, wake
//! and talk to one another.
//!
//! `conformance/executor-cost` counts the instructions of the first two against those of the
//! published executor.

use futures::StreamExt;
use futures::channel::{mpsc, oneshot};
use shaketable::{fdb_spawn, poll_pending_tasks};
use std::cell::Cell;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Spawns a task that is ready at its first poll.
pub fn spawn_to_ready() {
    fdb_spawn(async {});
}

/// A task that waits, to be woken again and again.
#[derive(Default)]
pub struct Sleeper {
    waker: Rc<Cell<Option<Waker>>>,
}

impl Sleeper {
    /// Spawns it; it leaves its waker and waits.
    pub fn spawn() -> Sleeper {
        let sleeper = Sleeper::default();
        let waker = sleeper.waker.clone();
        fdb_spawn(std::future::poll_fn(move |context| {
            waker.set(Some(context.waker().clone()));
            Poll::<()>::Pending
        }));
        sleeper
    }

    /// Wakes it as a callback of FoundationDB does, and lets it run: one wake-up, one poll.
    pub fn wake_to_poll(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
        poll_pending_tasks();
    }
}

/// `tasks` tasks each send one message through a channel to a task that counts them.
pub fn through_a_channel(tasks: usize) -> usize {
    let (sender, receiver) = mpsc::unbounded();
    let (total, mut counted) = oneshot::channel();
    fdb_spawn(async move {
        let count = receiver.count().await;
        total.send(count).expect("the receiver waits");
    });
    for number in 0..tasks {
        let sender = sender.clone();
        fdb_spawn(async move {
            shaketable::yield_now().await;
            sender
                .unbounded_send(number)
                .expect("the other end receives");
        });
    }
    drop(sender);
    poll_pending_tasks();
    let count = counted.try_recv().expect("the sender lives");
    count.expect("all tasks ran")
}
