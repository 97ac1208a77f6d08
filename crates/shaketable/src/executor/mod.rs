//! The executor: wake queues, poll runs.
//!
//! FoundationDB's simulator is one thread that calls callbacks. Between two callbacks nothing runs
//! a task, and inside one the code that resolves a future is still on the stack. So a wake-up must
//! never poll: it *queues*, and when the whole chain of wake-ups is resolved, one loop *polls*.
//! [`poll_pending_tasks`] is that loop; it is registered as
//! `foundationdb::future::CUSTOM_EXECUTOR_HOOK`, which the callback of every FoundationDB future
//! calls last.
//!
//! What holds:
//!
//! * [`fdb_spawn`] polls at once. A task is polled by one frame at a time, never from inside
//!   itself.
//! * A wake-up is never lost and never repeated: a task woken while it is polled, while the queue
//!   is drained, by itself or through a channel, runs in the same drain; woken twice, it is polled
//!   once.
//! * Tasks run in the order in which they were woken.
//! * A task that keeps waking itself is stopped by a budget (see [`set_poll_budget`]).
//! * A panic stays inside its task and becomes a report.
//! * Wake-ups from other threads arrive, and are reported as the mistake they are.
//!
//! `docs/executor.md` walks through all this with charts.
//!
//! The modules: `task` is the cell around a future and all its unsafe code, `queue` the loop,
//! `home` the entry for other threads, `scope` the owner of a task, `awaits` what a scope counts if
//! it is to die at one of them, `join` the handles, `panics` what is known about a panic.

pub(crate) mod awaits;
mod home;
mod join;
mod panics;
pub(crate) mod queue;
#[cfg(feature = "tokio")]
pub(crate) mod runtime;
pub(crate) mod scope;
mod task;

pub use join::{JoinError, JoinHandle, spawn};
pub use panics::PanicReport;

use std::any::Any;
use std::fmt;
use std::future::Future;

/// Starts a task and polls it at once, up to its first `await` that is not ready.
///
/// This is what a phase of a workload runs on. Inside a workload prefer [`spawn`], whose handle
/// gives the result back.
///
/// ```
/// use std::cell::Cell;
/// use std::rc::Rc;
///
/// let done = Rc::new(Cell::new(false));
/// let task = done.clone();
/// shaketable::fdb_spawn(async move { task.set(true) });
/// assert!(done.get());
/// ```
pub fn fdb_spawn<F>(future: F)
where
    F: Future<Output = ()> + 'static,
{
    queue::with(|queue| queue::start(queue, task::TaskRef::detached(queue, future)));
}

/// Polls every queued task of this thread, and those that they wake, until none is left.
///
/// Called while tasks are already being polled on this thread it returns at once: the loop that is
/// running will reach the newcomers.
///
/// ```
/// let (sender, receiver) = futures::channel::oneshot::channel();
/// shaketable::fdb_spawn(async move { assert_eq!(receiver.await, Ok(7)) });
/// sender.send(7).expect("the task waits"); // queues the task
/// shaketable::poll_pending_tasks(); // polls it
/// ```
pub fn poll_pending_tasks() {
    queue::drain();
}

/// How often one task of this thread may be polled before FoundationDB, and with it simulated time,
/// gets a turn.
///
/// A task that goes on waking itself longer than this is dropped and reported, and so are tasks
/// that together are polled sixteen times as often. The default is 1,000,000, which takes a
/// fraction of a second.
///
/// ```
/// # let simulation = shaketable::Simulation::new().seeds(1).without_regressions();
/// # let failed = simulation.try_test(async |_db, _context| {
/// // This task never lets time pass; it is dropped after a thousand polls.
/// shaketable::set_poll_budget(1000);
/// let spinning = shaketable::spawn(async { loop { shaketable::yield_now().await } });
/// assert!(spinning.await.is_err());
/// # }).expect_err("a task that spins fails the run");
/// # assert!(!failed.reason().is_empty());
/// ```
pub fn set_poll_budget(polls: u32) {
    queue::set_poll_budget(polls.max(1));
}

/// Makes this thread one that runs tasks, before the first of them.
pub(crate) fn attach() {
    queue::attach();
}

/// The thread on which a piece of the simulation lives.
pub(crate) struct HomeThread(std::sync::Arc<home::Home>);

impl HomeThread {
    pub(crate) fn current() -> Self {
        HomeThread(queue::attach())
    }

    pub(crate) fn is_current(&self) -> bool {
        queue::with(|queue| queue.is_home(std::sync::Arc::as_ptr(&self.0)))
    }
}

/// What can go wrong with a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It panicked.
    Panic(PanicReport),
    /// It was polled this often without FoundationDB getting a turn.
    Spinning(u32),
    /// All tasks together were polled this often; it was the next in the queue.
    Endless(u64),
    /// Another thread woke it; the text names the thread.
    ForeignWake(String),
    /// Tokio's loop went round this often without FoundationDB getting a turn.
    #[cfg(feature = "tokio")]
    TokioSpinning(u32),
    /// It waits for the operating system; the text is its stack, from the inside out.
    #[cfg(feature = "tokio")]
    NotSimulated(String),
    /// Tokio's timers need a delay, which the host refuses with this error.
    #[cfg(feature = "tokio")]
    NoDelay(i32),
}

impl Failure {
    pub(crate) fn panic(payload: Box<dyn Any + Send>) -> Self {
        Failure::Panic(PanicReport::of(payload))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Panic(report) => write!(f, "a task panicked: {report}"),
            Failure::Spinning(polls) => write!(
                f,
                "a task was stopped: it was polled {polls} times without FoundationDB getting a turn, \
                 so it would have spun forever; await something that takes simulated time (a \
                 transaction, shaketable::sleep), or raise shaketable::set_poll_budget"
            ),
            Failure::Endless(polls) => write!(
                f,
                "a task was stopped: tasks were polled {polls} times without FoundationDB getting a \
                 turn, so they would have spawned or woken each other forever; await something \
                 that takes simulated time (a transaction, shaketable::sleep), or raise \
                 shaketable::set_poll_budget"
            ),
            Failure::ForeignWake(complaint) => f.write_str(complaint),
            #[cfg(feature = "tokio")]
            Failure::TokioSpinning(rounds) => write!(
                f,
                "the tokio tasks of the phase were stopped: tokio's loop went round {rounds} times \
                 without FoundationDB getting a turn, so they would have spun forever; await \
                 something that takes simulated time (a transaction, tokio::time::sleep), or raise \
                 shaketable::set_poll_budget"
            ),
            #[cfg(feature = "tokio")]
            Failure::NotSimulated(stack) => {
                let (what, instead) = runtime::what_is_not_simulated(stack);
                f.write_str(what)?;
                if let Some(place) = panics::place_of_caller(stack) {
                    write!(f, " (at {place})")?;
                }
                write!(f, ": {instead}")
            }
            #[cfg(feature = "tokio")]
            Failure::NoDelay(code) => write!(
                f,
                "tokio's timers cannot run: the host cannot delay ({code}); delays need the workload \
                 ABI of FoundationDB 7.4.6 or later"
            ),
        }
    }
}

#[cfg(test)]
mod tests;
