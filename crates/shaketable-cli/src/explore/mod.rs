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
//! Runs are tried in an order in which every line and every outcome gets its turn early, so that a
//! search that is cut off has still looked everywhere.

pub mod operations;
pub mod table;

use crate::minimise::start_of;
use crate::pool::{Answer, Pool};
use crate::protocol::Request;
use crate::seed::Seed;
use crate::session::{Session, SessionError};
use crate::sweep::run_one;
use operations::{Kind, Operation, Outcome, operations};
use shaketable_host::case::Case;
use shaketable_host::failure_folder;
use shaketable_host::plan::{RecordTo, Recording, Values};
use shaketable_host::testfile::TestFile;
use shaketable_host::trace::Format;
use shaketable_host::verdict::{Failure, FailureKind, Outcome as RunOutcome};
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
    /// How long it took.
    pub elapsed: Duration,
}

/// One outcome of one operation.
#[derive(Debug, Clone)]
pub struct Try {
    /// Its place in the order of trying.
    pub rank: usize,
    /// The index of the operation.
    pub operation: usize,
    /// What became of it.
    pub outcome: Outcome,
    /// The decision that made it so.
    pub decision: String,
    /// What the code under test made of it.
    pub result: Coped,
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

/// Explores a file from a seed on.
pub fn explore(
    session: &Session,
    pool: &mut Pool,
    seed: Seed,
    budget: Duration,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Exploration, SessionError> {
    let began = Instant::now();
    let path = &session.files[0];
    let read = TestFile::read(path).map_err(|error| SessionError::TestFiles(vec![error]))?;
    let mut case = start_of(session, &read, seed);
    case.only.get_or_insert_default();
    case.buggify = Some(case.buggify.unwrap_or(false));
    let (base, record) = record_base(session, pool, &case)?;
    case.clients = Some(base.drawn.clients);
    let mut exploration = Exploration {
        operations: operations(&record),
        base,
        case,
        test: read.path,
        tried: Vec::new(),
        possible: 0,
        elapsed: Duration::ZERO,
    };
    if exploration.base.passed() {
        exploration.try_all(session, pool, began + budget, progress);
    }
    exploration.elapsed = began.elapsed();
    Ok(exploration)
}

/// Runs the case that everything starts from, and reads its record.
fn record_base(
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
        self.tried.iter().filter(failed)
    }

    /// The case of a try.
    pub fn case_of(&self, one: &Try) -> Case {
        let mut case = self.case.clone();
        case.only.get_or_insert_default().push(one.decision.clone());
        if let Coped::Failed(failure) = &one.result {
            let note = format!("{}: {}", failure.kind.describe(), failure.message);
            case.note = Some(note);
        }
        case
    }

    /// Tries everything, until time is up.
    fn try_all(
        &mut self,
        session: &Session,
        pool: &mut Pool,
        deadline: Instant,
        progress: &mut dyn FnMut(usize, usize),
    ) {
        let mut waiting = self.candidates();
        self.possible = waiting.len();
        waiting.reverse();
        let mut open: BTreeMap<u64, Try> = BTreeMap::new();
        let is_over = || session.interrupted.load(Ordering::Relaxed) || Instant::now() > deadline;
        while (!waiting.is_empty() || !open.is_empty()) && pool.is_alive() && !is_over() {
            for worker in pool.idle() {
                let Some(next) = waiting.pop() else {
                    break;
                };
                let request = Request {
                    file: 0,
                    seed: self.case.seed,
                    recording: Recording::Nothing,
                    case: Some(Box::new(self.case_of(&next))),
                };
                open.insert(pool.ask(worker, request).number(), next);
            }
            match pool.wait(Duration::from_millis(100)) {
                Answer::Response(ticket, response) => {
                    if let Some(mut tried) = open.remove(&ticket.number()) {
                        tried.result = judge(response.outcome);
                        self.tried.push(tried);
                        progress(self.tried.len(), self.possible);
                    }
                }
                Answer::Lost(lost) => {
                    let lost = lost.iter().map(|asked| asked.ticket.number());
                    waiting.extend(lost.filter_map(|ticket| open.remove(&ticket)));
                }
                Answer::Nothing => {}
            }
        }
        // Workers finish in any order; a report does not depend on it.
        self.tried.sort_by_key(|one| one.rank);
    }

    /// Everything there is to try. Of what is alike, by line and outcome, the first and the last
    /// come first, then the middle, then what is between these.
    fn candidates(&self) -> Vec<Try> {
        let mut alike: BTreeMap<(Kind, &str, Outcome), Vec<Try>> = BTreeMap::new();
        for (index, operation) in self.operations.iter().enumerate() {
            for (outcome, text) in &operation.tries {
                let key = (operation.kind, operation.line.as_str(), *outcome);
                alike.entry(key).or_default().push(Try {
                    rank: 0,
                    operation: index,
                    outcome: *outcome,
                    decision: format!("{}: {text}", operation.name),
                    result: Coped::NotApplicable,
                });
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
        let all = ranked.into_iter().map(|(_, one)| one).enumerate();
        all.map(|(rank, one)| Try { rank, ..one }).collect()
    }
}

fn judge(outcome: RunOutcome) -> Coped {
    match outcome.failures.into_iter().next() {
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
