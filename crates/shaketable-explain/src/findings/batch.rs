//! A commit version that was taken for a number of one's own.
//!
//! A client learns the version of its commit, and it looks like a unique and growing number. But a
//! cluster commits in batches, and all transactions of a batch have one version: two clients that
//! make a key of it have the same key.

use super::Candidate;
use super::doubt::capital;
use crate::Finding;
use crate::focus::Focus;
use crate::history::{History, How};
use crate::words::committed;
use shaketable_record::CommittedId;
use std::collections::BTreeMap;

/// The commits of each version.
type Batches = BTreeMap<i64, Vec<CommittedId>>;

pub fn find(history: &History<'_>, _focus: &Focus<'_>) -> Vec<Candidate> {
    let mut batches = Batches::new();
    for (id, committed) in (0..).zip(&history.record.committed) {
        if committed.attempt.is_some() {
            batches.entry(committed.version).or_default().push(id);
        }
    }
    batches.retain(|_, commits| commits.len() > 1);
    if batches.is_empty() {
        return Vec::new();
    }
    let attempts = history.attempts();
    let landed = attempts.filter_map(|(id, _)| history.landed(id));
    landed
        .filter_map(|landed| same_version(history, &batches, landed))
        .collect()
}

/// A row of another client that this commit wrote over, under a version that both had been given.
fn same_version(
    history: &History<'_>,
    batches: &Batches,
    landed: CommittedId,
) -> Option<Candidate> {
    let own = history.client_of(landed);
    let written = history.keys_of(landed);
    let replaced = written.iter().filter(|(_, change)| {
        change.how == How::Set && change.before.is_some() && change.before != change.after
    });
    let (key, change, before, first, second) = replaced.into_iter().find_map(|(key, change)| {
        let mut earlier = history.changes(key).iter();
        let before = earlier.rfind(|other| other.committed < landed)?;
        let other = history.client_of(before.committed);
        let given = versions_in(key, &history.key_text(key)).find_map(|version| {
            let batch = batches.get(&version)?;
            let of = |client| {
                let mut batch = batch.iter().copied();
                batch.find(|id| history.client_of(*id) == client && *id < before.committed)
            };
            Some((of(other)?, of(own)?))
        });
        let (first, second) = given.filter(|_| other != own)?;
        Some((*key, *change, before, first, second))
    })?;
    let (version, text) = (history.version_of(first), history.key_text(key));
    let (one, two) = (history.author(before.committed), history.author(landed));
    let writer = history.committed(landed).attempt;
    let writer = writer.and_then(|attempt| history.writer(attempt, key));
    Some(Candidate {
        finding: Finding {
            name: "same-commit-version",
            sentence: format!(
                "The commits of {one} and {two} have the same version, {version}: they were made in \
                 one batch. Both made the key {text} of it, and {two} wrote over the row of {one}{}.",
                history.at_place(writer),
            ),
            proof: vec![
                committed(
                    first,
                    format!("{} commits: version {version}", capital(&one)),
                ),
                committed(
                    second,
                    format!("{} commits: version {version} too", capital(&two)),
                ),
                committed(before.committed, history.change_text(key, before)),
                committed(landed, history.change_text(key, change)),
            ],
            advice: "A commit version belongs to all transactions of its batch. Let the database \
                     write a versionstamp, which has the place in the batch as well, or add \
                     something of the client's own."
                .to_owned(),
            times: 1,
        },
        weight: 94,
        keys: vec![key.to_vec()],
        commits: vec![before.committed, landed],
    })
}

/// The numbers in a key that may be versions: in digits, or as eight bytes.
fn versions_in<'k>(key: &'k [u8], text: &'k str) -> impl Iterator<Item = i64> + 'k {
    let words = text.split(|letter: char| !letter.is_ascii_digit());
    let digits = words.filter_map(|word| word.parse().ok());
    let eight = key.windows(8).filter_map(|bytes| bytes.try_into().ok());
    let bytes = eight.flat_map(|bytes| [i64::from_be_bytes(bytes), i64::from_le_bytes(bytes)]);
    digits.chain(bytes)
}
