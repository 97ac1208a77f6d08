//! What committed, in commit order, as the engine knows it.
//!
//! A commit proxy records a transaction when the resolvers have accepted it, before it goes to the
//! logs: from then on it may commit. It does unless its generation ends first. The recovery that
//! ends the generation knows up to which version the logs have kept everything, and what the
//! generation had recorded beyond that never happened. So the order of recording does not matter,
//! only versions do.

use crate::proto::{CommitTransaction, KeyRange, Version, Versionstamp};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// The history of one cluster. Cheap to clone: clones share the same history.
#[derive(Clone, Debug, Default)]
pub struct History(Rc<RefCell<Account>>);

#[derive(Debug, Default)]
struct Account {
    /// The generation that accepted it, by the version it began with, and the transaction.
    accepted: VecDeque<(Version, Committed)>,
    /// How many bytes the keys and values of these have.
    bytes: usize,
    bounds: Option<Bounds>,
    left_out: u64,
    /// The version that a generation began with, and the last one that it found in the logs of the
    /// generations before it.
    recoveries: BTreeMap<Version, Version>,
}

/// How much a history keeps. The oldest goes first.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// How many transactions.
    pub transactions: usize,
    /// How many bytes of keys and values.
    pub bytes: usize,
}

/// How far the versions of two transactions may be apart that were accepted in the other order: the
/// window of versions in which a commit must happen.
const DISORDER_VERSIONS: Version = 5_000_000;

/// A transaction that committed.
#[derive(Clone, Debug)]
pub struct Committed {
    /// Version and position.
    pub stamp: Versionstamp,
    /// What it read and wrote, with versionstamps filled in.
    pub transaction: CommitTransaction,
}

impl History {
    /// A history that forgets what is old when it would keep more than this.
    pub fn bounded(bounds: Bounds) -> History {
        let history = History::default();
        history.0.borrow_mut().bounds = Some(bounds);
        history
    }

    /// How many transactions it has forgotten.
    pub fn left_out(&self) -> u64 {
        self.0.borrow().left_out
    }

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
        let account = &mut *self.0.borrow_mut();
        account.accepted.push_back((generation, committed));
        let Some(bounds) = account.bounds else {
            return;
        };
        account.bytes += transaction.bytes();
        while account.accepted.len() > bounds.transactions || account.bytes > bounds.bytes {
            let Some((_, forgotten)) = account.accepted.pop_front() else {
                break;
            };
            account.bytes -= forgotten.transaction.bytes();
            account.left_out += 1;
        }
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
        let mut committed: Vec<Committed> = account
            .accepted
            .iter()
            .filter(|accepted| account.has_survived(accepted))
            .map(|(_, committed)| committed.clone())
            .collect();
        committed.sort_by_key(|committed| committed.stamp);
        committed
    }

    /// The first transaction after `read_version`, of those accepted so far, that wrote into one of
    /// the ranges: with which range, and its stamp. A transaction that has read these ranges at
    /// that version conflicts with it.
    pub fn first_writer(
        &self,
        read_version: Version,
        ranges: &[KeyRange],
    ) -> Option<(Versionstamp, KeyRange)> {
        let account = self.0.borrow();
        let recent = account.accepted.iter().rev();
        recent
            .take_while(|(_, one)| one.stamp.version > read_version - DISORDER_VERSIONS)
            .filter(|accepted| {
                accepted.1.stamp.version > read_version && account.has_survived(accepted)
            })
            .filter_map(|(_, one)| {
                let written = &one.transaction.write_conflict_ranges;
                let touched = ranges.iter().find(|range| {
                    let mut written = written.iter();
                    written.any(|other| range.begin < other.end && other.begin < range.end)
                });
                Some((one.stamp, touched?))
            })
            .min_by_key(|(stamp, _)| *stamp)
            .map(|(stamp, range)| (stamp, range.clone()))
    }
}

impl Account {
    /// Whether no recovery has undone it.
    fn has_survived(&self, (generation, committed): &(Version, Committed)) -> bool {
        let mut later = self.recoveries.range(generation + 1..);
        later.all(|(_, recovery_version)| committed.stamp.version <= *recovery_version)
    }
}

impl CommitTransaction {
    /// The size of its keys and values.
    fn bytes(&self) -> usize {
        let mutations = self.mutations.iter();
        let mutations = mutations.map(|mutation| mutation.param1.len() + mutation.param2.len());
        let ranges = [&self.read_conflict_ranges, &self.write_conflict_ranges];
        let ranges = ranges.into_iter().flatten();
        let ranges = ranges.map(|range| range.begin.len() + range.end.len());
        mutations.sum::<usize>() + ranges.sum::<usize>()
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

    fn range(begin: &'static str, end: &'static str) -> KeyRange {
        KeyRange {
            begin: begin.into(),
            end: end.into(),
        }
    }

    fn accept(history: &History, version: Version, written: KeyRange) {
        let transaction = CommitTransaction {
            write_conflict_ranges: vec![written],
            ..CommitTransaction::default()
        };
        let stamp = Versionstamp {
            version,
            batch_index: 0,
        };
        history.accept(1, stamp, &transaction);
    }

    #[test]
    fn the_first_writer_after_a_version_is_found() {
        let history = History::default();
        accept(&history, 30, range("b", "c"));
        accept(&history, 20, range("b", "c"));
        accept(&history, 10, range("b", "c"));
        accept(&history, 15, range("x", "y"));
        let reads = [range("a", "aa"), range("bb", "d")];
        let found = history.first_writer(10, &reads);
        assert_eq!(
            found.map(|(stamp, range)| (stamp.version, range)),
            Some((20, range("bb", "d")))
        );
        assert!(history.first_writer(30, &reads).is_none());
    }

    #[test]
    fn a_bounded_history_forgets_what_is_old() {
        let history = History::bounded(Bounds {
            transactions: 10,
            bytes: 6,
        });
        for version in 1..=5 {
            accept(&history, version, range("b", "c"));
        }
        let kept = history.committed();
        let versions: Vec<Version> = kept.iter().map(|one| one.stamp.version).collect();
        assert_eq!(versions, [3, 4, 5]);
        assert_eq!(history.left_out(), 2);
    }
}
