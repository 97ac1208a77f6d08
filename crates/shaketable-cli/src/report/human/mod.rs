//! The report for people.
//!
//! Each file is one thing they look at: a cause of `failure`, a `single` run, the end of a `sweep`.
//! All of them are `rows` of a title and words, wrapped to the terminal.

mod failure;
mod rows;
mod single;
mod sweep;

pub use failure::failure;
pub use rows::{Rows, UNWRAPPED, columns, plain};
pub use single::{console, cut_short, passed};
pub use sweep::{Extent, stats, summary};

use anstyle::{AnsiColor, Style};
use shaketable_host::verdict::Outcome;
use std::collections::BTreeMap;
use std::time::Duration;

const GOOD: Style = AnsiColor::Green.on_default().bold();
const WARN: Style = AnsiColor::Yellow.on_default().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();
const FAINT: Style = Style::new().dimmed();
const STRONG: Style = Style::new().bold();

/// How much is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Verdicts, causes, and lines to paste.
    Quiet,
    /// What a person needs for the next step.
    Usual,
    /// Everything, with fdbserver's console for a single run.
    Verbose,
}

fn waits(rows: &mut Rows, outcome: &Outcome) {
    for (index, wait) in outcome.waits.iter().enumerate() {
        let title = if index == 0 { "who waits" } else { "" };
        rows.row(title, &shortened(&wait.to_string()));
    }
}

/// What the seed decided: how many clients, what may go wrong, and which cluster.
fn drawn(rows: &mut Rows, outcome: &Outcome) {
    let drawn = &outcome.drawn;
    if drawn.clients == 0 {
        return;
    }
    let clients = plural(drawn.clients.into(), "client");
    let mut words = format!("{clients}, {}", drawn.describe());
    if !drawn.cluster.is_empty() {
        words = format!("{words}; {}", drawn.cluster);
    }
    rows.row("drawn", &words);
}

/// What the seed let go wrong.
fn drawn_trouble(rows: &mut Rows, outcome: &Outcome) {
    let drawn = &outcome.drawn;
    if !drawn.faults.is_empty() {
        rows.row("  faults", &drawn.faults.join(", "));
    }
    if !drawn.buggified.is_empty() {
        rows.row("  buggified", &drawn.buggified.join(", "));
    }
    if !drawn.knobs.is_empty() {
        let knobs = drawn.knobs.iter();
        let knobs: Vec<String> = knobs
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        rows.row("  knobs", &knobs.join(", "));
    }
}

/// How often each of some things happened.
fn counted(rows: &mut Rows, title: &str, counts: &BTreeMap<String, u64>) {
    if counts.is_empty() {
        return;
    }
    let counts = counts.iter();
    let counts: Vec<String> = counts
        .map(|(name, count)| format!("{count} × {name}"))
        .collect();
    rows.row(title, &counts.join(", "));
}

/// What the workload did that no seed controls.
fn uncontrolled(rows: &mut Rows, outcome: &Outcome) {
    if !outcome.uncontrolled.is_empty() {
        let acts = outcome.uncontrolled.join(", ");
        rows.row(
            "not controlled",
            &format!("the workload {acts}: the seed may not decide everything"),
        );
    }
}

/// The beginning of a text; the trace has the rest.
fn shortened(text: &str) -> String {
    const CHARACTERS_MAX: usize = 240;
    if text.chars().count() <= CHARACTERS_MAX {
        return text.to_owned();
    }
    text.chars().take(CHARACTERS_MAX).chain(['…']).collect()
}

/// A count and its noun.
pub fn plural(count: u64, what: &str) -> String {
    if count == 1 {
        format!("1 {what}")
    } else {
        format!("{count} {what}s")
    }
}

/// Simulated time in a readable unit.
pub fn simulated(seconds: f64) -> String {
    if seconds >= 2.0 * 86_400.0 {
        format!("{:.1} days", seconds / 86_400.0)
    } else if seconds >= 2.0 * 3_600.0 {
        format!("{:.1} hours", seconds / 3_600.0)
    } else if seconds >= 120.0 {
        format!("{:.1} minutes", seconds / 60.0)
    } else {
        format!("{seconds:.1} s")
    }
}

/// Real time in a readable unit.
pub fn real(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    if seconds >= 120.0 {
        format!("{:.1} minutes", seconds / 60.0)
    } else {
        format!("{seconds:.2} s")
    }
}

#[cfg(test)]
mod tests;
