//! A commit whose result was unknown had taken effect, and its effect was made again.
//!
//! After 1021, a timeout or a dropped future a client does not know whether it committed. The
//! record does. If it had, and a later attempt of the same transaction, or the next transaction of
//! the client, does what cannot be done twice, that is the finding. What cannot be done twice:
//! adding to a number, appending, reading a value and writing another one back, a row under a new
//! key. Setting the same key to the same value can.
//!
//! Three ways to try to be careful and fail have names of their own: the receipt was looked for by
//! an attempt in between and not by the one that made the effect again; it was looked for and had
//! been cleared; the transaction had been dropped or timed out, and a new one was taken for a
//! first.

use super::Candidate;
use crate::atomic;
use crate::focus::Focus;
use crate::history::{History, How};
use crate::words::{self, attempt, call, committed, error_text, value_text};
use crate::{Finding, Proof};
use shaketable_record::{AttemptId, Bytes, Call, CommittedId, End, Mutation};
use std::cmp::Ordering;

/// How many transactions of a client after a doubtful one are looked at.
pub(super) const TRANSACTIONS_AFTER: usize = 3;

pub fn find(history: &History<'_>, focus: &Focus<'_>) -> Vec<Candidate> {
    let mut found = Vec::new();
    for (first, _) in history.attempts() {
        let Some(landed) = history.landed(first).filter(|_| history.is_doubtful(first)) else {
            continue;
        };
        if let Some((second, again)) = retried(history, first, landed) {
            let each = again.iter();
            found.extend(each.map(|again| retry_finding(history, first, landed, second, again)));
        } else if let Some((second, again)) = begun_anew(history, first, landed) {
            let each = again.iter();
            found.extend(each.map(|again| new_finding(history, first, landed, second, again)));
        }
    }
    // A number that is too small was not added to twice.
    found.retain(|candidate| {
        let key = &candidate.keys[0];
        let change =
            (history.changes(key).iter()).find(|change| change.committed == candidate.commits[0]);
        let negative = change.is_some_and(|change| match (&change.before, &change.after) {
            (before, Some(after)) => number(before.as_ref()) > number(Some(after)),
            _ => false,
        });
        let impossible = if negative {
            Ordering::Greater
        } else {
            Ordering::Less
        };
        // Nor did rows that are too few get another one.
        let few = change.is_some_and(|change| change.before.is_none())
            && focus.counted(history, key) == Some(Ordering::Less);
        focus.compared(history, key) != Some(impossible) && !few
    });
    found
}

fn number(value: Option<&Bytes>) -> Option<i64> {
    value.map_or(Some(0), words::number)
}

/// What was done twice.
pub(super) struct Again {
    weight: u32,
    /// What the second commit did to it.
    keys: Vec<Vec<u8>>,
    words: String,
}

/// The later attempt of the same transaction that made the effect again.
fn retried(
    history: &History<'_>,
    first: AttemptId,
    landed: CommittedId,
) -> Option<(AttemptId, Vec<Again>)> {
    let later = history.later_attempts(first);
    later
        .filter_map(|second| {
            let second_landed = history.landed(second)?;
            let again = made_again(history, (first, landed), (second, second_landed));
            (!again.is_empty()).then_some((second, again))
        })
        .next()
}

/// The new transaction of the same client that made the effect again.
pub(super) fn begun_anew(
    history: &History<'_>,
    first: AttemptId,
    landed: CommittedId,
) -> Option<(AttemptId, Vec<Again>)> {
    let own = history.attempt(first);
    // A transaction that waited its turn and was then thrown away has no later attempt.
    if matches!(own.end, End::Retried(_)) && history.later_attempts(first).next().is_some() {
        return None;
    }
    let ended = own.ended?;
    let all = history.attempts_of(own.client);
    let from = all.partition_point(|id| history.attempt(*id).begun < ended);
    let mut transactions = Vec::new();
    // What had begun when another task of the client committed something else; only that can still
    // be the new attempt, because what begins later may be about something new.
    let mut open: Option<Vec<u32>> = None;
    for second in &all[from..] {
        let transaction = history.attempt(*second).transaction;
        if transaction == own.transaction {
            continue;
        }
        if !transactions.contains(&transaction) {
            transactions.push(transaction);
        }
        if transactions.len() > TRANSACTIONS_AFTER {
            return None;
        }
        if open
            .as_ref()
            .is_some_and(|open| !open.contains(&transaction))
        {
            continue;
        }
        let Some(second_landed) = history.landed(*second) else {
            continue;
        };
        if !same_line(history, first, *second) {
            let begun = open.as_ref().unwrap_or(&transactions).iter().copied();
            let begun: Vec<u32> = begun.filter(|other| *other != transaction).collect();
            if begun.is_empty() {
                return None;
            }
            open = Some(begun);
            continue;
        }
        let again = made_again(history, (first, landed), (*second, second_landed));
        let same = !again.is_empty()
            && !has_another_id(history, (first, landed), (*second, second_landed));
        return same.then_some((*second, again));
    }
    None
}

/// Whether both attempts committed at the same line, or their lines are not known.
fn same_line(history: &History<'_>, first: AttemptId, second: AttemptId) -> bool {
    let line = |attempt| {
        let ids = history.operations_of(attempt).iter();
        let mut writes = ids.filter(|id| {
            matches!(
                history.operation(**id).call,
                Call::Set { .. } | Call::Atomic { .. }
            )
        });
        writes.next().and_then(|id| history.operation(*id).place)
    };
    line(first) == line(second)
}

/// Whether both transactions looked for a receipt, found none and wrote it, and the second receipt
/// follows the first as that one followed the one before: then they are two different requests.
fn has_another_id(
    history: &History<'_>,
    first: (AttemptId, CommittedId),
    second: (AttemptId, CommittedId),
) -> bool {
    let receipts = |(attempt, landed): (AttemptId, CommittedId)| {
        let keys = history.keys_of(landed).into_iter();
        keys.filter_map(move |(key, change)| {
            let mut reads = history.reads(attempt);
            let empty = change.after.as_ref().is_some_and(Bytes::is_empty);
            let looked = reads.any(|read| read.point && read.covers(key));
            let place = history.operation(history.writer(attempt, key)?).place?;
            (change.before.is_none() && empty && looked).then(|| (place, history.key_text(key)))
        })
        .collect::<Vec<_>>()
    };
    let alike = |one: &str, two: &str| {
        let pairs = one.split(", ").zip(two.split(", "));
        pairs.take_while(|(one, two)| one == two).count()
    };
    let all = history.attempts_of(history.attempt(first.0).client).iter();
    let others = |is_one: &dyn Fn(AttemptId) -> bool| {
        let others = all.clone().copied().filter(|id| is_one(*id));
        let others = others.filter_map(|id| Some((id, history.landed(id)?)));
        others
            .map(receipts)
            .filter(|known| !known.is_empty())
            .collect::<Vec<_>>()
    };
    let of_line = |known: &[(_, String)], (place, own): &(_, String)| {
        let mut known = known.iter();
        let other = known.find(|(line, key)| line == place && key != own)?;
        Some(alike(own, &other.1))
    };
    let (own, next) = (receipts(first), receipts(second));
    // How one request usually follows another.
    let before = others(&|id| id < first.0);
    let usual = match before.last() {
        Some(before) => own.first().and_then(|own| of_line(before, own)),
        None => {
            let after = others(&|id| id > second.0);
            next.first().and_then(|next| of_line(after.first()?, next))
        }
    };
    usual.is_some() && own.first().and_then(|own| of_line(&next, own)) == usual
}

/// What both commits did although once was enough.
fn made_again(
    history: &History<'_>,
    (first, first_landed): (AttemptId, CommittedId),
    (second, second_landed): (AttemptId, CommittedId),
) -> Vec<Again> {
    let mut found = Vec::new();
    let (one, two) = (
        history.committed(first_landed),
        history.committed(second_landed),
    );
    for mutation in &two.mutations {
        let Mutation::Atomic { key, operand, name } = mutation else {
            continue;
        };
        let before = |other: &Mutation| match other {
            Mutation::Atomic {
                key: k,
                name: n,
                operand: o,
            } => {
                (atomic::accumulates(name) && k == key && n == name)
                    || (name == atomic::VERSIONSTAMPED_KEY && n == name && o == operand && k != key)
            }
            _ => false,
        };
        let Some(earlier) = one.mutations.iter().find(|other| before(other)) else {
            continue;
        };
        if atomic::accumulates(name) {
            let (again, key_text) = (value_text(operand), history.key_text(key.kept()));
            found.push(Again {
                weight: 95,
                keys: vec![key.kept().to_vec()],
                words: match earlier {
                    // What had come meanwhile was added too.
                    Mutation::Atomic { operand: first, .. } if first != operand => {
                        format!("{name} {} to {key_text}, then {again}", value_text(first))
                    }
                    _ => format!("{name} {again} to {key_text}"),
                },
            });
            continue;
        }
        let keys = (one.mutations.iter().filter(|other| before(other)))
            .chain([mutation])
            .filter_map(|mutation| match mutation {
                Mutation::Atomic { key, .. } => Some(key.kept().to_vec()),
                _ => None,
            });
        found.push(Again {
            weight: 60,
            keys: keys.collect(),
            words: format!("add a row with the value {}", value_text(operand)),
        });
    }
    let own = history.keys_of(first_landed);
    for (key, change) in history.keys_of(second_landed) {
        if change.how != How::Set || !own.iter().any(|(k, c)| *k == key && c.how == How::Set) {
            continue;
        }
        let reads = |attempt| {
            history
                .reads(attempt)
                .any(|read| read.point && read.covers(key))
        };
        let first_change = own
            .iter()
            .find(|(k, _)| *k == key)
            .map(|(_, change)| change);
        let same = first_change.is_some_and(|first| first.after == change.after);
        if reads(first) && reads(second) && !same {
            found.push(Again {
                weight: 91,
                keys: vec![key.to_vec()],
                words: format!("read {} and write it back changed", history.key_text(key)),
            });
        }
    }
    // The same content under another key, written by the same line. Rows without a value have only
    // their keys, which a retry makes anew.
    let is_retry = history.attempt(first).transaction == history.attempt(second).transaction;
    for (key, change) in history.keys_of(second_landed) {
        let Some(value) = change.after.as_ref() else {
            continue;
        };
        let twin = own.iter().find(|(other, before)| {
            let line = |attempt, key: &[u8]| {
                history
                    .writer(attempt, key)
                    .and_then(|id| history.operation(id).place)
            };
            let same_request = match value.is_empty() {
                true => is_retry && are_siblings(&history.key_text(other), &history.key_text(key)),
                false => history.identifies(second, key, value),
            };
            *other != key
                && before.how == How::Set
                && change.how == How::Set
                && before.after.as_ref() == Some(value)
                && other.len().abs_diff(key.len()) <= 2
                && line(first, other) == line(second, key)
                && same_request
        });
        if let Some((other, _)) = twin {
            let what = match value.is_empty() {
                true => "a row".to_owned(),
                false => value_text(value),
            };
            found.push(Again {
                weight: 58,
                keys: vec![other.to_vec(), key.to_vec()],
                words: format!(
                    "store {what} under a new key ({}, then {})",
                    history.key_text(other),
                    history.key_text(key)
                ),
            });
        }
    }
    found
}

/// Whether two tuples differ in one element.
fn are_siblings(one: &str, two: &str) -> bool {
    let (one, two): (Vec<&str>, Vec<&str>) = (one.split(", ").collect(), two.split(", ").collect());
    let differ = one.iter().zip(&two).filter(|(one, two)| one != two);
    one.len() == two.len() && one.len() > 1 && differ.count() == 1
}

/// How a client learned that it knows nothing.
pub fn doubt_words(history: &History<'_>, first: AttemptId) -> String {
    match (history.attempt(first).end, history.commit_error(first)) {
        (_, Some(error)) | (End::Failed(error) | End::Retried(error), _) => {
            format!("was answered {}", error_text(error))
        }
        (End::DroppedInCommit | End::Dropped, _) => "was dropped before its answer".to_owned(),
        _ => "was given up before its answer".to_owned(),
    }
}

/// The doubtful commit, and that it took effect.
pub fn doubtful_proof(
    history: &History<'_>,
    first: AttemptId,
    landed: CommittedId,
    key: &[u8],
) -> Vec<Proof> {
    let mut proof = Vec::new();
    if let Some(commit) = history.commit(first) {
        let doubt = doubt_words(history, first);
        proof.push(call(commit.operation, format!("this commit {doubt}")));
    }
    proof.push(committed(
        landed,
        format!("it had committed: {}", effect(history, landed, key)),
    ));
    proof
}

fn effect(history: &History<'_>, landed: CommittedId, key: &[u8]) -> String {
    let change = history
        .changes(key)
        .iter()
        .find(|change| change.committed == landed);
    change.map_or_else(
        || "its changes are there".to_owned(),
        |change| history.change_text(key, change),
    )
}

fn second_proof(history: &History<'_>, second: AttemptId, again: &Again) -> Vec<Proof> {
    let key = again.keys.last().map_or(&[][..], Vec::as_slice);
    let mut proof = Vec::new();
    if let Some(operation) = history.writer(second, key) {
        proof.push(call(operation, "the same is asked for again"));
    }
    if let Some(landed) = history.landed(second) {
        let text = effect(history, landed, key);
        proof.push(committed(landed, format!("and commits too: {text}")));
    }
    proof
}

fn retry_finding(
    history: &History<'_>,
    first: AttemptId,
    landed: CommittedId,
    second: AttemptId,
    again: &Again,
) -> Candidate {
    let (who, number) = (history.who(first), |id: AttemptId| {
        history.attempt(id).number
    });
    let who = capital(&who);
    let key = &again.keys[0];
    let mut proof = doubtful_proof(history, first, landed, key);
    let between: Vec<AttemptId> = history
        .later_attempts(first)
        .take_while(|id| *id != second)
        .collect();
    // What the first attempt left for its retries to find.
    let receipts: Vec<&[u8]> = history
        .keys_of(landed)
        .into_iter()
        .filter(|(other, change)| change.how == How::Set && !again.keys.iter().any(|k| k == other))
        .map(|(key, _)| key)
        .collect();
    let asked = |id: AttemptId, receipt: &[u8]| {
        let ids = history.operations_of(id).iter().copied();
        let mut asked = ids.filter(|id| match &history.operation(*id).call {
            Call::Get { key, .. } => key.kept() == receipt,
            Call::GetRange(range) => {
                range.begin.key.kept() <= receipt && receipt < range.end.key.kept()
            }
            _ => false,
        });
        asked.next()
    };
    let words = &again.words;
    let place = history.at_place(history.writer(second, again.keys.last().unwrap_or(key)));
    let commits = vec![landed, history.landed(second).unwrap_or(landed)];
    let doubt = doubt_words(history, first);
    for receipt in &receipts {
        let text = history.key_text(receipt);
        let version = history.attempt(second).read_version.unwrap_or(i64::MAX);
        if let Some(look) = asked(second, receipt)
            && let Some(gone) = (history.changes(receipt).iter())
                .filter(|change| change.committed > landed && change.after.is_none())
                .rfind(|change| history.version_of(change.committed) <= version)
        {
            proof.push(committed(
                gone.committed,
                history.change_text(receipt, gone),
            ));
            proof.push(call(look, format!("looked for {text}: no value")));
            proof.extend(second_proof(history, second, again));
            return Candidate {
                finding: Finding {
                    name: "receipt-gone",
                    sentence: format!(
                        "{who} did this twice: {words}{place}. The commit of attempt {} {doubt} but had \
                         landed; its receipt {text} was cleared by {} before attempt {} looked for it.",
                        number(first),
                        history.author(gone.committed),
                        number(second),
                    ),
                    proof,
                    advice: "Keep a receipt until its own client has heard that the transaction is \
                             done; only then clear it, or after a time in which no retry can follow."
                        .to_owned(), times: 1,
                },
                weight: again.weight + 2,
                keys: again.keys.clone(),
                commits,
            };
        }
    }
    let looked = receipts.iter().find_map(|receipt| {
        let (other, look) = between
            .iter()
            .find_map(|id| Some((*id, asked(*id, receipt)?)))?;
        asked(second, receipt)
            .is_none()
            .then_some((receipt, other, look))
    });
    if let Some((receipt, other, look)) = looked {
        let text = history.key_text(receipt);
        proof.push(call(look, format!("looks for the receipt {text}")));
        if let End::Retried(error) | End::Failed(error) = history.attempt(other).end {
            proof.push(attempt(
                other,
                format!("but ends with {}", error_text(error)),
            ));
        }
        proof.extend(second_proof(history, second, again));
        return Candidate {
            finding: Finding {
                name: "doubt-forgotten",
                sentence: format!(
                    "{who} did this twice: {words}{place}. The commit of attempt {} {doubt} but had \
                     landed; attempt {} looked for the receipt {text} and failed; attempt {} no longer \
                     looked.",
                    number(first),
                    number(other),
                    number(second),
                ),
                proof,
                advice: "Look for the receipt at every attempt, or remember the doubt over all \
                         attempts that follow: `maybe_committed` speaks of the last one only."
                    .to_owned(),
                times: 1,
            },
            weight: again.weight + 2,
            keys: again.keys.clone(),
            commits,
        };
    }
    proof.extend(second_proof(history, second, again));
    Candidate {
        finding: Finding {
            name: "retry-after-unknown-result",
            sentence: format!(
                "{who} did this twice: {words}{place}. The commit of attempt {} {doubt} but had landed, \
                 and attempt {} did it again.",
                number(first),
                number(second),
            ),
            proof,
            advice:
                "Make the transaction idempotent: let it write a receipt under a key of its own, \
                     and let every attempt look for that receipt first."
                    .to_owned(),
            times: 1,
        },
        weight: again.weight,
        keys: again.keys.clone(),
        commits,
    }
}

fn new_finding(
    history: &History<'_>,
    first: AttemptId,
    landed: CommittedId,
    second: AttemptId,
    again: &Again,
) -> Candidate {
    let key = &again.keys[0];
    let own = history.attempt(first);
    let (name, more) = match (own.end, history.commit_error(first)) {
        (_, Some(1031)) | (End::Failed(1031), _) => ("repeated-after-timeout", 3),
        (End::Failed(_) | End::Retried(_), _) | (_, Some(_)) => {
            ("repeated-after-unknown-result", 0)
        }
        _ => ("repeated-after-dropped-commit", 2),
    };
    let mut proof = doubtful_proof(history, first, landed, key);
    proof.extend(second_proof(history, second, again));
    let sentence = format!(
        "{} did this twice: {}{}. The commit of transaction {} {} but had landed, and transaction {} \
         did it again.",
        capital(&history.who(first)),
        again.words,
        history.at_place(history.writer(second, again.keys.last().unwrap_or(key))),
        own.transaction,
        doubt_words(history, first),
        history.attempt(second).transaction,
    );
    Candidate {
        finding: Finding {
            name,
            sentence,
            proof,
            advice: "A commit without an answer may have happened. Give what is to be done an id \
                     before the first attempt, write the id in the same transaction, and look for it \
                     before doing it again."
                .to_owned(), times: 1,
        },
        weight: again.weight - 3 + more,
        keys: again.keys.clone(),
        commits: vec![landed, history.landed(second).unwrap_or(landed)],
    }
}

pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}
