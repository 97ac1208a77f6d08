//! What became of commits whose results were unknown, as far as later reads tell.
//!
//! The known commits, replayed in order, predict what every read should have seen. If a commit of
//! unknown result makes predictions come true that fail without it, it had landed; if it makes true
//! ones fail wherever it is put in, it was lost; if it makes no difference, its fate stays unknown. Where
//! several such commits wrote the same keys, one alone may make no difference: then the smallest
//! set of them is looked for that does, and believed only if no other set does as well. Commits that
//! add the same to the same key are all alike: a read may tell how many of them landed, and not
//! which. Then the first ones are taken for it, and counted as alike.
//!
//! A key with a versionstamp needs no replay: the row is there, or not, and has its version in it.
//!
//! Here is the reasoning. `looks` is everything that was read, compared with what is predicted;
//! `stamps` finds rows with versionstamps.

mod looks;
mod stamps;

use crate::atomic;
use looks::{Looks, keys_of, touches};
use shaketable_record::{AttemptId, Mutation, Record};
use stamps::{complete, stamp_of};
use std::collections::BTreeSet;

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
