//! What became of a run, from the server's trace, its console and its exit status.
//!
//! fdbserver's own verdict is thin: the exit status counts events of severity error and ignores
//! failed checks, a library that is not there looks like one whose client library is missing, and a
//! single mistake makes a dozen events on every client. Here each event is told apart: what the
//! workload did (in the same words as under the embedded host), what the server concluded from it
//! (which counts only if no cause is known), and errors of FoundationDB itself.

mod console;

use console::Console;
use shaketable_host::coverage::Covered;
use shaketable_host::trace::{Event, Severity};
use shaketable_host::verdict::events::{kind_of, message_of};
use shaketable_host::verdict::{Drawn, Failure, FailureKind, Metric, Outcome, Phase, Sites};
use std::collections::BTreeMap;
use std::time::Duration;

use crate::trace::{is_warning, parse, type_of};

/// What a server says of a library that it cannot load; often that is all.
pub(crate) const NOT_LOADED: &str = "the library cannot be loaded";
/// More failures of a run than this say nothing new.
const FAILURES_MAX: usize = 50;
/// How many warnings and errors are kept to be shown.
const NOTABLE_MAX: usize = 40;

/// How a server's process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With this status.
    Exited(i32),
    /// By this signal.
    Killed(i32),
    /// It did not, within this time, and was killed.
    Hung(Duration),
    /// It found no room for its trace or its databases.
    WithoutRoom,
    /// The user interrupted.
    Interrupted,
}

/// What a run has shown so far.
pub struct Reading {
    outcome: Outcome,
    /// The workload, for failures of its own.
    workload: String,
    test: String,
    phase: Phase,
    time: f64,
    sites: Sites,
    /// Which client runs on which machine.
    clients: BTreeMap<String, u32>,
    /// Failures that follow from others.
    consequences: Vec<Failure>,
    /// How many places of FoundationDB itself are buggified.
    buggified: u32,
    /// Why the loader refused a library.
    load_error: Option<String>,
}

impl Reading {
    /// Nothing yet.
    pub fn new(seed: u64, buggify: bool, workload: &str) -> Reading {
        Reading {
            outcome: Outcome {
                seed,
                drawn: Drawn {
                    buggify,
                    ..Drawn::default()
                },
                ..Outcome::default()
            },
            workload: workload.to_owned(),
            test: String::new(),
            phase: Phase::Boot,
            time: 0.0,
            sites: Sites::default(),
            clients: BTreeMap::new(),
            consequences: Vec::new(),
            buggified: 0,
            load_error: None,
        }
    }

    /// Reads a line of the trace.
    pub fn line(&mut self, line: &str) {
        let Some(kind) = type_of(line) else {
            return;
        };
        let is_tester = line.contains("\"Roles\": \"TS\"") || line.contains("Roles=\"TS\"");
        if !is_warning(line) && !is_tester && !INTERESTING.contains(&kind) {
            return;
        }
        if let Some(event) = parse(line) {
            self.event(event, is_tester);
        }
    }

    fn event(&mut self, event: Event, is_tester: bool) {
        self.time = self.time.max(event.time);
        if let Some(client) = event.get("Client").and_then(|client| client.parse().ok()) {
            self.clients.insert(event.machine.clone(), client);
        }
        self.sites.note(event.time, &event.kind, &event.details);
        self.progress(&event);
        if event.severity == Severity::Error {
            self.outcome.error_events += 1;
            self.error(&event, is_tester);
        }
        let is_notable = match event.severity {
            Severity::Error => true,
            Severity::Warn | Severity::WarnAlways => is_tester,
            Severity::Debug | Severity::Info => false,
        };
        if is_notable && self.outcome.notable.len() < NOTABLE_MAX {
            let mut event = event;
            // Addresses in the server: they are in the trace.
            event.details.retain(|(name, _)| name != "Backtrace");
            self.outcome.notable.push(event);
        }
    }

    /// Follows the run: which test, which phase, what was drawn and what it measured.
    fn progress(&mut self, event: &Event) {
        let text = |key| event.get(key).unwrap_or_default().to_owned();
        let is_testers = event.machine == shaketable_host::trace::NOWHERE;
        match &*event.kind {
            "TestRunning" => {
                self.test = text("WorkloadTitle");
                self.phase = Phase::Factory;
                let count = text("TesterCount").parse();
                self.outcome.drawn.clients = count.unwrap_or(self.outcome.drawn.clients);
                self.outcome.metrics.clear();
            }
            "TestSetupStart" => self.phase = Phase::Setup,
            "TestStarting" if is_testers => self.phase = Phase::Start,
            "TestCheckingResults" => self.phase = Phase::Check,
            "TestFetchingMetrics" => self.phase = Phase::Metrics,
            "TestResults" => self.phase = Phase::Free,
            // The embedded host has no metric of its own.
            "Metric" if event.get("Name") == Some("Reporting Clients") => {}
            "Metric" => self.outcome.metrics.push(Metric {
                name: text("Name"),
                value: text("Value").parse().unwrap_or(f64::NAN),
                formatted: text("Formatted"),
            }),
            "SimulatorConfig" => {
                self.outcome.drawn.cluster = told_shortly(&text("ConfigString"));
            }
            "AddFailureInjectionWorkload" => {
                let added = format!("{} (added)", text("Name"));
                if !self.outcome.drawn.faults.contains(&added) {
                    self.outcome.drawn.faults.push(added);
                }
            }
            "WorkloadUncontrolled" => {
                let act = text("Act");
                if !self.outcome.uncontrolled.contains(&act) {
                    self.outcome.uncontrolled.push(act);
                }
            }
            "LoadLibraryFailed" => self.load_error = Some(text("Error")),
            "BuggifySection" if event.get("Activated") == Some("1") => self.buggified += 1,
            "ElapsedTime" => {
                let seconds = text("SimTime").parse();
                self.outcome.simulated_seconds = seconds.unwrap_or(event.time);
            }
            fault if FAULTS.contains(&fault) => {
                *self.outcome.faults.entry(fault.to_owned()).or_default() += 1;
            }
            _ => {}
        }
    }

    fn error(&mut self, event: &Event, is_tester: bool) {
        let text = |key| event.get(key).unwrap_or_default();
        let meaning = match &*event.kind {
            "ExternalWorkloadLoadError" => Meaning::cause(
                FailureKind::NotCreated,
                match &self.load_error {
                    Some(reason) => format!("{NOT_LOADED}: {reason}"),
                    None => NOT_LOADED.to_owned(),
                },
            ),
            "ExternalCFactoryNotFound" => Meaning::cause(
                FailureKind::NotCreated,
                "the library exports no `workloadCFactory`: it needs `register_workload!`",
            ),
            "ExternalFactoryNotFound" => Meaning::cause(
                FailureKind::NotCreated,
                "the library exports no `workloadFactory`, which is what fdbserver looks for unless the test file has `useCAPI = true`",
            ),
            "OptionNotConsumed" => Meaning::cause(
                FailureKind::OptionsNotRead,
                format!(
                    "the workload did not read {}: options must be read while the workload is created",
                    text("Key")
                ),
            ),
            "TestCreationError" if text("Reason") == "Null workload" => Meaning::cause(
                FailureKind::NotCreated,
                format!("fdbserver has no workload `{}`", text("TestName")),
            ),
            "TestFailure" if text("Reason") == "Test timed out" => Meaning::cause(
                FailureKind::TestTimedOut,
                format!(
                    "the test took longer than {} simulated seconds",
                    text("Timeout")
                ),
            ),
            "TestFailure" | "TestSetupError" if text("Error") == "broken_promise" => {
                Meaning::cause(
                    FailureKind::BrokenPromise,
                    "the workload gave its promise up without an answer",
                )
            }
            "TestFailure"
                if text("Reason") == "Error checking workload" && text("Error") == "timed_out" =>
            {
                Meaning::cause(
                    FailureKind::CheckTimedOut,
                    "no answer within the time that the workload allows itself",
                )
            }
            "SetupAndRunError" if text("Error") == "timed_out" => Meaning::cause(
                FailureKind::RunTimedOut,
                "the run took longer than FoundationDB allows a simulation",
            ),
            "TraceEventOverflow" => Meaning::cause(
                FailureKind::ErrorTraced,
                format!(
                    "TraceEventOverflow: an event has more than 4000 bytes, and fdbserver drops such events; it begins {}",
                    text("TraceFirstBytes")
                ),
            ),
            "ConsistencyCheck_DataInconsistent" => Meaning::cause(
                FailureKind::ReplicasDiffer,
                format!(
                    "FoundationDB's consistency check has found replicas that differ: {}",
                    message_of(event)
                ),
            ),
            "ExternalWorkloadFailure" => {
                Meaning::consequence(FailureKind::PhaseFailed, "the workload answered false")
            }
            "Crash" => Meaning::consequence(
                FailureKind::Crashed,
                format!("{} (signal {})", text("Name"), text("Signal")),
            ),
            "TestCreationError"
            | "TestFailure"
            | "TestSetupError"
            | "TesterFailed"
            | "SetupAndRunError"
            | "RunTests"
            | "WorkloadPhaseSkipped"
            | "WorkloadFreedInPhase" => {
                Meaning::consequence(FailureKind::PhaseFailed, message_of(event))
            }
            kind if ["SetupFailed", "StartFailed", "CheckFailed"]
                .iter()
                .any(|failed| kind.starts_with(failed)) =>
            {
                Meaning::consequence(FailureKind::PhaseFailed, message_of(event))
            }
            kind if is_tester && !OF_THE_SERVER.contains(&kind) => {
                Meaning::cause(kind_of(kind, self.phase_of(event)), message_of(event))
            }
            _ => Meaning::cause(
                FailureKind::HostFault,
                format!("FoundationDB itself traced an error: {}", message_of(event)),
            ),
        };
        self.note(event, is_tester, meaning);
    }

    fn note(&mut self, event: &Event, is_tester: bool, meaning: Meaning) {
        let failure = Failure {
            kind: meaning.kind,
            test: self.test.clone(),
            workload: match is_tester {
                true => self.workload.clone(),
                false => String::new(),
            },
            phase: self.phase_of(event),
            client: self.clients.get(&event.machine).copied(),
            time: event.time,
            message: meaning.message,
        };
        let list = match meaning.is_cause {
            true => &mut self.outcome.failures,
            false => &mut self.consequences,
        };
        let is_known = list.iter().any(|known| {
            (known.kind, known.client, known.phase, &known.message)
                == (
                    failure.kind,
                    failure.client,
                    failure.phase,
                    &failure.message,
                )
        });
        if !is_known && list.len() < FAILURES_MAX {
            list.push(failure);
        }
    }

    /// The phase that an event names, or the one that the run is in.
    fn phase_of(&self, event: &Event) -> Phase {
        let named = event.get("Phase").or(event.get("Stage"));
        match named {
            Some("get_check_timeout") => Phase::Check,
            Some("get_metrics") => Phase::Metrics,
            Some(name) => {
                let mut all = Phase::ALL.into_iter();
                all.find(|phase| phase.name() == name).unwrap_or(self.phase)
            }
            None => self.phase,
        }
    }

    /// What became of the calls of each line of the workload's library, if it has told its places.
    pub fn coverage(&self) -> Vec<Covered> {
        self.sites.coverage()
    }

    /// The outcome, with what the server printed and how it ended.
    pub fn finish(self, stdout: &str, stderr: &str, ended: Ended) -> Outcome {
        let console = Console::read(stdout, stderr);
        let general = |kind, message: String| Failure {
            kind,
            test: self.test.clone(),
            workload: String::new(),
            phase: self.phase,
            client: None,
            time: self.time,
            message,
        };
        let mut outcome = self.outcome;
        outcome.assertions = self.sites.assertions();
        outcome.calls = self.sites.calls();
        if self.buggified > 0 {
            let places = format!("{} places of FoundationDB", self.buggified);
            outcome.drawn.buggified.push(places);
        }
        outcome.drawn.buggified.extend(self.sites.buggified());
        outcome.tests_passed = console.passed.unwrap_or(0);
        outcome.tests_failed = console.failed.unwrap_or(0);
        outcome.unseed = console.unseed.unwrap_or(0);
        if outcome.simulated_seconds == 0.0 {
            outcome.simulated_seconds = console.simulated_seconds.unwrap_or(self.time);
        }
        // What ended the process ended the run, whatever else had happened.
        match ended {
            Ended::Hung(limit) => outcome.failures.push(general(
                FailureKind::Hung,
                format!(
                    "fdbserver did not end within {} s of real time and was killed at {:.1} simulated seconds; --hang-limit sets the limit",
                    limit.as_secs(),
                    self.time
                ),
            )),
            Ended::WithoutRoom => outcome.failures.push(general(
                FailureKind::HostFault,
                format!(
                    "fdbserver found no room on the disk of {}: make room, name another folder with TMPDIR, or try fewer --jobs",
                    std::env::temp_dir().display()
                ),
            )),
            Ended::Interrupted => outcome.failures.push(general(
                FailureKind::Interrupted,
                "the run was interrupted".to_owned(),
            )),
            Ended::Killed(9) => outcome.failures.push(general(
                FailureKind::HostFault,
                "fdbserver was killed from outside (signal 9), most likely by the kernel for want of memory: a run needs up to 600 MB, so try fewer --jobs".to_owned(),
            )),
            Ended::Killed(signal) => {
                let named = console.signal.clone();
                let named = named.unwrap_or_else(|| format!("signal {signal}"));
                outcome.failures.push(general(FailureKind::Crashed, named));
                outcome.stack.clone_from(&console.stack);
            }
            Ended::Exited(_) => {}
        }
        if outcome.failures.is_empty() {
            outcome.failures = self.consequences;
        }
        if outcome.failures.is_empty() && outcome.tests_failed > 0 {
            let clients = console
                .failed_clients
                .map_or(String::new(), |(failed, all)| {
                    format!(" on {failed} of {all} clients")
                });
            outcome.failures.push(Failure {
                workload: self.workload.clone(),
                phase: Phase::Check,
                ..general(
                    FailureKind::CheckFailed,
                    format!("the workload answered false{clients}"),
                )
            });
        }
        if let (Ended::Exited(status), true) = (ended, outcome.failures.is_empty())
            && (status != 0 || console.passed.is_none())
        {
            let last = console.last_words();
            if let Some(told) = last.strip_prefix("shaketable: this workload library") {
                let told = format!("this workload library{told}");
                outcome
                    .failures
                    .push(general(FailureKind::NotCreated, told));
            }
            let said = match last.is_empty() {
                true => String::new(),
                false => format!(": {last}"),
            };
            if outcome.failures.is_empty() {
                outcome.failures.push(general(
                    FailureKind::HostFault,
                    format!("fdbserver ended with status {status} and without a result{said}"),
                ));
            }
        }
        outcome
            .failures
            .sort_by(|one, two| one.time.total_cmp(&two.time));
        outcome.console = console.lines;
        outcome
    }
}

/// What an error means.
struct Meaning {
    kind: FailureKind,
    message: String,
    is_cause: bool,
}

impl Meaning {
    fn cause(kind: FailureKind, message: impl Into<String>) -> Meaning {
        Meaning {
            kind,
            message: message.into(),
            is_cause: true,
        }
    }

    fn consequence(kind: FailureKind, message: impl Into<String>) -> Meaning {
        Meaning {
            is_cause: false,
            ..Meaning::cause(kind, message)
        }
    }
}

/// Events that are read whatever their severity and their process.
const INTERESTING: [&str; 16] = [
    "TestRunning",
    "TestSetupStart",
    "TestStarting",
    "TestCheckingResults",
    "TestFetchingMetrics",
    "TestResults",
    "Metric",
    "SimulatorConfig",
    "AddFailureInjectionWorkload",
    "BuggifySection",
    "ElapsedTime",
    "LoadLibraryFailed",
    "ClogInterface",
    "CloggingPair",
    "ConnectionClosed",
    "RebootingProcess",
];

/// The faults that both hosts count, by the names of their events.
const FAULTS: [&str; 4] = [
    "ClogInterface",
    "CloggingPair",
    "ConnectionClosed",
    "RebootingProcess",
];

/// Errors that FoundationDB traces on the process of a tester, too.
const OF_THE_SERVER: [&str; 6] = [
    "InternalError",
    "SystemError",
    "UnhandledSimulationEventError",
    "InvalidTestOption",
    "TracedTooManyLines",
    "OutOfMemory",
];

/// What a configuration of FoundationDB says about the shape of a cluster, as `double, logs=3`.
fn told_shortly(configuration: &str) -> String {
    const SHAPE: [&str; 9] = [
        "single",
        "double",
        "triple",
        "three_datacenter",
        "three_data_hall",
        "usable_regions",
        "storage_engine",
        "tenant_mode",
        "proxies",
    ];
    let words = configuration.split(' ').filter(|word| {
        let name = word.split([':', '=']).next().unwrap_or_default();
        SHAPE.contains(&name)
            || ["logs", "commit_proxies", "grv_proxies", "resolvers"].contains(&name)
    });
    let words: Vec<String> = words.map(|word| word.replace(":=", "=")).collect();
    words.join(", ")
}
