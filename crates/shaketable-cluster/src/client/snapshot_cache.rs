//! What a transaction has learnt about its snapshot of the database.
//!
//! The snapshot never changes, so nothing needs to be read twice. The cache holds disjoint ranges
//! whose rows are known; everything between them is unknown. Ranges are *not* joined when they
//! touch: where a range read ends depends on where earlier ones ended, and that is visible to an
//! application as the number of rows per call.
//!
//! A cursor sees three kinds of segments: single rows, ranges known to be empty, and unknown
//! ranges.

use super::chunks::{Chunks, Keyed, Position};
use crate::data::key::{AFTER_ALL, ALL_END, KeyBound, compare, key_after, same};
use crate::proto::{Key, KeyValue, Value};
use bytes::Bytes;
use std::rc::Rc;

/// The known part of a snapshot.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotCache {
    entries: Chunks<Entry>,
}

/// A range whose rows are known.
#[derive(Clone, Debug)]
struct Entry {
    begin: Key,
    end: Key,
    rows: Rows,
}

/// A slice of the rows of one reply.
#[derive(Clone, Debug)]
struct Rows {
    reply: Rc<[KeyValue]>,
    from: usize,
    to: usize,
}

/// What the snapshot holds at a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheSegment {
    UnknownRange,
    EmptyRange,
    Row,
}

impl SnapshotCache {
    pub(crate) fn new() -> Self {
        // Degenerate ranges at both ends, so that every key has a known range before and after it.
        let edge = |begin, end| Entry {
            begin,
            end,
            rows: Rows::none(),
        };
        SnapshotCache {
            entries: Chunks::new(vec![
                edge(Bytes::new(), Bytes::new()),
                edge(ALL_END, AFTER_ALL),
            ]),
        }
    }

    /// Whether nothing is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries
            .iter()
            .all(|entry| entry.begin == entry.end || entry.begin >= ALL_END)
    }

    /// A cursor at the segment that contains `key`.
    pub(crate) fn cursor(&self, key: &[u8]) -> CacheCursor<'_> {
        let at = self.entries.last_not_after(key);
        let entry = self.entries.get(at);
        if compare(&entry.end, key).is_le() && compare(key, &ALL_END).is_lt() {
            let at = self.entries.next(at);
            return CacheCursor {
                entries: &self.entries,
                at,
                offset: 0,
            };
        }
        let rows = entry.rows.as_slice();
        let index = rows.partition_point(|row| compare(&row.key, key).is_lt());
        let is_row = rows.get(index).is_some_and(|row| same(&row.key, key));
        CacheCursor {
            entries: &self.entries,
            at,
            offset: 2 * index + 1 + usize::from(is_row),
        }
    }

    /// Learns the value of one key.
    pub(crate) fn insert_value(&mut self, key: Key, value: Option<Value>) {
        if self.cursor(&key).segment() != CacheSegment::UnknownRange {
            return;
        }
        let rows = match value {
            Some(value) => Rows::new(Rc::new([KeyValue {
                key: key.clone(),
                value,
            }])),
            None => Rows::none(),
        };
        self.entries.insert(Entry {
            end: key_after(&key),
            begin: key,
            rows,
        });
    }

    /// Learns that a range holds these rows, in ascending order, and no others.
    pub(crate) fn insert_range(&mut self, begin: Key, end: Key, rows: Rc<[KeyValue]>) {
        if begin >= end {
            return;
        }
        let mut rows = Rows::new(rows);
        let (first, last) = (self.cursor(&begin), self.cursor(&end));
        let mut range = (begin, end);
        if first.offset > 0 && first.entry().begin != range.0 {
            range.0 = first.entry().end.clone();
            rows.from = rows.partition_point(&range.0);
        }
        if last.offset > 0 {
            range.1 = last.entry().begin.clone();
            rows.to = rows.partition_point(&range.1);
        }
        let (begin, end) = range;
        if begin >= end {
            return;
        }
        // A range that begins at the very first key takes the place of the degenerate one there.
        self.entries
            .remove(KeyBound::new(&begin), KeyBound::new(&end));
        self.entries.insert(Entry { begin, end, rows });
    }
}

impl Rows {
    fn new(reply: Rc<[KeyValue]>) -> Rows {
        Rows {
            from: 0,
            to: reply.len(),
            reply,
        }
    }

    fn none() -> Rows {
        Rows::new(Rc::new([]))
    }

    fn as_slice(&self) -> &[KeyValue] {
        &self.reply[self.from..self.to.max(self.from)]
    }

    /// The number of rows of the reply, before this slice and in it, that have a smaller key.
    fn partition_point(&self, key: &[u8]) -> usize {
        self.from
            + self
                .as_slice()
                .partition_point(|row| compare(&row.key, key).is_lt())
    }
}

impl Keyed for Entry {
    fn key(&self) -> &[u8] {
        &self.begin
    }
}

/// A place in the sequence of segments. Every key belongs to exactly one segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheCursor<'a> {
    entries: &'a Chunks<Entry>,
    at: Position,
    /// 0 is the unknown range *before* the entry; odd numbers are the empty ranges between its
    /// rows, even ones its rows.
    offset: usize,
}

impl<'a> CacheCursor<'a> {
    pub(crate) fn segment(&self) -> CacheSegment {
        match self.offset {
            0 => CacheSegment::UnknownRange,
            odd if odd % 2 == 1 => CacheSegment::EmptyRange,
            _ => CacheSegment::Row,
        }
    }

    /// The row the cursor is at.
    pub(crate) fn row(&self) -> &'a KeyValue {
        &self.rows()[self.row_index()]
    }

    /// Takes the rows from here to the last one before `end`, at least one. The cursor moves to the
    /// last of them.
    pub(crate) fn take_rows_until(&mut self, end: KeyBound<'_>) -> &'a [KeyValue] {
        let (rows, from) = (self.rows(), self.row_index());
        let count = rows[from + 1..].partition_point(|row| KeyBound::new(&row.key) < end);
        self.offset += 2 * count;
        &rows[from..=from + count]
    }

    /// Takes the rows from the first one at or after `begin`, and after `after`, to here; at least
    /// one. The cursor moves to the first of them.
    pub(crate) fn take_rows_back_to(
        &mut self,
        begin: KeyBound<'_>,
        after: KeyBound<'_>,
    ) -> &'a [KeyValue] {
        let (rows, to) = (self.rows(), self.row_index());
        let from = rows[..to].partition_point(|row| {
            let key = KeyBound::new(&row.key);
            key < begin || key <= after
        });
        self.offset = 2 * from + 2;
        &rows[from..=to]
    }

    pub(crate) fn begin_key(&self) -> KeyBound<'a> {
        match self.offset {
            0 => KeyBound::new(&self.entries.get(self.entries.previous(self.at)).end),
            1 => KeyBound::new(&self.entry().begin),
            even if even % 2 == 0 => KeyBound::new(&self.row().key),
            odd => KeyBound::after(&self.rows()[(odd - 3) / 2].key),
        }
    }

    pub(crate) fn end_key(&self) -> KeyBound<'a> {
        match self.offset {
            0 => KeyBound::new(&self.entry().begin),
            last if last + 1 == self.segments() => KeyBound::new(&self.entry().end),
            even if even % 2 == 0 => KeyBound::after(&self.row().key),
            odd => KeyBound::new(&self.rows()[odd / 2].key),
        }
    }

    /// Moves to the next segment that contains any keys.
    pub(crate) fn next(&mut self) {
        let end = self.end_key();
        loop {
            self.offset += 1;
            if self.offset == self.segments() {
                let next = self.entries.next(self.at);
                if next == self.at {
                    self.offset -= 1;
                    return;
                }
                self.at = next;
                self.offset = 0;
            }
            if self.end_key() != end {
                return;
            }
        }
    }

    /// Moves to the previous segment that contains any keys.
    pub(crate) fn previous(&mut self) {
        let begin = self.begin_key();
        loop {
            if self.offset == 0 {
                let previous = self.entries.previous(self.at);
                if previous == self.at {
                    return;
                }
                self.at = previous;
                self.offset = self.segments();
            }
            self.offset -= 1;
            if self.begin_key() != begin {
                return;
            }
        }
    }

    pub(crate) fn is_same(&self, other: &CacheCursor<'_>) -> bool {
        self.at == other.at && self.offset == other.offset
    }

    fn entry(&self) -> &'a Entry {
        self.entries.get(self.at)
    }

    fn rows(&self) -> &'a [KeyValue] {
        self.entry().rows.as_slice()
    }

    fn row_index(&self) -> usize {
        (self.offset - 2) / 2
    }

    fn segments(&self) -> usize {
        2 * (self.rows().len() + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Key {
        Bytes::copy_from_slice(text.as_bytes())
    }

    fn rows(keys: &[&str]) -> Rc<[KeyValue]> {
        keys.iter()
            .map(|k| KeyValue {
                key: key(k),
                value: key("v"),
            })
            .collect()
    }

    /// The segments from the first key to the last, as text: `?` unknown, `-` empty, `=` a row.
    fn describe(cache: &SnapshotCache) -> String {
        let mut text = String::new();
        let mut cursor = cache.cursor(b"");
        while cursor.begin_key() < KeyBound::new(&ALL_END) {
            text.push_str(match cursor.segment() {
                CacheSegment::UnknownRange => "?",
                CacheSegment::EmptyRange => "-",
                CacheSegment::Row => "=",
            });
            let begin = cursor.begin_key().to_key();
            text.push_str(&String::from_utf8_lossy(&begin).replace('\0', "."));
            text.push(' ');
            cursor.next();
        }
        text.trim_end().to_owned()
    }

    #[test]
    fn segments_follow_one_another_without_gaps() {
        let mut cache = SnapshotCache::new();
        assert!(cache.is_empty());
        assert_eq!(describe(&cache), "?");
        cache.insert_range(key("b"), key("f"), rows(&["c", "d"]));
        cache.insert_value(key("h"), Some(key("v")));
        cache.insert_value(key("i"), None);
        assert!(!cache.is_empty());
        assert_eq!(describe(&cache), "? -b =c -c. =d -d. ?f =h ?h. -i ?i.");
        let mut back = cache.cursor(&ALL_END);
        let mut begins = Vec::new();
        while back.begin_key().len() > 0 {
            back.previous();
            begins.push(String::from_utf8_lossy(&back.begin_key().to_key()).replace('\0', "."));
        }
        assert_eq!(
            begins,
            ["i.", "i", "h.", "h", "f", "d.", "d", "c.", "c", "b", ""]
        );
    }

    #[test]
    fn what_is_known_is_not_learnt_again() {
        let mut cache = SnapshotCache::new();
        cache.insert_range(key("c"), key("f"), rows(&["d"]));
        cache.insert_range(key("b"), key("e"), rows(&["b", "d"]));
        assert_eq!(describe(&cache), "? =b -b. -c =d -d. ?f");
        cache.insert_range(key("e"), key("h"), rows(&["g"]));
        assert_eq!(describe(&cache), "? =b -b. -c =d -d. -f =g -g. ?h");
        cache.insert_range(key("a"), key("z"), rows(&["b", "d", "g", "k"]));
        assert_eq!(describe(&cache), "? -a =b -b. =d -d. =g -g. =k -k. ?z");
    }

    #[test]
    fn the_ends_of_the_key_space_can_be_known() {
        let mut cache = SnapshotCache::new();
        cache.insert_range(Bytes::new(), key("c"), rows(&["", "b"]));
        cache.insert_range(key("x"), ALL_END, rows(&[]));
        assert_eq!(describe(&cache), "= -. =b -b. ?c -x");
        cache.insert_range(Bytes::new(), ALL_END, rows(&["", "b", "m"]));
        assert_eq!(describe(&cache), "= -. =b -b. =m -m.");
    }

    #[test]
    fn rows_that_lie_side_by_side_are_taken_together() {
        let mut cache = SnapshotCache::new();
        cache.insert_range(key("a"), key("z"), rows(&["b", "c", "d", "e"]));
        let mut cursor = cache.cursor(b"b");
        assert_eq!(cursor.take_rows_until(KeyBound::new(b"d")).len(), 2);
        assert_eq!(cursor.row().key, key("c"));
        let mut cursor = cache.cursor(b"e");
        let first = KeyBound::new(b"");
        assert_eq!(
            cursor.take_rows_back_to(KeyBound::new(b"c"), first).len(),
            3
        );
        assert_eq!(cursor.row().key, key("c"));
    }
}
