//! A sweep: many seeds over many workers, until all are done, time is up, the user interrupts, or
//! the observer has seen enough. A run goes the same way however much of it is kept.

use crate::args::{Shard, SweepArgs};
use crate::pool::{Answer, Pool};
use crate::protocol::{Request, Response};
use crate::seed::{self, Seed};
use shaketable_host::plan::Recording;
use shaketable_host::verdict::{FailureKind, Outcome};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Which seeds to run, and for how long.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// The first.
    pub first: Seed,
    /// The last one that the host takes; after it comes 0.
    pub last: Seed,
    /// How many; `None` is as many as time allows.
    pub count: Option<u64>,
    /// When to stop.
    pub duration: Option<Duration>,
    /// Which part of them.
    pub shard: Option<Shard>,
    /// How many test files each seed is run with.
    pub files: usize,
    /// The seeds of those files that are cases; empty if none is. A case is run once.
    pub cases: Vec<Option<Seed>>,
}

impl Schedule {
    /// What the arguments ask for; `default_count` seeds if they set neither a number nor a time.
    pub fn new(args: &SweepArgs, default_count: u64, files: usize) -> Schedule {
        let count = match (args.seeds, args.duration) {
            (Some(count), _) => Some(count),
            (None, Some(_)) => None,
            (None, None) => Some(default_count),
        };
        Schedule {
            first: args.seed.unwrap_or_else(seed::random),
            last: Seed(u64::MAX),
            count,
            duration: args.duration,
            shard: args.shard,
            files,
            cases: Vec::new(),
        }
    }

    /// Runs those files that are cases once, with their own seeds.
    #[must_use]
    pub fn with_cases(mut self, cases: &[Option<Seed>]) -> Schedule {
        if cases.iter().any(Option::is_some) {
            self.cases = cases.to_vec();
        }
        if self.cases.iter().all(Option::is_some) && !self.cases.is_empty() {
            self.count = Some(1);
            self.shard = None;
            self.first = self
                .cases
                .iter()
                .copied()
                .flatten()
                .next()
                .unwrap_or(self.first);
        }
        self
    }

    /// How many runs that makes, if it is known.
    pub fn runs(&self) -> Option<u64> {
        let seeds = self.count?;
        let shard = match self.shard {
            Some(shard) => (seeds + shard.count - shard.index) / shard.count,
            None => seeds,
        };
        let cases = self.cases.iter().flatten().count();
        let first_is_here = self.shard.is_none_or(|shard| shard.index == 1) && seeds > 0;
        Some(shard * (self.files - cases) as u64 + u64::from(first_is_here) * cases as u64)
    }

    /// The runs from now on, in order, until there are no more or the time is up.
    pub fn begin(&self) -> impl Iterator<Item = (usize, Seed)> + use<> {
        let (start, limit) = (Instant::now(), self.duration);
        self.iter()
            .take_while(move |_| limit.is_none_or(|limit| start.elapsed() < limit))
    }

    /// The runs in order, however long they take: all files with a seed, then the next seed.
    fn iter(&self) -> impl Iterator<Item = (usize, Seed)> + use<> {
        let Schedule {
            first,
            last,
            count,
            shard,
            files,
            cases,
            ..
        } = self.clone();
        (0..count.unwrap_or(u64::MAX))
            .filter(move |step| shard.is_none_or(|shard| step % shard.count == shard.index - 1))
            .flat_map(move |step| {
                let cases = cases.clone();
                let seed_of = move |file| match cases.get(file).copied().flatten() {
                    Some(own) => (step == 0).then_some((file, own)),
                    None => Some((file, seed::later(first, step, last))),
                };
                (0..files).filter_map(seed_of)
            })
    }
}

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Yes.
    Continue,
    /// No more seeds; those under way are finished.
    Stop,
}

/// Why a sweep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// All seeds were run, or time was up.
    Complete,
    /// The observer had seen enough.
    Stopped,
    /// The user interrupted.
    Interrupted,
    /// No worker is left.
    NoWorkers,
}

/// Watches a sweep.
pub trait Observer {
    /// A seed has ended.
    fn finished(&mut self, response: Response) -> Flow;
    /// A seed was under way when the user interrupted.
    fn interrupted(&mut self, _response: Response) {}
    /// Called a few times a second.
    fn tick(&mut self) {}
}

/// Runs a schedule; `recording` returns how much is kept of the run of a file with a seed.
pub fn sweep(
    pool: &mut Pool,
    schedule: &Schedule,
    recording: impl Fn(usize, Seed) -> Recording,
    interrupted: &AtomicBool,
    observer: &mut dyn Observer,
) -> Ended {
    let mut requests = schedule.begin().map(|(file, seed)| Request {
        file,
        seed: seed.0,
        recording: recording(file, seed),
        case: None,
    });
    let mut ended = Ended::Complete;
    let mut accepting = true;
    loop {
        if accepting && interrupted.load(Ordering::Relaxed) {
            end_runs(pool, observer);
            return Ended::Interrupted;
        }
        if accepting {
            hand_out(pool, &mut requests);
        }
        if pool.open() == 0 {
            return ended;
        }
        match pool.wait(Duration::from_millis(100)) {
            Answer::Response(_, response) => {
                if observer.finished(*response) == Flow::Stop && accepting {
                    accepting = false;
                    ended = Ended::Stopped;
                }
            }
            Answer::Lost(requests) => {
                for asked in requests {
                    observer.finished(lost(&asked.request));
                }
                if !pool.is_alive() {
                    return Ended::NoWorkers;
                }
            }
            Answer::Nothing => {}
        }
        observer.tick();
    }
}

/// How long runs that were interrupted may take to report how far they came. A second interrupt
/// ends the wait.
const TIME_TO_REPORT: Duration = Duration::from_secs(5);
/// The same for runs with a record: of a long run it takes a while to write.
const TIME_TO_RECORD: Duration = Duration::from_secs(60);

/// Ends the runs that are under way, and passes on how far they came.
fn end_runs(pool: &mut Pool, observer: &mut dyn Observer) {
    let start = Instant::now();
    let limit = match pool.is_recording() {
        true => TIME_TO_RECORD,
        false => TIME_TO_REPORT,
    };
    while pool.open() > 0 && pool.is_alive() && start.elapsed() < limit {
        // Again and again: a worker may have begun another run meanwhile.
        pool.interrupt();
        if let Answer::Response(_, response) = pool.wait(Duration::from_millis(100)) {
            let failures = &response.outcome.failures;
            if failures
                .iter()
                .any(|failure| failure.kind == FailureKind::Interrupted)
            {
                observer.interrupted(*response);
            } else {
                observer.finished(*response);
            }
        }
    }
    if pool.open() > 0 {
        anstream::eprintln!(
            "not all runs reported within {} s: those leave no record",
            limit.as_secs()
        );
    }
}

/// Gives every worker with room as many runs as it has room for.
fn hand_out(pool: &mut Pool, requests: &mut impl Iterator<Item = Request>) {
    loop {
        let mut asked = false;
        for (worker, request) in pool.idle().into_iter().zip(requests.by_ref()) {
            asked = true;
            pool.ask(worker, request);
        }
        if !asked {
            return;
        }
    }
}

/// Runs one seed and waits for it; `None` if the user interrupts, or no worker is left. Responses
/// to the requests of an interrupted sweep are dropped.
pub fn run_one(pool: &mut Pool, request: Request, interrupted: &AtomicBool) -> Option<Response> {
    let mut ticket = None;
    while !interrupted.load(Ordering::Relaxed) && pool.is_alive() {
        if ticket.is_none()
            && let Some(worker) = pool.idle().first()
        {
            ticket = Some(pool.ask(*worker, request.clone()));
        }
        match pool.wait(Duration::from_millis(100)) {
            Answer::Response(of, response) if Some(of) == ticket => return Some(*response),
            Answer::Lost(asked) if asked.iter().any(|asked| Some(asked.ticket) == ticket) => {
                return Some(lost(&request));
            }
            Answer::Response(..) | Answer::Lost(_) | Answer::Nothing => {}
        }
    }
    None
}

/// The result of a seed whose worker died.
pub(crate) fn lost(request: &Request) -> Response {
    Response {
        file: request.file,
        real_seconds: 0.0,
        printed: String::new(),
        outcome: Outcome::simulator_fault(
            request.seed,
            "the worker process that was to simulate this seed died",
        ),
        case: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(count: u64, shard: Option<(u64, u64)>, files: usize) -> Schedule {
        Schedule {
            first: Seed(10),
            last: Seed(u64::MAX),
            count: Some(count),
            duration: None,
            shard: shard.map(|(index, count)| Shard { index, count }),
            files,
            cases: Vec::new(),
        }
    }

    #[test]
    fn a_case_is_run_once_with_its_own_seed() {
        let runs = |schedule: &Schedule| -> Vec<(usize, u64)> {
            let runs: Vec<_> = schedule.iter().map(|(file, seed)| (file, seed.0)).collect();
            assert_eq!(schedule.runs(), Some(runs.len() as u64));
            runs
        };
        let mixed = schedule(2, None, 2).with_cases(&[Some(Seed(7)), None]);
        assert_eq!(runs(&mixed), [(0, 7), (1, 10), (1, 11)]);
        let only = schedule(100, Some((2, 2)), 2).with_cases(&[Some(Seed(7)), Some(Seed(8))]);
        assert_eq!(runs(&only), [(0, 7), (1, 8)]);
        let part = schedule(4, Some((2, 2)), 2).with_cases(&[Some(Seed(7)), None]);
        assert_eq!(runs(&part), [(1, 11), (1, 13)]);
    }

    #[test]
    fn every_file_is_run_with_every_seed() {
        let runs: Vec<(usize, u64)> = schedule(2, None, 2)
            .iter()
            .map(|(file, seed)| (file, seed.0))
            .collect();
        assert_eq!(runs, [(0, 10), (1, 10), (0, 11), (1, 11)]);
    }

    #[test]
    fn shards_divide_the_seeds_without_overlap() {
        let mut all: Vec<u64> = Vec::new();
        for index in 1..=3 {
            let part = schedule(10, Some((index, 3)), 1);
            let seeds: Vec<u64> = part.iter().map(|(_, seed)| seed.0).collect();
            assert_eq!(part.runs(), Some(seeds.len() as u64), "shard {index}");
            all.extend(seeds);
        }
        all.sort_unstable();
        assert_eq!(all, (10..20).collect::<Vec<u64>>());
    }
}
