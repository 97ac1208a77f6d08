//! Named random streams, all split from one seed.
//!
//! Each purpose draws from its own stream, so switching one fault off leaves every other draw as it
//! was; that is what makes a failing run shrinkable. The generator is xoshiro256++: 32 bytes of
//! state, a few cycles per draw, and a published algorithm, so that a seed means the same run on
//! every machine. Nothing here needs to be unpredictable. The conversions to ranges are written out
//! here rather than taken from `rand`, whose distributions may change between releases; a seed must
//! outlive them.

use rand_core::{Infallible, SeedableRng, TryRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::cell::{Cell, RefCell, RefMut};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A named source of random numbers. Clones share the state.
#[derive(Clone)]
pub struct Stream(Rc<Inner>);

struct Inner {
    name: Box<str>,
    generator: RefCell<Xoshiro256PlusPlus>,
    draws: Cell<u64>,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stream({:?}, {} draws)", self.0.name, self.0.draws.get())
    }
}

impl Stream {
    /// The stream of that name under that seed, at its beginning.
    pub fn new(seed: u64, name: &str) -> Stream {
        let mut digest = Digest::new();
        digest.write_u64(seed);
        digest.write(name.as_bytes());
        Stream(Rc::new(Inner {
            name: name.into(),
            generator: RefCell::new(Xoshiro256PlusPlus::seed_from_u64(digest.finish())),
            draws: Cell::new(0),
        }))
    }

    /// Continues as the stream of the same name under another seed, from its beginning.
    fn reseed(&self, seed: u64) {
        let other = Stream::new(seed, &self.0.name);
        self.0.generator.replace(other.0.generator.borrow().clone());
    }

    /// The name by which it was split off.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// 64 random bits.
    pub fn next_u64(&self) -> u64 {
        self.0.draws.set(self.0.draws.get() + 1);
        let Ok(bits) = self.0.generator.borrow_mut().try_next_u64();
        bits
    }

    /// 32 random bits.
    pub fn next_u32(&self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    /// Uniform in `[0, 1)`, with 53 bits.
    pub fn uniform(&self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Draws four numbers at a time, for what is drawn with every message and added up.
    #[inline]
    pub(crate) fn fours(&self) -> Fours<'_> {
        Fours {
            generator: self.0.generator.borrow_mut(),
            draws: &self.0.draws,
        }
    }

    /// Uniform in `0..n`.
    ///
    /// # Panics
    /// If `n` is 0.
    pub fn below(&self, n: u64) -> u64 {
        assert!(
            n > 0,
            "a random number below 0 was asked of stream {:?}",
            self.0.name
        );
        // Multiply and take the high half; redraw the few low products that would make some results
        // likelier.
        let threshold = n.wrapping_neg() % n;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(n);
            if product as u64 >= threshold {
                return (product >> 64) as u64;
            }
        }
    }

    /// An index into something of that length.
    ///
    /// # Panics
    /// If `length` is 0.
    pub fn index(&self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// True with that probability.
    pub fn chance(&self, probability: f64) -> bool {
        self.uniform() < probability
    }

    /// Uniform in `[low, high)`, for `f64` and for all integers.
    ///
    /// # Panics
    /// If a range of integers is empty.
    pub fn range<T: Sample>(&self, low: T, high: T) -> T {
        T::sample(self, low, high)
    }

    /// One of the items.
    ///
    /// # Panics
    /// If there are none.
    pub fn pick<'a, T>(&self, items: &'a [T]) -> &'a T {
        &items[self.index(items.len())]
    }

    /// Puts the items into a random order.
    pub fn shuffle<T>(&self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }

    /// A number that differs when the stream has been drawn from differently.
    fn fingerprint(&self, digest: &mut Digest) {
        let Ok(next) = self.0.generator.borrow().clone().try_next_u64();
        digest.write(self.0.name.as_bytes());
        digest.write_u64(self.0.draws.get());
        digest.write_u64(next);
    }
}

/// See [`Stream::fours`]. The generator is borrowed once for a message, not once for each draw.
pub(crate) struct Fours<'a> {
    generator: RefMut<'a, Xoshiro256PlusPlus>,
    draws: &'a Cell<u64>,
}

impl Fours<'_> {
    /// Four numbers from one draw, each uniform in `(0, 1)`, with 16 bits.
    #[inline]
    pub(crate) fn draw(&mut self) -> [f64; 4] {
        self.draws.set(self.draws.get() + 1);
        let Ok(bits) = self.generator.try_next_u64();
        [bits >> 48, bits >> 32, bits >> 16, bits]
            .map(|quarter| (f64::from(quarter as u16) + 0.5) * (1.0 / f64::from(1 << 16)))
    }
}

impl TryRng for Stream {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(Stream::next_u32(self))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(Stream::next_u64(self))
    }

    fn try_fill_bytes(&mut self, target: &mut [u8]) -> Result<(), Infallible> {
        for chunk in target.chunks_mut(8) {
            chunk.copy_from_slice(&Stream::next_u64(self).to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}

/// What [`Stream::range`] can draw.
pub trait Sample: Copy {
    /// Draws one, uniform in `[low, high)`.
    fn sample(stream: &Stream, low: Self, high: Self) -> Self;
}

impl Sample for f64 {
    fn sample(stream: &Stream, low: f64, high: f64) -> f64 {
        low + (high - low) * stream.uniform()
    }
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Sample for $type {
            fn sample(stream: &Stream, low: $type, high: $type) -> $type {
                assert!(low < high, "stream {:?} was asked for a number in {low}..{high}", stream.name());
                // Wrapping 64-bit arithmetic gets the span and the sum right for signed types too.
                let span = (high as u64).wrapping_sub(low as u64);
                (low as u64).wrapping_add(stream.below(span)) as $type
            }
        }
    )*};
}
integers!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);

/// All streams of one kernel.
pub(crate) struct Streams {
    seed: u64,
    by_name: BTreeMap<Box<str>, Stream>,
    /// Beginnings of names, and the seeds of the streams with such names; the last one counts.
    reseeded: Vec<(Box<str>, u64)>,
}

impl Streams {
    pub(crate) fn new(seed: u64) -> Streams {
        Streams {
            seed,
            by_name: BTreeMap::new(),
            reseeded: Vec::new(),
        }
    }

    pub(crate) fn get(&mut self, name: &str) -> Stream {
        if let Some(stream) = self.by_name.get(name) {
            return stream.clone();
        }
        let mut reseeded = self.reseeded.iter().rev();
        let reseeded = reseeded.find(|(prefix, _)| name.starts_with(&**prefix));
        let seed = reseeded.map_or(self.seed, |(_, seed)| *seed);
        let stream = Stream::new(seed, name);
        self.by_name.insert(name.into(), stream.clone());
        stream
    }

    /// Gives the streams whose names begin so another seed.
    pub(crate) fn reseed(&mut self, prefix: &str, seed: u64) {
        for (name, stream) in &self.by_name {
            if name.starts_with(prefix) {
                stream.reseed(seed);
            }
        }
        self.reseeded.push((prefix.into(), seed));
    }

    /// The streams that have been drawn from, by name, and how often.
    pub(crate) fn drawn_from(&self) -> Vec<(String, u64)> {
        let streams = self.by_name.iter();
        let drawn = streams.map(|(name, stream)| (name.to_string(), stream.0.draws.get()));
        drawn.filter(|(_, draws)| *draws > 0).collect()
    }

    /// Digests the state of every stream that has been drawn from.
    pub(crate) fn fingerprint(&self, digest: &mut Digest) {
        for stream in self
            .by_name
            .values()
            .filter(|stream| stream.0.draws.get() > 0)
        {
            stream.fingerprint(digest);
        }
    }
}

/// A small running hash (FNV-1a over 64-bit words with a final mix): for distinguishing runs, not
/// for resisting adversaries.
///
/// Written out here, like the conversions of a [`Stream`], because it splits each stream off the
/// seed: with another function, even one from a better-known crate, every seed would mean another
/// run.
#[derive(Clone, Copy, Debug)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Digest::new()
    }
}

impl Digest {
    /// An empty digest.
    pub const fn new() -> Digest {
        Digest(0xcbf2_9ce4_8422_2325)
    }

    /// Adds a number.
    pub fn write_u64(&mut self, value: u64) {
        self.0 = (self.0 ^ value)
            .wrapping_mul(0x0000_0100_0000_01b3)
            .rotate_left(23);
    }

    /// Adds bytes, so that `"ab"` then `"c"` differs from `"a"` then `"bc"`.
    pub fn write(&mut self, bytes: &[u8]) {
        self.write_u64(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    /// The hash of everything added so far.
    pub fn finish(&self) -> u64 {
        let mut hash = self.0;
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^ (hash >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::Rng;

    #[test]
    fn the_same_seed_and_name_give_the_same_numbers() {
        let draw = |seed, name| {
            (0..8)
                .map({
                    let stream = Stream::new(seed, name);
                    move |_| stream.next_u64()
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(draw(1, "network"), draw(1, "network"));
        assert_ne!(draw(1, "network"), draw(2, "network"));
        assert_ne!(draw(1, "network"), draw(1, "faults"));
    }

    #[test]
    fn a_seed_means_the_same_run_in_every_release() {
        let stream = Stream::new(42, "network");
        let first: Vec<u64> = (0..3).map(|_| stream.below(1_000_000)).collect();
        assert_eq!(first, [841_838, 671_065, 400_367]);
    }

    #[test]
    fn every_bit_of_a_seed_counts() {
        let first = |seed| Stream::new(seed, "network").next_u64();
        for bit in 0..64 {
            assert_ne!(first(42), first(42 ^ (1 << bit)), "bit {bit}");
        }
    }

    #[test]
    fn handles_of_one_name_share_their_state_and_other_names_do_not() {
        let mut streams = Streams::new(7);
        let (a, b, other) = (streams.get("a"), streams.get("a"), streams.get("other"));
        let alone = Stream::new(7, "a");
        other.next_u64();
        assert_eq!(
            [a.next_u64(), b.next_u64(), a.next_u64()],
            [alone.next_u64(), alone.next_u64(), alone.next_u64()]
        );
    }

    #[test]
    fn draws_stay_inside_their_ranges_and_reach_both_ends() {
        let stream = Stream::new(1, "test");
        let dice: Vec<i32> = (0..1000).map(|_| stream.range(-1, 5)).collect();
        assert_eq!(
            (dice.iter().min(), dice.iter().max()),
            (Some(&-1), Some(&4))
        );
        assert!((0..1000).all(|_| (2.0..3.0).contains(&stream.range(2.0, 3.0))));
        assert!((0..1000).all(|_| (0.0..1.0).contains(&stream.uniform())));
        assert!((0..1000).all(|_| stream.below(3) < 3));
        assert!((0..1000).all(|_| !stream.chance(0.0) && stream.chance(1.0)));
        assert!(
            (0..1000)
                .map(|_| stream.range(i64::MIN, i64::MAX))
                .any(|n| n < 0)
        );
        assert_eq!(stream.range(5, 6u8), 5);
    }

    #[test]
    fn draws_are_even() {
        let stream = Stream::new(1, "test");
        let mut seen = [0; 3];
        (0..30_000).for_each(|_| seen[stream.index(3)] += 1);
        assert!(
            seen.iter().all(|count| (9_500..10_500).contains(count)),
            "{seen:?}"
        );
    }

    #[test]
    fn a_shuffle_keeps_every_item_and_changes_their_order() {
        let stream = Stream::new(1, "test");
        let mut items: Vec<u32> = (0..50).collect();
        stream.shuffle(&mut items);
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
        assert_eq!(stream.pick(&[9]), &9);
    }

    #[test]
    fn a_stream_serves_the_traits_of_rand() {
        let mut stream = Stream::new(1, "test");
        let mut bytes = [0; 13];
        stream.fill_bytes(&mut bytes);
        assert_ne!(bytes, [0; 13]);
    }

    #[test]
    fn the_fingerprint_tells_who_drew_but_not_who_merely_looked() {
        let print = |streams: &Streams| {
            let mut digest = Digest::new();
            streams.fingerprint(&mut digest);
            digest.finish()
        };
        let mut streams = Streams::new(7);
        let empty = print(&streams);
        let stream = streams.get("a");
        assert_eq!(print(&streams), empty);
        stream.next_u64();
        assert_ne!(print(&streams), empty);
    }
}
