//! Serializability, in the order that the history gives.
//!
//! One walk through the history keeps the database of each moment as a [`Model`]. On its way it meets each attempt twice:
//! at its read version, where all its reads must hold, and, if it committed, at its place in the order, where
//! those reads must hold again that are not snapshot reads. There its calls, done one after the other on the map, must also
//! leave what its mutations leave.

use super::model::Model;
use super::{Committed, Observation, Outcome, Step, Violation};
use crate::proto::{Version, Versionstamp};
use std::collections::BTreeMap;

pub(super) fn verify(
    committed: &[Committed],
    observations: &[Observation],
) -> Result<(), Violation> {
    let fates = fates(committed)?;
    for observation in observations {
        check_outcome(observation, fates.get(&observation.attempt).copied())?;
    }
    let by_attempt: BTreeMap<u64, &Observation> =
        observations.iter().map(|o| (o.attempt, o)).collect();
    let mut readers: Vec<(Version, &Observation)> = observations
        .iter()
        .filter_map(|o| o.read_version.map(|(_, _, version)| (version, o)))
        .collect();
    readers.sort_by_key(|(version, observation)| (*version, observation.attempt));
    let mut readers = readers.into_iter().peekable();

    let mut model = Model::default();
    for transaction in committed {
        let stamp = transaction.stamp;
        while let Some((version, observation)) =
            readers.next_if(|(version, _)| *version < stamp.version)
        {
            check_reads_at(&model, version, observation)?;
        }
        let mut after = model.clone();
        for mutation in transaction.transaction.mutations.iter().cloned() {
            after.apply(mutation, stamp);
        }
        let attempt = transaction
            .attempt()
            .and_then(|attempt| by_attempt.get(&attempt));
        if let Some(observation) = attempt {
            check_commit(&model, &after, stamp, observation)?;
        }
        model = after;
    }
    readers.try_for_each(|(version, observation)| check_reads_at(&model, version, observation))
}

impl Committed {
    /// Whose attempt this was, by its marker.
    fn attempt(&self) -> Option<u64> {
        self.transaction
            .mutations
            .iter()
            .find_map(|m| Observation::attempt_of_marker(&m.param1))
    }
}

/// Where each attempt is in the history.
fn fates(committed: &[Committed]) -> Result<BTreeMap<u64, Versionstamp>, Violation> {
    let mut fates = BTreeMap::new();
    for transaction in committed {
        let Some(attempt) = transaction.attempt() else {
            continue;
        };
        if let Some(first) = fates.insert(attempt, transaction.stamp) {
            return Err(Violation::CommittedTwice {
                attempt,
                first,
                second: transaction.stamp,
            });
        }
    }
    Ok(fates)
}

fn check_outcome(observation: &Observation, fate: Option<Versionstamp>) -> Result<(), Violation> {
    let attempt = observation.attempt;
    match (observation.outcome, fate) {
        (Outcome::Committed(stamp), fate) if fate != Some(stamp) => Err(Violation::LostCommit {
            attempt,
            stamp,
            found: format!("{fate:?}"),
        }),
        (Outcome::Failed(error), Some(stamp)) if !observation.outcome.is_unknown() => {
            Err(Violation::ZombieCommit {
                attempt,
                error,
                stamp,
            })
        }
        _ => Ok(()),
    }
}

fn check_reads_at(
    model: &Model,
    version: Version,
    observation: &Observation,
) -> Result<(), Violation> {
    // Nobody can read what carries a stamp before the commit, so any stamp will do.
    let stamp = Versionstamp {
        version,
        batch_index: 0,
    };
    match replay(model, stamp, observation, |_| true).1 {
        None => Ok(()),
        Some((step, expected, found)) => Err(Violation::WrongRead {
            attempt: observation.attempt,
            step,
            version,
            expected,
            found,
        }),
    }
}

fn check_commit(
    before: &Model,
    after: &Model,
    stamp: Versionstamp,
    observation: &Observation,
) -> Result<(), Violation> {
    let attempt = observation.attempt;
    let (replayed, contradiction) = replay(before, stamp, observation, |snapshot| !snapshot);
    if let Some((step, expected, found)) = contradiction {
        return Err(Violation::ReadChanged {
            attempt,
            step,
            stamp,
            expected,
            found,
        });
    }
    match replayed.first_difference(after) {
        None => Ok(()),
        Some((expected, found)) => Err(Violation::WrongEffect {
            attempt,
            stamp,
            expected,
            found,
        }),
    }
}

/// Does the calls of an attempt one after the other and compares the reads that `counts` chooses by whether they are
/// snapshot reads. Returns what is left, and the first contradiction: step, expected, found.
fn replay(
    base: &Model,
    stamp: Versionstamp,
    observation: &Observation,
    counts: impl Fn(bool) -> bool,
) -> (Model, Option<(usize, String, String)>) {
    let mut model = base.clone();
    for (index, step) in observation.steps.iter().enumerate() {
        match step {
            Step::Read {
                read,
                snapshot,
                sees_writes,
            } if counts(*snapshot) => {
                let shown = if *sees_writes { &model } else { base };
                if let Some(expected) = shown.contradicts(read) {
                    return (model, Some((index, expected, format!("{read:?}"))));
                }
            }
            _ => model.call(step, stamp),
        }
    }
    (model, None)
}

#[cfg(test)]
mod tests;
