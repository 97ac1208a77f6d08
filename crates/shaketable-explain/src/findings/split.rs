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

mod derived;
mod lock;

use super::Candidate;
use super::doubt::capital;
use crate::Finding;
use crate::focus::Focus;
use crate::history::{Change, History, How};
use crate::words::{self, call, committed, value_text};
use lock::Locks;
use shaketable_record::{AttemptId, Bytes, CommittedId};

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
        let earlier = before(history, second);
        for (index, (distance, first)) in earlier.iter().copied().enumerate() {
            let step = Step {
                history,
                focus,
                first,
                second,
                landed,
                nearer: &earlier[..index],
                // What lies further back is less likely to be meant.
                distance,
            };
            for (key, change) in &keys {
                found.extend(step.update(key, change, &keys));
                found.extend(step.overwrite(key, change));
            }
            found.extend(step.handed_on(&keys));
            found.extend(step.result(&keys));
            found.extend(step.lock(&locks, &keys));
            found.extend(step.halves(&keys));
        }
    }
    found
}

/// The attempts of the transactions of the same client before this one, in its phase, the nearest
/// first; each with how many transactions lie between.
pub(super) fn before(history: &History<'_>, second: AttemptId) -> Vec<(u32, AttemptId)> {
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

struct Step<'h, 'a> {
    history: &'h History<'a>,
    focus: &'h Focus<'a>,
    first: AttemptId,
    second: AttemptId,
    landed: CommittedId,
    /// What lies between the two, the nearest to the second first.
    nearer: &'h [(u32, AttemptId)],
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
    fn update(&self, key: &[u8], change: &Change, keys: &[(&[u8], &Change)]) -> Option<Candidate> {
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
                        (read.begin, 85)
                    }
                    _ => continue,
                }
            };
            let Some(other) = self.between(source, read.version) else {
                continue;
            };
            // A later look is what it went by.
            let looked = |(distance, id): &(u32, AttemptId)| {
                *distance < self.distance && history.reads(*id).any(|later| later.covers(source))
            };
            if self.nearer.iter().any(looked) {
                continue;
            }
            let text = history.key_text(source);
            let what = if source == key {
                "wrote it".to_owned()
            } else {
                format!("wrote the old value to {}", history.key_text(key))
            };
            let writer = history.writer(self.second, key);
            // Whatever else the transaction wrote was decided by the same look.
            let decided = keys.iter().map(|(key, _)| key.to_vec());
            let decided = decided.filter(|other| direct && other != key);
            return Some(Candidate {
                keys: [key.to_vec(), source.to_vec()]
                    .into_iter()
                    .chain(decided)
                    .collect(),
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

/// A number as it is stored: by itself, or as the only element of a tuple.
fn number(value: &Bytes) -> Option<i64> {
    let text = value_text(value);
    words::number(value).or_else(|| text.trim_matches(['(', ',', ')']).parse().ok())
}

/// By how much a commit changed a number.
fn difference(change: &Change) -> Option<i64> {
    let after = number(change.after.as_ref()?)?;
    let before = change.before.as_ref().map_or(Some(0), number)?;
    let difference = after.checked_sub(before)?;
    (difference != 0).then_some(difference)
}
