//! The end of a sweep: how many runs there were, what failed, and what was counted.

use super::rows::Rows;
use super::{BAD, Detail, FAINT, GOOD, STRONG, WARN, plural, real, shortened, simulated};
use crate::report::Summary;
use shaketable_host::coverage::Covered;
use shaketable_host::verdict::Assertion;
use std::time::Duration;

/// How far a sweep came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// To its end.
    Complete,
    /// It was interrupted; this many runs were wanted, if that was known.
    Interrupted(Option<u64>),
}

/// The end of a report: what ran, and what failed.
pub fn summary(
    summary: &Summary,
    elapsed: Duration,
    extent: Extent,
    detail: Detail,
    columns: usize,
) -> String {
    let mut rows = Rows::new(columns);
    let runs = summary.runs();
    let failed = summary.total_failed();
    let seconds = elapsed.as_secs_f64().max(1e-9);
    let verdict = match (failed, extent) {
        (0, Extent::Complete) => format!("{GOOD}passed{GOOD:#}"),
        (0, Extent::Interrupted(_)) => "none failed".to_owned(),
        _ => format!("{BAD}{failed} failed{BAD:#}"),
    };
    let ran = match extent {
        Extent::Complete => plural(runs, "run"),
        Extent::Interrupted(Some(wanted)) => {
            let wanted = plural(wanted, "run");
            format!("{WARN}interrupted{WARN:#} after {runs} of {wanted}")
        }
        Extent::Interrupted(None) => {
            format!("{WARN}interrupted{WARN:#} after {}", plural(runs, "run"))
        }
    };
    rows.words(&format!(
        "{ran}: {verdict}, {} simulated in {} ({} runs/s, {:.0}× real time)",
        simulated(summary.simulated_seconds),
        real(elapsed),
        rate(runs as f64 / seconds),
        summary.simulated_seconds / seconds,
    ));
    if detail == Detail::Quiet {
        return rows.finish();
    }
    if !summary.uncontrolled.is_empty() {
        let acts = summary.uncontrolled.iter();
        let acts: Vec<String> = acts
            .map(|(act, runs)| format!("{act} ({})", plural(*runs, "run")))
            .collect();
        let acts = acts.join(", ");
        rows.row(
            "not controlled",
            &format!("the workload {acts}: such runs may differ when repeated"),
        );
    }
    if let Some(guided) = &summary.guided {
        let (seeds, futures) = (
            plural(guided.seeds, "new seed"),
            plural(guided.futures, "future"),
        );
        let moments = plural(guided.moments, "moment");
        rows.row(
            "guided",
            &format!("{seeds} and {futures}; {moments} kept at which something was new"),
        );
    }
    assertions(&mut rows, &summary.assertions);
    coverage(&mut rows, summary);
    if summary.groups.len() > 1 {
        let distinct = summary.groups.len() as u64;
        rows.line(format_args!("  {}:", plural(distinct, "distinct failure")));
        for group in &summary.groups {
            let first = group.example.failures.first();
            let text = first.map_or(String::new(), |failure| shortened(&failure.to_string()));
            let (count, seed) = (group.count, group.example.seed);
            rows.aligned(2, &format!("{count:>6} × seed {seed}: {text}"));
        }
    }
    rows.finish()
}

/// Each assertion in the code under test, and how often it held.
fn assertions(rows: &mut Rows, assertions: &[Assertion]) {
    if assertions.is_empty() {
        return;
    }
    rows.line(format_args!(
        "  {:>10} {:>10}  assertion",
        "held", "did not"
    ));
    for one in assertions {
        let must_hold = matches!(one.kind.as_str(), "always" | "unreachable");
        let (style, remark) = if one.is_missed() {
            (BAD, "  never held")
        } else if must_hold && one.broken > 0 {
            (BAD, "  violated")
        } else {
            (FAINT, "")
        };
        rows.beside(
            &format!("  {:>10} {:>10}  ", one.held, one.broken),
            &format!(
                "{} {:?} {FAINT}{}{FAINT:#}{style}{remark}{style:#}",
                one.kind, one.message, one.site
            ),
        );
    }
}

/// More lines than these are left to the JSON.
const GAPS_SHOWN: usize = 6;

/// What could have become of calls of the database and never has.
fn coverage(rows: &mut Rows, summary: &Summary) {
    let possible = |one: &Covered| one.possible().len();
    let all: usize = summary.coverage.iter().map(possible).sum();
    if all == 0 {
        return;
    }
    let gaps = summary.gaps();
    let never: usize = gaps.iter().map(|one| one.never().len()).sum();
    let (met, lines) = (all - never, summary.coverage.len() as u64);
    let calls = plural(lines, "line");
    if never == 0 {
        rows.row("coverage", &format!("{calls}: all {all} outcomes were met"));
        return;
    }
    let share = 100 * met / all;
    rows.row(
        "coverage",
        &format!("{calls}: {met} of {all} outcomes were met ({share} %); never:"),
    );
    for one in gaps.iter().take(GAPS_SHOWN) {
        let never = one.never().join(", ");
        let line = match one.line.as_str() {
            "" => "an unknown line",
            line => line,
        };
        rows.row("", &format!("{line} {}: {WARN}{never}{WARN:#}", one.call));
    }
    if gaps.len() > GAPS_SHOWN {
        let more = plural((gaps.len() - GAPS_SHOWN) as u64, "more line");
        rows.row("", &format!("and {more}; --message-format json has all"));
    }
}

/// The tables of `stats`.
pub fn stats(summary: &Summary, columns: usize) -> String {
    let mut rows = Rows::new(columns);
    let runs = summary.runs().max(1) as f64;
    rows.line(format_args!(
        "{STRONG}errors that reached a workload{STRONG:#}"
    ));
    if summary.errors.is_empty() {
        rows.line("  none");
    }
    for (code, count) in &summary.errors {
        let name = shaketable_host::error_name(*code);
        let per_run = *count as f64 / runs;
        rows.aligned(
            2,
            &format!("{code:>5} {name:<30} {count:>9} {per_run:>9.2} per run"),
        );
    }
    rows.line(format_args!("{STRONG}faults{STRONG:#}"));
    if summary.faults.is_empty() {
        rows.line("  none");
    }
    for (name, count) in &summary.faults {
        let per_run = *count as f64 / runs;
        rows.aligned(8, &format!("{name:<30} {count:>9} {per_run:>9.2} per run"));
    }
    rows.finish()
}

/// Runs in a second; those of a server are few.
fn rate(runs: f64) -> String {
    match runs {
        ..9.5 => format!("{runs:.1}"),
        _ => format!("{runs:.0}"),
    }
}
