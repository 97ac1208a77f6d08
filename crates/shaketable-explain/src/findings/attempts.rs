//! The same question, two answers: what a transaction writes depends on more than the database.
//!
//! A transaction is run again and again until it commits, so it must do the same whenever it reads
//! the same. If two attempts of one transaction read the same and write something else, there is
//! state outside that one of them changed. If the same bytes are written in another order, the order
//! came from the process: a hash map.

use super::Candidate;
use super::doubt::capital;
use crate::Finding;
use crate::focus::Focus;
use crate::history::History;
use crate::words::{call, committed, value_text};
use shaketable_record::{Answer, AttemptId, Bytes, Call, OperationId, PlaceId};
use std::collections::BTreeMap;

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
    (first, until): (AttemptId, OperationId),
    (second, then): (AttemptId, OperationId),
) -> bool {
    let told = |attempt: AttemptId, until: OperationId| {
        let ids = history
            .operations_of(attempt)
            .iter()
            .take_while(move |id| **id < until);
        ids.filter_map(|id| {
            let operation = history.operation(*id);
            let read = !matches!(operation.answer, Answer::Nothing)
                || matches!(operation.call, Call::Get { .. } | Call::GetRange(_));
            let counts = !matches!(operation.call, Call::Watch { .. } | Call::SetOption { .. });
            (read && counts).then_some((&operation.call, &operation.answer))
        })
        .collect::<Vec<_>>()
    };
    told(first, until) == told(second, then)
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
