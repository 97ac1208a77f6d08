//! Two clients wrote one key, and neither knew of the other.
//!
//! Where the last write counts, that is meant; where each client believes to have a key of its own,
//! keys collide: parts without a separator, an id that is not unique. The record cannot tell one
//! from the other, so this is told only if there is nothing else to tell, and only if the failed
//! phase saw the value of the second.

use super::Candidate;
use super::doubt::capital;
use crate::Finding;
use crate::focus::Focus;
use crate::history::{Change, History, How};
use crate::words::committed;
use shaketable_record::CommittedId;

/// How often a key is written that was to be written once: by two clients, each of them twice.
const CHANGES_MAX: usize = 4;

pub fn find(history: &History<'_>, focus: &Focus<'_>) -> Vec<Candidate> {
    let points = focus.reads.iter().filter(|read| read.point);
    points
        .filter_map(|read| collision(history, focus, read.begin))
        .collect()
}

fn collision(history: &History<'_>, focus: &Focus<'_>, key: &[u8]) -> Option<Candidate> {
    let version = focus.read_of(key)?.version;
    let changes = history.changes(key);
    let seen = changes.partition_point(|change| history.version_of(change.committed) <= version);
    let changes = &changes[..seen];
    let author = |change: &Change| history.client_of(change.committed);
    let second = changes.last()?;
    let first = (changes.iter()).rfind(|change| author(change) != author(second))?;
    // Other values were meant to be written again and again.
    if changes.len() > CHANGES_MAX {
        return None;
    }
    let (one, two) = (first.committed, second.committed);
    let looked = |id: CommittedId| {
        let attempt = history.committed(id).attempt;
        attempt.is_none_or(|id| history.reads(id).any(|read| read.covers(key)))
    };
    let is_blind = first.how == How::Set && second.how == How::Set && !looked(one) && !looked(two);
    let differs = first.after != second.after;
    if !is_blind || !differs || !focus.saw(history, key, two) {
        return None;
    }
    let text = history.key_text(key);
    let place = |id: CommittedId| {
        let attempt = history.committed(id).attempt;
        history.at_place(attempt.and_then(|attempt| history.writer(attempt, key)))
    };
    Some(Candidate {
        finding: Finding {
            name: "key-of-two-clients",
            sentence: format!(
                "{} wrote {text}{}, and {} wrote over it{}; neither had looked whether it was there.",
                capital(&history.author(one)),
                place(one),
                history.author(two),
                place(two),
            ),
            proof: vec![
                committed(one, history.change_text(key, first)),
                committed(two, history.change_text(key, second)),
            ],
            advice: "If each of them was to have a key of its own: build keys from tuples, whose \
                     elements cannot run together, and of ids that are unique."
                .to_owned(),
            times: 1,
        },
        weight: super::LAST_RESORT - 1,
        keys: vec![key.to_vec()],
        commits: vec![one, two],
    })
}
