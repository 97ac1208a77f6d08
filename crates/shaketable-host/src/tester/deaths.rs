//! The deaths of clients, as the crate `shaketable` traces them.
//!
//! That crate lets a client die, and knows neither what the client waited for nor on which line:
//! the host does. A client that dies as it begins to wait has that future pending when it says so.
//! One that dies when it would go on has not, so it says before that it is doomed.

use super::testbed::{Client, Testbed};
use super::waits::{self, Waiting};
use crate::verdict::{Death, Wait};
use std::cell::RefCell;
use std::collections::BTreeMap;

#[derive(Default)]
pub(super) struct Deaths {
    /// What the doomed clients wait for.
    doomed: RefCell<BTreeMap<u32, Option<Waiting>>>,
    died: RefCell<Vec<(Death, Option<Waiting>)>>,
}

impl Deaths {
    /// Looks at an event of a workload.
    pub(super) fn note(
        &self,
        testbed: &Testbed,
        client: &Client,
        (name, time): (&str, f64),
        details: &[(String, String)],
    ) {
        match name {
            "WorkloadDoomed" => {
                let wait = waits::newest(testbed, client);
                self.doomed.borrow_mut().insert(client.number, wait);
            }
            "WorkloadCrashed" => {
                let detail = |key: &str| {
                    let found = details.iter().find(|(name, _)| name == key);
                    found.map_or("", |(_, value)| value.as_str())
                };
                let death = Death {
                    client: client.number,
                    time,
                    moment: detail("At").to_owned(),
                    down_seconds: detail("DownSeconds").parse().unwrap_or(0.0),
                    wait: None,
                };
                let doomed = self.doomed.borrow_mut().remove(&client.number);
                let wait = doomed.unwrap_or_else(|| waits::newest(testbed, client));
                self.died.borrow_mut().push((death, wait));
            }
            _ => {}
        }
    }

    /// How many there were.
    pub(super) fn count(&self) -> u64 {
        self.died.borrow().len() as u64
    }

    /// All of them, with the lines of the code under test.
    pub(super) fn with_lines(&self) -> Vec<Death> {
        let died = self.died.take().into_iter();
        died.map(|(death, wait)| Death {
            wait: wait.map(|wait| Wait {
                since: None,
                server: None,
                ..waits::with_line(wait)
            }),
            ..death
        })
        .collect()
    }
}
