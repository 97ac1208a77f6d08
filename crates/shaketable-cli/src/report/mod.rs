//! What a sweep has shown, and how it is reported.
//!
//! [`Summary`] collects: totals, and failures in groups of one cause each. The other files report
//! it: to people ([`human`]), to programs ([`json`]), to CI systems ([`junit`], [`github`]).

pub mod common;
pub mod github;
pub mod human;
pub mod json;
pub mod junit;
pub mod repro;

use crate::protocol::Response;
use common::{Common, Features};
use repro::Repro;
use serde::Serialize;
use shaketable_host::case::Case;
use shaketable_host::coverage::Covered;
use shaketable_host::verdict::{Assertion, Outcome};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Everything a report is made of.
#[derive(Debug, Clone)]
pub struct Summary {
    /// The test files.
    pub files: Vec<PathBuf>,
    /// Seeds that passed, for each file.
    pub passed: Vec<u64>,
    /// Seeds that failed, for each file.
    pub failed: Vec<u64>,
    /// Simulated seconds of all runs.
    pub simulated_seconds: f64,
    /// Real seconds all runs took, added up.
    pub busy_seconds: f64,
    /// Failures of one cause each, in the order they were found.
    pub groups: Vec<Group>,
    /// What workloads did that no seed controls, and in how many runs.
    pub uncontrolled: BTreeMap<String, u64>,
    /// Errors that reached workloads, by code.
    pub errors: BTreeMap<i32, u64>,
    /// Injected faults, by name.
    pub faults: BTreeMap<String, u64>,
    /// The assertions in the code under test, over all runs.
    pub assertions: Vec<Assertion>,
    /// The lines that called the database, and what became of it over all runs, if it was counted.
    pub coverage: Vec<Covered>,
    /// What passing runs were like, for each file.
    pub passing: Vec<Features>,
    /// What the search did, if it was guided.
    pub guided: Option<Guided>,
    /// After how many runs the last thing was new, if it was watched whether that is long ago.
    pub last_news: Option<u64>,
}

/// What a guided search has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Guided {
    /// Runs of new seeds.
    pub seeds: u64,
    /// Futures of moments that were kept.
    pub futures: u64,
    /// Things that were met for the first time, each with a moment to return to.
    pub moments: u64,
}

/// Failures of one cause.
#[derive(Debug, Clone)]
pub struct Group {
    /// The number of the file.
    pub file: usize,
    /// What they have in common.
    pub signature: String,
    /// The lowest seeds, in order; not all of them if there are many.
    pub seeds: Vec<u64>,
    /// How many there are.
    pub count: u64,
    /// The run of the lowest, or what its second run showed.
    pub example: Outcome,
    /// What the code under test printed in it.
    pub printed: String,
    /// The case of the run, if it is not that of a seed: a future in a guided search.
    pub case: Option<Box<Case>>,
    /// Where that case is kept.
    pub case_file: Option<PathBuf>,
    /// The same failure made small, if that was asked for.
    pub small: Option<Small>,
    /// The case by which it is remembered, if it was known before.
    pub known: Option<Known>,
    /// What its runs were like.
    pub features: Features,
    /// What they have in common and passing ones have not; see [`Summary::compare`].
    pub common: Vec<Common>,
}

/// What is left of a failure that was made small.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Small {
    /// What it needs, in words.
    pub needs: Vec<String>,
    /// The number of clients.
    pub clients: u32,
    /// Whether each of these is known to be needed.
    pub is_minimal: bool,
    /// The case.
    pub case: Option<PathBuf>,
}

/// A failure that is remembered.
#[derive(Debug, Clone, Serialize)]
pub struct Known {
    /// Its case.
    pub case: PathBuf,
    /// The commit at which it was first seen.
    pub first_seen: Option<String>,
    /// Whether the case was made small.
    pub is_small: bool,
}

impl Group {
    /// The line that runs its example again.
    pub fn reproduce(&self, repro: &Repro, file: &Path) -> String {
        match &self.case_file {
            Some(case) => repro.line_of_case(case),
            None => repro.line(file, self.example.seed),
        }
    }
}

/// Fewer runs than these say nothing about what is still to come.
const STABLE_RUNS_MIN: u64 = 200;

/// How many seeds a group remembers.
const SEEDS_MAX: usize = 8;

impl Group {
    /// Adds a run. Whatever order the workers finish in, the lowest seed is the example: a report
    /// does not depend on that order.
    fn add(&mut self, response: &Response) {
        let outcome = &response.outcome;
        self.count += 1;
        self.features.add(outcome);
        // A seed says more with less.
        if response.case.is_some() {
            return;
        }
        if self.case.take().is_some() {
            self.seeds = vec![outcome.seed];
            self.example = outcome.clone();
            self.printed.clone_from(&response.printed);
            return;
        }
        let place = self.seeds.partition_point(|seed| *seed < outcome.seed);
        self.seeds.insert(place, outcome.seed);
        self.seeds.truncate(SEEDS_MAX);
        if outcome.seed < self.example.seed {
            self.example = outcome.clone();
            self.printed.clone_from(&response.printed);
        }
    }
}

impl Summary {
    /// Nothing has run yet.
    pub fn new(files: Vec<PathBuf>) -> Self {
        Summary {
            passed: vec![0; files.len()],
            failed: vec![0; files.len()],
            passing: vec![Features::default(); files.len()],
            files,
            simulated_seconds: 0.0,
            busy_seconds: 0.0,
            groups: Vec::new(),
            uncontrolled: BTreeMap::new(),
            errors: BTreeMap::new(),
            faults: BTreeMap::new(),
            assertions: Vec::new(),
            coverage: Vec::new(),
            guided: None,
            last_news: None,
        }
    }

    /// Adds a run.
    pub fn add(&mut self, response: &Response) {
        let outcome = &response.outcome;
        self.simulated_seconds += outcome.simulated_seconds;
        self.busy_seconds += response.real_seconds;
        for what in &outcome.uncontrolled {
            *self.uncontrolled.entry(act(what)).or_default() += 1;
        }
        for (code, count) in &outcome.errors {
            *self.errors.entry(*code).or_default() += count;
        }
        for (name, count) in &outcome.faults {
            *self.faults.entry(name.clone()).or_default() += count;
        }
        Assertion::merge(&mut self.assertions, &outcome.assertions);
        Covered::merge(&mut self.coverage, &outcome.coverage);
        let Some(failure) = outcome.failures.first() else {
            self.passed[response.file] += 1;
            self.passing[response.file].add(outcome);
            return;
        };
        self.failed[response.file] += 1;
        let signature = failure.signature();
        let known = self
            .groups
            .iter_mut()
            .find(|group| group.file == response.file && group.signature == signature);
        if let Some(group) = known {
            group.add(response);
            return;
        }
        self.groups.push(Group {
            file: response.file,
            signature,
            seeds: vec![outcome.seed],
            count: 1,
            example: outcome.clone(),
            printed: response.printed.clone(),
            case: response.case.clone(),
            case_file: None,
            small: None,
            known: None,
            features: {
                let mut features = Features::default();
                features.add(outcome);
                features
            },
            common: Vec::new(),
        });
    }

    /// Finds out what the runs of each group have in common and passing ones have not.
    pub fn compare(&mut self) {
        for group in &mut self.groups {
            group.common = common::common(&group.features, &self.passing[group.file]);
        }
    }

    /// How many different things were met: assertions that held, and outcomes of lines.
    pub fn things_met(&self) -> usize {
        let held = self.assertions.iter().filter(|one| one.held > 0).count();
        let outcomes = self.coverage.iter().map(|one| one.met.len());
        held + outcomes.sum::<usize>()
    }

    /// Whether everything that must hold has held, and nothing new came for as many runs as it took
    /// until the last thing was new.
    pub fn is_stable(&self, last_news: u64) -> bool {
        self.runs() >= STABLE_RUNS_MIN.max(2 * last_news) && self.missed().next().is_none()
    }

    /// Assertions that should have held once, and never did.
    pub fn missed(&self) -> impl Iterator<Item = &Assertion> {
        self.assertions.iter().filter(|one| one.is_missed())
    }

    /// Lines with something that can become of their calls and never has, in the order of lines.
    pub fn gaps(&self) -> Vec<&Covered> {
        let gaps = self.coverage.iter().filter(|one| !one.never().is_empty());
        let mut gaps: Vec<&Covered> = gaps.collect();
        gaps.sort_by(|one, other| (&one.line, &one.call).cmp(&(&other.line, &other.call)));
        gaps
    }

    /// Runs that have ended.
    pub fn runs(&self) -> u64 {
        self.total_passed() + self.total_failed()
    }

    /// Runs that passed.
    pub fn total_passed(&self) -> u64 {
        self.passed.iter().sum()
    }

    /// Runs that failed.
    pub fn total_failed(&self) -> u64 {
        self.failed.iter().sum()
    }
}

/// What a workload did, without the name of the file or how often: `opened a file: a.txt (2 times)`
/// is one fact with `opened a file: b.txt`.
fn act(what: &str) -> String {
    let end = what.find([':', '(']).unwrap_or(what.len());
    what[..end].trim_end().to_owned()
}

#[cfg(test)]
pub(crate) mod samples {
    //! A sweep for the tests of reports.

    use super::*;
    use shaketable_host::trace::{Event, Severity};
    use shaketable_host::verdict::{Drawn, Failure, FailureKind, Phase};

    /// A failing run.
    pub(crate) fn failing(seed: u64, message: &str) -> Response {
        let outcome = Outcome {
            seed,
            failures: vec![Failure {
                kind: FailureKind::ErrorTraced,
                test: "Atomic".into(),
                workload: "Atomic".into(),
                phase: Phase::Check,
                client: Some(2),
                time: 97.25,
                message: message.into(),
            }],
            simulated_seconds: 101.5,
            unseed: 4711,
            drawn: Drawn {
                clients: 6,
                swarm: shaketable_host::verdict::Swarm::Varied,
                buggify: true,
                stress: false,
                cluster: "triple, 7 machines in 2 datacenters, 3 logs, 2 commit proxies".into(),
                faults: vec!["RandomClogging (at 40 %)".into(), "Attrition".into()],
                buggified: vec!["short_range_reads".into()],
                knobs: vec![(
                    "max_write_transaction_life_versions".into(),
                    "1000000".into(),
                )],
            },
            notable: vec![
                Event::new(Severity::Error, 97.25, "AtomicCheckFailed")
                    .on("3.4.3.3:1", "TS")
                    .detail("Expected", 90)
                    .detail("Found", 91),
            ],
            faults_around: vec![
                Event::new(Severity::Info, 61.0, "RebootingProcess")
                    .on("2.0.1.1:1", "")
                    .detail("KillType", "Reboot"),
            ],
            trace: Some("target/shaketable/failures/atomic-42/trace.json".into()),
            record: Some("target/shaketable/failures/atomic-42/record.jsonl.gz".into()),
            cause: Some(shaketable_host::verdict::Cause {
                name: "retry-after-unknown-result".into(),
                sentence: "Client 2 did this twice: add 1 to (\"sum\",) at src/lib.rs:30. The commit of attempt 1 was answered 1021 commit_unknown_result but had landed, and attempt 2 did it again.".into(),
                advice: "Let the transaction write a receipt, and let every attempt look for it first.".into(),
                place: Some("src/lib.rs:30".into()),
            }),
            story: vec![
                "client 2, check of Atomic, transaction 7, attempt 1: dropped".into(),
                "  97.200000    5.0 ms  get (\"sum\",) → 91       src/lib.rs:12".into(),
            ],
            ..Outcome::default()
        };
        Response {
            file: 0,
            real_seconds: 0.005,
            printed: "thread panicked\nat src/lib.rs:1\n".into(),
            outcome,
            case: None,
        }
    }

    /// A passing run.
    pub(crate) fn passing(seed: u64) -> Response {
        Response {
            file: 0,
            real_seconds: 0.004,
            printed: String::new(),
            outcome: Outcome {
                seed,
                simulated_seconds: 100.0,
                tests_passed: 1,
                ..Outcome::default()
            },
            case: None,
        }
    }

    /// A whole sweep.
    pub(crate) fn summary() -> Summary {
        let mut summary = Summary::new(vec!["tests/atomic.toml".into()]);
        for seed in 0..40 {
            summary.add(&passing(seed));
        }
        summary.add(&failing(42, "AtomicCheckFailed Expected=90, Found=91"));
        summary.add(&failing(57, "AtomicCheckFailed Expected=30, Found=32"));
        summary.add(&failing(61, "LostRow Key=7"));
        summary.uncontrolled.insert("started a thread".into(), 3);
        summary
    }
}

#[cfg(test)]
mod tests {
    use super::samples;

    #[test]
    fn failures_of_one_cause_are_one_group() {
        let summary = samples::summary();
        assert_eq!(summary.runs(), 43);
        let groups: Vec<(u64, &[u64])> = summary
            .groups
            .iter()
            .map(|group| (group.count, group.seeds.as_slice()))
            .collect();
        assert_eq!(groups, [(2, [42, 57].as_slice()), (1, [61].as_slice())]);
    }
}
