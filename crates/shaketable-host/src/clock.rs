//! The calendar of a simulation.
//!
//! Simulated time starts at zero. Where a date is wanted (in a trace file, by `SystemTime::now` in
//! a workload) it starts at a fixed moment, so that two runs of one seed agree to the last byte.

use std::time::{Duration, SystemTime};

/// Seconds since 1970 at which every simulation starts: 2026-01-01T00:00:00Z.
pub const EPOCH_UNIX_SECONDS: u64 = 1_767_225_600;

/// The last second that a date with four digits for the year can name: 9999-12-31T23:59:59Z. A
/// timer may be set to any time, and a simulation in which nothing else happens jumps there.
const LAST_UNIX_SECONDS: u64 = 253_402_300_799;

/// The date and time of a simulated moment, to the second, in UTC.
pub fn utc(simulated_seconds: f64) -> String {
    let seconds = EPOCH_UNIX_SECONDS.saturating_add(simulated_seconds.max(0.0) as u64);
    let moment = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.min(LAST_UNIX_SECONDS));
    humantime::format_rfc3339_seconds(moment).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulation_starts_with_the_year() {
        assert_eq!(utc(0.0), "2026-01-01T00:00:00Z");
        assert_eq!(utc(3_661.9), "2026-01-01T01:01:01Z");
        assert_eq!(utc(58.0 * 86_400.0), "2026-02-28T00:00:00Z");
        assert_eq!(utc(59.0 * 86_400.0), "2026-03-01T00:00:00Z");
    }

    #[test]
    fn leap_years_are_counted() {
        assert_eq!(utc(789.0 * 86_400.0), "2028-02-29T00:00:00Z");
        assert_eq!(utc(790.0 * 86_400.0), "2028-03-01T00:00:00Z");
    }

    #[test]
    fn what_is_later_than_any_date_has_the_last_one() {
        assert_eq!(utc(f64::INFINITY), "9999-12-31T23:59:59Z");
        assert_eq!(utc(1e15), "9999-12-31T23:59:59Z");
    }
}
