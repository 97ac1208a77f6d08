//! The moments at which runs met the same thing, and which of them to return to.
//!
//! Two such moments look alike and are not. Of forty runs that met one commit in doubt that had
//! landed, twenty had not one future of 160 that met a second one; of the futures of the other
//! twenty, every eighth did. Nothing that was met tells the two kinds apart, but their futures do.
//! So a new place gets a few futures, and one whose futures led further gets more: the next ones
//! begin where the share that led further is highest, and what is not known yet is taken for a
//! little better than what failed a few times.
//!
//! What led further twice is not preferred any more. Futures that nearly all lead further often
//! meet one and the same event that lay just ahead, and are one place with many names.
//!
//! A place that has had its chances, and led nowhere, is *spent*. If all are, new seeds are the
//! better way to find a place: so each second choice is left to them.

use super::place::{BACK_SECONDS, Place};

/// How many places are kept.
const PLACES_MAX: usize = 64;
/// How often a place is chosen until it is spent: once in each way to begin.
const CHANCES: usize = BACK_SECONDS.len();
/// More futures that led further than this count for no more.
const LED_ON_MAX: u64 = 2;
/// What any place may hope for: as if this many of so many futures had led further.
const HOPED: f64 = 0.3;
const TRIED: u64 = 6;

/// Places that are alike.
#[derive(Debug)]
pub(super) struct Entries {
    /// The first is the one that was new.
    places: Vec<Entry>,
}

/// A place, and what its futures have shown.
#[derive(Debug)]
struct Entry {
    place: Place,
    choices: usize,
    futures: u64,
    /// How many of its futures led further.
    led_on: u64,
}

impl Entry {
    fn of(place: Place) -> Entry {
        Entry {
            place,
            choices: 0,
            futures: 0,
            led_on: 0,
        }
    }

    /// How likely the next future is to lead further.
    fn hope(&self) -> f64 {
        (self.led_on.min(LED_ON_MAX) as f64 + HOPED) / (self.futures + TRIED) as f64
    }
}

impl Entries {
    pub(super) fn of(place: Place) -> Entries {
        Entries {
            places: vec![Entry::of(place)],
        }
    }

    /// The place that was met first.
    pub(super) fn first(&self) -> &Place {
        &self.places[0].place
    }

    /// Takes a place in. If there is no room, the one that was chosen most often makes it.
    pub(super) fn meet(&mut self, place: Place) {
        let entry = Entry::of(place);
        if self.places.len() < PLACES_MAX {
            self.places.push(entry);
            return;
        }
        // The first stays: a later search begins with its run.
        let most = self.places[1..].iter_mut().max_by_key(|one| one.choices);
        if let Some(most) = most
            && most.choices > 0
        {
            *most = entry;
        }
    }

    /// Whether no place has a chance left.
    pub(super) fn are_spent(&self) -> bool {
        self.places.iter().all(|one| one.choices >= CHANCES)
    }

    /// Where this many futures begin, and when what they are chosen for was met.
    pub(super) fn choose(&mut self, futures: u64) -> Option<(Place, f64)> {
        let next = self.places.iter_mut().min_by(|one, other| {
            let by_hope = other.hope().total_cmp(&one.hope());
            // Of equals the earliest, which has the most before it.
            by_hope.then(one.place.from.total_cmp(&other.place.from))
        })?;
        let seconds = BACK_SECONDS[next.choices % BACK_SECONDS.len()];
        next.choices += 1;
        next.futures += futures;
        Some((next.place.back(seconds), next.place.from))
    }

    /// A future of the place at this time led further.
    pub(super) fn led_on(&mut self, at: f64) {
        if let Some(entry) = self.places.iter_mut().find(|one| one.place.from == at) {
            entry.led_on += 1;
        }
    }

    /// How many places there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::place::Path;
    use super::*;

    fn place(from: f64) -> Place {
        Place {
            path: Path::of(from as u64),
            from,
        }
    }

    fn begun(entries: &mut Entries) -> f64 {
        entries.choose(4).unwrap().1
    }

    #[test]
    fn every_place_has_its_turn_and_the_earliest_the_first() {
        let mut entries = Entries::of(place(5.0));
        for from in [9.0, 2.0, 7.0] {
            entries.meet(place(from));
        }
        let turns = [0; 8].map(|_| begun(&mut entries));
        assert_eq!(turns, [2.0, 5.0, 7.0, 9.0, 2.0, 5.0, 7.0, 9.0]);
    }

    #[test]
    fn a_place_that_led_further_is_preferred_for_a_while() {
        let mut entries = Entries::of(place(1.0));
        for from in 2..=20 {
            entries.meet(place(f64::from(from)));
        }
        assert_eq!(begun(&mut entries), 1.0);
        assert_eq!(begun(&mut entries), 2.0);
        // However many did: they may all have met the same event.
        for _ in 0..100 {
            entries.led_on(2.0);
        }
        let turns = [0; 20].map(|_| begun(&mut entries));
        let again = turns.iter().take_while(|from| **from == 2.0).count();
        assert!((5..15).contains(&again), "{turns:?}");
        assert_eq!(turns[again], 3.0);
    }

    #[test]
    fn places_are_spent_when_each_has_had_its_chances() {
        let mut entries = Entries::of(place(1.0));
        entries.meet(place(2.0));
        for _ in 0..2 * CHANCES {
            assert!(!entries.are_spent());
            entries.choose(4);
        }
        assert!(entries.are_spent());
        entries.meet(place(3.0));
        assert!(!entries.are_spent());
        assert_eq!(begun(&mut entries), 3.0);
    }

    #[test]
    fn there_is_room_for_what_is_new_and_the_first_is_kept() {
        let mut entries = Entries::of(place(1.0));
        for from in 2..=200 {
            entries.meet(place(f64::from(from)));
            entries.choose(4);
            assert!(entries.len() <= PLACES_MAX);
        }
        assert_eq!(entries.first(), &place(1.0));
        assert!(entries.places.iter().any(|one| one.place.from > 150.0));
    }
}
