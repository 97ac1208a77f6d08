//! Runs candidates and says which of them fail in the wanted way.
//!
//! Every candidate is a [`Case`] of one test file. Candidates of a batch run side by side on the
//! worker processes; what was run once is never run again. The answers do not depend on the order
//! in which the workers finish.

use crate::pool::{Answer as PoolAnswer, Pool};
use crate::protocol::Request;
use shaketable_host::case::Case;
use shaketable_host::minimise::{Answer, Candidates, Tried};
use shaketable_host::plan::{Futures, Recording};
use shaketable_host::verdict::{Failure, Outcome};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What became of the futures of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forked {
    /// How many failed in the wanted way, for each moment.
    Failed(Vec<u64>),
    /// Time was up.
    Stopped,
    /// The run cannot be copied: its process has threads, or dies.
    Impossible,
}

/// Runs candidates.
pub struct Oracle<'a> {
    pool: &'a mut Pool,
    /// The number of the test file in the workers' job.
    file: usize,
    interrupted: &'a AtomicBool,
    deadline: Instant,
    /// The signature of the wanted failure.
    wanted: String,
    /// By the candidate, as JSON.
    known: BTreeMap<String, Rc<Tried>>,
    /// By the number of a request: the candidate that is being run.
    open: BTreeMap<u64, String>,
    /// How many candidates were run.
    pub runs: u64,
    /// Called after each run.
    progress: &'a mut dyn FnMut(u64),
}

impl<'a> Oracle<'a> {
    /// An oracle for failures like this one.
    pub fn new(
        pool: &'a mut Pool,
        file: usize,
        interrupted: &'a AtomicBool,
        deadline: Instant,
        wanted: &Failure,
        progress: &'a mut dyn FnMut(u64),
    ) -> Oracle<'a> {
        Oracle {
            pool,
            file,
            interrupted,
            deadline,
            wanted: wanted.signature(),
            known: BTreeMap::new(),
            open: BTreeMap::new(),
            runs: 0,
            progress,
        }
    }

    /// Whether nothing more is asked, because time is up.
    pub fn is_out_of_time(&self) -> bool {
        Instant::now() > self.deadline
    }

    /// What became of all of these; `None` if time was up.
    pub fn all(&mut self, candidates: &[Case]) -> Option<Vec<Rc<Tried>>> {
        let keys: Vec<String> = candidates.iter().map(key).collect();
        let answer = |oracle: &Oracle<'_>| {
            let known = keys.iter().map(|key| oracle.known.get(key).cloned());
            known.collect()
        };
        self.run_until(candidates, &keys, answer)
    }

    /// Runs candidates in their order until there is an answer; `None` if time was up.
    fn run_until<T>(
        &mut self,
        candidates: &[Case],
        keys: &[String],
        answer: impl Fn(&Oracle<'_>) -> Option<T>,
    ) -> Option<T> {
        let mut next = 0;
        loop {
            if let Some(answer) = answer(self) {
                return Some(answer);
            }
            if self.interrupted.load(Ordering::Relaxed)
                || self.is_out_of_time()
                || !self.pool.is_alive()
            {
                return None;
            }
            for worker in self.pool.idle() {
                let is_asked = |key| self.known.contains_key(key) || self.is_open(key);
                while next < keys.len() && is_asked(&keys[next]) {
                    next += 1;
                }
                let Some(case) = candidates.get(next) else {
                    break;
                };
                let request = Request {
                    file: self.file,
                    seed: case.seed,
                    recording: Recording::Nothing,
                    case: Some(Box::new(case.clone())),
                };
                let ticket = self.pool.ask(worker, request).number();
                self.open.insert(ticket, keys[next].clone());
                next += 1;
            }
            match self.pool.wait(Duration::from_millis(100)) {
                PoolAnswer::Response(ticket, response) => {
                    // It may be a candidate of an earlier batch, which had its answer without it.
                    if let Some(key) = self.open.remove(&ticket.number()) {
                        let tried = Tried::judge(response.outcome, &self.wanted);
                        self.known.insert(key, Rc::new(tried));
                    }
                    self.runs += 1;
                    (self.progress)(self.runs);
                }
                PoolAnswer::Lost(lost) => {
                    for asked in lost {
                        self.open.remove(&asked.ticket.number());
                    }
                    next = 0;
                }
                PoolAnswer::Nothing => {}
            }
        }
    }

    fn is_open(&self, key: &String) -> bool {
        self.open.values().any(|open| open == key)
    }

    /// How many futures of a case fail in the wanted way from each of these moments on. Each worker
    /// simulates the case once and copies it at the moments, for its part of the futures.
    pub fn fork(&mut self, case: &Case, moments: &[f64], futures: u64) -> Forked {
        let seeds: Vec<u64> = (1..=futures).collect();
        // More parts than workers, so that none waits for the slowest; each costs a run more.
        let parts = self.pool.room();
        let mut parts = seeds.chunks(seeds.len().div_ceil(parts).max(1));
        let mut failed = vec![0; moments.len()];
        let mut open = Vec::new();
        let mut left = parts.len();
        while left > 0 {
            if self.interrupted.load(Ordering::Relaxed)
                || self.is_out_of_time()
                || !self.pool.is_alive()
            {
                return Forked::Stopped;
            }
            for (worker, seeds) in self.pool.idle().into_iter().zip(parts.by_ref()) {
                let futures = Futures {
                    moments: moments.to_vec(),
                    seeds: seeds.to_vec(),
                };
                let request = Request {
                    file: self.file,
                    seed: case.seed,
                    recording: Recording::Futures(futures),
                    case: Some(Box::new(case.clone())),
                };
                open.push(self.pool.ask(worker, request).number());
            }
            match self.pool.wait(Duration::from_millis(100)) {
                PoolAnswer::Response(ticket, response) if open.contains(&ticket.number()) => {
                    let found = &response.outcome.futures;
                    if found.len() != moments.len() {
                        return Forked::Impossible;
                    }
                    for (failed, futures) in failed.iter_mut().zip(found) {
                        let is_wanted = |one: &&Outcome| {
                            let failures = &mut one.failures.iter();
                            failures.any(|failure| failure.signature() == self.wanted)
                        };
                        *failed += futures.iter().filter(is_wanted).count() as u64;
                        self.runs += futures.len() as u64;
                    }
                    (self.progress)(self.runs);
                    left -= 1;
                }
                PoolAnswer::Lost(_) => return Forked::Impossible,
                PoolAnswer::Response(..) | PoolAnswer::Nothing => {}
            }
        }
        Forked::Failed(failed)
    }
}

impl Candidates for Oracle<'_> {
    fn batch(&self) -> usize {
        self.pool.room()
    }

    fn look_up(&self, case: &Case) -> Option<Rc<Tried>> {
        self.known.get(&key(case)).cloned()
    }

    fn first_failing(&mut self, candidates: &[Case]) -> Answer {
        let keys: Vec<String> = candidates.iter().map(key).collect();
        let answer = |oracle: &Oracle<'_>| {
            // What is known decides, as soon as everything before it is known.
            let settled = keys.iter().map_while(|key| oracle.known.get(key));
            let mut passed = 0;
            for tried in settled {
                if tried.fails {
                    return Some(Answer::Fails(passed));
                }
                passed += 1;
            }
            (passed == keys.len()).then_some(Answer::AllPass)
        };
        self.run_until(candidates, &keys, answer)
            .unwrap_or(Answer::Stop)
    }
}

fn key(case: &Case) -> String {
    serde_json::to_string(case).expect("a case can be written")
}
