//! Cases in `cargo test`: a run that was written down is a regression test.

use shaketable::Simulation;
use shaketable::foundationdb::options::MutationType;
use shaketable::{SimDatabase, WorkloadContext, buggify, sometimes};
use std::path::{Path, PathBuf};

/// Counts once, and forgets that a commit of unknown fate may have happened.
async fn count_once(db: SimDatabase, _context: WorkloadContext) {
    let count = db.run(|trx, _maybe_committed| async move {
        trx.atomic_op(b"counter", &1_u64.to_le_bytes(), MutationType::Add);
        Ok(())
    });
    count.await.unwrap();
    let read = db.run(|trx, _| async move { Ok(trx.get(b"counter", false).await?) });
    let counter = read.await.unwrap();
    assert_eq!(counter.as_deref(), Some(1_u64.to_le_bytes().as_slice()));
}

/// Writes a case to a file of its own.
fn case(name: &str, only: &str) -> PathBuf {
    write(name, &format!("seed = 3\nbuggify = false\nonly = [{only}]"))
}

fn write(name: &str, lines: &str) -> PathBuf {
    let name = format!("shaketable-{name}-{}.toml", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, format!("[case]\n{lines}\n")).unwrap();
    path
}

fn run(file: &Path) -> Result<shaketable::Passed, shaketable::Failed> {
    let result = Simulation::new()
        .without_regressions()
        .seeds(0..0)
        .case(file)
        .try_test(count_once);
    std::fs::remove_file(file).unwrap();
    result
}

#[test]
fn a_case_finds_its_bug_again() {
    let failed = run(&case("lost", "\"a reply is lost/tester 0 1\"")).unwrap_err();
    let reason = failed.reason();
    assert!(
        reason.contains("assertion `left == right` failed"),
        "{reason}"
    );
}

#[test]
fn a_case_in_which_nothing_happens_passes() {
    let passed = run(&case("calm", "")).unwrap();
    assert_eq!(passed.seeds(), 1);
}

#[test]
fn a_case_that_no_longer_applies_says_so() {
    let failed = run(&case("outdated", "\"a reply is lost/tester 0 99\"")).unwrap_err();
    let reason = failed.reason();
    let expected = "the case no longer applies: `a reply is lost/tester 0 99` never came up";
    assert!(reason.contains(expected), "{reason}");
}

/// How often a place in the code under test fires in a dozen evaluations.
fn fired(seed: u64, lines: &str) -> u64 {
    let path = write("buggify", &format!("seed = {seed}\n{lines}"));
    let simulation = Simulation::new().without_regressions().seeds(0..0);
    let passed = simulation.case(&path).test(async |_db, _context| {
        for _ in 0..12 {
            sometimes!(buggify!("a small buffer"), "the buffer was small");
        }
    });
    std::fs::remove_file(&path).unwrap();
    let (held, broken) = passed.assertion("the buffer was small").unwrap();
    assert_eq!(held + broken, 12);
    held
}

#[test]
fn buggify_in_the_code_under_test_is_a_decision_that_can_be_dropped_and_forced() {
    // In each run a quarter of the places is active.
    let is_active = |seed: &u64| fired(*seed, "buggify = true") > 0;
    let seed = (0..100).find(is_active).expect("one in four is active");
    let by_chance = fired(seed, "buggify = true");
    assert_eq!(fired(seed, "buggify = false"), 0);
    let fired_with = |line: &str| fired(seed, &format!("buggify = true\n{line}"));
    let only = "only = [\"buggify! a small buffer/tester 0 3\"]";
    assert_eq!(fired_with(only), 1);
    assert_eq!(fired_with("drop = [\"buggify! a small buffer\"]"), 0);
    // Each evaluation has its own name, by which it can be forced, or dropped if it fires anyway.
    let mut fires = 0;
    for number in 1..=12 {
        let name = format!("[\"buggify! a small buffer/tester 0 {number}\"]");
        let forced = fired_with(&format!("force = {name}"));
        if forced == by_chance {
            fires += 1;
            assert_eq!(fired_with(&format!("drop = {name}")), by_chance - 1);
        } else {
            assert_eq!(forced, by_chance + 1, "evaluation {number}");
        }
    }
    assert_eq!(fires, by_chance);
}
