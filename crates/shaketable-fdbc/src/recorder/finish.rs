//! Joins what was kept with what committed.
//!
//! At the end the history says which commits landed, by their tags, so every attempt learns its
//! fate. Numbers become indices of the finished record: attempts are counted from the first one
//! that is kept, and operations stand in the order in which they were asked for.

use super::{KeptAttempt, Recorded, Recorder};
use crate::database::FDBDatabase;
use shaketable_cluster::proto::{Version, Versionstamp};
use shaketable_kernel::ProcessId;
use shaketable_record::{Committed, Retry};
use std::collections::BTreeMap;

impl Recorder {
    /// Everything that is kept, joined with what committed.
    pub(crate) fn finish(
        &mut self,
        client_of: impl Fn(ProcessId) -> Option<u32>,
        phase_of: impl Fn(*const FDBDatabase) -> Option<u32>,
    ) -> Recorded {
        let history = self.settings.history.committed();
        let newest = history.iter().map(|one| one.stamp.version);
        let newest = newest.chain(self.read_versions()).max().unwrap_or(0);
        // What committed and is known no more takes its attempts along: a fate must not be told
        // wrong.
        if let Some(oldest) = history
            .first()
            .filter(|_| self.settings.history.left_out() > 0)
        {
            let oldest = oldest.stamp.version;
            let may_be_older = |kept: &KeptAttempt| {
                let sent = kept.commit.as_ref().and_then(|commit| commit.sent.as_ref());
                sent.is_some_and(|sent| sent.read_version < oldest)
            };
            let last = self.attempts.iter().rposition(may_be_older);
            for _ in 0..last.map_or(0, |last| last + 1) {
                self.evict_attempt();
            }
        }
        let ids: BTreeMap<Versionstamp, u32> =
            (0..).zip(&history).map(|(i, c)| (c.stamp, i)).collect();
        let landed: BTreeMap<u64, u32> = (0..)
            .zip(&history)
            .filter_map(|(id, one)| Some((one.transaction.tag?, id)))
            .collect();
        let first = self.first;
        let attempt_id = |number: u64| {
            let id = number.checked_sub(first)?;
            Some(id as u32)
        };
        let committed = history.iter().map(|one| Committed {
            version: one.stamp.version,
            batch_index: u32::from(one.stamp.batch_index),
            attempt: one.transaction.tag.and_then(attempt_id),
            mutations: self.keep.mutations(&one.transaction.mutations),
        });
        let committed: Vec<Committed> = committed.collect();

        let mut attempts = Vec::with_capacity(self.attempts.len());
        let mut operations = Vec::with_capacity(self.operations);
        let mut commits: BTreeMap<u64, u32> = BTreeMap::new();
        for (id, kept) in (0_u32..).zip(std::mem::take(&mut self.attempts)) {
            let number = first + u64::from(id);
            let mut attempt = kept.attempt;
            attempt.client = client_of(kept.origin.process);
            attempt.phase = kept.origin.lent.and_then(&phase_of);
            attempt.retries = kept.retries.and_then(|(before, error)| {
                let attempt = attempt_id(before)?;
                Some(Retry { attempt, error })
            });
            if let Some(commit) = kept.commit {
                let operation = commit.operation.checked_sub(kept.operations_left_out);
                let operation = operation.and_then(|index| kept.operations.get(index as usize));
                if let Some(operation) = operation {
                    commits.insert(operation.sequence, id);
                    let landed = landed.get(&number).copied();
                    attempt.commit = Some(commit.finish(landed, newest, &ids, &committed));
                }
            }
            attempts.push(attempt);
            operations.extend(kept.operations.into_iter().map(|mut kept| {
                kept.operation.attempt = id;
                (kept.sequence, kept.operation)
            }));
        }
        operations.sort_by_key(|(sequence, _)| *sequence);
        for (index, (sequence, _)) in (0_u32..).zip(&operations) {
            if let Some(id) = commits.get(sequence)
                && let Some(commit) = &mut attempts[*id as usize].commit
            {
                commit.operation = index;
            }
        }
        let mut left_out = self.left_out;
        left_out.committed = self.settings.history.left_out();
        Recorded {
            attempts,
            operations: operations.into_iter().map(|(_, one)| one).collect(),
            committed,
            places: std::mem::take(&mut self.places),
            left_out,
        }
    }

    fn read_versions(&self) -> impl Iterator<Item = Version> {
        let attempts = self.attempts.iter();
        attempts.filter_map(|kept| kept.attempt.read_version)
    }
}
