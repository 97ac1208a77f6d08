//! One run by itself: a verdict and a few lines about it; fdbserver's console for those who want
//! it.

use super::rows::Rows;
use super::{
    Detail, GOOD, STRONG, counted, drawn, drawn_trouble, real, simulated, uncontrolled, waits,
};
use crate::protocol::Response;
use shaketable_host::verdict::Outcome;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

/// The lines fdbserver prints for a run.
pub fn console(outcome: &Outcome, real_seconds: f64) -> String {
    let mut out = String::new();
    for line in &outcome.console {
        let _ = writeln!(out, "{line}");
    }
    let _ = writeln!(out, "\nUnseed: {}", outcome.unseed);
    let _ = writeln!(
        out,
        "Elapsed: {:.6} simsec, {real_seconds:.6} real seconds",
        outcome.simulated_seconds
    );
    if outcome.error_events > 0 {
        let _ = writeln!(out, "{} SevError events logged", outcome.error_events);
    }
    out.push('\n');
    out
}

/// A run that passed.
pub fn passed(
    outcome: &Outcome,
    file: &Path,
    real_seconds: f64,
    detail: Detail,
    columns: usize,
) -> String {
    let mut rows = Rows::new(columns);
    rows.words(&format!(
        "{GOOD}PASS{GOOD:#} {STRONG}{}{STRONG:#} seed {}, {} simulated in {}, unseed {}",
        file.display(),
        outcome.seed,
        simulated(outcome.simulated_seconds),
        real(Duration::from_secs_f64(real_seconds)),
        outcome.unseed,
    ));
    if detail == Detail::Quiet {
        return rows.finish();
    }
    drawn(&mut rows, outcome);
    if detail == Detail::Verbose {
        drawn_trouble(&mut rows, outcome);
    }
    let errors = outcome.errors.iter();
    let errors: BTreeMap<String, u64> = errors
        .map(|(code, count)| {
            let name = shaketable_host::error_name(*code);
            (format!("{code} {name}"), *count)
        })
        .collect();
    counted(&mut rows, "errors", &errors);
    counted(&mut rows, "faults in all", &outcome.faults);
    let metrics = outcome.metrics.iter();
    let metrics: Vec<String> = metrics
        .map(|metric| format!("{} {}", metric.name, metric.formatted))
        .collect();
    if !metrics.is_empty() {
        rows.row("metrics", &metrics.join(", "));
    }
    uncontrolled(&mut rows, outcome);
    rows.finish()
}

/// A run that the user interrupted: how far it was, and what each client was waiting for.
pub fn cut_short(run: &Response, file: &Path, columns: usize) -> String {
    let outcome = &run.outcome;
    let mut rows = Rows::new(columns);
    rows.words(&format!(
        "{STRONG}{}{STRONG:#} seed {} was interrupted after {:.1} s, {:.1} simulated seconds into the run",
        file.display(),
        outcome.seed,
        run.real_seconds,
        outcome.simulated_seconds
    ));
    waits(&mut rows, outcome);
    rows.finish()
}
