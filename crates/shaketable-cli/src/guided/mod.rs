//! Guided search: moments worth returning to, and futures that begin there.
//!
//! A sweep forgets every run. A bug that needs three rare events in a row then needs a seed that
//! draws all three. A guided search remembers: when a run is the first to meet something (an
//! assertion that holds, a line and an outcome, a value of a mark), that moment is kept. Later the
//! run is simulated again up to the moment, copied there, and each copy draws what comes after
//! anew: it has the first rare event already, and needs only the next.
//!
//! [`corpus`] decides where to go next: energy goes where few runs have been. `memory.rs` starts
//! afresh when nothing new comes. This file runs them. A search proceeds in rounds, whose runs
//! depend on earlier rounds only and are looked at in the order in which they were chosen: so the
//! same seed and the same number of runs give the same result, whatever the number of processes.
//! `schedule.rs` says how many of them are new seeds: a search begins as a sweep does, and never
//! stops trying new seeds, so what a sweep finds soon, it finds as soon.
//!
//! Every future is a case, with a line for each moment from which on it was drawn anew; a failure
//! is kept as such a file.

pub mod corpus;
mod entries;
mod front;
mod memory;
pub mod place;
mod schedule;

use crate::minimise::start_of;
use crate::pool::{Answer, Pool};
use crate::protocol::{Request, Response};
use crate::seed::{self, Seed};
use crate::session::{Session, SessionError};
use crate::sweep::{Ended, Flow, Observer, lost};
use memory::{Choice, Memory, Origin};
use place::Path;
use schedule::{GROUP, ROUND_MAX, Schedule};
use shaketable_host::case::{Case, ReseedStreams};
use shaketable_host::plan::{Futures, Recording};
use shaketable_host::testfile::TestFile;
use shaketable_kernel::Digest;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How far a search may go.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// How many runs of each file; `None` is as many as time allows.
    pub runs: Option<u64>,
    /// How long.
    pub duration: Option<Duration>,
}

/// The search in one test file.
pub struct Search {
    file: usize,
    test: TestFile,
    /// Where it has been, and where it goes.
    pub memory: Memory,
    first: Seed,
    next_seed: Seed,
    /// Runs so far; each has a number, from which a future draws.
    runs: u64,
    schedule: Schedule,
    /// Whether processes of this file can be copied.
    forks: bool,
    /// Runs of an earlier search that come first.
    known: Vec<Path>,
    /// The ways in which runs have failed, and the first run of each.
    failures: BTreeSet<String>,
    failed: Vec<Path>,
    /// What it has done.
    pub counts: Counts,
}

/// What a search has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Runs of new seeds.
    pub seeds: u64,
    /// Futures of moments that were kept.
    pub futures: u64,
    /// How many of them met something that no run had met before.
    pub news: u64,
}

/// What is asked of a worker.
enum Task {
    Seed(Seed),
    /// A run of an earlier search.
    Again(Path),
    /// Futures of a run from a moment on, for this place of the corpus.
    Futures(Choice, Vec<u64>),
}

impl Search {
    /// A search that begins with this seed, after the runs of an earlier one.
    pub fn new(
        session: &Session,
        file: usize,
        first: Seed,
        known: Vec<Path>,
    ) -> Result<Search, SessionError> {
        let test = TestFile::read(&session.files[file])
            .map_err(|error| SessionError::TestFiles(vec![error]))?;
        Ok(Search {
            file,
            test,
            memory: Memory::default(),
            first,
            next_seed: first,
            runs: 0,
            schedule: Schedule::default(),
            forks: true,
            known,
            failures: BTreeSet::new(),
            failed: Vec::new(),
            counts: Counts::default(),
        })
    }

    /// The runs that a later search should begin with. Those of an earlier one for which there was
    /// no time are among them.
    pub fn kept(&self) -> Vec<Path> {
        let mut paths = self.failed.clone();
        let known = self.known.iter().cloned();
        for path in self.memory.paths().into_iter().chain(known) {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        paths
    }

    /// The runs of the next round, which are as many as `left` at most.
    fn choose(&mut self, left: u64) -> Vec<Task> {
        let known = (self.known.len() as u64).min(ROUND_MAX).min(left);
        let mut tasks: Vec<Task> = self
            .known
            .drain(..known as usize)
            .map(Task::Again)
            .collect();
        if known > 0 {
            return tasks;
        }
        let (seeds, mut futures) = self
            .schedule
            .next(left, self.memory.has_rare_mark(self.counts.seeds));
        let mut number = self.runs + seeds;
        let mut groups = Vec::new();
        while futures > 0 {
            let group = futures.min(GROUP);
            let Some(choice) = self.memory.choose(group) else {
                break;
            };
            let numbers = number..number + group;
            let draws = numbers.map(|number| future_seed(self.first, number));
            groups.push(Task::Futures(choice, draws.collect()));
            number += group;
            futures -= group;
        }
        // Where there is no moment yet, there are always more seeds.
        for _ in 0..seeds + futures {
            tasks.push(Task::Seed(self.next_seed));
            self.next_seed = seed::later(self.next_seed, 1, Seed(u64::MAX));
        }
        tasks.extend(groups);
        tasks
    }

    /// The case of a run.
    fn case(&self, session: &Session, path: &Path) -> Box<Case> {
        let mut case = start_of(session, &self.test, Seed(path.seed));
        let turns = path.turns.iter().map(|turn| ReseedStreams {
            streams: String::new(),
            seed: turn.seed,
            from: turn.from,
        });
        case.reseed.extend(turns);
        Box::new(case)
    }

    fn request(&self, session: &Session, task: &Task) -> Request {
        let (seed, recording, case) = match task {
            Task::Seed(seed) => (seed.0, Recording::Nothing, None),
            Task::Again(path) => (
                path.seed,
                Recording::Nothing,
                Some(self.case(session, path)),
            ),
            Task::Futures(choice, seeds) => (
                choice.place.path.seed,
                Recording::Futures(Futures {
                    moments: vec![choice.place.from],
                    seeds: seeds.clone(),
                }),
                Some(self.case(session, &choice.place.path)),
            ),
        };
        Request {
            file: self.file,
            seed,
            recording,
            case,
        }
    }

    /// Runs a round. Returns the runs in their order, with the responses; `None` if the user
    /// interrupted or no worker is left.
    fn run(
        &mut self,
        session: &Session,
        pool: &mut Pool,
        tasks: Vec<Task>,
        tick: &mut dyn FnMut(),
    ) -> Option<Vec<(Option<Origin>, Path, Response)>> {
        let mut tasks = tasks;
        if !self.forks {
            tasks = tasks.into_iter().flat_map(apart).collect();
        }
        let requests = tasks.iter().map(|task| self.request(session, task));
        let requests: Vec<Request> = requests.collect();
        let responses = run_all(pool, requests, &session.interrupted, tick)?;
        let mut ended = Vec::new();
        for (task, response) in tasks.into_iter().zip(responses) {
            match task {
                Task::Seed(seed) => ended.push((None, Path::of(seed.0), response)),
                Task::Again(path) => {
                    let response = response.of_case(self.case(session, &path));
                    ended.push((None, path, response));
                }
                Task::Futures(choice, seeds) => {
                    let Some(outcomes) = response.outcome.futures.into_iter().next() else {
                        // The process has threads, and cannot be copied.
                        self.forks = false;
                        let tasks = apart(Task::Futures(choice, seeds)).collect();
                        ended.extend(self.run(session, pool, tasks, tick)?);
                        continue;
                    };
                    let share = response.real_seconds / outcomes.len().max(1) as f64;
                    for (seed, outcome) in seeds.into_iter().zip(outcomes) {
                        let path = choice.place.future(seed);
                        let response = Response {
                            file: self.file,
                            real_seconds: share,
                            printed: String::new(),
                            outcome,
                            case: None,
                        };
                        let response = response.of_case(self.case(session, &path));
                        ended.push((Some(choice.origin), path, response));
                    }
                }
            }
        }
        Some(ended)
    }

    /// Looks at the runs of a round, until the observer has seen enough.
    fn learn(
        &mut self,
        ended: Vec<(Option<Origin>, Path, Response)>,
        observer: &mut dyn Observer,
    ) -> Flow {
        let mut seeds_bring_news = false;
        for (from, path, response) in ended {
            self.runs += 1;
            let mut response = response;
            let mut moments = std::mem::take(&mut response.outcome.moments);
            if let Some(failure) = response.outcome.failures.first() {
                // What comes after a failure leads to nothing but the same failure.
                moments.retain(|moment| moment.seconds < failure.time);
                if self.failures.insert(failure.signature()) {
                    self.failed.push(path.clone());
                }
            }
            let news = self.memory.learn(&path, &moments, from);
            self.counts.news += u64::from(news);
            match path.turns.is_empty() {
                true => {
                    self.counts.seeds += 1;
                    seeds_bring_news |= news;
                }
                false => self.counts.futures += 1,
            }
            if observer.finished(response) == Flow::Stop {
                return Flow::Stop;
            }
        }
        self.memory.end_round();
        self.schedule.learn(seeds_bring_news);
        Flow::Continue
    }
}

/// Futures one by one, each from its beginning.
fn apart(task: Task) -> impl Iterator<Item = Task> {
    let tasks: Vec<Task> = match task {
        Task::Futures(choice, seeds) => {
            let futures = seeds.iter().map(|seed| choice.place.future(*seed));
            futures.map(Task::Again).collect()
        }
        other => vec![other],
    };
    tasks.into_iter()
}

/// What the future of this number draws from. Searches that begin with other seeds draw something
/// else, also if they go on from the moments of an earlier one.
fn future_seed(first: Seed, number: u64) -> u64 {
    let mut digest = Digest::new();
    digest.write_u64(first.0);
    digest.write_u64(number);
    // Short enough to be read.
    digest.finish() >> 32
}

/// Searches in all files, a round in each in turn.
pub fn search(
    session: &Session,
    pool: &mut Pool,
    searches: &mut [Search],
    budget: Budget,
    observer: &mut dyn Observer,
) -> Ended {
    let began = Instant::now();
    loop {
        let mut is_over = true;
        for search in searches.iter_mut() {
            let left = budget.runs.map_or(u64::MAX, |runs| runs - search.runs);
            let time_is_up = budget
                .duration
                .is_some_and(|limit| began.elapsed() >= limit);
            if left == 0 || time_is_up {
                continue;
            }
            is_over = false;
            let tasks = search.choose(left);
            let ended = search.run(session, pool, tasks, &mut || observer.tick());
            let Some(ended) = ended else {
                return match pool.is_alive() {
                    true => Ended::Interrupted,
                    false => Ended::NoWorkers,
                };
            };
            if search.learn(ended, observer) == Flow::Stop {
                return Ended::Stopped;
            }
        }
        if is_over {
            return Ended::Complete;
        }
    }
}

/// Runs requests side by side, and returns the responses in the order of the requests.
fn run_all(
    pool: &mut Pool,
    requests: Vec<Request>,
    interrupted: &AtomicBool,
    tick: &mut dyn FnMut(),
) -> Option<Vec<Response>> {
    let mut responses: Vec<Option<Response>> = requests.iter().map(|_| None).collect();
    let mut next = requests.into_iter().enumerate();
    let mut open = BTreeMap::new();
    let mut left = responses.len();
    while left > 0 {
        if interrupted.load(Ordering::Relaxed) || !pool.is_alive() {
            return None;
        }
        for (worker, (index, request)) in pool.idle().into_iter().zip(next.by_ref()) {
            open.insert(pool.ask(worker, request).number(), index);
        }
        match pool.wait(Duration::from_millis(100)) {
            Answer::Response(ticket, response) => {
                if let Some(index) = open.remove(&ticket.number()) {
                    responses[index] = Some(*response);
                    left -= 1;
                }
            }
            Answer::Lost(requests) => {
                for asked in requests {
                    if let Some(index) = open.remove(&asked.ticket.number()) {
                        responses[index] = Some(lost(&asked.request));
                        left -= 1;
                    }
                }
            }
            Answer::Nothing => {}
        }
        tick();
    }
    responses.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_that_begin_elsewhere_draw_other_futures() {
        let draws = |first| (0..1_000).map(move |number| future_seed(Seed(first), number));
        let firsts = [0, 1, 2, 100_001, u64::MAX];
        let different: BTreeSet<u64> = firsts.into_iter().flat_map(draws).collect();
        // Two of 5,000 numbers of 32 bits may be the same, once in 300 times.
        assert!(different.len() >= 4_999, "{}", different.len());
    }

    #[test]
    fn a_search_draws_the_same_futures_in_every_release() {
        let draws =
            [(1, 0), (1, 1), (2, 0)].map(|(first, number)| future_seed(Seed(first), number));
        assert_eq!(draws, [3_837_863_932, 3_387_474_183, 4_123_637_238]);
    }
}
