//! Looking everywhere: `explore`, and what a sweep says about what it has met.

use crate::bench::{Bench, counting, text};
use std::fs;

/// A bench whose results are in its own folder: the program takes that for a workspace. Three
/// increments of each client are enough.
fn alone(name: &str, options: &str) -> Bench {
    let bench = counting(name, options);
    fs::write(bench.folder.join("Cargo.lock"), "").unwrap();
    let file = bench.folder.join("bench.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("count = 30", "count = 3")).unwrap();
    let _ = fs::remove_dir_all(bench.folder.join("target"));
    bench
}

/// Runs the program; returns what it printed and its exit status.
fn run(bench: &Bench, arguments: &str) -> (String, Option<i32>) {
    let output = bench.run(&arguments.split(' ').collect::<Vec<_>>());
    let printed = text(&output.stdout) + &text(&output.stderr);
    (printed, output.status.code())
}

#[test]
fn every_lost_reply_is_tried_and_found_without_luck() {
    let bench = alone("explore", "careless = 1\n");
    let explore = "explore bench.toml --clients 2 --no-build";
    let (printed, code) = run(&bench, explore);
    assert_eq!(code, Some(100), "{printed}");
    let found = "commit 1 of client 0: its reply is lost";
    assert!(printed.contains(found), "{printed}");
    assert!(printed.contains("all "), "{printed}");
    let line = printed.lines().find(|line| line.contains(" replay "));
    let case = line.unwrap().rsplit(' ').next().unwrap();
    for command in ["run", "replay", "explain"] {
        let (printed, code) = run(&bench, &format!("{command} {case} --no-build"));
        assert_eq!(code, Some(100), "{printed}");
    }
    let (again, _) = run(&bench, explore);
    let without_time = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.starts_with("all "));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(without_time(&printed), without_time(&again));
}

#[test]
fn code_that_copes_passes_whatever_happens() {
    let bench = alone("explore-careful", "");
    let explore = "explore bench.toml --clients 2 --no-build --message-format json";
    let (printed, code) = run(&bench, explore);
    assert_eq!(code, Some(0), "{printed}");
    let report: serde_json::Value = serde_json::from_str(printed.trim()).unwrap();
    let number = |name: &str| report[name].as_u64().unwrap();
    assert_eq!(number("failed"), 0);
    assert_eq!(number("tried"), number("possible"));
    assert!(number("pairs_tried") > 0, "{printed}");
    let lines = report["lines"].as_array().unwrap();
    let commits = lines.iter().filter(|line| line["kind"] == "commit");
    let landed = commits.map(|line| line["outcomes"]["reply_lost"]["passed"].as_u64());
    assert_eq!(landed.flatten().sum::<u64>(), 6, "{printed}");
}

#[test]
fn what_a_sweep_has_never_met_is_named_and_can_be_demanded() {
    let bench = alone("coverage", "");
    let (printed, code) = run(&bench, "run bench.toml --seed 1 --seeds 4 --no-build");
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains("outcomes were met"), "{printed}");
    let demanding = "run bench.toml --seed 1 --seeds 2 --no-build --require-coverage";
    let (printed, code) = run(&bench, demanding);
    assert_eq!(code, Some(100), "{printed}");
    assert!(printed.contains("--require-coverage: "), "{printed}");
    let stressed = "run bench.toml --seed 1 --seeds 20 --stress --no-build --message-format json";
    let (printed, _) = run(&bench, stressed);
    let summary = printed.lines().last().unwrap();
    let summary: serde_json::Value = serde_json::from_str(summary).unwrap();
    let coverage = summary["coverage"].as_array().unwrap();
    let met = |call: &str, met: &str| -> u64 {
        let lines = coverage.iter().filter(|line| line["call"] == call);
        lines.filter_map(|line| line["met"][met].as_u64()).sum()
    };
    assert!(met("commit", "ok") > 0, "{printed}");
    assert!(met("commit", "1021 landed") > 0, "{printed}");
    assert!(met("commit", "1021 lost") > 0, "{printed}");
    assert!(met("read", "ok") > 0, "{printed}");
}
