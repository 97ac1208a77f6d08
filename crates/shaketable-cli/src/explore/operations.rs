//! The operations of a run, and what else could have become of each.
//!
//! Operations are taken from the record of the run. They are named as the simulation names them
//! when it looks for a decision about them: by their kind, their client, and their number among
//! that client's operations of the kind, in the order in which they were asked for.
//!
//! What could have become of an operation depends on what it did. A commit that wrote nothing is
//! never sent; one that read nothing has no conflicts; a range of one row cannot be cut. Such
//! outcomes are *not applicable*, and that too is part of the result.

use serde::Serialize;
use shaketable_record::{Answer, Attempt, Call, Fate, Operation as Recorded, Record};
use std::collections::BTreeMap;

/// What an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A commit.
    Commit,
    /// A read of one key.
    Read,
    /// A read of a range.
    RangeRead,
    /// A watch.
    Watch,
}

impl Kind {
    /// All of them, in the order of a report.
    pub const ALL: [Kind; 4] = [Kind::Commit, Kind::Read, Kind::RangeRead, Kind::Watch];

    fn of(call: &Call) -> Option<Kind> {
        Some(match call {
            Call::Commit => Kind::Commit,
            Call::Get { .. } | Call::GetKey { .. } => Kind::Read,
            Call::GetRange(_) | Call::GetMappedRange(_) => Kind::RangeRead,
            Call::Watch { .. } => Kind::Watch,
            _ => return None,
        })
    }

    /// The group of its decisions.
    pub fn group(self) -> &'static str {
        match self {
            Kind::Commit => "commit",
            Kind::Read => "read",
            Kind::RangeRead => "range read",
            Kind::Watch => "watch",
        }
    }

    /// What can become of it.
    pub fn outcomes(self) -> &'static [Outcome] {
        match self {
            Kind::Commit => &[
                Outcome::ReplyLost,
                Outcome::RequestLost,
                Outcome::Conflict,
                Outcome::TooOld,
                Outcome::RequestLate,
                Outcome::ReplyLate,
                Outcome::ProxyDiesBefore,
                Outcome::ProxyDiesAfter,
            ],
            Kind::Read => &[
                Outcome::TooOld,
                Outcome::Future,
                Outcome::ReplyLate,
                Outcome::ServerDies,
            ],
            Kind::RangeRead => &[
                Outcome::TooOld,
                Outcome::Future,
                Outcome::ReplyLate,
                Outcome::ServerDies,
                Outcome::Cut,
            ],
            Kind::Watch => &[Outcome::Spurious, Outcome::WatchLate],
        }
    }
}

/// What can become of an operation instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// 1021, and the commit has landed.
    ReplyLost,
    /// 1021, and the commit is lost.
    RequestLost,
    /// 1020.
    Conflict,
    /// 1007.
    TooOld,
    /// The commit takes long to arrive.
    RequestLate,
    /// The answer takes long.
    ReplyLate,
    /// The commit proxy dies, and the commit with it.
    ProxyDiesBefore,
    /// The commit proxy dies when the commit is durable.
    ProxyDiesAfter,
    /// The storage server's process dies when it is asked.
    ServerDies,
    /// 1009.
    Future,
    /// Fewer rows than there are, and `more`.
    Cut,
    /// The watch fires, and nothing has changed.
    Spurious,
    /// The watch fires late.
    WatchLate,
}

impl Outcome {
    /// The head of its column, in two lines.
    pub fn head(self) -> (&'static str, &'static str) {
        match self {
            Outcome::ReplyLost => ("1021", "landed"),
            Outcome::RequestLost => ("1021", "lost"),
            Outcome::Conflict => ("", "1020"),
            Outcome::TooOld => ("", "1007"),
            Outcome::RequestLate => ("request", "late"),
            Outcome::ReplyLate => ("reply", "late"),
            Outcome::ProxyDiesBefore => ("proxy dies", "before"),
            Outcome::ProxyDiesAfter => ("proxy dies", "after"),
            Outcome::ServerDies => ("server", "dies"),
            Outcome::Future => ("", "1009"),
            Outcome::Cut => ("cut", "short"),
            Outcome::Spurious => ("fires", "unchanged"),
            Outcome::WatchLate => ("fires", "late"),
        }
    }
}

/// An operation of the run.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    /// What it is.
    pub kind: Kind,
    /// The name of decisions about it.
    pub name: String,
    /// The client.
    pub client: u32,
    /// When it was asked for.
    pub time: f64,
    /// The line that asked for it, as `src/queue.rs:88`; empty if it is not known.
    pub line: String,
    /// The outcomes to try, with the words for the simulation.
    pub tries: Vec<(Outcome, String)>,
}

/// Reads the operations of the code under test out of a record.
pub fn operations(record: &Record) -> Vec<Operation> {
    let mut counts: BTreeMap<(u32, Kind), u64> = BTreeMap::new();
    let mut found = Vec::new();
    let timeouts = timeouts(record);
    for operation in &record.operations {
        let attempt = &record.attempts[operation.attempt as usize];
        let (Some(kind), Some(client)) = (Kind::of(&operation.call), attempt.client) else {
            continue;
        };
        let number = counts.entry((client, kind)).or_default();
        *number += 1;
        let place = operation.place.map(|id| &record.places[id as usize]);
        let patience = timeouts.get(&attempt.transaction).copied();
        found.push(Operation {
            kind,
            name: format!("{}/tester {client} {number}", kind.group()),
            client,
            time: operation.asked,
            line: place.map_or(String::new(), |place| {
                format!("{}:{}", place.file, place.line)
            }),
            tries: tries(operation, attempt, patience),
        });
    }
    found
}

/// Long for a message, short for a transaction.
const LATE_SECONDS: f64 = 1.5;
/// By how much a watch is late.
const WATCH_LATE_SECONDS: f64 = 5.0;

fn tries(operation: &Recorded, attempt: &Attempt, patience: Option<f64>) -> Vec<(Outcome, String)> {
    let late = patience.map_or(LATE_SECONDS, |timeout| LATE_SECONDS.max(timeout + 0.5));
    let mut tries: Vec<(Outcome, String)> = Vec::new();
    let mut add = |outcome, text: String| tries.push((outcome, text));
    match &operation.call {
        Call::Commit => {
            let Some(commit) = &attempt.commit else {
                return tries;
            };
            if commit.fate == Fate::ReadOnly {
                return tries;
            }
            add(Outcome::ReplyLost, "its reply is lost".into());
            add(Outcome::RequestLost, "its request is lost".into());
            if !commit.reads.is_empty() {
                let first = "another transaction commits first";
                add(Outcome::Conflict, first.into());
            }
            add(Outcome::TooOld, "its version is too old".into());
            add(
                Outcome::RequestLate,
                format!("its request is late by {late} s"),
            );
            add(Outcome::ReplyLate, format!("its reply is late by {late} s"));
            let dies = "the proxy dies before it";
            add(Outcome::ProxyDiesBefore, format!("{dies} writes"));
            add(Outcome::ProxyDiesAfter, format!("{dies} answers"));
        }
        Call::Get { .. } | Call::GetKey { .. } | Call::GetRange(_) | Call::GetMappedRange(_) => {
            if operation
                .answered
                .is_some_and(|time| time <= operation.asked)
            {
                // The transaction knew the answer by itself.
                return tries;
            }
            add(Outcome::TooOld, "its version is too old".into());
            add(Outcome::Future, "its version is in the future".into());
            add(Outcome::ReplyLate, format!("its reply is late by {late} s"));
            add(Outcome::ServerDies, "the process that is asked dies".into());
            if let Answer::Rows { count, .. } = operation.answer {
                for rows in 1..count {
                    let rows = match rows {
                        1 => "1 row".to_owned(),
                        rows => format!("{rows} rows"),
                    };
                    add(Outcome::Cut, format!("it is cut after {rows}"));
                }
            }
        }
        Call::Watch { .. } => {
            add(Outcome::Spurious, "it fires without a change".into());
            let late = format!("it fires late by {WATCH_LATE_SECONDS} s");
            add(Outcome::WatchLate, late);
        }
        _ => {}
    }
    tries
}

/// The timeouts that transactions were given, in seconds.
fn timeouts(record: &Record) -> BTreeMap<u32, f64> {
    let set = record.operations.iter().filter_map(|operation| {
        let value = match &operation.call {
            Call::SetOption { name, value } if name == "timeout" => value.as_ref()?.kept(),
            _ => return None,
        };
        let millis = i64::from_le_bytes(value.try_into().ok()?);
        let transaction = record.attempts[operation.attempt as usize].transaction;
        (millis > 0).then_some((transaction, millis as f64 / 1000.0))
    });
    set.collect()
}
