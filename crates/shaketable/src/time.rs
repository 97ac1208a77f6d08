//! Simulated time: `sleep`, `timeout`, and giving others a turn.

use crate::context::{Delay, WorkloadContext};
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

/// Waits for this much simulated time, counted from the call.
///
/// A sleep of zero still lets the simulator take a turn.
///
/// # Panics
///
/// Outside a workload, where no time is simulated, and when the host cannot delay: FoundationDB
/// before 7.4.6.
///
/// ```
/// # shaketable::Simulation::new().seeds(1).faults(shaketable::Faults::none())
/// #     .test(async |_db, context: shaketable::WorkloadContext| {
/// use std::time::Duration;
///
/// let before = context.now();
/// shaketable::sleep(Duration::from_secs(3600)).await; // an hour of simulated time, none of yours
/// assert!(context.now() - before >= 3600.0);
/// # });
/// ```
pub fn sleep(duration: Duration) -> Sleep {
    let Some(context) = WorkloadContext::current() else {
        panic!("shaketable::sleep was called outside a workload, where no time is simulated");
    };
    Sleep(context.start_delay(duration))
}

/// The future of [`sleep`].
///
/// ```
/// # shaketable::Simulation::new().seeds(1).faults(shaketable::Faults::none())
/// #     .test(async |_db, context: shaketable::WorkloadContext| {
/// use std::time::Duration;
///
/// let seconds = (1..=3).map(Duration::from_secs);
/// let sleeps: Vec<shaketable::Sleep> = seconds.map(shaketable::sleep).collect();
/// let before = context.now();
/// for sleep in sleeps {
///     sleep.await; // all three began together
/// }
/// assert!((context.now() - before - 3.0).abs() < 1e-6);
/// # });
/// ```
#[must_use = "a sleep that is not awaited waits for nothing"]
pub struct Sleep(Delay);

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(context).map(|result| {
            if let Err(error) = result {
                panic!(
                    "shaketable::sleep: the host cannot delay: {} ({}); delays need the workload \
                     ABI of FoundationDB 7.4.6 or later",
                    error.message(),
                    error.code(),
                );
            }
        })
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sleep")
    }
}

/// Awaits `future` for at most this much simulated time, counted from the call.
///
/// A future that becomes ready just as the time is over counts as in time.
///
/// # Panics
///
/// As [`sleep`] does.
///
/// ```
/// # shaketable::Simulation::new().seeds(1).faults(shaketable::Faults::none())
/// #     .test(async |db, _context| -> shaketable::PhaseResult {
/// use std::time::Duration;
///
/// let trx = db.create_trx()?;
/// let value = shaketable::timeout(Duration::from_secs(5), trx.get(b"hello", false)).await??;
/// assert!(value.is_none());
/// # Ok(())
/// # });
/// ```
pub fn timeout<F: Future>(
    duration: Duration,
    future: F,
) -> impl Future<Output = Result<F::Output, Elapsed>> {
    let sleep = sleep(duration);
    async move {
        let mut future = pin!(future);
        let mut sleep = pin!(sleep);
        std::future::poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Ok(output));
            }
            sleep
                .as_mut()
                .poll(context)
                .map(|()| Err(Elapsed(duration)))
        })
        .await
    }
}

/// The time of a [`timeout`] is over.
///
/// ```
/// # shaketable::Simulation::new().seeds(1).faults(shaketable::Faults::none())
/// #     .test(async |_db, context: shaketable::WorkloadContext| {
/// use std::time::Duration;
///
/// let never = std::future::pending::<()>();
/// let elapsed = shaketable::timeout(Duration::from_secs(5), never).await.unwrap_err();
/// assert_eq!(elapsed.to_string(), "not done within 5s of simulated time");
/// # });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elapsed(Duration);

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not done within {:?} of simulated time", self.0)
    }
}

impl std::error::Error for Elapsed {}

/// Lets every other task that is ready run first. No simulated time passes.
///
/// ```
/// # shaketable::Simulation::new().seeds(1).faults(shaketable::Faults::none())
/// #     .test(async |_db, context: shaketable::WorkloadContext| {
/// let other = shaketable::spawn(async { shaketable::yield_now().await });
/// while !other.is_finished() {
///     shaketable::yield_now().await;
/// }
/// # });
/// ```
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
