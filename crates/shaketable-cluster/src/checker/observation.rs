//! What a client did and was told, in one attempt at a transaction.

use crate::error::Error;
use crate::proto::{
    Key, KeyRange, KeySelector, KeyValue, MutationKind, Value, Version, Versionstamp,
};
use shaketable_kernel::Time;

/// One attempt: everything from the start of a transaction, or `on_error`, to the end of its
/// commit.
#[derive(Clone, Debug)]
pub struct Observation {
    /// Unique in the run. An attempt that writes also writes [`Observation::marker`].
    pub attempt: u64,
    /// When the read version was requested, when it arrived, and what it was. `None` if it was
    /// never requested.
    pub read_version: Option<(Time, Time, Version)>,
    /// The calls, in order.
    pub steps: Vec<Step>,
    /// How it ended.
    pub outcome: Outcome,
    /// When it ended.
    pub ended: Time,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The commit was acknowledged with this stamp.
    Committed(Versionstamp),
    /// The commit was acknowledged and there was nothing to commit.
    ReadOnly,
    /// The commit, or something before it, failed.
    Failed(Error),
}

impl Outcome {
    /// Whether only the history can tell if the attempt committed.
    pub fn is_unknown(self) -> bool {
        matches!(
            self,
            Outcome::Failed(
                Error::COMMIT_UNKNOWN_RESULT
                    | Error::CLUSTER_VERSION_CHANGED
                    | Error::TRANSACTION_TIMED_OUT
                    | Error::TRANSACTION_CANCELLED
            )
        )
    }
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A set, an atomic operation or a versionstamped one; `key` and `operand` as the application
    /// passed them.
    Mutate {
        /// What was done.
        kind: MutationKind,
        /// To which key.
        key: Key,
        /// With what.
        operand: Value,
    },
    /// A clear of a range; of one key, if it is that narrow.
    Clear(KeyRange),
    /// A read.
    Read {
        /// What was asked and what was returned.
        read: Read,
        /// Whether it was a snapshot read, which need not hold until the commit.
        snapshot: bool,
        /// Whether it showed the transaction's own writes.
        sees_writes: bool,
    },
}

/// A read with its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// The value of a key.
    Get {
        /// The key.
        key: Key,
        /// Its value.
        value: Option<Value>,
    },
    /// The key that a selector resolves to.
    GetKey {
        /// The selector.
        selector: KeySelector,
        /// The key.
        key: Key,
    },
    /// The rows between two selectors.
    GetRange {
        /// Where they begin.
        begin: KeySelector,
        /// Where they end.
        end: KeySelector,
        /// Whether the rows come in reverse order.
        reverse: bool,
        /// The most rows to return, if there is a limit.
        limit: Option<usize>,
        /// The rows.
        rows: Vec<KeyValue>,
        /// Whether there may be more.
        more: bool,
    },
}

impl Observation {
    /// The key that only this attempt writes, which identifies it in the history.
    pub fn marker(attempt: u64) -> Key {
        format!("~attempt/{attempt:016x}").into()
    }

    /// The attempt that writes this key, if it is a marker.
    pub(super) fn attempt_of_marker(key: &[u8]) -> Option<u64> {
        let digits = std::str::from_utf8(key).ok()?.strip_prefix("~attempt/")?;
        u64::from_str_radix(digits, 16).ok()
    }
}
