//! `spawn` and what comes back from it.

use super::queue;
use super::task::{Joint, TaskRef};
use super::{Failure, PanicReport};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Runs `future` beside the code that calls this, and returns a handle on its result.
///
/// Like [`fdb_spawn`](super::fdb_spawn), the new task is polled at once. It belongs to the phase it
/// was spawned in: it reports through that client's context, and when the phase ends while the task
/// still runs, the task is dropped.
///
/// ```
/// # shaketable::fdb_spawn(async {
/// let answer = shaketable::spawn(async { 6 * 7 });
/// assert_eq!(answer.await, Ok(42));
/// # });
/// ```
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
{
    queue::with(|queue| {
        let task = TaskRef::joinable(queue, future);
        let handle = JoinHandle(Joint::new::<F>(&task));
        queue::start(queue, task);
        handle
    })
}

/// The result of a task, to be awaited.
///
/// Dropping the handle lets the task run on alone; its output is then dropped as it finishes.
///
/// ```
/// # shaketable::Simulation::new().seeds(1).faults(shaketable::Faults::none())
/// #     .test(async |_db, context: shaketable::WorkloadContext| {
/// let handle = shaketable::spawn(async { "done" });
/// assert_eq!(handle.await, Ok("done"));
/// # });
/// ```
#[must_use = "dropping the handle detaches the task; await it, or say `drop(handle)`"]
pub struct JoinHandle<T>(Joint<T>);

impl<T> JoinHandle<T> {
    /// Drops the task's future. Awaiting the handle then returns a [`JoinError`], unless the task
    /// had finished before.
    ///
    /// A task that aborts itself, or one further up the stack, is dropped when its poll returns.
    ///
    /// ```
    /// # shaketable::Simulation::new().seeds(1).faults(shaketable::Faults::none())
    /// #     .test(async |_db, context: shaketable::WorkloadContext| {
    /// let handle = shaketable::spawn(shaketable::sleep(std::time::Duration::from_secs(60)));
    /// handle.abort();
    /// assert!(handle.await.unwrap_err().is_aborted());
    /// # });
    /// ```
    pub fn abort(&self) {
        self.0.abort();
    }

    /// Whether the task is over, for whatever reason.
    ///
    /// ```
    /// # shaketable::Simulation::new().seeds(1).faults(shaketable::Faults::none())
    /// #     .test(async |_db, context: shaketable::WorkloadContext| {
    /// let handle = shaketable::spawn(shaketable::yield_now());
    /// assert!(!handle.is_finished());
    /// shaketable::yield_now().await;
    /// assert!(handle.is_finished());
    /// # });
    /// ```
    pub fn is_finished(&self) -> bool {
        self.0.is_done()
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(context)
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle")
            .field("finished", &self.is_finished())
            .finish()
    }
}

/// Why a task has no result.
///
/// ```
/// # shaketable::Simulation::new().seeds(1).faults(shaketable::Faults::none())
/// #     .test(async |_db, context: shaketable::WorkloadContext| {
/// let handle = shaketable::spawn(shaketable::sleep(std::time::Duration::from_secs(60)));
/// handle.abort();
/// let error = handle.await.unwrap_err();
/// assert_eq!(error.to_string(), "the task was aborted");
/// # });
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinError(Reason);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Reason {
    Aborted,
    Panicked(PanicReport),
    Stopped(String),
    Stuck,
    Taken,
}

impl JoinError {
    /// Whether [`JoinHandle::abort`], or the end of the phase, dropped the task.
    ///
    /// ```
    /// # shaketable::Simulation::new().seeds(1).faults(shaketable::Faults::none())
    /// #     .test(async |_db, context: shaketable::WorkloadContext| {
    /// let handle = shaketable::spawn(shaketable::sleep(std::time::Duration::from_secs(60)));
    /// handle.abort();
    /// assert!(handle.await.unwrap_err().is_aborted());
    /// # });
    /// ```
    pub fn is_aborted(&self) -> bool {
        self.0 == Reason::Aborted
    }

    /// Whether the task panicked.
    ///
    /// ```
    /// # let simulation = shaketable::Simulation::new().seeds(1).without_regressions();
    /// # let _fails_because_of_the_panic = simulation.try_test(async |_db, _context| {
    /// let handle = shaketable::spawn(async { panic!("out of eggs") });
    /// let error = handle.await.unwrap_err();
    /// assert!(error.is_panic());
    /// # });
    /// ```
    pub fn is_panic(&self) -> bool {
        matches!(self.0, Reason::Panicked(_))
    }

    /// The message of the task's panic, and where it happened.
    ///
    /// ```
    /// # let simulation = shaketable::Simulation::new().seeds(1).without_regressions();
    /// # let _fails_because_of_the_panic = simulation.try_test(async |_db, _context| {
    /// let handle = shaketable::spawn(async { panic!("out of eggs") });
    /// let error = handle.await.unwrap_err();
    /// assert_eq!(error.panic().map(|report| report.message()), Some("out of eggs"));
    /// # });
    /// ```
    pub fn panic(&self) -> Option<&PanicReport> {
        match &self.0 {
            Reason::Panicked(report) => Some(report),
            _ => None,
        }
    }

    pub(super) fn aborted() -> Self {
        JoinError(Reason::Aborted)
    }

    pub(super) fn stuck() -> Self {
        JoinError(Reason::Stuck)
    }

    pub(super) fn taken() -> Self {
        JoinError(Reason::Taken)
    }

    pub(super) fn failed(failure: Failure) -> Self {
        JoinError(match failure {
            Failure::Panic(report) => Reason::Panicked(report),
            other => Reason::Stopped(other.to_string()),
        })
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Reason::Aborted => f.write_str("the task was aborted"),
            Reason::Panicked(report) => write!(f, "the task panicked: {report}"),
            Reason::Stopped(why) => f.write_str(why),
            Reason::Stuck => f.write_str(
                "the task was dropped: it was pending, and nothing held a waker that could run it again",
            ),
            Reason::Taken => f.write_str("the result of the task was taken before"),
        }
    }
}

impl std::error::Error for JoinError {}
