//! What a search remembers: everything, and what it has met since it last started afresh.
//!
//! What was met first decides where a search goes for a long time. If that is a dead end (all
//! faults have struck, what is waited for was lost), its futures are in vain, and so are those of
//! the places that they led to: most searches for a needle end soon, and a few take ten times as
//! long. A search that starts again from other seeds is one of the many more often than not. So
//! after some hundred runs that met nothing new it starts afresh, and climbs again from what new
//! seeds meet.
//!
//! Nothing is lost. The memory of everything is kept beside the fresh one, learns from every run,
//! and is what a fourth of the futures are chosen from. What took long to reach stays in reach. And
//! each fresh start may take longer than the one before, because a step that seldom succeeds needs
//! patience.

use super::corpus::{Chosen, Corpus, News};
use super::place::{Path, Place};
use shaketable_host::verdict::Moment;

/// The first fresh start comes after this many runs without news.
const PATIENCE: u64 = 200;
/// Each later one takes this many more.
const PATIENCE_GROWS: u64 = 50;
/// One choice of this many falls on something that was met before the last fresh start.
const OLD: u64 = 4;

/// Everything that was met, and what was met since the last fresh start.
#[derive(Debug, Default)]
pub struct Memory {
    all: Corpus,
    fresh: Corpus,
    fresh_starts: u64,
    choices: u64,
    /// Runs since the last one that met something new, since the last fresh start.
    without_news: u64,
}

/// A place that was chosen, and what it was chosen for.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The place.
    pub place: Place,
    /// What it was chosen for.
    pub origin: Origin,
}

/// What a place was chosen for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Origin {
    /// How many fresh starts there were; `None` if it was chosen from everything.
    fresh: Option<u64>,
    chosen: Chosen,
}

impl Memory {
    /// How many things were met.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether nothing was met.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The runs that have met everything there is, each once.
    pub fn paths(&self) -> Vec<Path> {
        self.all.paths()
    }

    /// Whether the code has marked something that hardly any of this many new seeds has met.
    pub fn has_rare_mark(&self, seeds: u64) -> bool {
        self.all.has_rare_mark(seeds)
    }

    /// Chooses where this many futures begin; `None` if nothing was met.
    pub fn choose(&mut self, futures: u64) -> Option<Choice> {
        self.choices += 1;
        let is_old = self.fresh_starts > 0 && self.choices.is_multiple_of(OLD);
        let (choice, fresh) = match is_old {
            true => (self.all.choose(futures), None),
            false => (self.fresh.choose(futures), Some(self.fresh_starts)),
        };
        let choice = choice?;
        Some(Choice {
            place: choice.place,
            origin: Origin {
                fresh,
                chosen: choice.chosen,
            },
        })
    }

    /// Adds what a run has met, a future of a choice or the run of a seed. Returns whether no run
    /// had met it before.
    pub fn learn(&mut self, path: &Path, moments: &[Moment], origin: Option<Origin>) -> bool {
        let chosen = |fresh: Option<u64>| {
            let origin = origin.filter(|origin| origin.fresh == fresh);
            origin.map(|origin| origin.chosen)
        };
        let is_old = origin.is_some_and(|origin| origin.fresh.is_none());
        let news = self.all.learn(path, moments, chosen(None));
        // A fresh start is one from new seeds: the futures of old places would bring it back.
        let chosen_since = chosen(Some(self.fresh_starts));
        let news_to_fresh = match is_old {
            true => News::None,
            false => self.fresh.learn(path, moments, chosen_since),
        };
        let enough = match self.all.has_mark() {
            true => News::Marked,
            false => News::NotMarked,
        };
        match news.max(news_to_fresh) >= enough {
            true => self.without_news = 0,
            false => self.without_news += 1,
        }
        news > News::None
    }

    /// Everything that was planned has been learned.
    pub fn end_round(&mut self) {
        self.all.end_round();
        self.fresh.end_round();
        if self.without_news >= PATIENCE + self.fresh_starts * PATIENCE_GROWS {
            self.fresh = Corpus::default();
            self.fresh_starts += 1;
            self.without_news = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(what: &str) -> Moment {
        Moment {
            seconds: 1.0,
            what: what.to_owned(),
            distance: None,
            is_marked: true,
        }
    }

    /// Runs that meet the same thing, until the memory starts afresh.
    fn runs_without_news(memory: &mut Memory, first: u64) -> u64 {
        let before = memory.fresh_starts;
        let mut runs = 0;
        while memory.fresh_starts == before {
            memory.learn(&Path::of(first + runs), &[moment("common")], None);
            memory.end_round();
            runs += 1;
        }
        runs
    }

    #[test]
    fn a_search_without_news_starts_afresh_and_is_more_patient_each_time() {
        let mut memory = Memory::default();
        memory.learn(&Path::of(1), &[moment("common")], None);
        assert_eq!(runs_without_news(&mut memory, 2), 200);
        // The first run after a fresh start has news.
        assert_eq!(runs_without_news(&mut memory, 1_000), 251);
        assert_eq!(runs_without_news(&mut memory, 2_000), 301);
    }

    #[test]
    fn where_something_is_marked_nothing_else_puts_a_fresh_start_off() {
        let starts = |is_marked: bool| {
            let mut memory = Memory::default();
            for seed in 0..1_000 {
                let mut moments = [moment("mark"), moment(&format!("line {seed}"))];
                moments[0].is_marked = is_marked;
                moments[1].is_marked = false;
                assert!(memory.learn(&Path::of(seed), &moments, None), "it is news");
                memory.end_round();
            }
            memory.fresh_starts
        };
        assert_eq!(starts(false), 0);
        assert!(starts(true) >= 3);
    }

    #[test]
    fn what_was_met_before_a_fresh_start_is_returned_to_but_is_no_news() {
        let mut memory = Memory::default();
        assert!(memory.learn(&Path::of(1), &[moment("common"), moment("rare")], None));
        runs_without_news(&mut memory, 2);
        assert!(memory.choose(4).is_none());
        assert!(!memory.learn(&Path::of(900), &[moment("common")], None));
        // Some choices are left to new seeds, because what was met since is spent.
        let choices = (0..11).filter_map(|_| memory.choose(4));
        let places: Vec<Choice> = choices.collect();
        let is_of_old = |choice: &&Choice| choice.place.path == Path::of(1);
        assert_eq!(places.iter().filter(is_of_old).count(), 3);
        assert_eq!(memory.paths(), [Path::of(1)]);
        assert_eq!(memory.len(), 2);
    }

    #[test]
    fn futures_of_old_places_do_not_bring_back_what_a_fresh_start_left() {
        let mut memory = Memory::default();
        memory.learn(&Path::of(1), &[moment("rare")], None);
        runs_without_news(&mut memory, 2);
        memory.learn(&Path::of(900), &[moment("common")], None);
        let choices = [0; 4].map(|_| memory.choose(4).unwrap());
        let old = choices.iter().find(|one| one.origin.fresh.is_none());
        let old = old.unwrap();
        let moments = [moment("rare")];
        assert!(!memory.learn(&old.place.future(7), &moments, Some(old.origin)));
        assert_eq!(memory.fresh.len(), 1);
    }
}
