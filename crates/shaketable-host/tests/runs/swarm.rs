//! Swarm: each seed draws how it is run, and what is pinned stays as it is.

use shaketable_host::case::{Case, ReseedStreams};
use shaketable_host::plan::{Plan, Recording, Settings};
use shaketable_host::simulate;
use shaketable_host::testfile::TestFile;
use shaketable_host::verdict::{Outcome, Swarm};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const RING: &str = "
[[test]]
testTitle = 'Ring'
runFailureWorkloads = false
[[test.workload]]
testName = 'Cycle'
nodeCount = 50
transactionsPerSecond = 20.0
testDuration = 5.0
[[test.workload]]
testName = 'RandomClogging'
testDuration = 5.0
[[test.workload]]
testName = 'Attrition'
testDuration = 5.0
machinesToKill = 10
machinesToLeave = 3
reboot = true
";

fn plan(source: &str) -> Plan {
    let file = TestFile::parse(Path::new("ring.toml"), source);
    let file = file.unwrap_or_else(|error| panic!("{error}"));
    Plan::load(file, &BTreeMap::new()).unwrap()
}

fn run(source: &str, settings: &Settings, seed: u64) -> Outcome {
    simulate(&plan(source), settings, seed, &Recording::Nothing)
}

#[test]
fn seeds_differ_in_what_may_go_wrong_and_all_pass() {
    let (mut ways, mut clients, mut faults) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for seed in 0..60 {
        let outcome = run(RING, &Settings::default(), seed);
        assert_eq!(outcome.failures, [], "seed {seed}");
        let drawn = outcome.drawn;
        ways.push((drawn.swarm, drawn.buggify, drawn.stress));
        clients.insert(drawn.clients);
        faults.extend(drawn.faults);
        if drawn.swarm == Swarm::Quiet {
            assert!(outcome.faults.is_empty(), "{:?}", outcome.faults);
        }
    }
    for way in [
        (Swarm::AsTheFileSays, true, false),
        (Swarm::AsTheFileSays, false, false),
        (Swarm::Varied, true, false),
        (Swarm::Varied, true, true),
        (Swarm::Varied, false, false),
        (Swarm::Quiet, false, false),
    ] {
        assert!(ways.contains(&way), "{way:?}");
    }
    assert!(clients.len() > 6, "{clients:?}");
    for fault in [
        "Attrition",
        "Attrition (left out)",
        "broken connections (left out)",
    ] {
        assert!(faults.contains(fault), "{faults:?}");
    }
    assert!(
        faults
            .iter()
            .any(|fault| fault.starts_with("RandomClogging (at "))
    );
}

#[test]
fn what_the_file_and_the_arguments_say_is_not_drawn() {
    let file = format!("[configuration]\nbuggify = true\n{RING}");
    let asked = Settings {
        buggify: Some(false),
        clients: Some(5),
        ..Settings::default()
    };
    let off = format!("[configuration]\nswarm = false\n{RING}");
    for seed in 0..12 {
        assert!(run(&file, &Settings::default(), seed).drawn.buggify);
        let drawn = run(RING, &asked, seed).drawn;
        assert_eq!(
            (drawn.buggify, drawn.stress, drawn.clients),
            (false, false, 5)
        );
        let drawn = run(&off, &Settings::default(), seed).drawn;
        assert_eq!((drawn.swarm, drawn.buggify), (Swarm::Off, false));
        assert_eq!(drawn.faults, ["RandomClogging", "Attrition"]);
        let on = Settings {
            swarm: Some(true),
            ..Settings::default()
        };
        assert_ne!(run(&off, &on, seed).drawn.swarm, Swarm::Off);
    }
}

#[test]
fn a_case_of_a_seed_is_run_as_the_seed_is() {
    for seed in 0..12 {
        let settings = Settings::default();
        let seen = simulate(&plan(RING), &settings, seed, &Recording::Decisions);
        // Whatever other dice a case throws, it is run in the same way.
        let reseeded = Case {
            seed,
            reseed: vec![ReseedStreams {
                streams: String::new(),
                seed: 7,
                from: 0.0,
            }],
            ..Case::default()
        };
        let other = simulate(
            &plan(RING).with_case(reseeded),
            &settings,
            seed,
            &Recording::Nothing,
        );
        assert_eq!(
            (other.drawn.swarm, other.drawn.buggify, &other.drawn.faults),
            (seen.drawn.swarm, seen.drawn.buggify, &seen.drawn.faults),
            "seed {seed}"
        );
        let case = Case {
            seed,
            ..Case::default()
        };
        let pinned = Case {
            clients: Some(seen.drawn.clients),
            buggify: Some(seen.drawn.buggify),
            stress: Some(seen.drawn.stress),
            ..case.clone()
        };
        for case in [case, pinned] {
            let again = plan(RING).with_case(case);
            let again = simulate(&again, &settings, seed, &Recording::Nothing);
            assert_eq!(again.failures, [], "seed {seed}");
            assert_eq!(again.drawn, seen.drawn, "seed {seed}");
            assert_eq!(again.fingerprint, seen.fingerprint, "seed {seed}");
        }
    }
}
