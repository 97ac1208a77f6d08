//! Locks and leases that were lost, and clients that had not noticed.
//!
//! A lock is taken in one transaction and relied on in a later one. If another client has taken it
//! over by then, the later one must not write, nor release it, nor renew it: it has to look.

use super::super::Candidate;
use super::super::doubt::capital;
use super::{Step, has_number};
use crate::Finding;
use crate::history::{Change, History, How, written};
use crate::words::{committed, value_text};
use shaketable_record::{Call, CommittedId, PlaceId};
use std::collections::{BTreeMap, BTreeSet};

/// The keys that each line writes, over the whole run: a line that only ever writes one key may be
/// the one that takes a lock.
pub(super) struct Locks<'a>(BTreeMap<PlaceId, BTreeSet<&'a [u8]>>);

impl<'a> Locks<'a> {
    pub(super) fn new(history: &History<'a>) -> Locks<'a> {
        let mut lines: BTreeMap<PlaceId, BTreeSet<&'a [u8]>> = BTreeMap::new();
        for operation in &history.record.operations {
            if let (Some(place), Call::Set { key, .. }) = (operation.place, &operation.call) {
                lines.entry(place).or_default().insert(key.kept());
            }
        }
        Locks(lines)
    }

    fn is_lock(&self, place: Option<PlaceId>) -> bool {
        place
            .and_then(|place| self.0.get(&place))
            .is_none_or(|keys| keys.len() == 1)
    }
}

impl Step<'_, '_> {
    /// The first step took or wrote something that the second one relied on.
    pub(super) fn lock(&self, locks: &Locks<'_>, keys: &[(&[u8], &Change)]) -> Option<Candidate> {
        let history = self.history;
        let first_landed = history.landed(self.first)?;
        let mut found = None;
        for (lock, taken) in history.keys_of(first_landed) {
            let looked = history.reads(self.first).any(|read| read.covers(lock));
            let looks_again = history.reads(self.second).any(|read| read.covers(lock));
            // What was cleared can be half of something as well, but nothing to hold.
            let is_step = taken.how == How::Set || (taken.how == How::Clear && !looked);
            if !is_step || looks_again {
                continue;
            }
            let other = match looked {
                true => self.between(lock, history.version_of(first_landed)),
                false => self.replaced(lock, first_landed, keys),
            };
            let Some(other) = other else {
                continue;
            };
            let own = history.attempt(self.second).client;
            let is_named = |(key, change): &(&[u8], &Change)| {
                let text = history.key_text(key);
                let mut drawn = history.changes(lock).iter().filter(|drawn| {
                    let author = history.committed(drawn.committed).attempt;
                    author.is_some_and(|id| history.attempt(id).client == own)
                });
                let is_it = |drawn: &Change| {
                    let number = drawn.after.as_ref().map(value_text);
                    number.is_some_and(|number| has_number(&text, &number))
                };
                change.before.is_none() && drawn.any(is_it)
            };
            // A number that was drawn, and has a row of its own: there is nothing to hold.
            if keys.iter().any(is_named) {
                continue;
            }
            let writer = history.writer(self.first, lock);
            let lock_text = history.key_text(lock);
            let is_lock = locks.is_lock(writer.and_then(|id| history.operation(id).place));
            let mut proof = vec![
                committed(first_landed, history.change_text(lock, taken)),
                committed(other.committed, history.change_text(lock, other)),
            ];
            let (who, whom) = (
                capital(&history.who(self.second)),
                history.author(other.committed),
            );
            if let Some((_, release)) = keys.iter().find(|(key, _)| *key == lock) {
                // Free, or its own again by now: no other holder loses it.
                let lost = release.before.is_some() && release.before != taken.after;
                if !lost {
                    continue;
                }
                if release.after.is_some() {
                    let back = || self.taken_back(keys, first_landed, (lock, taken), release);
                    found = found.or_else(|| back().filter(|_| is_lock && looked));
                    continue;
                }
                proof.push(committed(self.landed, history.change_text(lock, release)));
                return Some(Candidate {
                    keys: vec![lock.to_vec()],
                    commits: vec![self.landed, other.committed],
                    weight: 92 - self.distance,
                    finding: Finding {
                        name: "lock-released-by-past-holder",
                        sentence: format!(
                            "{who} set {lock_text}{}, {whom} replaced it, and then {} cleared it{} \
                             without a look at whose it was.",
                            history.at_place(writer),
                            history.who(self.second),
                            history.at_place(history.writer(self.second, lock)),
                        ),
                        proof,
                        advice:
                            "Read the lock in the transaction that releases it, and clear it only \
                                 if it is still your own."
                                .to_owned(),
                        times: 1,
                    },
                });
            }
            // What decides a check was written by this step: it has to have a key of its own.
            let (written, change) = keys.iter().find(|(key, _)| self.focus.touches(key))?;
            proof.push(committed(self.landed, history.change_text(written, change)));
            let text = history.key_text(written);
            let place = history.at_place(history.writer(self.second, written));
            let all = keys.iter().map(|(key, _)| key.to_vec());
            if is_lock && !self.focus.touches(lock) {
                return Some(Candidate {
                    keys: all.collect(),
                    commits: vec![self.landed],
                    weight: 84 - self.distance,
                    finding: Finding {
                        name: "wrote-after-losing-lock",
                        sentence: format!(
                            "{who} took {lock_text}{}, {whom} took it over, and then {} wrote {text}{place} \
                             as if it still held it.",
                            history.at_place(writer),
                            history.who(self.second),
                        ),
                        proof,
                        advice: "Make the lock a fencing token: read it in the transaction that writes, \
                                 and write only if it is still your own. A clock proves nothing."
                            .to_owned(), times: 1,
                    },
                });
            }
            let together = self.focus.touches(lock);
            if !together || !self.belong_together((lock, taken), (written, change)) {
                continue;
            }
            return Some(Candidate {
                keys: all.chain([lock.to_vec()]).collect(),
                commits: vec![self.landed, first_landed, other.committed],
                // If it had not looked, the failed phase saw both, and they are of two clients.
                weight: if looked { 70 } else { 80 } - self.distance,
                finding: Finding {
                    name: "split-transaction",
                    sentence: format!(
                        "{who} wrote {lock_text}{} and {text}{place} in two transactions, and {whom} \
                         changed {lock_text} in between.",
                        history.at_place(writer),
                    ),
                    proof,
                    advice: "Write what belongs together in one transaction.".to_owned(),
                    times: 1,
                },
            });
        }
        found
    }

    /// Whether what two steps wrote may be two halves of one thing, rather than two things of one
    /// kind, or of two different ids.
    fn belong_together(
        &self,
        (one, first): (&[u8], &Change),
        (two, second): (&[u8], &Change),
    ) -> bool {
        let content = |change: &Change| change.after.clone().filter(|value| !value.is_empty());
        if content(first).is_some() && content(first) == content(second) {
            return true;
        }
        let history = self.history;
        let (one, two) = (history.key_text(one), history.key_text(two));
        let kind = |text: &str| text.replace(|letter: char| letter.is_ascii_digit(), "");
        let (ids, others) = (numbers(&one), numbers(&two));
        let other_id = !ids.is_empty() && !others.is_empty() && ids.is_disjoint(&others);
        kind(&one) != kind(&two) && !other_id && !self.is_the_same_code()
    }

    /// Whether a line wrote in both steps.
    fn is_the_same_code(&self) -> bool {
        let history = self.history;
        let lines = |id| {
            let calls = history.operations_of(id).iter();
            let calls = calls.map(|id| history.operation(*id));
            let writes = calls.filter(|operation| written(&operation.call).is_some());
            writes
                .filter_map(|operation| operation.place)
                .collect::<BTreeSet<_>>()
        };
        !lines(self.first).is_disjoint(&lines(self.second))
    }

    /// A lock that another client had taken over is written again as one's own, without a look.
    fn taken_back(
        &self,
        keys: &[(&[u8], &Change)],
        first_landed: CommittedId,
        (lock, taken): (&[u8], &Change),
        back: &Change,
    ) -> Option<Candidate> {
        let history = self.history;
        let mut earlier = history.changes(lock).iter();
        let other = earlier.rfind(|change| change.committed < self.landed)?;
        if history.client_of(other.committed) == history.attempt(self.second).client {
            return None;
        }
        let (who, whom) = (history.who(self.second), history.author(other.committed));
        let text = history.key_text(lock);
        Some(Candidate {
            keys: keys.iter().map(|(key, _)| key.to_vec()).collect(),
            commits: vec![self.landed, other.committed],
            weight: 84 - self.distance,
            finding: Finding {
                name: "wrote-after-losing-lock",
                sentence: format!(
                    "{} took {text}{}, {whom} took it over, and then {who} wrote it again{} without \
                     a look at whose it was.",
                    capital(&who),
                    history.at_place(history.writer(self.first, lock)),
                    history.at_place(history.writer(self.second, lock)),
                ),
                proof: vec![
                    committed(first_landed, history.change_text(lock, taken)),
                    committed(other.committed, history.change_text(lock, other)),
                    committed(self.landed, history.change_text(lock, back)),
                ],
                advice:
                    "Read a lock or lease in the transaction that renews it, and renew it only \
                         if it is still your own."
                        .to_owned(),
                times: 1,
            },
        })
    }

    /// The change of a key by another client that the failed phase saw beside what the second step
    /// wrote: the two belong together, and are of two clients.
    fn replaced(
        &self,
        key: &[u8],
        first_landed: CommittedId,
        keys: &[(&[u8], &Change)],
    ) -> Option<&Change> {
        let history = self.history;
        let saw = |(key, _): &(&[u8], &Change)| self.focus.saw(history, key, self.landed);
        if !self.focus.touches(key) || !keys.iter().any(saw) {
            return None;
        }
        let own = history.attempt(self.second).client;
        history.changes(key).iter().find(|change| {
            let author = history.committed(change.committed).attempt;
            let of_other = author.is_some_and(|id| history.attempt(id).client != own);
            of_other
                && change.committed > first_landed
                && change.committed < self.landed
                && self.focus.saw(history, key, change.committed)
        })
    }
}

/// The numbers in a text.
fn numbers(text: &str) -> BTreeSet<&str> {
    let words = text.split(|letter: char| !letter.is_ascii_digit());
    words.filter(|word| !word.is_empty()).collect()
}
