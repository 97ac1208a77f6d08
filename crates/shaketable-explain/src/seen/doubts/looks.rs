//! Everything that was read, and how much of it was not as predicted.
//!
//! A read of a key tells its value at the version of its attempt, unless the attempt had written
//! the key itself, or the answer does not say. Commits applied in order predict the value; each
//! read that saw another one is a surprise.

use super::Landed;
use crate::atomic;
use crate::history::{History, is_point};
use crate::seen::commits;
use shaketable_record::{Answer, Bytes, Call, Mutation, Record};
use std::collections::{BTreeMap, BTreeSet};

/// A read of a key: what was seen of it, and at which version.
pub(super) struct Look {
    pub(super) version: i64,
    value: Option<Bytes>,
}

/// Everything that was read.
pub(super) struct Looks {
    by_key: BTreeMap<Vec<u8>, Vec<Look>>,
    /// All rows that were ever seen.
    pub(super) rows: BTreeMap<Vec<u8>, Bytes>,
    /// When attempts began, and the versions that they read at.
    versions: Vec<(f64, i64)>,
}

impl Looks {
    pub(super) fn new(record: &Record, keys: &BTreeSet<Vec<u8>>) -> Looks {
        let history = History::new(record);
        let mut looks = Looks {
            by_key: BTreeMap::new(),
            rows: BTreeMap::new(),
            versions: Vec::new(),
        };
        for (id, attempt) in history.attempts() {
            let Some(version) = attempt.read_version else {
                continue;
            };
            let sets_version =
                |id: &u32| matches!(history.operation(*id).call, Call::SetReadVersion(_));
            if !history.operations_of(id).iter().any(sets_version) {
                looks.versions.push((attempt.begun, version));
            }
            // An attempt sees its own writes.
            let mut own: Vec<Mutation> = Vec::new();
            for operation in history.operations_of(id) {
                let call = &history.operation(*operation).call;
                own.extend(commits::mutation(call));
                let Some(read) = history.read(*operation) else {
                    continue;
                };
                let answer = &history.operation(*operation).answer;
                if let Answer::Rows { rows, .. } = answer {
                    looks.rows.extend(
                        rows.iter()
                            .map(|(key, value)| (key.kept().to_vec(), value.clone())),
                    );
                }
                if matches!(call, Call::GetRange(call) if is_offset(call)) {
                    continue;
                }
                for key in keys.iter().filter(|key| read.covers(key)) {
                    if touches(&own, key) {
                        continue;
                    }
                    let value = match answer {
                        Answer::Value(value) => value.clone(),
                        Answer::Rows { rows, count, .. } => {
                            let row = rows
                                .iter()
                                .find(|(known, _)| known.kept() == key.as_slice());
                            if row.is_none() && rows.len() < *count as usize {
                                continue;
                            }
                            row.map(|(_, value)| value.clone())
                        }
                        _ => continue,
                    };
                    let list = looks.by_key.entry(key.clone()).or_default();
                    list.push(Look { version, value });
                }
            }
        }
        looks
    }

    /// The lowest version that an attempt that began after a moment reads at.
    pub(super) fn first_version_after(&self, time: f64) -> Option<i64> {
        let later = self.versions.iter().filter(|(begun, _)| *begun >= time);
        later.map(|(_, version)| *version).min()
    }

    pub(super) fn of(&self, key: &[u8]) -> &[Look] {
        self.by_key.get(key).map_or(&[], Vec::as_slice)
    }

    /// How many reads of these keys saw something else than predicted.
    pub(super) fn surprises<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k Vec<u8>>,
        landed: &[Landed],
        more: &[&Landed],
    ) -> usize {
        let mut commits: Vec<&Landed> = landed.iter().chain(more.iter().copied()).collect();
        commits.sort_by(|one, two| {
            one.version
                .cmp(&two.version)
                .then(one.asked.total_cmp(&two.asked))
        });
        let surprises = keys.into_iter().map(|key| {
            let mut changes: Vec<(i64, Option<Bytes>)> = Vec::new();
            let mut value: Option<Bytes> = None;
            for commit in &commits {
                if touches(&commit.mutations, key) {
                    for mutation in &commit.mutations {
                        value = applied(mutation, key, value);
                    }
                    changes.push((commit.version, value.clone()));
                }
            }
            let wrong = self.of(key).iter().filter(|look| {
                let before = changes.partition_point(|(version, _)| *version <= look.version);
                let predicted = before
                    .checked_sub(1)
                    .and_then(|last| changes[last].1.as_ref());
                predicted != look.value.as_ref()
            });
            wrong.count()
        });
        surprises.sum()
    }
}

/// Whether a range was asked for by other than its keys.
fn is_offset(call: &shaketable_record::RangeCall) -> bool {
    let plain = |selector: &shaketable_record::Selector| {
        selector.offset == 1 || (selector.offset == 0 && selector.or_equal)
    };
    !plain(&call.begin) || !plain(&call.end)
}

/// The value of a key after a mutation.
fn applied(mutation: &Mutation, key: &[u8], before: Option<Bytes>) -> Option<Bytes> {
    match mutation {
        Mutation::Set { key: own, value } if own.kept() == key => Some(value.clone()),
        Mutation::Atomic {
            key: own,
            operand,
            name,
        } if own.kept() == key => atomic::result(name, before.as_ref(), operand),
        Mutation::Clear { range } if crate::history::contains(range, key) => None,
        _ => before,
    }
}

pub(super) fn touches(mutations: &[Mutation], key: &[u8]) -> bool {
    mutations.iter().any(|mutation| match mutation {
        Mutation::Set { key: own, .. } | Mutation::Atomic { key: own, .. } => own.kept() == key,
        Mutation::Clear { range } => crate::history::contains(range, key),
    })
}

/// The single keys that mutations write.
pub(super) fn keys_of(mutations: &[Mutation]) -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = mutations
        .iter()
        .filter_map(|mutation| match mutation {
            Mutation::Set { key, .. } => Some(key.kept().to_vec()),
            Mutation::Atomic { key, name, .. } if name != atomic::VERSIONSTAMPED_KEY => {
                Some(key.kept().to_vec())
            }
            Mutation::Clear { range } if is_point(range) => Some(range.begin.kept().to_vec()),
            _ => None,
        })
        .collect();
    keys.sort();
    keys.dedup();
    keys
}
