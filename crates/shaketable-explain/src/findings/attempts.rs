//! The same question, two answers: what a transaction writes depends on more than the database.
//!
//! A transaction is run again and again until it commits, so it must do the same whenever it reads
//! the same. If two attempts of one transaction read the same and write something else, there is
//! state outside that one of them changed. If the same bytes are written in another order, the
//! order came from the process: a hash map.

use super::Candidate;
use super::doubt::capital;
use super::swallowed::changed_by;
use crate::Finding;
use crate::focus::Focus;
use crate::history::{History, is_unknown};
use crate::words::{attempt, call, committed, error_text, number, value_text};
use shaketable_record::{Answer, AttemptId, Bytes, Call, End, OperationId, PlaceId};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Shorter values are permutations of each other by accident.
const PERMUTED_BYTES_MIN: usize = 6;

pub fn find(history: &History<'_>, focus: &Focus<'_>) -> Vec<Candidate> {
    let all = history.attempts().filter(|(_, own)| own.retries.is_some());
    let mut found: Vec<Candidate> = all
        .filter_map(|(second, _)| {
            let mut earlier = history.earlier_attempts(second);
            earlier.find_map(|first| kept_state(history, first, second))
        })
        .collect();
    found.extend(left_undone(history, focus));
    found.extend(other_order(history, focus));
    found
}

fn kept_state(history: &History<'_>, first: AttemptId, second: AttemptId) -> Option<Candidate> {
    let landed = history.landed(second)?;
    let sets = |attempt: AttemptId| {
        let ids = history.operations_of(attempt).iter().copied();
        ids.filter_map(|id| match &history.operation(id).call {
            Call::Set { key, value } => Some((id, key, value)),
            _ => None,
        })
        .collect::<Vec<_>>()
    };
    let before = sets(first);
    let (id, old, key, was, now) = sets(second).into_iter().find_map(|(id, key, now)| {
        let (old, _, was) = before.iter().find(|(_, other, _)| *other == key)?;
        let same_line = history.operation(*old).place == history.operation(id).place;
        let other = *was != now && same_line && !is_time(was, now);
        (other && same_reads(history, (first, *old), (second, id)))
            .then_some((id, *old, key, *was, now))
    })?;
    let text = history.key_text(key.kept());
    let number = |id: AttemptId| history.attempt(id).number;
    Some(Candidate {
        finding: Finding {
            name: "state-kept-across-attempts",
            sentence: format!(
                "Attempts {} and {} of transaction {} of {} read the same and wrote something else to \
                 {text}{}: {}, then {}.",
                number(first),
                number(second),
                history.attempt(second).transaction,
                history.who(second),
                history.at_place(Some(id)),
                value_text(was),
                value_text(now),
            ),
            proof: vec![
                call(
                    old,
                    format!(
                        "attempt {} sets {text} to {}",
                        number(first),
                        value_text(was)
                    ),
                ),
                call(
                    id,
                    format!(
                        "attempt {}, having read the same, to {}",
                        number(second),
                        value_text(now)
                    ),
                ),
                committed(landed, "this is what commits"),
            ],
            advice:
                "The closure of a transaction runs once per attempt: begin each attempt with fresh \
                     variables, and change nothing outside of it before the commit."
                    .to_owned(),
            times: 1,
        },
        weight: 88,
        keys: vec![key.kept().to_vec()],
        commits: vec![landed],
    })
}

/// Transactions that ended well without doing what an attempt that failed had set out to do.
fn left_undone(history: &History<'_>, focus: &Focus<'_>) -> Vec<Candidate> {
    let done = history.attempts().filter(|(_, own)| {
        own.retries.is_some() && matches!(own.end, End::Committed | End::Dropped)
    });
    let mut found = Vec::new();
    for (last, _) in done {
        let all: Vec<AttemptId> = history.earlier_attempts(last).collect();
        if all.iter().any(|id| history.landed(*id).is_some()) {
            continue;
        }
        let wrote = |attempt: AttemptId, key: &[u8]| history.writer(attempt, key).is_some();
        // The last attempt that wrote it is the one that was taken for success.
        let mut told = BTreeSet::new();
        for first in &all {
            for operation in history.operations_of(*first) {
                let missing = match &history.operation(*operation).call {
                    Call::Set { key, .. } if focus.missed(history, key.kept()) => {
                        // Where there are too many rows, none is missing.
                        if focus.counted(history, key.kept()) == Some(Ordering::Greater) {
                            continue;
                        }
                        key.kept()
                    }
                    // A number that it had read and was to write back changed.
                    Call::Set { key, value } => {
                        let change = changed_by(history, *first, key.kept(), Some(value));
                        let short = change.map(|change| 0.cmp(&change));
                        if short.is_none() || focus.compared(history, key.kept()) != short {
                            continue;
                        }
                        key.kept()
                    }
                    Call::Atomic { key, operand, .. } => {
                        let short = match operand.kept().last() {
                            Some(byte) if byte & 0x80 != 0 => Ordering::Greater,
                            _ => Ordering::Less,
                        };
                        if focus.compared(history, key.kept()) != Some(short) {
                            continue;
                        }
                        key.kept()
                    }
                    _ => continue,
                };
                if wrote(last, missing)
                    || told.contains(missing)
                    || renamed(history, (*first, *operation), last)
                {
                    continue;
                }
                // If it read something else it may have had a reason; not if the check knows the
                // key by name, and the line that writes it was never reached again.
                let place = history.operation(*operation).place;
                let mut later = history.operations_of(last).iter();
                let reached = later.any(|id| history.operation(*id).place == place);
                let by_name = focus.read_of(missing).is_some_and(|read| read.point);
                if begins_alike(history, (*first, *operation), (last, OperationId::MAX)) {
                    told.insert(missing);
                    found.push(undone_finding(history, *first, last, *operation, missing));
                } else if by_name && !reached || asks_otherwise(history, *first, last) {
                    let mut candidate = undone_finding(history, *first, last, *operation, missing);
                    candidate.weight = 66;
                    told.insert(missing);
                    found.push(candidate);
                }
            }
        }
    }
    found
}

/// Whether the last attempt stored the same under another key, and not because it had begun
/// elsewhere: the key is made anew each time, and nothing was left out.
fn renamed(
    history: &History<'_>,
    (first, operation): (AttemptId, OperationId),
    last: AttemptId,
) -> bool {
    let written = history.operation(operation);
    let Call::Set { key, value } = &written.call else {
        return false;
    };
    let same = |id: &OperationId| {
        let other = history.operation(*id);
        let same_line = other.place.is_some() && other.place == written.place;
        same_line && matches!(&other.call, Call::Set { value: again, .. } if again == value)
    };
    let mut later = history.operations_of(last).iter();
    !asks_otherwise(history, first, last)
        && history.identifies(first, key.kept(), value)
        && later.any(same)
}

fn undone_finding(
    history: &History<'_>,
    first: AttemptId,
    last: AttemptId,
    operation: OperationId,
    key: &[u8],
) -> Candidate {
    let text = history.key_text(key);
    let number = |id: AttemptId| history.attempt(id).number;
    let error = history.commit_error(first);
    let next = history.later_attempts(first).next() == Some(last);
    let unknown = next && error.is_some_and(is_unknown);
    let how = match (error, history.attempt(first).end) {
        (Some(error), _) | (None, End::Retried(error) | End::Failed(error)) => error_text(error),
        _ => "no answer".to_owned(),
    };
    let advice = if unknown {
        "An unknown result means that the commit may have happened or not. Look for a receipt that the \
         transaction wrote; if there is none, do it again."
    } else {
        "The closure of a transaction runs once per attempt: what it takes or uses up must be there \
         again for the next one."
    };
    let mut proof = vec![call(
        operation,
        format!("attempt {} writes {text}", number(first)),
    )];
    proof.extend(history.commit(first).map(|commit| {
        call(
            commit.operation,
            format!("its commit ends with {how}, and did not take effect"),
        )
    }));
    proof.push(attempt(
        last,
        format!("attempt {} ends well without writing it", number(last)),
    ));
    Candidate {
        finding: Finding {
            name: if unknown {
                "unknown-result-taken-for-done"
            } else {
                "state-kept-across-attempts"
            },
            sentence: format!(
                "{} wrote {text}{} in attempt {} of transaction {}, which ended with {how} and did not \
                 take effect; attempt {} no longer wrote it, and was taken for success.",
                capital(&history.who(first)),
                history.at_place(Some(operation)),
                number(first),
                history.attempt(first).transaction,
                number(last),
            ),
            proof,
            advice: advice.to_owned(),
            times: 1,
        },
        weight: 90,
        keys: vec![key.to_vec()],
        commits: Vec::new(),
    }
}

/// Whether two values differ in a fraction only: a clock, which may well have moved on.
fn is_time(was: &Bytes, now: &Bytes) -> bool {
    let parts = |value: &Bytes| -> Vec<String> {
        value_text(value).split(", ").map(str::to_owned).collect()
    };
    let (was, now) = (parts(was), parts(now));
    let fraction = |text: &str| {
        text.trim_matches(['(', ')', ',']).parse::<f64>().is_ok() && text.contains('.')
    };
    was.len() == now.len()
        && was
            .iter()
            .zip(&now)
            .all(|(was, now)| was == now || (fraction(was) && fraction(now)))
}

/// Whether both attempts had asked and been told the same up to these calls.
fn same_reads(
    history: &History<'_>,
    first: (AttemptId, OperationId),
    second: (AttemptId, OperationId),
) -> bool {
    told(history, first) == told(history, second)
}

/// Whether all that one attempt was told up to a call is where what the other was told begins, or
/// the other way round.
fn begins_alike(
    history: &History<'_>,
    first: (AttemptId, OperationId),
    second: (AttemptId, OperationId),
) -> bool {
    let (one, two) = (told(history, first), told(history, second));
    one.starts_with(&two) || two.starts_with(&one)
}

/// Whether two attempts begin with another question, asked by the same line: nothing had been told
/// yet that could be the reason, so it is a cursor that the first one has moved.
fn asks_otherwise(history: &History<'_>, first: AttemptId, second: AttemptId) -> bool {
    let question = |attempt| {
        let mut ids = history.operations_of(attempt).iter();
        ids.find_map(|id| {
            let operation = history.operation(*id);
            let asked = match &operation.call {
                Call::Get { key, .. } => (key, key),
                Call::GetKey { selector, .. } => (&selector.key, &selector.key),
                Call::GetRange(range) | Call::GetMappedRange(range) => {
                    (&range.begin.key, &range.end.key)
                }
                _ => return None,
            };
            Some((operation.place?, asked))
        })
    };
    match (question(first), question(second)) {
        (Some((line, one)), Some((other, two))) => line == other && one != two,
        _ => false,
    }
}

/// What an attempt had asked and been told before a call.
fn told<'a>(
    history: &History<'a>,
    (attempt, until): (AttemptId, OperationId),
) -> Vec<(&'a Call, &'a Answer)> {
    let ids = history.operations_of(attempt).iter();
    let mut has_read = false;
    ids.take_while(|id| **id < until)
        .filter_map(|id| {
            let operation = history.operation(*id);
            let read = match operation.call {
                Call::Get { .. }
                | Call::GetKey { .. }
                | Call::GetRange(_)
                | Call::GetMappedRange(_) => {
                    has_read = true;
                    true
                }
                // The feature `record` asks for it behind the first read, for the trace. It is
                // never the same again, so it would hide every other difference.
                Call::GetReadVersion => !has_read,
                Call::Watch { .. } | Call::SetOption { .. } | Call::Commit | Call::OnError(_) => {
                    false
                }
                _ => !matches!(operation.answer, Answer::Nothing),
            };
            read.then_some((&operation.call, &operation.answer))
        })
        .collect()
}

fn other_order(history: &History<'_>, focus: &Focus<'_>) -> Option<Candidate> {
    type LineAndKey<'k> = (Option<PlaceId>, &'k [u8]);
    let mut seen: BTreeMap<LineAndKey<'_>, (OperationId, &Bytes)> = BTreeMap::new();
    let ids = 0..;
    for (id, operation) in ids.zip(&history.record.operations) {
        let Call::Set { key, value } = &operation.call else {
            continue;
        };
        if !value.is_whole() || value.len() < PERMUTED_BYTES_MIN || !focus.touches(key.kept()) {
            continue;
        }
        // Two numbers may well have the same digits.
        if number(value).is_some() {
            continue;
        }
        let (first, other) = *seen
            .entry((operation.place, key.kept()))
            .or_insert((id, value));
        if other == value || sorted(other) != sorted(value) || extends(history, id, value) {
            continue;
        }
        let text = history.key_text(key.kept());
        let who = |id: OperationId| history.who(history.operation(id).attempt);
        return Some(Candidate {
            finding: Finding {
                name: "order-of-the-process",
                sentence: format!(
                    "{} and {} wrote the same content to {text}{} in another order: {}, then {}.",
                    capital(&who(first)),
                    who(id),
                    history.at_place(Some(id)),
                    value_text(other),
                    value_text(value),
                ),
                proof: vec![
                    call(first, format!("sets {text} to {}", value_text(other))),
                    call(id, format!("sets {text} to {}", value_text(value))),
                ],
                advice:
                    "Store things in an order of their own (sorted, or a `BTreeMap`). The order of \
                         a hash map is another one in every process and every map."
                        .to_owned(),
                times: 1,
            },
            weight: 99,
            keys: vec![key.kept().to_vec()],
            commits: Vec::new(),
        });
    }
    None
}

/// Whether a value begins with what its attempt had read: then its order is that of the commits.
fn extends(history: &History<'_>, id: OperationId, value: &Bytes) -> bool {
    let ids = history.operations_of(history.operation(id).attempt).iter();
    ids.take_while(|other| **other < id)
        .any(|other| match &history.operation(*other).answer {
            Answer::Value(Some(read)) => !read.is_empty() && value.kept().starts_with(read.kept()),
            _ => false,
        })
}

fn sorted(value: &Bytes) -> Vec<u8> {
    let mut bytes = value.kept().to_vec();
    bytes.sort_unstable();
    bytes
}
