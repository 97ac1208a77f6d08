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
use shaketable_host::minimise::deaths;
use shaketable_host::plan::Recording;
use shaketable_host::testfile::TestFile;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// The option of a workload that allows deaths.
const MOST: &str = "shaketableCrashes";

/// One death of one client.
#[derive(Debug, Clone)]
pub struct Death {
    /// Who dies, and at which await.
    pub moment: deaths::Death,
    /// The line of the client's last operation before it.
    pub line: String,
    /// What the next life made of it.
    pub result: Coped,
}

impl Death {
    /// What happens, as a clause.
    pub fn words(&self) -> String {
        let when = match self.moment.is_late {
            true => "when it would go on after",
            false => "as it begins",
        };
        format!(
            "client {} dies {when} await {}",
            self.moment.client, self.moment.at
        )
    }

    /// The case with this death.
    pub fn case(&self, base: &Case) -> Case {
        deaths::with(base, std::slice::from_ref(&self.moment))
    }
}

/// Whether clients of a test file may die.
pub(super) fn are_allowed(file: &TestFile) -> bool {
    let mut workloads = file.tests.iter().flat_map(|test| &test.workloads);
    workloads.any(|workload| {
        let most = workload.option(MOST).is_some_and(|most| most != "0");
        most || workload.option(deaths::AT).is_some()
    })
}

/// The case in which no client dies.
pub(super) fn prevent(case: &Case) -> Case {
    deaths::with(case, &[])
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
            moment: deaths::Death {
                client,
                at: 1,
                is_late: false,
            },
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
                    death.line = line_at(operations, death.moment.client, time);
                    death.result = judge(Some(outcome.failures));
                    waiting.push_back(Death {
                        moment: deaths::Death {
                            client: death.moment.client,
                            at: death.moment.at + u64::from(death.moment.is_late),
                            is_late: !death.moment.is_late,
                        },
                        line: String::new(),
                        result: Coped::NotApplicable,
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
        tried.sort_by_key(|death| (death.moment.at, death.moment.client, death.moment.is_late));
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
