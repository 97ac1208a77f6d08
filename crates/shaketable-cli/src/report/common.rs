//! What failing runs have in common and passing ones have not.
//!
//! Every run shows *features*: the faults it drew, the buggified places and knobs, the shape of the
//! cluster, the errors that reached the workload, the assertions that were seen to hold. After a
//! sweep, each feature divides the runs in two, and failures are more frequent on one side. If that
//! is more than chance allows, by Fisher's exact test, corrected for the number of features that
//! were looked at, it is reported. It is a correlation: what causes the failure is for `explain`
//! and `minimise` to say.

use crate::chance::Share;
use serde::Serialize;
use shaketable_host::verdict::{Drawn, Outcome};
use std::collections::{BTreeMap, BTreeSet};

/// How many runs of each feature passed and failed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Features {
    runs: u64,
    counts: BTreeMap<String, u64>,
}

impl Features {
    /// Adds a run.
    pub fn add(&mut self, outcome: &Outcome) {
        self.runs += 1;
        for feature in features(outcome) {
            *self.counts.entry(feature).or_default() += 1;
        }
    }
}

/// A feature that goes with a failure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Common {
    /// What it is.
    pub feature: String,
    /// In which share of the runs that failed in this way it is there.
    pub among_failing: f64,
    /// In which share of the passing runs it is there.
    pub among_passing: f64,
    /// The chance that so great a difference comes about by chance.
    pub p_value: f64,
}

/// A difference must be less likely than this to come about by chance.
const SIGNIFICANT: f64 = 0.01;
/// A difference smaller than this tells a person nothing.
const NOTEWORTHY: f64 = 0.2;
/// How many are worth reading.
const REPORTED_MAX: usize = 4;

/// The features that failing runs have more often than passing ones, the clearest first.
pub fn common(failing: &Features, passing: &Features) -> Vec<Common> {
    let names: BTreeSet<&String> = failing.counts.keys().collect();
    let looked_at = names.len().max(1) as f64;
    let mut found: Vec<Common> = names
        .into_iter()
        .map(|feature| {
            let count = |features: &Features| features.counts.get(feature).copied().unwrap_or(0);
            let (failed, passed) = (count(failing), count(passing));
            let share = |hits: u64, of: u64| Share { hits, of };
            let (failed, passed) = (share(failed, failing.runs), share(passed, passing.runs));
            Common {
                feature: feature.clone(),
                among_failing: failed.value(),
                among_passing: passed.value(),
                p_value: (failed.more_by_chance(passed) * looked_at).min(1.0),
            }
        })
        .filter(|common| {
            let more = common.among_failing - common.among_passing;
            common.p_value < SIGNIFICANT && more >= NOTEWORTHY
        })
        .collect();
    found.sort_by(|one, other| one.p_value.total_cmp(&other.p_value));
    found.truncate(REPORTED_MAX);
    found
}

/// Everything that can be told apart about a run, except how it ended.
fn features(outcome: &Outcome) -> BTreeSet<String> {
    let Drawn {
        clients,
        swarm,
        buggify,
        stress,
        cluster,
        faults,
        buggified,
        knobs,
    } = &outcome.drawn;
    let mut features = BTreeSet::new();
    features.extend((3..=*clients).map(|least| format!("at least {least} clients")));
    features.extend(
        cluster
            .split([',', ' '])
            .filter(|word| word.contains('='))
            .map(str::to_owned),
    );
    features.extend(buggify.then(|| "buggify".to_owned()));
    features.extend(stress.then(|| "stress".to_owned()));
    features.extend(swarm.describe().map(str::to_owned));
    features.extend(faults.iter().filter_map(|fault| fault_that_runs(fault)));
    features.extend(buggified.iter().map(|site| format!("buggify: {site}")));
    features.extend(
        knobs
            .iter()
            .map(|(name, _)| format!("the knob {name} is not as usual")),
    );
    features.extend(outcome.errors.keys().map(|code| {
        let name = shaketable_host::error_name(*code);
        format!("error {code} {name} reached a client")
    }));
    let held = outcome.assertions.iter().filter(|one| one.held > 0);
    features.extend(
        held.filter(|one| one.kind == "sometimes" || one.kind == "reachable")
            .map(|one| format!("{} at {}", one.message, one.site)),
    );
    features
}

/// A fault workload that the seed did not leave out, whatever its strength.
fn fault_that_runs(drawn: &str) -> Option<String> {
    let ran = !drawn.ends_with("(left out)") && !drawn.ends_with("(switched off)");
    let name = drawn.split(" (at ").next().unwrap_or(drawn);
    ran.then(|| format!("the fault workload {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(features: &mut Features, runs: u64, with: &[(&str, u64)]) {
        features.runs = runs;
        for (name, count) in with {
            features.counts.insert((*name).to_owned(), *count);
        }
    }

    #[test]
    fn what_goes_with_a_failure_is_found_and_what_is_always_there_is_not() {
        let (mut failing, mut passing) = (Features::default(), Features::default());
        let seldom = [("1021", 30), ("1020", 28), ("4 clients", 30), ("odd", 17)];
        sample(&mut failing, 30, &seldom);
        let often = [("1021", 12), ("1020", 66), ("4 clients", 70), ("odd", 35)];
        sample(&mut passing, 70, &often);
        let found = common(&failing, &passing);
        let names: Vec<&str> = found.iter().map(|one| one.feature.as_str()).collect();
        assert_eq!(names, ["1021"]);
        assert!(found[0].p_value < 1e-9);
    }

    #[test]
    fn few_runs_prove_nothing() {
        let (mut failing, mut passing) = (Features::default(), Features::default());
        sample(&mut failing, 2, &[("1021", 2)]);
        sample(&mut passing, 3, &[("1021", 0)]);
        assert_eq!(common(&failing, &passing), []);
    }
}
