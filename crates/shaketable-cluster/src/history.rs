//! What committed, in commit order, as the engine knows it.
//!
//! A commit proxy records a transaction when the resolvers have accepted it, before it goes to the
//! logs: from then on it may commit. It does unless its generation ends first. The recovery that
//! ends the generation knows up to which version the logs have kept everything, and what the
//! generation had recorded beyond that never happened. So the order of recording does not matter,
//! only versions do.

use crate::proto::{CommitTransaction, Version, Versionstamp};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The history of one cluster. Cheap to clone: clones share the same history.
#[derive(Clone, Debug, Default)]
pub struct History(Rc<RefCell<Account>>);

#[derive(Debug, Default)]
struct Account {
    /// The generation that accepted it, by the version it began with, and the transaction.
    accepted: Vec<(Version, Committed)>,
    /// The version that a generation began with, and the last one that it found in the logs of the
    /// generations before it.
    recoveries: BTreeMap<Version, Version>,
}

/// A transaction that committed.
#[derive(Clone, Debug)]
pub struct Committed {
    /// Version and position.
    pub stamp: Versionstamp,
    /// What it read and wrote. Versionstamped mutations are not filled in yet; write conflict
    /// ranges are complete.
    pub transaction: CommitTransaction,
}

impl History {
    /// Records that resolvers have accepted a transaction. `generation` is the version that their
    /// generation began with.
    pub fn accept(
        &self,
        generation: Version,
        stamp: Versionstamp,
        transaction: &CommitTransaction,
    ) {
        let committed = Committed {
            stamp,
            transaction: transaction.clone(),
        };
        self.0.borrow_mut().accepted.push((generation, committed));
    }

    /// Records that a generation has begun with a version, and that it found everything up to
    /// `recovery_version` in the logs of the generations before it. May be called more than once.
    pub fn recover(&self, generation: Version, recovery_version: Version) {
        self.0
            .borrow_mut()
            .recoveries
            .insert(generation, recovery_version);
    }

    /// How many generations have begun.
    pub fn generations(&self) -> usize {
        self.0.borrow().recoveries.len()
    }

    /// Everything that committed, in order.
    pub fn committed(&self) -> Vec<Committed> {
        let account = self.0.borrow();
        let survived = |generation: &Version, version: Version| {
            let mut later = account.recoveries.range(generation + 1..);
            later.all(|(_, recovery_version)| version <= *recovery_version)
        };
        let mut committed: Vec<Committed> = account
            .accepted
            .iter()
            .filter(|(generation, committed)| survived(generation, committed.stamp.version))
            .map(|(_, committed)| committed.clone())
            .collect();
        committed.sort_by_key(|committed| committed.stamp);
        committed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_generation_accepted_beyond_its_end_never_happened() {
        let history = History::default();
        let accept = |generation, version| {
            let stamp = Versionstamp {
                version,
                batch_index: 0,
            };
            history.accept(generation, stamp, &CommitTransaction::default());
        };
        accept(1, 20);
        accept(1, 10);
        accept(2, 100);
        history.recover(2, 15);
        accept(1, 30);
        let versions: Vec<Version> = history
            .committed()
            .iter()
            .map(|c| c.stamp.version)
            .collect();
        assert_eq!(versions, [10, 100]);
    }
}
