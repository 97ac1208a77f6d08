//! The embedded cluster compared with FoundationDB's own simulator: the same probe, the same shape.
//!
//! The numbers on the right were recorded inside a real fdbserver 7.4, see `docs/fidelity.md`.
//! Error rates must lie within a factor of three of them, and so must each latency. Seeds are
//! fixed: nothing here depends on the machine.

mod probe;

use probe::{Measured, STEPS, Way};

/// The largest factor by which a number may be off.
const FACTOR: f64 = 3.0;

fn measure(seeds: u64, way: Way) -> Measured {
    let mut measured = Measured::default();
    for seed in 0..seeds {
        measured.run(seed, way);
    }
    measured
}

fn assert_near(what: &str, found: f64, recorded: f64) {
    assert!(
        found <= recorded * FACTOR && found >= recorded / FACTOR,
        "{what}: {found:.3} here, {recorded} in fdbserver"
    );
}

fn assert_latencies(measured: &Measured, recorded: [[f64; 4]; 3]) {
    for (step, recorded) in recorded.into_iter().enumerate() {
        for (part, recorded) in [0.0, 0.5, 0.9, 0.99].into_iter().zip(recorded) {
            let what = format!("{} at {part}, ms", STEPS[step]);
            assert_near(&what, measured.quantile(step, part), recorded);
        }
    }
}

#[test]
fn a_quiet_cluster_is_as_fast_and_as_slow_as_a_real_one() {
    let measured = measure(20, Way::Quiet);
    assert_latencies(
        &measured,
        [
            [7.7, 13.0, 16.0, 48.0],
            [1.2, 3.7, 5.5, 8.0],
            [22.0, 31.0, 45.0, 1284.0],
        ],
    );
    assert_near("1078 in per cent", measured.rate(0, 1078), 1.1);
    assert_near("1020 in per cent", measured.rate(2, 1020), 4.5);
    // Three in 7,650 commits, and four reads: too few to compare by a factor.
    assert!(measured.rate(2, 1021) < 0.12);
    assert!(measured.rate(1, 1009) < 0.3);
    assert_eq!(measured.rate(1, 1007) + measured.rate(2, 1007), 0.0);
}

#[test]
fn a_cluster_under_faults_fails_as_often_as_a_real_one() {
    // Rare errors come in crowds: few seeds would tell little.
    let measured = measure(120, Way::Faults);
    assert_latencies(
        &measured,
        [
            [7.3, 13.0, 17.0, 105.0],
            [1.3, 3.8, 5.7, 50.0],
            [25.0, 36.0, 66.0, 1429.0],
        ],
    );
    for (step, code, recorded) in [
        (0, 1078, 1.2),
        (1, 1007, 0.18),
        (2, 1007, 0.52),
        (1, 1009, 0.43),
        (2, 1020, 8.9),
        (2, 1021, 1.05),
    ] {
        let what = format!("{code} on {} in per cent", STEPS[step]);
        assert_near(&what, measured.rate(step, code), recorded);
    }
    let unknown = measured.errors[&(STEPS[2], 1021)] as f64;
    assert_near("landed of 1021", measured.landed as f64 / unknown, 0.31);
}

#[test]
fn stress_makes_rare_outcomes_frequent() {
    let (quiet, stressed) = (measure(10, Way::Quiet), measure(10, Way::Stress));
    for (step, code, least, factor) in [
        (2, 1021, 3.0, 20.0),
        (2, 1007, 1.0, 20.0),
        (1, 1009, 0.5, 3.0),
    ] {
        let (before, now) = (quiet.rate(step, code), stressed.rate(step, code));
        assert!(
            now > least && now > factor * before,
            "{code} on {}: {before:.3} % without stress, {now:.3} % with",
            STEPS[step]
        );
    }
    let unknown = stressed.errors[&(STEPS[2], 1021)];
    let part = stressed.landed as f64 / unknown as f64;
    assert!((0.2..0.8).contains(&part), "{part:.2} of {unknown} landed");
}
