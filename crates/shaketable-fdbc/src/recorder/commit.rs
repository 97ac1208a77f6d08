//! A commit from the call to its fate.
//!
//! What was sent is noted when it is sent. The answer decides what the code under test knows; the
//! history decides what is true. A commit that is not in the history at the end has not landed, but
//! it is called lost only if it can no longer land: the answer settles that, or too many versions
//! have passed since it read.

use super::keep::{KEY_BYTES_MAX, SELF_CONFLICT_PREFIX};
use shaketable_cluster::checker::History;
use shaketable_cluster::error::Error;
use shaketable_cluster::proto::{CommitTransaction, KeyRange, Version, Versionstamp};
use shaketable_record::{Answer, Bytes, Commit, Committed, Conflict, Fate, Range};
use std::collections::BTreeMap;

/// Within how many versions after its read version a transaction must commit.
const LIFE_VERSIONS: Version = 5_000_000;

pub(super) struct KeptCommit {
    pub(super) operation: u32,
    pub(super) sent: Option<Sent>,
    /// Its own part of the record.
    pub(super) commit: Commit,
    pub(super) winner: Option<Versionstamp>,
    pub(super) is_answered: bool,
    /// Whether the answer says that it can no longer land.
    pub(super) is_settled: bool,
}

/// What a commit has sent.
pub(super) struct Sent {
    pub(super) read_version: Version,
    pub(super) reads: Vec<KeyRange>,
    /// Whether 1021 is answered only when it can no longer land.
    pub(super) settles: bool,
}

impl KeptCommit {
    pub(super) fn new(operation: u32) -> KeptCommit {
        KeptCommit {
            operation,
            sent: None,
            commit: Commit {
                operation: 0,
                reads: Vec::new(),
                writes: Vec::new(),
                mutations: Vec::new(),
                fate: Fate::Unknown,
                conflict: None,
            },
            winner: None,
            is_answered: false,
            is_settled: false,
        }
    }

    /// The code under test has got an answer.
    pub(super) fn hear(&mut self, answer: &Answer, history: &History) {
        self.is_answered = true;
        let Some(sent) = &mut self.sent else {
            if *answer == Answer::Nothing {
                self.commit.fate = Fate::ReadOnly;
            }
            return;
        };
        let error = match answer {
            Answer::Error(error) => Error(*error),
            _ => return,
        };
        self.is_settled = match error {
            Error::COMMIT_UNKNOWN_RESULT => sent.settles,
            // The attempt has ended, but what was sent is still on its way.
            Error::TRANSACTION_CANCELLED
            | Error::TRANSACTION_TIMED_OUT
            | Error::OPERATION_CANCELLED
            | Error::USED_DURING_COMMIT
            | Error::CLUSTER_VERSION_CHANGED => false,
            _ => true,
        };
        if error == Error::NOT_COMMITTED
            && let Some((winner, range)) = history.first_writer(sent.read_version, &sent.reads)
        {
            self.winner = Some(winner);
            self.commit.conflict = Some(Conflict {
                range: Range {
                    begin: Bytes::shortened(&range.begin, KEY_BYTES_MAX),
                    end: Bytes::shortened(&range.end, KEY_BYTES_MAX),
                },
                winner: None,
            });
        }
        sent.reads = Vec::new();
    }

    pub(super) fn finish(
        self,
        landed: Option<u32>,
        newest: Version,
        ids: &BTreeMap<Versionstamp, u32>,
        committed: &[Committed],
    ) -> Commit {
        let mut commit = self.commit;
        if let (Some(conflict), Some(winner)) = (&mut commit.conflict, self.winner) {
            conflict.winner = ids.get(&winner).copied();
        }
        if commit.fate == Fate::ReadOnly {
            return commit;
        }
        let too_late = match &self.sent {
            Some(sent) => self.is_settled || newest > sent.read_version + LIFE_VERSIONS,
            None => self.is_answered,
        };
        commit.fate = match landed {
            Some(id) => Fate::Landed(id),
            None if too_late => Fate::Lost,
            None => Fate::Unknown,
        };
        if let Some(landed) = landed.and_then(|id| committed.get(id as usize)) {
            commit.mutations = landed.mutations.clone();
        }
        commit
    }
}

/// Whether a later transaction can make sure that this one no longer lands: it reads something that
/// it writes. Only an option of the transaction prevents that, so few ranges need a look.
pub(super) fn conflicts_with_itself(sent: &CommitTransaction) -> bool {
    const RANGES_MAX: usize = 200;
    let mut written = sent.write_conflict_ranges.iter();
    if written.any(|range| range.begin.starts_with(SELF_CONFLICT_PREFIX)) {
        return true;
    }
    let mut written = sent.write_conflict_ranges.iter().take(RANGES_MAX);
    written.any(|written| {
        let mut reads = sent.read_conflict_ranges.iter().take(RANGES_MAX);
        reads.any(|read| read.begin < written.end && written.begin < read.end)
    })
}
