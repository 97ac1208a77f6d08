//! Seeds of 64 bits: whatever takes a seed takes them all, and whatever tells one tells it exactly.

use crate::bench::{Bench, text};
use serde_json::Value;
use std::fs;

/// One that no double holds, and so no number of JavaScript.
const WIDE: &str = "9007199254740993";
/// The last of all.
const LAST: &str = "18446744073709551615";

/// The exit status, and all that was printed.
fn run(bench: &Bench, line: &str) -> (Option<i32>, String) {
    let arguments: Vec<&str> = line.split(' ').collect();
    let output = bench.run(&arguments);
    let told = text(&output.stdout) + &text(&output.stderr);
    (output.status.code(), told)
}

fn failing(name: &str) -> Bench {
    let bench = Bench::misbehaving(name, "error", "check");
    // What runs leave goes below the nearest workspace.
    fs::write(bench.folder.join("Cargo.lock"), "").expect("a file");
    bench
}

/// The messages of a command.
fn messages(bench: &Bench, line: &str) -> Vec<Value> {
    let line = format!("{line} --no-build --message-format json");
    let arguments: Vec<&str> = line.split(' ').collect();
    let output = bench.run(&arguments);
    let told = text(&output.stdout);
    let messages = told.lines().map(serde_json::from_str);
    let messages: Result<Vec<Value>, _> = messages.collect();
    let messages = messages.unwrap_or_else(|error| panic!("{line}: {error}: {told}"));
    assert!(!messages.is_empty(), "{line}: {}", text(&output.stderr));
    messages
}

/// Every seed in a message, whatever its name.
fn seeds(message: &Value, found: &mut Vec<Value>) {
    match message {
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), value) {
                    ("seed" | "first_seed", seed) => found.push(seed.clone()),
                    ("seeds", Value::Array(seeds)) => found.extend(seeds.iter().cloned()),
                    (_, inner) => seeds_in(inner, found),
                }
            }
        }
        inner => seeds_in(inner, found),
    }
}

fn seeds_in(value: &Value, found: &mut Vec<Value>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| seeds(value, found)),
        Value::Object(_) => seeds(value, found),
        _ => {}
    }
}

#[test]
fn every_message_tells_a_wide_seed_exactly() {
    let bench = failing("wide-seeds-in-messages");
    for (command, kind) in [
        ("run bench.toml --minimise=never", "failure"),
        ("replay bench.toml", "failure"),
        ("minimise bench.toml --budget 2s", "minimised"),
        ("when bench.toml --futures 2 --budget 2s", "when"),
        ("explain bench.toml", "explanation"),
    ] {
        let messages = messages(&bench, &format!("{command} --seed {WIDE}"));
        let has_kind = messages.iter().any(|message| message["type"] == kind);
        assert!(has_kind, "{command}: {messages:?}");
        let mut told = Vec::new();
        messages
            .iter()
            .for_each(|message| seeds(message, &mut told));
        assert!(told.contains(&Value::from(WIDE)), "{command}: {told:?}");
        let others: Vec<&Value> = told.iter().filter(|seed| **seed != WIDE).collect();
        // A summary counts seeds, and what is made small may have found another one.
        let is_small = |seed: &&Value| seed.as_u64().is_some_and(|seed| seed < 1 << 53);
        assert!(others.iter().all(is_small), "{command}: {others:?}");
    }
}

#[test]
fn a_wide_seed_is_kept_and_run_again() {
    let bench = failing("wide-seeds-kept");
    let line = format!("run bench.toml --seed {LAST} --no-build --minimise=never --junit j.xml");
    let (code, report) = run(&bench, &line);
    assert_eq!(code, Some(100), "{report}");
    let again = format!("replay bench.toml --seed {LAST}");
    assert!(report.contains(&again), "{report}");
    let junit = fs::read_to_string(bench.folder.join("j.xml")).expect("a report");
    assert!(junit.contains(LAST), "{junit}");
    let folder = format!("target/shaketable/failures/bench-{LAST}");
    let folder = bench.folder.join(folder);
    let page = fs::read_to_string(folder.join("timeline.html")).expect("a page");
    // A text in what the page's script reads.
    assert!(page.contains(&format!("\"seed\":\"{LAST}\"")), "the page");
    let (code, report) = run(
        &bench,
        &format!("minimise bench.toml --seed {LAST} --budget 2s --no-build -o small.toml"),
    );
    assert_eq!(code, Some(0), "{report}");
    let case = fs::read_to_string(bench.folder.join("small.toml")).expect("a case");
    assert!(case.contains("seed = \""), "{case}");
    let (code, report) = run(&bench, "run small.toml --no-build --minimise=never");
    assert_eq!(code, Some(100), "{report}");
}

#[test]
fn a_sweep_crosses_32_bits_and_begins_anew_after_64() {
    let bench = Bench::misbehaving("wide-sweeps", "nothing", "start");
    let told = |first: &str, more: &str| -> Vec<Value> {
        let line = format!("run bench.toml --seed {first} --seeds 3 --jobs 1{more}");
        let messages = messages(&bench, &line);
        let runs = messages.iter().filter(|message| message["type"] == "run");
        runs.map(|message| message["seed"].clone()).collect()
    };
    assert_eq!(
        told("4294967294", ""),
        [4_294_967_294_u64, 4_294_967_295, 4_294_967_296]
    );
    let last = [Value::from("18446744073709551614"), LAST.into(), 0.into()];
    assert_eq!(told("0xfffffffffffffffe", ""), last);
    assert_eq!(told("0xfffffffffffffffe", " --guided"), last);
    let output = bench.check_determinism(&format!("--seed {LAST} --seeds 2"));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let beginning = format!("2 seeds from {LAST}, each twice");
    assert!(text(&output.stderr).contains(&beginning));
}

#[test]
fn what_is_no_seed_is_refused_in_a_sentence() {
    let bench = Bench::misbehaving("no-seeds", "nothing", "start");
    for (seed, sentence) in [
        (
            "18446744073709551616",
            "a seed has 64 bits, at most 18446744073709551615",
        ),
        ("-1", "a seed is not negative"),
        ("007", "a leading 0 is ambiguous"),
        ("seven", "expected a decimal number"),
    ] {
        let (code, told) = run(&bench, &format!("run bench.toml --seed {seed} --no-build"));
        assert_eq!(code, Some(2), "{told}");
        assert!(told.contains(sentence), "{told}");
    }
}
