//! A sorted sequence that can be snapshotted for nothing and walked in both directions.
//!
//! The overlay needs three things at once: a reader that waits for the database must go on seeing the writes as
//! they were when it began; cursors step back and forth; and a hundred thousand writes must not cost quadratic
//! time. A vector of small shared vectors gives all three. A clone shares everything; a change copies the chunk
//! it touches (and the short outer vector) if somebody else still looks at it.

use super::key::KeyBound;
use std::rc::Rc;

/// Something that has a place in the order.
pub(crate) trait Keyed: Clone {
    fn key(&self) -> &[u8];
}

/// A sorted sequence of items with distinct keys. Never empty between two calls of its owner.
#[derive(Clone, Debug)]
pub(crate) struct Chunks<T> {
    chunks: Rc<Vec<Rc<Vec<T>>>>,
}

/// Where an item is. Valid until the next change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    chunk: usize,
    index: usize,
}

/// A full chunk is split.
const CHUNK_ITEMS_MAX: usize = 64;
/// A copied chunk has room for so many more.
const CHUNK_ITEMS_SPARE: usize = 4;

impl<T: Keyed> Chunks<T> {
    /// Takes items that are sorted already.
    pub(crate) fn new(items: Vec<T>) -> Self {
        Chunks {
            chunks: Rc::new(vec![Rc::new(items)]),
        }
    }

    pub(crate) fn get(&self, at: Position) -> &T {
        &self.chunks[at.chunk][at.index]
    }

    /// The first item whose key is greater than `key`, or the last item if there is none.
    pub(crate) fn first_after(&self, key: &[u8]) -> Position {
        let at = self.lower_bound(KeyBound::after(key));
        if at.chunk == self.chunks.len() {
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
        if at.index + 1 < self.chunks[at.chunk].len() {
            Position {
                chunk: at.chunk,
                index: at.index + 1,
            }
        } else if at.chunk + 1 < self.chunks.len() {
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
                index: self.chunks[at.chunk - 1].len() - 1,
            }
        } else {
            at
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    /// Puts an item in its place, instead of one with the same key.
    pub(crate) fn insert(&mut self, item: T) {
        let mut at = self.lower_bound(KeyBound::new(item.key()));
        let chunks = Rc::make_mut(&mut self.chunks);
        if at.chunk == chunks.len() {
            at = match chunks.last() {
                Some(last) => Position {
                    chunk: chunks.len() - 1,
                    index: last.len(),
                },
                None => {
                    chunks.push(Rc::new(vec![item]));
                    return;
                }
            };
        }
        let chunk = own(&mut chunks[at.chunk]);
        if chunk
            .get(at.index)
            .is_some_and(|old| old.key() == item.key())
        {
            chunk[at.index] = item;
            return;
        }
        chunk.insert(at.index, item);
        if chunk.len() > CHUNK_ITEMS_MAX {
            // Keys often arrive in order: then the full chunk stays full.
            let appended = at.index + 1 == chunk.len();
            let cut = if appended {
                chunk.len() - 1
            } else {
                chunk.len() / 2
            };
            let right = chunk.split_off(cut);
            chunks.insert(at.chunk + 1, Rc::new(right));
        }
    }

    /// Removes the items with `begin <= key < end`.
    pub(crate) fn remove(&mut self, begin: KeyBound<'_>, end: KeyBound<'_>) {
        let (from, to) = (self.lower_bound(begin), self.lower_bound(end));
        if from >= to {
            return;
        }
        let chunks = Rc::make_mut(&mut self.chunks);
        if from.chunk == to.chunk {
            Rc::make_mut(&mut chunks[from.chunk]).drain(from.index..to.index);
        } else {
            Rc::make_mut(&mut chunks[from.chunk]).truncate(from.index);
            if to.index > 0 {
                Rc::make_mut(&mut chunks[to.chunk]).drain(..to.index);
            }
            chunks.drain(from.chunk + 1..to.chunk);
        }
        if chunks[from.chunk].is_empty() {
            chunks.remove(from.chunk);
        }
    }

    /// The first item with `key >= bound`; one beyond the last chunk if there is none.
    fn lower_bound(&self, bound: KeyBound<'_>) -> Position {
        let before = |item: &T| KeyBound::new(item.key()) < bound;
        let chunk = self
            .chunks
            .partition_point(|chunk| chunk.last().is_some_and(before));
        let index = self
            .chunks
            .get(chunk)
            .map_or(0, |chunk| chunk.partition_point(before));
        Position { chunk, index }
    }
}

/// The chunk to write to: a copy if somebody else looks at it, with room for what is about to be added.
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
