//! What a read adds to the read conflict ranges.
//!
//! A serializable read depends on every key that could change its result. That is less than the
//! requested range if a limit stopped the read, and more if its selectors walked out of it. Parts
//! that the transaction itself has overwritten do not count: no other transaction's write can
//! change what is read there.
//!
//! A mapped read may not touch anything the transaction has written: the storage server serves it,
//! and does not know about those writes.

use super::range_read::RangeResult;
use super::range_set::RangeSet;
use super::write_map::{WriteCursor, WriteMap};
use crate::data::key::{KeyBound, key_after};
use crate::error::Error;
use crate::proto::{Key, KeySelector};
use bytes::Bytes;

/// The read conflict ranges of a transaction and what they add to its approximate size.
#[derive(Debug, Default)]
pub(crate) struct ReadConflicts {
    pub(crate) ranges: RangeSet,
    pub(crate) bytes: i64,
}

/// What FoundationDB counts for a conflict range on top of the bytes of its keys.
pub(crate) const RANGE_BYTES: i64 = 24;

impl ReadConflicts {
    /// Adds a read of one key, at its segment of the writes as the read saw them.
    pub(crate) fn add_key(&mut self, key: &Key, segment: &WriteCursor<'_>) {
        if segment.reads_database() {
            self.add_read_key(key);
        }
    }

    /// Adds a read of one key that was served by the database.
    pub(crate) fn add_read_key(&mut self, key: &Key) {
        self.bytes += 2 * key.len() as i64 + 1 + RANGE_BYTES;
        self.ranges.insert(key.clone(), key_after(key));
    }

    /// Adds a read of a range, over the writes as the read saw them.
    pub(crate) fn add_range(
        &mut self,
        begin: Key,
        end: Key,
        writes: &WriteMap,
    ) -> Result<(), Error> {
        self.add_segments(begin, end, writes, false)
    }

    /// Adds a read of a range in which the transaction must not have written; fails with 2039 if it
    /// has.
    pub(crate) fn add_unmodified_range(
        &mut self,
        begin: Key,
        end: Key,
        writes: &WriteMap,
    ) -> Result<(), Error> {
        self.add_segments(begin, end, writes, true)
    }

    fn add_segments(
        &mut self,
        begin: Key,
        end: Key,
        writes: &WriteMap,
        must_be_unmodified: bool,
    ) -> Result<(), Error> {
        if begin > end {
            return Err(Error::INVERTED_RANGE);
        }
        let size = (begin.len() + end.len()) as i64 + RANGE_BYTES;
        let mut cursor = writes.cursor(&begin);
        while cursor.begin_key() < KeyBound::new(&end) {
            if must_be_unmodified && !cursor.is_unmodified_range() {
                return Err(Error::GET_MAPPED_RANGE_READS_YOUR_WRITES);
            }
            if cursor.reads_database() {
                let from = cursor.begin_key().max(KeyBound::new(&begin));
                let to = cursor.end_key().min(KeyBound::new(&end));
                if from < to {
                    self.bytes += size;
                    self.ranges.insert(from.to_key(), to.to_key());
                }
            }
            cursor.next();
        }
        Ok(())
    }
}

/// The range a resolved selector depends on.
pub(crate) fn range_of_selector(selector: &KeySelector, resolved: &Key) -> (Key, Key) {
    let key = if selector.or_equal {
        key_after(&selector.key)
    } else {
        selector.key.clone()
    };
    if selector.offset <= 0 {
        (resolved.clone(), key)
    } else {
        (key, key_after(resolved))
    }
}

/// The range a forward read depends on. The selectors are normalised, but otherwise as requested.
pub(crate) fn range_of_forward_read(
    begin: &KeySelector,
    end: &KeySelector,
    result: &RangeResult,
    max_key: &Key,
) -> (Key, Key) {
    let (mut from, mut to) = if begin.key < end.key {
        // Nothing after the last row can change the result if a limit stopped the read, unless the
        // end is found by walking back from there.
        let stopped = end.offset > 0 && result.more;
        (
            begin.key.clone(),
            if stopped {
                begin.key.clone()
            } else {
                end.key.clone()
            },
        )
    } else {
        (end.key.clone(), begin.key.clone())
    };
    widen_to_ends(begin, end, result, max_key, &mut from, &mut to);
    if let (Some(first), Some(last)) = (result.rows.first(), result.rows.last()) {
        if begin.offset <= 0 {
            from = from.min(first.key.clone());
        }
        if to <= last.key {
            to = key_after(&last.key);
        }
    }
    (from, to)
}

/// The range a reverse read depends on.
pub(crate) fn range_of_reverse_read(
    begin: &KeySelector,
    end: &KeySelector,
    result: &RangeResult,
    max_key: &Key,
) -> (Key, Key) {
    let (mut from, mut to) = if begin.key < end.key {
        let stopped = begin.offset <= 1 && result.more;
        (
            if stopped {
                end.key.clone()
            } else {
                begin.key.clone()
            },
            end.key.clone(),
        )
    } else {
        (end.key.clone(), begin.key.clone())
    };
    widen_to_ends(begin, end, result, max_key, &mut from, &mut to);
    if let (Some(first), Some(last)) = (result.rows.first(), result.rows.last()) {
        from = from.min(last.key.clone());
        if end.offset > 0 && to <= first.key {
            to = key_after(&first.key);
        }
    }
    (from, to)
}

fn widen_to_ends(
    begin: &KeySelector,
    end: &KeySelector,
    result: &RangeResult,
    max_key: &Key,
    from: &mut Key,
    to: &mut Key,
) {
    if result.read_to_begin && begin.offset <= 0 {
        *from = Bytes::new();
    }
    if result.read_through_end && end.offset > 0 {
        *to = max_key.clone();
    }
}

/// The range that a native read depends on, for transactions without read-your-writes. It takes no
/// account of writes.
pub(crate) fn range_of_native_read(
    begin: &KeySelector,
    end: &KeySelector,
    reverse: bool,
    result: &RangeResult,
) -> (Key, Key) {
    use crate::data::key::ALL_END;
    let ends = result.rows.first().zip(result.rows.last());
    let (lowest, highest) = match ends {
        Some((first, last)) if reverse => (Some(&last.key), Some(&first.key)),
        Some((first, last)) => (Some(&first.key), Some(&last.key)),
        None => (None, None),
    };
    let asked_begin = (!reverse || !result.more || begin.offset > 1) && begin.offset > 0;
    let mut from = match lowest {
        _ if result.read_to_begin => Bytes::new(),
        Some(key) if !asked_begin => key.clone(),
        _ => begin.key.clone(),
    };
    if end.offset > begin.offset && end.key < from {
        from = end.key.clone();
    }
    let asked_end = (reverse || !result.more || end.offset <= 0) && end.offset <= 1;
    let mut to = match highest {
        _ if result.read_through_end => ALL_END,
        Some(key) if !asked_end => key_after(key),
        _ => end.key.clone(),
    };
    if begin.offset < end.offset && begin.key > to {
        to = begin.key.clone();
    }
    (from, to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::operations::Operation;
    use crate::data::key::NORMAL_END;
    use crate::proto::{KeyValue, MutationKind};

    fn key(text: &str) -> Key {
        Bytes::copy_from_slice(text.as_bytes())
    }

    fn selector(text: &str, offset: i32) -> KeySelector {
        KeySelector {
            key: key(text),
            or_equal: false,
            offset,
        }
    }

    fn result(keys: &[&str], more: bool) -> RangeResult {
        let row = |k: &&str| KeyValue {
            key: key(k),
            value: Bytes::new(),
        };
        RangeResult {
            rows: keys.iter().map(row).collect(),
            more,
            ..RangeResult::default()
        }
    }

    fn range(begin: &str, end: &str) -> (Key, Key) {
        (key(begin), key(end))
    }

    #[test]
    fn a_read_that_a_limit_stopped_depends_on_what_it_returned() {
        let forward = |begin, end, result| {
            range_of_forward_read(
                &selector("c", begin),
                &selector("x", end),
                &result,
                &NORMAL_END,
            )
        };
        assert_eq!(forward(1, 1, result(&["d", "f"], true)), range("c", "f\0"));
        assert_eq!(forward(1, 1, result(&["d", "f"], false)), range("c", "x"));
        assert_eq!(forward(-1, 1, result(&["a", "b"], true)), range("a", "c"));
        assert_eq!(forward(1, 0, result(&["d", "f"], true)), range("c", "x"));
        assert_eq!(forward(1, 3, result(&["d", "z"], false)), range("c", "z\0"));
        let reverse = |begin, end, result| {
            range_of_reverse_read(
                &selector("c", begin),
                &selector("x", end),
                &result,
                &NORMAL_END,
            )
        };
        assert_eq!(reverse(1, 1, result(&["w", "p"], true)), range("p", "x"));
        assert_eq!(reverse(1, 1, result(&["w", "p"], false)), range("c", "x"));
        assert_eq!(reverse(2, 1, result(&["w", "p"], true)), range("c", "x"));
        assert_eq!(reverse(1, 2, result(&["y", "p"], true)), range("p", "y\0"));
    }

    #[test]
    fn a_selector_that_ran_off_an_end_depends_on_everything_up_to_there() {
        let mut off_both = result(&["a", "y"], false);
        off_both.read_to_begin = true;
        off_both.read_through_end = true;
        let (begin, end) = (selector("c", -5), selector("x", 5));
        let expected = (Bytes::new(), NORMAL_END);
        assert_eq!(
            range_of_forward_read(&begin, &end, &off_both, &NORMAL_END),
            expected
        );
        assert_eq!(
            range_of_reverse_read(&begin, &end, &off_both, &NORMAL_END),
            expected
        );
        assert_eq!(
            range_of_selector(&selector("m", 0), &key("c")),
            range("c", "m")
        );
        assert_eq!(
            range_of_selector(&selector("m", 2), &key("p")),
            range("m", "p\0")
        );
    }

    #[test]
    fn own_writes_cut_holes_unless_they_need_the_database() {
        let mut writes = WriteMap::new();
        let set = Operation {
            kind: MutationKind::SetValue,
            value: Some(key("x")),
        };
        let add = Operation {
            kind: MutationKind::Add,
            value: Some(key("x")),
        };
        writes.mutate(key("c"), set, true);
        writes.mutate(key("e"), add, true);
        writes.clear(key("g"), key("i"), true);
        let mut conflicts = ReadConflicts::default();
        conflicts.add_range(key("a"), key("z"), &writes).unwrap();
        let ranges: Vec<_> = conflicts.ranges.iter().map(|r| (r.begin, r.end)).collect();
        assert_eq!(
            ranges,
            [range("a", "c"), range("c\0", "g"), range("i", "z")]
        );
        // Five segments were added, each counted with the whole range.
        assert_eq!(conflicts.bytes, 5 * (2 + RANGE_BYTES));
        let mapped = conflicts.add_unmodified_range(key("a"), key("d"), &writes);
        assert_eq!(mapped, Err(Error::GET_MAPPED_RANGE_READS_YOUR_WRITES));
    }
}
