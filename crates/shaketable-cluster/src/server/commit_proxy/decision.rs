//! What becomes of each transaction of a batch, and what the logs receive.
//!
//! Batches come here in the order of their versions, so that all proxies see the same metadata at
//! the same version: first what other proxies changed since this proxy's last batch, then this
//! batch, transaction by transaction. A transaction without conflict is admitted unless a lock
//! rejects it; its mutations go to the storage servers that hold their keys at that moment.

use super::CommitProxy;
use super::resolution::combine;
use crate::data::idempotency;
use crate::error::Error;
use crate::proto::{Commit, CommitTransaction, KeyRange, Mutation, MutationKind, Value, Version};
use crate::server::conflict_set::Verdict;
use crate::server::messages::{CommitVersion, LogEntry, Payload, Resolution, Tag};
use crate::server::metadata::{Metadata, touches_metadata};
use bytes::Bytes;
use std::rc::Rc;

/// What becomes of a transaction: `Ok(None)` if it commits, otherwise the read ranges that
/// conflict, or an error.
pub(super) type Fate = Result<Option<Vec<u32>>, Error>;

/// What has been decided about a batch.
pub(super) struct Decided {
    /// What becomes of each transaction.
    pub(super) outcomes: Vec<Fate>,
    /// What the logs receive.
    pub(super) entries: Vec<LogEntry>,
    /// The coordinators that the batch chooses, if they are others than before.
    pub(super) coordinators: Option<Value>,
}

impl CommitProxy {
    /// Does everything that depends on metadata, with what others have changed before this batch.
    pub(super) fn decide_batch(
        &self,
        place: CommitVersion,
        received: Version,
        commits: Vec<Commit>,
        resolutions: Vec<Resolution>,
    ) -> Decided {
        self.apply_state_of_others(&resolutions, received, place);
        let written = commits.iter().flat_map(|one| &one.transaction.mutations);
        let changes_metadata = { written }.any(touches_metadata);
        let before = changes_metadata.then(|| self.coordinators());
        let (outcomes, entries) = self.decide(place.version, commits, resolutions);
        let coordinators = before.and_then(|before| {
            let others = self.coordinators();
            others.filter(|others| before.as_ref() != Some(others))
        });
        Decided {
            outcomes,
            entries,
            coordinators,
        }
    }

    /// Metadata that other proxies changed, after this proxy's last batch and up to the version
    /// before this one.
    fn apply_state_of_others(
        &self,
        resolutions: &[Resolution],
        received: Version,
        place: CommitVersion,
    ) {
        let mut metadata = self.metadata.borrow_mut();
        let Some(first) = resolutions.first() else {
            return;
        };
        for (batch, (version, transactions)) in first.state.iter().enumerate() {
            assert!(
                received < *version && *version <= place.previous,
                "changes of others come between two batches"
            );
            let locked = metadata.database_state().locked.is_some();
            for (index, transaction) in transactions.iter().enumerate() {
                let commits = resolutions
                    .iter()
                    .all(|other| other.state[batch].1[index].commits);
                let mutations = &transaction.mutations;
                if commits
                    && admits(&metadata, locked, transaction.lock_aware, mutations) == Ok(None)
                {
                    for mutation in mutations.iter() {
                        metadata.apply(mutation);
                    }
                }
            }
        }
    }

    /// Decides what becomes of each transaction, and what the logs receive.
    fn decide(
        &self,
        version: Version,
        commits: Vec<Commit>,
        resolutions: Vec<Resolution>,
    ) -> (Vec<Fate>, Vec<LogEntry>) {
        let mut metadata = self.metadata.borrow_mut();
        let locked = metadata.database_state().locked.is_some();
        let mutations = commits.iter().map(|one| one.transaction.mutations.len());
        let mut entries = Vec::with_capacity(mutations.sum());
        let mut outcomes = Vec::with_capacity(commits.len());
        // By the first byte of the place in the batch: they share a row.
        let mut ids: Vec<(u8, Vec<(Bytes, u8)>)> = Vec::new();
        for resolution in &resolutions {
            assert_eq!(
                resolution.verdicts.len(),
                commits.len(),
                "a verdict for each"
            );
        }
        for (index, commit) in commits.into_iter().enumerate() {
            let verdict = combine(resolutions.iter().map(|one| &one.verdicts[index]));
            let CommitTransaction {
                mutations,
                lock_aware,
                truth,
                ..
            } = commit.transaction;
            let outcome = match verdict {
                Verdict::TooOld => Err(Error::TRANSACTION_TOO_OLD),
                Verdict::Conflict(ranges) => Ok(Some(ranges)),
                Verdict::Commit => admits(&metadata, locked, lock_aware, &mutations),
            };
            if outcome == Ok(None) {
                if let Some(truth) = truth {
                    let recoveries = self.role.env().recoveries();
                    truth.note_accepted(self.spec.version, version, recoveries);
                }
                for mutation in mutations {
                    assign_tags(&mut metadata, mutation, &mut entries);
                }
                if let Some(id) = commit.idempotency_id {
                    let [high, low] = (index as u16).to_be_bytes();
                    match ids.last_mut() {
                        Some((known, ids)) if *known == high => ids.push((id, low)),
                        _ => ids.push((high, vec![(id, low)])),
                    }
                }
            }
            outcomes.push(outcome);
        }
        for (high, ids) in ids {
            let seconds = self.role.env().process().now().as_secs() as i64;
            let mutation = Mutation {
                kind: MutationKind::SetValue,
                param1: idempotency::key(version, high),
                param2: idempotency::value(seconds, &ids),
            };
            assign_tags(&mut metadata, mutation, &mut entries);
        }
        (outcomes, entries)
    }
}

/// Whether a transaction without conflict may commit, given locks.
fn admits(metadata: &Metadata, locked: bool, lock_aware: bool, mutations: &[Mutation]) -> Fate {
    if locked && !lock_aware {
        return Ok(Some(Vec::new()));
    }
    let hits_lock = |mutation: &Mutation| match mutation.kind {
        MutationKind::ClearRange => metadata.is_range_locked(&mutation.param1, &mutation.param2),
        _ => metadata.is_range_locked(&mutation.param1, &mutation.param1),
    };
    if !lock_aware && mutations.iter().any(hits_lock) {
        return Err(Error::TRANSACTION_REJECTED_RANGE_LOCKED);
    }
    Ok(None)
}

/// Adds a mutation to what the logs receive, for the storage servers that hold its keys.
pub(crate) fn assign_tags(
    metadata: &mut Metadata,
    mutation: Mutation,
    entries: &mut Vec<LogEntry>,
) {
    let changed = metadata.apply(&mutation);
    if mutation.kind == MutationKind::ClearRange {
        let range = KeyRange {
            begin: mutation.param1,
            end: mutation.param2,
        };
        for (part, team) in metadata.shards_of(&range) {
            let clipped = Mutation {
                kind: MutationKind::ClearRange,
                param1: part.begin,
                param2: part.end,
            };
            entries.push(LogEntry {
                tags: team.all.clone(),
                payload: Payload::Mutation(clipped),
            });
        }
    } else {
        let tags = metadata.team(&mutation.param1).all.clone();
        entries.push(LogEntry {
            tags,
            payload: Payload::Mutation(mutation),
        });
    }
    if let Some(range) = changed {
        let everybody: Rc<[Tag]> = metadata.servers().map(|(tag, _)| tag).collect();
        for change in metadata.shard_changes(&range) {
            entries.push(LogEntry {
                tags: everybody.clone(),
                payload: Payload::Shard(change),
            });
        }
    }
}
