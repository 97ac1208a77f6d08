//! Deaths of clients, at every await.
//!
//! If the test file lets clients die (`shaketableCrashes`), the run that everything starts from has
//! no death, and then each client dies once at each of its awaits, in a run of its own: as it
//! begins to wait, when what it requested is under way, and when it would go on, when what it
//! waited for has happened. How many awaits a client has is found out on the way: a death at an
//! await that never comes does not happen.
//!
//! What lies before an await is simulated once: there the executor asks whether the client dies,
//! and the process is copied. A case lists the death as an option of the workload instead, so it
//! needs no program that answers.

use super::operations::Operation;
use super::{BATCH, Coped, Search, judge};
use crate::pool::Answer;
use crate::protocol::Request;
use shaketable_host::case::Case;
use shaketable_host::minimise::deaths;
use shaketable_host::plan::{Fates, Recording};
use shaketable_host::testfile::TestFile;
use shaketable_host::verdict::Fate;
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
    /// The first of a client.
    fn first(client: u32) -> Death {
        Death::at(deaths::Death {
            client,
            at: 1,
            is_late: false,
        })
    }

    fn at(moment: deaths::Death) -> Death {
        Death {
            moment,
            line: String::new(),
            result: Coped::NotApplicable,
        }
    }

    /// The same client dies a little later.
    fn next(&self) -> Death {
        let deaths::Death {
            client,
            at,
            is_late,
        } = self.moment;
        Death::at(deaths::Death {
            client,
            at: at + u64::from(is_late),
            is_late: !is_late,
        })
    }

    /// This death and the next ones, as many as that.
    fn and_next(self, count: usize) -> Vec<Death> {
        let all = std::iter::successors(Some(self), |death| Some(death.next()));
        all.take(count).collect()
    }

    /// The await as an operation, and its outcome.
    fn fate(&self) -> (String, String) {
        let deaths::Death {
            client,
            at,
            is_late,
        } = self.moment;
        let outcome = if is_late { DIES_LATE } else { DIES };
        let name = format!("await/tester {client} {at}");
        (name, outcome.to_owned())
    }

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

/// What the option says while the executor asks at each await whether the client dies there.
const ASK: &str = "ask";
/// What is answered.
const DIES: &str = "dies";
const DIES_LATE: &str = "dies when it would go on";

impl Search<'_> {
    /// Lets each client die at each of its awaits, until time is up. Returns the deaths in order,
    /// and whether these are all.
    ///
    /// The next deaths of a client share a run up to them, which is copied at each. Where that is
    /// not possible each has a run of its own.
    pub(super) fn try_deaths(
        &mut self,
        clients: u32,
        operations: &[Operation],
        progress: &mut dyn FnMut(usize),
    ) -> (Vec<Death>, bool) {
        let mut tried: Vec<Death> = Vec::new();
        let mut size = BATCH;
        let mut waiting: VecDeque<Vec<Death>> = (0..clients)
            .map(|client| Death::first(client).and_next(size))
            .collect();
        let mut open: BTreeMap<u64, Vec<Death>> = BTreeMap::new();
        while (!waiting.is_empty() || !open.is_empty()) && !self.is_over() {
            for worker in self.pool.idle() {
                let Some(next) = waiting.pop_front() else {
                    break;
                };
                let request = self.request_of_deaths(&next);
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
                        size = 1;
                        waiting.push_back(vec![batch[0].clone()]);
                        continue;
                    }
                    // A process that died before it could report may have had the death.
                    let happened = !outcome.deaths.is_empty() || !outcome.passed();
                    let fates = match is_single {
                        true => vec![happened.then(|| Fate::from(outcome))],
                        false => outcome.fates,
                    };
                    let last = batch.last().cloned();
                    let is_end = fates.contains(&None);
                    for (mut death, fate) in batch.into_iter().zip(fates) {
                        // Without an answer the await never came.
                        let Some(fate) = fate else { continue };
                        death.line = line_at(operations, death.moment.client, fate.died_at);
                        death.result = judge(Some(fate.failures));
                        tried.push(death);
                    }
                    if let (Some(last), false) = (last, is_end) {
                        waiting.push_back(last.next().and_next(size));
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
        tried.sort_by_key(|death| {
            let deaths::Death {
                client,
                at,
                is_late,
            } = death.moment;
            (at, client, is_late)
        });
        (tried, waiting.is_empty() && open.is_empty())
    }

    fn request_of_deaths(&self, batch: &[Death]) -> Request {
        let (recording, case) = match batch {
            [death] => (Recording::Nothing, death.case(&self.case)),
            _ => {
                let mut case = self.case.clone();
                case.options.insert(deaths::AT.to_owned(), ASK.to_owned());
                let tries = batch.iter().map(Death::fate);
                let fates = Fates {
                    tries: tries.collect(),
                };
                (Recording::Fates(fates), case)
            }
        };
        Request {
            file: 0,
            seed: case.seed,
            recording,
            case: Some(Box::new(case)),
        }
    }
}

/// The line of the last operation of a client up to a moment.
fn line_at(operations: &[Operation], client: u32, time: f64) -> String {
    let before = operations
        .iter()
        .rfind(|one| one.client == client && one.time <= time);
    before.map_or(String::new(), |one| one.line.clone())
}
