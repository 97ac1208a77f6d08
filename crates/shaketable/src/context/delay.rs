//! Delays: futures that are ready when simulated time has passed.
//!
//! The host counts the time. A host that has forgotten the workload, or is too old to know delays,
//! gives an error instead of a future that would never be ready.

use super::WorkloadContext;
use foundationdb::future::FdbFuture;
use foundationdb::{FdbError, FdbResult};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

impl WorkloadContext {
    /// A future that is ready when this much simulated time has passed.
    ///
    /// Fails with 1101 (`operation_cancelled`) when the host has freed the workload, and with 2108
    /// (`unsupported_operation`) on a host without delays: FoundationDB before 7.4.6.
    ///
    /// ```
    /// # shaketable::Simulation::new().seeds(1).faults(shaketable::Faults::none())
    /// #     .test(async |_db, context: shaketable::WorkloadContext| {
    /// use std::time::Duration;
    ///
    /// context.delay(Duration::from_secs(5)).await.expect("this host can delay");
    /// # });
    /// ```
    pub fn delay(
        &self,
        duration: Duration,
    ) -> impl Future<Output = FdbResult<()>> + Send + Sync + 'static + use<> {
        self.start_delay(duration)
    }

    pub(crate) fn start_delay(&self, duration: Duration) -> Delay {
        match self.host("delay") {
            None => Delay::Refused(OPERATION_CANCELLED),
            Some(host) => match host.delay(duration.as_secs_f64()) {
                Some(future) => Delay::Running(FdbFuture::new(future.cast())),
                None => Delay::Refused(UNSUPPORTED_OPERATION),
            },
        }
    }
}

const OPERATION_CANCELLED: i32 = 1101;
const UNSUPPORTED_OPERATION: i32 = 2108;

/// A running delay, or the error code that says why there is none.
pub(crate) enum Delay {
    Running(FdbFuture<()>),
    Refused(i32),
}

impl Future for Delay {
    type Output = FdbResult<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<FdbResult<()>> {
        match self.get_mut() {
            Delay::Running(future) => Pin::new(future).poll(context),
            Delay::Refused(code) => Poll::Ready(Err(FdbError::from_code(*code))),
        }
    }
}
