//! Reading sweeps back from their JSON messages.
//!
//! A file holds one sweep or several, one after another; each begins with a `start`. Only what the
//! page shows is read, and what an older version did not print is left out of the page, so that a
//! history survives an update. A sweep without its `summary` was killed; it is kept and said to be
//! cut off, because leaving it out would hide that a job dies.

use crate::report::human::plural;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("cannot read {}", .0.display())]
    Open(PathBuf, #[source] std::io::Error),
    #[error("{}:{line}: this is not a message of shaketable", .file.display())]
    Message {
        file: PathBuf,
        line: usize,
        #[source]
        error: serde_json::Error,
    },
    #[error(
        "{}: there is no sweep in it; it wants the output of `shaketable run --message-format json`",
        .0.display()
    )]
    NoSweep(PathBuf),
}

/// All sweeps, oldest first, and what failed in them.
#[derive(Debug, Default)]
pub struct History {
    pub sweeps: Vec<Sweep>,
    pub failures: Vec<Failure>,
}

/// One sweep.
#[derive(Debug, Default)]
pub struct Sweep {
    /// The commit, or the name of the file.
    pub label: String,
    /// When it began, as it is written: by year, month and day.
    pub started: Option<String>,
    pub files: Vec<String>,
    /// The server that ran it, if one did.
    pub host: Option<String>,
    pub passed: u64,
    pub failed: u64,
    pub simulated_seconds: f64,
    pub elapsed_seconds: f64,
    /// Whether it came to its end.
    pub is_whole: bool,
    /// What lines that call the database have met, of what they can meet.
    pub coverage: Option<Coverage>,
}

impl Sweep {
    pub fn runs(&self) -> u64 {
        self.passed + self.failed
    }

    /// Runs in a second.
    pub fn speed(&self) -> Option<f64> {
        (self.is_whole && self.elapsed_seconds > 0.0)
            .then(|| self.runs() as f64 / self.elapsed_seconds)
    }
}

/// How much of the handling of failures was met.
#[derive(Debug, Default, PartialEq)]
pub struct Coverage {
    pub met: u64,
    pub possible: u64,
    /// Lines, what they call, and what they never met.
    pub gaps: Vec<(String, String, String)>,
}

impl Coverage {
    pub fn percent(&self) -> f64 {
        100.0 * self.met as f64 / self.possible.max(1) as f64
    }
}

/// One kind of failure, over all sweeps.
#[derive(Debug)]
pub struct Failure {
    pub file: String,
    /// The finding, or the kind of the failure where there is none.
    pub name: String,
    pub sentence: String,
    /// How many runs failed in this way.
    pub runs: u64,
    /// The sweeps in which they did.
    pub sweeps: BTreeSet<usize>,
    /// Whether it still happens.
    pub is_left: bool,
    /// The case that keeps it.
    pub case: Option<String>,
    pub reproduce: String,
}

impl History {
    pub fn read(files: &[PathBuf]) -> Result<History, ReadError> {
        let mut history = History::default();
        let mut found = Vec::new();
        for file in files {
            let text =
                fs::read_to_string(file).map_err(|error| ReadError::Open(file.clone(), error))?;
            let sweeps = sweeps(file, &text)?;
            if sweeps.is_empty() {
                return Err(ReadError::NoSweep(file.clone()));
            }
            found.extend(sweeps);
        }
        // Those without a time stay where they are named.
        found.sort_by(
            |(one, _), (other, _)| match (&one.started, &other.started) {
                (Some(one), Some(other)) => one.cmp(other),
                _ => std::cmp::Ordering::Equal,
            },
        );
        let mut kinds: BTreeMap<(String, String), Failure> = BTreeMap::new();
        for (number, (sweep, failures)) in found.into_iter().enumerate() {
            history.sweeps.push(sweep);
            for message in failures {
                let key = message.key();
                let failure = kinds.entry(key).or_insert_with(|| message.to_failure());
                failure.runs += message.count;
                failure.sweeps.insert(number);
                // The newest is the one that can still be run.
                failure.reproduce = message.reproduce.clone();
                failure.case = message.case().or(failure.case.take());
                failure.sentence = message.sentence();
            }
        }
        history.failures = kinds.into_values().collect();
        for failure in &mut history.failures {
            failure.is_left = is_left(failure, &history.sweeps);
        }
        // What still fails first, then by how often it did.
        let order = |failure: &Failure| (!failure.is_left, std::cmp::Reverse(failure.runs));
        history.failures.sort_by_key(order);
        Ok(history)
    }

    /// What it is about, in a few words.
    pub fn sentence(&self) -> String {
        let runs: u64 = self.sweeps.iter().map(Sweep::runs).sum();
        let failed: u64 = self.sweeps.iter().map(|sweep| sweep.failed).sum();
        let sweeps = plural(self.sweeps.len() as u64, "sweep");
        let failed = match failed {
            0 => "none failed".to_owned(),
            failed => {
                let ways = plural(self.failures.len() as u64, "way");
                format!("{failed} failed in {ways}")
            }
        };
        format!("{sweeps}, {}, {failed}", plural(runs, "run"))
    }
}

/// A commit's hash as people write it; any other name as it is.
fn abbreviated(name: &str) -> &str {
    let is_hash = name.len() == 40 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hash { &name[..10] } else { name }
}

/// Whether a failure happened at the newest commit at which its test file was run: in any of that
/// commit's sweeps, for they may be parts of one.
fn is_left(failure: &Failure, sweeps: &[Sweep]) -> bool {
    let ran_it = |sweep: &&Sweep| sweep.files.contains(&failure.file);
    let newest = sweeps.iter().rev().find(ran_it);
    let mut labels = failure.sweeps.iter().map(|number| &sweeps[*number].label);
    newest.is_some_and(|newest| labels.any(|label| *label == newest.label))
}

/// The sweeps of a file, with their failures.
fn sweeps(file: &Path, text: &str) -> Result<Vec<(Sweep, Vec<FailureMessage>)>, ReadError> {
    let mut sweeps: Vec<(Sweep, Vec<FailureMessage>)> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let message: Message = serde_json::from_str(line).map_err(|error| ReadError::Message {
            file: file.to_owned(),
            line: number + 1,
            error,
        })?;
        if let Message::Start(start) = &message {
            let stem = file.file_stem().unwrap_or_default().to_string_lossy();
            sweeps.push((
                Sweep {
                    label: match &start.commit {
                        Some(commit) => commit.clone(),
                        None => abbreviated(&stem).to_owned(),
                    },
                    started: start.started.clone(),
                    files: start.files.clone(),
                    host: start.host.clone(),
                    ..Sweep::default()
                },
                Vec::new(),
            ));
        }
        let Some((sweep, failures)) = sweeps.last_mut() else {
            continue;
        };
        match message {
            Message::Run(run) if !sweep.is_whole => {
                sweep.passed += u64::from(run.passed);
                sweep.failed += u64::from(!run.passed);
                sweep.simulated_seconds += run.simulated_seconds;
            }
            Message::Failure(failure) => failures.push(failure),
            Message::Summary(summary) => {
                sweep.is_whole = true;
                sweep.passed = summary.passed;
                sweep.failed = summary.failed;
                sweep.simulated_seconds = summary.simulated_seconds;
                sweep.elapsed_seconds = summary.elapsed_seconds;
                sweep.coverage = coverage(&summary.coverage);
            }
            _ => {}
        }
    }
    Ok(sweeps)
}

fn coverage(lines: &[LineMessage]) -> Option<Coverage> {
    let mut coverage = Coverage::default();
    for line in lines {
        // Success is no failure that was handled.
        let met = line.met.keys().filter(|met| is_failure(met)).count() as u64;
        coverage.met += met;
        coverage.possible += met + line.never.len() as u64;
        if !line.never.is_empty() {
            let gap = (line.line.clone(), line.call.clone(), line.never.join(", "));
            coverage.gaps.push(gap);
        }
    }
    (coverage.possible > 0).then_some(coverage)
}

/// Whether an outcome is one that code has to cope with, by its name in messages.
fn is_failure(met: &str) -> bool {
    met == "more" || met.starts_with(|first: char| first.is_ascii_digit())
}

/// The messages that matter here.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Message {
    Start(StartMessage),
    Run(RunMessage),
    Failure(FailureMessage),
    Summary(SummaryMessage),
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
struct StartMessage {
    files: Vec<String>,
    host: Option<String>,
    commit: Option<String>,
    started: Option<String>,
}

#[derive(Debug, Deserialize)]
struct RunMessage {
    passed: bool,
    simulated_seconds: f64,
}

#[derive(Debug, Deserialize)]
struct FailureMessage {
    file: String,
    count: u64,
    reproduce: String,
    small: Option<CaseMessage>,
    known: Option<CaseMessage>,
    outcome: OutcomeMessage,
}

#[derive(Debug, Deserialize)]
struct CaseMessage {
    case: Option<String>,
}

#[derive(Debug, Deserialize)]
struct OutcomeMessage {
    failures: Vec<CauseMessage>,
    cause: Option<FindingMessage>,
}

#[derive(Debug, Deserialize)]
struct CauseMessage {
    kind: String,
    phase: Option<String>,
    message: Option<String>,
}

#[derive(Debug, Deserialize)]
struct FindingMessage {
    name: String,
    sentence: String,
}

#[derive(Debug, Deserialize)]
struct SummaryMessage {
    passed: u64,
    failed: u64,
    simulated_seconds: f64,
    elapsed_seconds: f64,
    #[serde(default)]
    coverage: Vec<LineMessage>,
}

#[derive(Debug, Deserialize)]
struct LineMessage {
    line: String,
    call: String,
    met: BTreeMap<String, u64>,
    never: Vec<String>,
}

impl FailureMessage {
    /// Failures of the same file with the same finding are of one kind; without a finding, those
    /// that end alike but for numbers.
    fn key(&self) -> (String, String) {
        let what = match (&self.outcome.cause, self.outcome.failures.first()) {
            (Some(cause), _) => cause.name.clone(),
            (None, Some(failure)) => {
                let message = failure.message.as_deref().unwrap_or_default();
                let plain: String = message.chars().filter(|c| !c.is_ascii_digit()).collect();
                format!("{} {plain}", failure.kind)
            }
            (None, None) => String::new(),
        };
        (self.file.clone(), what)
    }

    fn to_failure(&self) -> Failure {
        let kind = self.outcome.failures.first().map(|first| &first.kind);
        let kind = kind.map_or(String::new(), |kind| kind.replace('_', " "));
        Failure {
            file: self.file.clone(),
            name: match &self.outcome.cause {
                Some(cause) => cause.name.clone(),
                None => kind,
            },
            sentence: self.sentence(),
            runs: 0,
            sweeps: BTreeSet::new(),
            is_left: false,
            case: None,
            reproduce: String::new(),
        }
    }

    fn sentence(&self) -> String {
        match (&self.outcome.cause, self.outcome.failures.first()) {
            (Some(cause), _) => cause.sentence.clone(),
            (None, Some(failure)) => {
                let message = failure.message.clone().unwrap_or_default();
                match &failure.phase {
                    Some(phase) => format!("in {phase}: {message}"),
                    None => message,
                }
            }
            (None, None) => String::new(),
        }
    }

    fn case(&self) -> Option<String> {
        let cases = [&self.known, &self.small];
        cases.into_iter().flatten().find_map(|one| one.case.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &str = r#"{"type":"start","files":["a.toml"],"first_seed":1,"runs":2,"jobs":1"#;

    fn sweep(text: &str) -> Result<Vec<(Sweep, Vec<FailureMessage>)>, ReadError> {
        sweeps(Path::new("history/abc.jsonl"), text)
    }

    #[test]
    fn a_sweep_that_was_killed_counts_the_runs_that_it_had() {
        let run = r#"{"type":"run","passed":false,"simulated_seconds":2.5}"#;
        let found = sweep(&format!("{START}}}\n{run}\n{run}\n")).unwrap();
        let (sweep, _) = &found[0];
        assert_eq!((sweep.runs(), sweep.failed, sweep.is_whole), (2, 2, false));
        assert_eq!(sweep.label, "abc");
        assert_eq!(sweep.speed(), None);
    }

    #[test]
    fn a_file_named_by_its_commit_is_a_commit() {
        let hash = "0123456789abcdef0123456789abcdef01234567";
        let file = format!("history/{hash}.jsonl");
        let found = sweeps(Path::new(&file), &format!("{START}}}\n")).unwrap();
        assert_eq!(found[0].0.label, "0123456789");
    }

    #[test]
    fn what_is_no_message_is_named_with_its_line() {
        let error = sweep(&format!("{START}}}\nWarning: slow\n")).unwrap_err();
        let text = crate::with_causes(&error);
        assert!(
            text.starts_with("history/abc.jsonl:2: this is not a message of shaketable: "),
            "{text}"
        );
    }

    #[test]
    fn messages_that_later_versions_add_are_left_out() {
        let found = sweep(&format!("{START},\"more\":1}}\n{{\"type\":\"news\"}}\n")).unwrap();
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn a_failure_is_gone_when_its_own_file_passes() {
        let sweep = |label: &str, file: &str| Sweep {
            label: label.to_owned(),
            files: vec![file.to_owned()],
            ..Sweep::default()
        };
        let failure = |file: &str, sweeps: &[usize]| Failure {
            file: file.to_owned(),
            name: String::new(),
            sentence: String::new(),
            runs: 1,
            sweeps: sweeps.iter().copied().collect(),
            is_left: false,
            case: None,
            reproduce: String::new(),
        };
        let history = [("a", "x"), ("a", "y"), ("b", "x"), ("b", "x")];
        let history = history.map(|(label, file)| sweep(label, file));
        assert!(!is_left(&failure("x", &[0]), &history));
        // Nothing newer ran this file.
        assert!(is_left(&failure("y", &[1]), &history));
        // The other part of the newest sweep failed.
        assert!(is_left(&failure("x", &[2]), &history));
    }

    #[test]
    fn success_is_not_coverage() {
        let line = LineMessage {
            line: "src/lib.rs:1".into(),
            call: "commit".into(),
            met: [("ok".to_owned(), 7), ("1020".to_owned(), 1)].into(),
            never: vec!["1021 landed".to_owned()],
        };
        let found = coverage(&[line]).unwrap();
        assert_eq!((found.met, found.possible), (1, 2));
        assert_eq!(coverage(&[]), None);
    }
}
