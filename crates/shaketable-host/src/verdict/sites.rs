//! What the code under test has counted: its assertions, marks and buggified places, and what the
//! database has answered it.
//!
//! The crate `shaketable` writes them to the trace, which exists on every host. Here they are read
//! back.

use super::calls::{self, Answers, Callers};
use super::{Assertion, Moment};
use crate::coverage::Covered;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// The counts of one run.
#[derive(Default)]
pub struct Sites {
    assertions: RefCell<Vec<Assertion>>,
    buggified: RefCell<BTreeSet<String>>,
    moments: RefCell<Vec<Moment>>,
    calls: RefCell<BTreeMap<String, Answers>>,
    callers: RefCell<Callers>,
}

impl Sites {
    /// Looks at an event of a workload.
    pub fn note(&self, seconds: f64, event: &str, details: &[(String, String)]) {
        let text = |key: &str| {
            let detail = details.iter().find(|(name, _)| name == key);
            detail.map_or(String::new(), |(_, value)| value.clone())
        };
        let count = |key: &str| text(key).parse::<u64>().unwrap_or(0);
        match event {
            "WorkloadAssertion" => {
                let news = Assertion {
                    site: text("Site"),
                    kind: text("Kind"),
                    message: text("Message"),
                    held: count("Held"),
                    broken: count("Broken"),
                };
                Assertion::merge(&mut self.assertions.borrow_mut(), &[news]);
            }
            "WorkloadBuggify" => {
                let place = format!("{} ({})", text("Name"), text("Site"));
                self.buggified.borrow_mut().insert(place);
            }
            calls::EVENT => calls::add(&mut self.calls.borrow_mut(), details),
            calls::LINE_EVENT => {
                self.callers.borrow_mut().add(details);
            }
            "WorkloadMark" => {
                let (kind, message, value) = (text("Kind"), text("Message"), text("Value"));
                let distance = match kind.as_str() {
                    "closest" => value.parse().ok(),
                    _ => None,
                };
                let what = match distance {
                    Some(_) => format!("closest to {message}"),
                    None => format!("{message}: {value}"),
                };
                self.moments.borrow_mut().push(Moment {
                    seconds,
                    what,
                    distance,
                    is_marked: true,
                });
            }
            _ => {}
        }
    }

    /// An assertion held for the first time.
    pub fn note_first(&self, seconds: f64, assertion: &str) {
        self.moments.borrow_mut().push(Moment {
            seconds,
            what: assertion.to_owned(),
            distance: None,
            is_marked: true,
        });
    }

    /// What was met for the first time.
    pub fn moments(&self) -> Vec<Moment> {
        self.moments.borrow().clone()
    }

    /// The assertions, by their place.
    pub fn assertions(&self) -> Vec<Assertion> {
        self.assertions.borrow().clone()
    }

    /// What became of the calls of the workload, by their kind.
    pub fn calls(&self) -> BTreeMap<String, Answers> {
        self.calls.borrow().clone()
    }

    /// What became of the calls of each line, where the library has told places. Opens files.
    pub fn coverage(&self) -> Vec<Covered> {
        self.callers.borrow().coverage()
    }

    /// The active places of the workload.
    pub fn buggified(&self) -> Vec<String> {
        self.buggified.borrow().iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_one_place_are_added_up() {
        let sites = Sites::default();
        let event = |held: u32, broken: u32| {
            [
                ("Kind", "always".to_owned()),
                ("Message", "sound".to_owned()),
                ("Site", "src/lib.rs:7".to_owned()),
                ("Held", held.to_string()),
                ("Broken", broken.to_string()),
            ]
            .map(|(key, value)| (key.to_owned(), value))
        };
        sites.note(1.0, "WorkloadAssertion", &event(3, 0));
        sites.note(1.0, "Unrelated", &event(100, 100));
        sites.note(2.0, "WorkloadAssertion", &event(1, 2));
        let [assertion] = &sites.assertions()[..] else {
            panic!("one place")
        };
        assert_eq!((assertion.held, assertion.broken), (4, 2));
        assert_eq!(assertion.site, "src/lib.rs:7");
    }
}
