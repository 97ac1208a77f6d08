//! A sorted sequence that is cheap to snapshot and can be walked in both directions.
//!
//! The overlay needs three things at once: a reader that waits for the database must go on seeing
//! the writes as they were when it began; cursors step back and forth; and a hundred thousand
//! writes must not cost quadratic time. A vector of small shared vectors provides all three. A
//! clone shares everything; a change copies the chunk it touches (and the short outer vector) if
//! another clone still shares it.

use crate::data::key::{KeyBound, same};
use std::rc::Rc;

/// An item with a place in the order.
pub(crate) trait Keyed: Clone {
    fn key(&self) -> &[u8];
}

/// A sorted sequence of items with distinct keys. Never empty between two calls by its owner.
#[derive(Clone, Debug)]
pub(crate) struct Chunks<T> {
    /// Most sequences need only this chunk.
    first: Rc<Vec<T>>,
    rest: Rc<Vec<Rc<Vec<T>>>>,
}

/// Where an item is. Valid until the next change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    chunk: usize,
    index: usize,
}

/// The largest number of items in a chunk; a full chunk is split.
const CHUNK_ITEMS_MAX: usize = 64;
/// How many more items a copied chunk has room for.
const CHUNK_ITEMS_SPARE: usize = 4;

impl<T: Keyed> Chunks<T> {
    /// Takes items that are already sorted.
    pub(crate) fn new(items: Vec<T>) -> Self {
        Chunks {
            first: Rc::new(items),
            rest: Rc::default(),
        }
    }

    pub(crate) fn get(&self, at: Position) -> &T {
        &self.chunk(at.chunk)[at.index]
    }

    /// The first item whose key is greater than `key`, or the last item if there is none.
    pub(crate) fn first_after(&self, key: &[u8]) -> Position {
        let at = self.lower_bound(KeyBound::after(key));
        if at.chunk == self.count() {
            self.previous(at)
        } else {
            at
        }
    }

    /// The last item whose key is not greater than `key`, or the first item if there is none.
    pub(crate) fn last_not_after(&self, key: &[u8]) -> Position {
        self.previous(self.lower_bound(KeyBound::after(key)))
    }

    /// The item after this one, or this one if it is the last.
    pub(crate) fn next(&self, at: Position) -> Position {
        if at.index + 1 < self.chunk(at.chunk).len() {
            Position {
                chunk: at.chunk,
                index: at.index + 1,
            }
        } else if at.chunk + 1 < self.count() {
            Position {
                chunk: at.chunk + 1,
                index: 0,
            }
        } else {
            at
        }
    }

    /// The item before this one, or this one if it is the first.
    pub(crate) fn previous(&self, at: Position) -> Position {
        if at.index > 0 {
            Position {
                chunk: at.chunk,
                index: at.index - 1,
            }
        } else if at.chunk > 0 {
            Position {
                chunk: at.chunk - 1,
                index: self.chunk(at.chunk - 1).len() - 1,
            }
        } else {
            at
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let chunks = std::iter::once(&self.first).chain(&*self.rest);
        chunks.flat_map(|chunk| chunk.iter())
    }

    /// Inserts an item in its place, replacing one with the same key.
    pub(crate) fn insert(&mut self, item: T) {
        let at = self.lower_bound(KeyBound::new(item.key()));
        if at.chunk == self.count() {
            let chunk = at.chunk - 1;
            let index = self.chunk(chunk).len();
            self.insert_before(Position { chunk, index }, item);
        } else if same(self.get(at).key(), item.key()) {
            self.replace(at, item);
        } else {
            self.insert_before(at, item);
        }
    }

    /// Replaces the item there by one with the same key.
    pub(crate) fn replace(&mut self, at: Position, item: T) {
        own(self.chunk_mut(at.chunk))[at.index] = item;
    }

    /// Inserts an item just before the one there, which is where it belongs.
    pub(crate) fn insert_before(&mut self, at: Position, item: T) {
        let chunk = own(self.chunk_mut(at.chunk));
        chunk.insert(at.index, item);
        if chunk.len() > CHUNK_ITEMS_MAX {
            // Keys often arrive in order; the full chunk then stays full.
            let appended = at.index + 1 == chunk.len();
            let cut = if appended {
                chunk.len() - 1
            } else {
                chunk.len() / 2
            };
            let right = Rc::new(chunk.split_off(cut));
            Rc::make_mut(&mut self.rest).insert(at.chunk, right);
        }
    }

    /// Removes the items with `begin <= key < end`.
    pub(crate) fn remove(&mut self, begin: KeyBound<'_>, end: KeyBound<'_>) {
        let (from, to) = (self.lower_bound(begin), self.lower_bound(end));
        if from >= to {
            return;
        }
        let first = Rc::make_mut(self.chunk_mut(from.chunk));
        if from.chunk == to.chunk {
            first.drain(from.index..to.index);
        } else {
            first.truncate(from.index);
            if to.index > 0 {
                Rc::make_mut(self.chunk_mut(to.chunk)).drain(..to.index);
            }
            Rc::make_mut(&mut self.rest).drain(from.chunk..to.chunk - 1);
        }
        if !self.chunk(from.chunk).is_empty() {
            return;
        }
        if from.chunk > 0 {
            Rc::make_mut(&mut self.rest).remove(from.chunk - 1);
        } else if !self.rest.is_empty() {
            self.first = Rc::make_mut(&mut self.rest).remove(0);
        }
    }

    /// The number of chunks. The first may be empty while the owner changes it.
    fn count(&self) -> usize {
        1 + self.rest.len()
    }

    fn chunk(&self, index: usize) -> &Rc<Vec<T>> {
        match index.checked_sub(1) {
            None => &self.first,
            Some(index) => &self.rest[index],
        }
    }

    fn chunk_mut(&mut self, index: usize) -> &mut Rc<Vec<T>> {
        match index.checked_sub(1) {
            None => &mut self.first,
            Some(index) => &mut Rc::make_mut(&mut self.rest)[index],
        }
    }

    /// The first item with `key >= bound`; one beyond the last chunk if there is none.
    fn lower_bound(&self, bound: KeyBound<'_>) -> Position {
        let before = |item: &T| KeyBound::new(item.key()) < bound;
        if self.rest.is_empty() {
            let index = self.first.partition_point(before);
            return if index < self.first.len() {
                Position { chunk: 0, index }
            } else {
                Position { chunk: 1, index: 0 }
            };
        }
        let passed = |chunk: &Rc<Vec<T>>| chunk.last().is_some_and(before);
        let chunk = if passed(&self.first) {
            1 + self.rest.partition_point(passed)
        } else {
            0
        };
        let index = if chunk < self.count() {
            self.chunk(chunk).partition_point(before)
        } else {
            0
        };
        Position { chunk, index }
    }
}

/// The chunk to write to, with room for what is about to be added: a copy if another clone shares
/// it.
fn own<T: Clone>(chunk: &mut Rc<Vec<T>>) -> &mut Vec<T> {
    if Rc::get_mut(chunk).is_none() {
        let mut copy = Vec::with_capacity(chunk.len() + CHUNK_ITEMS_SPARE);
        copy.extend_from_slice(chunk);
        *chunk = Rc::new(copy);
    }
    Rc::make_mut(chunk)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    impl Keyed for Vec<u8> {
        fn key(&self) -> &[u8] {
            self
        }
    }

    fn number(n: u32) -> Vec<u8> {
        n.to_be_bytes().to_vec()
    }

    #[test]
    fn it_behaves_as_an_ordered_set() {
        let mut chunks = Chunks::new(vec![number(0)]);
        let mut model = BTreeSet::from([number(0)]);
        let mut random = 1u32;
        for _ in 0..20_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let n = (random >> 8) % 2_000 + 1;
            if random.is_multiple_of(97) {
                let (begin, end) = (number(n), number(n + 300));
                chunks.remove(KeyBound::new(&begin), KeyBound::new(&end));
                model.retain(|k| *k < begin || *k >= end);
            } else {
                chunks.insert(number(n));
                model.insert(number(n));
            }
        }
        assert!(chunks.iter().eq(model.iter()));
        for n in 0..2_100 {
            let key = number(n);
            let at = chunks.last_not_after(&key);
            assert_eq!(
                Some(chunks.get(at)),
                model.range(..=key.clone()).next_back()
            );
            let after = model.range(key.clone()..).find(|k| **k != key);
            assert_eq!(
                chunks.get(chunks.first_after(&key)),
                after.or(model.last()).unwrap()
            );
        }
    }

    #[test]
    fn it_walks_in_both_directions() {
        let mut chunks = Chunks::new(vec![number(0)]);
        (1..1_000).for_each(|n| chunks.insert(number(n)));
        let mut at = chunks.last_not_after(&number(0));
        for n in 0..999 {
            assert_eq!(chunks.get(at), &number(n));
            at = chunks.next(at);
        }
        assert_eq!(chunks.next(at), at);
        for n in (0..1_000).rev() {
            assert_eq!(chunks.get(at), &number(n));
            at = chunks.previous(at);
        }
        assert_eq!(chunks.previous(at), at);
    }

    #[test]
    fn a_snapshot_does_not_see_later_changes() {
        let mut chunks = Chunks::new(vec![number(0)]);
        (1..200).for_each(|n| chunks.insert(number(n)));
        let snapshot = chunks.clone();
        chunks.remove(KeyBound::new(&number(50)), KeyBound::new(&number(150)));
        chunks.insert(number(777));
        assert_eq!(snapshot.iter().count(), 200);
        assert_eq!(chunks.iter().count(), 101);
    }
}
