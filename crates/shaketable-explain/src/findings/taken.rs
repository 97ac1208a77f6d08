//! A row that two clients took, and did what it asks for.
//!
//! A queue or an outbox is read in one transaction, its row is worked on in a second one, and
//! cleared in a third. Nothing keeps another client from reading the same row meanwhile: both work
//! on it. What shows it is the second clear, of a row that the first had cleared after both had
//! read it.

use super::Candidate;
use super::doubt::capital;
use super::split::before;
use crate::Finding;
use crate::focus::Focus;
use crate::history::{Change, History, How, Read};
use crate::words::{call, committed};
use shaketable_record::{AttemptId, CommittedId};

pub fn find(history: &History<'_>, focus: &Focus<'_>) -> Vec<Candidate> {
    let attempts = history.attempts();
    let landed = attempts.filter_map(|(id, _)| Some((id, history.landed(id)?)));
    landed
        .filter_map(|(id, landed)| taken_twice(history, focus, id, landed))
        .collect()
}

/// What one client did for a row.
struct Taken<'a> {
    /// The look at the row.
    read: Read<'a>,
    /// What it wrote between that look and the clear, or with it.
    work: Vec<(AttemptId, CommittedId)>,
}

fn taken_twice(
    history: &History<'_>,
    focus: &Focus<'_>,
    last: AttemptId,
    landed: CommittedId,
) -> Option<Candidate> {
    for (row, cleared) in history.keys_of(landed) {
        if cleared.how != How::Clear || cleared.before.is_some() {
            continue;
        }
        let own = history.client_of(landed);
        let mut earlier = history.changes(row).iter();
        let gone = earlier.rfind(|change| change.committed < landed && change.before.is_some());
        let Some(gone) = gone.filter(|gone| gone.how == How::Clear) else {
            continue;
        };
        let Some(winner) = history.committed(gone.committed).attempt else {
            continue;
        };
        if history.attempt(winner).client == own {
            continue;
        }
        let (Some(one), Some(two)) = (
            taken(history, winner, gone.committed, row),
            taken(history, last, landed, row),
        ) else {
            continue;
        };
        // The second had looked before the first was done.
        if two.read.version >= history.version_of(gone.committed) {
            continue;
        }
        let both = two.work.iter().find_map(|(id, work)| {
            let keys = history.keys_of(*work);
            keys.into_iter()
                .filter(|(key, _)| *key != row && focus.touches(key))
                .find_map(|(key, change)| {
                    let same =
                        |(_, other): &(AttemptId, CommittedId)| change_of(history, key, *other);
                    let first = one.work.iter().find_map(same)?;
                    Some((*id, *work, key, change.clone(), first.clone()))
                })
        });
        let Some((id, work, key, change, first)) = both else {
            continue;
        };
        let (row_text, text) = (history.key_text(row), history.key_text(key));
        let (who, whom) = (history.who(last), history.who(winner));
        return Some(Candidate {
            finding: Finding {
                name: "split-read-and-write",
                sentence: format!(
                    "{} and {who} both read {row_text}{} before either had cleared it, and both changed \
                     {text}{} for it: reading, working and clearing are transactions of their own.",
                    capital(&whom),
                    history.at_place(Some(two.read.operation)),
                    history.at_place(history.writer(id, key)),
                ),
                proof: vec![
                    call(one.read.operation, history.saw_text(row, one.read.version)),
                    call(two.read.operation, history.saw_text(row, two.read.version)),
                    committed(first.committed, history.change_text(key, &first)),
                    committed(work, history.change_text(key, &change)),
                    committed(gone.committed, history.change_text(row, gone)),
                    committed(landed, history.change_text(row, cleared)),
                ],
                advice:
                    "Take a row and do what it asks for in one transaction, so that two clients \
                         conflict on it; or claim it first."
                        .to_owned(),
                times: 1,
            },
            weight: 87,
            keys: vec![key.to_vec(), row.to_vec()],
            commits: vec![first.committed, work],
        });
    }
    None
}

/// How a client came to clear a row: it had read it in an earlier transaction, and did not look
/// again.
fn taken<'a>(
    history: &History<'a>,
    last: AttemptId,
    landed: CommittedId,
    row: &[u8],
) -> Option<Taken<'a>> {
    if history.reads(last).any(|read| read.covers(row)) {
        return None;
    }
    let mut work = vec![(last, landed)];
    for (_, id) in before(history, last) {
        let mut reads = history.reads(id);
        let read = reads.find(|read| read.covers(row));
        work.extend(history.landed(id).map(|landed| (id, landed)));
        if let Some(read) = read {
            history.value_at(row, read.version)?;
            return Some(Taken { read, work });
        }
    }
    None
}

/// What a commit did to a key.
fn change_of<'h>(
    history: &'h History<'_>,
    key: &[u8],
    committed: CommittedId,
) -> Option<&'h Change> {
    let mut changes = history.changes(key).iter();
    changes.find(|change| change.committed == committed && change.before != change.after)
}
