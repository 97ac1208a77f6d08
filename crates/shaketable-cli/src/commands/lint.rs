//! `lint`: hazards in code whose seeds pass.
//!
//! Every seed is run with a record, which is read, searched for hazards and deleted again. The same
//! hazard at the same line is reported once, with the number of seeds that showed it.

use super::explain::width;
use crate::args::{LintArgs, MessageFormat};
use crate::exit_codes;
use crate::pool::Addresses;
use crate::protocol::Response;
use crate::seed::Seed;
use crate::session::{Session, SessionError, workers};
use crate::sweep::{Ended, Flow, Observer, Schedule, sweep};
use serde::Serialize;
use shaketable_explain::lint::{HotKey, hot_keys, lint as lint_record};
use shaketable_explain::{Finding, text};
use shaketable_host::plan::{RecordTo, Recording, Values};
use shaketable_host::trace::Format;
use shaketable_record::file as record_file;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;

/// How many seeds are run if neither a number nor a time is given.
const SEEDS: u64 = 200;
/// How many contended keys are listed.
const HOT_KEYS_MAX: usize = 5;
/// Keys with fewer refused commits than this in a seed on average are not contended.
const CONFLICTS_MIN: u64 = 2;

/// `lint`.
pub fn lint(args: &LintArgs) -> Result<u8, SessionError> {
    let session = Session::prepare(&args.files, &args.simulation, &args.build, true)?;
    let schedule = Schedule::new(&args.sweep, SEEDS, session.files.len());
    if schedule.runs() == Some(0) {
        return Ok(exit_codes::NOTHING_RUN);
    }
    let jobs = workers(args.sweep.jobs, schedule.runs());
    let folder = std::env::temp_dir().join(format!("shaketable-lint-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|error| SessionError::Write(folder.clone(), error))?;
    let mut pool = session.pool(jobs, Addresses::Fixed)?;
    let mut collected = Collected {
        folder: folder.clone(),
        hazards: BTreeMap::new(),
        hot: BTreeMap::new(),
        runs: 0,
        failed: 0,
        unread: 0,
    };
    let recording = |file: usize, seed: Seed| Recording::Trace {
        path: "/dev/null".into(),
        format: Format::Json,
        record: Some(RecordTo::new(
            folder.join(record_name(file, seed.0)),
            Values::Short,
            None,
        )),
    };
    let ended = sweep(
        &mut pool,
        &schedule,
        recording,
        &session.interrupted,
        &mut collected,
    );
    let _ = fs::remove_dir_all(&folder);
    match args.message_format {
        MessageFormat::Human => anstream::print!("{}", collected.text()),
        MessageFormat::Json => print!("{}", collected.json()),
    }
    Ok(match ended {
        Ended::Interrupted => exit_codes::INTERRUPTED,
        _ if collected.hazards.is_empty() => exit_codes::PASSED,
        _ => exit_codes::TESTS_FAILED,
    })
}

fn record_name(file: usize, seed: u32) -> String {
    format!("{file}-{seed}.jsonl.gz")
}

/// What all seeds together have shown.
struct Collected {
    folder: PathBuf,
    /// By name and line: the first of its kind, and how many seeds had one.
    hazards: BTreeMap<(&'static str, String), (Finding, u64)>,
    hot: BTreeMap<String, HotKey>,
    runs: u64,
    failed: u64,
    unread: u64,
}

impl Observer for Collected {
    fn finished(&mut self, response: Response) -> Flow {
        self.runs += 1;
        self.failed += u64::from(!response.outcome.passed());
        let path = self
            .folder
            .join(record_name(response.file, response.outcome.seed));
        let record = File::open(&path)
            .ok()
            .and_then(|file| record_file::read(file).ok());
        let _ = fs::remove_file(&path);
        let Some(record) = record else {
            self.unread += 1;
            return Flow::Continue;
        };
        for finding in lint_record(&record) {
            let line = text::place(&record, &finding).unwrap_or_default();
            let known = self.hazards.entry((finding.name, line));
            known.or_insert((finding, 0)).1 += 1;
        }
        for key in hot_keys(&record) {
            let known = self.hot.entry(key.key.clone()).or_insert(HotKey {
                conflicts: 0,
                commits: 0,
                key: key.key,
            });
            known.conflicts += key.conflicts;
            known.commits += key.commits;
        }
        Flow::Continue
    }
}

impl Collected {
    fn text(&self) -> String {
        let mut out = String::new();
        for ((_, line), (finding, seeds)) in &self.hazards {
            let seen = format!("in {seeds} of {} runs", self.runs);
            out += &text::hazard(finding, line, &seen, width());
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
        let count = match self.hazards.len() {
            0 => "no hazard".to_owned(),
            1 => "1 hazard".to_owned(),
            count => format!("{count} hazards"),
        };
        let failed = match self.failed {
            0 => String::new(),
            failed => format!("; {failed} failed: `shaketable explain` says why"),
        };
        out + &format!("{} runs: {count}{failed}\n", self.runs)
    }

    /// The keys that commits are refused for again and again.
    fn hot(&self) -> Vec<&HotKey> {
        let mut hot: Vec<&HotKey> = self.hot.values().collect();
        hot.retain(|key| key.conflicts >= CONFLICTS_MIN * self.runs);
        hot.sort_by_key(|key| std::cmp::Reverse(key.conflicts));
        hot.truncate(HOT_KEYS_MAX);
        hot
    }

    fn json(&self) -> String {
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
            Summary {
                runs: u64,
                failed: u64,
                hazards: usize,
            },
        }
        let hazards = self
            .hazards
            .iter()
            .map(|((name, place), (finding, runs))| Line::Hazard {
                name,
                place,
                sentence: &finding.sentence,
                advice: &finding.advice,
                runs: *runs,
            });
        let lines = hazards
            .chain(self.hot().into_iter().map(Line::HotKey))
            .chain([Line::Summary {
                runs: self.runs,
                failed: self.failed,
                hazards: self.hazards.len(),
            }]);
        lines
            .map(|line| serde_json::to_string(&line).expect("a hazard can be written") + "\n")
            .collect()
    }
}
