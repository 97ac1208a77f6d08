//! Range reads, played to their end.
//!
//! [`RangeRead`] decides what to do next from what is known: ask the database for rows, resolve a
//! selector, or stop. This file does what it says, and puts what the database answers into the
//! snapshot cache. Reads that pass the overlay by, and mapped reads, have their own ways to the
//! database.

use crate::client::RangeLimits;
use crate::client::conflicts::{
    range_of_forward_read, range_of_native_read, range_of_reverse_read, range_of_selector,
};
use crate::client::overlay::Overlay;
use crate::client::pending::Pending;
use crate::client::range_read::{RangeRead, RangeResult, Step};
use crate::client::transaction::writes::read_cost;
use crate::client::transaction::{Inner, State};
use crate::client::write_map::WriteMap;
use crate::error::Error;
use crate::proto::{Key, KeyRange, KeySelector, KeyValues, MappedKeyValues};
use bytes::Bytes;
use std::rc::Rc;

impl Inner {
    pub(super) fn check_range(
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
    pub(super) fn advance(&self, read: &mut RangeRead, writes: &WriteMap) -> Result<Step, Error> {
        let state: &State = &self.state();
        read.advance(Overlay {
            cache: &state.cache,
            writes,
            bypass_unreadable: false,
        })
    }

    /// Ends a range read that is already done, or starts what is left of it.
    pub(super) fn run<T: 'static>(
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
    pub(super) async fn read_through(
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

    pub(super) fn add_native_conflict(&self, (begin, end): (Key, Key)) {
        if begin < end {
            let ranges = &mut self.state_mut().native.late_read_ranges;
            ranges.push(KeyRange { begin, end });
        }
    }

    pub(super) async fn read_mapped(
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

    pub(super) fn add_read_cost(&self, bytes: usize) {
        self.state_mut().native.total_cost += read_cost(bytes);
    }
}

/// A selector whose key is no longer than a key can be.
pub(super) fn cut(mut selector: KeySelector) -> KeySelector {
    selector.key = crate::data::key::cut_to_limit(selector.key);
    selector
}

/// The range read by which a selector is resolved: the first row after it, or the last one before.
pub(super) fn selector_read(mut selector: KeySelector, max_key: Key) -> RangeRead {
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
pub(super) fn resolved_key(selector: &KeySelector, result: RangeResult, max_key: &Key) -> Key {
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
