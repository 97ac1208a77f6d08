//! A cause of failure: what went wrong, why, what led to it, and the line that shows it again.

use super::rows::Rows;
use super::{
    BAD, Detail, FAINT, STRONG, counted, drawn, drawn_trouble, plural, shortened, uncontrolled,
    waits,
};
use crate::report::Group;
use crate::report::repro::Repro;
use shaketable_host::trace::{Event, Severity, is_tag};
use shaketable_host::verdict::Outcome;
use std::path::Path;

/// How many failures of a run are shown; one tends to bring others.
const FAILURES_MAX: usize = 4;

/// How many lines of what the code under test printed are shown.
const PRINTED_LINES_MAX: usize = 20;

/// How many events of a kind are shown; the trace has all of them.
const EVENTS_MAX: usize = 8;

/// One cause of failure.
pub fn failure(
    group: &Group,
    file: &Path,
    runs: u64,
    repro: &Repro,
    detail: Detail,
    columns: usize,
) -> String {
    let outcome = &group.example;
    let mut rows = Rows::new(columns);
    rows.words(&title(group, file, runs));
    let shown = match detail {
        Detail::Quiet => 1,
        Detail::Usual | Detail::Verbose => FAILURES_MAX,
    };
    for (index, failure) in outcome.failures.iter().take(shown).enumerate() {
        let style = if index == 0 { STRONG } else { FAINT };
        rows.styled(style, &shortened(&failure.to_string()));
    }
    if outcome.failures.len() > shown {
        let more = outcome.failures.len() - shown;
        rows.styled(FAINT, &format!("and {more} more"));
    }
    cause(&mut rows, outcome);
    known(&mut rows, group);
    small(&mut rows, group);
    common(&mut rows, group);
    if detail != Detail::Quiet {
        circumstances(&mut rows, group);
    }
    let folder = outcome.folder();
    if let Some(folder) = folder {
        rows.paste("folder", folder.display());
    }
    if let Some(trace) = &outcome.trace
        && folder != Path::new(trace).parent()
    {
        rows.paste("trace", trace);
    }
    let line = group.reproduce(repro, file);
    rows.paste("reproduce", format!("{STRONG}{line}{STRONG:#}"));
    rows.finish()
}

fn title(group: &Group, file: &Path, runs: u64) -> String {
    let seed = group.example.seed;
    let file = file.display();
    let title = format!("{BAD}FAIL{BAD:#} {STRONG}{file}{STRONG:#} seed {seed}");
    let title = match group.case.as_ref().and_then(|case| case.reseed.last()) {
        Some(turn) => format!("{title}, drawn anew from {:.6} s on", turn.from),
        None => title,
    };
    if group.count == 1 {
        return title;
    }
    if group.case.is_some() {
        return format!("{title} ({} of {})", group.count, plural(runs, "run"));
    }
    let seeds: Vec<String> = group.seeds.iter().map(ToString::to_string).collect();
    let more = if group.count > group.seeds.len() as u64 {
        ", …"
    } else {
        ""
    };
    let (count, seeds) = (group.count, seeds.join(", "));
    format!(
        "{title} ({count} of {}: seeds {seeds}{more})",
        plural(runs, "run")
    )
}

/// Why it failed, if the record proves it.
fn cause(rows: &mut Rows, outcome: &Outcome) {
    if let Some(cause) = &outcome.cause {
        rows.row("why", &cause.sentence);
        rows.row("", &format!("→ {}", cause.advice));
    }
}

/// Where the failure is remembered.
fn known(rows: &mut Rows, group: &Group) {
    let Some(known) = &group.known else {
        return;
    };
    let since = known.first_seen.as_ref();
    let since = since.map_or(String::new(), |commit| format!(" (since {commit})"));
    rows.paste("known", format!("{}{since}", known.case.display()));
}

/// What the failure needs, if it was made small.
fn small(rows: &mut Rows, group: &Group) {
    let Some(small) = &group.small else {
        return;
    };
    for (index, need) in small.needs.iter().enumerate() {
        rows.row(if index == 0 { "needs" } else { "" }, need);
    }
    if !small.is_minimal {
        rows.row("", "time was up: not all of this may be needed");
    }
    if let Some(case) = &small.case {
        let clients = plural(u64::from(small.clients), "client");
        rows.paste("case", format!("{} ({clients})", case.display()));
    }
}

/// What failing runs have in common and passing ones have not.
fn common(rows: &mut Rows, group: &Group) {
    for (index, common) in group.common.iter().enumerate() {
        let text = format!(
            "{}: {:.0} % of these runs, {:.0} % of passing ones (p = {:.0e})",
            common.feature,
            common.among_failing * 100.0,
            common.among_passing * 100.0,
            common.p_value
        );
        rows.row(if index == 0 { "in common" } else { "" }, &text);
    }
}

/// What was under way, what the seed had drawn, and what had happened before.
fn circumstances(rows: &mut Rows, group: &Group) {
    let outcome = &group.example;
    waits(rows, outcome);
    story(rows, outcome);
    drawn(rows, outcome);
    drawn_trouble(rows, outcome);
    let end = outcome.failures.first();
    let end = end.map_or(f64::INFINITY, |failure| failure.time);
    events(rows, "last errors", &last_until(&outcome.notable, end));
    events(
        rows,
        "faults before it",
        &last_until(&outcome.faults_around, end),
    );
    deaths(rows, outcome, end);
    counted(rows, "faults in all", &outcome.faults);
    for (index, frame) in outcome.stack.iter().enumerate() {
        let title = if index == 0 { "stack" } else { "" };
        rows.row(title, &shortened(frame));
    }
    uncontrolled(rows, outcome);
    printed(rows, &group.printed);
}

/// The last operations of the client that failed.
fn story(rows: &mut Rows, outcome: &Outcome) {
    if outcome.story.is_empty() {
        return;
    }
    let client = outcome.failures.first().and_then(|failure| failure.client);
    match client {
        Some(client) => rows.line(format_args!("  the last operations of client {client}")),
        None => rows.line("  the last operations"),
    }
    for line in &outcome.story {
        rows.aligned(2, line);
    }
}

/// The clients that died before the failure, the last of them.
fn deaths(rows: &mut Rows, outcome: &Outcome, end: f64) {
    let before = outcome.deaths.iter().filter(|death| death.time <= end);
    let before: Vec<_> = before.collect();
    let skipped = before.len().saturating_sub(EVENTS_MAX);
    for (index, death) in before[skipped..].iter().enumerate() {
        let title = if index == 0 { "clients died" } else { "" };
        rows.row(title, &death.to_string());
    }
}

/// The last events up to a moment.
fn last_until(events: &[Event], end: f64) -> Vec<&Event> {
    let before: Vec<&Event> = events.iter().filter(|event| event.time <= end).collect();
    let skipped = before.len().saturating_sub(EVENTS_MAX);
    before[skipped..].to_vec()
}

fn events(rows: &mut Rows, title: &str, events: &[&Event]) {
    if events.is_empty() {
        return;
    }
    rows.line(format_args!("  {title}"));
    for event in events {
        let style = if event.severity == Severity::Error {
            BAD
        } else {
            FAINT
        };
        let details = event.details.iter();
        let shown = details.filter(|(key, _)| !key.starts_with("Frame") && !is_tag(key));
        let details: Vec<String> = shown
            .map(|(key, value)| format!("{key}={}", shortened(value)))
            .collect();
        rows.aligned(
            4,
            &format!(
                "{:>12.6} s  {style}{}{style:#} {} {}",
                event.time,
                event.kind,
                event.machine,
                details.join(" ")
            ),
        );
    }
}

/// What the code under test printed: the first lines show what went wrong, the last ones how it
/// ended.
fn printed(rows: &mut Rows, text: &str) {
    let lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() {
        return;
    }
    let skipped = lines.len().saturating_sub(PRINTED_LINES_MAX);
    let first = if skipped > 0 {
        PRINTED_LINES_MAX / 2
    } else {
        lines.len()
    };
    rows.line("  printed");
    for line in &lines[..first] {
        rows.line(format_args!("    {FAINT}|{FAINT:#} {line}"));
    }
    if skipped > 0 {
        rows.line(format_args!("    {FAINT}({skipped} more lines){FAINT:#}"));
    }
    for line in &lines[first + skipped..] {
        rows.line(format_args!("    {FAINT}|{FAINT:#} {line}"));
    }
}
