//! Hazards: what has gone well so far, and needs only the right moment to go wrong.
//!
//! A lint needs no failure. It looks at how transactions are built, at the calls and conflict
//! ranges of a run that may well have passed, and says what would happen if a commit's result were
//! unknown, a batch short, another client quicker. It stays silent where a transaction shows that
//! its author has thought of it: a receipt, a read of what is written, a conflict range, the rest
//! of a range.

use crate::Finding;
use crate::atomic;
use crate::findings::{capital, deaths, not_continued};
use crate::history::{History, is_point, span};
use crate::text;
use crate::words::{attempt, call, error_text};
use serde::{Deserialize, Serialize};
use shaketable_record::{Answer, AttemptId, Call, End, Fate, Mutation, Range, Record};
use std::collections::{BTreeMap, BTreeSet};

/// A transaction lives for five seconds; a client that thinks for this long is close to it.
const THINKING_SECONDS_MAX: f64 = 2.5;
/// A transaction may hold ten megabytes; this is close to it.
const TRANSACTION_BYTES_MAX: usize = 5_000_000;
/// Errors after which nothing was committed, and the same may be tried again.
const RETRYABLE: [i32; 4] = [1007, 1009, 1020, 1037];

/// A hazard, as it is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hazard {
    /// Its name, as in `docs/explain.md`.
    pub name: String,
    /// The line, as `src/queue.rs:88`; empty if it is not known.
    pub place: String,
    /// What may happen.
    pub sentence: String,
    /// What to do about it.
    pub advice: String,
}

/// The hazards of a run, as they are told.
pub fn hazards(record: &Record) -> Vec<Hazard> {
    let told = |finding: Finding| Hazard {
        name: finding.name.to_owned(),
        place: text::place(record, &finding).unwrap_or_default(),
        sentence: finding.sentence,
        advice: finding.advice,
    };
    lint(record).into_iter().map(told).collect()
}

/// The hazards of a run: at most one of each name for each line of code.
pub fn lint(record: &Record) -> Vec<Finding> {
    let history = History::new(record);
    let mut found: BTreeMap<(&'static str, Option<String>), Finding> = BTreeMap::new();
    let own_keys = own_keys(record);
    let pairs = snapshot_pairs(&history);
    for (id, _) in history.attempts() {
        let hazards = [
            applies_twice(&history, &own_keys, id),
            unread_rest(&history, id),
            guarded_by_snapshot(&history, &pairs, id),
            thinks_long(&history, id),
            large(&history, id),
            no_on_error(&history, id),
        ];
        for finding in hazards.into_iter().flatten() {
            let line = finding.proof.first().and_then(|proof| match proof.at {
                crate::Evidence::Operation(operation) => history.place_text(operation),
                _ => None,
            });
            found.entry((finding.name, line)).or_insert(finding);
        }
    }
    found.into_values().collect()
}

/// A key that commits are refused for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HotKey {
    /// The first key of the range that was read, as a person reads it.
    pub key: String,
    /// How many commits were refused.
    pub conflicts: u64,
    /// How many commits read it and asked to commit.
    pub commits: u64,
}

/// The keys that commits were refused for, the most contended first.
pub fn hot_keys(record: &Record) -> Vec<HotKey> {
    let history = History::new(record);
    let mut conflicts: BTreeMap<&[u8], u64> = BTreeMap::new();
    let mut commits: BTreeMap<&[u8], u64> = BTreeMap::new();
    for (_, attempt) in history.attempts() {
        let Some(commit) = &attempt.commit else {
            continue;
        };
        if let Some(conflict) = &commit.conflict {
            *conflicts.entry(conflict.range.begin.kept()).or_default() += 1;
        }
        for range in &commit.reads {
            *commits.entry(range.begin.kept()).or_default() += 1;
        }
    }
    let mut hot: Vec<HotKey> = conflicts
        .into_iter()
        .map(|(key, conflicts)| HotKey {
            key: history.key_text(key),
            conflicts,
            commits: commits
                .get(key)
                .copied()
                .unwrap_or(conflicts)
                .max(conflicts),
        })
        .collect();
    hot.sort_by_key(|key| std::cmp::Reverse(key.conflicts));
    hot
}

/// The keys that only one transaction sets: what may be a receipt.
fn own_keys(record: &Record) -> BTreeMap<&[u8], BTreeSet<u32>> {
    let mut keys: BTreeMap<&[u8], BTreeSet<u32>> = BTreeMap::new();
    for operation in &record.operations {
        if let Call::Set { key, .. } = &operation.call {
            let transaction = record.attempts[operation.attempt as usize].transaction;
            keys.entry(key.kept()).or_default().insert(transaction);
        }
    }
    keys
}

/// A commit that would take effect twice if its result were unknown.
fn applies_twice(
    history: &History<'_>,
    own_keys: &BTreeMap<&[u8], BTreeSet<u32>>,
    id: AttemptId,
) -> Option<Finding> {
    let commit = history.commit(id)?;
    let ids = history.operations_of(id);
    let calls = || ids.iter().map(|id| (*id, &history.operation(*id).call));
    let (operation, key) = calls().find_map(|(id, call)| match call {
        Call::Atomic { key, name, .. } if atomic::accumulates(name) => Some((id, key.kept())),
        _ => None,
    })?;
    let receipt = calls().any(|(_, call)| match call {
        Call::Set { key, .. } => own_keys.get(key.kept()).is_none_or(|all| all.len() == 1),
        Call::SetOption { name, .. } => name.contains("idempotency"),
        _ => false,
    });
    let looks = commit.mutations.iter().any(|mutation| {
        let (begin, end) = span(mutation);
        history
            .reads(id)
            .any(|read| !read.snapshot && read.begin < &end[..] && begin < &read.end[..])
    });
    if receipt || looks {
        return None;
    }
    let text = history.key_text(key);
    Some(Finding {
        name: "applies-twice",
        sentence: format!(
            "The change of {text}{} would be made twice if the result of a commit were unknown (1021): \
             nothing in the transaction tells a second attempt that the first one committed.",
            history.at_place(Some(operation)),
        ),
        proof: vec![
            call(operation, format!("changes {text} by what it was")),
            call(commit.operation, "commits it without a receipt"),
        ],
        advice:
            "Let the transaction set a key of its own, and let every attempt look for it first."
                .to_owned(),
        times: 1,
    })
}

fn unread_rest(history: &History<'_>, id: AttemptId) -> Option<Finding> {
    let operation = *not_continued(history, id).first()?;
    let Answer::Rows { count, .. } = &history.operation(operation).answer else {
        return None;
    };
    Some(Finding {
        name: "range-not-continued",
        sentence: format!(
            "{} rows of a range were read{}, `more` was set, and the rest was never asked for.",
            count,
            history.at_place(Some(operation)),
        ),
        proof: vec![call(operation, format!("{count} rows, and `more` is set"))],
        advice:
            "Ask again from behind the last row until `more` is false: `next_range` in a loop, or \
                 `get_ranges`."
                .to_owned(),
        times: 1,
    })
}

/// Keys that were read by snapshot, each with the keys that the same transactions wrote.
fn snapshot_pairs<'a>(history: &History<'a>) -> BTreeSet<(&'a [u8], &'a [u8])> {
    let mut pairs = BTreeSet::new();
    for (id, _) in history.attempts() {
        let Some(commit) = history.commit(id) else {
            continue;
        };
        let reads = history.reads(id).filter(|read| read.point && read.snapshot);
        for read in reads.filter(|read| !history.conflicts_on(id, read.begin)) {
            for mutation in &commit.mutations {
                if let Mutation::Set { key, .. } | Mutation::Atomic { key, .. } = mutation {
                    pairs.insert((read.begin, key.kept()));
                } else if let Mutation::Clear { range } = mutation
                    && is_point(range)
                {
                    pairs.insert((read.begin, range.begin.kept()));
                }
            }
        }
    }
    pairs
}

fn guarded_by_snapshot(
    history: &History<'_>,
    pairs: &BTreeSet<(&[u8], &[u8])>,
    id: AttemptId,
) -> Option<Finding> {
    let commit = history.commit(id)?;
    let written = |mutation: &Mutation| -> Option<Vec<u8>> {
        match mutation {
            Mutation::Set { key, .. } | Mutation::Atomic { key, .. } => Some(key.kept().to_vec()),
            Mutation::Clear { range } => is_point(range).then(|| range.begin.kept().to_vec()),
        }
    };
    let keys: Vec<Vec<u8>> = commit.mutations.iter().filter_map(written).collect();
    let unguarded = |key: &[u8]| !history.conflicts_on(id, key);
    let (read, key) = history
        .reads(id)
        .filter(|read| read.snapshot)
        .find_map(|read| {
            let key = keys.iter().find(|key| {
                let same = read.covers(key) && unguarded(key);
                let mutual = read.point
                    && unguarded(read.begin)
                    && key.as_slice() != read.begin
                    && pairs.contains(&(key.as_slice(), read.begin));
                same || mutual
            })?;
            Some((read, key))
        })?;
    let (text, key) = (history.key_text(read.begin), history.key_text(key));
    Some(Finding {
        name: "snapshot-guards-write",
        sentence: format!(
            "{text} is read by snapshot{} and decides about a write of {key}: a change in between would \
             not be noticed.",
            history.at_place(Some(read.operation)),
        ),
        proof: vec![
            call(read.operation, format!("reads {text} by snapshot")),
            call(commit.operation, format!("writes {key}, without a conflict range for the read")),
        ],
        advice: "Read what decides about a write serializably, or add a read conflict range for the keys \
                 that matter."
            .to_owned(), times: 1,
    })
}

/// A transaction that is open while its client does other things.
fn thinks_long(history: &History<'_>, id: AttemptId) -> Option<Finding> {
    let ids = history.operations_of(id);
    let mut answered: Option<f64> = None;
    let (mut thinking, mut longest) = (0.0, (0.0, None));
    for id in ids {
        let operation = history.operation(*id);
        if matches!(
            operation.call,
            Call::Watch { .. } | Call::Cancel | Call::Reset | Call::OnError(_)
        ) {
            continue;
        }
        if let Some(answered) = answered {
            let pause = operation.asked - answered;
            thinking += pause.max(0.0);
            if pause > longest.0 {
                longest = (pause, Some(*id));
            }
        }
        let own = operation.answered.unwrap_or(operation.asked);
        answered = Some(answered.map_or(own, |known| known.max(own)));
    }
    let operation = longest.1.filter(|_| thinking > THINKING_SECONDS_MAX)?;
    Some(Finding {
        name: "slow-transaction",
        sentence: format!(
            "{} kept a transaction open for {thinking:.1} s while it waited for something else{}; after \
             5 s every read and commit of it fails.",
            capital(&history.who(id)),
            history.at_place(Some(operation)),
        ),
        proof: vec![call(
            operation,
            format!("comes {:.1} s after the call before", longest.0),
        )],
        advice: "Do what takes time before the transaction or after it.".to_owned(),
        times: 1,
    })
}

fn large(history: &History<'_>, id: AttemptId) -> Option<Finding> {
    let commit = history.commit(id)?;
    let range = |range: &Range| range.begin.len() + range.end.len();
    let size: usize = commit
        .mutations
        .iter()
        .map(|mutation| match mutation {
            Mutation::Set { key, value } => key.len() + value.len(),
            Mutation::Atomic { key, operand, .. } => key.len() + operand.len(),
            Mutation::Clear { range: cleared } => range(cleared),
        })
        .sum();
    let all = size
        + commit
            .reads
            .iter()
            .chain(&commit.writes)
            .map(range)
            .sum::<usize>();
    if all < TRANSACTION_BYTES_MAX {
        return None;
    }
    let megabytes = all as f64 / 1e6;
    Some(Finding {
        name: "large-transaction",
        sentence: format!(
            "{} committed {megabytes:.1} MB in one transaction{}; more than 10 MB are refused.",
            capital(&history.who(id)),
            history.at_place(Some(commit.operation)),
        ),
        proof: vec![call(
            commit.operation,
            format!("{megabytes:.1} MB with its conflict ranges"),
        )],
        advice: "Split the work into transactions that each leave the data as it should be."
            .to_owned(),
        times: 1,
    })
}

/// A transaction that is begun anew after an error, without `on_error`.
fn no_on_error(history: &History<'_>, id: AttemptId) -> Option<Finding> {
    let own = history.attempt(id);
    let lost = own
        .commit
        .as_ref()
        .is_none_or(|commit| commit.fate == Fate::Lost);
    let (End::Failed(error), Some(ended), true) = (own.end, own.ended, lost) else {
        return None;
    };
    let first_place = |id: AttemptId| {
        let operation = history.operations_of(id).first()?;
        Some((*operation, history.operation(*operation).place?))
    };
    let all = history.attempts_of(own.client);
    let next = all[all.partition_point(|other| *other <= id)..]
        .iter()
        .find(|other| history.attempt(**other).begun >= ended)?;
    let ((_, line), (operation, next_line)) = (first_place(id)?, first_place(*next)?);
    // It may have been called, and failed itself.
    let called = |id: &u32| matches!(history.operation(*id).call, Call::OnError(_));
    let called = history.operations_of(id).iter().any(called);
    if called || !RETRYABLE.contains(&error) || line != next_line {
        return None;
    }
    // A client that died with the error in its hands calls nothing any more.
    let begun = history.attempt(*next).begun;
    if deaths(history, own.client).any(|death| (ended..=begun).contains(&death)) {
        return None;
    }
    Some(Finding {
        name: "on-error-not-called",
        sentence: format!(
            "{} began a new transaction{} after {} without `on_error`: under load nothing slows it down.",
            capital(&history.who(id)),
            history.at_place(Some(operation)),
            error_text(error),
        ),
        proof: vec![
            call(operation, "begins anew"),
            attempt(id, format!("had failed with {}", error_text(error))),
        ],
        advice: "Hand the error to `on_error`: it waits, and resets the transaction.".to_owned(),
        times: 1,
    })
}
