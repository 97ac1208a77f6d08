//! The report for programs: one JSON object per line. `docs/running.md` describes every message.

use super::common::Common;
use super::{Group, Guided, Known, Small, Summary};
use crate::commands::doctor::Check;
use crate::compare::{Row, Seen};
use crate::protocol::Response;
use crate::report::repro::Repro;
use crate::seed::Seed;
use serde::Serialize;
use shaketable_host::case::ReseedStreams;
use shaketable_host::coverage::Covered;
use shaketable_host::verdict::{Outcome, Wait};
use std::path::Path;
use std::time::Duration;

/// A message; `type` names its kind.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Message<'a> {
    /// Before the first seed.
    Start {
        /// The test files.
        files: Vec<&'a Path>,
        /// The first seed.
        first_seed: Seed,
        /// The number of runs, if it is known.
        runs: Option<u64>,
        /// The number of worker processes.
        jobs: usize,
        /// The server that runs the seeds, if one does.
        #[serde(skip_serializing_if = "Option::is_none")]
        host: Option<String>,
        /// The commit of the folder that it is run in, if it is in a repository.
        #[serde(skip_serializing_if = "Option::is_none")]
        commit: Option<String>,
        /// When it began, as RFC 3339 has it, in UTC.
        started: String,
    },
    /// A run has ended.
    Run {
        /// The test file.
        file: &'a Path,
        /// The seed.
        seed: Seed,
        /// Whether nothing went wrong.
        passed: bool,
        /// Simulated seconds.
        simulated_seconds: f64,
        /// Real seconds.
        real_seconds: f64,
        /// The fingerprint of the random draws.
        unseed: u32,
        /// From which moments on it was drawn anew, if it is a future in a guided search.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        reseed: Vec<ReseedStreams>,
    },
    /// A run that was interrupted after a while.
    Interrupted {
        /// The test file.
        file: &'a Path,
        /// The seed.
        seed: Seed,
        /// Simulated seconds.
        simulated_seconds: f64,
        /// Real seconds.
        real_seconds: f64,
        /// What each client was waiting for.
        waits: &'a [Wait],
    },
    /// A cause of failure, after the last seed.
    Failure {
        /// The test file.
        file: &'a Path,
        /// How many runs failed this way.
        count: u64,
        /// Their seeds, not more than eight.
        seeds: Vec<Seed>,
        /// The line that runs the first of them again.
        reproduce: String,
        /// What the workload printed.
        printed: &'a str,
        /// What is left of it, if it was made small.
        #[serde(skip_serializing_if = "Option::is_none")]
        small: Option<&'a Small>,
        /// The case by which it is remembered, if it was known before.
        #[serde(skip_serializing_if = "Option::is_none")]
        known: Option<&'a Known>,
        /// What failing runs have in common and passing ones have not; left out if nothing is sure.
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        common: &'a [Common],
        /// The run of the first seed.
        outcome: &'a Outcome,
    },
    /// Two runs of a seed that differ.
    Difference {
        /// The test file.
        file: &'a Path,
        /// The seed.
        seed: Seed,
        /// The first difference, in words.
        message: &'a str,
    },
    /// Something that was looked at on this machine.
    Check(&'a Check),
    /// Two hosts compared.
    Comparison {
        /// The test file.
        file: &'a Path,
        /// The server.
        server: &'a str,
        /// What was compared.
        rows: Vec<ComparedRow<'a>>,
    },
    /// After everything else.
    Summary {
        /// Runs that passed.
        passed: u64,
        /// Runs that failed.
        failed: u64,
        /// Distinct failures.
        distinct_failures: usize,
        /// Simulated seconds of all runs.
        simulated_seconds: f64,
        /// Real seconds from the first run to the last.
        elapsed_seconds: f64,
        /// What workloads did that no seed controls, and in how many runs.
        uncontrolled: &'a std::collections::BTreeMap<String, u64>,
        /// Errors that reached workloads, by code.
        errors: &'a std::collections::BTreeMap<i32, u64>,
        /// Injected faults, by name.
        faults: &'a std::collections::BTreeMap<String, u64>,
        /// The assertions in the code under test, over all runs; left out if there are none.
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        assertions: &'a [shaketable_host::verdict::Assertion],
        /// The lines that called the database, what became of it over all runs, and what never
        /// did; left out if it was not counted.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        coverage: Vec<Line<'a>>,
        /// What the search did, if it was guided.
        #[serde(skip_serializing_if = "Option::is_none")]
        guided: Option<Guided>,
        /// With `--until-stable`, after how many runs the last thing was new.
        #[serde(skip_serializing_if = "Option::is_none")]
        last_news: Option<u64>,
        /// The exit status of the program.
        exit_code: u8,
    },
}

/// A line that called the database.
#[derive(Debug, Serialize)]
pub struct Line<'a> {
    #[serde(flatten)]
    covered: &'a Covered,
    never: Vec<&'static str>,
}

impl Message<'_> {
    /// The message as a line.
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("a message can be written")
    }
}

/// The message for a run.
pub fn run<'a>(response: &Response, file: &'a Path) -> Message<'a> {
    Message::Run {
        file,
        seed: Seed(response.outcome.seed),
        passed: response.outcome.passed(),
        simulated_seconds: response.outcome.simulated_seconds,
        real_seconds: response.real_seconds,
        unseed: response.outcome.unseed,
        reseed: match &response.case {
            Some(case) => case.reseed.clone(),
            None => Vec::new(),
        },
    }
}

/// The message for a run that was interrupted.
pub fn interrupted<'a>(response: &'a Response, file: &'a Path) -> Message<'a> {
    Message::Interrupted {
        file,
        seed: Seed(response.outcome.seed),
        simulated_seconds: response.outcome.simulated_seconds,
        real_seconds: response.real_seconds,
        waits: &response.outcome.waits,
    }
}

/// The message for a group of failures.
pub fn failure<'a>(group: &'a Group, file: &'a Path, repro: &Repro) -> Message<'a> {
    Message::Failure {
        file,
        count: group.count,
        seeds: group.seeds.iter().copied().map(Seed).collect(),
        reproduce: group.reproduce(repro, file),
        printed: &group.printed,
        small: group.small.as_ref(),
        known: group.known.as_ref(),
        common: &group.common,
        outcome: &group.example,
    }
}

/// The last message.
pub fn summary(summary: &Summary, elapsed: Duration, exit_code: u8) -> Message<'_> {
    Message::Summary {
        passed: summary.total_passed(),
        failed: summary.total_failed(),
        distinct_failures: summary.groups.len(),
        simulated_seconds: summary.simulated_seconds,
        elapsed_seconds: elapsed.as_secs_f64(),
        uncontrolled: &summary.uncontrolled,
        errors: &summary.errors,
        faults: &summary.faults,
        assertions: &summary.assertions,
        coverage: lines(summary),
        guided: summary.guided,
        last_news: summary.last_news,
        exit_code,
    }
}

/// In the order of lines.
fn lines(summary: &Summary) -> Vec<Line<'_>> {
    let lines = summary.coverage.iter().map(|covered| Line {
        covered,
        never: covered.never(),
    });
    let mut lines: Vec<Line<'_>> = lines.collect();
    lines.sort_by_key(|line| (&line.covered.line, &line.covered.call));
    lines
}

/// One line of a comparison of hosts.
#[derive(Debug, Serialize)]
pub struct ComparedRow<'a> {
    /// What is compared.
    what: &'a str,
    /// Under the real server.
    real: ComparedValue,
    /// In the embedded host.
    embedded: ComparedValue,
    /// The chance that the difference comes about by chance.
    p_value: f64,
    /// Whether it is less than chance allows.
    differs: bool,
    /// Whether it is a difference in what a client can see.
    counts: bool,
}

/// What a host has shown.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum ComparedValue {
    /// In how many of its runs, with the interval in which the true share lies.
    Share {
        hits: u64,
        of: u64,
        low: f64,
        high: f64,
    },
    /// The mean over its runs, and how far the true one may be from it.
    Mean { value: f64, spread: f64 },
}

/// The message about a comparison of hosts.
pub fn comparison<'a>(file: &'a Path, server: &'a str, rows: &'a [Row]) -> Message<'a> {
    let value = |seen: &Seen| match seen {
        Seen::Share(share) => {
            let (low, high) = share.interval();
            ComparedValue::Share {
                hits: share.hits,
                of: share.of,
                low,
                high,
            }
        }
        Seen::Mean(value, spread) => ComparedValue::Mean {
            value: *value,
            spread: *spread,
        },
    };
    let row = |row: &'a Row| ComparedRow {
        what: &row.what,
        real: value(&row.real),
        embedded: value(&row.embedded),
        p_value: row.p_value,
        differs: row.differs(),
        counts: row.counts,
    };
    Message::Comparison {
        file,
        server,
        rows: rows.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::BuildArgs;
    use crate::report::samples;
    use shaketable_host::plan::Settings;

    #[test]
    fn messages_are_as_documented() {
        let repro = Repro {
            program: "shaketable".into(),
            cases: Vec::new(),
            host: crate::args::HostArgs::default(),
            settings: Settings::default(),
            build: BuildArgs::default(),
        };
        let sweep = samples::summary();
        let file = Path::new("tests/atomic.toml");
        let messages = [
            Message::Start {
                files: vec![file],
                first_seed: Seed(42),
                runs: Some(43),
                jobs: 2,
                host: None,
                commit: Some("0123456789".to_owned()),
                started: "2026-01-01T00:00:00Z".to_owned(),
            },
            run(&samples::passing(7), file),
            failure(&sweep.groups[1], file, &repro),
            summary(&sweep, Duration::from_millis(500), 100),
        ];
        let lines: Vec<String> = messages.iter().map(Message::line).collect();
        insta::assert_snapshot!(lines.join("\n"));
    }
}
