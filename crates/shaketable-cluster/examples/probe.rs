//! Prints what a client sees: the probe used to calibrate the embedded cluster
//! (`docs/fidelity.md`).
//!
//! `cargo run --release --example probe -- [seeds] [faults|stress]`: with `faults` it runs under
//! RandomClogging, Attrition, Rollback and ChangeConfig, and with buggify; with `stress` it runs
//! under stress alone.

#[path = "../tests/cluster/calibration/probe.rs"]
mod probe;

use probe::{Measured, STEPS, Way};
use std::time::Instant;

// It measures the machine on purpose.
#[allow(clippy::disallowed_methods)]
fn main() {
    let mut arguments = std::env::args().skip(1);
    let seeds: u64 = arguments
        .next()
        .map_or(20, |text| text.parse().expect("a number of seeds"));
    let way = match arguments.next().as_deref() {
        Some("faults") => Way::Faults,
        Some("stress") => Way::Stress,
        _ => Way::Quiet,
    };
    let mut measured = Measured::default();
    let started = Instant::now();
    for seed in 0..seeds {
        measured.run(seed, way);
    }
    let wall = started.elapsed().as_secs_f64();
    for (step, name) in STEPS.iter().enumerate() {
        let at = |part| measured.quantile(step, part);
        println!(
            "{name:14} ms: min {:.1}  p50 {:.1}  p90 {:.1}  p99 {:.1}  max {:.1}",
            at(0.0),
            at(0.5),
            at(0.9),
            at(0.99),
            at(1.0)
        );
    }
    for (step, code) in [
        (0, 1078),
        (1, 1007),
        (2, 1007),
        (1, 1009),
        (1, 1037),
        (2, 1020),
        (2, 1021),
    ] {
        let rate = measured.rate(step, code);
        println!("{code} on {}: {rate:.3} %", STEPS[step]);
    }
    println!("of those with 1021 landed: {}", measured.landed);
    println!("errors: {:?}", measured.errors);
    let seeds = seeds as f64;
    println!(
        "{} commits, {:.0} events a seed, {:.1} simulated s a seed, {:.2} ms a seed, {:.0} ns an event",
        measured.commits,
        measured.events as f64 / seeds,
        measured.simulated / seeds,
        wall * 1e3 / seeds,
        wall * 1e9 / measured.events as f64
    );
}
