//! Assertions and buggified places in code under test, through the embedded host.

use shaketable::{Faults, Passed, PhaseResult, SimDatabase, Simulation, WorkloadContext};
use shaketable::{always, buggify, never_reached, reachable, sometimes};
use std::sync::Mutex;

fn simulation() -> Simulation {
    Simulation::new()
        .faults(Faults::none())
        .without_regressions()
}

/// Code under test: no context anywhere.
fn step(number: u32) {
    always!(number < 100, "numbers are small", "Number" => number);
    sometimes!(number == 7, "the seventh step");
    sometimes!(number == 8, "the eighth step");
    if number == 3 {
        reachable!("three was there");
    }
}

/// Never called, but part of the program.
pub fn nobody_calls_this() {
    reachable!("nobody comes here");
}

fn counts(passed: &Passed, message: &str) -> (u64, u64) {
    passed
        .assertion(message)
        .unwrap_or_else(|| panic!("no assertion `{message}`"))
}

#[test]
fn assertions_are_counted_over_clients_and_seeds() {
    let passed = simulation()
        .seeds(0..3)
        .clients(2)
        .test(async |_db, _context| {
            (0..8).for_each(step);
        });
    assert_eq!(counts(&passed, "numbers are small"), (3 * 2 * 8, 0));
    assert_eq!(counts(&passed, "the seventh step"), (3 * 2, 3 * 2 * 7));
    assert_eq!(counts(&passed, "the eighth step"), (0, 3 * 2 * 8));
    assert_eq!(counts(&passed, "three was there"), (3 * 2, 0));
    let table = passed.to_string();
    let row = |row: &str| table.lines().any(|line| line.starts_with(row));
    assert!(row("3 seeds passed, "), "{table}");
    assert!(row("        held    did not  assertion"), "{table}");
    assert!(
        row("          48          0  always \"numbers are small\" "),
        "{table}"
    );
    let missed = table.lines().find(|line| line.contains("the eighth step"));
    assert!(
        missed.is_some_and(|line| line.ends_with("  never held")),
        "{table}"
    );
}

#[test]
fn places_that_are_never_reached_are_known() {
    let passed = simulation().seeds(1).test(async |_db, _context| {});
    assert_eq!(counts(&passed, "nobody comes here"), (0, 0));
}

#[test]
fn a_sometimes_that_never_held_fails_where_it_is_required() {
    let failed = simulation()
        .seeds(0..2)
        .require_sometimes()
        .try_test(async |_db, _context| (0..8).for_each(step))
        .expect_err("the eighth step is never made");
    let text = failed.to_string();
    assert!(text.contains("sometimes \"the eighth step\" at "), "{text}");
    assert!(text.contains("reached 16 times"), "{text}");
    assert!(text.contains("reachable \"nobody comes here\""), "{text}");
    assert!(!text.contains("the seventh step"), "{text}");
}

#[test]
fn a_single_assertion_can_be_required() {
    let run = |message: &str| {
        simulation()
            .seeds(0..2)
            .require(message)
            .try_test(async |_db, _context| (0..8).for_each(step))
    };
    run("the seventh step").unwrap();
    let failed = run("the eighth step").unwrap_err().to_string();
    assert!(
        failed.contains("the eighth step") && !failed.contains("nobody comes here"),
        "{failed}"
    );
    let failed = run("misspelt").unwrap_err().to_string();
    assert!(
        failed.contains("required \"misspelt\" at no place"),
        "{failed}"
    );
}

#[test]
fn a_violation_fails_the_run_with_its_details_and_the_code_goes_on() {
    static WENT_ON: Mutex<u32> = Mutex::new(0);
    let failed = simulation()
        .seeds(1)
        .try_test(async |_db, _context| {
            step(105);
            step(106);
            *WENT_ON.lock().unwrap() += 1;
        })
        .expect_err("numbers are small");
    let went_on = *WENT_ON.lock().unwrap();
    assert_eq!(went_on, 2, "a seed that fails runs again, for its record");
    let text = failed.to_string();
    assert!(
        text.contains("numbers are small (Kind=always, Site="),
        "{text}"
    );
    assert!(
        text.contains("Number=105") && !text.contains("Number=106"),
        "{text}"
    );
}

#[test]
fn a_place_that_must_not_be_reached_fails_the_run() {
    let failed = simulation()
        .seeds(1)
        .try_test(async |_db, _context| never_reached!("nobody is here", "Who" => "me"))
        .expect_err("somebody is here");
    assert!(
        failed.reason().contains("nobody is here (Kind=unreachable"),
        "{failed}"
    );
    assert!(failed.reason().contains("Who=me"), "{failed}");
}

#[test]
fn outside_a_simulation_nothing_happens() {
    step(1_000);
    assert!(!buggify!("outside"));
}

/// Evaluates five places a hundred times each, and records what fired.
async fn mischief(_db: SimDatabase, _context: WorkloadContext) -> PhaseResult {
    let mut fired = [0; 5];
    for _ in 0..100 {
        fired[0] += u32::from(buggify!("first"));
        fired[1] += u32::from(buggify!("second"));
        fired[2] += u32::from(buggify!("third"));
        fired[3] += u32::from(buggify!("always, when active", 1.0));
        fired[4] += u32::from(buggify!());
    }
    Err(format!("{fired:?}").into())
}

fn fired(seed: u64, faults: Faults) -> Vec<u32> {
    let failed = simulation().seeds(seed).faults(faults).try_test(mischief);
    let text = failed.expect_err("it says what fired").to_string();
    let list = text.split(['[', ']']).nth(1).expect("a list");
    list.split(", ")
        .map(|count| count.parse().unwrap())
        .collect()
}

#[test]
fn a_quarter_of_the_places_is_active_and_fires_a_quarter_of_the_time() {
    let faults = Faults::none().buggify(true);
    let all: Vec<Vec<u32>> = (0..40).map(|seed| fired(seed, faults)).collect();
    let active = all.iter().flatten().filter(|count| **count > 0).count();
    assert!((30..70).contains(&active), "{active} of 200");
    let usual = all
        .iter()
        .flat_map(|one| &one[..3])
        .filter(|count| **count > 0);
    assert!(
        usual.into_iter().all(|count| (8..45).contains(count)),
        "{all:?}"
    );
    assert!(all.iter().all(|one| matches!(one[3], 0 | 100)), "{all:?}");
    assert_eq!(all[7], fired(7, faults), "a seed decides");
}

#[test]
fn without_buggify_no_place_fires() {
    assert!((0..10).all(|seed| fired(seed, Faults::none()) == [0; 5]));
}

#[test]
fn active_places_are_named_in_the_report() {
    let faults = Faults::none().buggify(true);
    let seed = (0..40)
        .find(|seed| fired(*seed, faults)[0] > 0)
        .expect("one of them");
    let failed = simulation().seeds(seed).faults(faults).try_test(mischief);
    let text = failed.expect_err("it says what fired").to_string();
    assert!(
        text.contains("first (crates/shaketable/tests/assertions.rs:"),
        "{text}"
    );
}
