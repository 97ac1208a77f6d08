//! Serializability, in the order of the history.
//!
//! One walk through the history keeps the database of each moment as a [`Model`]. On its way it
//! meets each attempt twice: at its read version, where all its reads must hold, and, if it
//! committed, at its place in the order, where all reads except snapshot reads must hold again.
//! There its calls, applied to the map one after the other, must also leave what its mutations
//! leave.

use super::model::{Changes, Model};
use super::{Committed, Fates, Observation, Outcome, Proof, Step, Violation};
use crate::proto::{Version, Versionstamp};
use std::collections::BTreeMap;

pub(super) fn verify(
    committed: &[Committed],
    fates: &Fates,
    observations: &[Observation],
) -> Result<Proof, Violation> {
    let mut proof = Proof::default();
    for observation in observations {
        let fate = fates.get(&observation.attempt).copied();
        check_outcome(observation, fate)?;
        proof.count(observation.outcome, fate.is_some());
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
            check_reads_at(&mut model, version, observation)?;
        }
        let attempt = transaction.attempt();
        let observation = attempt.and_then(|attempt| by_attempt.get(&attempt));
        let expected = match observation {
            Some(observation) => Some(replay_at_commit(&mut model, stamp, observation)?),
            None => None,
        };
        for mutation in transaction.transaction.mutations.iter().cloned() {
            model.apply(mutation, stamp);
        }
        if let (Some(observation), Some(expected)) = (observation, expected) {
            check_effect(stamp, observation, &expected, &model.changes())?;
        }
        model.keep();
    }
    readers
        .try_for_each(|(version, observation)| check_reads_at(&mut model, version, observation))?;
    Ok(proof)
}

impl Committed {
    /// The attempt that made this commit, identified by its marker.
    fn attempt(&self) -> Option<u64> {
        self.transaction
            .mutations
            .iter()
            .find_map(|m| Observation::attempt_of_marker(&m.param1))
    }
}

/// Returns where each attempt is in the history. None may be there twice.
pub(super) fn fates(committed: &[Committed]) -> Result<Fates, Violation> {
    let mut fates = Fates::new();
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
    model: &mut Model,
    version: Version,
    observation: &Observation,
) -> Result<(), Violation> {
    // What carries a stamp cannot be read before the commit, so any stamp will do.
    let stamp = Versionstamp {
        version,
        batch_index: 0,
    };
    let contradiction = replay(model, stamp, observation, |_| true).err();
    model.take_back();
    match contradiction {
        None => Ok(()),
        Some(Contradiction {
            step,
            expected,
            found,
        }) => Err(Violation::WrongRead {
            attempt: observation.attempt,
            step,
            version,
            expected,
            found,
        }),
    }
}

/// Returns what the calls of an attempt leave at the point where it committed; its reads must hold
/// there.
fn replay_at_commit(
    model: &mut Model,
    stamp: Versionstamp,
    observation: &Observation,
) -> Result<Changes, Violation> {
    let replayed = replay(model, stamp, observation, |snapshot| !snapshot);
    let left = model.changes();
    model.take_back();
    match replayed {
        Ok(()) => Ok(left),
        Err(Contradiction {
            step,
            expected,
            found,
        }) => Err(Violation::ReadChanged {
            attempt: observation.attempt,
            step,
            stamp,
            expected,
            found,
        }),
    }
}

/// Checks that an attempt's mutations leave what its calls leave.
fn check_effect(
    stamp: Versionstamp,
    observation: &Observation,
    expected: &Changes,
    found: &Changes,
) -> Result<(), Violation> {
    let keys = expected.keys().chain(found.keys());
    let Some(key) = keys
        .filter(|key| expected.get(*key) != found.get(*key))
        .min()
    else {
        return Ok(());
    };
    let show = |changes: &Changes| match changes.get(key) {
        Some(value) => format!("{key:?} = {value:?}"),
        None => format!("{key:?} as it was"),
    };
    Err(Violation::WrongEffect {
        attempt: observation.attempt,
        stamp,
        expected: show(expected),
        found: show(found),
    })
}

/// A read that did not show what it should have.
struct Contradiction {
    step: usize,
    expected: String,
    found: String,
}

/// Applies the calls of an attempt one after the other and compares reads until the first
/// contradiction. `counts` selects the reads to compare by whether they are snapshot reads.
fn replay(
    model: &mut Model,
    stamp: Versionstamp,
    observation: &Observation,
    counts: impl Fn(bool) -> bool,
) -> Result<(), Contradiction> {
    let is_blind = |step: &Step| matches!(step, Step::Read { sees_writes, .. } if !sees_writes);
    let untouched = observation
        .steps
        .iter()
        .any(is_blind)
        .then(|| model.clone());
    for (index, step) in observation.steps.iter().enumerate() {
        let Step::Read {
            read,
            snapshot,
            sees_writes,
        } = step
        else {
            model.call(step, stamp);
            continue;
        };
        if !counts(*snapshot) {
            continue;
        }
        let shown = match &untouched {
            Some(untouched) if !sees_writes => untouched,
            _ => model,
        };
        if let Some(expected) = shown.contradicts(read) {
            return Err(Contradiction {
                step: index,
                expected,
                found: format!("{read:?}"),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
