//! Writes: what is legal, what it adds to the approximate size, and where it goes.
//!
//! Ordinarily a write goes into the overlay and reaches the commit only when that begins. Without
//! read-your-writes it goes into the commit at once. A versionstamped key is the exception: the
//! writes that lie where the key may end up are handed over first, so that the commit keeps their
//! order.

use super::{ConflictRangeKind, Inner, State, Transaction};
use crate::client::conflicts::RANGE_BYTES;
use crate::client::operations::Operation;
use crate::client::special_keys;
use crate::data::key::{
    ALL_END, KeyBound, METADATA_VERSION, VALUE_BYTES_MAX, compare, cut_to_limit, key_after,
    max_key_bytes, max_write_key_bytes,
};
use crate::data::{atomic, versionstamp};
use crate::error::Error;
use crate::proto::{Key, KeyRange, Mutation, MutationKind, Value};
use bytes::Bytes;

/// What FoundationDB counts for a mutation on top of the bytes of its parameters.
pub(super) const MUTATION_BYTES: i64 = 44;
/// The only operand with which the metadata version key may be written.
const METADATA_VERSION_OPERAND: [u8; 14] = [0; 14];
/// What a cleared range costs, as tag throttling counts it.
const CLEAR_COST: i64 = 4096;

impl Transaction {
    /// Sets a key.
    pub fn set(&self, key: Key, value: Value) {
        self.inner().defer(|inner| inner.set(key, value));
    }

    /// Clears a key.
    pub fn clear(&self, key: Key) {
        self.inner().defer(|inner| inner.clear(key));
    }

    /// Clears a range; an inverted one is the deferred error 2005.
    pub fn clear_range(&self, begin: Key, end: Key) {
        self.inner().defer(|inner| {
            if begin > end {
                return Err(Error::INVERTED_RANGE);
            }
            inner.clear_range(begin, end)
        });
    }

    /// Applies an atomic operation by its code.
    pub fn atomic_op(&self, key: Key, operand: Bytes, code: i32) {
        self.inner()
            .defer(|inner| inner.atomic_op(key, operand, code));
    }

    /// Adds a conflict range. The caller has checked that it is not inverted.
    pub fn add_conflict_range(&self, range: KeyRange, kind: ConflictRangeKind) {
        self.inner().defer(|inner| match kind {
            ConflictRangeKind::Read => inner.add_read_conflict_range(range),
            ConflictRangeKind::Write => inner.add_write_conflict_range(range),
        });
    }
}

impl Inner {
    fn set(&self, key: Key, value: Value) -> Result<(), Error> {
        if key == METADATA_VERSION {
            return Err(Error::CLIENT_INVALID_OPERATION);
        }
        if special_keys::answers_write(self.context.api_version, &key) {
            return special_keys::set(self, key, value);
        }
        let conflict = self.begin_write()?;
        let mut state = self.state_mut();
        let state = &mut *state;
        if compare(&key, &state.max_write_key()).is_ge() {
            return Err(Error::KEY_OUTSIDE_LEGAL_RANGE);
        }
        state.write_bytes += (key.len() + value.len()) as i64
            + MUTATION_BYTES
            + key_conflict_bytes(key.len(), conflict);
        check_sizes(state, &key, &value)?;
        if state.options.read_your_writes_disabled {
            state
                .native
                .write(MutationKind::SetValue, key, value, conflict);
            return Ok(());
        }
        if !state.watches.is_empty() {
            state.trigger_watches(&key, &key_after(&key), Some(Some(&value)));
        }
        let operation = Operation {
            kind: MutationKind::SetValue,
            value: Some(value),
        };
        state.writes.mutate(key, operation, conflict);
        Ok(())
    }

    fn clear(&self, key: Key) -> Result<(), Error> {
        let conflict = self.begin_write()?;
        if special_keys::answers_write(self.context.api_version, &key) {
            return special_keys::clear(self, key);
        }
        let mut state = self.state_mut();
        if key >= state.max_write_key() {
            return Err(Error::KEY_OUTSIDE_LEGAL_RANGE);
        }
        if key.len() > max_key_bytes(&key) {
            return Ok(());
        }
        let end = key_after(&key);
        if state.options.read_your_writes_disabled {
            state.native.clear(key, end, conflict);
            return Ok(());
        }
        let range_bytes = 2 * key.len() as i64 + 1 + RANGE_BYTES;
        state.write_bytes += range_bytes * if conflict { 2 } else { 1 };
        state.trigger_watches(&key, &end, Some(None));
        state.writes.clear(key, end, conflict);
        Ok(())
    }

    fn clear_range(&self, begin: Key, end: Key) -> Result<(), Error> {
        let conflict = self.begin_write()?;
        let range = KeyRange { begin, end };
        if special_keys::answers_clear_range(self.context.api_version, &range) {
            return special_keys::clear_range(self, range);
        }
        let KeyRange { begin, end } = range;
        let mut state = self.state_mut();
        let max_key = state.max_write_key();
        if begin > max_key || end > max_key {
            return Err(Error::KEY_OUTSIDE_LEGAL_RANGE);
        }
        let key_bytes = (begin.len() + end.len()) as i64;
        state.write_bytes +=
            key_bytes + MUTATION_BYTES + if conflict { RANGE_BYTES + key_bytes } else { 0 };
        let (begin, end) = (cut_to_limit(begin), cut_to_limit(end));
        if begin >= end {
            return Ok(());
        }
        if state.options.read_your_writes_disabled {
            state.native.clear(begin, end, conflict);
            return Ok(());
        }
        state.trigger_watches(&begin, &end, Some(None));
        state.writes.clear(begin, end, conflict);
        Ok(())
    }

    fn atomic_op(&self, key: Key, operand: Bytes, code: i32) -> Result<(), Error> {
        let mut conflict = self.begin_write()?;
        if key == METADATA_VERSION {
            let stamps = code == MutationKind::SetVersionstampedValue as i32;
            if !stamps || operand != METADATA_VERSION_OPERAND[..] {
                return Err(Error::CLIENT_INVALID_OPERATION);
            }
        } else if compare(&key, &self.state().max_write_key()).is_ge() {
            return Err(Error::KEY_OUTSIDE_LEGAL_RANGE);
        }
        let api_version = self.context.api_version;
        let kind = atomic::kind_of_code(code, api_version)?;
        check_sizes(&self.state(), &key, &operand)?;
        let key_bytes = key.len();
        let (mut key, operand) = versionstamp::with_offset_suffix(kind, key, operand, api_version);
        let read_version = self.known_read_version();
        let mut state = self.state_mut();
        let state = &mut *state;
        if kind == MutationKind::SetVersionstampedKey {
            let range = versionstamp::unreadable_range(&key, read_version, &state.max_read_key())?;
            state.stamped_keys.push(key.clone());
            conflict = false;
            if !state.options.read_your_writes_disabled {
                state.hand_over(&range.begin, &range.end);
                state.writes.add_unreadable_range(range.begin, range.end);
            }
            key = versionstamp::placeholder_key(&key, read_version)?;
        }
        if kind == MutationKind::SetVersionstampedValue {
            versionstamp::validate(&operand)?;
        }
        state.write_bytes += (key.len() + operand.len()) as i64
            + MUTATION_BYTES
            + key_conflict_bytes(key_bytes, conflict);
        if state.options.read_your_writes_disabled {
            state.native.write(kind, key, operand, conflict);
            return Ok(());
        }
        if !state.watches.is_empty() {
            state.trigger_watches(&key, &key_after(&key), None);
        }
        state.writes.mutate(
            key,
            Operation {
                kind,
                value: Some(operand),
            },
            conflict,
        );
        Ok(())
    }

    fn add_read_conflict_range(&self, range: KeyRange) -> Result<(), Error> {
        self.check_used_during_commit()?;
        let mut state = self.state_mut();
        let state = &mut *state;
        let max_key = state.max_read_key();
        let KeyRange { begin, end } = range;
        let is_metadata_version = begin == METADATA_VERSION && end == key_after(&METADATA_VERSION);
        if (begin > max_key || end > max_key) && !is_metadata_version {
            self.refuse_conflict_range()?;
        }
        let (begin, end) = (cut_to_limit(begin), cut_to_limit(end).min(ALL_END));
        if begin >= end {
            return Ok(());
        }
        if state.options.read_your_writes_disabled {
            state.write_bytes += (begin.len() + end.len()) as i64 + RANGE_BYTES;
            state
                .native
                .commit
                .read_conflict_ranges
                .push(KeyRange { begin, end });
            return Ok(());
        }
        state.read_conflicts.add_range(begin, end, &state.writes)
    }

    fn add_write_conflict_range(&self, range: KeyRange) -> Result<(), Error> {
        self.check_used_during_commit()?;
        let mut state = self.state_mut();
        let max_key = state.max_write_key();
        let KeyRange { begin, end } = range;
        if begin > max_key || end > max_key {
            self.refuse_conflict_range()?;
        }
        let (begin, end) = (cut_to_limit(begin), cut_to_limit(end).min(ALL_END));
        if begin >= end {
            return Ok(());
        }
        state.write_bytes += (begin.len() + end.len()) as i64 + RANGE_BYTES;
        if state.options.read_your_writes_disabled {
            state
                .native
                .commit
                .write_conflict_ranges
                .push(KeyRange { begin, end });
        } else {
            state.writes.add_conflict_range(begin, end);
        }
        Ok(())
    }

    /// Refuses a conflict range that lies outside the keys of this transaction: since API version
    /// 300.
    fn refuse_conflict_range(&self) -> Result<(), Error> {
        if self.context.api_version_at_least(300) {
            return Err(Error::KEY_OUTSIDE_LEGAL_RANGE);
        }
        Ok(())
    }

    /// What every write begins with. Even a write that turns out to be illegal uses up the option
    /// "no conflict for the next write".
    fn begin_write(&self) -> Result<bool, Error> {
        let conflict = self.state_mut().options.take_write_conflict();
        self.check_used_during_commit()?;
        Ok(conflict)
    }
}

impl State {
    /// Hands the writes of a range over to the commit, clears first, because a key may be cleared
    /// and then set.
    pub(super) fn hand_over(&mut self, begin: &[u8], end: &[u8]) {
        let State { writes, native, .. } = self;
        let mut operations = Vec::with_capacity(4);
        let (mut cleared, mut conflict) = (Run::default(), Run::default());
        let mut cursor = writes.cursor(begin);
        while cursor.begin_key() < KeyBound::new(end) {
            let from = || {
                if cursor.begin_key() < KeyBound::new(begin) {
                    KeyBound::new(begin).to_key()
                } else {
                    cursor.to_begin_key()
                }
            };
            if let Some((begin, end)) = cleared.step(cursor.is_cleared_range(), from) {
                native.clear(begin, end, false);
            }
            if let Some((begin, end)) = conflict.step(cursor.is_conflict(), from) {
                native
                    .commit
                    .write_conflict_ranges
                    .push(KeyRange { begin, end });
            }
            if let Some(stack) = cursor.operations() {
                operations.extend(stack.iter().map(|operation| (cursor.key(), operation)));
            }
            cursor.next();
        }
        if let Some((begin, end)) = cleared.step(false, || KeyBound::new(end).to_key()) {
            native.clear(begin, end, false);
        }
        if let Some((begin, end)) = conflict.step(false, || KeyBound::new(end).to_key()) {
            native
                .commit
                .write_conflict_ranges
                .push(KeyRange { begin, end });
        }
        for (key, operation) in operations {
            match &operation.value {
                Some(value) => native.write(operation.kind, key.clone(), value.clone(), false),
                None => native.clear(key.clone(), key_after(key), false),
            }
        }
    }
}

/// Joins segments that belong together into the longest possible ranges.
#[derive(Default)]
struct Run(Option<Key>);

impl Run {
    /// Continues at `key` with a segment that belongs or does not. Returns the range that ends
    /// there.
    fn step(&mut self, belongs: bool, key: impl FnOnce() -> Key) -> Option<(Key, Key)> {
        if belongs {
            self.0.get_or_insert_with(key);
            return None;
        }
        self.0.take().map(|begin| (begin, key()))
    }
}

impl super::state::Native {
    fn write(&mut self, kind: MutationKind, key: Key, value: Value, conflict: bool) {
        let bytes = key.len()
            + if kind == MutationKind::SetValue {
                value.len()
            } else {
                0
            };
        self.total_cost += write_cost(bytes);
        if conflict && kind != MutationKind::SetVersionstampedKey {
            let range = KeyRange {
                begin: key.clone(),
                end: key_after(&key),
            };
            self.commit.write_conflict_ranges.push(range);
        }
        self.commit.mutations.push(Mutation {
            kind,
            param1: key,
            param2: value,
        });
    }

    fn clear(&mut self, begin: Key, end: Key, conflict: bool) {
        self.total_cost += CLEAR_COST;
        if conflict {
            let range = KeyRange {
                begin: begin.clone(),
                end: end.clone(),
            };
            self.commit.write_conflict_ranges.push(range);
        }
        let kind = MutationKind::ClearRange;
        self.commit.mutations.push(Mutation {
            kind,
            param1: begin,
            param2: end,
        });
    }
}

/// What a write costs, as tag throttling counts it: whole pages, several for each.
fn write_cost(bytes: usize) -> i64 {
    const PAGES_PER_WRITE: i64 = 4;
    PAGES_PER_WRITE * read_cost(bytes)
}

/// What a read costs, as tag throttling counts it: whole pages.
pub(super) fn read_cost(bytes: usize) -> i64 {
    const PAGE_BYTES: usize = 4096;
    (PAGE_BYTES * bytes.max(1).div_ceil(PAGE_BYTES)) as i64
}

fn key_conflict_bytes(key_bytes: usize, conflict: bool) -> i64 {
    if conflict {
        RANGE_BYTES + 2 * key_bytes as i64 + 1
    } else {
        0
    }
}

fn check_sizes(state: &State, key: &[u8], value: &[u8]) -> Result<(), Error> {
    if key.len() > max_write_key_bytes(key, state.options.raw_access) {
        return Err(Error::KEY_TOO_LARGE);
    }
    if value.len() > VALUE_BYTES_MAX {
        return Err(Error::VALUE_TOO_LARGE);
    }
    Ok(())
}
