//! What really became of one commit, whether or not its client ever learns it.
//!
//! A [`CommitTruth`] travels with the commit. The commit proxy notes in it that the resolvers have
//! accepted the transaction, with its version: from then on it commits unless its generation ends
//! first. The recovery that ends the generation says up to which version the logs have kept
//! everything. A history knows the same about everything that committed; this is for those who ask
//! about few commits and cannot pay for all.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Messages carry what is defined here, so it is defined without them.
type Version = i64;

/// What becomes of one commit. Cheap to clone: clones are about the same commit.
#[derive(Clone, Debug, Default)]
pub struct CommitTruth(Rc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    sent: Cell<Sent>,
    accepted: RefCell<Option<Accepted>>,
}

/// Whether a commit was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sent {
    /// No, or not yet.
    #[default]
    Nothing,
    /// Yes, and it depends on nothing.
    Blind,
    /// Yes, and it depends on what it has read.
    WithReads,
}

#[derive(Debug)]
struct Accepted {
    /// The version that the generation of the proxy began with.
    generation: Version,
    version: Version,
    recoveries: Recoveries,
}

/// The recoveries of a cluster: the version that a generation began with, and the last one that it
/// found in the logs of the generations before it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recoveries(Rc<RefCell<BTreeMap<Version, Version>>>);

impl Recoveries {
    /// A generation has begun. May be called more than once.
    pub(crate) fn note(&self, generation: Version, recovery_version: Version) {
        self.0.borrow_mut().insert(generation, recovery_version);
    }
}

impl CommitTruth {
    /// Whether it was sent.
    pub fn sent(&self) -> Sent {
        self.0.sent.get()
    }

    /// Whether it has committed, as far as that is settled now.
    pub fn has_landed(&self) -> bool {
        let accepted = self.0.accepted.borrow();
        accepted.as_ref().is_some_and(|accepted| {
            let recoveries = accepted.recoveries.0.borrow();
            let mut later = recoveries.range(accepted.generation + 1..);
            later.all(|(_, recovery_version)| accepted.version <= *recovery_version)
        })
    }

    pub(crate) fn note_sent(&self, has_reads: bool) {
        self.0.sent.set(match has_reads {
            true => Sent::WithReads,
            false => Sent::Blind,
        });
    }

    pub(crate) fn note_accepted(
        &self,
        generation: Version,
        version: Version,
        recoveries: &Recoveries,
    ) {
        self.0.accepted.replace(Some(Accepted {
            generation,
            version,
            recoveries: recoveries.clone(),
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_accepted_has_landed_unless_a_recovery_undid_it() {
        let recoveries = Recoveries::default();
        let [lost, landed, undone] = [(); 3].map(|()| CommitTruth::default());
        recoveries.note(1, 0);
        landed.note_accepted(1, 10, &recoveries);
        undone.note_accepted(1, 20, &recoveries);
        let all = || [&lost, &landed, &undone].map(CommitTruth::has_landed);
        assert_eq!(all(), [false, true, true]);
        recoveries.note(100, 15);
        assert_eq!(all(), [false, true, false]);
    }
}
