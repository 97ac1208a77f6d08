//! Why a run failed: a record in, findings out.
//!
//! Explaining is a function of the [`Record`] and of nothing else: no host, no clock, no files. The
//! same code serves the terminal, `cargo test`, JSON, the page and lints of runs that passed. A
//! [`Finding`] has a name, a sentence, the operations that prove it and what to do about it; the
//! first one is the most likely cause. Where the record does not prove a cause there is no finding:
//! a wrong explanation costs more than none.

mod atomic;
mod findings;
mod focus;
mod history;
pub mod lint;
pub mod seen;
mod story;
pub mod text;
mod words;

use focus::Focus;
use history::History;
use serde::Serialize;
use shaketable_record::{AttemptId, Bytes, CommittedId, End, OperationId, Record};

/// What a record tells about a failure.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Explanation {
    /// The most likely cause first.
    pub findings: Vec<Finding>,
    /// The keys that the failed check had read, each with who wrote what when.
    pub stories: Vec<Story>,
}

/// A mistake that the record proves.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// A stable name, such as `retry-after-unknown-result`.
    pub name: &'static str,
    /// What went wrong, in a sentence, with clients, lines and keys.
    pub sentence: String,
    /// What proves it, in time.
    pub proof: Vec<Proof>,
    /// What to do about it.
    pub advice: String,
    /// How often the same happened in the run; this is the instance that tells most.
    pub times: u32,
}

/// One piece of evidence.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Proof {
    /// Where to look in the record.
    pub at: Evidence,
    /// What it shows, in a few words.
    pub note: String,
}

/// A part of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// A call.
    Operation(OperationId),
    /// An attempt of a transaction.
    Attempt(AttemptId),
    /// A transaction that committed.
    Committed(CommittedId),
}

impl Evidence {
    /// When it happened, in simulated seconds: when a call was made, when an attempt ended, when a
    /// client was told of its commit or, if it was not, had asked for it. Commits of other writers
    /// have no time.
    pub fn time(self, record: &Record) -> Option<f64> {
        match self {
            Evidence::Operation(id) => Some(record.operations[id as usize].asked),
            Evidence::Attempt(id) => {
                let attempt = &record.attempts[id as usize];
                Some(attempt.ended.unwrap_or(attempt.begun))
            }
            Evidence::Committed(id) => {
                let attempt = &record.attempts[record.committed[id as usize].attempt? as usize];
                let commit = &record.operations[attempt.commit.as_ref()?.operation as usize];
                match attempt.end {
                    End::Committed => commit.answered.or(Some(commit.asked)),
                    _ => Some(commit.asked),
                }
            }
        }
    }
}

/// What happened to one key.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Story {
    /// The key.
    pub key: Bytes,
    /// The key as a person reads it.
    pub text: String,
    /// What wrote it, in commit order, and what of the failed check read it.
    pub chapters: Vec<Proof>,
    /// How many changes before these are not told.
    pub earlier: u32,
    /// How many changes after these, and before the read, are not told.
    pub later: u32,
}

/// Explains a run. A run that passed needs no explanation.
pub fn explain(record: &Record) -> Explanation {
    if record.header.verdict.passed {
        return Explanation::default();
    }
    let history = History::new(record);
    let focus = Focus::new(&history);
    let findings = findings::find(&history, &focus);
    let stories = story::tell(&history, &focus, &findings);
    Explanation { findings, stories }
}
