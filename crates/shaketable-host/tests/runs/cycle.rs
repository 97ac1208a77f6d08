//! Test files without a library: the built-in workload Cycle, and what the tester does around it.

use shaketable_host::plan::{Plan, Recording, Settings};
use shaketable_host::simulate;
use shaketable_host::testfile::TestFile;
use shaketable_host::verdict::{FailureKind, Outcome, Phase};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

fn run(source: &str, seed: u64, settings: &Settings) -> Outcome {
    let file = TestFile::parse(Path::new("cycle.toml"), source).unwrap_or_else(|e| panic!("{e}"));
    let plan = Plan::load(file, &BTreeMap::new()).unwrap();
    simulate(&plan, settings, seed, &Recording::Nothing)
}

/// No seed draws how it is run: these tests are about something else.
fn as_the_file_says() -> Settings {
    Settings {
        swarm: Some(false),
        ..Settings::default()
    }
}

fn metrics(outcome: &Outcome, name: &str) -> Vec<f64> {
    let named = outcome.metrics.iter().filter(|metric| metric.name == name);
    named.map(|metric| metric.value).collect()
}

const RING: &str = "
[[test.workload]]
testName = 'Cycle'
nodeCount = 100
transactionsPerSecond = 100.0
testDuration = 10.0
";

const FAULTS: &str = "
[[test.workload]]
testName = 'RandomClogging'
testDuration = 10.0
[[test.workload]]
testName = 'Attrition'
testDuration = 10.0
machinesToKill = 10
machinesToLeave = 3
reboot = true
[[test.workload]]
testName = 'Rollback'
testDuration = 10.0
";

#[test]
fn a_ring_stays_one_ring_whatever_breaks() {
    // Ten seconds in which everything breaks may hold no transaction at all; not all of them do.
    let file = format!("[[test]]\ntestTitle = 'Ring'\n{RING}{FAULTS}");
    let (mut transactions, mut conflicts) = (Vec::new(), 0);
    for seed in 0..4 {
        let buggify = Some(seed % 2 == 1);
        let settings = Settings {
            buggify,
            ..as_the_file_says()
        };
        let outcome = run(&file, seed, &settings);
        assert_eq!(outcome.failures, [], "seed {seed}");
        transactions.push(metrics(&outcome, "Cycle.Transactions")[0]);
        conflicts += outcome.errors.get(&1020).copied().unwrap_or(0);
        let again = run(&file, seed, &settings);
        assert_eq!(outcome.fingerprint, again.fingerprint, "seed {seed}");
    }
    let busy = transactions.iter().filter(|count| **count > 10.0).count();
    assert!(busy >= 2, "{transactions:?}");
    assert!(conflicts > 0, "no two clients conflicted");
}

#[test]
fn metrics_are_those_of_foundationdb() {
    let file = format!("[[test]]\ntestTitle = 'Ring'\nrunFailureWorkloads = false\n{RING}");
    let outcome = run(&file, 1, &as_the_file_says());
    let names: Vec<&str> = outcome
        .metrics
        .iter()
        .map(|metric| metric.name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "Cycle.Avg Latency (ms)",
            "Cycle.Read rows/simsec (approx)",
            "Cycle.Retries",
            "Cycle.Retries.commit_failed",
            "Cycle.Retries.too_old",
            "Cycle.Transactions",
            "Cycle.Write rows/simsec (approx)",
        ]
    );
    let transactions = metrics(&outcome, "Cycle.Transactions")[0];
    // A hundred a second, less what a growing file of a log holds up.
    assert!((300.0..1300.0).contains(&transactions), "{transactions}");
    let rows = |kind: &str| metrics(&outcome, &format!("Cycle.{kind} rows/simsec (approx)"))[0];
    assert!(
        (rows("Read") / rows("Write") - 1.5).abs() < 1e-9,
        "3 read and 4 written, twice"
    );
    let latency = metrics(&outcome, "Cycle.Avg Latency (ms)")[0];
    assert!((1.0..1000.0).contains(&latency), "{latency}");
}

#[test]
fn a_torn_ring_is_found() {
    let another = RING.replace("100\n", "120\nskipSetup = true\nactorsPerClient = 0\n");
    let file = format!(
        "[[test]]\ntestTitle = 'First'\nclearAfterTest = false\n{RING}\n[[test]]\ntestTitle = 'Second'\n{another}"
    );
    let outcome = run(&file, 1, &as_the_file_says());
    assert_eq!((outcome.tests_passed, outcome.tests_failed), (1, 1));
    let [check] = &outcome.failures[..] else {
        panic!("{:?}", outcome.failures);
    };
    assert_eq!(
        (check.kind, check.phase),
        (FailureKind::CheckFailed, Phase::Check)
    );
    assert_eq!((check.client, check.workload.as_str()), (Some(0), "Cycle"));
    assert_eq!(
        check.message,
        "TestFailure Reason=Node count changed, Before=120, After=100, KeyPrefix="
    );
}

#[test]
fn a_rate_is_expected_only_where_a_file_asks_for_one() {
    let busy = RING.replace("100.0", "1000.0");
    let file = format!("[[test]]\ntestTitle = 'Slow'\n{busy}");
    let outcome = run(&file, 1, &as_the_file_says());
    assert_eq!(outcome.failures, [], "nothing could be that fast");
    let older = format!("{file}expectedRate = 0.7\n");
    let outcome = run(&older, 1, &as_the_file_says());
    assert_eq!((outcome.tests_passed, outcome.tests_failed), (0, 1));
    let told = &outcome.failures[0].message;
    let expected = "TestFailure Reason=Rate below desired rate, Details=0.";
    assert!(told.starts_with(expected), "{told}");
    let none = format!("{file}expectedRate = 0\n");
    assert_eq!(run(&none, 1, &as_the_file_says()).failures, []);
}

#[test]
fn a_seed_draws_four_to_eight_clients() {
    let file = "[[test]]\ntestTitle = 'Clogs'\nrunFailureWorkloads = false\n[[test.workload]]\ntestName = 'RandomClogging'\ntestDuration = 0.1\n";
    let clients = (0..40).map(|seed| run(file, seed, &as_the_file_says()).drawn.clients);
    let drawn: BTreeSet<u32> = clients.collect();
    assert_eq!(drawn, BTreeSet::from([4, 5, 6, 7, 8]));
    let settings = Settings {
        clients: Some(3),
        ..as_the_file_says()
    };
    assert_eq!(run(file, 1, &settings).drawn.clients, 3);
}

#[test]
fn without_a_database_there_is_no_ring() {
    let file = format!("[[test]]\ntestTitle = 'None'\nuseDB = false\n{RING}");
    let outcome = run(&file, 1, &as_the_file_says());
    assert_eq!(outcome.failures[0].kind, FailureKind::NotCreated);
}

#[test]
fn knobs_of_a_test_hold_for_that_test_and_lose_against_those_asked_for() {
    let knobs = "[[test.knobs]]\nmax_write_transaction_life_versions = 10\n";
    let test = |title: &str, knobs: &str| {
        format!(
            "[[test]]\ntestTitle = '{title}'\nrunFailureWorkloads = false\ntimeout = 60\n{knobs}{}",
            RING
        )
    };
    let file = [test("Before", ""), test("Narrow", knobs), test("After", "")].concat();
    let too_old = |settings: &Settings| {
        let outcome = run(&file, 1, settings);
        metrics(&outcome, "Cycle.Retries.too_old")
    };
    let counts = too_old(&as_the_file_says());
    // With a window of ten microseconds even setting up keeps failing: the test times out and has
    // no metrics.
    assert_eq!(counts, [0.0, 0.0], "before and after");
    let asked = (
        "max_write_transaction_life_versions".to_owned(),
        "5000000".to_owned(),
    );
    let settings = Settings {
        knobs: vec![asked],
        ..as_the_file_says()
    };
    assert_eq!(too_old(&settings), [0.0, 0.0, 0.0]);
}

#[test]
fn without_fault_injection_nothing_is_killed_by_attrition_and_clogs_go_on() {
    let file = format!("[[test]]\ntestTitle = 'Ring'\nrunFailureWorkloads = false\n{RING}{FAULTS}");
    let faults = |on: bool| {
        let file = TestFile::parse(Path::new("cycle.toml"), &file).unwrap();
        let plan = Plan::load(file, &BTreeMap::new()).unwrap();
        let settings = Settings {
            fault_injection: Some(on),
            ..as_the_file_says()
        };
        simulate(&plan, &settings, 3, &Recording::Faults)
    };
    let killed = |outcome: &Outcome| outcome.faults.contains_key("RebootingProcess");
    let (on, off) = (faults(true), faults(false));
    assert!(
        killed(&on) && !killed(&off),
        "{:?} {:?}",
        on.faults,
        off.faults
    );
    assert!(off.faults.contains_key("ClogInterface"), "{:?}", off.faults);
    assert!(
        off.drawn
            .faults
            .contains(&"Attrition (switched off)".to_owned())
    );
}
