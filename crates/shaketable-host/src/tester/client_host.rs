//! What the host does for one workload on one client.

use super::run::Run;
use super::testbed::{Client, Testbed};
use crate::library::context::Host;
use crate::options::Options;
use crate::trace::{Event, Severity};
use crate::verdict::FailureKind;
use crate::verdict::events::{kind_of, message_of};
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
            // This host counts by itself; a comparison wants the same figures of every host.
            "shaketableMeasure" if self.run.given.measures => "on",
            "shaketableMeasure" => "off",
            // While decisions have names, the crate asks about each of its own.
            "shaketableDecisions" if self.run.kernel.is_deciding() => "ask",
            // A search wants to know at once when an assertion holds for the first time.
            "shaketableMoments" if self.run.given.keeps_moments => "tell",
            // A client that is to die at an await says when it comes to one.
            "shaketableAwait" => return self.dies_at_await().unwrap_or_default(),
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

    /// Whether the client dies at its next await, and how. Only a process that is copied there says
    /// so; a case lists deaths as an option of the workload.
    fn dies_at_await(&self) -> Option<String> {
        let kernel = &self.run.kernel;
        let client = || format!("tester {}", self.client.number);
        let forced = kernel.forced(|| (AWAIT.to_owned(), client()))?;
        kernel.happens(&forced);
        Some(forced.outcome)
    }
}

/// The kind of operation that an await is.
const AWAIT: &str = "await";
/// How the crate `shaketable` tells that an assertion held for the first time: it asks for an
/// option of this name, which ends with the assertion.
const FIRST_TIME: &str = "shaketableMoment ";
