//! How a run under fdbserver ended, as its trace tells.
//!
//! A client notes that a phase was not content, and the trace has events of errors. Neither alone
//! is enough: a phase may fail without words, and an error may fail the run without a phase.

use super::ErrorEvent;
use shaketable_record::{Record, Verdict};

/// How the run ended: by the first phase that was not content, in its own words or in those of the
/// last error before it; else by the first error.
pub(super) fn verdict(record: &Record, errors: &[ErrorEvent]) -> Verdict {
    let failed = record
        .phases
        .iter()
        .filter(|phase| phase.error.is_some())
        .min_by(|one, two| {
            one.ended
                .unwrap_or(0.0)
                .total_cmp(&two.ended.unwrap_or(0.0))
        });
    let detail = |error: &ErrorEvent, wanted: &str| {
        let mut details = error.details.iter();
        details
            .find(|(name, _)| name == wanted)
            .map(|(_, value)| value.clone())
    };
    let words = |error: &ErrorEvent| {
        let told = detail(error, "Error").or_else(|| detail(error, "Message"));
        told.unwrap_or_else(|| {
            let details = error.details.iter();
            let details: Vec<String> = details
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            format!("{} {}", error.name, details.join(" "))
        })
    };
    let Some(phase) = failed else {
        let Some(error) = errors.first() else {
            return Verdict {
                passed: true,
                ..Verdict::default()
            };
        };
        return Verdict {
            passed: false,
            kind: Some("error traced".to_owned()),
            message: Some(words(error)),
            client: detail(error, "Client").and_then(|client| client.parse().ok()),
            workload: None,
            phase: detail(error, "Phase"),
            time: Some(error.time),
        };
    };
    let own = phase.error.clone().filter(|error| !error.is_empty());
    let time = phase.ended.unwrap_or(f64::INFINITY);
    let last = || errors.iter().rfind(|error| error.time <= time).map(words);
    Verdict {
        passed: false,
        kind: Some(match phase.phase.as_str() {
            "check" => "check failed".to_owned(),
            _ => "phase failed".to_owned(),
        }),
        message: own.or_else(last),
        client: Some(phase.client),
        workload: Some(phase.workload.clone()),
        phase: Some(phase.phase.clone()),
        time: phase.ended,
    }
}

pub(super) fn seconds(record: &Record) -> f64 {
    let times = record.phases.iter().filter_map(|phase| phase.ended);
    times.fold(0.0, f64::max)
}
