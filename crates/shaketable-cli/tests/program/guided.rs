//! `run --guided`: moments that are worth returning to.

use crate::bench::{Bench, text};
use std::fs;
use std::sync::OnceLock;

/// A maze of eight rooms. Chance alone gets through it once in 80,000 runs.
fn maze(name: &str) -> Bench {
    let bench = Bench::misbehaving(name, "maze", "start");
    fs::write(bench.folder.join("Cargo.lock"), "").unwrap();
    // What an earlier run of the test has left.
    for folder in ["target", "kept"] {
        let _ = fs::remove_dir_all(bench.folder.join(folder));
    }
    bench
}

/// Runs the program; returns what it printed and its exit status.
fn run(bench: &Bench, arguments: &str) -> (String, Option<i32>) {
    let output = bench.run(&arguments.split(' ').collect::<Vec<_>>());
    let printed = text(&output.stdout) + &text(&output.stderr);
    (printed, output.status.code())
}

const SEARCH: &str =
    "run bench.toml --guided --seed 1 --seeds 1000 --no-build --message-format json";

/// Goes on from what a search has kept: the run that failed is among the first.
const AGAIN: &str = "run bench.toml --guided --corpus kept --seed 9000 --seeds 64 --no-build";

/// A search, made once for all tests that go on from what it has found.
fn searched() -> &'static (Bench, String, Option<i32>) {
    static SEARCHED: OnceLock<(Bench, String, Option<i32>)> = OnceLock::new();
    SEARCHED.get_or_init(|| {
        let bench = maze("guided");
        let (printed, code) = run(&bench, &format!("{SEARCH} --corpus kept --jobs 3"));
        (bench, printed, code)
    })
}

/// A bench with the moments that the search has kept.
fn kept(name: &str) -> Bench {
    let bench = maze(name);
    fs::create_dir_all(bench.folder.join("kept")).unwrap();
    let moments = "kept/bench.json";
    fs::copy(
        searched().0.folder.join(moments),
        bench.folder.join(moments),
    )
    .unwrap();
    bench
}

#[test]
fn what_chance_does_not_find_is_found_from_room_to_room() {
    let bench = maze("by-chance");
    let (printed, code) = run(&bench, "run bench.toml --seed 1 --seeds 1000 --no-build");
    assert_eq!(code, Some(0), "{printed}");
    let (bench, printed, code) = searched();
    assert_eq!(*code, Some(100), "{printed}");
    let failure = printed.lines().find(|line| line.contains("\"failure\""));
    let failure: serde_json::Value = serde_json::from_str(failure.unwrap()).unwrap();
    let reproduce = failure["reproduce"].as_str().unwrap();
    let arguments = reproduce.strip_prefix("shaketable ").unwrap();
    assert!(arguments.ends_with("future.toml --no-build"), "{arguments}");
    let (printed, code) = run(bench, arguments);
    assert_eq!(code, Some(100), "{printed}");
    assert!(printed.contains("NoWall"), "{printed}");
}

#[test]
fn a_future_that_fails_is_made_small_like_a_seed() {
    let bench = kept("guided-small");
    let search = format!("{AGAIN} --fail-fast --minimise=always --minimise-budget 10s");
    let (printed, code) = run(&bench, &format!("{search} --message-format json"));
    assert_eq!(code, Some(100), "{printed}");
    let failure = printed.lines().find(|line| line.contains("\"failure\""));
    let failure: serde_json::Value = serde_json::from_str(failure.unwrap()).unwrap();
    let small = failure["small"]["case"].as_str().unwrap();
    assert!(small.ends_with("case.toml"), "{small}");
    // The run itself is still there, and both fail in the same way.
    for case in [small.to_owned(), small.replace("case.toml", "future.toml")] {
        let (printed, code) = run(&bench, &format!("replay {case} --no-build"));
        assert_eq!(code, Some(100), "{printed}");
        assert!(printed.contains("NoWall"), "{printed}");
    }
}

#[test]
fn a_search_is_the_same_with_any_number_of_processes() {
    let runs = |printed: &str| -> Vec<(u64, bool, u64)> {
        let lines = printed.lines().filter(|line| line.contains("\"run\""));
        lines
            .map(|line| {
                let run: serde_json::Value = serde_json::from_str(line).unwrap();
                let number = |name: &str| run[name].as_u64().unwrap();
                (number("seed"), run["passed"] == true, number("unseed"))
            })
            .collect()
    };
    let (printed, _) = run(&maze("guided-jobs"), &format!("{SEARCH} --jobs 1"));
    let one = runs(&printed);
    assert_eq!(one.len(), 1000);
    let (_, with_three, _) = searched();
    assert_eq!(one, runs(with_three));
}

#[test]
fn a_later_search_goes_on_from_what_was_kept() {
    let bench = kept("guided-corpus");
    let (printed, code) = run(&bench, AGAIN);
    assert_eq!(code, Some(100), "{printed}");
    assert!(printed.contains("drawn anew from"), "{printed}");
}

#[test]
fn moments_that_cannot_be_read_are_refused_and_not_overwritten() {
    let bench = maze("guided-unreadable");
    let kept = bench.folder.join("kept/bench.json");
    fs::create_dir_all(kept.parent().unwrap()).unwrap();
    fs::write(&kept, "[{\"seed\":").unwrap();
    let (printed, code) = run(&bench, &format!("{SEARCH} --corpus kept"));
    assert_eq!(code, Some(96), "{printed}");
    let message = "cannot go on from the moments in kept/bench.json (remove that file";
    assert!(printed.contains(message), "{printed}");
    assert_eq!(fs::read_to_string(&kept).unwrap(), "[{\"seed\":");
    // Nor is a folder that cannot be made noticed only after the search.
    let (printed, code) = run(&bench, &format!("{SEARCH} --corpus Cargo.lock"));
    assert_eq!(code, Some(96), "{printed}");
    assert!(!printed.contains("\"run\""), "{printed}");
}

#[test]
fn runs_for_which_there_was_no_time_are_kept_for_the_next_search() {
    let bench = kept("guided-short");
    let count = || -> usize {
        let text = fs::read(bench.folder.join("kept/bench.json")).unwrap();
        serde_json::from_slice::<Vec<serde_json::Value>>(&text)
            .unwrap()
            .len()
    };
    let before = count();
    let short = "run bench.toml --guided --corpus kept --seed 1 --seeds 2 --no-build";
    run(&bench, short);
    // The two that were run again need not have met anything that the other had not.
    assert!(before > 4 && count() + 2 >= before, "{before}, {}", count());
}

#[test]
fn a_sweep_ends_when_nothing_new_comes() {
    let bench = maze("stable");
    let (printed, code) = run(&bench, "run bench.toml --until-stable --seed 1 --no-build");
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains("runs: passed"), "{printed}");
    assert!(
        printed.contains("stable: every `sometimes!` has held"),
        "{printed}"
    );
}
