//! What the lines of a test that call the database have met.

use shaketable::Simulation;

#[test]
fn what_was_never_met_fails_a_test_that_demands_it() {
    let simulation = Simulation::new()
        .seeds(0..3)
        .without_regressions()
        .require_coverage();
    let result = simulation.try_test(async |db, _context| {
        let write = db.run(|trx, _| async move {
            trx.set(b"key", b"value");
            Ok(())
        });
        write.await.expect("it commits in the end");
    });
    let failed = result
        .expect_err("three seeds do not meet everything")
        .to_string();
    let line = failed.lines().nth(1).unwrap_or_default();
    assert!(line.contains("tests/coverage.rs:"), "{failed}");
    assert!(line.contains(" commit: "), "{failed}");
}

#[test]
fn what_cannot_go_wrong_is_not_demanded() {
    let simulation = Simulation::new()
        .seeds(0..2)
        .without_regressions()
        .require_coverage();
    let passed = simulation.test(async |_db, _context| {});
    assert_eq!(passed.seeds(), 2);
}
