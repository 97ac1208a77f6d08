//! `lint`, and `run --lint`: hazards in code whose seeds pass.
//!
//! The transactions of every seed are recorded, and searched for hazards by the process that
//! simulated it. The same hazard at the same line is reported once, with the number of seeds that
//! showed it.

use super::explain::width;
use crate::args::{LintArgs, MessageFormat};
use crate::exit_codes;
use crate::pool::Addresses;
use crate::protocol::Response;
use crate::session::{Session, SessionError, workers};
use crate::sweep::{Ended, Flow, Observer, sweep};
use serde::Serialize;
use shaketable_explain::lint::{Hazard, HotKey};
use shaketable_explain::text;
use shaketable_host::plan::Recording;
use std::collections::BTreeMap;

/// How many seeds are run if neither a number nor a time is given.
const SEEDS: u64 = 200;
/// How many contended keys are listed.
const HOT_KEYS_MAX: usize = 5;
/// Keys with fewer refused commits than this in a seed on average are not contended.
const CONFLICTS_MIN: u64 = 2;

/// `lint`.
pub fn lint(args: &LintArgs) -> Result<u8, SessionError> {
    let session = Session::prepare(&args.files, &args.simulation, &args.build, true)?;
    let schedule = session.schedule(&args.sweep, SEEDS)?;
    if schedule.runs() == Some(0) {
        return Ok(exit_codes::NOTHING_RUN);
    }
    let jobs = workers(args.sweep.jobs, schedule.runs());
    let mut pool = session.pool(jobs, Addresses::Fixed)?;
    let mut hazards = Hazards::default();
    let ended = sweep(
        &mut pool,
        &schedule,
        |_, _| Recording::Hazards,
        &session.interrupted,
        &mut hazards,
    );
    match args.message_format {
        MessageFormat::Human => anstream::print!("{}{}", hazards.text(), hazards.summary()),
        MessageFormat::Json => print!("{}{}", hazards.json(), hazards.json_summary()),
    }
    Ok(match ended {
        Ended::Interrupted => exit_codes::INTERRUPTED,
        _ if hazards.is_empty() => exit_codes::PASSED,
        _ => exit_codes::TESTS_FAILED,
    })
}

/// What all seeds together have shown.
#[derive(Default)]
pub(super) struct Hazards {
    /// By name and line: the first of its kind, and how many seeds had one.
    found: BTreeMap<(String, String), (Hazard, u64)>,
    hot: BTreeMap<String, HotKey>,
    runs: u64,
    failed: u64,
    unread: u64,
}

impl Observer for Hazards {
    fn finished(&mut self, response: Response) -> Flow {
        self.add(&response);
        Flow::Continue
    }
}

impl Hazards {
    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Adds what a run has shown.
    pub(super) fn add(&mut self, response: &Response) {
        self.runs += 1;
        self.failed += u64::from(!response.outcome.passed());
        let Some(hazards) = &response.outcome.hazards else {
            self.unread += 1;
            return;
        };
        for hazard in &hazards.found {
            let kind = (hazard.name.clone(), hazard.place.clone());
            let known = self.found.entry(kind);
            known.or_insert_with(|| (hazard.clone(), 0)).1 += 1;
        }
        for key in &hazards.hot_keys {
            let known = self.hot.entry(key.key.clone()).or_insert_with(|| HotKey {
                conflicts: 0,
                commits: 0,
                key: key.key.clone(),
            });
            known.conflicts += key.conflicts;
            known.commits += key.commits;
        }
    }

    /// The hazards and the contended keys, for a person.
    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        for (hazard, seeds) in self.found.values() {
            let seen = format!("in {seeds} of {} runs", self.runs);
            out += &text::hazard(hazard, &seen, width());
            out.push('\n');
        }
        let hot = self.hot();
        if !hot.is_empty() {
            out += "contended keys\n";
            for key in &hot {
                let share = 100 * key.conflicts / key.commits.max(1);
                out += &format!(
                    "  {:<40} {} of {} commits refused ({share} %)\n",
                    key.key, key.conflicts, key.commits
                );
            }
            out.push('\n');
        }
        if self.unread > 0 {
            out += &format!("{} runs left no record\n", self.unread);
        }
        out
    }

    /// How many there are, in a line.
    pub(super) fn summary(&self) -> String {
        let count = match self.found.len() {
            0 => "no hazard".to_owned(),
            1 => "1 hazard".to_owned(),
            count => format!("{count} hazards"),
        };
        let failed = match self.failed {
            0 => String::new(),
            failed => format!("; {failed} failed: `shaketable explain` says why"),
        };
        format!("{} runs: {count}{failed}\n", self.runs)
    }

    /// The keys that commits are refused for again and again.
    fn hot(&self) -> Vec<&HotKey> {
        let mut hot: Vec<&HotKey> = self.hot.values().collect();
        hot.retain(|key| key.conflicts >= CONFLICTS_MIN * self.runs);
        hot.sort_by_key(|key| std::cmp::Reverse(key.conflicts));
        hot.truncate(HOT_KEYS_MAX);
        hot
    }

    /// The hazards and the contended keys, a line of JSON for each.
    pub(super) fn json(&self) -> String {
        let hazards = self.found.values().map(|(hazard, runs)| Line::Hazard {
            name: &hazard.name,
            place: &hazard.place,
            sentence: &hazard.sentence,
            advice: &hazard.advice,
            runs: *runs,
        });
        let lines = hazards.chain(self.hot().into_iter().map(Line::HotKey));
        lines.map(|line| line.text()).collect()
    }

    fn json_summary(&self) -> String {
        let summary = Line::Linted {
            runs: self.runs,
            failed: self.failed,
            hazards: self.found.len(),
        };
        summary.text()
    }
}

/// A line of JSON.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line<'a> {
    Hazard {
        name: &'a str,
        place: &'a str,
        sentence: &'a str,
        advice: &'a str,
        runs: u64,
    },
    HotKey(&'a HotKey),
    Linted {
        runs: u64,
        failed: u64,
        hazards: usize,
    },
}

impl Line<'_> {
    fn text(&self) -> String {
        serde_json::to_string(self).expect("a hazard can be written") + "\n"
    }
}
