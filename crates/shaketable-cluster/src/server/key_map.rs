//! An ordered map of keys, built for maps that are larger than the cache.
//!
//! What a look-up in a large map costs is the number of times that it waits for memory. A B-tree
//! compares whole keys, of which two fit a line of the cache, so each of its levels costs several
//! waits. Here a node has a row of numbers beside its keys: two bytes of each, from where the keys
//! of the node begin to differ. The numbers of a node lie together, are all compared at once, and
//! nearly always leave one key to look at.
//!
//! There are two levels of such nodes, leaves with rows and branches with leaves, and a sorted list
//! of branches above them. A map of a few rows is one leaf; a million rows are a thousand branches.
//! A leaf that is full moves half of its rows to a new one; rows that come in order of their keys
//! fill each leaf before the next one is begun.

use crate::server::small_key::{Beginning, SmallKey};
use std::cmp::Ordering;

/// How many rows a leaf has at most: those of a storage server, of 80 bytes each, fit a page.
const LEAF: usize = 48;
/// How many leaves a branch has at most.
const BRANCH: usize = 64;
/// A leaf with fewer rows joins the next one if there is room.
const LEAF_FEW: usize = LEAF / 4;

/// See the module.
#[derive(Debug)]
pub struct KeyMap<V> {
    branches: Vec<Branch<V>>,
    /// By branch but the first: no row of the branches before has a key at or behind this one, and
    /// no row of this one a key before it.
    bounds: Vec<SmallKey>,
}

#[derive(Debug)]
struct Branch<V> {
    index: Index<BRANCH>,
    leaves: Vec<Leaf<V>>,
    /// By leaf but the first, as for branches.
    bounds: Vec<SmallKey>,
}

#[derive(Debug)]
struct Leaf<V> {
    index: Index<LEAF>,
    rows: Vec<(SmallKey, V)>,
}

/// Where a row is, or would be. If it is the place behind the last row of a leaf, the row there is
/// the first one of the next leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    branch: usize,
    leaf: usize,
    row: usize,
}

impl<V> Default for KeyMap<V> {
    fn default() -> KeyMap<V> {
        KeyMap {
            branches: Vec::new(),
            bounds: Vec::new(),
        }
    }
}

impl<V> KeyMap<V> {
    /// The value of a key.
    #[inline]
    pub fn get(&self, key: &SmallKey) -> Option<&V> {
        let place = self.find(key).ok()?;
        Some(&self.leaf(place).rows[place.row].1)
    }

    /// Where the row of a key is, or would be.
    #[inline]
    pub fn find(&self, key: &SmallKey) -> Result<Place, Place> {
        let branch = self.bounds.partition_point(|bound| bound <= key);
        let place = |leaf, row| Place { branch, leaf, row };
        let Some(Branch {
            index,
            leaves,
            bounds,
        }) = self.branches.get(branch)
        else {
            return Err(place(0, 0));
        };
        let leaf = match &leaves[..] {
            [_] => 0,
            _ => match index.search(key, |bound| &bounds[bound]) {
                Ok(bound) => bound + 1,
                Err(bound) => bound,
            },
        };
        let Leaf { index, rows } = &leaves[leaf];
        match index.search(key, |row| &rows[row].0) {
            Ok(row) => Ok(place(leaf, row)),
            Err(row) => Err(place(leaf, row)),
        }
    }

    /// The value in a place where a row was found.
    #[inline]
    pub fn at_mut(&mut self, place: Place) -> &mut V {
        &mut self.leaf_mut(place).rows[place.row].1
    }

    /// Adds a row whose key was not found, in the place where it would be.
    pub fn insert(&mut self, mut place: Place, key: SmallKey, value: V) {
        if self.branches.is_empty() {
            self.branches
                .push(Branch::new(vec![Leaf::default()], Vec::new()));
        }
        while self.leaf(place).rows.len() == LEAF {
            if self.put_behind(place, &key) {
                place.leaf += 1;
                place.row = 0;
            } else {
                self.split(place);
                place = self.find(&key).expect_err("the key is not there");
            }
        }
        let Leaf { index, rows } = self.leaf_mut(place);
        if rows.len() == rows.capacity() {
            // Doubled, it ends with room for a full leaf and nothing more.
            rows.reserve_exact(rows.len().max(LEAF_FEW).min(LEAF - rows.len()));
        }
        rows.insert(place.row, (key, value));
        index.inserted(place.row, rows.len(), |row| &rows[row].0);
    }

    /// Removes a row that was found.
    pub fn remove(&mut self, place: Place) -> V {
        let Leaf { index, rows } = self.leaf_mut(place);
        let (_, value) = rows.remove(place.row);
        index.removed(place.row);
        if rows.is_empty() {
            let branch = &mut self.branches[place.branch];
            branch.remove_leaf(place.leaf);
            if branch.leaves.is_empty() {
                self.branches.remove(place.branch);
                remove_bound(&mut self.bounds, place.branch);
            }
        } else if rows.len() < LEAF_FEW {
            self.branches[place.branch].join(place.leaf);
        }
        value
    }

    /// The rows of `[begin, end)`, in order and from both ends.
    pub fn range(&self, begin: &[u8], end: &[u8]) -> Rows<'_, V> {
        let front = self.first_from(begin);
        Rows {
            map: self,
            front,
            back: if begin < end {
                self.first_from(end)
            } else {
                front
            },
        }
    }

    /// Calls `change` with each row of `[begin, end)` in order.
    pub fn for_each_in(
        &mut self,
        begin: &[u8],
        end: &[u8],
        mut change: impl FnMut(&SmallKey, &mut V),
    ) {
        self.retain_in(begin, end, |key, value| {
            change(key, value);
            true
        });
    }

    /// Calls `change` with each row of `[begin, end)` in order, and keeps those for which it
    /// returns true.
    pub fn retain_in(
        &mut self,
        begin: &[u8],
        end: &[u8],
        mut change: impl FnMut(&SmallKey, &mut V) -> bool,
    ) {
        if begin >= end || self.branches.is_empty() {
            return;
        }
        let [first, last] = [begin, end].map(|key| {
            let (Ok(place) | Err(place)) = self.find(&SmallKey::from(key));
            place
        });
        for branch in first.branch..=last.branch {
            let leaves = &mut self.branches[branch].leaves;
            let at = |edge: Place| edge.branch == branch;
            let from = if at(first) { first.leaf } else { 0 };
            let to = if at(last) {
                last.leaf + 1
            } else {
                leaves.len()
            };
            for (number, leaf) in leaves.iter_mut().enumerate().take(to).skip(from) {
                let at = |edge: Place| at(edge) && edge.leaf == number;
                let from = if at(first) { first.row } else { 0 };
                let to = if at(last) { last.row } else { LEAF };
                leaf.retain_in(from, to, &mut change);
            }
            self.branches[branch].drop_empty_leaves();
        }
        self.drop_empty_branches();
    }

    /// Calls `change` with each row in order, and keeps those for which it returns true.
    pub fn retain(&mut self, mut change: impl FnMut(&SmallKey, &mut V) -> bool) {
        for branch in &mut self.branches {
            for leaf in &mut branch.leaves {
                leaf.retain_in(0, LEAF, &mut change);
            }
            branch.drop_empty_leaves();
        }
        self.drop_empty_branches();
    }

    /// Whether there are no rows.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.branches.is_empty()
    }

    fn drop_empty_branches(&mut self) {
        if self.branches.iter().any(|branch| branch.leaves.is_empty()) {
            retain(&mut self.branches, &mut self.bounds, |branch| {
                !branch.leaves.is_empty()
            });
        }
    }

    fn leaf(&self, place: Place) -> &Leaf<V> {
        &self.branches[place.branch].leaves[place.leaf]
    }

    fn leaf_mut(&mut self, place: Place) -> &mut Leaf<V> {
        &mut self.branches[place.branch].leaves[place.leaf]
    }

    fn first_from(&self, key: &[u8]) -> Place {
        let (Ok(place) | Err(place)) = self.find(&SmallKey::from(key));
        self.normal(place)
    }

    /// The same place, but not behind the last row of a leaf.
    fn normal(&self, mut place: Place) -> Place {
        let Some(branch) = self.branches.get(place.branch) else {
            return place;
        };
        if place.row == branch.leaves[place.leaf].rows.len() {
            (place.leaf, place.row) = (place.leaf + 1, 0);
            if place.leaf == branch.leaves.len() {
                (place.branch, place.leaf) = (place.branch + 1, 0);
            }
        }
        place
    }

    /// Makes room for a key behind all keys of a leaf that is full: at the beginning of the next
    /// leaf, or in a new one. Returns whether it could.
    fn put_behind(&mut self, place: Place, key: &SmallKey) -> bool {
        if place.row < LEAF {
            return false;
        }
        let branch = &mut self.branches[place.branch];
        let next = place.leaf + 1;
        match branch.leaves.get(next) {
            Some(leaf) if leaf.rows.len() < LEAF => {
                branch.bounds[place.leaf] = key.clone();
                branch.index = Index::of(branch.bounds.len(), |bound| &branch.bounds[bound]);
                true
            }
            _ if branch.leaves.len() < BRANCH => {
                branch.insert_leaf(next, Leaf::default(), key.clone());
                true
            }
            _ => false,
        }
    }

    /// Splits a leaf that is full, or its branch if that is full.
    fn split(&mut self, place: Place) {
        let branch = &mut self.branches[place.branch];
        if branch.leaves.len() < BRANCH {
            // Rows that come in order come before a few that do not move, if they do not come last.
            let at = if place.row >= LEAF * 3 / 4 {
                place.row
            } else {
                LEAF / 2
            };
            let leaf = &mut branch.leaves[place.leaf];
            let upper = leaf.rows.split_off(at);
            let bound = upper[0].0.clone();
            *leaf = Leaf::new(std::mem::take(&mut leaf.rows));
            branch.insert_leaf(place.leaf + 1, Leaf::new(upper), bound);
        } else {
            // Of branches that are filled in order, each is left full.
            let at = if place.row >= LEAF * 3 / 4 && place.leaf + 2 >= BRANCH {
                BRANCH - 2
            } else {
                BRANCH / 2
            };
            let upper = branch.leaves.split_off(at);
            let bounds = branch.bounds.split_off(at);
            let between = branch.bounds.pop().expect("a leaf had a bound");
            branch.index = Index::of(at - 1, |bound| &branch.bounds[bound]);
            self.bounds.insert(place.branch, between);
            let upper = Branch::new(upper, bounds);
            self.branches.insert(place.branch + 1, upper);
        }
    }
}

impl<V> Branch<V> {
    fn new(leaves: Vec<Leaf<V>>, bounds: Vec<SmallKey>) -> Branch<V> {
        Branch {
            index: Index::of(bounds.len(), |bound| &bounds[bound]),
            leaves,
            bounds,
        }
    }

    /// Adds a leaf that is not the first.
    fn insert_leaf(&mut self, at: usize, leaf: Leaf<V>, bound: SmallKey) {
        let Branch {
            index,
            leaves,
            bounds,
        } = self;
        leaves.insert(at, leaf);
        bounds.insert(at - 1, bound);
        index.inserted(at - 1, bounds.len(), |bound| &bounds[bound]);
    }

    fn remove_leaf(&mut self, at: usize) {
        self.leaves.remove(at);
        if let Some(bound) = remove_bound(&mut self.bounds, at) {
            self.index.removed(bound);
        }
    }

    /// Moves the rows of the next leaf to one that has few, if there is room.
    fn join(&mut self, leaf: usize) {
        let Some([this, next]) = self.leaves.get_mut(leaf..leaf + 2) else {
            return;
        };
        if this.rows.len() + next.rows.len() <= LEAF - LEAF_FEW {
            this.rows.append(&mut next.rows);
            *this = Leaf::new(std::mem::take(&mut this.rows));
            self.remove_leaf(leaf + 1);
        }
    }

    fn drop_empty_leaves(&mut self) {
        let Branch {
            index,
            leaves,
            bounds,
        } = self;
        if leaves.iter().any(|leaf| leaf.rows.is_empty()) {
            retain(leaves, bounds, |leaf| !leaf.rows.is_empty());
            *index = Index::of(bounds.len(), |bound| &bounds[bound]);
        }
    }
}

/// Removes the bound of a node that was removed, and returns where it was. The first node has none:
/// the one behind it is now the first.
fn remove_bound(bounds: &mut Vec<SmallKey>, node: usize) -> Option<usize> {
    let bound = node.saturating_sub(1);
    (bound < bounds.len()).then(|| {
        bounds.remove(bound);
        bound
    })
}

/// Keeps the nodes that pass the test, and bounds between them.
fn retain<T>(nodes: &mut Vec<T>, bounds: &mut Vec<SmallKey>, keep: impl Fn(&T) -> bool) {
    let mut kept = nodes.iter().map(&keep);
    let mut is_behind = kept.next().unwrap_or(false);
    bounds.retain(|_| {
        let stays = kept.next().unwrap_or(false);
        let is_between = is_behind && stays;
        is_behind |= stays;
        is_between
    });
    drop(kept);
    nodes.retain(keep);
}

impl<V> Default for Leaf<V> {
    fn default() -> Leaf<V> {
        Leaf::new(Vec::new())
    }
}

impl<V> Leaf<V> {
    fn new(rows: Vec<(SmallKey, V)>) -> Leaf<V> {
        Leaf {
            index: Index::of(rows.len(), |row| &rows[row].0),
            rows,
        }
    }

    fn retain_in(
        &mut self,
        from: usize,
        to: usize,
        change: &mut impl FnMut(&SmallKey, &mut V) -> bool,
    ) {
        let before = self.rows.len();
        let mut row = 0;
        self.rows.retain_mut(|(key, value)| {
            let inside = (from..to).contains(&row);
            row += 1;
            !inside || change(key, value)
        });
        if self.rows.len() < before {
            *self = Leaf::new(std::mem::take(&mut self.rows));
        }
    }
}

/// Some rows of a [`KeyMap`].
#[derive(Debug)]
pub struct Rows<'a, V> {
    map: &'a KeyMap<V>,
    front: Place,
    back: Place,
}

impl<'a, V> Iterator for Rows<'a, V> {
    type Item = (&'a SmallKey, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        if self.front == self.back {
            return None;
        }
        let (key, value) = &self.map.leaf(self.front).rows[self.front.row];
        self.front.row += 1;
        self.front = self.map.normal(self.front);
        Some((key, value))
    }
}

impl<V> DoubleEndedIterator for Rows<'_, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.front == self.back {
            return None;
        }
        let Place { branch, leaf, row } = &mut self.back;
        let branches = &self.map.branches;
        if *row == 0 {
            if *leaf == 0 {
                *branch -= 1;
                *leaf = branches[*branch].leaves.len();
            }
            *leaf -= 1;
            *row = branches[*branch].leaves[*leaf].rows.len();
        }
        *row -= 1;
        let (key, value) = &self.map.leaf(self.back).rows[self.back.row];
        Some((key, value))
    }
}

/// What up to `N` sorted keys are searched by.
#[derive(Debug)]
struct Index<const N: usize> {
    /// By key: the two bytes behind `beginning` as a number. Those behind the last key are larger
    /// than any.
    numbers: [i16; N],
    len: usize,
    /// What all the keys begin with.
    beginning: Beginning,
}

impl<const N: usize> Index<N> {
    fn of<'a>(len: usize, key: impl Fn(usize) -> &'a SmallKey) -> Self {
        let beginning = match len {
            0 => SmallKey::EMPTY.common_beginning(&SmallKey::EMPTY),
            _ => key(0).common_beginning(key(len - 1)),
        };
        let mut numbers = [i16::MAX; N];
        for (at, number) in numbers[..len].iter_mut().enumerate() {
            *number = key(at).number_at(beginning.len());
        }
        Index {
            numbers,
            len,
            beginning,
        }
    }

    /// Where a key is, or would be.
    #[inline]
    fn search<'a>(
        &self,
        wanted: &SmallKey,
        key: impl Fn(usize) -> &'a SmallKey,
    ) -> Result<usize, usize> {
        match self.beginning.place_of(wanted) {
            Ordering::Less => return Err(0),
            Ordering::Equal => {}
            Ordering::Greater => return Err(self.len),
        }
        let number = wanted.number_at(self.beginning.len());
        let mut from = self.count_smaller(number);
        let numbers = &self.numbers[..self.len];
        // Usually there is one such key at most.
        let mut to = from;
        if numbers.get(to) == Some(&number) {
            to += 1;
            if numbers.get(to) == Some(&number) {
                to += numbers[to..].partition_point(|other| *other == number);
            }
        }
        while from < to {
            let middle = from + (to - from) / 2;
            match key(middle).cmp(wanted) {
                Ordering::Less => from = middle + 1,
                Ordering::Equal => return Ok(middle),
                Ordering::Greater => to = middle,
            }
        }
        Err(from)
    }

    /// How many numbers are smaller. The compiler compares eight at once, whatever is behind the
    /// last.
    #[inline]
    fn count_smaller(&self, number: i16) -> usize {
        const AT_ONCE: usize = 8;
        let mut smaller = [0_i16; AT_ONCE];
        let filled = self.len.div_ceil(AT_ONCE);
        for others in self.numbers.chunks_exact(AT_ONCE).take(filled) {
            for (count, other) in smaller.iter_mut().zip(others) {
                *count += i16::from(*other < number);
            }
        }
        smaller.iter().sum::<i16>() as usize
    }

    /// A key was inserted, and there are that many now.
    fn inserted<'a>(&mut self, at: usize, len: usize, key: impl Fn(usize) -> &'a SmallKey) {
        if self.len == 0 || !self.beginning.begins(key(at)) {
            *self = Index::of(len, key);
            return;
        }
        self.numbers.copy_within(at..self.len, at + 1);
        self.numbers[at] = key(at).number_at(self.beginning.len());
        self.len = len;
    }

    fn removed(&mut self, at: usize) {
        self.numbers.copy_within(at + 1..self.len, at);
        self.len -= 1;
        self.numbers[self.len] = i16::MAX;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn all(map: &KeyMap<u32>, begin: &[u8], end: &[u8]) -> Vec<(Vec<u8>, u32)> {
        let rows = map.range(begin, end);
        rows.map(|(key, value)| (key.as_ref().to_vec(), *value))
            .collect()
    }

    fn put(map: &mut KeyMap<u32>, key: &[u8], value: u32) {
        let key = SmallKey::from(key);
        match map.find(&key) {
            Ok(place) => *map.at_mut(place) = value,
            Err(place) => map.insert(place, key, value),
        }
    }

    fn take(map: &mut KeyMap<u32>, key: &[u8]) -> Option<u32> {
        let place = map.find(&SmallKey::from(key)).ok()?;
        Some(map.remove(place))
    }

    /// Keys of few kinds of bytes and of all lengths, so that many share a long beginning.
    fn key() -> impl Strategy<Value = Vec<u8>> {
        let begin = prop_oneof![
            Just(vec![]),
            Just(vec![1; 22]),
            Just(vec![1; 23]),
            Just(vec![1; 30]),
            Just(b"a/b".to_vec())
        ];
        let byte = prop_oneof![Just(0u8), Just(1), Just(255), any::<u8>()];
        (begin, prop::collection::vec(byte, 0..6)).prop_map(|(begin, rest)| [begin, rest].concat())
    }

    #[derive(Clone, Debug)]
    enum Act {
        Put(Vec<u8>),
        PutMany(Vec<u8>, u8),
        Take(Vec<u8>),
        TakeMany(Vec<u8>, Vec<u8>, u32),
        KeepSome(u32),
    }

    fn act() -> impl Strategy<Value = Act> {
        prop_oneof![
            5 => key().prop_map(Act::Put),
            2 => (key(), any::<u8>()).prop_map(|(key, count)| Act::PutMany(key, count)),
            5 => key().prop_map(Act::Take),
            1 => (key(), key(), 1..4u32).prop_map(|(begin, end, part)| Act::TakeMany(begin, end, part)),
            1 => (2..100u32).prop_map(Act::KeepSome),
        ]
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_b_tree(acts in prop::collection::vec(act(), 0..150)) {
            let (mut map, mut model) = (KeyMap::default(), BTreeMap::new());
            for (number, act) in (0..).zip(acts) {
                match act {
                    Act::Put(key) => {
                        put(&mut map, &key, number);
                        model.insert(key, number);
                    }
                    Act::PutMany(key, count) => {
                        for last in 0..count {
                            // In order, against it, and neither.
                            let last = [last, 255 - last, last.wrapping_mul(77)][number as usize % 3];
                            let key = [&key[..], &[last]].concat();
                            put(&mut map, &key, number);
                            model.insert(key, number);
                        }
                    }
                    Act::Take(key) => {
                        prop_assert_eq!(take(&mut map, &key), model.remove(&key));
                    }
                    Act::TakeMany(begin, end, part) => {
                        let mut seen = Vec::new();
                        map.retain_in(&begin, &end, |key, value| {
                            seen.push(key.as_ref().to_vec());
                            *value += 1;
                            *value % part != 0
                        });
                        let inside = |key: &Vec<u8>| *key >= begin && *key < end;
                        let expected: Vec<_> = model.keys().filter(|key| inside(key)).cloned().collect();
                        prop_assert_eq!(seen, expected);
                        model.retain(|key, value| {
                            *value += u32::from(inside(key));
                            !inside(key) || !value.is_multiple_of(part)
                        });
                        let within = all(&map, &begin, &end);
                        let expected: Vec<_> =
                            model.clone().into_iter().filter(|(key, _)| inside(key)).collect();
                        prop_assert_eq!(within, expected);
                    }
                    Act::KeepSome(part) => {
                        let mut seen = Vec::new();
                        map.retain(|key, value| {
                            seen.push(key.as_ref().to_vec());
                            !value.is_multiple_of(part)
                        });
                        prop_assert!(seen.iter().eq(model.keys()));
                        model.retain(|_, value| !value.is_multiple_of(part));
                    }
                }
            }
            prop_assert_eq!(map.is_empty(), model.is_empty());
            for (key, value) in &model {
                prop_assert_eq!(map.get(&SmallKey::from(&key[..])), Some(value));
            }
            let ahead: Vec<_> = map.range(b"", &[255; 40]).map(|(key, _)| key.clone()).collect();
            let mut back: Vec<_> = map.range(b"", &[255; 40]).rev().map(|(key, _)| key.clone()).collect();
            back.reverse();
            prop_assert_eq!(&ahead, &back);
            let mut rows = map.range(b"", &[255; 40]);
            let (mut front, mut back) = (Vec::new(), Vec::new());
            while let Some((key, _)) = rows.next() {
                front.push(key.clone());
                back.extend(rows.by_ref().rev().take(2).map(|(key, _)| key.clone()));
            }
            front.extend(back.into_iter().rev());
            prop_assert_eq!(ahead, front, "from both ends in turn");
            let rows: Vec<_> = model.into_iter().collect();
            prop_assert_eq!(all(&map, b"", &[255; 40]), rows);
        }
    }

    #[test]
    fn many_rows_in_order_fill_leaves_and_branches() {
        let mut map = KeyMap::default();
        // A row behind them all, as the system's keys are.
        put(&mut map, b"\xff", 0);
        for number in 0..100_000u32 {
            put(&mut map, &number.to_be_bytes(), number);
        }
        let leaves: usize = map.branches.iter().map(|branch| branch.leaves.len()).sum();
        assert!(leaves < 100_000 / LEAF * 11 / 10, "{leaves} leaves");
        let branches = map.branches.len();
        assert!(branches < leaves / BRANCH * 5 / 4, "{branches} branches");
        for number in 0..100_000u32 {
            assert_eq!(take(&mut map, &number.to_be_bytes()), Some(number));
        }
        assert_eq!(all(&map, b"", b"\xff\xff"), [(b"\xff".to_vec(), 0)]);
        assert_eq!(map.branches.len(), 1);
    }

    #[test]
    fn many_rows_out_of_order_are_found_and_removed() {
        let mut map = KeyMap::default();
        let key = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        for number in 0..50_000 {
            put(&mut map, &key(number), number as u32);
        }
        assert!(map.range(b"", b"\xff\xff").is_sorted_by_key(|(key, _)| key));
        for number in 0..50_000 {
            if number % 10 != 0 {
                assert_eq!(take(&mut map, &key(number)), Some(number as u32));
            }
        }
        let leaves: usize = map.branches.iter().map(|branch| branch.leaves.len()).sum();
        assert!(
            leaves < 5_000 / LEAF_FEW * 2,
            "{leaves} leaves for 5,000 rows"
        );
        let found =
            (0..50_000).filter(|number| map.get(&SmallKey::from(&key(*number)[..])).is_some());
        assert_eq!(found.count(), 5_000);
    }
}
