//! Proof that a run was strictly serializable.
//!
//! Two accounts of the same run are compared. The engine's own, [`History`], says which
//! transactions committed and in which order; it is the true order, so nothing has to be searched
//! for. The clients' account, one [`Observation`] per attempt at a transaction, says what each of
//! them did, what it was told, and when. [`verify`] checks both against a plain ordered map:
//!
//! * `serializability`: every read shows the state at the read version under the transaction's own
//!   writes, and still shows the same just before the transaction commits, unless it was a snapshot
//!   read. What was acknowledged is in the history, what was refused is not, and the mutations do
//!   to the map what the calls would have done one after the other;
//! * `real_time`: a read version is at or after everything that any client had been told when it
//!   was requested;
//! * `conflicts`: between a transaction's read version and its commit, no other transaction wrote
//!   what it declared to have read.
//!
//! An [`ObservedTransaction`] records what is done with it, and [`RandomClient`] makes clients that
//! try everything. The checkers do not care where the observations come from or what happened to
//! the cluster meanwhile, so the same proof holds under faults.

mod client;
mod conflicts;
mod model;
mod observation;
mod observed;
mod real_time;
mod serializability;

pub use crate::history::{Bounds, Committed, History};
pub use client::RandomClient;
pub use observation::{Observation, Outcome, Read, Step};
pub use observed::{Notebook, ObservedTransaction};

use crate::error::Error;
use crate::proto::{Version, Versionstamp};
use shaketable_kernel::Time;
use std::collections::BTreeMap;

/// Checks a run against all rules; the first violation is the result.
///
/// `history` must cover the whole life of the database, and `observations` every client that wrote
/// to it.
pub fn verify(history: &History, observations: &[Observation]) -> Result<Proof, Violation> {
    let committed = history.committed();
    conflicts::verify(&committed)?;
    let fates = serializability::fates(&committed)?;
    real_time::verify(&fates, observations)?;
    serializability::verify(&committed, &fates, observations)
}

/// Where each attempt is in the history.
type Fates = BTreeMap<u64, Versionstamp>;

/// What happened in a run that kept its promises: how much the proof is worth.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// Attempts of all kinds.
    pub attempts: u64,
    /// Attempts that were told they committed.
    pub committed: u64,
    /// Attempts that were told 1021 and had committed.
    pub unknown_committed: u64,
    /// Attempts that were told 1021 and will never commit.
    pub unknown_vanished: u64,
    /// How often each error ended an attempt.
    pub errors: BTreeMap<i32, u64>,
}

impl Proof {
    fn count(&mut self, outcome: Outcome, is_in_history: bool) {
        self.attempts += 1;
        match outcome {
            Outcome::Committed(_) => self.committed += 1,
            Outcome::ReadOnly => {}
            Outcome::Failed(error) => {
                *self.errors.entry(error.0).or_default() += 1;
                match (error, is_in_history) {
                    (Error::COMMIT_UNKNOWN_RESULT, true) => self.unknown_committed += 1,
                    (Error::COMMIT_UNKNOWN_RESULT, false) => self.unknown_vanished += 1,
                    _ => {}
                }
            }
        }
    }

    /// Adds the figures of another run.
    pub fn add(&mut self, other: Proof) {
        self.attempts += other.attempts;
        self.committed += other.committed;
        self.unknown_committed += other.unknown_committed;
        self.unknown_vanished += other.unknown_vanished;
        for (code, count) in other.errors {
            *self.errors.entry(code).or_default() += count;
        }
    }
}

/// How a run broke its promise.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Violation {
    #[error(
        "attempt {attempt}, step {step}, read at version {version}: expected {expected}, found {found}"
    )]
    WrongRead {
        attempt: u64,
        step: usize,
        version: Version,
        expected: String,
        found: String,
    },
    #[error(
        "attempt {attempt}, step {step}, committed at {stamp:?}: expected the read {found} to hold until the commit, but then it was {expected}"
    )]
    ReadChanged {
        attempt: u64,
        step: usize,
        stamp: Versionstamp,
        expected: String,
        found: String,
    },
    #[error(
        "attempt {attempt} was told that it committed at {stamp:?}: expected it there in the history, found {found}"
    )]
    LostCommit {
        attempt: u64,
        stamp: Versionstamp,
        found: String,
    },
    #[error(
        "attempt {attempt} was told that it failed with {error}: expected it nowhere in the history, found it at {stamp:?}"
    )]
    ZombieCommit {
        attempt: u64,
        error: Error,
        stamp: Versionstamp,
    },
    #[error("attempt {attempt} is in the history twice, at {first:?} and at {second:?}")]
    CommittedTwice {
        attempt: u64,
        first: Versionstamp,
        second: Versionstamp,
    },
    #[error(
        "attempt {attempt}, committed at {stamp:?}: expected its mutations to leave {expected}, found {found}"
    )]
    WrongEffect {
        attempt: u64,
        stamp: Versionstamp,
        expected: String,
        found: String,
    },
    #[error(
        "attempt {attempt} asked at {asked:?} for a read version: expected at least {known}, which was known at {known_at:?}, found {found}"
    )]
    StaleReadVersion {
        attempt: u64,
        asked: Time,
        found: Version,
        known: Version,
        known_at: Time,
    },
    #[error(
        "the transaction at {stamp:?} read {range} at version {read_snapshot}, which the one at {writer:?} wrote before it committed"
    )]
    MissedConflict {
        stamp: Versionstamp,
        read_snapshot: Version,
        range: String,
        writer: Versionstamp,
    },
}
