//! The key space cut into ranges, with a value for each: which servers hold which shard.
//!
//! A range ends where the next one begins. Every mutation looks up the range around its key, at the
//! proxy and at each storage server that receives it, while ranges come and go only when shards
//! move; so they are stored in a sorted vector instead of a tree. What is searched is apart from
//! what is found: a hundred keys are in the cache, a hundred shards are not.

use crate::data::key::ALL_END;
use crate::proto::{Key, KeyRange};
use crate::server::small_key::SmallKey;

/// Values by the key at which their range begins.
#[derive(Clone, Debug)]
pub struct RangeMap<T> {
    /// Where each range begins, to search by.
    found_by: Vec<SmallKey>,
    ranges: Vec<Range<T>>,
    /// Which range was last asked for to change its value: the next is often the same.
    last: usize,
}

#[derive(Clone, Debug)]
struct Range<T> {
    /// The same key, to hand out.
    begin: Key,
    value: T,
}

impl<T> Default for RangeMap<T> {
    fn default() -> Self {
        RangeMap {
            found_by: Vec::new(),
            ranges: Vec::new(),
            last: 0,
        }
    }
}

impl<T> RangeMap<T> {
    /// Sets the value of the range that begins with a key; if there is none, splits the range
    /// around the key.
    pub fn insert(&mut self, begin: Key, value: T) {
        let found_by = SmallKey::from(&*begin);
        let range = Range { begin, value };
        match self.found_by.binary_search(&found_by) {
            Ok(index) => self.ranges[index] = range,
            Err(index) => {
                self.found_by.insert(index, found_by);
                self.ranges.insert(index, range);
            }
        }
    }

    /// Joins the range that begins with a key to the one before it.
    pub fn remove(&mut self, begin: &[u8]) {
        if let Ok(index) = self.found_by.binary_search(&SmallKey::from(begin)) {
            self.found_by.remove(index);
            self.ranges.remove(index);
        }
    }

    /// Whether a range begins with this key.
    pub fn begins_with(&self, key: &[u8]) -> bool {
        self.found_by.binary_search(&SmallKey::from(key)).is_ok()
    }

    /// All ranges, in order of their first keys.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Key, &T)> {
        self.ranges.iter().map(|range| (&range.begin, &range.value))
    }

    /// All ranges in order, each with where it ends.
    pub fn whole(&self) -> impl Iterator<Item = (KeyRange, &T)> {
        (0..self.ranges.len()).map(|index| self.whole_at(index))
    }

    /// All ranges, in order of their first keys.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&Key, &mut T)> {
        let ranges = self.ranges.iter_mut();
        ranges.map(|range| (&range.begin, &mut range.value))
    }

    /// The ranges that begin in `[begin, end)`.
    pub fn beginning_in(
        &self,
        begin: &[u8],
        end: &[u8],
    ) -> impl DoubleEndedIterator<Item = (&Key, &T)> {
        let (from, to) = (self.first_from(begin), self.first_from(end));
        let ranges = self.ranges[from..to.max(from)].iter();
        ranges.map(|range| (&range.begin, &range.value))
    }

    /// The ranges that begin in `[begin, end)`.
    pub fn beginning_in_mut(
        &mut self,
        begin: &[u8],
        end: &[u8],
    ) -> impl Iterator<Item = (&Key, &mut T)> {
        let (from, to) = (self.first_from(begin), self.first_from(end));
        let ranges = self.ranges[from..to.max(from)].iter_mut();
        ranges.map(|range| (&range.begin, &mut range.value))
    }

    /// The range around a key and those before it, backwards.
    pub fn back_from(&self, key: &[u8]) -> impl Iterator<Item = (&Key, &T)> {
        let before = self.ranges[..self.first_after(key)].iter().rev();
        before.map(|range| (&range.begin, &range.value))
    }

    /// The ranges after the one around a key.
    pub fn after(&self, key: &[u8]) -> impl Iterator<Item = (&Key, &T)> {
        let behind = self.ranges[self.first_after(key)..].iter();
        behind.map(|range| (&range.begin, &range.value))
    }

    /// The range around a key.
    ///
    /// # Panics
    ///
    /// If no range begins at or before the key.
    pub fn around(&self, key: &[u8]) -> (&Key, &T) {
        let range = &self.ranges[self.first_after(key) - 1];
        (&range.begin, &range.value)
    }

    /// The value of the range around a key.
    ///
    /// # Panics
    ///
    /// If no range begins at or before the key.
    pub fn around_mut(&mut self, key: &SmallKey) -> &mut T {
        let last = self.last;
        let reaches = |index: usize| self.found_by.get(index).is_some_and(|begin| begin <= key);
        if !reaches(last) || reaches(last + 1) {
            self.last = self.found_by.partition_point(|begin| begin <= key) - 1;
        }
        let index = self.last;
        &mut self.ranges[index].value
    }

    /// Where the range around a key ends.
    pub fn end_of(&self, key: &[u8]) -> Key {
        self.begin_at(self.first_after(key))
    }

    /// The ranges that overlap another one, in order and from both ends, whole.
    pub fn overlapping(&self, other: &KeyRange) -> impl DoubleEndedIterator<Item = (KeyRange, &T)> {
        let from = self.first_after(&other.begin).saturating_sub(1);
        let to = self.first_from(&other.end);
        (from..to).map(|index| self.whole_at(index))
    }

    fn whole_at(&self, index: usize) -> (KeyRange, &T) {
        let range = &self.ranges[index];
        let keys = KeyRange {
            begin: range.begin.clone(),
            end: self.begin_at(index + 1),
        };
        (keys, &range.value)
    }

    /// Where a range begins, or where the last one ends.
    fn begin_at(&self, index: usize) -> Key {
        match self.ranges.get(index) {
            Some(range) => range.begin.clone(),
            None => ALL_END,
        }
    }

    fn first_from(&self, key: &[u8]) -> usize {
        let key = SmallKey::from(key);
        self.found_by.partition_point(|begin| *begin < key)
    }

    fn first_after(&self, key: &[u8]) -> usize {
        let key = SmallKey::from(key);
        self.found_by.partition_point(|begin| *begin <= key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Key {
        Key::copy_from_slice(text.as_bytes())
    }

    fn range(begin: &str, end: &str) -> KeyRange {
        KeyRange {
            begin: key(begin),
            end: key(end),
        }
    }

    #[test]
    fn a_range_reaches_from_its_beginning_to_the_next() {
        let mut map = RangeMap::default();
        for (begin, value) in [("", 0), ("m", 1), ("d", 2), ("m", 3)] {
            map.insert(key(begin), value);
        }
        assert_eq!(map.around(b"czz"), (&key(""), &0));
        assert_eq!(map.around(b"d"), (&key("d"), &2));
        assert_eq!(map.around(b"z"), (&key("m"), &3));
        assert_eq!(map.end_of(b"d"), key("m"));
        assert_eq!(*map.end_of(b"m"), ALL_END);
        map.remove(b"d");
        assert_eq!(map.around(b"d"), (&key(""), &0));
        assert_eq!(map.end_of(b"d"), key("m"));
    }

    #[test]
    fn ranges_that_only_touch_do_not_overlap() {
        let mut map = RangeMap::default();
        for (begin, value) in [("", 0), ("d", 1), ("m", 2)] {
            map.insert(key(begin), value);
        }
        let over = |begin, end| -> Vec<i32> {
            let other = range(begin, end);
            map.overlapping(&other).map(|(_, value)| *value).collect()
        };
        assert_eq!(over("a", "d"), [0]);
        assert_eq!(over("d", "m"), [1]);
        assert_eq!(over("c", "n"), [0, 1, 2]);
        assert!(over("z", "a").is_empty());
        let other = range("d", "e");
        let (keys, _) = map.overlapping(&other).next().unwrap();
        assert_eq!(keys, range("d", "m"));
        let inside: Vec<_> = map.beginning_in(b"a", b"m").collect();
        assert_eq!(inside, [(&key("d"), &1)]);
        let back: Vec<_> = map.back_from(b"e").map(|(_, value)| *value).collect();
        assert_eq!(back, [1, 0]);
        let after: Vec<_> = map.after(b"e").map(|(_, value)| *value).collect();
        assert_eq!(after, [2]);
    }
}
