//! Liveness: a minority is broken for good, all else is well, and every phase must end.

use shaketable_host::plan::{Liveness, Plan, Recording, Settings};
use shaketable_host::simulate;
use shaketable_host::testfile::TestFile;
use shaketable_host::verdict::{FailureKind, Outcome};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

fn ring(configuration: &str, seconds: f64) -> Plan {
    let source = format!(
        "[configuration]\n{configuration}
        [[test]]
        testTitle = 'Ring'
        [[test.workload]]
        testName = 'Cycle'
        nodeCount = 50
        transactionsPerSecond = 20.0
        testDuration = {seconds:?}
        [[test.workload]]
        testName = 'RandomClogging'
        testDuration = 5.0
        [[test.workload]]
        testName = 'Attrition'
        testDuration = 5.0
        reboot = true"
    );
    let file = TestFile::parse(Path::new("ring.toml"), &source);
    let file = file.unwrap_or_else(|error| panic!("{error}"));
    Plan::load(file, &BTreeMap::new()).unwrap()
}

fn run(plan: &Plan, liveness: Option<Liveness>, seed: u64) -> Outcome {
    let settings = Settings {
        liveness,
        ..Settings::default()
    };
    simulate(plan, &settings, seed, &Recording::Nothing)
}

fn broken(outcome: &Outcome) -> Vec<&str> {
    let faults = outcome.drawn.faults.iter();
    let broken = faults.filter(|fault| fault.ends_with("for good"));
    broken.map(String::as_str).collect()
}

#[test]
fn a_cluster_gets_on_without_a_minority() {
    let plan = ring("", 5.0);
    let (mut ways, mut most) = (BTreeSet::new(), 0);
    for seed in 0..SEEDS {
        let outcome = run(&plan, Some(Liveness::Seconds(300)), seed);
        assert_eq!(outcome.failures, [], "seed {seed}");
        let broken = broken(&outcome);
        most = most.max(broken.len());
        for zone in broken {
            ways.insert(zone.contains("(dead)"));
        }
    }
    assert_eq!((ways.len(), most), (2, 2));
}

#[test]
fn a_phase_that_does_not_end_is_not_live() {
    let plan = ring("liveness = 20", 200.0);
    for seed in 0..5 {
        let outcome = run(&plan, None, seed);
        let [failure] = &outcome.failures[..] else {
            panic!("seed {seed}: {:?}", outcome.failures)
        };
        assert_eq!(failure.kind, FailureKind::NotLive, "seed {seed}");
        let expected = "the phase has not ended, 20 simulated seconds after ";
        assert!(failure.message.starts_with(expected), "{failure}");
        assert!(!outcome.waits.is_empty(), "seed {seed}");
        // What is said on top wins, and what does not ask for liveness is as ever.
        let off = run(&plan, Some(Liveness::Off), seed);
        assert_eq!((off.failures.len(), broken(&off).len()), (0, 0));
    }
}

#[test]
fn without_it_a_run_is_what_it_was() {
    let (plain, off) = (ring("", 5.0), ring("liveness = 0", 5.0));
    for seed in 0..5 {
        let fingerprint = run(&plain, None, seed).fingerprint;
        assert_eq!(run(&off, None, seed).fingerprint, fingerprint);
        let live = run(&plain, Some(Liveness::Seconds(300)), seed);
        let again = run(&plain, Some(Liveness::Seconds(300)), seed);
        assert_eq!(live, again);
    }
}

const SEEDS: u64 = 60;
