//! The calendar of a simulation.
//!
//! Simulated time starts at zero; where somebody wants a date (a trace file, `SystemTime::now` in a
//! workload) it starts at a fixed moment, so that two runs of one seed agree to the last byte.

/// Seconds since 1970 at which every simulation starts: 2026-01-01T00:00:00Z.
pub const EPOCH_UNIX_SECONDS: u64 = 1_767_225_600;

/// The date and time of a simulated moment, to the second, in UTC.
pub fn utc(simulated_seconds: f64) -> String {
    let total = EPOCH_UNIX_SECONDS + simulated_seconds.max(0.0) as u64;
    let (days, seconds) = (total / 86_400, total % 86_400);
    let (year, month, day) = civil(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// The date of a day counted from 1970-01-01.
fn civil(mut days: u64) -> (u64, u64, u64) {
    let leap =
        |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
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
        assert_eq!(civil(59), (1970, 3, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(20_513), (2026, 3, 1));
    }
}
