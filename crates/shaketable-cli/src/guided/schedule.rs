//! How many runs of a guided search are new seeds, and how many are futures.
//!
//! A bug that chance finds soon must not take much longer with guidance: a future repeats what lies
//! before it, and may have nothing to find. So the first seeds are run alone. As long as there are
//! few, futures are only run if the code has marked something rare, and at most one run of six is
//! one: the bug that chance finds with the 60th seed is found after 72 runs at the latest. Chance
//! has had its turn then, and what it has not found is rare. If the code has marked something rare,
//! most runs are futures from there on, unless new seeds still bring news. If it has not, one run
//! of six stays the most: where nothing says that a bug takes several rare things in a row, chance
//! is the better guess, and what it finds with the thousandth seed takes a fifth more runs as well.
//!
//! Where chance has had its turn is a choice. For code with a rare mark the promise holds for bugs
//! that chance finds within [`SEEDS_FIRST`] seeds, and no needle can be found in many fewer runs
//! than that.
//!
//! Rounds are small: what a future has met is returned to in the next round at the earliest, and a
//! needle takes one round for each of its rare events. A long search has larger rounds, for the
//! sake of machines with many processors.

/// How many futures of a moment are run at a time: what lies before it is simulated once for all.
pub(super) const GROUP: u64 = 4;
/// The largest round.
pub(super) const ROUND_MAX: u64 = 32;

/// The first runs are new seeds alone.
const SEEDS_ALONE: u64 = 32;
/// Up to this one, new seeds come first, whatever the code has marked: a bug that chance finds
/// within as many takes a fifth more runs at most. Twice as many put 150 runs under every needle.
const SEEDS_FIRST: u64 = 64;
/// How many of them there are for each future at least: one run of six is a future then.
const SEEDS_PER_FUTURE: u64 = 5;
/// The first round is as small as this, and the next ones grow: what the first seeds find is seen
/// as soon as in a sweep.
const FIRST_ROUND: u64 = 4;
/// A round with futures, in a search that is not long yet.
const ROUND: u64 = 16;
/// When the search is this many rounds long, its rounds begin to grow.
const LONG: u64 = 64;

/// The runs that were chosen so far.
#[derive(Debug)]
pub(super) struct Schedule {
    seeds: u64,
    futures: u64,
    /// Whether new seeds have met something new in the last round.
    seeds_bring_news: bool,
}

impl Default for Schedule {
    fn default() -> Schedule {
        Schedule {
            seeds: 0,
            futures: 0,
            seeds_bring_news: true,
        }
    }
}

impl Schedule {
    /// How many seeds the next round has, and how many futures after them, `left` in all at most.
    pub(super) fn next(&mut self, left: u64, is_worth_returning: bool) -> (u64, u64) {
        let (seeds, futures) = self.round(is_worth_returning);
        let seeds = seeds.min(left);
        let futures = futures.min(left - seeds);
        self.seeds += seeds;
        self.futures += futures;
        (seeds, futures)
    }

    fn round(&self, is_worth_returning: bool) -> (u64, u64) {
        if self.seeds < SEEDS_ALONE {
            let size = self.seeds.max(FIRST_ROUND);
            return (size.min(SEEDS_ALONE - self.seeds), 0);
        }
        if self.seeds < SEEDS_FIRST && !is_worth_returning {
            return (ROUND.min(SEEDS_FIRST - self.seeds), 0);
        }
        if self.seeds < SEEDS_FIRST || !is_worth_returning {
            return self.round_of_seeds();
        }
        let size = ((self.seeds + self.futures) / LONG).clamp(ROUND, ROUND_MAX);
        let seeds = match self.seeds_bring_news {
            true => size / 2,
            false => size / 4,
        };
        (seeds, size - seeds)
    }

    /// New seeds, and a few futures after them if there are seeds enough for them.
    fn round_of_seeds(&self) -> (u64, u64) {
        let needed = SEEDS_PER_FUTURE * (self.futures + GROUP);
        let missing = needed.saturating_sub(self.seeds);
        let seeds = missing.clamp(GROUP, ROUND_MAX - GROUP);
        match missing <= seeds {
            true => (seeds, GROUP),
            false => (seeds, 0),
        }
    }

    /// The runs of a round were looked at.
    pub(super) fn learn(&mut self, seeds_bring_news: bool) {
        self.seeds_bring_news = seeds_bring_news;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The runs of a search until it has run this many new seeds.
    fn runs_until(seeds: u64, is_worth_returning: bool) -> u64 {
        let mut schedule = Schedule::default();
        let (mut runs, mut run) = (0, 0);
        loop {
            let (more, futures) = schedule.next(u64::MAX, is_worth_returning);
            if run + more >= seeds {
                return runs + seeds - run;
            }
            run += more;
            runs += more + futures;
            schedule.learn(false);
        }
    }

    #[test]
    fn the_first_seeds_are_run_as_soon_as_in_a_sweep() {
        for seed in 1..=SEEDS_ALONE {
            assert_eq!(runs_until(seed, true), seed);
        }
        for seed in 1..=SEEDS_FIRST {
            assert_eq!(runs_until(seed, false), seed);
        }
    }

    #[test]
    fn what_chance_finds_soon_takes_a_fifth_more_at_most() {
        for seed in 1..=SEEDS_FIRST {
            let runs = runs_until(seed, true);
            assert!(5 * runs <= 6 * seed, "{runs} runs for {seed} seeds");
        }
    }

    #[test]
    fn without_a_rare_mark_whatever_chance_finds_takes_a_fifth_more_at_most() {
        for seed in 1..5_000 {
            let runs = runs_until(seed, false);
            assert!(5 * runs <= 6 * seed, "{runs} runs for {seed} seeds");
        }
        // But moments are returned to all the same.
        let futures = runs_until(5_000, false) - 5_000;
        assert!(futures >= 900, "{futures} futures");
    }

    #[test]
    fn seeds_catch_up_when_what_was_marked_is_rare_no_more() {
        let mut schedule = Schedule::default();
        while schedule.futures < 1_000 {
            schedule.next(u64::MAX, true);
            schedule.learn(false);
        }
        while schedule.seeds < SEEDS_PER_FUTURE * schedule.futures {
            let (seeds, futures) = schedule.next(u64::MAX, false);
            assert!(seeds + futures <= ROUND_MAX && futures < seeds);
            schedule.learn(false);
        }
    }

    /// The worst case: no future can find it, and the code marks something rare.
    #[test]
    fn a_bug_that_chance_finds_in_twenty_runs_takes_a_fifth_more_in_the_mean() {
        let mean = |rate: f64| -> f64 {
            let at = |seed: u64| rate * (1.0 - rate).powf((seed - 1) as f64);
            let means = (1..2_000).map(|seed| at(seed) * runs_until(seed, true) as f64);
            means.sum()
        };
        assert!(mean(1.0 / 20.0) < 1.2 * 20.0, "{}", mean(1.0 / 20.0));
    }

    #[test]
    fn most_runs_are_futures_when_chance_has_had_its_turn() {
        let runs = runs_until(1_000, true);
        assert!((3_700..4_000).contains(&runs), "{runs} runs");
    }

    #[test]
    fn a_budget_is_not_exceeded() {
        let mut schedule = Schedule::default();
        let mut left = 203;
        while left > 0 {
            let (seeds, futures) = schedule.next(left, true);
            assert!(seeds + futures > 0);
            left -= seeds + futures;
        }
    }
}
