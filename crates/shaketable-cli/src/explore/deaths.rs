//! Deaths of clients, at every await.
//!
//! If the test file lets clients die (`shaketableCrashes`), the run that everything starts from has
//! no death, and then each client dies once at each of its awaits, in a run of its own: as it
//! begins to wait, when what it requested is under way, and when it would go on, when what it
//! waited for has happened. How many awaits a client has is found out on the way: a death at an
//! await that never comes does not happen.

use super::operations::Operation;
use super::{Coped, Search, judge};
use crate::pool::Answer;
use crate::protocol::Request;
use shaketable_host::case::Case;
use shaketable_host::plan::Recording;
use shaketable_host::testfile::TestFile;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// The option of a workload that lists deaths.
const AT: &str = "shaketableCrashAt";
/// The option of a workload that allows deaths.
const MOST: &str = "shaketableCrashes";
/// A death that never comes.
const NEVER: &str = "0:1000000000";

/// One death of one client.
#[derive(Debug, Clone)]
pub struct Death {
    /// The client.
    pub client: u32,
    /// Which of its awaits, from 1.
    pub at: u64,
    /// Not as it begins to wait, but when it would go on.
    pub is_late: bool,
    /// The line of the client's last operation before it.
    pub line: String,
    /// What the next life made of it.
    pub result: Coped,
}

impl Death {
    /// As the option writes it.
    pub fn moment(&self) -> String {
        let late = if self.is_late { "+" } else { "" };
        format!("{}:{}{late}", self.client, self.at)
    }

    /// What happens, as a clause.
    pub fn words(&self) -> String {
        let when = match self.is_late {
            true => "when it would go on after",
            false => "as it begins",
        };
        format!("client {} dies {when} await {}", self.client, self.at)
    }

    /// The case with this death.
    pub fn case(&self, base: &Case) -> Case {
        let mut case = base.clone();
        case.options.insert(AT.to_owned(), self.moment());
        case
    }
}

/// Whether clients of a test file may die.
pub(super) fn are_allowed(file: &TestFile) -> bool {
    let mut workloads = file.tests.iter().flat_map(|test| &test.workloads);
    workloads.any(|workload| {
        let most = workload.option(MOST).is_some_and(|most| most != "0");
        most || workload.option(AT).is_some()
    })
}

/// Lets no client die.
pub(super) fn prevent(case: &mut Case) {
    case.options.insert(AT.to_owned(), NEVER.to_owned());
}

impl Search<'_> {
    /// Lets each client die at each of its awaits, until time is up. Returns the deaths in order,
    /// and whether these are all.
    pub(super) fn try_deaths(
        &mut self,
        clients: u32,
        operations: &[Operation],
        progress: &mut dyn FnMut(usize),
    ) -> (Vec<Death>, bool) {
        let mut tried: Vec<Death> = Vec::new();
        let first = |client| Death {
            client,
            at: 1,
            is_late: false,
            line: String::new(),
            result: Coped::NotApplicable,
        };
        let mut waiting: VecDeque<Death> = (0..clients).map(first).collect();
        let mut open: BTreeMap<u64, Death> = BTreeMap::new();
        while (!waiting.is_empty() || !open.is_empty()) && !self.is_over() {
            for worker in self.pool.idle() {
                let Some(next) = waiting.pop_front() else {
                    break;
                };
                let request = Request {
                    file: 0,
                    seed: self.case.seed,
                    recording: Recording::Nothing,
                    case: Some(Box::new(next.case(&self.case))),
                };
                open.insert(self.pool.ask(worker, request).number(), next);
            }
            match self.pool.wait(Duration::from_millis(100)) {
                Answer::Response(ticket, response) => {
                    let Some(mut death) = open.remove(&ticket.number()) else {
                        continue;
                    };
                    let outcome = response.outcome;
                    // A process that died before it could report may have had the death.
                    let happened = outcome.deaths.first();
                    if happened.is_none() && outcome.passed() {
                        continue;
                    }
                    let time = happened.map_or(outcome.simulated_seconds, |death| death.time);
                    death.line = line_at(operations, death.client, time);
                    death.result = judge(Some(outcome.failures));
                    waiting.push_back(Death {
                        at: death.at + u64::from(death.is_late),
                        is_late: !death.is_late,
                        line: String::new(),
                        ..death.clone()
                    });
                    tried.push(death);
                    progress(tried.len());
                }
                Answer::Lost(lost) => {
                    let lost = lost.iter().map(|asked| asked.ticket.number());
                    waiting.extend(lost.filter_map(|ticket| open.remove(&ticket)));
                }
                Answer::Nothing => {}
            }
        }
        tried.sort_by_key(|death| (death.at, death.client, death.is_late));
        (tried, waiting.is_empty() && open.is_empty())
    }
}

/// The line of the last operation of a client up to a moment.
fn line_at(operations: &[Operation], client: u32, time: f64) -> String {
    let before = operations
        .iter()
        .rfind(|one| one.client == client && one.time <= time);
    before.map_or(String::new(), |one| one.line.clone())
}
