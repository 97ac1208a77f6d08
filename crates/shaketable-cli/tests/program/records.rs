//! The record of a run, and `log`, which prints it.

use crate::bench::{Bench, counting, hung, text};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

fn words(arguments: &str) -> Vec<&str> {
    arguments.split(' ').collect()
}

/// The one folder of a failing seed.
fn failure(bench: &Bench) -> PathBuf {
    let folders = fs::read_dir(bench.folder.join("target/shaketable/failures")).unwrap();
    let folders: Vec<PathBuf> = folders.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(folders.len(), 1, "{folders:?}");
    folders[0].clone()
}

#[test]
fn a_run_with_a_record_is_the_same_run() {
    let bench = counting("same-with-record", "").alone();
    let unseed = |output: &[u8]| {
        let text = text(output);
        let Some((_, unseed)) = text.split_once("unseed ") else {
            panic!("no unseed in {text}");
        };
        unseed.to_owned()
    };
    for seed in ["3", "4"] {
        let trace = |folder: &str| {
            let path = bench.folder.join(folder).join(format!("bench-{seed}.json"));
            fs::read_to_string(path).unwrap()
        };
        let plain = format!("run bench.toml --seed {seed} --no-build --trace --trace-dir plain");
        let plain = bench.run(&words(&plain));
        let recorded = format!("replay bench.toml --seed {seed} --no-build --trace-dir recorded");
        let recorded = bench.run(&words(&recorded));
        assert_eq!(plain.status.code(), Some(0), "{}", text(&plain.stderr));
        assert_eq!(unseed(&plain.stdout), unseed(&recorded.stdout));
        assert_eq!(trace("plain"), trace("recorded"), "seed {seed}");
        let record = bench
            .folder
            .join(format!("target/shaketable/runs/bench-{seed}"));
        assert!(record.join("record.jsonl.gz").is_file());
        assert!(
            !bench
                .folder
                .join("target/shaketable/failures/bench-3")
                .exists()
        );
    }
}

#[test]
fn a_workload_in_c_is_recorded_too() {
    let bench = counting("log-of-c", "").alone();
    let log = |options: &str| {
        let log = format!("log bench.toml --seed 3 --no-build {options}");
        let output = bench.run(&words(&log));
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let all = log("--last 1000000");
    assert!(all.starts_with("bench.toml seed 3: passed\n"), "{all}");
    assert!(all.contains("commit → version "), "{all}");
    assert!(all.contains("commit → 1021, "), "{all}");
    assert!(all.lines().all(|line| line.chars().count() <= 100), "{all}");
    let of_one = log("--client 1 --errors");
    let titles = of_one.lines().filter(|line| line.starts_with("client "));
    assert!(titles.clone().count() > 0);
    assert!(titles.clone().all(|line| line.starts_with("client 1,")));
    let csv = log("--format csv --last 5");
    assert_eq!(csv.lines().count(), 6, "{csv}");
    let json = log("--format json --last 5 --values none");
    assert_eq!(json.lines().count(), 5, "{json}");
    assert!(!bench.folder.join("target/shaketable").exists());
}

#[test]
fn every_way_to_fail_leaves_a_folder() {
    for (what, kind) in [
        ("false", "phase failed"),
        ("never", "deadlock"),
        ("error", "error traced"),
        ("segfault", "crashed"),
        ("exit", "ended the process"),
        ("spin", "hung"),
    ] {
        let mut made = None;
        let (bench, output) = match what {
            "spin" => hung(),
            _ => made.insert({
                let bench = Bench::misbehaving(&format!("folder-{what}"), what, "start").alone();
                let run = "run bench.toml --seed 1 --no-build --hang-limit 2s --clients 3";
                let output = bench.run(&words(run));
                (bench, output)
            }),
        };
        assert_eq!(output.status.code(), Some(100), "{what}");
        let folder = failure(bench);
        let report = fs::read_to_string(folder.join("report.txt")).unwrap();
        assert!(text(&output.stdout).contains(&report), "{what}: {report}");
        assert!(report.contains("target/shaketable/failures/bench-1"));
        assert!(folder.join("trace.json").is_file(), "{what}");
        assert!(folder.join("timeline.html").is_file(), "{what}");
        let log = bench.run(&["log", folder.to_str().unwrap()]);
        assert_eq!(log.status.code(), Some(0), "{what}: {}", text(&log.stderr));
        let log = text(&log.stdout);
        assert!(log.contains(kind), "{what}: {log}");
    }
}

#[test]
fn an_interrupt_of_a_replay_leaves_a_whole_folder() {
    let bench = counting("interrupted-replay", "").alone();
    let file = bench.folder.join("bench.toml");
    let endless = fs::read_to_string(&file).unwrap();
    fs::write(&file, endless.replace("count = 30", "count = 100000000")).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_shaketable"))
        .args(words(
            "replay bench.toml --seed 3 --no-build --hang-limit 10m",
        ))
        .current_dir(&bench.folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let shell = |line: &str| Command::new("sh").args(["-c", line]).status().unwrap();
    // The trace is the first file that the run writes, and has something in it after a while.
    let results = bench.folder.join("target/shaketable");
    let begun = format!(
        "until [ -n \"$(find '{}' -name 'trace*' -size +0 2>/dev/null)\" ]; do sleep 0.1; done; kill -INT {}",
        results.display(),
        child.id()
    );
    assert!(shell(&begun).success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    assert!(shown.contains("was interrupted after"), "{shown}");
    let folder = failure(&bench);
    assert!(folder.join("timeline.html").is_file());
    let log = bench.run(&["log", folder.to_str().unwrap()]);
    assert_eq!(log.status.code(), Some(0), "{}", text(&log.stderr));
    assert!(text(&log.stdout).contains("interrupted"));
}

#[test]
fn what_is_no_record_is_an_error_that_says_why() {
    let bench = Bench::misbehaving("no-record", "false", "start").alone();
    let run = bench.run(&words("run bench.toml --seed 1 --no-build --clients 3"));
    assert_eq!(run.status.code(), Some(100));
    let record = failure(&bench).join("record.jsonl.gz");
    let whole = fs::read(&record).unwrap();
    let refused = |path: &str| {
        let output = bench.run(&["log", path]);
        assert_eq!(output.status.code(), Some(96), "{path}");
        text(&output.stderr)
    };
    fs::write(bench.folder.join("cut.jsonl.gz"), &whole[..whole.len() / 2]).unwrap();
    let cut = refused("cut.jsonl.gz");
    assert!(cut.contains("the record is cut off after"), "{cut}");
    fs::write(bench.folder.join("other.gz"), b"something else").unwrap();
    let other = refused("other.gz");
    assert!(other.contains("this is not a record"), "{other}");
    let absent = refused("absent");
    assert!(absent.contains("has no record"), "{absent}");
    let unsaid = refused("bench.toml");
    assert!(unsaid.contains("give the --seed"), "{unsaid}");
}
