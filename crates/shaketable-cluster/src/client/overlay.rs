//! The snapshot with the transaction's own writes laid over it.
//!
//! A cursor walks the cache and the write map together; its segments are the intersections of
//! theirs. At each segment it is known what a read would find: a row, nothing, or that the database
//! must be asked. A segment that a versionstamp has made unreadable refuses every read with 1036.

use super::snapshot_cache::{CacheCursor, CacheSegment, SnapshotCache};
use super::write_map::{WriteCursor, WriteMap, WriteSegment};
use crate::data::key::KeyBound;
use crate::error::Error;
use crate::proto::{KeyValue, Value};
use std::cmp::Ordering;

/// What a read finds at a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    UnknownRange,
    EmptyRange,
    Row,
}

/// A place in the overlay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    overlay: Overlay<'a>,
    cache: CacheCursor<'a>,
    writes: WriteCursor<'a>,
}

/// A snapshot and the writes over it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overlay<'a> {
    pub(crate) cache: &'a SnapshotCache,
    pub(crate) writes: &'a WriteMap,
    /// Whether unreadable segments show their operands instead of refusing.
    pub(crate) bypass_unreadable: bool,
}

/// Adjacent rows.
#[derive(Debug)]
pub(crate) enum Rows<'a> {
    Known(&'a [KeyValue]),
    Written(KeyValue),
}

impl<'a> Overlay<'a> {
    /// A cursor at the segment that contains `key`.
    pub(crate) fn cursor(self, key: &[u8]) -> Cursor<'a> {
        Cursor {
            overlay: self,
            cache: self.cache.cursor(key),
            writes: self.writes.cursor(key),
        }
    }
}

impl Rows<'_> {
    pub(crate) fn as_slice(&self) -> &[KeyValue] {
        match self {
            Rows::Known(rows) => rows,
            Rows::Written(row) => std::slice::from_ref(row),
        }
    }
}

impl<'a> Cursor<'a> {
    /// What a read finds here.
    pub(crate) fn segment(&self) -> Result<Segment, Error> {
        if self.is_unreadable() && !self.overlay.bypass_unreadable {
            return Err(Error::ACCESSED_UNREADABLE);
        }
        Ok(match (self.writes.segment(), self.cache.segment()) {
            (WriteSegment::ClearedRange, _) => Segment::EmptyRange,
            (WriteSegment::IndependentWrite, _) => Segment::Row,
            (_, CacheSegment::UnknownRange) => Segment::UnknownRange,
            (WriteSegment::DependentWrite, _) => Segment::Row,
            (WriteSegment::UnmodifiedRange, CacheSegment::EmptyRange) => Segment::EmptyRange,
            (WriteSegment::UnmodifiedRange, CacheSegment::Row) => Segment::Row,
        })
    }

    /// Whether a versionstamp has made this segment unreadable.
    pub(crate) fn is_unreadable(&self) -> bool {
        self.writes.is_unreadable()
    }

    /// Whether this is a readable segment of the given kind.
    pub(crate) fn is(&self, kind: Segment) -> bool {
        !self.is_unreadable() && self.segment() == Ok(kind)
    }

    /// Whether this is a readable segment about which everything is known.
    pub(crate) fn is_known(&self) -> bool {
        !self.is_unreadable() && self.segment() != Ok(Segment::UnknownRange)
    }

    /// The write segment this segment is part of.
    pub(crate) fn writes(&self) -> &WriteCursor<'a> {
        &self.writes
    }

    /// The value at a row. A stack of operations may leave no value at all.
    pub(crate) fn value(&self) -> Result<Option<Value>, Error> {
        match self.writes.operations() {
            None => Ok(Some(self.cache.row().value.clone())),
            Some(stack) => {
                let known =
                    !self.writes.is_independent() && self.cache.segment() == CacheSegment::Row;
                stack.fold_over(known.then(|| &self.cache.row().value))
            }
        }
    }

    /// Takes the row here and all that follow it directly, up to `end`. The cursor moves to the
    /// last of them.
    pub(crate) fn take_rows_until(&mut self, end: &[u8]) -> Result<Option<Rows<'a>>, Error> {
        if let Some(written) = self.written_row()? {
            return Ok(written);
        }
        let end = KeyBound::new(end).min(self.writes.end_key());
        Ok(Some(Rows::Known(self.cache.take_rows_until(end))))
    }

    /// Takes the row here and all that precede it directly, down to `begin`. The cursor moves to
    /// the first of them.
    pub(crate) fn take_rows_back_to(&mut self, begin: &[u8]) -> Result<Option<Rows<'a>>, Error> {
        if let Some(written) = self.written_row()? {
            return Ok(written);
        }
        // A row at the very beginning of the unmodified range is taken on its own, as FoundationDB
        // does.
        let after = self.writes.begin_key();
        Ok(Some(Rows::Known(
            self.cache.take_rows_back_to(KeyBound::new(begin), after),
        )))
    }

    /// The row here if this transaction wrote it; the inner option is empty if its operations
    /// removed it.
    fn written_row(&self) -> Result<Option<Option<Rows<'a>>>, Error> {
        if self.writes.operations().is_none() {
            return Ok(None);
        }
        let key = self.writes.key().clone();
        let row = self
            .value()?
            .map(|value| Rows::Written(KeyValue { key, value }));
        Ok(Some(row))
    }

    pub(crate) fn begin_key(&self) -> KeyBound<'a> {
        self.cache.begin_key().max(self.writes.begin_key())
    }

    pub(crate) fn end_key(&self) -> KeyBound<'a> {
        self.cache.end_key().min(self.writes.end_key())
    }

    pub(crate) fn next(&mut self) {
        let order = self.cache.end_key().cmp(&self.writes.end_key());
        if order != Ordering::Greater {
            self.cache.next();
        }
        if order != Ordering::Less {
            self.writes.next();
        }
    }

    pub(crate) fn previous(&mut self) {
        let order = self.cache.begin_key().cmp(&self.writes.begin_key());
        if order != Ordering::Less {
            self.cache.previous();
        }
        if order != Ordering::Greater {
            self.writes.previous();
        }
    }

    pub(crate) fn is_same(&self, other: &Cursor<'_>) -> bool {
        self.cache.is_same(&other.cache) && self.writes.is_same(&other.writes)
    }
}
