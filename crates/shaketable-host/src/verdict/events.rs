//! What the events mean that a library traces: which kind of failure an error is, and how it is
//! told in one line.
//!
//! A trace is the one thing that every host has. So both hosts read the crate's events here, and a
//! failure has the same kind and the same words under either.

use super::{FailureKind, Phase};
use crate::trace::{Event, is_tag};

/// What an error event of the crate `shaketable` means; any other is an error that the workload
/// traced.
pub fn kind_of(event: &str, phase: Phase) -> FailureKind {
    match event {
        "WorkloadPhaseFailed" if phase == Phase::Check => FailureKind::CheckFailed,
        "WorkloadPhaseFailed" => FailureKind::PhaseFailed,
        "WorkloadPanic" => FailureKind::Panicked,
        "WorkloadTaskSpinning" => FailureKind::Spinning,
        "WorkloadPhaseStuck" => FailureKind::Deadlock,
        "WorkloadDatabaseKept" => FailureKind::DatabaseKept,
        "WorkloadUnknown" | "WorkloadLibraryUnusable" => FailureKind::NotCreated,
        _ => FailureKind::ErrorTraced,
    }
}

/// The event in one line: its name and its details. The name is left out for the crate's own
/// events, where the kind of failure already says the same.
pub fn message_of(event: &Event) -> String {
    let said = |key: &str| event.get(key).map(first_line);
    let others = |said: &str| {
        let others = event
            .details
            .iter()
            .filter(|(key, _)| !is_noise(key) && key != said);
        let others = others.map(|(key, value)| format!("{key}={}", first_line(value)));
        others.collect::<Vec<String>>().join(", ")
    };
    match (
        event.kind.as_str(),
        said("Error"),
        said("Message"),
        said("Place"),
    ) {
        ("WorkloadPhaseFailed", Some(error), _, _) => return error.to_owned(),
        ("WorkloadPanic", _, Some(message), Some(place)) => {
            return format!("{message} (at {place})");
        }
        // The author's own message, or a name, is in the other details.
        ("WorkloadAssertionFailed" | "WorkloadUnknown", _, Some(message), _) => {
            return format!("{message} ({})", others("Message"));
        }
        (kind, _, Some(message), _) if kind.starts_with("Workload") => return message.to_owned(),
        _ => {}
    }
    let details = others("");
    if details.is_empty() {
        event.kind.clone()
    } else {
        format!("{} {details}", event.kind)
    }
}

/// Details that the failure already shows, or that belong in the trace.
fn is_noise(key: &str) -> bool {
    key.starts_with("Frame") || is_tag(key) || matches!(key, "Phase" | "Client" | "Backtrace")
}

fn first_line(value: &str) -> &str {
    value.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Severity;

    #[test]
    fn an_error_event_is_told_in_one_line() {
        let event = Event::new(Severity::Error, 1.0, "WorkloadPanic")
            .detail("Phase", "check")
            .detail("Client", 3)
            .detail("Message", "left != right\n  left: 1")
            .detail("Place", "src/lib.rs:7:5")
            .detail("Frame0", "core::panicking")
            .detail("RustFailure", 1);
        assert_eq!(message_of(&event), "left != right (at src/lib.rs:7:5)");
        let event = Event::new(Severity::Error, 1.0, "WorkloadPhaseFailed")
            .detail("Error", "one is missing");
        assert_eq!(message_of(&event), "one is missing");
        let event = Event::new(Severity::Error, 1.0, "Lost")
            .detail("Row", 7)
            .detail("Client", 1);
        assert_eq!(message_of(&event), "Lost Row=7");
        assert_eq!(
            message_of(&Event::new(Severity::Error, 1.0, "Lost")),
            "Lost"
        );
    }
}
