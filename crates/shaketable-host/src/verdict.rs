//! What a run has shown: an [`Outcome`], and in it every [`Failure`] with its kind, phase and
//! client.
//!
//! The exit code of fdbserver ignores failed checks, and its log must be searched for errors. Here
//! a run passes if, and only if, it has no failure; and a failure names what was broken, on which
//! client, and when. An outcome travels as JSON from the process that simulated a seed to the
//! program that reports it.
//!
//! Verdicts are built in two places. While a seed is simulated, `tester` notes failures as they
//! happen and makes the outcome at the end ([`simulate`](crate::simulate)). When its process dies
//! before that, `isolation::death` makes one from what is known about it. Code that receives
//! outcomes, such as the program, only reads them.

mod calls;
pub mod events;
mod failure;
mod sites;

pub use calls::Answers;
pub use failure::{Failure, FailureKind, Phase};
pub use sites::Sites;

use crate::case::TakenDecision;
use crate::coverage::{Counts, Covered, Found};
use crate::trace::Event;
use serde::{Deserialize, Deserializer, Serialize};
use shaketable_explain::lint::{Hazard, HotKey};
use shaketable_record::{Place, Stream};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// The result of simulating one seed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// The seed.
    #[serde(with = "shaketable_record::seed::plain")]
    pub seed: u64,
    /// What went wrong; empty when the run passed.
    pub failures: Vec<Failure>,
    /// Tests of the file that passed.
    pub tests_passed: u32,
    /// Tests of the file that failed.
    pub tests_failed: u32,
    /// Simulated seconds the run took.
    pub simulated_seconds: f64,
    /// A fingerprint of every random draw: equal for equal runs.
    pub unseed: u32,
    /// A fingerprint of every event and every call of a workload. It has 64 bits, more than a
    /// number of JSON has for every reader, so it is written as a text.
    #[serde(with = "hexadecimal")]
    pub fingerprint: u64,
    /// How many events of severity error were logged.
    #[serde(default)]
    pub error_events: u64,
    /// What the seed decided.
    pub drawn: Drawn,
    /// The metrics of all clients together.
    pub metrics: Vec<Metric>,
    /// The assertions in the code under test, by their place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assertions: Vec<Assertion>,
    /// How often each error reached a workload, by code.
    pub errors: BTreeMap<i32, u64>,
    /// What the database answered, as the workload's library has counted it, by the kind of call;
    /// only where it was asked to.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub calls: BTreeMap<String, Answers>,
    /// How often each fault was injected, by name.
    pub faults: BTreeMap<String, u64>,
    /// The options that the code under test read, with their texts; only of cases.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// Every decision of chance, in order, of runs that list them; of cases that allow only some,
    /// those that happened.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<TakenDecision>,
    /// The streams that were drawn from, of runs that list their decisions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<Stream>,
    /// Which lines called the database and what became of it, if that was counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub coverage: Vec<Covered>,
    /// The same, from the process that simulated the seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<Box<Counts>>,
    /// What was met for the first time, and when, if that was kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moments: Vec<Moment>,
    /// What became of other futures: of each moment, of each seed. There are none if the process
    /// could not be copied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub futures: Vec<Vec<Outcome>>,
    /// What became of the copies that met other outcomes, in the order of the tries. There is
    /// nothing if the process could not be copied, or the operation never came.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fates: Vec<Option<Fate>>,
    /// The first and the last warnings and errors of the run.
    pub notable: Vec<Event>,
    /// Faults shortly before the failure; only of recorded runs.
    pub faults_around: Vec<Event>,
    /// What the workload did that no seed controls, such as starting a thread.
    pub uncontrolled: Vec<String>,
    /// The lines fdbserver would have printed.
    pub console: Vec<String>,
    /// What each client waits for whose phase did not end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<Wait>,
    /// The clients that died, because the test file asked for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deaths: Vec<Death>,
    /// Where the code under test was when its process died, innermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<String>,
    /// Where the trace was written.
    pub trace: Option<String>,
    /// Where the record was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<String>,
    /// What the record proves to be the most likely cause; only of runs with a record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// The last operations of the client that failed, as text; only of runs with a record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub story: Vec<String>,
    /// What may go wrong although it has not; only of runs that are searched for hazards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hazards: Option<Hazards>,
    /// The lines that the process of the seed has looked up, for the next one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines_found: Vec<(usize, Option<Place>)>,
    /// The sizes of frames that it has found, for the next one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frames_found: Vec<Found>,
}

/// A fingerprint as a text of sixteen digits.
mod hexadecimal {
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(number: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{number:016x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        let text = String::deserialize(from)?;
        u64::from_str_radix(&text, 16).map_err(de::Error::custom)
    }
}

/// Something that a run met for the first time: a moment that a search may return to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// Simulated seconds.
    pub seconds: f64,
    /// What was met, in words; the same words in every run that meets it.
    pub what: String,
    /// How far the run was from what a `closest!` asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance: Option<f64>,
    /// Whether the author of the code marked it, with an assertion or a mark.
    #[serde(default)]
    pub is_marked: bool,
}

/// The hazards that a run has shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hazards {
    /// At most one of each name for each line of code.
    pub found: Vec<Hazard>,
    /// The keys that commits were refused for.
    pub hot_keys: Vec<HotKey>,
}

/// Why a run failed: the first finding of its explanation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// The name of the finding, as in `docs/explain.md`.
    pub name: String,
    /// What happened.
    pub sentence: String,
    /// What to do about it.
    pub advice: String,
    /// The line of the code under test that made the mistake, as `src/queue.rs:88`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

impl Outcome {
    /// Whether nothing went wrong.
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }

    /// Writes all of it to a file, as JSON.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        std::fs::write(path, serde_json::to_vec(self)?)
    }

    /// The folder that the seed left, with its record; under a real server with its trace alone.
    pub fn folder(&self) -> Option<&Path> {
        let in_folder = |path: &&Path| path.file_stem().is_some_and(|stem| stem == "trace");
        let trace = self.trace.as_ref().map(Path::new).filter(in_folder);
        self.record.as_ref().map(Path::new).or(trace)?.parent()
    }

    /// The outcome of a seed that the simulator itself could not simulate.
    pub fn simulator_fault(seed: u64, message: impl Into<String>) -> Outcome {
        Outcome {
            seed,
            failures: vec![Failure {
                kind: FailureKind::HostFault,
                test: String::new(),
                workload: String::new(),
                phase: Phase::Boot,
                client: None,
                time: 0.0,
                message: message.into(),
            }],
            ..Outcome::default()
        }
    }
}

/// What the seed drew before anything ran.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Drawn {
    /// Number of clients.
    pub clients: u32,
    /// How the seed chose what may go wrong.
    #[serde(default)]
    pub swarm: Swarm,
    /// Whether buggify was on.
    pub buggify: bool,
    /// Whether rare but legal outcomes were frequent.
    #[serde(default)]
    pub stress: bool,
    /// The cluster: machines, roles, replication.
    pub cluster: String,
    /// Fault workloads, named by the file or added by the seed, with what became of them:
    /// `(added)`, `(left out)`, `(at 40 %)`, `(switched off)`.
    pub faults: Vec<String>,
    /// Buggified places that were active.
    pub buggified: Vec<String>,
    /// Knobs that differ from their defaults.
    pub knobs: Vec<(String, String)>,
}

impl Drawn {
    /// What may go wrong in the run, in words.
    pub fn describe(&self) -> String {
        let mut words = vec![if self.buggify {
            "buggify on"
        } else {
            "buggify off"
        }];
        words.extend(self.stress.then_some("stress"));
        words.extend(self.swarm.describe());
        words.join(", ")
    }
}

/// How a seed chose what may go wrong in its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Swarm {
    /// It did not: the swarm is off.
    #[default]
    Off,
    /// Everything that the file allows, at full strength.
    AsTheFileSays,
    /// Some of what the file allows, at some strength.
    Varied,
    /// Nothing.
    Quiet,
}

impl Swarm {
    /// What that means, in words; nothing if the seed had no choice.
    pub fn describe(self) -> Option<&'static str> {
        match self {
            Swarm::Off => None,
            Swarm::AsTheFileSays => Some("faults as the file says"),
            Swarm::Varied => Some("faults varied"),
            Swarm::Quiet => Some("no faults"),
        }
    }
}

/// A number the workloads reported, over all clients.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Metric {
    /// The name, prefixed with the workload's.
    pub name: String,
    /// The sum or the mean. A value that is not a number is `null` in JSON.
    #[serde(deserialize_with = "number_or_null")]
    pub value: f64,
    /// The value in the format the workload chose.
    pub formatted: String,
}

/// Compares the bits of values, so that two runs that report NaN report the same.
impl PartialEq for Metric {
    fn eq(&self, other: &Metric) -> bool {
        self.name == other.name
            && self.formatted == other.formatted
            && self.value.to_bits() == other.value.to_bits()
    }
}

fn number_or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let number = Option::<f64>::deserialize(deserializer)?;
    Ok(number.unwrap_or(f64::NAN))
}

/// An assertion in the code under test, and how often it held.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Assertion {
    /// File and line.
    pub site: String,
    /// `always`, `sometimes`, `reachable` or `unreachable`, or a mark: `sometimes_each`, `closest`.
    pub kind: String,
    /// Its message.
    pub message: String,
    /// How often its condition held.
    pub held: u64,
    /// How often it did not.
    pub broken: u64,
}

impl Assertion {
    /// Adds what other runs have counted: the counts of one place are added up, in the order of
    /// files and lines.
    pub fn merge(all: &mut Vec<Assertion>, more: &[Assertion]) {
        for one in more {
            match all.binary_search_by(|known| known.key().cmp(&one.key())) {
                Ok(index) => {
                    all[index].held += one.held;
                    all[index].broken += one.broken;
                }
                Err(index) => all.insert(index, one.clone()),
            }
        }
    }

    fn key(&self) -> (&str, u32, &str, &str) {
        let place = self.site.rsplit_once(':');
        let place = place.and_then(|(file, line)| Some((file, line.parse().ok()?)));
        let (file, line) = place.unwrap_or((&self.site, 0));
        (file, line, &self.kind, &self.message)
    }

    /// Whether it should have held at least once, and never did.
    pub fn is_missed(&self) -> bool {
        let must_hold = matches!(
            self.kind.as_str(),
            "sometimes" | "sometimes_each" | "reachable"
        );
        self.held == 0 && must_hold
    }
}

/// Something that a client waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Wait {
    /// The client.
    pub client: u32,
    /// What it waits for: a word or two that the key completes, if there is one.
    pub what: String,
    /// The key it is about, decoded if it is a tuple.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Simulated seconds at which it began to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<f64>,
    /// The address of the server that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The line of the code under test that asked; only of recorded runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

impl Wait {
    pub(crate) fn of(client: u32, what: String) -> Wait {
        Wait {
            client,
            what,
            key: None,
            since: None,
            server: None,
            place: None,
        }
    }
}

/// What became of a copy of a run that met another outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fate {
    /// Its failures.
    pub failures: Vec<Failure>,
    /// When a client died, in simulated seconds; if none did, when the run ended.
    pub died_at: f64,
}

impl From<Outcome> for Fate {
    fn from(outcome: Outcome) -> Fate {
        let died_at = outcome.deaths.first().map(|death| death.time);
        Fate {
            failures: outcome.failures,
            died_at: died_at.unwrap_or(outcome.simulated_seconds),
        }
    }
}

/// The death of a client, which then started again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Death {
    /// The client.
    pub client: u32,
    /// Simulated seconds.
    pub time: f64,
    /// What `shaketableCrashAt` calls this moment.
    pub moment: String,
    /// How long the client stayed dead, in simulated seconds.
    pub down_seconds: f64,
    /// The line of the code under test, if the client died in a transaction; only of runs with a
    /// record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {} died", self.client)?;
        if let Some(place) = &self.place {
            write!(f, " at {place}")?;
        }
        write!(f, ", {:.3} s", self.time)?;
        write!(f, ", and started again")?;
        if self.down_seconds > 0.0 {
            write!(f, " {:.1} s later", self.down_seconds)?;
        }
        write!(f, " ({})", self.moment)
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {} waits for {}", self.client, self.what)?;
        if let Some(key) = &self.key {
            write!(f, " {key}")?;
        }
        if let Some(since) = self.since {
            write!(f, " since {since:.1} s")?;
        }
        if let Some(server) = &self.server {
            write!(f, " at {server}")?;
        }
        if let Some(place) = &self.place {
            write!(f, " ({place})")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_that_is_no_number_equals_itself_also_after_a_journey() {
        let metric = Metric {
            name: "mean".into(),
            value: f64::NAN,
            formatted: "nan".into(),
        };
        let there = serde_json::to_string(&metric).unwrap();
        let back: Metric = serde_json::from_str(&there).unwrap();
        assert_eq!(metric, back);
    }

    #[test]
    fn a_number_arrives_as_it_was_to_the_last_bit() {
        let metric = Metric {
            name: "mean".into(),
            value: 109_844_189.142_857_15,
            formatted: "1.1e+08".into(),
        };
        let there = serde_json::to_string(&metric).unwrap();
        let back: Metric = serde_json::from_str(&there).unwrap();
        assert_eq!(back.value.to_bits(), metric.value.to_bits());
    }

    #[test]
    fn assertions_of_many_runs_are_added_up_by_place() {
        let assertion = |site: &str, held| Assertion {
            site: site.into(),
            kind: "sometimes".into(),
            held,
            ..Assertion::default()
        };
        let mut all = Vec::new();
        Assertion::merge(&mut all, &[assertion("a:12", 1), assertion("a:7", 0)]);
        Assertion::merge(&mut all, &[assertion("a:7", 0), assertion("a:12", 2)]);
        assert_eq!(all, [assertion("a:7", 0), assertion("a:12", 3)]);
        assert!(all[0].is_missed() && !all[1].is_missed());
    }
}
