//! Cases: a run, written down.
//!
//! A run is a test file, a seed, and what becomes of the decisions of chance. A case is a small
//! TOML file that says all three, so that a failure can be kept after it has been made small, sent
//! to someone else, and run again after the bug is fixed:
//!
//! ```toml
//! [case]
//! test = "../double_increment.toml"     # from the folder of the case
//! seed = 42
//! clients = 2
//! note = "the reply of a commit is lost, and the increment is made twice"
//! only = ["a reply is lost/tester 1 3"]  # of all that chance may do, only this happens
//!
//! [case.options]                         # options of the workloads
//! rounds = 3
//! ```
//!
//! [`TestFile::read`](crate::testfile::TestFile::read) recognises a case by its table and returns
//! the test file that it names, changed as it says. So whatever takes a test file takes a case.
//!
//! A case must not pass for the wrong reason. If a decision that it lists never comes up, because
//! the code under test or the simulator has changed, the run fails and says so: see
//! [`FailureKind::CaseOutdated`](crate::verdict::FailureKind::CaseOutdated).

mod cargo_test;
mod text;

use crate::options::WorkloadOption;
use crate::plan::Liveness;
use crate::testfile::{Configuration, Finding, TestFile, TestFileError};
use serde::{Deserialize, Serialize};
use shaketable_kernel::{Overrides, Reseed};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use cargo_test::{
    CASE_VARIABLE, MINIMISE_VARIABLE, MINIMISED_VARIABLE, OUTCOME_VARIABLE, cargo_line,
};
pub use shaketable_kernel::DecisionName;
pub use text::is_case;
pub(crate) use text::parse;

/// How a run differs from what its test file and its seed say. What is not set is left to them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Case {
    /// The test file, from the folder of the case.
    pub test: PathBuf,
    /// The package of a test of `cargo test`, if the case belongs to one rather than to a test
    /// file.
    pub package: Option<String>,
    /// That test, as `cargo test` knows it.
    pub cargo_test: Option<String>,
    /// The name of its simulation, if that is another.
    pub simulation: Option<String>,
    /// The seed.
    #[serde(with = "shaketable_record::seed::plain")]
    pub seed: u64,
    /// What it shows, for people.
    pub note: Option<String>,
    /// The signature of its failure, for a memory of bugs: without numbers, so that it is the same
    /// in every run that fails in this way.
    pub fails: Option<String>,
    /// What explains the failure, by its name in `docs/explain.md`.
    pub finding: Option<String>,
    /// The commit at which the failure was first seen.
    pub first_seen: Option<String>,
    /// The commit at which it was last seen.
    pub last_seen: Option<String>,
    /// Whether the seed draws how it is run.
    pub swarm: Option<bool>,
    /// The number of clients.
    pub clients: Option<u32>,
    /// Whether the cluster misbehaves in rare but legal ways.
    pub buggify: Option<bool>,
    /// Whether machines and disks may fail.
    pub fault_injection: Option<bool>,
    /// Whether rare but legal outcomes are frequent.
    pub stress: Option<bool>,
    /// If set, of all fault workloads there are only these, by the groups of their decisions.
    pub faults: Option<Vec<String>>,
    /// Whether a minority is left broken for good, and the rest must get on.
    pub liveness: Option<Liveness>,
    /// Knobs, which override those of the file.
    pub knobs: BTreeMap<String, String>,
    /// Options of workloads of a library, which override those of the file.
    pub options: BTreeMap<String, String>,
    /// What the cluster is like: keys of `[configuration]` with the text of their values.
    pub configuration: BTreeMap<String, String>,
    /// If set, of all decisions only these happen.
    pub only: Option<Vec<String>>,
    /// Decisions that do not happen.
    pub drop: Vec<String>,
    /// Decisions that happen whatever chance says.
    pub force: Vec<String>,
    /// Streams that get another seed.
    pub reseed: Vec<ReseedStreams>,
}

/// Another seed for some streams of random numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReseedStreams {
    /// The beginning of the streams' names; all streams if it is empty.
    pub streams: String,
    /// The seed.
    #[serde(with = "shaketable_record::seed::plain")]
    pub seed: u64,
    /// From which moment on, in simulated seconds.
    pub from: f64,
}

/// A decision of a run, as it is listed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TakenDecision {
    /// Its name, as a case would list it.
    pub name: String,
    /// What happened, if there is more than one possibility.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Simulated seconds.
    pub time: f64,
    /// Whether it happened: a decision that a case drops does not.
    pub happened: bool,
    /// Whether chance alone decided it.
    pub by_chance: bool,
}

impl TakenDecision {
    /// Whether something happened because of it, rather than that the cluster has some shape.
    pub fn is_event(&self) -> bool {
        self.happened && !self.name.starts_with("cluster/")
    }

    /// The name with the outcome: what forces the same in another run.
    pub fn text(&self) -> String {
        match &self.outcome {
            Some(outcome) => format!("{}: {outcome}", self.name),
            None => self.name.clone(),
        }
    }
}

impl From<shaketable_kernel::Decision> for TakenDecision {
    fn from(decision: shaketable_kernel::Decision) -> TakenDecision {
        TakenDecision {
            name: decision.name.to_string(),
            outcome: decision.outcome,
            time: decision.time.as_secs(),
            happened: decision.happened,
            by_chance: decision.by_chance,
        }
    }
}

impl From<TakenDecision> for shaketable_record::Decision {
    fn from(decision: TakenDecision) -> shaketable_record::Decision {
        let TakenDecision {
            name,
            outcome,
            time,
            happened,
            by_chance,
        } = decision;
        shaketable_record::Decision {
            time,
            name,
            outcome,
            happened,
            by_chance,
        }
    }
}

impl Case {
    /// Reads a case by itself, for a program that has its own test: the case need not name one.
    pub fn read(path: &Path) -> Result<Case, TestFileError> {
        let source = std::fs::read_to_string(path).map_err(|error| {
            let finding = Finding::at(None, format!("cannot read the case: {error}"));
            TestFileError::new(path, "", vec![finding])
        })?;
        text::read(path, &source)
    }

    /// The name of the simulation in `cargo test` that this case belongs to, if it belongs to one.
    pub fn of_simulation(&self) -> Option<&str> {
        self.simulation.as_deref().or(self.cargo_test.as_deref())
    }

    /// Whether the run has the fault workload of this name.
    pub(crate) fn has_fault(&self, name: &str) -> bool {
        let faults = self.faults.as_ref();
        faults.is_none_or(|faults| faults.iter().any(|fault| fault == name))
    }

    /// What becomes of the decisions of the run.
    pub(crate) fn overrides(&self) -> Overrides {
        let reseed = self.reseed.iter().map(|reseed| Reseed {
            streams: reseed.streams.clone(),
            seed: reseed.seed,
            from_seconds: reseed.from,
        });
        Overrides {
            only: self.only.clone(),
            drop: self.drop.clone(),
            force: self.force.clone(),
            reseed: reseed.collect(),
        }
    }

    /// Changes a test file as the case says, and keeps the case in it.
    pub fn apply(self, file: &mut TestFile) {
        for (key, text) in &self.configuration {
            set_configuration(&mut file.configuration, key, text);
        }
        let tests = file.tests.iter_mut();
        let workloads = tests.flat_map(|test| &mut test.workloads);
        for workload in workloads.filter(|workload| workload.takes_options_of_cases()) {
            for (key, text) in &self.options {
                match workload.options.iter_mut().find(|known| known.key == *key) {
                    Some(option) => option.text.clone_from(text),
                    None => workload.options.push(WorkloadOption {
                        key: key.clone(),
                        text: text.clone(),
                        line: 0,
                    }),
                }
            }
        }
        file.case = Some(Box::new(self));
    }
}

fn set_configuration(configuration: &mut Configuration, key: &str, text: &str) {
    // A case is read after its test file, with the same rules.
    if let Ok(value) = text.parse::<toml_edit::Value>() {
        crate::testfile::set_configuration(configuration, key, &value);
    }
}
