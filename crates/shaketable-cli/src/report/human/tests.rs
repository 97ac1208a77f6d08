//! Reports as a person sees them, without the colours.

use super::*;
use crate::args::BuildArgs;
use crate::report::samples;
use shaketable_host::plan::Settings;
use shaketable_host::verdict::Metric;

fn repro() -> Repro {
    Repro {
        program: "shaketable".into(),
        settings: Settings {
            buggify: Some(true),
            ..Settings::default()
        },
        build: BuildArgs {
            profile: "release".into(),
            ..BuildArgs::default()
        },
    }
}

fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

#[test]
fn a_failure_tells_what_where_when_and_how_to_see_it_again() {
    let sweep = samples::summary();
    let text = failure(&sweep.groups[0], &sweep.files[0], sweep.runs(), &repro());
    insta::assert_snapshot!(plain(&text));
}

#[test]
fn a_summary_ends_with_a_line_to_paste() {
    let sweep = samples::summary();
    insta::assert_snapshot!(plain(&summary(
        &sweep,
        Duration::from_millis(500),
        &repro()
    )));
}

#[test]
fn a_passing_sweep_is_told_in_one_line() {
    let mut sweep = Summary::new(vec!["tests/atomic.toml".into()]);
    for seed in 0..10 {
        sweep.add(&samples::passing(seed));
    }
    insta::assert_snapshot!(plain(&summary(
        &sweep,
        Duration::from_millis(500),
        &repro()
    )));
}

#[test]
fn a_single_run_reads_like_fdbserver() {
    let mut outcome = samples::passing(7).outcome;
    outcome.console = vec![
        "Random seed is 7...".into(),
        "Run test:Atomic start".into(),
        String::new(),
        "1 tests passed; 0 tests failed.".into(),
    ];
    outcome.unseed = 84_411;
    outcome.metrics = vec![Metric {
        name: "External.commits".into(),
        value: 12.0,
        formatted: "12".into(),
    }];
    insta::assert_snapshot!(plain(&single(
        &outcome,
        Path::new("tests/atomic.toml"),
        0.0042
    )));
}

#[test]
fn errors_and_faults_are_counted_per_run() {
    let mut sweep = samples::summary();
    sweep.errors = [(1020, 86), (1021, 3)].into();
    sweep.faults = [("RebootingProcess".to_owned(), 430)].into();
    insta::assert_snapshot!(plain(&stats(&sweep)));
}
