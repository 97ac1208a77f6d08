//! Decisions and cases, on a cluster in which everything that chance may do does happen.

use shaketable_cluster::faults::FaultWorkload;
use shaketable_host::case::{Case, ReseedStreams, TakenDecision};
use shaketable_host::plan::{Liveness, Plan, Recording, Settings};
use shaketable_host::simulate;
use shaketable_host::testfile::TestFile;
use shaketable_host::verdict::{FailureKind, Outcome};
use shaketable_kernel::Stream;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Every fault workload, for a short while.
const EVERYTHING: &str = "
[[knobs]]
enable_read_lock_on_range = true
[[test]]
testTitle = 'Ring'
[[test.workload]]
testName = 'Cycle'
nodeCount = 100
transactionsPerSecond = 100.0
testDuration = 10.0
[[test.workload]]
testName = 'RandomClogging'
testDuration = 10.0
[[test.workload]]
testName = 'RandomClogging'
testDuration = 10.0
swizzle = 1
scale = 4.0
[[test.workload]]
testName = 'Attrition'
testDuration = 10.0
machinesToKill = 4
machinesToLeave = 3
reboot = true
killDc = false
[[test.workload]]
testName = 'Rollback'
testDuration = 10.0
meanDelay = 5.0
[[test.workload]]
testName = 'DiskFailureInjection'
testDuration = 10.0
throttleDisk = true
stallInterval = 2.0
stallPeriod = 1.0
[[test.workload]]
testName = 'RandomMoveKeys'
testDuration = 5.0
meanDelay = 1.0
[[test.workload]]
testName = 'RandomRangeLock'
maxStartDelay = 5.0
maxLockDuration = 2.0
[[test.workload]]
testName = 'ChangeConfig'
minDelayBeforeChange = 1.0
maxDelayBeforeChange = 8.0
configMode = 'commit_proxies=2'
coordinators = 'auto'
[[test.workload]]
testName = 'ClogSingleConnection'
maxDelay = 8.0
clogDuration = 2.0
[[test.workload]]
testName = 'ClogTlog'
testDuration = 10.0
[[test.workload]]
testName = 'TargetedKill'
machineToKill = 'commitproxy'
killAt = 4.0
reboot = true
[[test.workload]]
testName = 'TriggerRecoveryLoop'
startTime = 7.0
numRecoveries = 2
delayBetweenRecoveries = 1.0
";

/// The fault workloads among them, as their decisions are called.
const FAULTS: &[&str] = &[
    "Attrition",
    "ChangeConfig",
    "ClogSingleConnection",
    "ClogTlog",
    "DiskFailureInjection",
    "RandomClogging",
    "RandomClogging #2",
    "RandomMoveKeys",
    "RandomRangeLock",
    "Rollback",
    "TargetedKill",
    "TriggerRecoveryLoop",
];

fn run(seed: u64, case: Option<Case>, recording: &Recording) -> Outcome {
    let file = TestFile::parse(Path::new("ring.toml"), EVERYTHING);
    let mut file = file.unwrap_or_else(|error| panic!("{error}"));
    if let Some(case) = case {
        case.apply(&mut file);
    }
    let plan = Plan::load(file, &BTreeMap::new()).unwrap();
    let settings = Settings {
        swarm: Some(false),
        buggify: Some(true),
        stress: Some(seed % 2 == 1),
        liveness: (seed % 3 == 2).then_some(Liveness::Seconds(600)),
        ..Settings::default()
    };
    simulate(&plan, &settings, seed, recording)
}

fn listed(seed: u64, case: Option<Case>) -> Vec<TakenDecision> {
    run(seed, case, &Recording::Decisions).decisions
}

fn group(decision: &TakenDecision) -> &str {
    decision.name.split('/').next().unwrap_or_default()
}

#[test]
fn decisions_of_every_kind_are_listed_and_listing_changes_nothing() {
    let mut groups = BTreeSet::new();
    for seed in 0..6 {
        let plain = run(seed, None, &Recording::Nothing);
        let outcome = run(seed, None, &Recording::Decisions);
        assert_eq!(plain.fingerprint, outcome.fingerprint, "seed {seed}");
        assert_eq!(plain.decisions, []);
        groups.extend(
            outcome
                .decisions
                .iter()
                .map(|decision| group(decision).to_owned()),
        );
    }
    for workload in FaultWorkload::NAMES {
        assert!(FAULTS.contains(workload), "{workload} is missing here");
    }
    let others = [
        "Liveness",
        "a commit is lost",
        "a reply is lost",
        "buggify storage server limits the bytes of a range read",
        "cluster",
        "connection",
        "knob",
        "lost message",
        "read version is rejected",
        "stress storage server lags",
    ];
    for expected in FAULTS.iter().chain(&others) {
        assert!(groups.contains(*expected), "no {expected:?} in {groups:?}");
    }
}

#[test]
fn what_happened_can_be_forced_and_gives_the_same_run() {
    for seed in 0..12 {
        let outcome = run(seed, None, &Recording::Decisions);
        let texts = outcome.decisions.iter().map(TakenDecision::text);
        // A fault workload that came to nothing would be left out, with all that it asks the
        // database.
        let groups: BTreeSet<_> = outcome.decisions.iter().map(group).collect();
        let idle = FAULTS.iter().filter(|fault| !groups.contains(*fault));
        let case = Case {
            only: Some(texts.chain(idle.map(|fault| (*fault).to_owned())).collect()),
            ..Case::default()
        };
        let forced = run(seed, Some(case), &Recording::Decisions);
        let seen = |outcome: &Outcome| -> Vec<(String, f64)> {
            let decisions = outcome.decisions.iter();
            decisions.map(|one| (one.text(), one.time)).collect()
        };
        let (old, new) = (seen(&outcome), seen(&forced));
        // A list of thousands is no message.
        let parted = old.iter().zip(&new).find(|(old, new)| old != new);
        assert_eq!(parted, None, "seed {seed}");
        assert_eq!(old.len(), new.len(), "seed {seed}");
        let seconds = |outcome: &Outcome| outcome.simulated_seconds;
        assert_eq!(seconds(&forced), seconds(&outcome), "seed {seed}");
        assert_eq!(forced.failures, outcome.failures, "seed {seed}");
        assert_eq!(forced.errors, outcome.errors, "seed {seed}");
        assert_eq!(forced.faults, outcome.faults, "seed {seed}");
        assert_eq!(forced.fingerprint, outcome.fingerprint, "seed {seed}");
    }
}

/// Fault workloads whose draws depend on nothing that happens in the run.
const UNMOVED: &[&str] = &[
    "Attrition",
    "RandomClogging",
    "RandomClogging #2",
    "cluster",
    "knob",
];

#[test]
fn dropping_decisions_leaves_the_draws_of_all_others_as_they_were() {
    let random = Stream::new(1, "subsets");
    for seed in 0..12 {
        let before = listed(seed, None);
        // Sometimes a few, sometimes most.
        let share = random.uniform();
        let dropped: Vec<&TakenDecision> = before
            .iter()
            .filter(|one| one.is_event() && random.chance(share * share))
            .collect();
        let names: BTreeSet<&str> = dropped.iter().map(|one| one.name.as_str()).collect();
        let case = Case {
            drop: names.iter().map(|name| (*name).to_owned()).collect(),
            ..Case::default()
        };
        let after = listed(seed, Some(case));
        // Up to the first that is dropped, everything is as it was.
        let first = dropped.first().map_or(f64::INFINITY, |one| one.time);
        let early = |decision: &&TakenDecision| decision.time < first;
        let (old, new): (Vec<_>, Vec<_>) = (
            before.iter().filter(early).collect(),
            after.iter().filter(early).collect(),
        );
        assert_eq!(old, new, "seed {seed}");
        // The dropped ones did not happen.
        for decision in &after {
            assert_eq!(
                decision.happened,
                !names.contains(decision.name.as_str()),
                "seed {seed}: {decision:?}"
            );
        }
        // What draws from streams that nothing else uses drew the same to the end.
        for unmoved in UNMOVED {
            // In milliseconds since the first of them: the test may begin at another moment.
            let draws = |decisions: &[TakenDecision]| -> Vec<(String, i64)> {
                let of_group = decisions.iter().filter(|one| group(one) == *unmoved);
                let first = of_group.clone().next().map_or(0.0, |one| one.time);
                let after = |one: &TakenDecision| ((one.time - first) * 1000.0).round() as i64;
                of_group.map(|one| (one.text(), after(one))).collect()
            };
            assert_eq!(draws(&before), draws(&after), "seed {seed}: {unmoved}");
        }
    }
}

#[test]
fn a_cluster_of_another_shape_leaves_what_was_drawn_for_its_other_parts() {
    let random = Stream::new(2, "shapes");
    let drawn = |decisions: &[TakenDecision]| -> BTreeMap<String, Option<String>> {
        let settings = decisions.iter().filter(|one| {
            let group = group(one);
            group == "cluster" || group == "knob"
        });
        let settings = settings.map(|one| (one.name.clone(), one.outcome.clone()));
        settings.collect()
    };
    for seed in 0..6 {
        let before = drawn(&listed(seed, None));
        let names = before.keys().filter(|name| name.starts_with("cluster/"));
        let (mut drop, mut force) = (Vec::new(), Vec::new());
        for name in names {
            match random.range(0, 3_u32) {
                0 => drop.push(name.clone()),
                1 => force.push(format!("{name}: 2")),
                _ => {}
            }
        }
        let case = Case {
            drop,
            force: force.clone(),
            ..Case::default()
        };
        let outcome = run(seed, Some(case), &Recording::Decisions);
        assert_eq!(outcome.failures, [], "seed {seed}");
        for (name, number) in drawn(&outcome.decisions) {
            let chosen = force.contains(&format!("{name}: 2"));
            let expected = before.get(&name).filter(|_| !chosen);
            assert!(
                expected.is_none_or(|expected| *expected == number),
                "{name}"
            );
            assert!(!chosen || number.as_deref() == Some("2"), "{name}");
        }
    }
    let case = Case {
        drop: vec!["cluster".into()],
        ..Case::default()
    };
    let smallest = run(3, Some(case), &Recording::Nothing);
    let shape = &smallest.drawn.cluster;
    assert!(
        shape.contains("1 machine, 1 process, 1 coordinator"),
        "{shape}"
    );
}

#[test]
fn a_case_says_which_fault_workloads_there_are() {
    let all = run(4, None, &Recording::Decisions);
    let case = Case {
        faults: Some(vec!["RandomClogging #2".to_owned()]),
        ..Case::default()
    };
    let one = run(4, Some(case), &Recording::Decisions);
    assert_eq!(one.drawn.faults.len(), all.drawn.faults.len());
    let left_out = one.drawn.faults.iter();
    let left_out = left_out.filter(|fault| fault.ends_with(" (left out)"));
    assert_eq!(left_out.count() + 1, one.drawn.faults.len());
    // The one that is left acts as it would among the others.
    let acts = |outcome: &Outcome, of: &str| -> Vec<TakenDecision> {
        let decisions = outcome.decisions.iter();
        decisions.filter(|one| group(one) == of).cloned().collect()
    };
    assert_eq!(
        acts(&one, "RandomClogging #2"),
        acts(&all, "RandomClogging #2")
    );
    for other in ["Attrition", "RandomClogging", "Rollback"] {
        assert_eq!(acts(&one, other), [], "{other}");
    }
}

#[test]
fn a_case_without_decisions_is_a_calm_run() {
    let case = Case {
        only: Some(Vec::new()),
        ..Case::default()
    };
    for seed in 0..4 {
        let outcome = run(seed, Some(case.clone()), &Recording::Nothing);
        assert_eq!(outcome.failures, [], "seed {seed}");
        assert_eq!(outcome.decisions, [], "seed {seed}");
        let kills = outcome
            .faults
            .iter()
            .filter(|(name, _)| name.contains("Kill"));
        assert_eq!(kills.count(), 0, "seed {seed}: {:?}", outcome.faults);
    }
}

/// What a case is told in which nothing happens and which lists something that never comes up.
fn outdated(case: Case) -> String {
    let case = Case {
        only: Some(Vec::new()),
        ..case
    };
    let outcome = run(2, Some(case), &Recording::Nothing);
    let [failure] = &outcome.failures[..] else {
        panic!("{:?}", outcome.failures);
    };
    assert_eq!(failure.kind, FailureKind::CaseOutdated);
    failure.message.clone()
}

#[test]
fn a_case_with_a_fault_workload_or_another_seed_that_never_comes_up_fails_too() {
    let faults = Case {
        faults: Some(vec!["Attrition".into(), "Attrition #7".into()]),
        ..Case::default()
    };
    insta::assert_snapshot!(
        outdated(faults),
        @"the case no longer applies: `Attrition #7` never came up"
    );
    let reseed = |streams: &str, from| ReseedStreams {
        streams: streams.into(),
        seed: 5,
        from,
    };
    let reseeded = Case {
        reseed: vec![
            reseed("network", 0.0),
            reseed("nutwork", 0.0),
            reseed("", 1e7),
        ],
        ..Case::default()
    };
    insta::assert_snapshot!(
        outdated(reseeded),
        @"the case no longer applies: `reseed from 10000000 s`, `reseed of nutwork` never came up"
    );
}

#[test]
fn a_knob_is_forced_where_chance_has_not_chosen_it() {
    let forced = "knob/default_backoff: 0.42";
    let case = Case {
        only: Some(vec![forced.into()]),
        buggify: Some(false),
        ..Case::default()
    };
    let outcome = run(2, Some(case), &Recording::Decisions);
    assert_eq!(outcome.failures, []);
    let knob = ("default_backoff".to_owned(), "0.42".to_owned());
    assert!(outcome.drawn.knobs.contains(&knob));
    let mut taken = outcome.decisions.iter();
    assert!(taken.any(|one| one.text() == forced && one.happened && !one.by_chance));
}

#[test]
fn streams_are_listed_with_the_decisions() {
    let outcome = run(2, None, &Recording::Decisions);
    let names: Vec<&str> = outcome
        .streams
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    for expected in ["network", "layout", "knobs", "fault 0 Attrition 0"] {
        assert!(names.contains(&expected), "no {expected:?} in {names:?}");
    }
    assert!(outcome.streams.iter().all(|one| one.draws > 0));
    assert_eq!(run(2, None, &Recording::Nothing).streams, []);
}

#[test]
fn a_case_whose_decision_never_comes_up_fails_and_names_it() {
    let case = Case {
        only: Some(vec!["Attrition/kill 1".into(), "Attrition/kill 999".into()]),
        ..Case::default()
    };
    let outcome = run(2, Some(case), &Recording::Nothing);
    let [failure] = &outcome.failures[..] else {
        panic!("{:?}", outcome.failures);
    };
    assert_eq!(failure.kind, FailureKind::CaseOutdated);
    insta::assert_snapshot!(
        failure.message,
        @"the case no longer applies: `Attrition/kill 999` never came up"
    );
}
