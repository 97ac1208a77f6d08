//! An error after which nothing was done.
//!
//! A commit failed, its changes never happened, and the client went on as if they had: no retry,
//! and no later commit of the client that makes up for it. Of numbers that grow or shrink only the
//! failed phase's own count can tell whether one is missing. Or the phase itself gave up on an
//! error that wants a retry. Where the client itself died in the middle of the commit, the error is
//! not what was swallowed, and the finding says so.

use super::Candidate;
use super::died::{self, died};
use super::doubt::capital;
use super::unrecognised::is_reaction;
use crate::Finding;
use crate::focus::Focus;
use crate::history::{History, How};
use crate::words::{attempt, call, error_text, number, value_text};
use shaketable_record::{Answer, AttemptId, Bytes, Call, End, Fate};
use std::cmp::Ordering;

pub fn find(history: &History<'_>, focus: &Focus<'_>) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = history
        .attempts()
        .filter_map(|(id, _)| swallowed(history, focus, id))
        .collect();
    found.extend(given_up(history, focus));
    found
}

fn swallowed(history: &History<'_>, focus: &Focus<'_>, id: AttemptId) -> Option<Candidate> {
    let own = history.attempt(id);
    let commit = own
        .commit
        .as_ref()
        .filter(|commit| commit.fate == Fate::Lost)?;
    if !matches!(own.end, End::Failed(_) | End::DroppedInCommit) {
        return None;
    }
    let error = history.commit_error(id);
    let ended = own.ended?;
    let went_on = history
        .attempts_of(own.client)
        .iter()
        .find(|other| history.attempt(**other).begun >= ended)?;
    // It was noticed, and rightly taken for a failure.
    if history.is_doubtful(id) && is_reaction(history, *went_on) {
        return None;
    }
    let mut keys = Vec::new();
    for operation in history.operations_of(id) {
        let (key, value) = match &history.operation(*operation).call {
            Call::Set { key, value } => (key, Some(value)),
            // Whether a later addition makes up for one that was lost, only the sum can tell.
            Call::Atomic { key, operand, name } if name == "add" => {
                let short = match is_negative(operand) {
                    true => Ordering::Greater,
                    false => Ordering::Less,
                };
                if focus.compared(history, key.kept()) == Some(short) {
                    keys.push((key.kept().to_vec(), *operation, Some(operand)));
                }
                continue;
            }
            _ => continue,
        };
        // The same for a number that was read and written back changed.
        if let Some(change) = changed_by(history, id, key.kept(), value) {
            let short = 0.cmp(&change);
            if focus.compared(history, key.kept()) == Some(short) {
                keys.push((key.kept().to_vec(), *operation, value));
            }
            continue;
        }
        if !made_up_for(history, id, key.kept(), value) && focus.missed(history, key.kept()) {
            keys.push((key.kept().to_vec(), *operation, value));
        }
    }
    let (key, operation, value) = keys.first()?;
    let text = history.key_text(key);
    let why = error.map_or("was dropped".to_owned(), |error| {
        format!("failed with {}", error_text(error))
    });
    let has_died = died(history, own.client, ended);
    let mut proof = vec![
        call(
            *operation,
            format!(
                "asks for {text}: {}",
                value.map_or("nothing".into(), value_text)
            ),
        ),
        call(
            commit.operation,
            format!("this commit {why}; it did not take effect"),
        ),
        attempt(
            *went_on,
            match has_died {
                true => "the next life of the client goes on with something else",
                false => "the client goes on with something else",
            },
        ),
    ];
    if let Some(read) = focus.read_of(key) {
        let seen = match focus.missed(history, key) {
            true => format!("looks for {text}: no value"),
            false => history.saw_text(key, read.version),
        };
        proof.push(call(read.operation, seen));
    }
    if has_died {
        return Some(Candidate {
            finding: Finding {
                name: died::NAME,
                sentence: format!(
                    "{} died before its write of {text}{} had happened, and its next life went on \
                     without it.",
                    capital(&history.who(id)),
                    history.at_place(Some(*operation)),
                ),
                proof,
                advice: died::ADVICE.to_owned(),
                times: 1,
            },
            weight: 76,
            keys: keys.into_iter().map(|(key, ..)| key).collect(),
            commits: Vec::new(),
        });
    }
    Some(Candidate {
        finding: Finding {
            name: "error-swallowed",
            sentence: format!(
                "{} lost a write of {text}{}: the commit {why}, and the client went on without \
                 trying again.",
                capital(&history.who(id)),
                history.at_place(Some(*operation)),
            ),
            proof,
            advice:
                "Hand every error of a commit to `on_error` and run the transaction again if it \
                     says so, as `Database::run` does; report what it does not accept."
                    .to_owned(),
            times: 1,
        },
        weight: 76,
        keys: keys.into_iter().map(|(key, ..)| key).collect(),
        commits: Vec::new(),
    })
}

/// Whether a number that is added is below zero.
fn is_negative(operand: &Bytes) -> bool {
    operand.is_whole() && operand.kept().last().is_some_and(|byte| byte & 0x80 != 0)
}

/// By how much an attempt wanted to change a number that it had read.
pub fn changed_by(
    history: &History<'_>,
    id: AttemptId,
    key: &[u8],
    value: Option<&Bytes>,
) -> Option<i64> {
    let read = history
        .reads(id)
        .find(|read| read.point && read.covers(key))?;
    let before = match history.value_at(key, read.version) {
        Some(before) => number(before)?,
        None => 0,
    };
    number(value?)?
        .checked_sub(before)
        .filter(|change| *change != 0)
}

/// Whether a later commit of the same client did what this one failed to do.
fn made_up_for(history: &History<'_>, id: AttemptId, key: &[u8], value: Option<&Bytes>) -> bool {
    let own = history.attempt(id);
    let line = history
        .writer(id, key)
        .and_then(|id| history.operation(id).place);
    let later = history.attempts_of(own.client).iter();
    later.filter(|other| **other > id).any(|other| {
        let Some(landed) = history.landed(*other) else {
            return false;
        };
        history
            .keys_of(landed)
            .into_iter()
            .any(|(written, change)| {
                let same_line = || {
                    let writer = history.writer(*other, written);
                    writer.and_then(|id| history.operation(id).place) == line
                };
                let content = value.filter(|value| history.identifies(id, key, value));
                written == key
                    || (change.how == How::Set
                        && content.is_some_and(|value| change.after.as_ref() == Some(value))
                        && same_line())
            })
    })
}

/// The phase that failed had met an error of the database and did not try again.
fn given_up(history: &History<'_>, focus: &Focus<'_>) -> Option<Candidate> {
    let own = history.attempts_of(focus.client).iter();
    let last = own
        .rev()
        .find(|id| history.attempt(**id).begun <= focus.time)?;
    let (operation, error) = history.operations_of(*last).iter().rev().find_map(|id| {
        match (&history.operation(*id).call, &history.operation(*id).answer) {
            (Call::Watch { .. }, _) => None,
            (_, Answer::Error(error)) => Some((*id, *error)),
            _ => None,
        }
    })?;
    let ended = history.attempt(*last).ended.unwrap_or(focus.time);
    let at_once = focus.time - ended < 0.01;
    if !at_once || matches!(history.attempt(*last).end, End::Retried(_) | End::Committed) {
        return None;
    }
    if history.operations_of(*last).last() != Some(&operation) {
        return None;
    }
    Some(Candidate {
        finding: Finding {
            name: "error-not-retried",
            sentence: format!(
                "{} gave up when the database answered {}{}.",
                capital(&history.who(*last)),
                error_text(error),
                history.at_place(Some(operation)),
            ),
            proof: vec![call(operation, format!("answered {}", error_text(error)))],
            advice: "Run transactions in a loop that hands errors to `on_error`; an error that it \
                     does not accept needs a decision of your own."
                .to_owned(),
            times: 1,
        },
        weight: 98,
        keys: focus.reads.iter().map(|read| read.begin.to_vec()).collect(),
        commits: Vec::new(),
    })
}
