//! Timers in the order of their time, equals in the order they were set.
//!
//! A hierarchical wheel whose tick is one nanosecond: level `n` sorts by the `n`th group of six bits, counted
//! from the first group in which a timer differs from the current time. Time only moves
//! forward, so a timer is touched at most once per level on its way down, whatever the number of others;
//! a heap would pay for each of them. Slots keep insertion order and a slot is dealt out in order into
//! empty lower ones, which is why equal times stay in sequence without a sequence number.
//!
//! Cancelling frees the timer's entry at once and leaves a 16-byte husk in the wheel; when husks outnumber
//! live timers they are swept, so a million cancelled time-outs cost neither memory nor, amortised, time.

use crate::network::LinkId;
use crate::time::Time;
use std::task::Waker;

const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
const LEVELS: usize = u64::BITS.div_ceil(BITS) as usize;
/// Slots that grew beyond this give their memory back when emptied.
const KEEP: usize = 1024;
/// Slots of up to so many timers count as about to be used.
const NEAR: usize = 512;

/// What a timer does when its time comes.
pub(crate) enum Action {
    /// Marks a [`crate::Sleep`] as over and wakes its task.
    Sleep(Option<Waker>),
    /// Delivers what is due on a link.
    Link(LinkId),
    /// Runs a closure.
    Call(Box<dyn FnOnce(&crate::Kernel)>),
}

/// Names one timer, never another one later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimerId {
    index: u32,
    generation: u32,
}

/// A timer that has come due.
pub(crate) enum Fired {
    Wake(Option<Waker>),
    Link(LinkId),
    Call(Box<dyn FnOnce(&crate::Kernel)>),
}

/// All timers of one kernel.
pub(crate) struct Timers {
    /// No timer is earlier than this.
    current: u64,
    levels: [Level; LEVELS],
    entries: Vec<Entry>,
    free: Vec<u32>,
    /// Items in the wheel, husks included.
    items: usize,
    husks: usize,
    /// The first of the earliest items, when known; it may have become a husk since.
    earliest: Option<Item>,
    spare: Vec<Item>,
}

struct Level {
    occupied: u64,
    slots: [Vec<Item>; SLOTS],
}

#[derive(Clone, Copy)]
struct Item {
    time: u64,
    id: TimerId,
}

struct Entry {
    generation: u32,
    state: State,
}

enum State {
    Free,
    /// In the wheel.
    Waiting(Action),
    /// Taken out of the wheel, about to fire.
    Due(Action),
    /// A sleep that is over and whose owner has not looked yet.
    Over,
}

impl Timers {
    pub(crate) fn new() -> Timers {
        Timers {
            current: 0,
            levels: std::array::from_fn(|_| Level {
                occupied: 0,
                slots: std::array::from_fn(|_| Vec::new()),
            }),
            entries: Vec::new(),
            free: Vec::new(),
            items: 0,
            husks: 0,
            earliest: None,
            spare: Vec::new(),
        }
    }

    /// Sets a timer. A time that has passed counts as now.
    pub(crate) fn set(&mut self, time: Time, action: Action) -> TimerId {
        let time = time.as_nanos().max(self.current);
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.entries.push(Entry {
                    generation: 0,
                    state: State::Free,
                });
                u32::try_from(self.entries.len() - 1).expect("fewer than 2^32 timers")
            }
        };
        let entry = &mut self.entries[index as usize];
        entry.state = State::Waiting(action);
        let item = Item {
            time,
            id: TimerId {
                index,
                generation: entry.generation,
            },
        };
        if self.items == 0 || self.earliest.is_some_and(|earliest| time < earliest.time) {
            self.earliest = Some(item);
        }
        self.items += 1;
        self.place(item);
        item.id
    }

    /// Whether the sleep is over; if not, whom to wake when it is.
    pub(crate) fn poll_sleep(&mut self, id: TimerId, waker: &Waker) -> bool {
        let entry = &mut self.entries[id.index as usize];
        if entry.generation != id.generation {
            return false; // the kernel was shut down: time has ended
        }
        match &mut entry.state {
            State::Waiting(Action::Sleep(slot)) | State::Due(Action::Sleep(slot)) => {
                match slot {
                    Some(old) if old.will_wake(waker) => {}
                    _ => *slot = Some(waker.clone()),
                }
                false
            }
            State::Over => true,
            _ => unreachable!("a sleep's timer is a sleep"),
        }
    }

    /// Forgets a timer, whether or not it has fired. What it held is returned, for the caller to
    /// drop where destructors may run.
    pub(crate) fn cancel(&mut self, id: TimerId) -> Option<Action> {
        let entry = &mut self.entries[id.index as usize];
        if entry.generation != id.generation {
            return None;
        }
        match self.release(id.index) {
            State::Waiting(action) => {
                self.husks += 1;
                if self.husks > 1024 && self.husks > self.items / 2 {
                    self.sweep();
                }
                Some(action)
            }
            State::Due(action) => Some(action),
            State::Over | State::Free => None,
        }
    }

    /// The time of the earliest timer.
    pub(crate) fn next(&mut self) -> Option<Time> {
        loop {
            if let Some(earliest) = self.earliest
                && is_live(&self.entries, earliest.id)
            {
                return Some(Time::from_nanos(earliest.time));
            }
            // The lowest occupied level's lowest slot holds it.
            let level = self.levels.iter_mut().find(|level| level.occupied != 0)?;
            let slot = level.occupied.trailing_zeros() as usize;
            let items = &mut level.slots[slot];
            // If it was cancelled, husks go, lest time stop where nothing happens. They also go from a slot small
            // enough to be used soon: looking at its entries all at once brings them in from memory together.
            if self.earliest.take().is_some() || items.len() <= NEAR {
                let before = items.len();
                items.retain(|item| is_live(&self.entries, item.id));
                self.items -= before - items.len();
                self.husks -= before - items.len();
            }
            self.earliest = items.iter().min_by_key(|item| item.time).copied();
            if items.is_empty() {
                level.occupied &= !(1 << slot);
            }
        }
    }

    /// Moves all timers of the time `time`, which [`Timers::next`] has named, to `due`, in order.
    pub(crate) fn take_due(&mut self, time: Time, due: &mut Vec<TimerId>) {
        let time = time.as_nanos();
        let (level, slot) = self.position(time);
        self.current = time;
        self.earliest = None;
        let mut items = std::mem::replace(
            &mut self.levels[level].slots[slot],
            std::mem::take(&mut self.spare),
        );
        self.levels[level].occupied &= !(1 << slot);
        for item in items.drain(..) {
            if item.time == time {
                self.items -= 1;
                if is_live(&self.entries, item.id) {
                    let state = &mut self.entries[item.id.index as usize].state;
                    if let State::Waiting(action) = std::mem::replace(state, State::Free) {
                        *state = State::Due(action);
                    }
                    due.push(item.id);
                } else {
                    self.husks -= 1;
                }
            } else {
                self.place(item);
            }
        }
        if items.capacity() <= KEEP {
            self.spare = items;
        }
    }

    /// Fires a timer that [`Timers::take_due`] gave out, unless it has been cancelled since.
    pub(crate) fn fire(&mut self, id: TimerId) -> Option<Fired> {
        let entry = &mut self.entries[id.index as usize];
        if entry.generation != id.generation {
            return None;
        }
        if let State::Due(Action::Sleep(waker)) = &mut entry.state {
            let waker = waker.take();
            entry.state = State::Over;
            return Some(Fired::Wake(waker));
        }
        match self.release(id.index) {
            State::Due(Action::Link(link)) => Some(Fired::Link(link)),
            State::Due(Action::Call(call)) => Some(Fired::Call(call)),
            _ => unreachable!("only timers that are due are fired"),
        }
    }

    /// Empties everything. The actions are returned for the caller to drop.
    pub(crate) fn clear(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        for index in 0..self.entries.len() {
            if matches!(self.entries[index].state, State::Waiting(_))
                && let State::Waiting(action) = self.release(index as u32)
            {
                self.husks += 1;
                actions.push(action);
            }
        }
        self.sweep();
        actions
    }

    fn release(&mut self, index: u32) -> State {
        let entry = &mut self.entries[index as usize];
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(index);
        std::mem::replace(&mut entry.state, State::Free)
    }

    /// Where a time belongs: the level of the highest group of bits in which it differs from now.
    fn position(&self, time: u64) -> (usize, usize) {
        let level = (63 - ((time ^ self.current) | 1).leading_zeros()) / BITS;
        let slot = (time >> (level * BITS)) as usize & (SLOTS - 1);
        (level as usize, slot)
    }

    fn place(&mut self, item: Item) {
        let (level, slot) = self.position(item.time);
        self.levels[level].occupied |= 1 << slot;
        self.levels[level].slots[slot].push(item);
    }

    fn sweep(&mut self) {
        let entries = &self.entries;
        for level in &mut self.levels {
            let mut occupied = level.occupied;
            while occupied != 0 {
                let slot = occupied.trailing_zeros() as usize;
                occupied &= occupied - 1;
                let items = &mut level.slots[slot];
                items.retain(|item| is_live(entries, item.id));
                if items.is_empty() {
                    level.occupied &= !(1 << slot);
                }
                if items.capacity() > KEEP && items.len() < items.capacity() / 2 {
                    items.shrink_to_fit();
                }
            }
        }
        self.items -= self.husks;
        self.husks = 0;
        self.earliest = None;
    }
}

fn is_live(entries: &[Entry], id: TimerId) -> bool {
    entries[id.index as usize].generation == id.generation
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stream;
    use std::collections::BTreeMap;

    /// Takes the next moment's timers and says which of `names` they are.
    fn pop(timers: &mut Timers, names: &BTreeMap<u32, (TimerId, u32)>) -> Option<(u64, Vec<u32>)> {
        let time = timers.next()?;
        let mut due = Vec::new();
        timers.take_due(time, &mut due);
        let name = |id: &TimerId| names.values().find(|(other, _)| other == id).unwrap().1;
        let named = due.iter().map(name).collect();
        for id in due {
            timers.fire(id);
        }
        Some((time.as_nanos(), named))
    }

    #[test]
    fn the_wheel_agrees_with_a_sorted_map_under_any_mix_of_setting_cancelling_and_firing() {
        for seed in 0..300 {
            let stream = Stream::new(seed, "wheel");
            let spread = 1u64 << stream.range(1, 60);
            let mut timers = Timers::new();
            let mut model: BTreeMap<(u64, u32), TimerId> = BTreeMap::new();
            let mut names = BTreeMap::new();
            let mut now = 0;
            for sequence in 0..400 {
                match stream.below(4) {
                    0 | 1 => {
                        let time = now + stream.below(spread);
                        let id = timers.set(Time::from_nanos(time), Action::Sleep(None));
                        model.insert((time, sequence), id);
                        names.insert(sequence, (id, sequence));
                    }
                    2 if !model.is_empty() => {
                        let key = *model.keys().nth(stream.index(model.len())).unwrap();
                        assert!(timers.cancel(model.remove(&key).unwrap()).is_some());
                    }
                    _ => {
                        let expected = model.keys().next().map(|&(time, _)| {
                            let due = model.range((time, 0)..=(time, u32::MAX));
                            (
                                time,
                                due.map(|(&(_, sequence), _)| sequence).collect::<Vec<_>>(),
                            )
                        });
                        assert_eq!(pop(&mut timers, &names), expected, "seed {seed}");
                        if let Some((time, due)) = expected {
                            now = time;
                            for sequence in due {
                                let id = model.remove(&(time, sequence)).unwrap();
                                assert!(timers.cancel(id).is_none(), "it has fired");
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn cancelled_timers_do_not_pile_up() {
        let mut timers = Timers::new();
        let keep = timers.set(Time::from_secs(1e6), Action::Sleep(None));
        for n in 0..1_000_000 {
            let id = timers.set(Time::from_secs(600.0 + f64::from(n)), Action::Sleep(None));
            timers.cancel(id);
        }
        assert_eq!(timers.entries.len(), 2);
        assert!(timers.items < 3000, "{}", timers.items);
        let held: usize = timers
            .levels
            .iter()
            .flat_map(|level| &level.slots)
            .map(Vec::capacity)
            .sum();
        assert!(held < 64 * 1024, "{held}");
        assert_eq!(timers.next(), Some(Time::from_secs(1e6)));
        timers.cancel(keep);
        assert_eq!(timers.next(), None);
    }

    #[test]
    fn a_timer_cancelled_by_another_of_the_same_moment_does_not_fire() {
        let mut timers = Timers::new();
        let time = Time::from_secs(1.0);
        let first = timers.set(time, Action::Sleep(None));
        let second = timers.set(time, Action::Call(Box::new(|_| unreachable!())));
        let mut due = Vec::new();
        let next = timers.next().unwrap();
        timers.take_due(next, &mut due);
        assert!(due == [first, second]);
        assert!(timers.fire(first).is_some());
        assert!(matches!(timers.cancel(second), Some(Action::Call(_))));
        assert!(timers.fire(second).is_none());
        assert_eq!((timers.items, timers.husks), (0, 0));
    }

    #[test]
    fn a_timer_set_for_the_past_or_for_now_fires_now() {
        let mut timers = Timers::new();
        timers.set(Time::from_secs(5.0), Action::Sleep(None));
        let mut due = Vec::new();
        let next = timers.next().unwrap();
        timers.take_due(next, &mut due);
        timers.set(Time::from_secs(3.0), Action::Sleep(None));
        timers.set(Time::from_secs(5.0), Action::Sleep(None));
        assert_eq!(timers.next(), Some(Time::from_secs(5.0)));
        due.clear();
        timers.take_due(Time::from_secs(5.0), &mut due);
        assert_eq!(due.len(), 2);
    }
}
