//! What the host does for one workload on one client.

use super::run::Run;
use super::testbed::{Client, Testbed};
use crate::library::context::Host;
use crate::options::Options;
use crate::trace::{Event, Severity};
use crate::verdict::{FailureKind, Phase};
use shaketable_abi::FDBFuture;
use shaketable_kernel::Stream;
use std::rc::Rc;

/// What a workload's context stands for.
pub(super) struct ClientHost {
    pub(super) run: Rc<Run>,
    pub(super) testbed: Testbed,
    pub(super) client: Rc<Client>,
    pub(super) workload: usize,
    pub(super) options: Options,
    pub(super) shared_random_number: i64,
    /// One stream for each client, so that one more draw on a client leaves the others as they
    /// were.
    pub(super) random: Stream,
}

impl Host for ClientHost {
    fn trace(&self, severity: Severity, name: &str, details: Vec<(String, String)>) {
        let now = self.run.now();
        self.run.findings.sites.note(now, name, &details);
        let deaths = &self.run.findings.deaths;
        deaths.note(self.client.number, now, name, &details);
        let mut event = Event::new(severity, self.run.now(), name).on(&*self.client.address, "TS");
        event.details = details;
        if severity == Severity::Error {
            self.run.fail(
                kind_of(name, self.run.phase()),
                Some(self.client.number),
                Some(self.workload),
                message_of(&event),
            );
        }
        if self.run.trace(event) > severity {
            self.run.fail(
                FailureKind::ErrorTraced,
                Some(self.client.number),
                Some(self.workload),
                format!("TraceEventOverflow: the event `{name}` has more than 4000 bytes, and fdbserver drops such events"),
            );
        }
    }

    fn process_id(&self) -> u64 {
        self.client.process.index() as u64 + 1
    }

    fn now(&self) -> f64 {
        self.run.now()
    }

    fn rnd(&self) -> u32 {
        self.random.next_u32()
    }

    fn option(&self, name: &str, default: &str) -> String {
        let default = match name {
            // FoundationDB's interface has no way to ask; the crate `shaketable` uses this option.
            "shaketableBuggify" if self.run.given.buggify => "on",
            "shaketableBuggify" => "off",
            // While decisions have names, the crate asks about each of its own.
            "shaketableDecisions" if self.run.kernel.is_deciding() => "ask",
            // A search wants to know at once when an assertion holds for the first time.
            "shaketableMoments" if self.run.given.keeps_moments => "tell",
            _ if name.starts_with(FIRST_TIME) => {
                let assertion = &name[FIRST_TIME.len()..];
                let sites = &self.run.findings.sites;
                sites.note_first(self.run.now(), assertion);
                return String::new();
            }
            _ => match name.strip_prefix("shaketableDecision ") {
                Some(place) if self.decides(place, default == "on") => return "on".to_owned(),
                Some(_) => return "off".to_owned(),
                None => default,
            },
        };
        let text = self.options.take(name, default);
        self.run.note_option(name, &text);
        text
    }

    fn client_id(&self) -> u32 {
        self.client.number
    }

    fn client_count(&self) -> u32 {
        self.run.given.client_count
    }

    fn shared_random_number(&self) -> i64 {
        self.shared_random_number
    }

    fn delay(&self, seconds: f64) -> *mut FDBFuture {
        self.testbed.delay(self.client.process, seconds)
    }

    fn misuse(&self, what: String) {
        self.run.fail(
            FailureKind::Misuse,
            Some(self.client.number),
            Some(self.workload),
            what,
        );
    }
}

impl ClientHost {
    /// Whether a buggified place in the code under test strikes, given what chance says.
    fn decides(&self, place: &str, drawn: bool) -> bool {
        let name = || {
            let client = format!("tester {}", self.client.number);
            (format!("buggify! {place}"), client)
        };
        self.run.kernel.decide(drawn, name)
    }
}

/// How the crate `shaketable` tells that an assertion held for the first time: it asks for an option
/// of this name, which ends with the assertion.
const FIRST_TIME: &str = "shaketableMoment ";

/// What an error event of the crate `shaketable` means; any other is an error that the workload
/// traced.
fn kind_of(event: &str, phase: Phase) -> FailureKind {
    match event {
        "WorkloadPhaseFailed" if phase == Phase::Check => FailureKind::CheckFailed,
        "WorkloadPhaseFailed" => FailureKind::PhaseFailed,
        "WorkloadPanic" => FailureKind::Panicked,
        "WorkloadTaskSpinning" => FailureKind::Spinning,
        "WorkloadPhaseStuck" => FailureKind::DeadLock,
        "WorkloadDatabaseKept" => FailureKind::DatabaseKept,
        "WorkloadUnknown" | "WorkloadLibraryUnusable" => FailureKind::NotCreated,
        _ => FailureKind::ErrorTraced,
    }
}

/// The event in one line: its name and its details. The name is left out for the crate's own
/// events, where the kind of failure already says the same.
pub(super) fn message_of(event: &Event) -> String {
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
    key.starts_with("Frame")
        || matches!(
            key,
            "Phase" | "Client" | "RustWorkload" | "RustFailure" | "Backtrace"
        )
}

fn first_line(value: &str) -> &str {
    value.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

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
