//! Cases in `cargo test`: a run that was written down is a regression test.

use shaketable::Simulation;
use shaketable::foundationdb::options::MutationType;
use shaketable::{SimDatabase, WorkloadContext};
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
    let name = format!("shaketable-{name}-{}.toml", std::process::id());
    let path = std::env::temp_dir().join(name);
    let source = format!("[case]\nseed = 3\nbuggify = false\nonly = [{only}]\n");
    std::fs::write(&path, source).unwrap();
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
