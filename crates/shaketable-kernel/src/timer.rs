//! Timers in the order of their time, equals in the order they were set.
//!
//! Most timers of a cluster are messages that arrive in a millisecond, set while a few hundred
//! others wait; but a million tasks may be asleep. So there are two places. The *near* timers, a
//! few hundred at most, are one sorted row: setting one is a short search from the end nearest the
//! present, firing one means taking the last. All others are in a [`Wheel`], which hands over its
//! first slot whenever the row is empty, and takes the later half of the row when it is full. A
//! timer costs the same with ten others as with a million.
//!
//! Cancelling frees the timer's entry at once and leaves a 16-byte husk in its place; when husks
//! outnumber live timers they are swept, so a million cancelled timeouts cost neither memory nor,
//! amortised, time.

use crate::network::LinkId;
use crate::ready::Local;
use crate::time::Time;
use crate::wakeup;
use crate::wheel::{Item, Wheel};
use std::cell::Cell;
use std::collections::VecDeque;
use std::task::{Context, Waker};

/// At most this many timers count as near.
const NEAR_MAX: usize = 256;
/// A refill takes at least this many timers, if there are that many.
const NEAR_MIN: usize = 64;

/// What a timer does when its time comes. Numbers, which are moved without a thought for what they
/// would have to drop; the few timers that own something have it apart, as [`Held`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fired {
    /// A [`crate::Sleep`] is over for which no task waits yet.
    Nothing,
    /// A sleep is over: wakes its task.
    Task(Local),
    /// Delivers what is due on a link.
    Link(LinkId),
    /// Does what [`Timers::take_held`] returns.
    Held(TimerId),
}

/// What a timer owns.
pub(crate) enum Held {
    /// Wakes whoever waits for a sleep that no task of a kernel polls.
    Waker(Waker),
    /// Runs a closure.
    Call(Box<dyn FnOnce(&crate::Kernel)>),
}

/// Identifies one timer, and never a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimerId {
    index: u32,
    generation: u32,
}

/// The first timer of a moment.
#[derive(Clone, Copy)]
pub(crate) struct Taken {
    pub(crate) time: Time,
    pub(crate) fired: Fired,
    /// Whether there are others, for [`Timers::fire_due`].
    pub(crate) more: bool,
}

/// All timers of one kernel.
pub(crate) struct Timers {
    /// The moment that was taken last.
    current: u64,
    /// Those before `horizon`: later ones first, and of equals the one set last first.
    near: Vec<Item>,
    horizon: u64,
    /// Those at or after `horizon`.
    far: Wheel,
    /// Those of the current moment that were taken and have not fired: each may cancel those behind
    /// it.
    due: VecDeque<TimerId>,
    /// The number of timers ever set, which is the number of the last one.
    sequence: u64,
    /// The number of the one that fired last at the current moment, or 0.
    fired: u64,
    entries: Vec<Entry>,
    free: Vec<u32>,
    /// What timers own, by the number of their entry.
    held: Vec<Option<Held>>,
    /// Items in both places, husks included.
    items: usize,
    husks: usize,
}

#[derive(Clone, Copy)]
struct Entry {
    generation: u32,
    /// Its number in the order of setting.
    sequence: u64,
    /// It was taken out of its place, about to fire.
    due: bool,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    Free,
    /// A sleep that has not fired, and what it does when it does.
    Sleep(Fired),
    Link(LinkId),
    Call,
    /// A sleep that is over and whose owner has not checked yet.
    Over,
}

impl Timers {
    pub(crate) fn new() -> Timers {
        Timers {
            current: 0,
            near: Vec::new(),
            horizon: u64::MAX,
            far: Wheel::new(),
            due: VecDeque::new(),
            sequence: 0,
            fired: 0,
            entries: Vec::new(),
            free: Vec::new(),
            held: Vec::new(),
            items: 0,
            husks: 0,
        }
    }

    /// Sets a timer for a sleep.
    pub(crate) fn set_sleep(&mut self, time: Time) -> TimerId {
        self.set(time, State::Sleep(Fired::Nothing))
    }

    /// Sets the timer of a link.
    pub(crate) fn set_link(&mut self, time: Time, link: LinkId) -> TimerId {
        self.set(time, State::Link(link))
    }

    /// Sets a timer that runs a closure.
    pub(crate) fn set_call(&mut self, time: Time, call: Box<dyn FnOnce(&crate::Kernel)>) {
        let id = self.set(time, State::Call);
        self.hold(id.index, Held::Call(call));
    }

    /// A time that has passed counts as now.
    #[inline]
    fn set(&mut self, time: Time, state: State) -> TimerId {
        let time = time.as_nanos().max(self.current);
        let index = match self.free.pop() {
            Some(index) => index,
            None => self.add_entry(),
        };
        let entry = &mut self.entries[index as usize];
        assert!(
            matches!(entry.state, State::Free),
            "an entry holds one timer at a time"
        );
        entry.state = state;
        entry.due = false;
        self.sequence += 1;
        entry.sequence = self.sequence;
        let item = Item {
            time,
            id: TimerId {
                index,
                generation: entry.generation,
            },
        };
        self.items += 1;
        if time >= self.horizon {
            self.far.add(item);
        } else {
            put(&mut self.near, item);
            if self.near.len() > NEAR_MAX {
                self.spill();
            }
        }
        item.id
    }

    #[cold]
    fn add_entry(&mut self) -> u32 {
        self.entries.push(Entry {
            generation: 0,
            sequence: 0,
            due: false,
            state: State::Free,
        });
        self.held.push(None);
        u32::try_from(self.entries.len() - 1).expect("fewer than 2^32 timers")
    }

    /// Returns whether the sleep is over; if not, remembers which task to wake when it is.
    pub(crate) fn poll_sleep(&mut self, id: TimerId, cx: &Context<'_>) -> bool {
        let entry = &mut self.entries[id.index as usize];
        if entry.generation != id.generation {
            return false; // the kernel was shut down: time has ended
        }
        match &mut entry.state {
            State::Sleep(fired) => {
                if let Some(task) = wakeup::polled_by(cx) {
                    *fired = Fired::Task(task);
                } else {
                    *fired = Fired::Held(id);
                    self.hold_waker(id.index, cx.waker());
                }
                false
            }
            State::Over => true,
            _ => unreachable!("a sleep's timer is a sleep"),
        }
    }

    /// What a timer owns that has fired.
    pub(crate) fn take_held(&mut self, id: TimerId) -> Option<Held> {
        self.held[id.index as usize].take()
    }

    #[inline]
    fn hold(&mut self, index: u32, held: Held) {
        self.held[index as usize] = Some(held);
    }

    #[cold]
    fn hold_waker(&mut self, index: u32, waker: &Waker) {
        let before = &self.held[index as usize];
        if !matches!(before, Some(Held::Waker(before)) if before.will_wake(waker)) {
            self.hold(index, Held::Waker(waker.clone()));
        }
    }

    /// Forgets a timer, whether or not it has fired. Returns what it held, for the caller to drop
    /// where destructors may run.
    pub(crate) fn cancel(&mut self, id: TimerId) -> Option<Held> {
        let entry = &self.entries[id.index as usize];
        if entry.generation != id.generation {
            return None;
        }
        let waits = !entry.due && !matches!(entry.state, State::Over);
        self.release(id.index);
        if waits {
            self.husks += 1;
            if self.husks > 1024 && self.husks > self.items / 2 {
                self.sweep();
            }
        }
        self.take_held(id)
    }

    /// The time of the earliest timer.
    pub(crate) fn next(&mut self) -> Option<Time> {
        while let Some(item) = self.near.last() {
            if is_live(&self.entries, item.id) {
                return Some(Time::from_nanos(item.time));
            }
            self.near.pop();
            self.items -= 1;
            self.husks -= 1;
        }
        let mut removed = 0;
        let lives = |id| is_live(&self.entries, id);
        let earliest = self.far.earliest(lives, &mut removed);
        self.items -= removed;
        self.husks -= removed;
        earliest.map(Time::from_nanos)
    }

    /// Takes the timers of the earliest moment, unless that is later than `limit`, and fires the
    /// first of them; [`Timers::fire_due`] fires the others.
    #[inline(always)]
    pub(crate) fn take_next(&mut self, limit: Time) -> Option<Taken> {
        loop {
            let Some(item) = self.near.pop_if(|item| item.time <= limit.as_nanos()) else {
                if !self.near.is_empty() {
                    return None;
                }
                let time = self.next()?; // from the wheel, as the row is empty
                if time > limit {
                    return None;
                }
                self.refill(time.as_nanos());
                continue;
            };
            self.items -= 1;
            if !is_live(&self.entries, item.id) {
                self.husks -= 1;
                continue;
            }
            if item.time != self.current {
                assert!(item.time > self.current, "timers fire in the order of time");
                self.current = item.time;
                self.fired = 0;
            }
            let fired = self.fire(item.id);
            // Usually it is the only one of its moment.
            let next = self.near.last();
            if next.is_some_and(|next| next.time == item.time) {
                self.take_others(item.time);
            }
            return Some(Taken {
                time: Time::from_nanos(item.time),
                fired,
                more: !self.due.is_empty(),
            });
        }
    }

    /// Takes the other timers of the moment whose first one was taken.
    #[cold]
    fn take_others(&mut self, time: u64) {
        while let Some(other) = self.near.pop_if(|other| other.time == time) {
            self.items -= 1;
            if self.mark_due(other.id) {
                self.due.push_back(other.id);
            }
        }
    }

    /// Fires the next timer of the moment that was taken, unless there is none left.
    pub(crate) fn fire_due(&mut self) -> Option<Fired> {
        while let Some(id) = self.due.pop_front() {
            if is_live(&self.entries, id) {
                return Some(self.fire(id));
            }
        }
        None
    }

    /// Records that a timer has left its place; returns whether it was more than a husk.
    fn mark_due(&mut self, id: TimerId) -> bool {
        let entry = &mut self.entries[id.index as usize];
        if entry.generation != id.generation {
            self.husks -= 1;
            return false;
        }
        entry.due = true;
        true
    }

    /// Fires a timer that was taken: returns what it does.
    #[inline(always)]
    fn fire(&mut self, id: TimerId) -> Fired {
        let entry = &mut self.entries[id.index as usize];
        let in_order = entry.sequence > self.fired;
        assert!(
            in_order,
            "timers of one moment fire in the order they were set"
        );
        self.fired = entry.sequence;
        match entry.state {
            // A sleep keeps its entry until its owner has looked.
            State::Sleep(fired) => {
                entry.state = State::Over;
                fired
            }
            State::Link(link) => {
                self.release(id.index);
                Fired::Link(link)
            }
            State::Call => {
                self.release(id.index);
                Fired::Held(id)
            }
            State::Free | State::Over => unreachable!("a timer fires once"),
        }
    }

    /// Empties everything. Returns what the timers held for the caller to drop.
    pub(crate) fn clear(&mut self) -> Vec<Held> {
        for index in 0..self.entries.len() {
            let Entry { due, state, .. } = self.entries[index];
            if !matches!(state, State::Free | State::Over) {
                self.husks += usize::from(!due);
                self.release(index as u32);
            }
        }
        self.sweep();
        self.held.iter_mut().filter_map(Option::take).collect()
    }

    #[inline]
    fn release(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        entry.generation = entry.generation.wrapping_add(1);
        entry.state = State::Free;
        self.free.push(index);
    }

    /// Takes the first timers out of the wheel, `time` being the earliest. All their entries are
    /// read here, one after the other, because that brings them in from memory together; if each
    /// were read only when it fires, every one of them would be a cache miss.
    fn refill(&mut self, time: u64) {
        self.far.take(time, NEAR_MAX, &mut self.near);
        while self.near.len() < NEAR_MIN && self.far.take_slot(NEAR_MAX, &mut self.near) {}
        self.horizon = self.far.start();
        let (entries, taken) = (&self.entries, self.near.len());
        self.near.retain(|item| is_live(entries, item.id));
        let husks = taken - self.near.len();
        self.items -= husks;
        self.husks -= husks;
        self.near.sort_by_key(|item| item.time);
        self.near.reverse();
        let latest = self.near.first().map(|item| item.time);
        assert!(
            latest <= Some(self.horizon),
            "what is near lies before the horizon"
        );
    }

    /// Moves the later half to the wheel, together with everything due at the same moment as the
    /// first of it.
    fn spill(&mut self) {
        let horizon = self.near[self.near.len() / 2].time;
        let later = self.near.partition_point(|item| item.time >= horizon);
        for item in self.near.drain(..later).rev() {
            self.far.add(item);
        }
        self.horizon = horizon;
    }

    fn sweep(&mut self) {
        let entries = &self.entries;
        self.near.retain(|item| is_live(entries, item.id));
        self.far.retain(|item| is_live(entries, item.id));
        self.items -= self.husks;
        self.husks = 0;
        assert!(self.near.len() <= self.items, "a sweep leaves no husk");
    }
}

/// How many steps from the present a place among the near timers is looked for one by one.
const STEPS: usize = 8;

/// Puts a timer where it belongs among the near ones. Most are set for a moment that only a few
/// others come before; that is found faster step by step, each other timer moving up as it is
/// passed, than by halving the row.
#[inline]
fn put(near: &mut Vec<Item>, item: Item) {
    let first = near.len().saturating_sub(STEPS);
    near.push(item);
    // Cells, because a pair of neighbours needs no check of an index.
    let row = Cell::from_mut(&mut near[first..]).as_slice_of_cells();
    for pair in row.windows(2).rev() {
        let [next, place] = pair else {
            unreachable!("a pair is two");
        };
        if next.get().time > item.time {
            place.set(item);
            return;
        }
        place.set(next.get());
    }
    put_far_from_present(near, first, item);
}

/// Puts a timer where it belongs before `end`, whose own has moved up.
#[inline(never)]
fn put_far_from_present(near: &mut [Item], end: usize, item: Item) {
    let place = near[..end].partition_point(|other| other.time > item.time);
    near.copy_within(place..end, place + 1);
    near[place] = item;
}

fn is_live(entries: &[Entry], id: TimerId) -> bool {
    entries[id.index as usize].generation == id.generation
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ProcessId, Stream};
    use std::collections::BTreeMap;

    /// What a timer reports that has this number.
    fn numbered(number: u32) -> LinkId {
        let process = ProcessId(number);
        LinkId {
            from: process,
            to: process,
        }
    }

    impl Timers {
        /// Whether a timer is set, or is a sleep that its owner has not looked at.
        fn lives(&self, id: TimerId) -> bool {
            is_live(&self.entries, id)
        }
    }

    /// Fires the next moment's timers and returns their numbers.
    fn pop(timers: &mut Timers) -> Option<(u64, Vec<u32>)> {
        let next = timers.next();
        let taken = timers.take_next(Time::NEVER);
        assert_eq!(taken.as_ref().map(|taken| taken.time), next);
        let taken = taken?;
        let mut fired = vec![taken.fired];
        fired.extend(std::iter::from_fn(|| timers.fire_due()));
        assert_eq!(fired.len() > 1, taken.more);
        let number = |fired| match fired {
            Fired::Link(link) => link.from.0,
            _ => unreachable!("they are all numbered"),
        };
        Some((
            taken.time.as_nanos(),
            fired.into_iter().map(number).collect(),
        ))
    }

    #[test]
    fn timers_agree_with_a_sorted_map_under_any_mix_of_setting_cancelling_and_firing() {
        for seed in 0..300 {
            let stream = Stream::new(seed, "wheel");
            let spread = 1u64 << stream.range(1, 60);
            let mut timers = Timers::new();
            let mut model: BTreeMap<(u64, u32), TimerId> = BTreeMap::new();
            let mut now = 0;
            // Some seeds hold a few timers at a time, some more than count as near.
            let setting = stream.range(2, 12);
            for sequence in 0..1000 {
                match stream.below(setting + 2) {
                    kind if kind >= 2 => {
                        let time = now + stream.below(spread);
                        let id = timers.set_link(Time::from_nanos(time), numbered(sequence));
                        model.insert((time, sequence), id);
                    }
                    1 if !model.is_empty() => {
                        let key = *model.keys().nth(stream.index(model.len())).unwrap();
                        let id = model.remove(&key).unwrap();
                        assert!(timers.lives(id));
                        timers.cancel(id);
                    }
                    _ => {
                        let expected = model.keys().next().map(|&(time, _)| {
                            let due = model.range((time, 0)..=(time, u32::MAX));
                            (
                                time,
                                due.map(|(&(_, sequence), _)| sequence).collect::<Vec<_>>(),
                            )
                        });
                        assert_eq!(pop(&mut timers), expected, "seed {seed}");
                        if let Some((time, due)) = expected {
                            now = time;
                            for sequence in due {
                                let id = model.remove(&(time, sequence)).unwrap();
                                assert!(!timers.lives(id), "it has fired");
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
        let keep = timers.set_sleep(Time::from_secs(1e6));
        for n in 0..1_000_000 {
            let id = timers.set_sleep(Time::from_secs(600.0 + f64::from(n)));
            timers.cancel(id);
        }
        assert_eq!(timers.entries.len(), 2);
        assert!(timers.items < 3000, "{}", timers.items);
        let held = timers.near.capacity() + timers.far.capacity();
        assert!(held < 64 * 1024, "{held}");
        assert_eq!(timers.next(), Some(Time::from_secs(1e6)));
        timers.cancel(keep);
        assert_eq!(timers.next(), None);
    }

    #[test]
    fn a_timer_cancelled_by_another_of_the_same_moment_does_not_fire() {
        let mut timers = Timers::new();
        let time = Time::from_secs(1.0);
        let first = timers.set_sleep(time);
        let second = timers.set(time, State::Call);
        timers.hold(second.index, Held::Call(Box::new(|_| unreachable!())));
        let taken = timers.take_next(Time::NEVER).unwrap();
        assert!(matches!(taken.fired, Fired::Nothing) && taken.more && taken.time == time);
        assert!(timers.cancel(first).is_none(), "it held nothing");
        assert!(matches!(timers.cancel(second), Some(Held::Call(_))));
        assert!(timers.fire_due().is_none());
        assert_eq!((timers.items, timers.husks), (0, 0));
    }

    #[test]
    fn a_timer_later_than_the_limit_stays_where_it_is_near_or_far() {
        let mut timers = Timers::new();
        let (early, late) = (Time::from_secs(1.0), Time::from_secs(1e6));
        for time in [early, late] {
            let id = timers.set_sleep(time);
            assert!(
                timers
                    .take_next(Time::from_nanos(time.as_nanos() - 1))
                    .is_none()
            );
            assert!(matches!(timers.take_next(time), Some(taken) if taken.time == time));
            assert!(timers.cancel(id).is_none(), "it has fired");
        }
        assert!(timers.take_next(Time::NEVER).is_none());
    }

    #[test]
    fn a_timer_set_for_the_past_or_for_now_fires_now() {
        let mut timers = Timers::new();
        timers.set_sleep(Time::from_secs(5.0));
        assert!(timers.take_next(Time::NEVER).is_some());
        timers.set_sleep(Time::from_secs(3.0));
        timers.set_sleep(Time::from_secs(5.0));
        assert_eq!(timers.next(), Some(Time::from_secs(5.0)));
        let taken = timers.take_next(Time::NEVER).unwrap();
        assert_eq!(taken.time, Time::from_secs(5.0));
        assert!(timers.fire_due().is_some());
        assert!(timers.fire_due().is_none());
    }
}
