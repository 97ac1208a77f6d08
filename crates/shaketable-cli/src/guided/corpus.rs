//! Where a guided search has been, and where it goes next.
//!
//! Everything that a run can meet is a *feature*, known by its words. For each feature the corpus
//! counts the runs that met it, and keeps a few *places*: runs, cut at the moment after they met
//! it. Energy goes where few runs have been: the next futures begin at a place of the feature with
//! the fewest runs for its worth. No place is preferred for long, because every future of it meets
//! the feature too, and counts. So what is common is never returned to, what is rare is returned to
//! until it is rare no more, and what leads on to something new is worth more. Every other choice is
//! made among what the author of the code has marked, if there is anything.
//!
//! A distance is one feature: only the runs that came closest count.
//!
//! Futures begin just after the instant at which the feature was met, or, every other time, just
//! before it. Code that meets something often draws what it does next in the same instant: after
//! it, all futures would share that draw. Before it they do not, and most meet the feature again.

use serde::{Deserialize, Serialize};
use shaketable_host::verdict::Moment;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// A run: a seed, and the moments from which on it was drawn anew.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Path {
    /// The seed.
    pub seed: u32,
    /// In the order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<Turn>,
}

/// From a moment on, everything is drawn from another seed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Simulated seconds.
    pub from: f64,
    /// The seed.
    pub seed: u64,
}

/// A moment of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// The run up to it.
    pub path: Path,
    /// Where futures begin, in simulated seconds.
    pub from: f64,
}

/// A place that was chosen, and the feature it was chosen for.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The number of the feature.
    pub feature: usize,
    /// The place.
    pub place: Place,
}

impl Path {
    /// The run of a seed.
    pub fn of(seed: u32) -> Path {
        Path {
            seed,
            turns: Vec::new(),
        }
    }

    /// Since when nothing is known of it yet.
    fn is_new_since(&self) -> f64 {
        self.turns.last().map_or(0.0, |turn| turn.from)
    }
}

impl Place {
    /// What becomes of the run if it is drawn from this seed from here on.
    pub fn future(&self, seed: u64) -> Path {
        let mut path = self.path.clone();
        path.turns.push(Turn {
            from: self.from,
            seed,
        });
        path
    }
}

/// Futures begin this long after what was met, or before it: the shortest time there is.
const INSTANT_SECONDS: f64 = 1e-9;
/// How many places of a feature are kept: one alone may be a dead end.
const PLACES_MAX: usize = 8;
/// What a future that met something new adds to the worth of where it began.
const WORTH_OF_NEWS: f64 = 1.0;

/// Something that runs have met.
#[derive(Debug)]
struct Feature {
    /// How many runs have met it, of a distance those that came closest.
    runs: u64,
    /// How many futures of it are under way.
    planned: u64,
    worth: f64,
    is_marked: bool,
    distance: Option<f64>,
    places: Vec<Place>,
    /// How often it was chosen.
    chosen: usize,
}

impl Feature {
    fn score(&self) -> f64 {
        self.worth / (self.runs + self.planned).max(1) as f64
    }
}

/// Everything that was met.
#[derive(Debug, Default)]
pub struct Corpus {
    numbers: BTreeMap<String, usize>,
    features: Vec<Feature>,
    choices: u64,
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

    /// Adds what a run has met; `from` is the feature for which its place was chosen. Returns
    /// whether something was new.
    pub fn learn(&mut self, path: &Path, moments: &[Moment], from: Option<usize>) -> bool {
        let mut met = BTreeSet::new();
        let mut is_news = false;
        for moment in moments {
            let is_first = met.insert(&*moment.what) || moment.distance.is_some();
            if is_first {
                is_news |= self.meet(path, moment);
            }
        }
        if let (true, Some(from)) = (is_news, from) {
            self.features[from].worth += WORTH_OF_NEWS;
        }
        is_news
    }

    fn meet(&mut self, path: &Path, moment: &Moment) -> bool {
        let place = Place {
            path: path.clone(),
            from: moment.seconds + INSTANT_SECONDS,
        };
        let is_here = place.from > path.is_new_since();
        let Some(number) = self.numbers.get(&moment.what) else {
            self.numbers
                .insert(moment.what.clone(), self.features.len());
            self.features.push(Feature {
                runs: 1,
                planned: 0,
                worth: 1.0,
                is_marked: moment.is_marked,
                distance: moment.distance,
                places: vec![place],
                chosen: 0,
            });
            return true;
        };
        let feature = &mut self.features[*number];
        match (feature.distance, moment.distance) {
            (Some(known), Some(distance)) if distance < known => {
                feature.runs = 1;
                feature.worth = 1.0;
                feature.distance = Some(distance);
                feature.places = vec![place];
                return true;
            }
            (Some(known), Some(distance)) if distance > known => return false,
            _ => {}
        }
        feature.runs += 1;
        if is_here && feature.places.len() < PLACES_MAX {
            feature.places.push(place);
        }
        false
    }

    /// Chooses where this many futures begin; `None` if nothing was met.
    pub fn choose(&mut self, futures: u64) -> Option<Choice> {
        self.choices += 1;
        let only_marked = self.choices.is_multiple_of(2);
        let best = |only_marked: bool| {
            let features = self.features.iter().enumerate();
            let features = features.filter(|(_, one)| one.is_marked || !only_marked);
            // Of equals the one that was met last.
            features.max_by(|one, other| one.1.score().total_cmp(&other.1.score()))
        };
        let (number, _) = best(only_marked).or_else(|| best(false))?;
        let feature = &mut self.features[number];
        let places = feature.places.len();
        let mut place = feature.places[feature.chosen % places].clone();
        let before = place.from - 2.0 * INSTANT_SECONDS;
        if (feature.chosen / places) % 2 == 1 && before > place.path.is_new_since() {
            place.from = before;
        }
        feature.chosen += 1;
        feature.planned += futures;
        Some(Choice {
            feature: number,
            place,
        })
    }

    /// Everything that was planned has been learned.
    pub fn end_round(&mut self) {
        for feature in &mut self.features {
            feature.planned = 0;
        }
    }

    /// The runs that have met everything there is, each once.
    pub fn paths(&self) -> Vec<Path> {
        let mut paths: Vec<Path> = Vec::new();
        for feature in &self.features {
            // The first place is the one that was new.
            let path = &feature.places[0].path;
            if !paths.contains(path) {
                paths.push(path.clone());
            }
        }
        paths
    }
}

/// The runs that an earlier search has kept for a test file; none if there was none.
pub fn read(folder: &std::path::Path, name: &str) -> Vec<Path> {
    let text = std::fs::read(folder.join(format!("{name}.json"))).unwrap_or_default();
    // What cannot be read is not worth a refusal: the search finds it again.
    serde_json::from_slice(&text).unwrap_or_default()
}

/// Keeps runs for a later search. Each is simulated again then, so they may be of older code.
pub fn write(folder: &std::path::Path, name: &str, paths: &[Path]) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let text = serde_json::to_vec(paths)?;
    std::fs::write(folder.join(format!("{name}.json")), text)
}

#[cfg(test)]
mod tests {
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
        assert!(corpus.learn(&Path::of(10), &moments, None));
        let choice = corpus.choose(8).unwrap();
        assert_eq!(choice.place.path, Path::of(10));
        assert!(choice.place.from > 2.0 && choice.place.from < 2.001);
        for seed in 0..20 {
            let path = choice.place.future(seed);
            assert!(!corpus.learn(&path, &moments, Some(choice.feature)));
        }
        corpus.end_round();
        assert_eq!(corpus.features.len(), 2);
        // 31 runs have met the one, 21 the other.
        assert_eq!(corpus.choose(8).unwrap().feature, choice.feature);
        assert_eq!(corpus.choose(8).unwrap().feature, choice.feature);
        assert_ne!(corpus.choose(8).unwrap().feature, choice.feature);
    }

    #[test]
    fn the_run_that_came_closest_is_the_one_to_return_to() {
        let at = |seconds, distance| Moment {
            distance: Some(distance),
            is_marked: true,
            ..moment(seconds, "closest to the goal")
        };
        let mut corpus = Corpus::default();
        assert!(corpus.learn(&Path::of(1), &[at(1.0, 9.0), at(5.0, 4.0)], None));
        assert!(!corpus.learn(&Path::of(2), &[at(1.0, 9.0), at(2.0, 5.0)], None));
        assert_eq!(corpus.choose(8).unwrap().place.path, Path::of(1));
        assert!(corpus.learn(&Path::of(3), &[at(3.0, 3.0)], None));
        assert_eq!(corpus.choose(8).unwrap().place.path, Path::of(3));
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
            let mut state = (u64::from(path.seed), draws.next());
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
        let mut runs = 0_u32;
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
                        let path = choice.place.future(u64::from(seed));
                        corpus.learn(&path, &walk(&path), Some(choice.feature));
                    }
                }
            }
            corpus.end_round();
        }
        assert_eq!(corpus.len(), 100, "{runs} runs");
        assert!(runs < 2_000, "{runs} runs");
    }
}
