//! The families of mistakes, and which of them is most likely the cause.
//!
//! Each family looks for one kind of mistake in the whole record and returns a [`Candidate`] for
//! every instance it can prove. A candidate that changed nothing the failed phase had read cannot
//! be its cause and is left out. Of each name the instance that the failure speaks of comes first,
//! and then the one that happened first. Families are ordered by weight, from what makes the failed
//! look itself wrong to what merely may have mattered:
//!
//! | weight | what it means |
//! |---|---|
//! | above 100 | the failed phase itself read wrongly: a part of a range, several moments, the past |
//! | 90 to 100 | commits that no serial order explains, or an effect that was certainly made twice |
//! | 60 to 89 | steps that belong together and came apart, with another client's commit in between |
//! | 50 to 59 | true, and a cause only if nothing else is |
//! | below 50 | told only if there is nothing else |
//!
//! If the failed phase saw exactly what a candidate's commits had written, that adds to its weight.

mod attempts;
mod batch;
mod clear;
mod collision;
mod died;
mod doubt;
mod nested;
mod own_writes;
mod scan;
mod snapshot;
mod split;
mod swallowed;
mod taken;
mod unrecognised;
mod version;
mod watch;

pub use died::deaths;
pub use doubt::capital;
pub use scan::not_continued;

use crate::focus::Focus;
use crate::history::History;
use crate::words::value_text;
use crate::{Finding, Proof};
use shaketable_record::CommittedId;
use std::collections::{BTreeMap, BTreeSet};

/// What weighs less is told only if there is nothing else.
const LAST_RESORT: u32 = 50;

/// An instance of a mistake.
pub struct Candidate {
    pub finding: Finding,
    /// How likely its family is the cause, if there is an instance at all.
    pub weight: u32,
    /// The keys that are wrong because of it.
    pub keys: Vec<Vec<u8>>,
    /// The commits that took part.
    pub commits: Vec<CommittedId>,
}

/// All findings, the most likely cause first.
pub fn find(history: &History<'_>, focus: &Focus<'_>) -> Vec<Finding> {
    let families: [fn(&History<'_>, &Focus<'_>) -> Vec<Candidate>; 16] = [
        scan::find,
        version::find,
        snapshot::find,
        attempts::find,
        doubt::find,
        unrecognised::find,
        own_writes::find,
        batch::find,
        watch::find,
        nested::find,
        split::find,
        taken::find,
        clear::find,
        died::find,
        swallowed::find,
        collision::find,
    ];
    let candidates = families.iter().flat_map(|find| find(history, focus));
    let mut best: BTreeMap<&str, (u32, (u32, u32), Candidate)> = BTreeMap::new();
    let mut instances: BTreeMap<&str, BTreeSet<Vec<CommittedId>>> = BTreeMap::new();
    for candidate in candidates {
        if !focus.reads.is_empty() && !candidate.keys.iter().any(|key| focus.touches(key)) {
            continue;
        }
        // What committed after the last look was not seen.
        let later = |commit: &CommittedId| {
            let version = history.version_of(*commit);
            focus.version().is_some_and(|last| version > last)
        };
        if candidate.commits.iter().any(later) {
            continue;
        }
        let name = candidate.finding.name;
        instances
            .entry(name)
            .or_default()
            .insert(candidate.commits.clone());
        let (seen, mentioned) = evidence(history, focus, &candidate);
        let weight = candidate.weight + 4 * seen + mentioned;
        let tells = (mentioned, weight);
        match best.get_mut(name) {
            Some((heaviest, known, shown)) => {
                *heaviest = weight.max(*heaviest);
                if tells > *known {
                    (*known, *shown) = (tells, candidate);
                }
            }
            None => {
                best.insert(name, (weight, tells, candidate));
            }
        }
    }
    let mut found: Vec<(u32, Candidate)> = best
        .into_values()
        .map(|(weight, _, candidate)| (weight, candidate))
        .collect();
    found.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    let is_proper = |candidate: &Candidate| candidate.weight >= LAST_RESORT;
    if found.iter().any(|(_, candidate)| is_proper(candidate)) {
        found.retain(|(_, candidate)| is_proper(candidate));
    }
    let finished = |(_, candidate): (u32, Candidate)| {
        let mut finding = candidate.finding;
        finding.times = u32::try_from(instances[finding.name].len()).unwrap_or(u32::MAX);
        let time = |proof: &Proof| proof.at.time(history.record).unwrap_or(0.0);
        finding
            .proof
            .sort_by(|one, two| time(one).total_cmp(&time(two)));
        finding
    };
    found.into_iter().map(finished).collect()
}

/// What speaks for this instance beside its family: how many keys, up to two, the failed phase saw
/// as its commits left them, and how much the failure's own words speak of them.
fn evidence(history: &History<'_>, focus: &Focus<'_>, candidate: &Candidate) -> (u32, u32) {
    let keys: BTreeSet<&Vec<u8>> = candidate.keys.iter().collect();
    let seen = keys.iter().filter(|key| {
        let commits = candidate.commits.iter();
        commits
            .clone()
            .any(|commit| focus.saw(history, key, *commit))
    });
    let seen = u32::try_from(seen.take(2).count()).expect("two at most");
    let mentioned = candidate
        .keys
        .iter()
        .filter(|key| focus.touches(key))
        .map(|key| {
            let values = candidate.commits.iter().filter_map(|commit| {
                let changes = history.changes(key).iter();
                let mut own = changes.filter(|change| change.committed == *commit);
                own.find_map(|change| change.after.as_ref())
            });
            let value = values.map(|value| focus.mentions(&value_text(value))).max();
            focus
                .mentions(&history.key_text(key))
                .max(value.unwrap_or(0))
        });
    (seen, mentioned.max().unwrap_or(0))
}
