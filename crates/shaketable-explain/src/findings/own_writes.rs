//! What one transaction wrote twice, and kept once.
//!
//! Within a transaction the later write of a key counts. That is meant where the second was made
//! knowing the first; not where a versionstamp gave both rows the same key, nor where
//! read-your-writes was switched off and the second was computed from what had been there before.

use super::Candidate;
use super::doubt::capital;
use crate::Finding;
use crate::atomic;
use crate::focus::Focus;
use crate::history::History;
use crate::words::{call, committed, value_text};
use shaketable_record::{Answer, AttemptId, Call};

pub fn find(history: &History<'_>, _focus: &Focus<'_>) -> Vec<Candidate> {
    let attempts = || history.attempts().map(|(id, _)| id);
    let stamps = attempts().filter_map(|id| same_stamp(history, id));
    let unread = attempts().filter_map(|id| unread(history, id));
    stamps.chain(unread).collect()
}

/// Two rows of one transaction whose versionstamps are equal to the last byte.
fn same_stamp(history: &History<'_>, id: AttemptId) -> Option<Candidate> {
    let landed = history.landed(id)?;
    let stamped: Vec<_> = (history.operations_of(id).iter())
        .filter_map(|operation| match &history.operation(*operation).call {
            Call::Atomic { key, name, operand } if name == atomic::VERSIONSTAMPED_KEY => {
                Some((*operation, key, operand))
            }
            _ => None,
        })
        .collect();
    let (first, second) = (stamped.iter().enumerate()).find_map(|(index, first)| {
        let mut later = stamped[index + 1..].iter();
        let second = later.find(|second| second.1 == first.1 && second.2 != first.2)?;
        Some((first, second))
    })?;
    let rows = history.keys_of(landed);
    let (key, change) = rows
        .into_iter()
        .find(|(_, change)| change.after.as_ref() == Some(second.2))?;
    let (lost, kept, text) = (
        value_text(first.2),
        value_text(second.2),
        history.key_text(key),
    );
    Some(Candidate {
        finding: Finding {
            name: "same-versionstamp",
            sentence: format!(
                "{} wrote two rows under one versionstamp in one transaction{}: {lost}, then {kept}; \
                 both have the key {text}, and only the second is there.",
                capital(&history.who(id)),
                history.at_place(Some(second.0)),
            ),
            proof: vec![
                call(first.0, format!("a row with a versionstamp: {lost}")),
                call(second.0, format!("another one, with the same key: {kept}")),
                committed(landed, history.change_text(key, change)),
            ],
            advice:
                "All versionstamps of one transaction are equal: give each row of it another user \
                     version, or another element in its key."
                    .to_owned(),
            times: 1,
        },
        weight: 96,
        keys: vec![key.to_vec()],
        commits: vec![landed],
    })
}

/// A key that was written, read as it had been before, and written again.
fn unread(history: &History<'_>, id: AttemptId) -> Option<Candidate> {
    let landed = history.landed(id)?;
    let ids = history.operations_of(id);
    let set = |operation: &u32| match &history.operation(*operation).call {
        Call::Set { key, value } => Some((*operation, key, value)),
        _ => None,
    };
    ids.iter().enumerate().find_map(|(index, operation)| {
        let (first, key, value) = set(operation)?;
        let later = &ids[index + 1..];
        let (at, old) = later.iter().enumerate().find_map(|(at, read)| {
            let read = history.operation(*read);
            match (&read.call, &read.answer) {
                (Call::Get { key: asked, .. }, Answer::Value(old))
                    if asked == key && old.as_ref() != Some(value) =>
                {
                    Some((at, old))
                }
                _ => None,
            }
        })?;
        // Nothing else of the transaction touched it in between.
        let writes = |operation: &u32| {
            let call = &history.operation(*operation).call;
            crate::history::written(call)
                .is_some_and(|(begin, end)| begin <= key.kept() && key.kept() < &end[..])
        };
        if later[..at].iter().any(writes) {
            return None;
        }
        let (second, _, again) = later[at + 1..]
            .iter()
            .filter_map(set)
            .find(|(_, other, _)| *other == key)?;
        let text = history.key_text(key.kept());
        let old = old.as_ref().map_or("no value".to_owned(), value_text);
        Some(Candidate {
            finding: Finding {
                name: "own-write-not-read",
                sentence: format!(
                    "{} wrote {} to {text}{}, read it again in the same transaction as {old}, and \
                     wrote {}{}: read-your-writes is off, and the first write is lost.",
                    capital(&history.who(id)),
                    value_text(value),
                    history.at_place(Some(first)),
                    value_text(again),
                    history.at_place(Some(second)),
                ),
                proof: vec![
                    call(first, format!("sets {text} to {}", value_text(value))),
                    call(later[at], format!("reads {text}: {old}")),
                    call(second, format!("sets {text} to {}", value_text(again))),
                    committed(landed, "this is what commits"),
                ],
                advice: "Leave read-your-writes on, or keep what the transaction has written in \
                         variables and go by these."
                    .to_owned(),
                times: 1,
            },
            weight: 96,
            keys: vec![key.kept().to_vec()],
            commits: vec![landed],
        })
    })
}
