//! The moments at which a distance was shortest, which are one feature with many places.
//!
//! For each distance the front keeps a few moments at which a run was as close as that. The closest
//! run alone would be a poor guide. Often it came close at the end, when little time was left to
//! come closer, and a run that was half as close in half the time has better futures. So a moment
//! joins the front unless a run was closer as early as that, those that it beats leave it, and
//! futures begin at all distances, but more often where it is closer: of six futures about three
//! begin at the closest, and one at the second closest.

use super::place::{BACK_SECONDS, Path, Place};

/// How many places of a distance are kept.
const PLACES_MAX: usize = 16;
/// How often a place is chosen until it makes room for another.
const CHANCES: usize = 4;
/// How many distances a front has at most.
const FRONT_MAX: usize = 32;

/// A few places of the same distance. The earliest has the most before it, and every other choice
/// falls on it. But it may be a dead end, and so may all that were met first: a place whose futures
/// have had their chances makes room for the next.
#[derive(Debug)]
struct Kept {
    /// The first is the one that was new.
    places: Vec<Chances>,
    /// When it was met at the earliest.
    earliest: f64,
    choices: u64,
}

/// A place, and how often it was chosen.
#[derive(Debug)]
struct Chances {
    place: Place,
    had: usize,
}

/// Moments of which none is both farther and later than another; the closest comes first.
#[derive(Debug, Default)]
pub(super) struct Front(Vec<Step>);

/// The moments of a front that are as close as this.
#[derive(Debug)]
struct Step {
    distance: f64,
    places: Kept,
    /// How many futures have begun here.
    futures: u64,
}

impl Chances {
    fn of(place: Place) -> Chances {
        Chances { place, had: 0 }
    }

    fn choose(&mut self) -> Place {
        let seconds = BACK_SECONDS[self.had % BACK_SECONDS.len()];
        self.had += 1;
        self.place.back(seconds)
    }
}

impl Kept {
    fn of(place: Place) -> Kept {
        Kept {
            earliest: place.from,
            places: vec![Chances::of(place)],
            choices: 0,
        }
    }

    /// Takes a place in, if there is room. Returns whether it is the earliest.
    fn meet(&mut self, place: Place) -> bool {
        let is_earliest = place.from < self.earliest;
        self.earliest = self.earliest.min(place.from);
        let chances = Chances::of(place);
        if self.places.len() < PLACES_MAX {
            self.places.push(chances);
            return is_earliest;
        }
        let spent = self.places.iter_mut().max_by_key(|one| one.had);
        if let Some(spent) = spent
            && (spent.had >= CHANCES || is_earliest)
        {
            *spent = chances;
        }
        is_earliest
    }

    fn choose(&mut self) -> Option<Place> {
        self.choices += 1;
        let open = self.places.iter_mut().filter(|one| one.had < CHANCES);
        let earliest = open.min_by(|one, other| one.place.from.total_cmp(&other.place.from));
        let next = match earliest {
            Some(earliest) if !self.choices.is_multiple_of(2) => earliest,
            // The first of those with the fewest chances.
            _ => self.places.iter_mut().min_by_key(|one| one.had)?,
        };
        Some(next.choose())
    }
}

impl Front {
    /// How many futures have begun where the next ones will.
    pub(super) fn futures(&self) -> u64 {
        self.next().map_or(0, |step| self.0[step].futures)
    }

    /// The runs that came as close as each distance, the first of each.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        let steps = self.0.iter();
        steps.map(|step| &step.places.places[0].place.path)
    }

    /// How many places there are of the shortest distance.
    #[cfg(test)]
    pub(super) fn closest_len(&self) -> usize {
        self.0[0].places.places.len()
    }

    /// Takes a moment in, unless a run was closer as early as that, or it is a place that is known
    /// and was only met again. Returns whether it is closer than all others.
    pub(super) fn meet(&mut self, distance: f64, place: Place, is_again: bool) -> bool {
        let time = place.from;
        let is_beaten = |step: &Step| step.distance < distance && step.earliest() <= time;
        if self.0.iter().any(is_beaten) {
            return false;
        }
        self.0
            .retain(|step| step.distance <= distance || step.earliest() < time);
        let index = self.0.partition_point(|step| step.distance < distance);
        if let Some(step) = self.0.get_mut(index)
            && step.distance == distance
        {
            if !is_again && step.places.meet(place) {
                step.futures = 0;
            }
            return false;
        }
        let step = Step {
            distance,
            places: Kept::of(place),
            futures: 0,
        };
        self.0.insert(index, step);
        self.thin();
        index == 0
    }

    /// Leaves out the step whose neighbours are nearest to each other, if there are too many.
    fn thin(&mut self) {
        if self.0.len() <= FRONT_MAX {
            return;
        }
        let gap = |index: &usize| self.0[index + 1].distance - self.0[index - 1].distance;
        let inner = 1..self.0.len() - 1;
        let densest = inner.min_by(|one, other| gap(one).total_cmp(&gap(other)));
        if let Some(index) = densest {
            self.0.remove(index);
        }
    }

    /// Where the next futures begin.
    fn next(&self) -> Option<usize> {
        let weighed = |index: &usize| {
            let (futures, rank) = (self.0[*index].futures + 1, (*index + 1) as f64);
            futures as f64 * rank * rank.sqrt()
        };
        // Of equals the first, which is the closest.
        (0..self.0.len()).min_by(|one, other| weighed(one).total_cmp(&weighed(other)))
    }

    pub(super) fn choose(&mut self, futures: u64) -> Option<Place> {
        let index = self.next()?;
        let step = &mut self.0[index];
        step.futures += futures;
        step.places.choose()
    }
}

impl Step {
    /// When a run was as close as this at the earliest.
    fn earliest(&self) -> f64 {
        self.places.earliest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_front_has_its_ends_and_no_more_moments_than_it_may() {
        let mut front = Front(Vec::new());
        for step in 0..1_000_u32 {
            let place = Place {
                path: Path::of(step.into()),
                from: f64::from(step),
            };
            assert!(front.meet(1_000.0 - f64::from(step), place, false));
            assert!(front.0.len() <= FRONT_MAX);
        }
        let ends = (front.0[0].distance, front.0[FRONT_MAX - 1].distance);
        assert_eq!(ends, (1.0, 1_000.0));
        let is_ordered = front
            .0
            .is_sorted_by(|one, other| one.distance < other.distance);
        assert!(is_ordered);
    }
}
