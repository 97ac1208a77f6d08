//! One range read over the overlay, as a machine that asks for what it does not know.
//!
//! [`RangeRead::advance`] walks the overlay as far as everything is known and then returns what
//! must be read from the database; the answer goes into the snapshot cache and the walk goes on.
//! The machine holds no cursor between two steps, so nothing is borrowed while the database is
//! asked.
//!
//! How much is requested at a time, and where a read with a byte limit stops, is visible to an
//! application as the number of rows per call. So the sizes of the requests follow FoundationDB's
//! rules exactly:
//!
//! * known rows are taken until a limit is reached; at the first unknown segment a read with a byte
//!   limit stops if it has its minimum number of rows;
//! * a request asks for a few rows more than are wanted: for the offsets of the selectors, and for
//!   single keys that are known to be cleared, whose number may double with every request;
//! * the byte limit of a request doubles with every request of the same read.
//!
//! A selector is moved along over what is known until it has the form "first key greater or equal",
//! or runs into something unknown, or off an end of the key space.

mod backward;
mod forward;
#[cfg(test)]
mod tests;

use super::RangeLimits;
use super::limits::REPLY_BYTES_MAX;
use super::overlay::{Cursor, Overlay, Segment};
use crate::data::key::KeyBound;
use crate::error::Error;
use crate::proto::{Key, KeySelector, KeyValue};
use bytes::Bytes;

/// The result of a range read, with what the conflict ranges and the cache need to know.
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeResult {
    /// The rows in reading order.
    pub(crate) rows: Vec<KeyValue>,
    /// Whether a limit stopped the read.
    pub(crate) more: bool,
    /// Whether a selector ran off the beginning of the key space.
    pub(crate) read_to_begin: bool,
    /// Whether a selector ran off its end.
    pub(crate) read_through_end: bool,
    /// How far the range is known, if the read stopped at the edge of a shard.
    pub(crate) read_through: Option<Key>,
}

impl RangeResult {
    /// The total bytes of all keys and values.
    pub(crate) fn bytes(&self) -> usize {
        self.rows
            .iter()
            .map(|row| row.key.len() + row.value.len())
            .sum()
    }
}

/// What a range read wants next.
#[derive(Debug)]
pub(crate) enum Step {
    /// Nothing: this is the result.
    Done(RangeResult),
    /// The rows of this range of the snapshot; [`RangeRead::learn`] works out what they reveal.
    Read {
        begin: KeySelector,
        end: KeySelector,
        limits: RangeLimits,
    },
    /// The key that this selector resolves to in the overlay, for [`RangeRead::resolved`].
    Resolve(KeySelector),
}

/// A range read under way.
#[derive(Debug)]
pub(crate) struct RangeRead {
    begin: KeySelector,
    end: KeySelector,
    limits: RangeLimits,
    reverse: bool,
    max_key: Key,
    phase: Phase,
    result: RangeResult,
    additional_rows: i64,
    items_past: i32,
    requests: u32,
    read_to_begin: bool,
    read_through_end: bool,
    actual_begin_offset: i32,
    actual_end_offset: i32,
}

#[derive(Clone, Debug)]
enum Phase {
    /// Nothing has happened yet.
    Start,
    /// The selector on the far side is being resolved because it lies on the wrong side of the near
    /// one.
    Crossed,
    /// It has been resolved to this key.
    CrossedAt(Key),
    /// Walking.
    Scan,
    /// The selector on the far side is being resolved to cut off what lies beyond it.
    Cutting,
    /// It has been resolved; only the cutting is left.
    Finish,
}

impl RangeRead {
    /// A read between two normalised selectors, clipped at `max_key`.
    pub(crate) fn new(
        begin: KeySelector,
        end: KeySelector,
        limits: RangeLimits,
        reverse: bool,
        max_key: Key,
    ) -> Self {
        RangeRead {
            actual_begin_offset: begin.offset,
            actual_end_offset: end.offset,
            begin,
            end,
            limits,
            reverse,
            max_key,
            phase: Phase::Start,
            result: RangeResult::default(),
            additional_rows: 0,
            items_past: 0,
            requests: 0,
            read_to_begin: false,
            read_through_end: false,
        }
    }

    pub(crate) fn is_reverse(&self) -> bool {
        self.reverse
    }

    pub(crate) fn max_key(&self) -> Key {
        self.max_key.clone()
    }

    /// Walks on until something is missing or the read is done.
    pub(crate) fn advance(&mut self, overlay: Overlay<'_>) -> Result<Step, Error> {
        if self.reverse {
            self.advance_backward(overlay)
        } else {
            self.advance_forward(overlay)
        }
    }

    /// Returns the range of the snapshot that is completely known from the answer to a
    /// [`Step::Read`], if there is one.
    pub(crate) fn learn(
        &self,
        begin: &KeySelector,
        end: &KeySelector,
        answer: &RangeResult,
    ) -> Option<(Key, Key)> {
        if self.reverse {
            backward::known_range(begin, end, answer)
        } else {
            forward::known_range(begin, end, answer)
        }
    }

    /// Continues after a [`Step::Resolve`].
    pub(crate) fn resolved(&mut self, key: Key) {
        self.read_to_begin |= key.is_empty();
        self.read_through_end |= key == self.max_key;
        if matches!(self.phase, Phase::Crossed) {
            self.phase = Phase::CrossedAt(key);
        } else {
            let selector = KeySelector::first_greater_or_equal(key);
            *if self.reverse {
                &mut self.begin
            } else {
                &mut self.end
            } = selector;
            self.phase = Phase::Finish;
        }
    }

    fn resolve_begin<'a>(&mut self, overlay: Overlay<'a>) -> Result<Cursor<'a>, Error> {
        let (mut begin, mut offset) = (self.begin.clone(), self.actual_begin_offset);
        let cursor = self.resolve_from_cache(overlay, &mut begin, &mut offset);
        (self.begin, self.actual_begin_offset) = (begin, offset);
        cursor
    }

    fn resolve_end<'a>(&mut self, overlay: Overlay<'a>) -> Result<Cursor<'a>, Error> {
        let (mut end, mut offset) = (self.end.clone(), self.actual_end_offset);
        let cursor = self.resolve_from_cache(overlay, &mut end, &mut offset);
        (self.end, self.actual_end_offset) = (end, offset);
        cursor
    }

    /// Moves a selector along over what is known. If it can be resolved, the cursor is at the key
    /// it resolves to; if it runs off an end of the key space, it becomes that end; otherwise the
    /// cursor is at an unknown segment, and the selector's key is in or beside it.
    fn resolve_from_cache<'a>(
        &mut self,
        overlay: Overlay<'a>,
        selector: &mut KeySelector,
        actual_offset: &mut i32,
    ) -> Result<Cursor<'a>, Error> {
        let was_resolved = selector.offset == 1;
        let mut cursor = overlay.cursor(&selector.key);
        if selector.offset <= 0
            && cursor.begin_key() == KeyBound::new(&selector.key)
            && !selector.key.is_empty()
        {
            cursor.previous();
        }
        let max_key = KeyBound::new(&self.max_key);
        let mut key = None;
        while selector.offset > 1 && cursor.is_known() && cursor.end_key() < max_key {
            if cursor.is(Segment::Row) {
                selector.offset -= 1;
            }
            cursor.next();
            key = Some(cursor.begin_key());
        }
        while selector.offset < 1 && cursor.is_known() && cursor.begin_key().len() > 0 {
            if cursor.is(Segment::Row) {
                selector.offset += 1;
                if selector.offset == 1 {
                    key = Some(cursor.begin_key());
                    break;
                }
            }
            cursor.previous();
            key = Some(cursor.end_key());
        }
        if !was_resolved {
            *actual_offset = selector.offset;
        }
        if selector.offset != 1 && cursor.is_known() {
            if selector.offset < 1 {
                self.read_to_begin = true;
                selector.key = Bytes::new();
            } else {
                self.read_through_end = true;
                selector.key = self.max_key.clone();
            }
            selector.offset = 1;
            return Ok(cursor);
        }
        while cursor.is(Segment::EmptyRange) && cursor.end_key() < max_key {
            cursor.next();
            key = Some(cursor.begin_key());
        }
        if let Some(key) = key {
            selector.key = key.to_key();
        }
        Ok(cursor)
    }

    /// An empty result that records which ends were reached.
    fn nothing(read_to_begin: bool, read_through_end: bool) -> Result<Step, Error> {
        Ok(Step::Done(RangeResult {
            read_to_begin,
            read_through_end,
            ..RangeResult::default()
        }))
    }

    /// How many keys known to be cleared a request may ask for in addition.
    fn clear_limit(&self) -> i32 {
        if self.requests > 0 {
            1 << self.requests.min(20)
        } else {
            0
        }
    }

    /// The limits of the next request. `offset` rows are needed to make any progress.
    fn request_limits(&mut self, offset: i32) -> RangeLimits {
        let at_least = |rows: i64| rows.max(i64::from(offset)).min(i64::from(i32::MAX)) as i32;
        let additional = self.additional_rows;
        let rows = |wanted: i32| at_least(i64::from(wanted.max(1)) + additional);
        let mut limits = self.limits;
        limits.min_rows = at_least(1 + additional);
        limits.rows = limits.rows.map(rows);
        match limits.bytes {
            Some(0) => {
                limits.bytes = None;
                limits.rows = limits.rows.or(Some(rows(1)));
            }
            Some(bytes) => {
                let bytes = (i64::from(bytes) << self.requests.min(20)).min(REPLY_BYTES_MAX.into());
                limits.bytes = Some(bytes as i32);
            }
            None => {}
        }
        self.requests += 1;
        self.additional_rows = 0;
        limits
    }
}

/// Moves from an unknown segment over single keys known to be cleared to the last unknown segment
/// before something larger is known, but no further than `end` and at most `steps` keys. Returns
/// the number of keys.
fn skip_unknown(cursor: &mut Cursor<'_>, end: &Cursor<'_>, mut steps: i32) -> i32 {
    let (mut gap_begin, mut segment_end) = (cursor.begin_key(), cursor.end_key());
    let mut cleared = 0;
    while !cursor.is_same(end) && steps > 0 {
        steps -= 1;
        if cursor.is_unreadable() || cursor.is(Segment::EmptyRange) {
            if cursor.is_unreadable() || !segment_end.is_after(gap_begin) {
                break;
            }
            cleared += 1;
        } else {
            gap_begin = segment_end;
        }
        cursor.next();
        segment_end = cursor.end_key();
    }
    while !cursor.is(Segment::UnknownRange) {
        cursor.previous();
    }
    cleared
}

/// The mirror image of [`skip_unknown`].
fn skip_unknown_back(cursor: &mut Cursor<'_>, end: &Cursor<'_>, mut steps: i32) -> i32 {
    let (mut segment_begin, mut gap_end) = (cursor.begin_key(), cursor.end_key());
    let mut cleared = 0;
    while !cursor.is_same(end) && steps > 0 {
        steps -= 1;
        if cursor.is_unreadable() || cursor.is(Segment::EmptyRange) {
            if cursor.is_unreadable() || !gap_end.is_after(segment_begin) {
                break;
            }
            cleared += 1;
        } else {
            gap_end = segment_begin;
        }
        cursor.previous();
        segment_begin = cursor.begin_key();
    }
    while !cursor.is(Segment::UnknownRange) {
        cursor.next();
    }
    cleared
}

/// Counts the single keys known to be cleared that follow an unknown segment before something
/// larger is known.
fn count_cleared(mut cursor: Cursor<'_>, max_key: &[u8], max: i32) -> i32 {
    let (mut gap_begin, mut segment_end) = (cursor.begin_key(), cursor.end_key());
    let mut cleared = 0;
    while cleared < max && segment_end < KeyBound::new(max_key) {
        if cursor.is_unreadable() || cursor.is(Segment::EmptyRange) {
            if cursor.is_unreadable() || !segment_end.is_after(gap_begin) {
                break;
            }
            cleared += 1;
        } else {
            gap_begin = segment_end;
        }
        cursor.next();
        segment_end = cursor.end_key();
    }
    cleared
}

/// The mirror image of [`count_cleared`].
fn count_cleared_back(mut cursor: Cursor<'_>, max: i32) -> i32 {
    let (mut segment_begin, mut gap_end) = (cursor.begin_key(), cursor.end_key());
    let mut cleared = 0;
    while cleared < max && segment_begin.len() > 0 {
        if cursor.is_unreadable() || cursor.is(Segment::EmptyRange) {
            if cursor.is_unreadable() || !gap_end.is_after(segment_begin) {
                break;
            }
            cleared += 1;
        } else {
            gap_end = segment_begin;
        }
        cursor.previous();
        segment_begin = cursor.begin_key();
    }
    cleared
}
