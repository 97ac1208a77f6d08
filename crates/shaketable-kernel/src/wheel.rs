//! Timers that are not near: sorted into slots, not against one another.
//!
//! A hierarchical wheel whose tick is one nanosecond: level `n` sorts by the `n`th group of six
//! bits, counted from the first group in which a timer differs from the wheel's own time. That time
//! only moves forward, so a timer is touched at most once per level on its way down, regardless of
//! the number of others; a heap would pay for each of them.
//!
//! Slots keep insertion order, and a slot is dealt out in order into empty lower ones, which is why
//! equal times stay in sequence without a sequence number. The items of a slot are small and
//! contiguous, so a million timers stream through the cache instead of missing it.

use crate::timer::TimerId;

const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
/// Slots that grew beyond this release their memory when emptied.
const KEEP: usize = 1024;

/// A timer's time and identity.
#[derive(Clone, Copy)]
pub(crate) struct Item {
    pub(crate) time: u64,
    pub(crate) id: TimerId,
}

/// See the module documentation.
pub(crate) struct Wheel {
    /// No item is earlier than this.
    current: u64,
    levels: Vec<Level>,
    /// Bit `n` is set when level `n` holds something.
    occupied: u16,
    /// The first of the earliest items, when known; it may have been cancelled since.
    earliest: Option<Item>,
    spare: Vec<Item>,
}

struct Level {
    occupied: u64,
    slots: [Vec<Item>; SLOTS],
}

impl Wheel {
    pub(crate) fn new() -> Wheel {
        Wheel {
            current: 0,
            levels: Vec::new(),
            occupied: 0,
            earliest: None,
            spare: Vec::new(),
        }
    }

    /// Adds an item that is not earlier than the last moment taken.
    pub(crate) fn add(&mut self, item: Item) {
        if self.occupied == 0 || self.earliest.is_some_and(|first| item.time < first.time) {
            self.earliest = Some(item);
        }
        self.place(item);
    }

    /// The time of the earliest live item. Dead items found on the way are removed, and counted in
    /// `removed`.
    pub(crate) fn earliest(
        &mut self,
        lives: impl Fn(TimerId) -> bool,
        removed: &mut usize,
    ) -> Option<u64> {
        loop {
            if let Some(earliest) = self.earliest
                && lives(earliest.id)
            {
                return Some(earliest.time);
            }
            let (level, slot) = self.first()?;
            let items = &mut self.levels[level].slots[slot];
            if self.earliest.take().is_some() {
                let before = items.len();
                items.retain(|item| lives(item.id));
                *removed += before - items.len();
            }
            self.earliest = items.iter().min_by_key(|item| item.time).copied();
            if items.is_empty() {
                self.vacate(level, slot);
            }
        }
    }

    /// Moves the items of the moment `time`, the earliest, to `out`, in the order they were added,
    /// and with them others of their slot if it holds at most `most`.
    pub(crate) fn take(&mut self, time: u64, most: usize, out: &mut Vec<Item>) {
        self.earliest = None;
        while let Some((level, slot)) = self.first() {
            self.vacate(level, slot);
            assert!(time >= self.current, "the wheel only turns forward");
            self.current = time;
            let items = &mut self.levels[level].slots[slot];
            assert!(!items.is_empty(), "slot and occupancy disagree");
            if level == 0 || items.len() <= most {
                out.append(items);
                if items.capacity() > KEEP {
                    *items = Vec::new();
                }
                return;
            }
            let mut items = std::mem::replace(items, std::mem::take(&mut self.spare));
            for item in items.drain(..) {
                self.place(item);
            }
            if items.capacity() <= KEEP {
                self.spare = items;
            }
        }
    }

    /// Moves the items of the first slot to `out` if there are at most `most` of them. Returns
    /// whether it did.
    pub(crate) fn take_slot(&mut self, most: usize, out: &mut Vec<Item>) -> bool {
        let Some((level, slot)) = self.first() else {
            return false;
        };
        let items = &mut self.levels[level].slots[slot];
        assert!(!items.is_empty(), "slot and occupancy disagree");
        if items.len() > most {
            return false;
        }
        out.append(items);
        self.vacate(level, slot);
        self.earliest = None;
        true
    }

    /// A time before which there is no item.
    pub(crate) fn start(&self) -> u64 {
        let Some((level, slot)) = self.first() else {
            return u64::MAX;
        };
        let shift = level as u32 * BITS;
        let above = u64::MAX.checked_shl(shift + BITS).unwrap_or(0);
        (self.current & above) | ((slot as u64) << shift)
    }

    /// The level and number of the slot that holds the earliest items.
    fn first(&self) -> Option<(usize, usize)> {
        if self.occupied == 0 {
            return None;
        }
        let level = self.occupied.trailing_zeros() as usize;
        let slot = self.levels[level].occupied.trailing_zeros() as usize;
        Some((level, slot))
    }

    fn vacate(&mut self, level: usize, slot: usize) {
        let shelf = &mut self.levels[level];
        shelf.occupied &= !(1 << slot);
        if shelf.occupied == 0 {
            self.occupied &= !(1 << level);
        }
    }

    fn place(&mut self, item: Item) {
        assert!(item.time >= self.current, "the wheel only turns forward");
        let level = (63 - ((item.time ^ self.current) | 1).leading_zeros()) / BITS;
        let slot = (item.time >> (level * BITS)) as usize & (SLOTS - 1);
        let level = level as usize;
        while self.levels.len() <= level {
            self.levels.push(Level {
                occupied: 0,
                slots: std::array::from_fn(|_| Vec::new()),
            });
        }
        self.occupied |= 1 << level;
        self.levels[level].occupied |= 1 << slot;
        self.levels[level].slots[slot].push(item);
    }

    /// Keeps only the items that pass the test.
    pub(crate) fn retain(&mut self, keep: impl Fn(&Item) -> bool) {
        self.earliest = None;
        for (number, level) in self.levels.iter_mut().enumerate() {
            let mut occupied = level.occupied;
            while occupied != 0 {
                let slot = occupied.trailing_zeros() as usize;
                occupied &= occupied - 1;
                let items = &mut level.slots[slot];
                items.retain(&keep);
                if items.is_empty() {
                    level.occupied &= !(1 << slot);
                }
                if items.capacity() > KEEP && items.len() < items.capacity() / 2 {
                    items.shrink_to_fit();
                }
            }
            if level.occupied == 0 {
                self.occupied &= !(1 << number);
            }
        }
    }

    /// The number of items for which memory is allocated.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        let slots = self.levels.iter().flat_map(|level| &level.slots);
        slots.map(Vec::capacity).sum()
    }
}
