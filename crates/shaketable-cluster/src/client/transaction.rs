//! The surface of a transaction.

use super::{Pending, RangeLimits};
use crate::error::Error;
use crate::proto::{
    Key, KeyRange, KeySelector, KeyValues, MappedKeyValues, Value, Version, Versionstamp,
};
use bytes::Bytes;
use std::rc::Rc;

/// A transaction. Cheap to clone: clones are the same transaction. When the last one is dropped, pending
/// operations end with 1025; a commit that is under way goes on.
#[derive(Clone, Debug)]
pub struct Transaction(Rc<Shared>);

#[derive(Debug)]
struct Shared {}

/// Which of the two sets of conflict ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConflictRangeKind {
    /// What the transaction depends on.
    Read,
    /// What depends on the transaction.
    Write,
}

impl Transaction {
    /// Sets an option whose code the caller has checked. A bad value is deferred.
    pub fn set_option(&self, _code: i32, _value: Option<&[u8]>) {
        unimplemented!()
    }

    /// Reads at this version instead of asking for one. Deferred: 2010 if there is one, 2011 if it is not positive.
    pub fn set_read_version(&self, _version: Version) {
        unimplemented!()
    }

    /// The version at which this transaction reads.
    pub fn get_read_version(&self) -> Pending<Version> {
        unimplemented!()
    }

    /// The value of a key.
    pub fn get(&self, _key: Key, _snapshot: bool) -> Pending<Option<Value>> {
        unimplemented!()
    }

    /// The key a selector resolves to.
    pub fn get_key(&self, _selector: KeySelector, _snapshot: bool) -> Pending<Key> {
        unimplemented!()
    }

    /// The rows between two selectors. [`RangeLimits::from_parameters`] makes limits of the C parameters.
    pub fn get_range(
        &self,
        _begin: KeySelector,
        _end: KeySelector,
        _limits: RangeLimits,
        _snapshot: bool,
        _reverse: bool,
    ) -> Pending<KeyValues> {
        unimplemented!()
    }

    /// The rows between two selectors, each with the range that `mapper` makes of it.
    pub fn get_mapped_range(
        &self,
        _begin: KeySelector,
        _end: KeySelector,
        _mapper: Bytes,
        _limits: RangeLimits,
        _snapshot: bool,
        _reverse: bool,
    ) -> Pending<MappedKeyValues> {
        unimplemented!()
    }

    /// The addresses of the storage servers that hold a key.
    pub fn get_addresses_for_key(&self, _key: Key) -> Pending<Vec<Rc<str>>> {
        unimplemented!()
    }

    /// The sampled size of a range. The caller has checked that it is not inverted.
    pub fn get_estimated_range_size_bytes(&self, _range: KeyRange) -> Pending<i64> {
        unimplemented!()
    }

    /// Keys that cut a range into chunks, with its ends. The caller has checked that it is not inverted.
    pub fn get_range_split_points(&self, _range: KeyRange, _chunk_bytes: i64) -> Pending<Vec<Key>> {
        unimplemented!()
    }

    /// Sets a key.
    pub fn set(&self, _key: Key, _value: Value) {
        unimplemented!()
    }

    /// Clears a key.
    pub fn clear(&self, _key: Key) {
        unimplemented!()
    }

    /// Clears a range; an inverted one is deferred 2005.
    pub fn clear_range(&self, _begin: Key, _end: Key) {
        unimplemented!()
    }

    /// Applies an atomic operation by its code.
    pub fn atomic_op(&self, _key: Key, _operand: Bytes, _code: i32) {
        unimplemented!()
    }

    /// Adds a conflict range. The caller has checked that it is not inverted.
    pub fn add_conflict_range(&self, _range: KeyRange, _kind: ConflictRangeKind) {
        unimplemented!()
    }

    /// Completes when the value of a key changes, from this transaction's commit on. Dropping the future
    /// gives the watch up.
    pub fn watch(&self, _key: Key) -> Pending<()> {
        unimplemented!()
    }

    /// Commits.
    pub fn commit(&self) -> Pending<()> {
        unimplemented!()
    }

    /// The version of the last successful commit that wrote something, or -1.
    pub fn get_committed_version(&self) -> Version {
        unimplemented!()
    }

    /// The stamp of the commit to come.
    pub fn get_versionstamp(&self) -> Pending<Versionstamp> {
        unimplemented!()
    }

    /// The size the commit is estimated to have.
    pub fn get_approximate_size(&self) -> Pending<i64> {
        unimplemented!()
    }

    /// What this transaction has cost in the eyes of tag throttling.
    pub fn get_total_cost(&self) -> Pending<i64> {
        unimplemented!()
    }

    /// For how many seconds tag throttling has held this transaction up.
    pub fn get_tag_throttled_duration(&self) -> Pending<f64> {
        unimplemented!()
    }

    /// Waits and makes the transaction ready for another attempt, or returns the error if it is not retryable.
    /// `error` may be zero, which is answered with 2000. Dropping the future gives the attempt up.
    pub fn on_error(&self, _error: Error) -> Pending<()> {
        unimplemented!()
    }

    /// Makes the transaction as new.
    pub fn reset(&self) {
        unimplemented!()
    }

    /// Ends all pending and later operations with 1025, until `reset`.
    pub fn cancel(&self) {
        unimplemented!()
    }
}
