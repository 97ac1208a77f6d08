//! Where a guided search has been, and where it goes next.
//!
//! Everything that a run can meet is a *feature*, known by its words. For each feature the corpus
//! counts the runs that met it, and keeps a few *places*: runs, cut at the moment after they met
//! it. Energy goes where few runs have been: the next futures begin at a place of the feature with
//! the fewest runs for its worth; `entries.rs` says at which. No feature is preferred for long,
//! because every future of it meets it too, and counts. So what is common is never returned to,
//! what is rare is returned to until it is rare no more, and what leads on to something new is
//! worth more. Eleven choices of twelve are made among what the author of the code has marked, if
//! there is anything.
//!
//! A distance is one feature with many places: `front.rs` keeps them. Where the futures of a place
//! begin is in `place.rs`.

use super::entries::Entries;
use super::front::Front;
use super::place::{INSTANT_SECONDS, Path, Place};
use shaketable_host::verdict::Moment;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// A place that was chosen, and what it was chosen for.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The place.
    pub place: Place,
    /// What it was chosen for.
    pub chosen: Chosen,
}

/// What a place was chosen for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Chosen {
    /// The number of the feature.
    feature: usize,
    /// When it was met there.
    at: f64,
}

/// What a run has met that no run had met before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum News {
    /// Nothing.
    None,
    /// Something, but nothing that the author of the code has marked.
    NotMarked,
    /// Something that is marked.
    Marked,
}

/// A future that meets what it was chosen for this soon after it begins has met the same again, and
/// is no other place: the copies of a dead end would be as dead, and crowd out all others.
const AGAIN_SECONDS: f64 = 0.15;
/// One choice of this many is made among all features, not only among those that are marked.
const ALL_FEATURES: u64 = 12;
/// What a future that met something new adds to the worth of where it began.
const WORTH_OF_NEWS: f64 = 1.0;

/// A mark is rare if it was met by one new seed of this many at most.
const RARE: u64 = 8;

/// Something that runs have met.
#[derive(Debug)]
struct Feature {
    worth: f64,
    is_marked: bool,
    places: Places,
}

/// Where something was met.
#[derive(Debug)]
enum Places {
    /// It is met or not.
    Alike {
        /// How many runs have met it.
        runs: u64,
        /// How many of them were new seeds.
        seeds: u64,
        /// How many futures of it are under way.
        planned: u64,
        places: Entries,
    },
    /// It is met more or less.
    Front(Front),
}

impl Feature {
    /// What it is worth for each run that has been there.
    fn score(&self) -> f64 {
        let runs = match &self.places {
            Places::Alike { runs, planned, .. } => runs + planned,
            Places::Front(front) => front.futures(),
        };
        self.worth / runs.max(1) as f64
    }

    /// Whether there is nothing left to try: each of its places has had its chances.
    fn is_spent(&self) -> bool {
        match &self.places {
            Places::Alike { places, .. } => places.are_spent(),
            Places::Front(_) => false,
        }
    }

    /// A place for this many futures, and when the feature was met there.
    fn choose(&mut self, futures: u64) -> Option<(Place, f64)> {
        match &mut self.places {
            Places::Alike {
                planned, places, ..
            } => {
                *planned += futures;
                places.choose(futures)
            }
            Places::Front(front) => {
                let place = front.choose(futures)?;
                let at = place.from;
                Some((place, at))
            }
        }
    }
}

/// Everything that was met.
#[derive(Debug, Default)]
pub struct Corpus {
    numbers: BTreeMap<String, usize>,
    features: Vec<Feature>,
    choices: u64,
    /// Choices for which every feature was spent.
    spent: u64,
}

impl Corpus {
    /// How many things were met.
    pub fn len(&self) -> usize {
        self.features.len()
    }

    /// Whether nothing was met.
    pub fn is_empty(&self) -> bool {
        self.features.is_empty()
    }

    /// Whether there is a moment that is likely to be worth returning to: the author of the code
    /// has marked something that hardly any of this many new seeds has met. Futures do not count,
    /// or what is returned to would soon be rare no more.
    pub fn has_rare_mark(&self, seeds: u64) -> bool {
        self.features.iter().any(|feature| {
            let is_rare = match &feature.places {
                Places::Alike { seeds: met, .. } => met.saturating_mul(RARE) <= seeds,
                Places::Front(_) => true,
            };
            feature.is_marked && is_rare
        })
    }

    /// Whether runs have met anything that is marked.
    pub fn has_mark(&self) -> bool {
        self.features.iter().any(|feature| feature.is_marked)
    }

    /// Adds what a run has met; `from` is what its place was chosen for.
    pub fn learn(&mut self, path: &Path, moments: &[Moment], from: Option<Chosen>) -> News {
        let mut met = BTreeSet::new();
        let mut news = News::None;
        for moment in moments {
            let is_first = met.insert(&*moment.what) || moment.distance.is_some();
            if is_first && self.meet(path, moment) {
                news = news.max(match moment.is_marked {
                    true => News::Marked,
                    false => News::NotMarked,
                });
            }
        }
        if let Some(from) = from {
            if news > News::None {
                self.features[from.feature].worth += WORTH_OF_NEWS;
            }
            self.note_further(path, moments, from);
        }
        news
    }

    /// Tells the place where a run began if the run led further than the place: it has met another
    /// mark, which was met for the first time later than what the place was chosen for.
    fn note_further(&mut self, path: &Path, moments: &[Moment], from: Chosen) {
        let began = path.is_new_since();
        let is_further = moments.iter().any(|moment| {
            let is_mark = moment.is_marked && moment.distance.is_none();
            let number = self.numbers.get(&moment.what);
            is_mark && moment.seconds > began && number.is_some_and(|one| *one > from.feature)
        });
        if let (true, Places::Alike { places, .. }) =
            (is_further, &mut self.features[from.feature].places)
        {
            places.led_on(from.at);
        }
    }

    fn meet(&mut self, path: &Path, moment: &Moment) -> bool {
        let place = Place {
            path: path.clone(),
            from: moment.seconds + INSTANT_SECONDS,
        };
        let is_seed = path.turns.is_empty();
        let is_here = place.from > path.is_new_since();
        let is_again = !path.turns.is_empty() && place.from <= path.is_new_since() + AGAIN_SECONDS;
        let Some(number) = self.numbers.get(&moment.what) else {
            self.numbers
                .insert(moment.what.clone(), self.features.len());
            let places = match moment.distance {
                Some(distance) => {
                    let mut front = Front::default();
                    front.meet(distance, place, is_again);
                    Places::Front(front)
                }
                None => Places::Alike {
                    runs: 1,
                    seeds: u64::from(is_seed),
                    planned: 0,
                    places: Entries::of(place),
                },
            };
            self.features.push(Feature {
                worth: 1.0,
                is_marked: moment.is_marked,
                places,
            });
            return true;
        };
        let feature = &mut self.features[*number];
        match (&mut feature.places, moment.distance) {
            (Places::Front(front), Some(distance)) if is_here => {
                let is_closest = front.meet(distance, place, is_again);
                if is_closest {
                    feature.worth = 1.0;
                }
                is_closest
            }
            (
                Places::Alike {
                    runs,
                    seeds,
                    places,
                    ..
                },
                _,
            ) => {
                *runs += 1;
                *seeds += u64::from(is_seed);
                if is_here && !is_again {
                    places.meet(place);
                }
                false
            }
            (Places::Front(_), _) => false,
        }
    }

    /// Chooses where this many futures begin; `None` if nothing was met, and every second time that
    /// no place has a chance left: new seeds may bring one.
    pub fn choose(&mut self, futures: u64) -> Option<Choice> {
        self.choices += 1;
        let only_marked = !self.choices.is_multiple_of(ALL_FEATURES) && self.has_mark();
        let best = |also_spent: bool| {
            let features = self.features.iter().enumerate();
            let features = features.filter(|(_, one)| one.is_marked || !only_marked);
            let features = features.filter(|(_, one)| also_spent || !one.is_spent());
            // Of equals the one that was met last.
            let best = features.max_by(|one, other| one.1.score().total_cmp(&other.1.score()));
            best.map(|(feature, _)| feature)
        };
        let feature = match best(false) {
            Some(feature) => feature,
            None => {
                self.spent += 1;
                if self.spent.is_multiple_of(2) {
                    return None;
                }
                best(true)?
            }
        };
        let (place, at) = self.features[feature].choose(futures)?;
        Some(Choice {
            place,
            chosen: Chosen { feature, at },
        })
    }

    /// Everything that was planned has been learned.
    pub fn end_round(&mut self) {
        for feature in &mut self.features {
            if let Places::Alike { planned, .. } = &mut feature.places {
                *planned = 0;
            }
        }
    }

    /// The runs that have met everything there is, each once.
    pub fn paths(&self) -> Vec<Path> {
        let mut paths: Vec<Path> = Vec::new();
        for feature in &self.features {
            let first: Vec<Path> = match &feature.places {
                Places::Alike { places, .. } => vec![places.first().path.clone()],
                Places::Front(front) => front.paths().cloned().collect(),
            };
            for path in first {
                if !paths.contains(&path) {
                    paths.push(path);
                }
            }
        }
        paths
    }
}

/// The runs that an earlier search has kept for a test file; none if there was none. Makes the
/// folder, so that one which cannot be written is noticed before a long search and not after it.
pub fn read(folder: &std::path::Path, name: &str) -> io::Result<Vec<Path>> {
    std::fs::create_dir_all(folder)?;
    match std::fs::read(folder.join(format!("{name}.json"))) {
        Ok(text) => serde_json::from_slice(&text).map_err(io::Error::from),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Keeps runs for a later search. Each is simulated again then, so they may be of older code.
/// What was kept before is there until all of it is written.
pub fn write(folder: &std::path::Path, name: &str, paths: &[Path]) -> io::Result<()> {
    let unfinished = folder.join(format!("{name}.json.unfinished"));
    std::fs::write(&unfinished, serde_json::to_vec(paths)?)?;
    std::fs::rename(unfinished, folder.join(format!("{name}.json")))
}

#[cfg(test)]
mod tests {
    use super::super::place::Turn;
    use super::*;

    fn moment(seconds: f64, what: &str) -> Moment {
        Moment {
            seconds,
            what: what.to_owned(),
            distance: None,
            is_marked: false,
        }
    }

    #[test]
    fn what_is_rare_is_returned_to_until_it_is_rare_no_more() {
        let mut corpus = Corpus::default();
        for seed in 0..10 {
            corpus.learn(&Path::of(seed), &[moment(1.0, "common")], None);
        }
        let moments = [moment(1.0, "common"), moment(2.0, "rare")];
        assert_eq!(corpus.learn(&Path::of(10), &moments, None), News::NotMarked);
        let choice = corpus.choose(8).unwrap();
        assert_eq!(choice.place.path, Path::of(10));
        assert!(choice.place.from > 1.999 && choice.place.from < 2.0);
        for seed in 0..20 {
            let path = choice.place.future(seed);
            let news = corpus.learn(&path, &moments, Some(choice.chosen));
            assert_eq!(news, News::None);
        }
        corpus.end_round();
        assert_eq!(corpus.features.len(), 2);
        // 31 runs have met the one, 21 the other.
        assert_eq!(
            corpus.choose(8).unwrap().chosen.feature,
            choice.chosen.feature
        );
        assert_eq!(
            corpus.choose(8).unwrap().chosen.feature,
            choice.chosen.feature
        );
        assert_ne!(
            corpus.choose(8).unwrap().chosen.feature,
            choice.chosen.feature
        );
    }

    #[test]
    fn the_run_that_came_closest_is_the_one_to_return_to() {
        let at = |seconds, distance| Moment {
            distance: Some(distance),
            is_marked: true,
            ..moment(seconds, "closest to the goal")
        };
        let mut corpus = Corpus::default();
        let mut learn =
            |seed: u64, moments: &[Moment]| corpus.learn(&Path::of(seed), moments, None);
        assert_eq!(learn(1, &[at(1.0, 9.0), at(5.0, 4.0)]), News::Marked);
        assert_eq!(learn(2, &[at(1.0, 9.0), at(2.0, 5.0)]), News::None);
        assert_eq!(corpus.choose(8).unwrap().place.path, Path::of(1));
        // As close as that, but earlier: also a place to return to.
        assert_eq!(corpus.choose(8).unwrap().place.path, Path::of(2));
        // Closer and earlier than both.
        let news = corpus.learn(&Path::of(3), &[at(1.5, 3.0)], None);
        assert_eq!(news, News::Marked);
        for _ in 0..8 {
            let place = corpus.choose(8).unwrap().place;
            let is_first_step = place.from < 1.1;
            assert!(is_first_step || place.path == Path::of(3), "{place:?}");
        }
    }

    #[test]
    fn futures_also_begin_before_what_made_a_moment_a_dead_end() {
        let mut corpus = Corpus::default();
        let mut path = Path::of(1);
        path.turns.push(Turn { from: 1.5, seed: 7 });
        corpus.learn(&path, &[moment(2.0, "close")], None);
        let mut begin = || corpus.choose(8).unwrap().place.from;
        let begins = [0; 8].map(|_| begin());
        let back = begins.map(|from| ((2.0 - from) * 1e3).round());
        assert_eq!(back, [0.0, 0.0, 100.0, 0.0, 0.0, 10.0, 0.0, 500.0]);
        assert!(begins[0] < 2.0 && begins[1] > 2.0);
        // But not before the moment from which on the run is new: that is another run's past.
        corpus.learn(&path, &[moment(1.53, "closer")], None);
        let begins = [0; 3].map(|_| corpus.choose(8).unwrap().place.from);
        assert!(begins[2] > 1.5 && begins[2] < 1.501, "{begins:?}");
    }

    #[test]
    fn futures_that_meet_the_same_again_at_once_are_no_other_places() {
        let mut corpus = Corpus::default();
        let mark = |seconds, distance| Moment {
            distance,
            ..moment(seconds, if distance.is_some() { "closest" } else { "met" })
        };
        let moments = |seconds| [mark(seconds, None), mark(seconds, Some(3.0))];
        corpus.learn(&Path::of(1), &moments(20.0), None);
        for seed in 0..100 {
            let choice = corpus.choose(1).unwrap();
            let is_long_before = choice.place.from < 19.5;
            let path = choice.place.future(seed);
            // A little earlier than before, which must not make it worth more.
            corpus.learn(&path, &moments(20.0 - 1e-6), Some(choice.chosen));
            corpus.end_round();
            assert!(corpus.features.iter().all(|feature| match &feature.places {
                Places::Alike { places, .. } => is_long_before || places.len() == 1,
                Places::Front(front) => is_long_before || front.closest_len() == 1,
            }));
            if is_long_before {
                return;
            }
        }
        panic!("no future begins long before what was met");
    }

    #[test]
    fn what_is_marked_and_rare_is_worth_an_early_return() {
        let mut corpus = Corpus::default();
        let mark = |what: &str| Moment {
            is_marked: true,
            ..moment(1.0, what)
        };
        for seed in 0..31 {
            let moments = [moment(1.0, "not marked"), mark("common")];
            corpus.learn(&Path::of(seed), &moments, None);
        }
        corpus.learn(&Path::of(31), &[moment(1.0, "rare, not marked")], None);
        assert!(!corpus.has_rare_mark(32));
        corpus.learn(&Path::of(32), &[mark("rare")], None);
        assert!(corpus.has_rare_mark(33));
    }

    /// A number that looks random.
    fn draw(seed: u64, step: u32) -> u64 {
        let mut number = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(step);
        for _ in 0..3 {
            number = (number ^ (number >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        }
        number >> 32
    }

    /// A maze of a hundred rooms: from each, one door of eight leads on. Chance alone needs 8^100
    /// runs.
    #[test]
    fn a_maze_is_walked_from_room_to_room() {
        let walk = |path: &Path| -> Vec<Moment> {
            let mut draws = path.turns.iter().map(|turn| (turn.from, turn.seed));
            let mut state = (path.seed, draws.next());
            let mut moments = Vec::new();
            for room in 0..100_u32 {
                let seconds = f64::from(room);
                while let Some((from, seed)) = state.1
                    && from <= seconds
                {
                    state = (seed, draws.next());
                }
                if !draw(state.0, room).is_multiple_of(8) {
                    break;
                }
                moments.push(moment(seconds, &format!("room {room}")));
            }
            moments
        };
        let mut corpus = Corpus::default();
        let mut runs = 0;
        while corpus.len() < 100 && runs < 10_000 {
            runs += 8;
            match corpus.choose(8) {
                None => {
                    for seed in runs..runs + 8 {
                        let path = Path::of(seed);
                        corpus.learn(&path, &walk(&path), None);
                    }
                }
                Some(choice) => {
                    for seed in runs..runs + 8 {
                        let path = choice.place.future(seed);
                        corpus.learn(&path, &walk(&path), Some(choice.chosen));
                    }
                }
            }
            corpus.end_round();
        }
        assert_eq!(corpus.len(), 100, "{runs} runs");
        assert!(runs < 2_000, "{runs} runs");
    }

    /// Rows go to four buckets at random, and one run of 20,000 makes one 28 rows longer than
    /// another. The longest difference comes at the end of a run: only early ones lead on.
    #[test]
    fn what_grows_little_by_little_is_returned_to_where_it_grew_early() {
        let walk = |path: &Path| -> Vec<Moment> {
            let mut draws = path.turns.iter().map(|turn| (turn.from, turn.seed));
            let mut state = (path.seed, draws.next());
            let (mut rows, mut most) = ([0_i32; 4], 0);
            let mut moments = Vec::new();
            for step in 0..80_u32 {
                let seconds = f64::from(step);
                while let Some((from, seed)) = state.1
                    && from <= seconds
                {
                    state = (seed, draws.next());
                }
                rows[(draw(state.0, step) % 4) as usize] += 1;
                let skew = rows.iter().max().unwrap() - rows.iter().min().unwrap();
                if skew > most {
                    most = skew;
                    moments.push(Moment {
                        distance: Some(f64::from(28 - skew)),
                        is_marked: true,
                        ..moment(seconds, "closest to a move")
                    });
                }
            }
            moments
        };
        let is_found = |moments: &[Moment]| moments.iter().any(|one| one.distance == Some(0.0));
        let chance = (0..1_000).filter(|seed| is_found(&walk(&Path::of(*seed))));
        assert_eq!(chance.count(), 0);
        let mut corpus = Corpus::default();
        let mut runs = 0;
        'search: loop {
            assert!(runs < 1_000, "not found");
            let choice = (runs >= 128).then(|| corpus.choose(8).unwrap());
            for seed in runs..runs + 8 {
                let path = match &choice {
                    Some(choice) => choice.place.future(seed),
                    None => Path::of(seed),
                };
                let moments = walk(&path);
                if is_found(&moments) {
                    break 'search;
                }
                corpus.learn(&path, &moments, choice.as_ref().map(|choice| choice.chosen));
            }
            corpus.end_round();
            runs += 8;
        }
    }
}
