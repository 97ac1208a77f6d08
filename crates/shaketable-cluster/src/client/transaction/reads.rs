//! Reads: which layer serves them, and what they add to the conflict ranges.
//!
//! Ordinarily a read goes through the overlay of the transaction's own writes. A snapshot read with
//! snapshot read-your-writes disabled sees the snapshot cache alone. With read-your-writes disabled
//! altogether a read goes to the database, and its conflict range takes no account of writes.
//!
//! The conflict range is computed from the writes as they were when the read began, and added when
//! it ends.

use super::writes::read_cost;
use super::{Inner, State, Transaction};
use crate::client::conflicts::{
    range_of_forward_read, range_of_native_read, range_of_reverse_read, range_of_selector,
};
use crate::client::overlay::{Overlay, Segment};
use crate::client::range_read::{RangeRead, RangeResult, Step};
use crate::client::write_map::WriteMap;
use crate::client::{Pending, RangeLimits, special_keys};
use crate::data::key::{ALL_END, METADATA_VERSION, key_after, max_key_bytes};
use crate::error::Error;
use crate::proto::{Key, KeyRange, KeySelector, KeyValues, MappedKeyValues, Value};
use bytes::Bytes;
use std::rc::Rc;

/// The layer that serves a read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layer {
    Overlay,
    Snapshot,
    Database,
}

impl Transaction {
    /// The value of a key.
    pub fn get(&self, key: Key, snapshot: bool) -> Pending<Option<Value>> {
        let inner = self.inner();
        inner.operation(|| {
            if special_keys::answers_get(inner.context.api_version, &key) {
                let this = inner.clone();
                return Ok(inner.start(move || async move { special_keys::get(&*this, key).await }));
            }
            inner.check_used_during_commit()?;
            inner.check_broken()?;
            if key >= inner.state().max_read_key() && key != METADATA_VERSION {
                return Err(Error::KEY_OUTSIDE_LEGAL_RANGE);
            }
            if key.len() > max_key_bytes(&key) {
                return Ok(Pending::ready(Ok(None)));
            }
            Ok(match inner.begin_get(key, snapshot) {
                Ok(result) => inner.finish_read(result),
                Err(get) => {
                    let this = inner.clone();
                    inner.start_read(move || async move { this.finish_get(&get).await })
                }
            })
        })
    }

    /// The key a selector resolves to.
    pub fn get_key(&self, selector: KeySelector, snapshot: bool) -> Pending<Key> {
        let inner = self.inner();
        let selector = cut(selector);
        inner.operation(|| {
            inner.check_used_during_commit()?;
            inner.check_broken()?;
            let max_key = inner.state().max_read_key();
            if selector.key > max_key {
                return Err(Error::KEY_OUTSIDE_LEGAL_RANGE);
            }
            let layer = inner.layer(snapshot);
            if layer == Layer::Database {
                let this = inner.clone();
                return Ok(inner.start_read(move || async move {
                    let version = this.read_version().await?;
                    let resolved = this
                        .context
                        .resolve_selector(selector.clone(), version)
                        .await?;
                    if !snapshot {
                        this.add_native_conflict(range_of_selector(&selector, &resolved));
                    }
                    Ok(resolved.min(max_key))
                }));
            }
            let writes = inner.writes_for(layer);
            let mut read = selector_read(selector.clone().normalised(), max_key);
            let first = inner.advance(&mut read, &writes);
            let finish = move |this: &Inner, result: RangeResult, writes: &WriteMap| {
                let resolved = resolved_key(&selector, result, &this.state().max_read_key());
                if !snapshot {
                    let (begin, end) = range_of_selector(&selector, &resolved);
                    this.state_mut()
                        .read_conflicts
                        .add_range(begin, end, writes)?;
                }
                Ok(resolved)
            };
            Ok(inner.run(read, writes, first, finish))
        })
    }

    /// The rows between two selectors. [`RangeLimits::from_parameters`] makes limits from the C
    /// parameters.
    pub fn get_range(
        &self,
        begin: KeySelector,
        end: KeySelector,
        limits: RangeLimits,
        snapshot: bool,
        reverse: bool,
    ) -> Pending<KeyValues> {
        let inner = self.inner();
        inner.operation(|| {
            if special_keys::answers_get_range(inner.context.api_version, &begin, &end) {
                let this = inner.clone();
                return Ok(inner.start(move || async move {
                    special_keys::get_range(&*this, begin, end, limits, reverse).await
                }));
            }
            let Some((begin, end)) = inner.check_range(begin, end, &limits)? else {
                return Ok(Pending::ready(Ok(KeyValues::default())));
            };
            let max_key = inner.state().max_read_key();
            let layer = inner.layer(snapshot);
            if layer == Layer::Database {
                let this = inner.clone();
                return Ok(inner.start_read(move || async move {
                    this.read_through(begin, end, limits, snapshot, reverse, max_key)
                        .await
                }));
            }
            let writes = inner.writes_for(layer);
            let mut read =
                RangeRead::new(begin.clone(), end.clone(), limits, reverse, max_key.clone());
            let first = inner.advance(&mut read, &writes);
            let finish = move |this: &Inner, result: RangeResult, writes: &WriteMap| {
                if !snapshot {
                    let range = if reverse {
                        range_of_reverse_read
                    } else {
                        range_of_forward_read
                    };
                    let (begin, end) = range(&begin, &end, &result, &max_key);
                    this.state_mut()
                        .read_conflicts
                        .add_range(begin, end, writes)?;
                }
                Ok(KeyValues {
                    rows: result.rows,
                    more: result.more,
                })
            };
            Ok(inner.run(read, writes, first, finish))
        })
    }

    /// The rows between two selectors, each with the range that `mapper` makes of it.
    pub fn get_mapped_range(
        &self,
        begin: KeySelector,
        end: KeySelector,
        mapper: Bytes,
        limits: RangeLimits,
        snapshot: bool,
        reverse: bool,
    ) -> Pending<MappedKeyValues> {
        let inner = self.inner();
        inner.operation(|| {
            if special_keys::answers_get_range(inner.context.api_version, &begin, &end) {
                return Err(Error::CLIENT_INVALID_OPERATION);
            }
            let Some((begin, end)) = inner.check_range(begin, end, &limits)? else {
                return Ok(Pending::ready(Ok(MappedKeyValues::default())));
            };
            if snapshot || inner.state().options.read_your_writes_disabled {
                return Err(Error::UNSUPPORTED_OPERATION);
            }
            let this = inner.clone();
            // A commit does not wait for this read, unlike others.
            Ok(inner.start(move || async move {
                this.read_mapped(begin, end, mapper, limits, reverse).await
            }))
        })
    }

    /// The addresses of the storage servers that hold a key.
    pub fn get_addresses_for_key(&self, key: Key) -> Pending<Vec<Rc<str>>> {
        let inner = self.inner();
        inner.operation(|| {
            inner.check_used_during_commit()?;
            inner.check_broken()?;
            let this = inner.clone();
            Ok(inner.start_read(move || async move {
                this.read_version().await?;
                if key >= ALL_END {
                    return Ok(Vec::new());
                }
                let shard = this.context.locate(&key, false).await?;
                let include_port = this.state().options.include_port;
                let addresses = shard.servers.iter().map(|server| {
                    if include_port {
                        return server.address.clone();
                    }
                    let ip = server
                        .address
                        .rsplit_once(':')
                        .map_or(&*server.address, |(ip, _)| ip);
                    Rc::from(ip)
                });
                Ok(addresses.collect())
            }))
        })
    }

    /// The sampled size of a range. The caller has checked that it is not inverted.
    pub fn get_estimated_range_size_bytes(&self, range: KeyRange) -> Pending<i64> {
        let inner = self.inner();
        inner.operation(|| {
            inner.check_used_during_commit()?;
            inner.check_broken()?;
            let this = inner.clone();
            Ok(inner.start(move || async move {
                this.check_tenant()?;
                this.context.estimate_bytes(range).await
            }))
        })
    }

    /// Keys that cut a range into chunks, including its ends. The caller has checked that it is not
    /// inverted.
    pub fn get_range_split_points(&self, range: KeyRange, chunk_bytes: i64) -> Pending<Vec<Key>> {
        let inner = self.inner();
        inner.operation(|| {
            inner.check_used_during_commit()?;
            inner.check_broken()?;
            let max_key = inner.state().max_read_key();
            if range.begin > max_key || range.end > max_key {
                return Err(Error::KEY_OUTSIDE_LEGAL_RANGE);
            }
            let this = inner.clone();
            Ok(inner.start(move || async move {
                this.check_tenant()?;
                this.context.split_points(range, chunk_bytes).await
            }))
        })
    }
}

/// A read of one key that has to ask the database.
pub(crate) struct Get {
    key: Key,
    /// Operations of this transaction that wait for the value.
    stack: Option<crate::client::operations::OperationStack>,
    conflict: bool,
    /// Whether the answer goes into the snapshot cache.
    cached: bool,
}

impl Inner {
    fn layer(&self, snapshot: bool) -> Layer {
        let state = self.state();
        if state.options.read_your_writes_disabled {
            Layer::Database
        } else if snapshot && state.options.snapshot_ryw <= 0 {
            Layer::Snapshot
        } else {
            Layer::Overlay
        }
    }

    /// The writes that a read sees, as they are now.
    fn writes_for(&self, layer: Layer) -> WriteMap {
        match layer {
            Layer::Overlay => self.state().writes.clone(),
            Layer::Snapshot | Layer::Database => self.context.no_writes.clone(),
        }
    }

    /// Reads a key as far as it is known. Returns its value, or what is left to do.
    pub(crate) fn begin_get(
        &self,
        key: Key,
        snapshot: bool,
    ) -> Result<Result<Option<Value>, Error>, Get> {
        let layer = self.layer(snapshot);
        let mut state = self.state_mut();
        let state = &mut *state;
        if layer == Layer::Database {
            if !snapshot {
                let range = KeyRange {
                    begin: key.clone(),
                    end: key_after(&key),
                };
                state.native.commit.read_conflict_ranges.push(range);
            }
            return Err(Get {
                key,
                stack: None,
                conflict: false,
                cached: false,
            });
        }
        let writes = if layer == Layer::Overlay {
            &state.writes
        } else {
            &self.context.no_writes
        };
        let bypass_unreadable = state.options.bypass_unreadable;
        let cursor = Overlay {
            cache: &state.cache,
            writes,
            bypass_unreadable,
        }
        .cursor(&key);
        let value = match cursor.segment() {
            Err(error) => Err(error),
            Ok(Segment::Row) => cursor.value(),
            Ok(Segment::EmptyRange) => Ok(None),
            Ok(Segment::UnknownRange) => {
                let conflict = !snapshot && cursor.writes().reads_database();
                let stack = cursor.writes().operations().cloned();
                return Err(Get {
                    key,
                    stack,
                    conflict,
                    cached: true,
                });
            }
        };
        if value.is_ok() && !snapshot {
            state.read_conflicts.add_key(&key, cursor.writes());
        }
        Ok(value)
    }

    pub(crate) async fn finish_get(&self, get: &Get) -> Result<Option<Value>, Error> {
        let value = self.get_from_database(&get.key).await?;
        if get.cached {
            let mut state = self.state_mut();
            state.cache.insert_value(get.key.clone(), value.clone());
            if get.conflict {
                state.read_conflicts.add_read_key(&get.key);
            }
        }
        match &get.stack {
            Some(stack) => stack.fold_over(value.as_ref()),
            None => Ok(value),
        }
    }

    /// The value of a key in the database. The metadata version comes with the read version.
    async fn get_from_database(&self, key: &Key) -> Result<Option<Value>, Error> {
        let version = self.read_version().await?;
        if *key == METADATA_VERSION {
            let given = {
                let state = self.state();
                let reply = state.native.read_version.as_ref().and_then(|v| v.peek());
                reply
                    .filter(|_| state.native.is_given_version)
                    .and_then(Result::ok)
            };
            if let Some(reply) = given {
                return Ok(reply.metadata_version);
            }
            if let Some(known) = self.context.metadata_version(version) {
                return Ok(known);
            }
        }
        let bytes = key.len();
        let value = self.context.get_value(key, version).await?;
        self.add_read_cost(bytes + value.as_ref().map_or(0, Bytes::len));
        Ok(value)
    }

    fn add_read_cost(&self, bytes: usize) {
        self.state_mut().native.total_cost += read_cost(bytes);
    }

    fn check_range(
        &self,
        begin: KeySelector,
        end: KeySelector,
        limits: &RangeLimits,
    ) -> Result<Option<(KeySelector, KeySelector)>, Error> {
        let (begin, end) = (cut(begin), cut(end));
        self.check_used_during_commit()?;
        self.check_broken()?;
        let max_key = self.state().max_read_key();
        if begin.key > max_key || end.key > max_key {
            return Err(Error::KEY_OUTSIDE_LEGAL_RANGE);
        }
        if limits.is_reached() {
            return Ok(None);
        }
        if !limits.is_valid() {
            return Err(Error::RANGE_LIMITS_INVALID);
        }
        let (begin, end) = (begin.normalised(), end.normalised());
        let is_inverted = begin.offset >= end.offset && begin.key >= end.key;
        Ok((!is_inverted).then_some((begin, end)))
    }

    /// Advances a range read over what is known.
    fn advance(&self, read: &mut RangeRead, writes: &WriteMap) -> Result<Step, Error> {
        let state: &State = &self.state();
        read.advance(Overlay {
            cache: &state.cache,
            writes,
            bypass_unreadable: false,
        })
    }

    /// Ends a range read that is already done, or starts what is left of it.
    fn run<T: 'static>(
        self: &Rc<Self>,
        read: RangeRead,
        writes: WriteMap,
        first: Result<Step, Error>,
        finish: impl FnOnce(&Inner, RangeResult, &WriteMap) -> Result<T, Error> + 'static,
    ) -> Pending<T> {
        match first {
            Err(error) => self.finish_read(Err(error)),
            Ok(Step::Done(result)) => self.finish_read(finish(self, result, &writes)),
            Ok(step) => {
                let this = self.clone();
                self.start_read(move || async move {
                    let result = this.play(read, &writes, step).await?;
                    finish(&this, result, &writes)
                })
            }
        }
    }

    /// Runs a range read to its end.
    async fn play(
        &self,
        mut read: RangeRead,
        writes: &WriteMap,
        mut step: Step,
    ) -> Result<RangeResult, Error> {
        loop {
            match step {
                Step::Done(result) => return Ok(result),
                Step::Resolve(selector) => {
                    let max_key = read.max_key();
                    let mut inner = selector_read(selector.clone(), max_key.clone());
                    let first = self.advance(&mut inner, writes)?;
                    let result = Box::pin(self.play(inner, writes, first)).await?;
                    read.resolved(resolved_key(&selector, result, &max_key));
                }
                Step::Read { begin, end, limits } => {
                    let version = self.read_version().await?;
                    let reverse = read.is_reverse();
                    let answer = self
                        .context
                        .get_rows(begin.clone(), end.clone(), limits, reverse, version)
                        .await?;
                    self.add_read_cost(answer.bytes());
                    if let Some((from, to)) = read.learn(&begin, &end, &answer) {
                        let mut rows = answer.rows;
                        if reverse {
                            rows.reverse();
                        }
                        self.state_mut().cache.insert_range(from, to, rows.into());
                    }
                }
            }
            step = self.advance(&mut read, writes)?;
        }
    }

    /// A range read without read-your-writes. The layer below does not clip at the system keys.
    async fn read_through(
        &self,
        begin: KeySelector,
        mut end: KeySelector,
        limits: RangeLimits,
        snapshot: bool,
        reverse: bool,
        max_key: Key,
    ) -> Result<KeyValues, Error> {
        let version = self.read_version().await?;
        if reverse && end.offset > 1 {
            let resolved = self.context.resolve_selector(end.clone(), version).await?;
            if !snapshot {
                self.add_native_conflict(range_of_selector(&end, &resolved));
            }
            end = KeySelector::first_greater_or_equal(resolved.min(max_key.clone()));
        }
        if begin.offset >= end.offset && begin.key >= end.key {
            return Ok(KeyValues::default());
        }
        let (asked_begin, asked_end) = (begin.clone(), end.clone());
        let result = self
            .context
            .get_rows(begin, end, limits, reverse, version)
            .await?;
        self.add_read_cost(result.bytes());
        if !snapshot {
            self.add_native_conflict(range_of_native_read(
                &asked_begin,
                &asked_end,
                reverse,
                &result,
            ));
        }
        let RangeResult {
            mut rows, mut more, ..
        } = result;
        if !reverse && rows.last().is_some_and(|row| row.key >= max_key) {
            rows.truncate(rows.partition_point(|row| row.key < max_key));
            more = false;
        }
        Ok(KeyValues { rows, more })
    }

    fn add_native_conflict(&self, (begin, end): (Key, Key)) {
        if begin < end {
            let ranges = &mut self.state_mut().native.late_read_ranges;
            ranges.push(KeyRange { begin, end });
        }
    }

    async fn read_mapped(
        &self,
        begin: KeySelector,
        end: KeySelector,
        mapper: Bytes,
        limits: RangeLimits,
        reverse: bool,
    ) -> Result<MappedKeyValues, Error> {
        let version = self.read_version().await?;
        let max_key = self.state().max_read_key();
        let mut read_end = end.clone();
        if reverse && end.offset > 1 {
            let resolved = self.context.resolve_selector(end.clone(), version).await?;
            read_end = KeySelector::first_greater_or_equal(resolved.min(max_key.clone()));
        }
        let (mapped, primary) = self
            .context
            .get_mapped_rows(begin.clone(), read_end, mapper, limits, reverse, version)
            .await?;
        let mut state = self.state_mut();
        let State {
            read_conflicts,
            writes,
            ..
        } = &mut *state;
        let range = if reverse {
            range_of_reverse_read
        } else {
            range_of_forward_read
        };
        let (from, to) = range(&begin, &end, &primary, &max_key);
        read_conflicts.add_unmodified_range(from, to, writes)?;
        for row in &mapped.rows {
            let KeyRange { begin, end } = row.range.clone();
            read_conflicts.add_unmodified_range(begin, end, writes)?;
        }
        Ok(mapped)
    }
}

/// A selector whose key is no longer than a key can be.
fn cut(mut selector: KeySelector) -> KeySelector {
    selector.key = crate::data::key::cut_to_limit(selector.key);
    selector
}

/// The range read by which a selector is resolved: the first row after it, or the last one before.
fn selector_read(mut selector: KeySelector, max_key: Key) -> RangeRead {
    let edge = KeySelector::first_greater_or_equal;
    let limits = RangeLimits::rows(1);
    if selector.offset > 0 {
        RangeRead::new(selector, edge(max_key.clone()), limits, false, max_key)
    } else {
        selector.offset += 1;
        RangeRead::new(edge(Bytes::new()), selector, limits, true, max_key)
    }
}

/// The key that the result of that read resolves the selector to.
fn resolved_key(selector: &KeySelector, result: RangeResult, max_key: &Key) -> Key {
    let RangeResult {
        rows,
        read_to_begin,
        read_through_end,
        ..
    } = result;
    let row = rows.into_iter().next().map(|row| row.key);
    if selector.offset > 0 {
        match row {
            _ if read_to_begin => Bytes::new(),
            Some(key) if !read_through_end => key,
            _ => max_key.clone(),
        }
    } else {
        match row {
            _ if read_through_end => max_key.clone(),
            Some(key) if !read_to_begin => key,
            _ => Bytes::new(),
        }
    }
}
