//! Many seeds: which are run, how a sweep ends, what is reported, to people and to programs.

use crate::bench::{Bench, counting, text};
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

#[test]
fn folders_are_searched_for_test_files() {
    let bench = Bench::misbehaving("folder", "nothing", "start");
    fs::create_dir_all(bench.folder.join("below/empty")).unwrap();
    fs::copy(
        bench.folder.join("bench.toml"),
        bench.folder.join("below/bench.toml"),
    )
    .unwrap();
    let run = |arguments: &str| bench.run(&arguments.split(' ').collect::<Vec<_>>());
    let output = run("run . --seed 1 --seeds 2 --no-build");
    let report = text(&output.stdout);
    assert!(report.starts_with("4 runs: passed"), "{report}");
    let output = run("run below/empty --seed 1");
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
}

#[test]
fn errors_and_faults_are_counted() {
    let bench = counting("stats", "");
    let output = bench.run(&[
        "stats",
        "bench.toml",
        "--seed",
        "1",
        "--seeds",
        "4",
        "--no-build",
        "--message-format",
        "json",
    ]);
    let lines = text(&output.stdout);
    let summary: serde_json::Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert!(summary["errors"]["1021"].as_u64() > Some(0), "{summary}");
    assert!(
        summary["faults"]["RebootingProcess"].as_u64() > Some(0),
        "{summary}"
    );
}

#[test]
fn json_messages_tell_every_run_and_the_summary() {
    let bench = Bench::misbehaving("json", "error", "check");
    let output = bench.run(&[
        "run",
        "bench.toml",
        "--seed",
        "1",
        "--seeds",
        "5",
        "--no-build",
        "--message-format",
        "json",
    ]);
    let lines = text(&output.stdout);
    let kinds: Vec<String> = lines
        .lines()
        .map(|line| {
            let message: serde_json::Value = serde_json::from_str(line).unwrap();
            message["type"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "start", "run", "run", "run", "run", "run", "failure", "summary"
        ]
    );
}

#[test]
fn the_line_to_paste_shows_the_failure_again() {
    let bench = Bench::misbehaving("paste", "error", "check");
    let output = bench.run(&[
        "run",
        "bench.toml",
        "--seed",
        "1",
        "--seeds",
        "3",
        "--no-build",
        "--buggify",
        "on",
    ]);
    let lines = text(&output.stdout);
    let line = lines
        .lines()
        .find_map(|line| line.trim().strip_prefix("reproduce"));
    let words: Vec<&str> = line.unwrap().split_whitespace().collect();
    assert_eq!(words[0], "shaketable", "{lines}");
    let again = bench.run(&words[1..]);
    assert_eq!(again.status.code(), Some(100));
    assert!(
        text(&again.stdout).contains("InvariantBroken"),
        "{}",
        text(&again.stdout)
    );
}

#[test]
fn reports_for_machines_are_written_beside_the_one_for_people() {
    let bench = Bench::misbehaving("machines", "error", "check");
    let summary = bench.folder.join("summary.md");
    let _ = fs::remove_file(&summary);
    let arguments = "run bench.toml --seed 1 --seeds 40 --no-build --jobs 2 --shard 2/4 --fail-fast --junit junit.xml";
    let output = Command::new(env!("CARGO_BIN_EXE_shaketable"))
        .args(arguments.split(' '))
        .current_dir(&bench.folder)
        .env("NO_COLOR", "1")
        .env("GITHUB_STEP_SUMMARY", &summary)
        .env_remove("CARGO_PKG_NAME")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(100), "{}", text(&output.stderr));
    let report = text(&output.stdout);
    assert!(
        report.contains("FAIL bench.toml seed 2"),
        "the second of four parts: {report}"
    );
    let again = "reproduce: shaketable replay bench.toml --seed 2 --no-build";
    let junit = fs::read_to_string(bench.folder.join("junit.xml")).unwrap();
    assert!(
        junit.contains(again) && junit.contains("failures=\"1\""),
        "{junit}"
    );
    let summary = fs::read_to_string(summary).unwrap();
    assert!(summary.contains("InvariantBroken"), "{summary}");
}

#[test]
fn seeds_are_run_until_the_time_is_over() {
    let bench = Bench::misbehaving("until", "nothing", "start");
    let arguments = "run bench.toml --for 1s --no-build --message-format json";
    let output = bench.run(&arguments.split(' ').collect::<Vec<_>>());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let lines = text(&output.stdout);
    let summary: serde_json::Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert!(summary["passed"].as_u64() > Some(0), "{summary}");
}

/// Sweeps without end, interrupts when a message contains a text, and returns the messages and the
/// exit status.
fn interrupted_after(bench: &Bench, awaited: &str) -> (Vec<serde_json::Value>, Option<i32>) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_shaketable"))
        .args("run bench.toml --seeds 100000000 --no-build --message-format json".split(' '))
        .current_dir(&bench.folder)
        .env_remove("GITHUB_STEP_SUMMARY")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // Everything is under way when the message has come.
    for line in lines.by_ref() {
        if line.unwrap().contains(awaited) {
            break;
        }
    }
    let interrupt = format!("kill -INT {}", child.id());
    assert!(
        Command::new("sh")
            .args(["-c", &interrupt])
            .status()
            .unwrap()
            .success()
    );
    let messages = lines.map_while(Result::ok);
    let messages = messages.map(|line| serde_json::from_str(&line).unwrap());
    (messages.collect(), child.wait().unwrap().code())
}

#[test]
fn an_interrupt_ends_a_sweep_with_a_summary() {
    let bench = Bench::misbehaving("interrupted", "nothing", "start");
    let (messages, code) = interrupted_after(&bench, "\"type\":\"run\"");
    let last = messages.last().unwrap();
    assert_eq!(last["type"], "summary", "{last}");
    assert_eq!(code, Some(130));
}

#[test]
fn output_that_is_no_longer_read_ends_a_sweep_without_a_word() {
    let bench = Bench::misbehaving("unread", "nothing", "start");
    let mut child = Command::new(env!("CARGO_BIN_EXE_shaketable"))
        .args("run bench.toml --seeds 100000000 --no-build --message-format json".split(' '))
        .current_dir(&bench.folder)
        .env_remove("GITHUB_STEP_SUMMARY")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut first).unwrap();
    assert!(first.contains("\"type\":\"start\""), "{first}");
    drop(output);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(141));
    assert!(
        !text(&output.stderr).contains("panicked"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_failure_of_an_interrupted_sweep_is_explained_by_its_own_seed() {
    // A client of this number exists in one seed out of five: the seeds under way when the
    // interrupt comes, whose responses are still to arrive, mostly pass.
    let options = "libraryName = 'misbehave'\nworkloadName = 'W'\nwhat = 'error'\nwhere = 'check'\nonClient = 7\n";
    let bench = Bench::new("interrupted-failing", options);
    let (messages, code) = interrupted_after(&bench, "\"passed\":false");
    assert_eq!(code, Some(100));
    let [failure] = &messages
        .iter()
        .filter(|message| message["type"] == "failure")
        .collect::<Vec<_>>()[..]
    else {
        panic!("one cause: {messages:?}")
    };
    let outcome = &failure["outcome"];
    assert_eq!(outcome["seed"], failure["seeds"][0], "{failure}");
    assert_eq!(outcome["uncontrolled"], serde_json::json!([]), "{failure}");
    let trace = outcome["trace"].as_str().unwrap();
    assert!(trace.contains(&failure["seeds"][0].to_string()), "{trace}");
    assert!(bench.folder.join(trace).is_file(), "{trace}");
}

#[test]
fn a_sweep_with_traces_uses_all_workers_and_leaves_one_trace_per_seed() {
    let bench = Bench::misbehaving("traced", "nothing", "start");
    let _ = fs::remove_dir_all(bench.folder.join("traces"));
    let arguments = "run bench.toml --seed 1 --seeds 6 --jobs 3 --no-build --trace --trace-dir traces --message-format json";
    let output = bench.run(&arguments.split(' ').collect::<Vec<_>>());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let start = text(&output.stdout);
    assert!(
        start.lines().next().unwrap().contains("\"jobs\":3"),
        "{start}"
    );
    for seed in 1..=6 {
        let trace = bench.folder.join(format!("traces/bench-{seed}.json"));
        let trace = fs::read_to_string(trace).unwrap();
        let own = format!("\"RandomSeed\": \"{seed}\"");
        assert!(trace.contains(&own), "seed {seed}");
    }
}

#[test]
fn what_cannot_run_has_its_exit_status() {
    let bench = Bench::misbehaving("status", "nothing", "start");
    let status = |arguments: &[&str]| bench.run(arguments).status.code();
    assert_eq!(status(&["run", "absent.toml"]), Some(96));
    assert_eq!(
        status(&["run", "bench.toml", "--seed", "99999999999999999999"]),
        Some(2)
    );
    assert_eq!(
        status(&[
            "run",
            "bench.toml",
            "--no-build",
            "--seeds",
            "1",
            "--shard",
            "2/2"
        ]),
        Some(4)
    );
    assert_eq!(status(&["list", "."]), Some(0));
}
