//! What was read in one transaction is part of what a later one wrote, under another key.
//!
//! A row is read and handed on; a number is drawn by an addition, and read afterwards. The calls do
//! not say where a value came from, but the value does: it stands in the key or the value that was
//! written.

use super::super::Candidate;
use super::super::doubt::capital;
use super::{Step, before, has_number, number};
use crate::Finding;
use crate::history::{Change, How};
use crate::words::{call, committed, value_text};
use shaketable_record::{Answer, Bytes};

impl Step<'_, '_> {
    /// A row that the first step read and another client took away is part of what the second step
    /// wrote.
    pub(super) fn handed_on(&self, keys: &[(&[u8], &Change)]) -> Option<Candidate> {
        let history = self.history;
        // What an attempt read that was run again is forgotten.
        if history.later_attempts(self.first).next().is_some() {
            return None;
        }
        for read in history.reads(self.first) {
            let Answer::Rows { rows, .. } = &history.operation(read.operation).answer else {
                continue;
            };
            for (row, value) in rows {
                let (row, value) = (row.kept(), value.kept());
                let of_row = |(key, change): &&(&[u8], &Change)| {
                    let after = change.after.as_ref().map_or(&[][..], Bytes::kept);
                    let part = |whole: &[u8]| contains_bytes(whole, value);
                    change.how == How::Set && *key != row && (part(key) || part(after))
                };
                let looks_again = || history.reads(self.second).any(|read| read.covers(row));
                let Some((key, change)) = keys.iter().find(of_row) else {
                    continue;
                };
                let gone = |change: &&Change| change.after.is_none();
                let Some(other) = self.between(row, read.version).filter(gone) else {
                    continue;
                };
                if looks_again() {
                    continue;
                }
                let text = history.key_text(row);
                return Some(Candidate {
                    keys: vec![key.to_vec(), row.to_vec()],
                    commits: vec![self.landed, other.committed],
                    weight: 80 - self.distance,
                    finding: Finding {
                        name: "split-read-and-write",
                        sentence: format!(
                            "{} read {text} in transaction {}{}, {} cleared it, and transaction {} \
                             made {} of it{} without reading it again.",
                            capital(&history.who(self.second)),
                            history.attempt(self.first).transaction,
                            history.at_place(Some(read.operation)),
                            history.author(other.committed),
                            history.attempt(self.second).transaction,
                            history.key_text(key),
                            history.at_place(history.writer(self.second, key)),
                        ),
                        proof: vec![
                            call(read.operation, history.saw_text(row, read.version)),
                            committed(other.committed, history.change_text(row, other)),
                            committed(self.landed, history.change_text(key, change)),
                        ],
                        advice:
                            "Take a row and do what it asks for in one transaction, so that two \
                                 clients conflict on it; or claim it first."
                                .to_owned(),
                        times: 1,
                    },
                });
            }
        }
        None
    }

    /// A number that an earlier transaction had changed without reading it was read in the first
    /// step, as if it were still what that change had made of it, and became part of what the
    /// second step wrote.
    pub(super) fn result(&self, keys: &[(&[u8], &Change)]) -> Option<Candidate> {
        let history = self.history;
        let reads = history.reads(self.first).filter(|read| read.point);
        for read in reads {
            let value = history.value_at(read.begin, read.version).and_then(number);
            let Some(value) = value.map(|value| value.to_string()) else {
                continue;
            };
            let own = history.attempt(self.second).client;
            let of_own = |change: &&Change| history.client_of(change.committed) == own;
            let changes = history.changes(read.begin);
            let seen = changes
                .partition_point(|change| history.version_of(change.committed) <= read.version);
            let Some(at) = changes[..seen].iter().rposition(|change| of_own(&change)) else {
                continue;
            };
            let (drawn, Some(other)) = (&changes[at], changes[at + 1..seen].last()) else {
                continue;
            };
            let Some(author) = history.committed(drawn.committed).attempt else {
                continue;
            };
            let just_before = before(history, self.first)
                .into_iter()
                .any(|(distance, id)| id == author && distance == 0);
            let named = |(key, change): &&(&[u8], &Change)| {
                let after = change.after.as_ref().map_or(String::new(), value_text);
                *key != read.begin
                    && (has_number(&history.key_text(key), &value) || has_number(&after, &value))
            };
            let Some((key, change)) = keys.iter().find(named) else {
                continue;
            };
            if drawn.how != How::Atomic || !just_before {
                continue;
            }
            let text = history.key_text(read.begin);
            return Some(Candidate {
                keys: vec![key.to_vec(), read.begin.to_vec()],
                commits: vec![self.landed, drawn.committed, other.committed],
                weight: 83 - self.distance,
                finding: Finding {
                    name: "split-write-and-read",
                    sentence: format!(
                        "{} changed {text}{} and read the result in another transaction{}; {} had \
                         changed it in between, and {} went by {value}.",
                        capital(&history.who(self.second)),
                        history.at_place(history.writer(author, read.begin)),
                        history.at_place(Some(read.operation)),
                        history.author(other.committed),
                        history.who(self.second),
                    ),
                    proof: vec![
                        committed(drawn.committed, history.change_text(read.begin, drawn)),
                        committed(other.committed, history.change_text(read.begin, other)),
                        call(read.operation, history.saw_text(read.begin, read.version)),
                        committed(self.landed, history.change_text(key, change)),
                    ],
                    advice:
                        "Read, change and use a number in one transaction; an atomic operation \
                             does not say what it made of it."
                            .to_owned(),
                    times: 1,
                },
            });
        }
        None
    }
}

/// Values that are shorter are part of others by accident.
const PART_BYTES_MIN: usize = 4;

/// Whether one text is part of another, as a word of its own and long enough to be so for a reason.
fn contains_bytes(whole: &[u8], part: &[u8]) -> bool {
    let is_letter = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let (first, last) = (is_letter(part.first()), is_letter(part.last()));
    let is_it = |(at, window): (usize, &[u8])| {
        let before = at.checked_sub(1).and_then(|before| whole.get(before));
        let after = whole.get(at + part.len());
        window == part && !(first && is_letter(before)) && !(last && is_letter(after))
    };
    part.len() >= PART_BYTES_MIN && whole.windows(part.len()).enumerate().any(is_it)
}
