//! A set of keys made of ranges: read conflict ranges, merged as they come.

use crate::proto::{Key, KeyRange};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Disjoint ranges that do not touch, by their beginning.
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeSet {
    ranges: BTreeMap<Key, Key>,
}

impl RangeSet {
    /// Adds a range and joins it with all that it overlaps or touches. An empty one adds nothing.
    pub(crate) fn insert(&mut self, mut begin: Key, mut end: Key) {
        if begin >= end {
            return;
        }
        if let Some((before, until)) = self.ranges.range::<Key, _>(..=&begin).next_back()
            && *until >= begin
        {
            if *until >= end {
                return;
            }
            begin = before.clone();
        }
        loop {
            let inside = (Bound::Included(&begin), Bound::Included(&end));
            let Some((first, until)) = self.ranges.range::<Key, _>(inside).next() else {
                break;
            };
            let (first, until) = (first.clone(), until.clone());
            self.ranges.remove(&first);
            end = end.max(until);
        }
        self.ranges.insert(begin, end);
    }

    /// The ranges in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = KeyRange> {
        self.ranges.iter().map(|(begin, end)| KeyRange {
            begin: begin.clone(),
            end: end.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(set: &RangeSet) -> Vec<(u8, u8)> {
        set.iter()
            .map(|range| (range.begin[0], range.end[0]))
            .collect()
    }

    #[test]
    fn ranges_that_overlap_or_touch_become_one() {
        let mut set = RangeSet::default();
        let mut insert = |begin: u8, end: u8| {
            set.insert(vec![begin].into(), vec![end].into());
            ranges(&set)
        };
        assert_eq!(insert(10, 20), [(10, 20)]);
        assert_eq!(insert(30, 40), [(10, 20), (30, 40)]);
        assert_eq!(insert(12, 15), [(10, 20), (30, 40)]);
        assert_eq!(insert(20, 22), [(10, 22), (30, 40)]);
        assert_eq!(insert(28, 30), [(10, 22), (28, 40)]);
        assert_eq!(insert(50, 50), [(10, 22), (28, 40)]);
        assert_eq!(insert(5, 60), [(5, 60)]);
    }
}
