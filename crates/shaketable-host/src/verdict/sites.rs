//! What the assertions and the buggified places of the code under test have counted.
//!
//! The crate `shaketable` writes them to the trace, which exists on every host. Here they are read
//! back.

use super::Assertion;
use std::cell::RefCell;
use std::collections::BTreeSet;

/// The counts of one run.
#[derive(Default)]
pub struct Sites {
    assertions: RefCell<Vec<Assertion>>,
    buggified: RefCell<BTreeSet<String>>,
}

impl Sites {
    /// Looks at an event of a workload.
    pub fn note(&self, event: &str, details: &[(String, String)]) {
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
            _ => {}
        }
    }

    /// The assertions, by their place.
    pub fn assertions(&self) -> Vec<Assertion> {
        self.assertions.borrow().clone()
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
        sites.note("WorkloadAssertion", &event(3, 0));
        sites.note("Unrelated", &event(100, 100));
        sites.note("WorkloadAssertion", &event(1, 2));
        let [assertion] = &sites.assertions()[..] else {
            panic!("one place")
        };
        assert_eq!((assertion.held, assertion.broken), (4, 2));
        assert_eq!(assertion.site, "src/lib.rs:7");
    }
}
