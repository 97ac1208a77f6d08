//! What became of commits whose results were unknown, as far as later reads tell.
//!
//! The known commits, replayed in order, predict what every read should have seen. If a commit of
//! unknown result makes predictions come true that fail without it, it had landed; if it makes true
//! ones fail wherever it is put in, it was lost; if it makes no difference, nobody can know. Where
//! several such commits wrote the same keys, one alone may make no difference: then the smallest
//! set of them is looked for that does, and believed only if no other set does as well. Commits that
//! add the same to the same key are all alike: a read may tell how many of them landed, and not
//! which. Then the first ones are taken for it, and counted as alike.
//!
//! A key with a versionstamp needs no replay: the row is there, or not, and has its version in it.

use crate::atomic;
use crate::history::{History, is_point};
use shaketable_record::{Answer, AttemptId, Bytes, Call, Mutation, Record};
use std::collections::{BTreeMap, BTreeSet};

/// How many commits of unknown result there were, and what was found out about them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doubts {
    /// How many had landed.
    pub landed: usize,
    /// How many of these were chosen among commits that are all alike.
    pub alike: usize,
    /// How many were lost.
    pub lost: usize,
    /// How many are still unknown.
    pub unknown: usize,
}

/// A commit that took effect.
#[derive(Clone)]
pub(super) struct Landed {
    pub(super) version: i64,
    /// When it was asked for: the order among those of the same version.
    pub(super) asked: f64,
    pub(super) attempt: AttemptId,
    pub(super) mutations: Vec<Mutation>,
}

/// A commit that may have taken effect.
#[derive(Clone)]
pub(super) struct Doubtful {
    pub(super) attempt: AttemptId,
    pub(super) asked: f64,
    pub(super) read_version: Option<i64>,
    /// When it was known that it would not land later than that: a client answers 1021 only after
    /// it has made sure.
    pub(super) settled: Option<f64>,
    pub(super) mutations: Vec<Mutation>,
}

/// More commits than this that wrote the same keys are not tried together.
const TOGETHER_MAX: usize = 8;
/// How many bytes a versionstamp has, and how many of them are the version.
const STAMP_BYTES: usize = 10;
const VERSION_BYTES: usize = 8;

/// A read of a key: what was seen of it, and at which version.
struct Look {
    version: i64,
    value: Option<Bytes>,
}

/// Everything that was read.
struct Looks {
    by_key: BTreeMap<Vec<u8>, Vec<Look>>,
    /// All rows that were ever seen.
    rows: BTreeMap<Vec<u8>, Bytes>,
    /// When attempts began, and the versions that they read at.
    versions: Vec<(f64, i64)>,
}

/// Sorts out what landed, in order, and what was lost.
pub(super) fn settle(
    record: &Record,
    mut landed: Vec<Landed>,
    mut doubtful: Vec<Doubtful>,
) -> (Vec<Landed>, Vec<AttemptId>, Doubts) {
    let keys: BTreeSet<Vec<u8>> = doubtful
        .iter()
        .flat_map(|one| keys_of(&one.mutations))
        .collect();
    let looks = Looks::new(record, &keys);
    let mut stamped = BTreeSet::new();
    for one in &mut landed {
        complete(&looks, one, &mut stamped);
    }
    sort(&mut landed);
    doubtful.sort_by(|one, two| one.asked.total_cmp(&two.asked));
    let (mut lost, mut doubts) = (Vec::new(), Doubts::default());
    // What one read settles may settle the next: until nothing changes.
    loop {
        let mut unknown = Vec::new();
        let before = doubtful.len();
        for one in doubtful {
            if let Some(version) = stamp_of(&looks, &one, &stamped) {
                let mut found = one.landed_at(version);
                complete(&looks, &mut found, &mut stamped);
                landed.push(found);
                sort(&mut landed);
                doubts.landed += 1;
                continue;
            }
            match judge(&looks, &landed, &one) {
                Judgement::Landed(version) => {
                    landed.push(one.landed_at(version));
                    sort(&mut landed);
                    doubts.landed += 1;
                }
                Judgement::Lost => {
                    lost.push(one.attempt);
                    doubts.lost += 1;
                }
                Judgement::Unknown => unknown.push(one),
            }
        }
        doubtful = unknown;
        if doubtful.len() < before && !doubtful.is_empty() {
            continue;
        }
        let mut together = together(&looks, &landed, &doubtful);
        if together.is_empty() {
            together = alike(&looks, &landed, &doubtful);
            doubts.alike += together.len();
        }
        if together.is_empty() {
            break;
        }
        for index in together.into_iter().rev() {
            let one = doubtful.remove(index);
            let version = lower_bound(&landed, &one) + 1;
            landed.push(one.landed_at(version));
            doubts.landed += 1;
        }
        sort(&mut landed);
    }
    doubts.unknown = doubtful.len();
    (landed, lost, doubts)
}

impl Doubtful {
    fn landed_at(&self, version: i64) -> Landed {
        Landed {
            version,
            asked: self.asked,
            attempt: self.attempt,
            mutations: self.mutations.clone(),
        }
    }
}

fn sort(landed: &mut [Landed]) {
    landed.sort_by(|one, two| {
        one.version
            .cmp(&two.version)
            .then(one.asked.total_cmp(&two.asked))
    });
}

enum Judgement {
    Landed(i64),
    Lost,
    Unknown,
}

/// Compares the predictions without a commit with those where it is put in.
fn judge(looks: &Looks, landed: &[Landed], one: &Doubtful) -> Judgement {
    let keys = keys_of(&one.mutations);
    let absent = looks.surprises(&keys, landed, &[]);
    let lowest = lower_bound(landed, one);
    let highest = one.settled.and_then(|time| looks.first_version_after(time));
    let highest = highest.unwrap_or(i64::MAX);
    // Only what happens to its own keys tells one place from another.
    let commits = landed
        .iter()
        .filter(|known| keys.iter().any(|key| touches(&known.mutations, key)))
        .map(|known| known.version);
    let seen = keys
        .iter()
        .flat_map(|key| looks.of(key))
        .map(|look| look.version);
    let mut places: Vec<i64> = commits
        .chain(seen)
        .filter(|version| *version > lowest)
        .chain([lowest])
        .map(|version| version + 1)
        .filter(|version| *version <= highest)
        .collect();
    places.sort_unstable();
    places.dedup();
    let best = places
        .into_iter()
        .map(|version| {
            let there = one.landed_at(version);
            (looks.surprises(&keys, landed, &[&there]), version)
        })
        .min();
    match best {
        Some((surprises, version)) if surprises < absent => Judgement::Landed(version),
        Some((surprises, _)) if surprises > absent => Judgement::Lost,
        _ => Judgement::Unknown,
    }
}

/// The commits that together, and only together, make predictions come true.
fn together(looks: &Looks, landed: &[Landed], doubtful: &[Doubtful]) -> Vec<usize> {
    for first in 0..doubtful.len() {
        let keys = keys_of(&doubtful[first].mutations);
        let group: Vec<usize> = (first..doubtful.len())
            .filter(|index| {
                let mutations = &doubtful[*index].mutations;
                keys.iter().any(|key| touches(mutations, key))
            })
            .take(TOGETHER_MAX)
            .collect();
        let keys: BTreeSet<Vec<u8>> = group
            .iter()
            .flat_map(|index| keys_of(&doubtful[*index].mutations))
            .collect();
        let tried = (0..1_u32 << group.len()).map(|set| {
            let there: Vec<Landed> = members(set, &group)
                .map(|index| {
                    let one = &doubtful[index];
                    one.landed_at(lower_bound(landed, one) + 1)
                })
                .collect();
            let there: Vec<&Landed> = there.iter().collect();
            (looks.surprises(&keys, landed, &there), set)
        });
        let tried: Vec<(usize, u32)> = tried.collect();
        let Some(least) = tried.iter().map(|(surprises, _)| *surprises).min() else {
            continue;
        };
        let mut best = tried.iter().filter(|(surprises, _)| *surprises == least);
        if let (Some((_, set)), None) = (best.next(), best.next())
            && *set != 0
        {
            return members(*set, &group).collect();
        }
    }
    Vec::new()
}

/// The first of those commits that add the same to the same key, as many as make predictions come
/// true.
fn alike(looks: &Looks, landed: &[Landed], doubtful: &[Doubtful]) -> Vec<usize> {
    let additions = doubtful.iter().flat_map(|one| &one.mutations);
    let additions = additions.filter_map(|mutation| match mutation {
        Mutation::Atomic { key, name, .. } if atomic::accumulates(name) => Some((key, mutation)),
        _ => None,
    });
    for (key, addition) in additions {
        let group: Vec<usize> = (0..doubtful.len())
            .filter(|index| doubtful[*index].mutations.contains(addition))
            .collect();
        let there: Vec<Landed> = group
            .iter()
            .map(|index| {
                let one = &doubtful[*index];
                one.landed_at(lower_bound(landed, one) + 1)
            })
            .collect();
        let there: Vec<&Landed> = there.iter().collect();
        let key = [key.kept().to_vec()];
        let tried: Vec<usize> = (0..=there.len())
            .map(|count| looks.surprises(&key, landed, &there[..count]))
            .collect();
        let Some(least) = tried.iter().min() else {
            continue;
        };
        let mut best = (0..)
            .zip(&tried)
            .filter(|(_, surprises)| *surprises == least);
        if let (Some((count, _)), None) = (best.next(), best.next())
            && count > 0
        {
            return group[..count].to_vec();
        }
    }
    Vec::new()
}

fn members(set: u32, group: &[usize]) -> impl Iterator<Item = usize> {
    let indices = group.iter().enumerate();
    indices
        .filter(move |(bit, _)| set & (1 << bit) != 0)
        .map(|(_, index)| *index)
}

/// A version that a commit is certainly not before: what it had read, or else what had been told
/// when it was asked for.
fn lower_bound(landed: &[Landed], one: &Doubtful) -> i64 {
    let told = landed.iter().filter(|known| known.asked < one.asked);
    let told = told.map(|known| known.version).max();
    one.read_version.or(told).unwrap_or(0)
}

impl Looks {
    fn new(record: &Record, keys: &BTreeSet<Vec<u8>>) -> Looks {
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
                own.extend(super::mutation(call));
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
    fn first_version_after(&self, time: f64) -> Option<i64> {
        let later = self.versions.iter().filter(|(begun, _)| *begun >= time);
        later.map(|(_, version)| *version).min()
    }

    fn of(&self, key: &[u8]) -> &[Look] {
        self.by_key.get(key).map_or(&[], Vec::as_slice)
    }

    /// How many reads of these keys saw something else than predicted.
    fn surprises<'k>(
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

fn touches(mutations: &[Mutation], key: &[u8]) -> bool {
    mutations.iter().any(|mutation| match mutation {
        Mutation::Set { key: own, .. } | Mutation::Atomic { key: own, .. } => own.kept() == key,
        Mutation::Clear { range } => crate::history::contains(range, key),
    })
}

/// The single keys that mutations write.
fn keys_of(mutations: &[Mutation]) -> Vec<Vec<u8>> {
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

/// The parts of a key with a versionstamp: what is before it, and what is after it.
fn around_stamp(key: &Bytes) -> Option<(&[u8], &[u8])> {
    let (key, offset) = key.kept().split_last_chunk::<4>()?;
    let offset = u32::from_le_bytes(*offset) as usize;
    Some((key.get(..offset)?, key.get(offset + STAMP_BYTES..)?))
}

/// The rows with a versionstamp between these parts, with their versions.
fn stamped_rows<'a>(
    looks: &'a Looks,
    before: &'a [u8],
    after: &'a [u8],
) -> impl Iterator<Item = (i64, &'a [u8], &'a Bytes)> {
    let rows = looks.rows.range(before.to_vec()..);
    rows.take_while(move |(key, _)| key.starts_with(before))
        .filter_map(move |(key, value)| {
            let stamp = key[before.len()..].first_chunk::<VERSION_BYTES>()?;
            let rest = key.get(before.len() + STAMP_BYTES..)?;
            (rest == after).then_some((i64::from_be_bytes(*stamp), key.as_slice(), value))
        })
}

/// The version of a doubtful commit, if a row with its versionstamp was seen.
fn stamp_of(looks: &Looks, one: &Doubtful, taken: &BTreeSet<Vec<u8>>) -> Option<i64> {
    let lowest = one.read_version.unwrap_or(0);
    one.mutations.iter().find_map(|mutation| match mutation {
        Mutation::Atomic { key, operand, name } if name == atomic::VERSIONSTAMPED_KEY => {
            let (before, after) = around_stamp(key)?;
            let mut rows = stamped_rows(looks, before, after);
            rows.find(|(version, key, value)| {
                *version > lowest && *value == operand && !taken.contains(*key)
            })
            .map(|(version, _, _)| version)
        }
        _ => None,
    })
}

/// Completes the keys with versionstamps of a commit, as they were seen later.
fn complete(looks: &Looks, one: &mut Landed, taken: &mut BTreeSet<Vec<u8>>) {
    for mutation in &mut one.mutations {
        let Mutation::Atomic { key, operand, name } = mutation else {
            continue;
        };
        if name != atomic::VERSIONSTAMPED_KEY {
            continue;
        }
        let Some((before, after)) = around_stamp(key) else {
            continue;
        };
        let seen = stamped_rows(looks, before, after)
            .find(|(version, key, value)| {
                *version == one.version && *value == operand && !taken.contains(*key)
            })
            .map(|(_, key, _)| key.to_vec());
        let whole = seen.unwrap_or_else(|| {
            let stamp = one.version.to_be_bytes();
            [before, &stamp, &[0, 0], after].concat()
        });
        taken.insert(whole.clone());
        *key = Bytes::whole(&whole);
    }
}
