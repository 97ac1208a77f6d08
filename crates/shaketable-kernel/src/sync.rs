//! How the tasks of one process wait for one another.
//!
//! * [`Completion`]: a value that appears once, for one consumer;
//! * [`Shared`]: the same for several consumers, each of which gets a copy;
//! * [`channel`]: a queue of values;
//! * [`Notify`] and [`AsyncVar`]: an event that happens repeatedly, a value that changes;
//! * [`Waiters`]: the bare list of waiting tasks, for a condition of the caller's own;
//! * [`first_of`]: the first of two futures.
//!
//! All of them belong to one thread. A wake-up queues the waiting task; the task never runs inside
//! the call that caused it. Waiters are woken in the order in which they began to wait.
//!
//! Everything that completes once has one implementation. The result of a task, the reply to a
//! request and the future that a database client returns are all a [`Completion`], and all are
//! woken the short way, by the number of a task instead of a `Waker`.

mod channel;
mod completion;
mod first;
mod notify;
mod shared;
mod variable;

pub use channel::{Receiver, Sender, channel};
pub use completion::Completion;
pub use first::{First, FirstOf, first_of};
pub use notify::{Notified, Notify};
pub use shared::{Shared, Waiters};
pub use variable::AsyncVar;
