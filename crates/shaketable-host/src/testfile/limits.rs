//! How much a test file may ask for.
//!
//! A cluster of a hundred thousand machines would keep the simulator busy for minutes before the
//! first transaction, and a duration that is no number would never end: both would be blamed on the
//! workload. They are refused in the file, at their place.

use std::ops::RangeInclusive;

/// The counts of `[configuration]` and their ranges.
const COUNTS: &[(&str, RangeInclusive<i64>)] = &[
    ("datacenters", 1..=8),
    ("machineCount", 1..=MACHINES_MAX),
    ("processesPerMachine", 1..=32),
    ("coordinators", 1..=MACHINES_MAX),
    ("desiredTLogCount", 1..=100),
    ("commitProxyCount", 1..=100),
    ("grvProxyCount", 1..=100),
    ("resolverCount", 1..=100),
    ("liveness", 0..=SECONDS_MAX as i64),
];

/// The last byte of an address counts machines.
const MACHINES_MAX: i64 = 250;

/// The greatest cluster, in processes.
const PROCESSES_MAX: i64 = 1_000;

/// The longest time an option may ask for, in seconds: three simulated years.
const SECONDS_MAX: f64 = 1e8;

/// The greatest number of rows that a built-in workload may be given.
const NODES_MAX: f64 = 1e7;

/// Checks a count of `[configuration]`.
pub(super) fn check_count(name: &str, value: i64) -> Result<(), String> {
    match COUNTS.iter().find(|(known, _)| *known == name) {
        Some((_, range)) if !range.contains(&value) => Err(format!(
            "expected a `{name}` between {} and {}, found {value}",
            range.start(),
            range.end()
        )),
        _ => Ok(()),
    }
}

/// Checks the size of the whole cluster.
pub(super) fn check_cluster(machines: i64, processes_per_machine: i64) -> Result<(), String> {
    match machines.checked_mul(processes_per_machine) {
        Some(processes) if processes <= PROCESSES_MAX => Ok(()),
        _ => Err(format!(
            "{machines} machines of {processes_per_machine} processes are more than the {PROCESSES_MAX} processes that can be simulated"
        )),
    }
}

/// Checks a number of seconds.
pub(super) fn check_seconds(name: &str, seconds: f64) -> Result<(), String> {
    if seconds.is_finite() && seconds >= 0.0 {
        return Ok(());
    }
    Err(format!(
        "expected a number of seconds for `{name}`, found {seconds}"
    ))
}

/// Checks an option of a built-in workload.
pub(super) fn check_option(name: &str, text: &str) -> Result<(), String> {
    let Ok(number) = text.trim().parse::<f64>() else {
        return Ok(()); // Its workload says what is wrong with it, if anything is.
    };
    if !number.is_finite() {
        return Err(format!("expected a number for `{name}`, found {number}"));
    }
    let is_duration = name.ends_with("Duration") || name.ends_with("Delay");
    if is_duration && !(0.0..=SECONDS_MAX).contains(&number) {
        return Err(format!(
            "expected a time between 0 and {SECONDS_MAX} seconds for `{name}`, found {text}"
        ));
    }
    if name == "nodeCount" && !(1.0..=NODES_MAX).contains(&number) {
        return Err(format!(
            "expected a `{name}` between 1 and {NODES_MAX}, found {text}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_simulated_is_allowed() {
        assert_eq!(check_count("machineCount", 250), Ok(()));
        assert_eq!(check_count("testPriority", 100_000), Ok(()));
        assert_eq!(check_count("liveness", 0), Ok(()));
        assert_eq!(check_cluster(250, 4), Ok(()));
        assert_eq!(check_seconds("timeout", 1e12), Ok(()));
        assert_eq!(check_option("testDuration", "30.0"), Ok(()));
        assert_eq!(check_option("scale", "-0.5"), Ok(()));
        assert_eq!(check_option("killSelf", "true"), Ok(()));
    }

    #[test]
    fn what_cannot_is_refused() {
        assert!(check_count("machineCount", 100_000).is_err());
        assert!(check_count("machineCount", 0).is_err());
        assert!(check_count("liveness", -1).is_err());
        assert!(check_count("liveness", i64::MAX).is_err());
        assert!(check_cluster(250, 5).is_err());
        assert!(check_cluster(i64::MAX, 2).is_err());
        for seconds in [f64::NAN, f64::INFINITY, -1.0] {
            assert!(check_seconds("timeout", seconds).is_err());
        }
        for text in ["nan", "inf", "-5", "1e300", " NaN "] {
            assert!(check_option("testDuration", text).is_err(), "{text}");
        }
        assert!(check_option("transactionsPerSecond", "nan").is_err());
        assert!(check_option("nodeCount", "1000000000").is_err());
    }
}
