//! Steps that belong together, in transactions of their own, and another client in between.
//!
//! Each transaction is atomic; two of them are not. Three shapes of that:
//!
//! * a value is read in one transaction, and what is written in a later one depends on it, while
//!   another client changed it in between: a lost update, a name taken twice, a stale copy;
//! * a lock or lease is taken in one transaction, and a later one writes, or releases it, without a
//!   look at whether it is still held;
//! * two things that the failed check compares are written in two transactions, and another client
//!   changed one, or the failed check looked, in between.

use super::Candidate;
use super::doubt::capital;
use crate::Finding;
use crate::focus::Focus;
use crate::history::{Change, History, How};
use crate::words::{call, committed, value_text};
use shaketable_record::{AttemptId, Bytes, CommittedId, PlaceId};
use std::collections::{BTreeMap, BTreeSet};

/// How many transactions before a write may have been its first step.
const TRANSACTIONS_BEFORE: usize = 4;

pub fn find(history: &History<'_>, focus: &Focus<'_>) -> Vec<Candidate> {
    let locks = Locks::new(history);
    let mut found = Vec::new();
    for (second, _) in history.attempts() {
        let Some(landed) = history.landed(second) else {
            continue;
        };
        let keys = history.keys_of(landed);
        if !focus.reads.is_empty() && !keys.iter().any(|(key, _)| focus.touches(key)) {
            continue;
        }
        for (distance, first) in before(history, second) {
            let step = Step {
                history,
                focus,
                first,
                second,
                landed,
                // What lies further back is less likely to be meant.
                distance,
            };
            for (key, change) in &keys {
                found.extend(step.update(key, change));
                found.extend(step.overwrite(key, change));
            }
            found.extend(step.lock(&locks, &keys));
            found.extend(step.halves(&keys));
        }
    }
    found
}

/// The attempts of the transactions of the same client before this one, in its phase, the nearest
/// first; each with how many transactions lie between.
fn before(history: &History<'_>, second: AttemptId) -> Vec<(u32, AttemptId)> {
    let own = history.attempt(second);
    let all = history.attempts_of(own.client);
    let at = all.partition_point(|id| *id < second);
    let mut transactions: Vec<u32> = Vec::new();
    let mut found = Vec::new();
    for id in all[..at].iter().rev() {
        let attempt = history.attempt(*id);
        let over = attempt.ended.is_some_and(|ended| ended <= own.begun);
        if !over || attempt.transaction == own.transaction || attempt.phase != own.phase {
            continue;
        }
        if !transactions.contains(&attempt.transaction) {
            if transactions.len() == TRANSACTIONS_BEFORE {
                break;
            }
            transactions.push(attempt.transaction);
        }
        let distance = transactions
            .iter()
            .position(|known| *known == attempt.transaction);
        let distance = distance.and_then(|distance| u32::try_from(distance).ok());
        found.push((distance.unwrap_or(0), *id));
    }
    found
}

/// The keys that each line writes, over the whole run: a line that only ever writes one key may be
/// the one that takes a lock.
struct Locks<'a>(BTreeMap<PlaceId, BTreeSet<&'a [u8]>>);

impl<'a> Locks<'a> {
    fn new(history: &History<'a>) -> Locks<'a> {
        let mut lines: BTreeMap<PlaceId, BTreeSet<&'a [u8]>> = BTreeMap::new();
        for operation in &history.record.operations {
            if let (Some(place), shaketable_record::Call::Set { key, .. }) =
                (operation.place, &operation.call)
            {
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

struct Step<'h, 'a> {
    history: &'h History<'a>,
    focus: &'h Focus<'a>,
    first: AttemptId,
    second: AttemptId,
    landed: CommittedId,
    distance: u32,
}

impl Step<'_, '_> {
    /// A change of a key by another transaction between the two steps.
    fn between(&self, key: &[u8], after: i64) -> Option<&Change> {
        let own = self.history.attempt(self.second);
        self.history
            .changed_between(key, after, self.landed)
            .find(|change| {
                let author = self.history.committed(change.committed).attempt;
                let other = author.map(|id| self.history.attempt(id));
                other.is_none_or(|other| other.client != own.client)
                    && change.before != change.after
            })
    }

    /// What was read in the first step decided what the second one wrote.
    fn update(&self, key: &[u8], change: &Change) -> Option<Candidate> {
        let history = self.history;
        if change.how == How::ClearRange {
            return None;
        }
        // An addition needs no look at what was there; but it may have been allowed by one.
        let by_rule = if change.how == How::Atomic { 20 } else { 0 };
        let reads_again = |key: &[u8]| history.reads(self.second).any(|read| read.covers(key));
        let first = history.earlier_attempts(self.first).chain([self.first]);
        let first: Vec<AttemptId> = first.chain(history.later_attempts(self.first)).collect();
        let wrote = |key: &[u8]| {
            let landed = first.iter().filter_map(|id| history.landed(*id));
            let mut keys = landed.flat_map(|landed| history.keys_of(landed));
            keys.any(|(written, _)| written == key)
        };
        for read in history.reads(self.first) {
            let direct = read.covers(key) && !reads_again(key) && !wrote(key);
            let (source, weight) = if direct {
                (key, if read.point { 86 } else { 72 } - by_rule)
            } else {
                // Or what it wrote is what had been read elsewhere.
                let content = change.after.as_ref().filter(|value| !value.is_empty());
                let Some(value) = content else {
                    continue;
                };
                // What it wrote may as well come from its own look at the key.
                if !read.point || reads_again(read.begin) || wrote(read.begin) || reads_again(key) {
                    continue;
                }
                match history.value_at(read.begin, read.version) {
                    Some(read_value) if read_value == value && read.begin != key => {
                        (read.begin, 87)
                    }
                    _ => continue,
                }
            };
            let Some(other) = self.between(source, read.version) else {
                continue;
            };
            let text = history.key_text(source);
            let what = if source == key {
                "wrote it".to_owned()
            } else {
                format!("wrote the old value to {}", history.key_text(key))
            };
            let writer = history.writer(self.second, key);
            return Some(Candidate {
                keys: vec![key.to_vec(), source.to_vec()],
                commits: vec![self.landed, other.committed],
                weight: weight - self.distance,
                finding: Finding {
                    name: "split-read-and-write",
                    sentence: format!(
                        "{} read {text} in transaction {}{}, {} changed it, and transaction {} {what}{} \
                         without reading it again.",
                        capital(&history.who(self.second)),
                        history.attempt(self.first).transaction,
                        history.at_place(Some(read.operation)),
                        history.author(other.committed),
                        history.attempt(self.second).transaction,
                        history.at_place(writer),
                    ),
                    proof: vec![
                        call(read.operation, history.saw_text(source, read.version)),
                        committed(other.committed, history.change_text(source, other)),
                        committed(self.landed, history.change_text(key, change)),
                    ],
                    advice: "Read and write in one transaction, so that a change in between is a \
                             conflict; or read again, and compare, in the transaction that writes."
                        .to_owned(),
                    times: 1,
                },
            });
        }
        None
    }

    /// The second step writes over what another client wrote after the first step, and looked at it
    /// in neither: what it knows is what it wrote itself.
    fn overwrite(&self, key: &[u8], change: &Change) -> Option<Candidate> {
        let history = self.history;
        let first_landed = history.landed(self.first)?;
        let written = history.keys_of(first_landed);
        let (_, known) = written.iter().find(|(written, _)| *written == key)?;
        let reads = |id: AttemptId| history.reads(id).any(|read| read.covers(key));
        if change.how != How::Set || known.how != How::Set || reads(self.second) {
            return None;
        }
        let other = self.between(key, history.version_of(first_landed))?;
        let same_value = change.after == other.after || change.after == known.after;
        if other.how != How::Set || same_value {
            return None;
        }
        let text = history.key_text(key);
        Some(Candidate {
            keys: vec![key.to_vec()],
            commits: vec![first_landed, other.committed, self.landed],
            weight: 64 - self.distance,
            finding: Finding {
                name: "overwritten-unread",
                sentence: format!(
                    "{} wrote {text}{}, {} changed it, and then {} wrote over the change without \
                     reading it.",
                    capital(&history.who(self.second)),
                    history.at_place(history.writer(self.second, key)),
                    history.author(other.committed),
                    history.who(self.second),
                ),
                proof: vec![
                    committed(first_landed, history.change_text(key, known)),
                    committed(other.committed, history.change_text(key, other)),
                    committed(self.landed, history.change_text(key, change)),
                ],
                advice:
                    "What a client remembers of a key is the past: read the key in the transaction \
                         that writes it."
                        .to_owned(),
                times: 1,
            },
        })
    }

    /// The two steps change two numbers by the same amount, one up and one down, and the failed
    /// phase looked between them.
    fn halves(&self, keys: &[(&[u8], &Change)]) -> Option<Candidate> {
        let history = self.history;
        let first_landed = history.landed(self.first)?;
        let first_version = history.version_of(first_landed);
        let second_version = history.version_of(self.landed);
        // Each of them balances by itself.
        if is_balanced(&history.keys_of(first_landed)) || is_balanced(keys) {
            return None;
        }
        for (one, done) in history.keys_of(first_landed) {
            let look = self.focus.read_of(one);
            let Some(look) = look.filter(|look| first_version <= look.version) else {
                continue;
            };
            let Some(amount) = difference(done) else {
                continue;
            };
            let balances = |(key, change): &&(&[u8], &Change)| {
                let look = self.focus.read_of(key);
                look.is_some_and(|look| second_version > look.version)
                    && difference(change) == amount.checked_neg()
            };
            let Some((two, missing)) = keys.iter().find(balances) else {
                continue;
            };
            let (text, other) = (history.key_text(one), history.key_text(two));
            return Some(Candidate {
                keys: vec![one.to_vec(), two.to_vec()],
                // The second was not seen: that is the point.
                commits: vec![first_landed],
                weight: 78 - self.distance,
                finding: Finding {
                    name: "split-transaction",
                    sentence: format!(
                        "{} changed {text}{} and {other}{} by the same amount in two transactions, \
                         and {} looked in between.",
                        capital(&history.who(self.second)),
                        history.at_place(history.writer(self.first, one)),
                        history.at_place(history.writer(self.second, two)),
                        history.who(look.attempt),
                    ),
                    proof: vec![
                        committed(first_landed, history.change_text(one, done)),
                        call(look.operation, history.saw_text(two, look.version)),
                        committed(self.landed, history.change_text(two, missing)),
                    ],
                    advice: "Write what belongs together in one transaction.".to_owned(),
                    times: 1,
                },
            });
        }
        None
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

    /// The first step took or wrote something that the second one relied on.
    fn lock(&self, locks: &Locks<'_>, keys: &[(&[u8], &Change)]) -> Option<Candidate> {
        let history = self.history;
        let first_landed = history.landed(self.first)?;
        for (lock, taken) in history.keys_of(first_landed) {
            let looked = history.reads(self.first).any(|read| read.covers(lock));
            let looks_again = history.reads(self.second).any(|read| read.covers(lock));
            if taken.how != How::Set || looks_again {
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
                if release.after.is_some() || !lost {
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
            if !together {
                continue;
            }
            return Some(Candidate {
                keys: all.chain([lock.to_vec()]).collect(),
                commits: vec![self.landed, first_landed, other.committed],
                weight: 70 - self.distance,
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
        None
    }
}

/// Whether a commit changes two numbers by the same amount, one up and one down.
fn is_balanced(keys: &[(&[u8], &Change)]) -> bool {
    let differences: Vec<i64> = keys.iter().filter_map(|(_, one)| difference(one)).collect();
    let mut opposites = differences.iter().filter_map(|one| one.checked_neg());
    opposites.any(|opposite| differences.contains(&opposite))
}

/// Whether a text has this number as a word.
fn has_number(text: &str, number: &str) -> bool {
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number
        && text
            .split(|c: char| !c.is_ascii_digit())
            .any(|word| word == number)
}

/// By how much a commit changed a number.
fn difference(change: &Change) -> Option<i64> {
    let number = |value: &Bytes| value_text(value).parse::<i64>().ok();
    let after = number(change.after.as_ref()?)?;
    let before = change.before.as_ref().map_or(Some(0), number)?;
    let difference = after.checked_sub(before)?;
    (difference != 0).then_some(difference)
}
