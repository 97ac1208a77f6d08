//! Every fate of every operation.
//!
//! Chance finds a bug when the right thing happens to the right operation. But the operations of a
//! run can be listed, and so can what may become of each: so all of it can simply be tried. From a
//! run in which nothing goes wrong, each operation of the code under test is taken in turn, and the
//! run is repeated with every other legal outcome of that operation: an unknown result that landed
//! or did not, a conflict, a version that is too old or from the future, a range that is cut short,
//! and so on.
//!
//! Up to the operation such a run is the same as the first one, so the operation is sure to be
//! there; from then on everything takes the course that follows. What comes out is a proof of
//! coverage: for each line that calls the database and each outcome, how often it was tried, and
//! whether the code under test coped with it.
//!
//! What lies before an operation is simulated once: the process is copied there, and each copy
//! meets another outcome.
//!
//! Runs are tried in an order in which every line and every outcome gets its turn early, so that a
//! search that is cut off has still looked everywhere.

pub mod deaths;
pub mod operations;
pub mod table;

use crate::minimise::start_of;
use crate::pool::{Answer, Pool};
use crate::protocol::Request;
use crate::report::human::plural;
use crate::seed::Seed;
use crate::session::{Session, SessionError};
use crate::sweep::run_one;
use deaths::Death;
use operations::{Kind, Operation, Outcome, operations};
use shaketable_host::case::Case;
use shaketable_host::failure_folder;
use shaketable_host::plan::{Fates, RecordTo, Recording, Values};
use shaketable_host::testfile::TestFile;
use shaketable_host::trace::Format;
use shaketable_host::verdict::{Failure, FailureKind, Fate, Outcome as RunOutcome};
use shaketable_record::Record;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What was found out.
#[derive(Debug)]
pub struct Exploration {
    /// The run that everything starts from.
    pub base: RunOutcome,
    /// Its case.
    pub case: Case,
    /// The test file.
    pub test: PathBuf,
    /// Its operations.
    pub operations: Vec<Operation>,
    /// What was tried, in the order of trying.
    pub tried: Vec<Try>,
    /// How many tries there are.
    pub possible: usize,
    /// What was tried with two events: the first, and one during the retry.
    pub pairs: Vec<Try>,
    /// The deaths of clients that were tried, if clients may die.
    pub deaths: Vec<Death>,
    /// Whether these are all there are.
    pub all_died: bool,
    /// How long it took.
    pub elapsed: Duration,
}

/// One outcome of one operation.
#[derive(Debug, Clone)]
pub struct Try {
    /// Its place in the order of trying.
    pub rank: usize,
    /// What the operation is.
    pub kind: Kind,
    /// The line that asked for it.
    pub line: String,
    /// What became of it.
    pub outcome: Outcome,
    /// The decision that made it so; before it, if there is one, an earlier one.
    pub decisions: Vec<String>,
    /// What the code under test made of it.
    pub result: Coped,
}

impl Try {
    /// What has the same place in the table.
    pub fn cell(&self) -> (Kind, &str, Outcome) {
        (self.kind, &self.line, self.outcome)
    }

    /// The decisions before the last one.
    fn before(&self) -> &[String] {
        &self.decisions[..self.decisions.len() - 1]
    }

    /// The last decision: its name and its outcome.
    fn last(&self) -> (String, String) {
        let last = self.decisions.last().map_or("", String::as_str);
        let (name, outcome) = last.split_once(": ").unwrap_or((last, ""));
        (name.to_owned(), outcome.to_owned())
    }

    fn of(operation: &Operation, outcome: Outcome, text: &str, before: &[String]) -> Try {
        let mut decisions = before.to_vec();
        decisions.push(format!("{}: {text}", operation.name));
        Try {
            rank: 0,
            kind: operation.kind,
            line: operation.line.clone(),
            outcome,
            decisions,
            result: Coped::NotApplicable,
        }
    }
}

/// What the code under test made of an outcome.
#[derive(Debug, Clone, PartialEq)]
pub enum Coped {
    /// The run passed.
    Passed,
    /// It failed.
    Failed(Box<Failure>),
    /// The operation cannot have this outcome after all.
    NotApplicable,
}

impl Coped {
    /// What a case that fails says about it.
    pub fn note(&self) -> Option<String> {
        match self {
            Coped::Failed(failure) => {
                let kind = failure.kind.describe();
                Some(format!("{kind}: {}", failure.message))
            }
            Coped::Passed | Coped::NotApplicable => None,
        }
    }
}

/// Explores a file from a seed on.
pub fn explore(
    session: &Session,
    pool: &mut Pool,
    seed: Seed,
    budget: Duration,
    progress: &mut dyn FnMut(&str),
) -> Result<Exploration, SessionError> {
    let began = Instant::now();
    let path = &session.files[0];
    let read = TestFile::read(path).map_err(|error| SessionError::TestFiles(vec![error]))?;
    let mut case = start_of(session, &read, seed);
    case.only.get_or_insert_default();
    case.buggify = Some(case.buggify.unwrap_or(false));
    case.swarm = Some(case.swarm.unwrap_or(false));
    let may_die = deaths::are_allowed(&read);
    if may_die {
        case = deaths::prevent(&case);
    }
    let (base, record) = run_recorded(session, pool, &case)?;
    case.clients = Some(base.drawn.clients);
    let mut exploration = Exploration {
        operations: operations(&record),
        base,
        case,
        test: read.path,
        tried: Vec::new(),
        possible: 0,
        pairs: Vec::new(),
        deaths: Vec::new(),
        all_died: true,
        elapsed: Duration::ZERO,
    };
    if exploration.base.passed() {
        let candidates = exploration.candidates();
        exploration.possible = candidates.len();
        let mut search = Search {
            session,
            pool,
            deadline: began + budget,
            case: exploration.case.clone(),
        };
        if may_die {
            // They come first, but leave time for the rest.
            search.deadline = began + budget / 2;
            let clients = exploration.base.drawn.clients;
            let operations = &exploration.operations;
            (exploration.deaths, exploration.all_died) =
                search.try_deaths(clients, operations, &mut |tried| {
                    progress(&plural(tried as u64, "death"));
                });
            search.deadline = began + budget;
        }
        let possible = candidates.len();
        let tried = search.try_all(candidates, &mut |tried| {
            progress(&format!("{tried} of {possible} outcomes"));
        });
        let pairs = search.second_events(&tried);
        let possible = pairs.len();
        let pairs = search.try_all(pairs, &mut |tried| {
            progress(&format!("{tried} of {possible} second events"));
        });
        (exploration.tried, exploration.pairs) = (tried, pairs);
    }
    exploration.elapsed = began.elapsed();
    Ok(exploration)
}

/// Runs a case and reads its record.
fn run_recorded(
    session: &Session,
    pool: &mut Pool,
    case: &Case,
) -> Result<(RunOutcome, Record), SessionError> {
    let folder = std::env::temp_dir().join(format!("shaketable-explore-{}", std::process::id()));
    let path = folder.join(failure_folder::RECORD);
    let request = Request {
        file: 0,
        seed: case.seed,
        recording: Recording::Trace {
            path: "/dev/null".into(),
            format: Format::Json,
            record: Some(RecordTo::new(path.clone(), Values::Short, None)),
        },
        case: Some(Box::new(case.clone())),
    };
    let response = run_one(pool, request, &session.interrupted);
    let response = response.ok_or(SessionError::Interrupted)?;
    let record = File::open(&path).map_err(|_| SessionError::NoRecord(path.clone()));
    let record = record.and_then(|file| {
        let refuse = |error| SessionError::Record(path.clone(), error);
        shaketable_record::file::read(file).map_err(refuse)
    });
    let _ = fs::remove_dir_all(&folder);
    Ok((response.outcome, record?))
}

impl Exploration {
    /// The tries that failed.
    pub fn failures(&self) -> impl Iterator<Item = &Try> {
        let failed = |one: &&Try| matches!(one.result, Coped::Failed(_));
        self.tried.iter().chain(&self.pairs).filter(failed)
    }

    /// The deaths that the next life did not cope with.
    pub fn fatal(&self) -> impl Iterator<Item = &Death> {
        let failed = |one: &&Death| matches!(one.result, Coped::Failed(_));
        self.deaths.iter().filter(failed)
    }

    /// The case of a try.
    pub fn case_of(&self, one: &Try) -> Case {
        let mut case = self.case.clone();
        let only = case.only.get_or_insert_default();
        only.extend(one.decisions.iter().cloned());
        case.note = one.result.note();
        case
    }

    /// Everything there is to try. Of what is alike, by line and outcome, the first and the last
    /// come first, then the middle, then what is between these.
    fn candidates(&self) -> Vec<Try> {
        let mut alike: BTreeMap<(Kind, &str, Outcome), Vec<Try>> = BTreeMap::new();
        for operation in &self.operations {
            for (outcome, text) in &operation.tries {
                let key = (operation.kind, operation.line.as_str(), *outcome);
                let one = Try::of(operation, *outcome, text, &[]);
                alike.entry(key).or_default().push(one);
            }
        }
        let mut ranked: Vec<(usize, Try)> = Vec::new();
        for group in alike.into_values() {
            let order = spread(group.len());
            let mut group: Vec<Option<Try>> = group.into_iter().map(Some).collect();
            let taken = order.into_iter().filter_map(|index| group[index].take());
            ranked.extend(taken.enumerate());
        }
        // Stable: within a rank the groups stay in their order.
        ranked.sort_by_key(|(rank, _)| *rank);
        ranked.into_iter().map(|(_, one)| one).collect()
    }
}

/// How many operations of the client after the first event are looked at for a second one.
const RETRY_OPERATIONS: usize = 4;
/// In how many places a range is cut during a retry.
const RETRY_CUTS: usize = 2;

/// A search under way.
struct Search<'a> {
    session: &'a Session,
    pool: &'a mut Pool,
    deadline: Instant,
    /// The case that everything starts from.
    case: Case,
}

impl Search<'_> {
    fn is_over(&self) -> bool {
        self.session.interrupted.load(Ordering::Relaxed)
            || Instant::now() > self.deadline
            || !self.pool.is_alive()
    }

    /// Tries these in their order, until time is up. Returns those that were tried.
    ///
    /// Tries that begin alike share a run up to their operations, which is copied there. Where that
    /// is not possible each has a run of its own.
    fn try_all(&mut self, mut all: Vec<Try>, progress: &mut dyn FnMut(usize)) -> Vec<Try> {
        for (rank, one) in all.iter_mut().enumerate() {
            one.rank = rank;
        }
        let mut waiting = batches(all);
        waiting.reverse();
        let mut open: BTreeMap<u64, Vec<Try>> = BTreeMap::new();
        let mut tried: Vec<Try> = Vec::new();
        while (!waiting.is_empty() || !open.is_empty()) && !self.is_over() {
            for worker in self.pool.idle() {
                let Some(next) = waiting.pop() else {
                    break;
                };
                let request = self.request(&next);
                open.insert(self.pool.ask(worker, request).number(), next);
            }
            match self.pool.wait(Duration::from_millis(100)) {
                Answer::Response(ticket, response) => {
                    let Some(batch) = open.remove(&ticket.number()) else {
                        continue;
                    };
                    let outcome = response.outcome;
                    let is_single = batch.len() == 1;
                    if !is_single && outcome.fates.is_empty() {
                        waiting.extend(batch.into_iter().rev().map(|one| vec![one]));
                        continue;
                    }
                    let fates = match is_single {
                        true => vec![Some(Fate::from(outcome))],
                        false => outcome.fates,
                    };
                    for (mut one, fate) in batch.into_iter().zip(fates) {
                        one.result = judge(fate.map(|fate| fate.failures));
                        tried.push(one);
                    }
                    progress(tried.len());
                }
                Answer::Lost(lost) => {
                    let lost = lost.iter().map(|asked| asked.ticket.number());
                    waiting.extend(lost.filter_map(|ticket| open.remove(&ticket)));
                }
                Answer::Nothing => {}
            }
        }
        // Workers finish in any order; a report does not depend on it.
        tried.sort_by_key(|one| one.rank);
        tried
    }

    fn request(&self, batch: &[Try]) -> Request {
        let mut case = self.case.clone();
        let only = case.only.get_or_insert_default();
        let recording = match batch {
            [one] => {
                only.extend(one.decisions.iter().cloned());
                Recording::Nothing
            }
            _ => {
                only.extend(batch.first().into_iter().flat_map(Try::before).cloned());
                let tries = batch.iter().map(Try::last);
                Recording::Fates(Fates {
                    tries: tries.collect(),
                })
            }
        };
        Request {
            file: 0,
            seed: case.seed,
            recording,
            case: Some(Box::new(case)),
        }
    }

    /// What can happen during the retry after an event that the code under test copes with: one
    /// event of each line and outcome, and the next operations of its client.
    fn second_events(&mut self, tried: &[Try]) -> Vec<Try> {
        let mut first: BTreeMap<(Kind, &str, Outcome), &Try> = BTreeMap::new();
        for one in tried.iter().filter(|one| one.result == Coped::Passed) {
            first.entry(one.cell()).or_insert(one);
        }
        let mut found: Vec<Vec<Try>> = Vec::new();
        for one in first.into_values() {
            if self.is_over() {
                break;
            }
            let mut case = self.case.clone();
            let only = case.only.get_or_insert_default();
            only.extend(one.decisions.iter().cloned());
            let Ok((_, record)) = run_recorded(self.session, self.pool, &case) else {
                break;
            };
            found.push(after(&operations(&record), one));
        }
        // One of each in turn, so that all have had theirs when time is up.
        let longest = found.iter().map(Vec::len).max().unwrap_or(0);
        let mut all = Vec::new();
        for index in 0..longest {
            all.extend(found.iter().filter_map(|tries| tries.get(index).cloned()));
        }
        all
    }
}

/// What can become of the operations of a client that follow an event.
fn after(operations: &[Operation], event: &Try) -> Vec<Try> {
    let named = |operation: &Operation| event.decisions[0].starts_with(&operation.name);
    let Some(place) = operations
        .iter()
        .position(|one| named(one) && event.decisions[0][one.name.len()..].starts_with(": "))
    else {
        return Vec::new();
    };
    let client = operations[place].client;
    let next = operations[place + 1..].iter();
    let next = next.filter(|one| one.client == client && !one.tries.is_empty());
    let mut tries = Vec::new();
    for operation in next.take(RETRY_OPERATIONS) {
        let mut cuts = 0;
        for (outcome, text) in &operation.tries {
            cuts += usize::from(*outcome == Outcome::Cut);
            if *outcome != Outcome::Cut || cuts <= RETRY_CUTS {
                tries.push(Try::of(operation, *outcome, text, &event.decisions));
            }
        }
    }
    tries
}

/// How many tries share a run up to their operations.
const BATCH: usize = 48;

/// Puts tries that begin alike together, in their order.
fn batches(all: Vec<Try>) -> Vec<Vec<Try>> {
    let mut batches: Vec<Vec<Try>> = Vec::new();
    // By the decisions before the last: the batch that is being filled.
    let mut filling: BTreeMap<Vec<String>, usize> = BTreeMap::new();
    for one in all {
        let before = one.before().to_vec();
        match filling.get(&before) {
            Some(index) if batches[*index].len() < BATCH => batches[*index].push(one),
            _ => {
                filling.insert(before, batches.len());
                batches.push(vec![one]);
            }
        }
    }
    batches
}

fn judge(failures: Option<Vec<Failure>>) -> Coped {
    // Without an answer the operation never came.
    let Some(failures) = failures else {
        return Coped::NotApplicable;
    };
    match failures.into_iter().next() {
        None => Coped::Passed,
        Some(failure) if failure.kind == FailureKind::CaseOutdated => Coped::NotApplicable,
        Some(failure) => Coped::Failed(Box::new(failure)),
    }
}

/// The numbers below `count` in an order in which every beginning is spread well: both ends, the
/// middle, the quarters, and so on.
fn spread(count: usize) -> Vec<usize> {
    let mut order = Vec::with_capacity(count);
    let mut taken = vec![false; count];
    let mut take = |index: usize, order: &mut Vec<usize>| {
        if index < count && !std::mem::replace(&mut taken[index], true) {
            order.push(index);
        }
    };
    take(0, &mut order);
    take(count.saturating_sub(1), &mut order);
    let mut step = count.next_power_of_two();
    while step > 1 {
        step /= 2;
        (step..count)
            .step_by(step)
            .for_each(|index| take(index, &mut order));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_spread_and_whole() {
        assert_eq!(spread(0), Vec::<usize>::new());
        assert_eq!(spread(1), [0]);
        assert_eq!(spread(6), [0, 5, 4, 2, 1, 3]);
        for count in 2..40 {
            let mut order = spread(count);
            assert_eq!(order[..2], [0, count - 1]);
            order.sort_unstable();
            assert_eq!(order, (0..count).collect::<Vec<usize>>());
        }
    }
}
