//! A clock that a layer can use without knowing whether it is simulated.

use crate::context::WorkloadContext;
use std::time::{Duration, Instant, SystemTime};

/// Monotonic and wall time: of the simulation, or of the machine in production.
///
/// Layer code with leases, expiry times or timestamps takes a `Clock` and is the same in both:
///
/// ```
/// use shaketable::Clock;
/// use std::time::Duration;
///
/// struct Lease { clock: Clock, taken: Duration }
///
/// impl Lease {
///     fn take(clock: Clock) -> Lease {
///         Lease { taken: clock.elapsed(), clock }
///     }
///     fn is_over(&self) -> bool {
///         self.clock.elapsed() - self.taken > Duration::from_secs(10)
///     }
/// }
///
/// let in_production = Lease::take(Clock::machine());
/// assert!(!in_production.is_over());
/// // In a workload: Lease::take(context.clock()).
/// ```
#[derive(Debug, Clone)]
pub struct Clock(Source);

#[derive(Debug, Clone)]
enum Source {
    Machine { start: Instant },
    Simulated(WorkloadContext),
}

/// The moment at which every simulation begins: 2026-01-01T00:00:00Z, as in the trace files of the
/// embedded host.
pub(crate) const EPOCH: Duration = Duration::from_secs(1_767_225_600);

impl Clock {
    /// The machine's clock, for production.
    ///
    /// ```
    /// let clock = shaketable::Clock::machine();
    /// assert!(clock.wall() > std::time::SystemTime::UNIX_EPOCH);
    /// ```
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one that is meant to ask the machine"
    )]
    pub fn machine() -> Self {
        Clock(Source::Machine {
            start: Instant::now(),
        })
    }

    /// The simulation's clock inside a workload, the machine's elsewhere.
    ///
    /// ```
    /// # shaketable::Simulation::new().seeds(1).faults(shaketable::Faults::none())
    /// #     .test(async |_db, context: shaketable::WorkloadContext| {
    /// let clock = shaketable::Clock::current();
    /// let before = clock.elapsed();
    /// shaketable::sleep(std::time::Duration::from_secs(3600)).await;
    /// assert!(clock.elapsed() - before >= std::time::Duration::from_secs(3600));
    /// # });
    /// ```
    pub fn current() -> Self {
        WorkloadContext::current().map_or_else(Clock::machine, Clock::simulated)
    }

    pub(crate) fn simulated(context: WorkloadContext) -> Self {
        Clock(Source::Simulated(context))
    }

    /// Monotonic time: since the simulation began, or since this clock was made.
    ///
    /// ```
    /// # shaketable::Simulation::new().seeds(1).faults(shaketable::Faults::none())
    /// #     .test(async |_db, context: shaketable::WorkloadContext| {
    /// let clock = context.clock();
    /// let before = clock.elapsed();
    /// shaketable::sleep(std::time::Duration::from_secs(60)).await;
    /// assert!(clock.elapsed() - before >= std::time::Duration::from_secs(60));
    /// # });
    /// ```
    pub fn elapsed(&self) -> Duration {
        match &self.0 {
            Source::Machine { start } => start.elapsed(),
            Source::Simulated(context) => Duration::from_secs_f64(context.now().max(0.0)),
        }
    }

    /// The time of day. A simulation begins on 2026-01-01, at midnight UTC.
    ///
    /// ```
    /// # shaketable::Simulation::new().seeds(1).faults(shaketable::Faults::none())
    /// #     .test(async |_db, context: shaketable::WorkloadContext| {
    /// let new_year = std::time::Duration::from_secs(1_767_225_600);
    /// let today = context.clock().wall();
    /// assert!(today > std::time::SystemTime::UNIX_EPOCH + new_year);
    /// # });
    /// ```
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one that is meant to ask the machine"
    )]
    pub fn wall(&self) -> SystemTime {
        match &self.0 {
            Source::Machine { .. } => SystemTime::now(),
            Source::Simulated(_) => SystemTime::UNIX_EPOCH + EPOCH + self.elapsed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_of_the_machine_goes_forward() {
        let clock = Clock::current();
        let before = clock.elapsed();
        assert!(clock.elapsed() >= before);
        assert!(clock.wall() > SystemTime::UNIX_EPOCH + EPOCH / 2);
    }
}
