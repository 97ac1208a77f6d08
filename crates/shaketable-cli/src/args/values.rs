//! How the text of a value is read: times, parts of the seeds, knobs.
//!
//! What cannot be read is refused before anything runs, in words that say what was expected; a
//! misspelt knob is answered with the nearest name.

use shaketable_host::plan::{Liveness, StalledAfter};
use shaketable_host::testfile::{KnobError, check_knob, check_knob_value};
use std::time::Duration;

/// Why the text of an argument is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum ArgumentError {
    #[error("expected a time with its unit, such as 30s, 10m or 2h")]
    Time(#[source] humantime::DurationError),
    #[error("expected a time of a year at most")]
    TooLong,
    #[error("expected a time of a second at least, or off")]
    TooShort,
    #[error("expected I/N with 1 <= I <= N, such as 2/4")]
    Shard,
    #[error("expected NAME=VALUE, such as max_write_transaction_life_versions=1000000")]
    KnobWithoutValue,
    #[error("unknown knob `{name}`{}", .nearest.map_or(String::new(), |nearest| format!(": did you mean `{nearest}`?")))]
    UnknownKnob {
        name: String,
        nearest: Option<&'static str>,
    },
    #[error(transparent)]
    KnobValue(#[from] KnobError),
}

/// Beyond this a time is a slip, and no clock can count that far.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

pub(super) fn parse_time(text: &str) -> Result<Duration, ArgumentError> {
    match humantime::parse_duration(text) {
        Ok(time) if time > LONGEST => Err(ArgumentError::TooLong),
        Ok(time) => Ok(time),
        Err(error) => Err(ArgumentError::Time(error)),
    }
}

pub(super) fn parse_liveness(text: &str) -> Result<Liveness, ArgumentError> {
    if text == "off" {
        return Ok(Liveness::Off);
    }
    let time = parse_time(text)?;
    if time < Duration::from_secs(1) {
        return Err(ArgumentError::TooShort);
    }
    Ok(Liveness::Seconds(time.as_secs()))
}

pub(super) fn parse_stalled_after(text: &str) -> Result<StalledAfter, ArgumentError> {
    if text == "off" {
        return Ok(StalledAfter::Never);
    }
    parse_time(text).map(|time| StalledAfter::Seconds(time.as_secs()))
}

/// One part of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Which, from 1.
    pub index: u64,
    /// Of how many.
    pub count: u64,
}

pub(super) fn parse_shard(text: &str) -> Result<Shard, ArgumentError> {
    let parsed = text
        .split_once('/')
        .and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
    match parsed {
        Some((index, count)) if index >= 1 && index <= count => Ok(Shard { index, count }),
        _ => Err(ArgumentError::Shard),
    }
}

pub(super) fn parse_knob(text: &str) -> Result<(String, String), ArgumentError> {
    let (name, value) = text
        .split_once('=')
        .ok_or(ArgumentError::KnobWithoutValue)?;
    let name = name.trim_start_matches("knob_").to_lowercase();
    if let Err(nearest) = check_knob(&name) {
        return Err(ArgumentError::UnknownKnob { name, nearest });
    }
    check_knob_value(&name, value)?;
    Ok((name, value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_counted_from_one() {
        assert_eq!(parse_shard("2/4").unwrap(), Shard { index: 2, count: 4 });
        for text in ["0/4", "5/4", "4", "a/b", "1/0"] {
            assert!(parse_shard(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_absurd_time_is_refused() {
        assert_eq!(parse_time("8h").unwrap(), Duration::from_secs(8 * 3600));
        for text in ["NaN", "-1s", "30", "", "99999999999999h", "2years"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_limit_of_less_than_a_second_is_refused_and_not_taken_for_another() {
        assert_eq!(parse_liveness("off").unwrap(), Liveness::Off);
        assert_eq!(parse_liveness("1m").unwrap(), Liveness::Seconds(60));
        for text in ["0s", "999ms", "0"] {
            assert!(parse_liveness(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_misspelt_knob_is_refused_with_the_nearest_name() {
        assert_eq!(
            parse_knob("default_backof=1").unwrap_err().to_string(),
            "unknown knob `default_backof`: did you mean `default_backoff`?"
        );
        assert_eq!(
            parse_knob("knob_DEFAULT_BACKOFF=0.5").unwrap(),
            ("default_backoff".into(), "0.5".into())
        );
    }
}
