//! Time as the kernel counts it: whole nanoseconds since the universe began.
//!
//! It is an integer, because two runs must agree to the last digit on which of two timers is
//! earlier, and because `sleep(1.5)` must take exactly one and a half seconds however large the
//! clock has become.
//!
//! A moment is a type; a duration is not: it is a number of seconds, an `f64` called `seconds` or
//! `…_seconds`. The mistakes that this could hide are prevented without a second type. Two moments
//! cannot be added, a moment is not a duration, and the difference of two moments is one. There is
//! one unit: a value in another unit, such as the milliseconds of the C API, is converted where it
//! enters. FoundationDB's constants, knobs and options are seconds in `f64`, drawn and multiplied
//! before they are waited for; a wrapper would be taken off and put on around each of these steps,
//! and `Seconds(5.0)` says no more than `5.0` where the parameter is called `seconds`. Where
//! durations stand beside chances, as in [`crate::NetworkConfig`], each name ends in what it
//! counts.

use std::fmt;
use std::ops::{Add, Sub};

/// A moment, in nanoseconds since the kernel was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The beginning.
    pub const ZERO: Time = Time(0);
    /// A moment that never comes.
    pub const NEVER: Time = Time(u64::MAX);

    /// The moment that many nanoseconds after the beginning.
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(nanos)
    }

    /// The moment that many seconds after the beginning; see [`Time::after`] for unusual values.
    pub fn from_secs(seconds: f64) -> Time {
        Time::ZERO.after(seconds)
    }

    /// Nanoseconds since the beginning.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the beginning.
    pub fn as_secs(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The moment `seconds` later. A negative duration counts as none; one that the clock cannot
    /// express (more than about 584 years, or not a number) leads to [`Time::NEVER`].
    pub fn after(self, seconds: f64) -> Time {
        if seconds <= 0.0 {
            return self;
        }
        // Rounded, by adding a half and truncating with `as`; a NaN must not become "now".
        let nanos = seconds * 1e9 + 0.5;
        if nanos < i64::MAX as f64 {
            // Signed, because that is one instruction for the machine.
            return Time(self.0.saturating_add(nanos as i64 as u64));
        }
        if nanos.is_nan() || nanos >= u64::MAX as f64 {
            return Time::NEVER;
        }
        Time(self.0.saturating_add(nanos as u64))
    }

    /// Seconds from `earlier` to this moment; negative if `earlier` is in fact later.
    pub fn since(self, earlier: Time) -> f64 {
        if self >= earlier {
            (self.0 - earlier.0) as f64 / 1e9
        } else {
            -((earlier.0 - self.0) as f64 / 1e9)
        }
    }
}

impl Add<f64> for Time {
    type Output = Time;
    fn add(self, seconds: f64) -> Time {
        self.after(seconds)
    }
}

impl Sub for Time {
    type Output = f64;
    fn sub(self, earlier: Time) -> f64 {
        self.since(earlier)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{:09}",
            self.0 / 1_000_000_000,
            self.0 % 1_000_000_000
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_exact_nanoseconds() {
        assert_eq!(Time::from_secs(1.5).as_nanos(), 1_500_000_000);
        assert_eq!(Time::from_nanos(7).after(0.000_05).as_nanos(), 50_007);
        assert_eq!(Time::from_secs(0.1).to_string(), "0.100000000");
    }

    #[test]
    fn absurd_durations_are_none_or_never_end() {
        let now = Time::from_secs(3.0);
        assert_eq!(now.after(-1.0), now);
        assert_eq!(now.after(f64::NEG_INFINITY), now);
        for seconds in [4e12, 1.9e10, f64::INFINITY, f64::NAN, f64::MAX] {
            assert_eq!(now.after(seconds), Time::NEVER, "{seconds}");
        }
    }

    #[test]
    fn differences_have_a_sign() {
        assert_eq!(Time::from_secs(2.0) - Time::from_secs(0.5), 1.5);
        assert_eq!(Time::from_secs(0.5) - Time::from_secs(2.0), -1.5);
    }
}
