//! Every report as a person sees it, on terminals of 60, 80 and 120 columns, with and without
//! colour.

use super::*;
use crate::args::BuildArgs;
use crate::report::repro::Repro;
use crate::report::{Summary, samples};
use shaketable_host::plan::Settings;
use shaketable_host::verdict::Metric;
use std::path::Path;

const WIDTHS: [usize; 3] = [60, 80, 120];

fn repro() -> Repro {
    Repro {
        program: "shaketable".into(),
        cases: Vec::new(),
        host: crate::args::HostArgs::default(),
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

/// Checks a report at every width, and that colour changes nothing else.
#[track_caller]
fn assert_report(name: &str, report: impl Fn(usize) -> String) {
    let mut pages = String::new();
    let mut coloured = String::new();
    for columns in WIDTHS {
        let report = report(columns);
        let text = plain(&report);
        for line in text.lines() {
            let pasted = line.starts_with("  folder") || line.starts_with("  reproduce");
            let is_word = line.chars().skip(20).all(|letter| letter != ' ');
            let fits = line.chars().count() <= columns;
            assert!(
                fits || pasted || is_word,
                "{line:?} has more than {columns} columns"
            );
        }
        let rule = "─".repeat(columns);
        pages.push_str(&format!("{rule}\n{text}"));
        coloured.push_str(&format!("{rule}\n{}", report.replace('\u{1b}', "␛")));
    }
    insta::assert_snapshot!(name, pages);
    insta::assert_snapshot!(format!("{name}_in_colour"), coloured);
}

fn failing(detail: Detail) -> impl Fn(usize) -> String {
    let sweep = samples::summary();
    move |columns| {
        let (group, file) = (&sweep.groups[0], &sweep.files[0]);
        failure(group, file, sweep.runs(), &repro(), detail, columns)
    }
}

#[test]
fn a_failure_tells_what_where_when_and_how_to_see_it_again() {
    assert_report("failure", failing(Detail::Usual));
    assert_report("failure_quiet", failing(Detail::Quiet));
}

fn ended(sweep: Summary, extent: Extent, detail: Detail) -> impl Fn(usize) -> String {
    let elapsed = Duration::from_millis(500);
    move |columns| summary(&sweep, elapsed, extent, detail, columns)
}

#[test]
fn a_sweep_ends_with_what_failed() {
    let end = |detail| ended(samples::summary(), Extent::Complete, detail);
    assert_report("sweep", end(Detail::Usual));
    assert_report("sweep_quiet", end(Detail::Quiet));
}

fn passing_sweep() -> Summary {
    let mut sweep = Summary::new(vec!["tests/atomic.toml".into()]);
    for seed in 0..10 {
        sweep.add(&samples::passing(seed));
    }
    sweep
}

#[test]
fn a_passing_sweep_is_told_in_one_line() {
    let end = ended(passing_sweep(), Extent::Complete, Detail::Usual);
    assert_report("sweep_passed", end);
}

#[test]
fn an_interrupted_sweep_claims_no_more_than_it_saw() {
    let extent = Extent::Interrupted(Some(4000));
    let end = ended(passing_sweep(), extent, Detail::Usual);
    assert!(!end(80).contains("passed"));
    assert_report("sweep_interrupted", end);
    let end = ended(samples::summary(), Extent::Interrupted(None), Detail::Quiet);
    assert_report("sweep_interrupted_with_failures", end);
}

fn single_run() -> Outcome {
    let mut outcome = samples::passing(7).outcome;
    outcome.console = vec![
        "Random seed is 7...".into(),
        "Run test:Atomic start".into(),
        String::new(),
        "1 tests passed; 0 tests failed.".into(),
    ];
    outcome.unseed = 84_411;
    outcome.drawn = samples::failing(7, "").outcome.drawn;
    outcome.errors = [(1020, 1), (1021, 13)].into();
    outcome.faults = [("CloggingPair".to_owned(), 211)].into();
    outcome.metrics = vec![Metric {
        name: "External.commits".into(),
        value: 12.0,
        formatted: "12".into(),
    }];
    outcome
}

#[test]
fn a_single_run_is_told_in_a_few_lines() {
    let run = |detail| {
        let file = Path::new("tests/atomic.toml");
        move |columns| passed(&single_run(), file, 0.0042, detail, columns)
    };
    assert_report("single", run(Detail::Usual));
    assert_report("single_verbose", run(Detail::Verbose));
    assert_report("single_quiet", run(Detail::Quiet));
}

#[test]
fn the_console_reads_like_fdbserver() {
    insta::assert_snapshot!(console(&single_run(), 0.0042));
}

#[test]
fn errors_and_faults_are_counted_per_run() {
    let mut sweep = samples::summary();
    sweep.errors = [(1020, 86), (1021, 3)].into();
    sweep.faults = [("RebootingProcess".to_owned(), 430)].into();
    assert_report("stats", |columns| stats(&sweep, columns));
}
