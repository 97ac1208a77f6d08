//! Something was done for a transaction that did not commit.
//!
//! While an attempt is open its client commits another transaction, and then the open attempt
//! fails. What was done on the strength of it stays. The closure runs again, and does it again, or
//! does something else.

use super::Candidate;
use super::doubt::capital;
use crate::Finding;
use crate::focus::Focus;
use crate::history::History;
use crate::words::{attempt, call, committed, error_text};
use shaketable_record::{AttemptId, End, Fate};

pub fn find(history: &History<'_>, _focus: &Focus<'_>) -> Vec<Candidate> {
    let mut found = Vec::new();
    for (outer, own) in history.attempts() {
        let lost = own
            .commit
            .as_ref()
            .is_none_or(|commit| commit.fate == Fate::Lost);
        let (End::Retried(error) | End::Failed(error), Some(ended), true) =
            (own.end, own.ended, lost)
        else {
            continue;
        };
        let all = history.attempts_of(own.client);
        let from = all.partition_point(|id| *id <= outer);
        let inside = all[from..]
            .iter()
            .take_while(|id| history.attempt(**id).begun < ended);
        for inner in inside {
            found.extend(nested(history, outer, *inner, error));
        }
    }
    found
}

fn nested(
    history: &History<'_>,
    outer: AttemptId,
    inner: AttemptId,
    error: i32,
) -> Option<Candidate> {
    let landed = history.landed(inner)?;
    let (begun, ended) = (history.attempt(inner).begun, history.attempt(inner).ended?);
    let mut before = None;
    let mut after = None;
    for id in history.operations_of(outer) {
        let operation = history.operation(*id);
        let answered = operation.answered.unwrap_or(operation.asked);
        if answered <= begun {
            before = Some(*id);
        } else if operation.asked >= ended {
            after = after.or(Some(*id));
        } else {
            // The two run side by side: another task of the client.
            return None;
        }
    }
    let (before, after) = (before?, after?);
    let keys = history.keys_of(landed);
    let (key, change) = keys.first()?;
    let place = history.at_place(history.writer(inner, key));
    let read = history
        .reads(outer)
        .next()
        .map_or(before, |read| read.operation);
    Some(Candidate {
        finding: Finding {
            name: "effect-before-commit",
            sentence: format!(
                "{} changed {}{place} in a transaction of its own, for transaction {}, which was still \
                 open and then failed with {}.",
                capital(&history.who(outer)),
                history.key_text(key),
                history.attempt(outer).transaction,
                error_text(error),
            ),
            proof: vec![
                call(read, "the outer transaction reads"),
                committed(landed, history.change_text(key, change)),
                call(after, "the outer transaction goes on"),
                attempt(outer, format!("and fails with {}", error_text(error))),
            ],
            advice:
                "Do it in the same transaction; or wait for the commit, and do it then, from what \
                     was committed."
                    .to_owned(),
            times: 1,
        },
        weight: 94,
        keys: keys.iter().map(|(key, _)| key.to_vec()).collect(),
        commits: vec![landed],
    })
}
