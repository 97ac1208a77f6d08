//! Which lines of the code under test call the database, and what has become of their calls.
//!
//! A test that never met an unknown result says nothing about how the code copes with one. So every
//! run of a sweep counts pairs: a line that calls the database, and an outcome that one of its
//! calls has met. Over all seeds that becomes a table, and what is missing in it was never tested.
//!
//! The process that simulates a seed counts by numbers of places (`walk`), because looking lines up
//! takes longer than a seed. Its parent has the lines, and keeps them.

mod walk;

use crate::call_site;
use crate::verdict::{Moment, Outcome};
use serde::{Deserialize, Serialize};
use shaketable_fdbc::{CountedCall, Met, Milestone, Reached};
use std::collections::{BTreeMap, BTreeSet};

pub use walk::Found;
pub(crate) use walk::{author, learn, prepare, site, take_found, tell_apart};

/// What became of the calls of a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Covered {
    /// The line, as `src/queue.rs:88`.
    pub line: String,
    /// What it calls: `commit`, `read`, `range read`, `watch` or `read version`.
    pub call: String,
    /// What its calls have met, and how often each: `ok`, `1020`, `1021 landed`….
    pub met: BTreeMap<String, u64>,
}

impl Covered {
    /// Adds what another run has met.
    pub fn merge(all: &mut Vec<Covered>, more: &[Covered]) {
        for one in more {
            let same = |known: &&mut Covered| known.line == one.line && known.call == one.call;
            match all.iter_mut().find(same) {
                Some(known) => {
                    for (met, count) in &one.met {
                        *known.met.entry(met.clone()).or_default() += count;
                    }
                }
                None => all.push(one.clone()),
            }
        }
    }

    /// What can become of its calls besides success, as far as that is known from what has.
    pub fn possible(&self) -> &'static [&'static str] {
        let has = |met: &str| self.met.contains_key(met);
        match self.call.as_str() {
            // Nothing is sent, so nothing can go wrong.
            "commit" if self.met.keys().all(|met| met == READ_ONLY) => &[],
            // What depends on nothing has no conflicts.
            "commit" if !has(OK) && !has("1020") => &["1007", "1021 landed", "1021 lost"],
            "commit" => &["1007", "1020", "1021 landed", "1021 lost"],
            "read" => &["1007", "1009"],
            "range read" => &["1007", "1009", MORE],
            _ => &[],
        }
    }

    /// What of that its calls have never met.
    pub fn never(&self) -> Vec<&'static str> {
        let possible = self.possible().iter().copied();
        possible
            .filter(|met| !self.met.contains_key(*met))
            .collect()
    }
}

const OK: &str = "ok";
const OK_BLIND: &str = "ok, blind";
const READ_ONLY: &str = "nothing to commit";
const MORE: &str = "more";

/// What the process of a seed has counted, and what it has learned about its stack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    places: Vec<Box<[usize]>>,
    found: Vec<walk::Found>,
    /// The number of a place, the call, what it met, and how often.
    counts: Vec<(u32, String, String, u64)>,
    /// The same for what was met for the first time, or once more in a number of note, and the
    /// simulated seconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    milestones: Vec<(u32, String, String, u64, f64)>,
}

impl Counts {
    /// What was counted in this process.
    pub(crate) fn new(reached: &[Reached], milestones: &[Milestone]) -> Counts {
        let (places, found) = walk::take_places();
        let counts = reached.iter().map(|one| {
            let (call, met) = words(one.call, one.met);
            (one.site, call, met, one.count)
        });
        let milestones = milestones.iter().map(|one| {
            let (call, met) = words(one.call, one.met);
            (one.site, call, met, one.count, one.time.as_secs())
        });
        Counts {
            counts: counts.collect(),
            milestones: milestones.collect(),
            places,
            found,
        }
    }
}

/// A call and what it met, in words.
fn words(call: CountedCall, met: Met) -> (String, String) {
    let call = match call {
        CountedCall::Commit => "commit",
        CountedCall::Read => "read",
        CountedCall::RangeRead => "range read",
        CountedCall::Watch => "watch",
        CountedCall::ReadVersion => "read version",
    };
    let met = match met {
        Met::Ok => OK.to_owned(),
        Met::OkBlind => OK_BLIND.to_owned(),
        Met::OkReadOnly => READ_ONLY.to_owned(),
        Met::More => MORE.to_owned(),
        Met::Error(code) => code.to_string(),
        Met::Landed(code) => format!("{code} landed"),
        Met::Lost(code) => format!("{code} lost"),
    };
    (call.to_owned(), met)
}

/// The addresses whose lines [`settle`] will want to know.
pub(crate) fn addresses(outcome: &Outcome) -> BTreeSet<usize> {
    let places = outcome.counts.iter().flat_map(|counts| &counts.places);
    places.flatten().copied().collect()
}

/// Turns the counts of an outcome into lines in the process of the seed, if all it has met is known
/// there; returns whether it is.
pub(crate) fn settle_known(outcome: &mut Outcome) -> bool {
    let found = outcome.counts.iter().any(|counts| !counts.found.is_empty());
    let addresses = addresses(outcome);
    let known = !found && call_site::unknown(addresses.iter().copied()).is_empty();
    if known {
        add_lines(outcome, &lines_of(addresses));
    }
    known
}

/// Turns the counts of an outcome into lines, in the process that lives on and outside of every
/// simulation: looking lines up opens files.
pub fn settle(outcome: &mut Outcome) {
    if let Some(counts) = &outcome.counts {
        walk::learn(&counts.found);
    }
    let lines = lines_of(addresses(outcome));
    for (address, line) in &lines {
        walk::tell_apart(*address, line.is_some());
    }
    add_lines(outcome, &lines);
}

fn lines_of(addresses: BTreeSet<usize>) -> BTreeMap<usize, Option<String>> {
    let addresses = addresses.into_iter();
    addresses
        .map(|address| (address, call_site::line_of(address)))
        .collect()
}

fn add_lines(outcome: &mut Outcome, lines: &BTreeMap<usize, Option<String>>) {
    let Some(counts) = outcome.counts.take() else {
        return;
    };
    let line_of = |site: u32| {
        let place = counts.places.get(site as usize)?;
        let mut lines = place
            .iter()
            .filter_map(|address| lines.get(address)?.clone());
        lines.next()
    };
    for (site, call, met, count) in counts.counts {
        let one = Covered {
            line: line_of(site).unwrap_or_default(),
            call,
            met: BTreeMap::from([(met, count)]),
        };
        Covered::merge(&mut outcome.coverage, &[one]);
    }
    for (site, call, met, count, seconds) in counts.milestones {
        let line = line_of(site).unwrap_or_default();
        let often = if count == 1 {
            String::new()
        } else {
            format!(", {count} times")
        };
        outcome.moments.push(Moment {
            seconds,
            what: format!("{line}: {call} met {met}{often}"),
            distance: None,
            is_marked: false,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covered(call: &str, met: &[&str]) -> Covered {
        Covered {
            line: "src/queue.rs:88".into(),
            call: call.into(),
            met: met.iter().map(|met| ((*met).to_owned(), 1)).collect(),
        }
    }

    #[test]
    fn what_was_never_met_is_named_if_it_can_be() {
        let never = |call: &str, met: &[&str]| covered(call, met).never().join(", ");
        assert_eq!(
            never("commit", &["ok", "1020"]),
            "1007, 1021 landed, 1021 lost"
        );
        assert_eq!(
            never("commit", &["ok, blind", "1007"]),
            "1021 landed, 1021 lost"
        );
        assert_eq!(never("commit", &["nothing to commit"]), "");
        assert_eq!(never("range read", &["more", "1009"]), "1007");
        assert_eq!(never("watch", &["ok"]), "");
    }

    #[test]
    fn runs_add_up() {
        let mut all = vec![covered("read", &["ok"])];
        Covered::merge(
            &mut all,
            &[covered("read", &["ok", "1007"]), covered("commit", &["ok"])],
        );
        assert_eq!(all.len(), 2);
        assert_eq!(
            all[0].met,
            BTreeMap::from([("1007".into(), 1), ("ok".into(), 2)])
        );
    }
}
