//! What a workload asks the operating system, and what no seed controls.

use crate::bench::{Bench, counting, text};
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn what_no_seed_controls_is_named() {
    for (what, words) in [
        ("thread", "started a thread"),
        ("socket", "opened a socket"),
        ("file", "opened a file: notes.txt"),
        ("folder", "opened a file: ."),
        ("child", "started a program: true"),
        ("sleep", "slept in real time"),
    ] {
        let bench = Bench::misbehaving(&format!("uncontrolled-{what}"), what, "start");
        let output = bench.run(&["run", "bench.toml", "--seed", "1", "--no-build"]);
        assert_eq!(output.status.code(), Some(0), "{what}");
        assert!(
            text(&output.stdout).contains(words),
            "{what}: {}",
            text(&output.stdout)
        );
    }
}

#[test]
fn time_and_chance_inside_a_workload_come_from_the_seed() {
    let bench = Bench::new(
        "ask",
        "libraryName = 'misbehave'\nworkloadName = 'W'\nwhat = 'ask'\n",
    );
    let ask = |folder: &str, seed: &str| {
        let output = bench.run(&[
            "replay",
            "bench.toml",
            "--seed",
            seed,
            "--no-build",
            "--trace-dir",
            folder,
        ]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        fs::read_to_string(bench.folder.join(folder).join(format!("bench-{seed}.json"))).unwrap()
    };
    let first = ask("first", "5");
    assert!(first.contains("\"Asked\""), "{first}");
    assert_eq!(
        first,
        ask("second", "5"),
        "one seed, one trace, to the last byte"
    );
    assert_ne!(first, ask("third", "6"));
}

#[test]
fn hash_order_and_clocks_of_rust_come_from_the_seed() {
    let bench = Bench::new("stray", "libraryName = 'stray'\nworkloadName = 'W'\n");
    let trace = |folder: &str, seed: &str| {
        let output = bench.run(&[
            "replay",
            "bench.toml",
            "--seed",
            seed,
            "--no-build",
            "--trace-dir",
            folder,
        ]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let trace =
            fs::read_to_string(bench.folder.join(folder).join(format!("bench-{seed}.json")))
                .unwrap();
        let stray: Vec<String> = trace
            .lines()
            .filter(|line| line.contains("\"Stray\""))
            .map(str::to_owned)
            .collect();
        stray
    };
    let first = trace("first", "5");
    assert!(
        first
            .iter()
            .any(|line| line.contains("\"Calendar\": \"1767225601.")),
        "{first:?}"
    );
    assert!(
        first
            .iter()
            .any(|line| line.contains("\"Elapsed\": \"0ns\"")),
        "{first:?}"
    );
    assert_eq!(first, trace("second", "5"));
    let order = |lines: &[String]| {
        lines
            .iter()
            .find(|line| line.contains("\"Order\""))
            .cloned()
    };
    assert_ne!(
        order(&first),
        order(&trace("third", "6")),
        "another seed, another order"
    );
}

/// The published crates `rand`, `uuid`, `fastrand` and two generations of `getrandom`, as a layer
/// depends on them.
#[test]
fn crates_that_ask_the_machine_are_answered_from_the_seed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let bench = Bench {
        folder: root.canonicalize().unwrap(),
    };
    let traces = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("stray-traces");
    let answers = |folder: &str, seed: &str| {
        let folder = traces.join(folder);
        let output = bench.run(&[
            "replay",
            "examples/stray/stray.toml",
            "--profile",
            "dev",
            "--seed",
            seed,
            "--clients",
            "2",
            "--trace-dir",
            folder.to_str().unwrap(),
        ]);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{}{}",
            text(&output.stdout),
            text(&output.stderr)
        );
        let trace = fs::read_to_string(folder.join(format!("stray-{seed}.json"))).unwrap();
        let events = trace.lines().map(|line| {
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            event
        });
        let asked: Vec<serde_json::Value> = events
            .filter(|event| event["Type"] == "StrayAnswers")
            .collect();
        assert_eq!(asked.len(), 2, "{trace}");
        asked
    };
    let first = answers("first", "5");
    assert_eq!(first, answers("second", "5"));
    let other = answers("third", "6");
    for question in ["First", "Bytes", "Fast", "Later", "Calendar", "Elapsed"] {
        assert_ne!(first[0][question], other[0][question], "{question}");
        if question != "Calendar" && question != "Elapsed" {
            assert_ne!(first[0][question], first[1][question], "{question}");
        }
    }
}

#[test]
fn a_run_that_depends_on_addresses_is_found_out() {
    let bench = Bench::new(
        "address",
        "libraryName = 'misbehave'\nworkloadName = 'W'\nwhat = 'address'\n",
    );
    let output = bench.check_determinism("--seed 3 --seeds 2");
    let report = text(&output.stdout);
    assert_eq!(
        output.status.code(),
        Some(103),
        "{report}{}",
        text(&output.stderr)
    );
    assert!(report.contains(": Address Self="), "{report}");
    let bench = Bench::new(
        "no-address",
        "libraryName = 'misbehave'\nworkloadName = 'W'\nwhat = 'ask'\n",
    );
    let output = bench.check_determinism("--seed 3 --seeds 2");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
}

#[test]
fn runs_with_faults_are_deterministic() {
    let bench = counting("deterministic", "");
    let output = bench.check_determinism("--seed 1 --seeds 3 --buggify on");
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
}
