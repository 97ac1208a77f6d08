//! The report for people.

use super::{Group, Summary};
use crate::protocol::Response;
use crate::report::repro::Repro;
use anstyle::{AnsiColor, Style};
use shaketable_explain::text::wrapped;
use shaketable_host::trace::{Event, Severity};
use shaketable_host::verdict::Outcome;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

const GOOD: Style = AnsiColor::Green.on_default().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();
const FAINT: Style = Style::new().dimmed();
const STRONG: Style = Style::new().bold();

/// How many lines of what the code under test printed are shown.
const PRINTED_LINES_MAX: usize = 20;

/// How many events of a kind are shown; the trace has all of them.
const EVENTS_MAX: usize = 8;

/// One cause of failure.
pub fn failure(group: &Group, file: &Path, runs: u64, repro: &Repro) -> String {
    let outcome = &group.example;
    let mut out = String::new();
    let seed = outcome.seed;
    let _ = write!(
        out,
        "{BAD}FAIL{BAD:#} {STRONG}{}{STRONG:#} seed {seed}",
        file.display()
    );
    if group.count > 1 {
        let seeds: Vec<String> = group.seeds.iter().map(ToString::to_string).collect();
        let more = if group.count > group.seeds.len() as u64 {
            ", …"
        } else {
            ""
        };
        let _ = write!(
            out,
            "  ({} of {runs} runs: seeds {}{more})",
            group.count,
            seeds.join(", ")
        );
    }
    out.push('\n');
    for (index, failure) in outcome.failures.iter().take(4).enumerate() {
        let style = if index == 0 { STRONG } else { FAINT };
        let _ = writeln!(out, "  {style}{}{style:#}", shortened(&failure.to_string()));
    }
    if outcome.failures.len() > 4 {
        let _ = writeln!(
            out,
            "  {FAINT}and {} more{FAINT:#}",
            outcome.failures.len() - 4
        );
    }
    cause(&mut out, outcome);
    small(&mut out, group);
    common(&mut out, group);
    waits(&mut out, outcome);
    story(&mut out, outcome);
    drawn(&mut out, outcome);
    let end = outcome
        .failures
        .first()
        .map_or(f64::INFINITY, |failure| failure.time);
    events(&mut out, "last errors", &last_until(&outcome.notable, end));
    events(
        &mut out,
        "faults before it",
        &last_until(&outcome.faults_around, end),
    );
    fault_counts(&mut out, outcome);
    for (index, frame) in outcome.stack.iter().enumerate() {
        let title = if index == 0 { "stack" } else { "" };
        let _ = writeln!(out, "  {title:<17} {}", shortened(frame));
    }
    for what in &outcome.uncontrolled {
        let _ = writeln!(
            out,
            "  not controlled    the workload {what}: the seed may not decide everything"
        );
    }
    printed(&mut out, &group.printed);
    let folder = outcome.folder();
    if let Some(folder) = folder {
        let _ = writeln!(out, "  folder            {}", folder.display());
    }
    if let Some(trace) = &outcome.trace
        && folder != Path::new(trace).parent()
    {
        let _ = writeln!(out, "  trace             {trace}");
    }
    let _ = writeln!(
        out,
        "  reproduce         {STRONG}{}{STRONG:#}",
        repro.line(file, seed)
    );
    out
}

/// A run that the user interrupted: how far it was, and what each client was waiting for.
pub fn cut_short(run: &Response, file: &Path) -> String {
    let outcome = &run.outcome;
    let mut out = format!(
        "{STRONG}{}{STRONG:#} seed {} was interrupted after {:.1} s, {:.1} simulated seconds into the run\n",
        file.display(),
        outcome.seed,
        run.real_seconds,
        outcome.simulated_seconds
    );
    waits(&mut out, outcome);
    out
}

fn waits(out: &mut String, outcome: &Outcome) {
    for (index, wait) in outcome.waits.iter().enumerate() {
        let title = if index == 0 { "who waits" } else { "" };
        let _ = writeln!(out, "  {title:<17} {}", shortened(&wait.to_string()));
    }
}

/// What the failure needs, if it was made small.
fn small(out: &mut String, group: &Group) {
    const COLUMNS: usize = 100;
    let Some(small) = &group.small else {
        return;
    };
    let indent = " ".repeat(20);
    for (index, need) in small.needs.iter().enumerate() {
        let title = if index == 0 { "needs" } else { "" };
        for line in wrapped(&format!("  {title:<17} "), &indent, need, COLUMNS) {
            let _ = writeln!(out, "{line}");
        }
    }
    if let Some(case) = &small.case {
        let clients = plural(u64::from(small.clients), "client");
        let _ = writeln!(out, "  {:<17} {} ({clients})", "case", case.display());
    }
}

/// What failing runs have in common and passing ones have not.
fn common(out: &mut String, group: &Group) {
    for (index, common) in group.common.iter().enumerate() {
        let title = if index == 0 { "in common" } else { "" };
        let _ = writeln!(
            out,
            "  {title:<17} {}: {:.0} % of these runs, {:.0} % of passing ones (p = {:.0e})",
            common.feature,
            common.among_failing * 100.0,
            common.among_passing * 100.0,
            common.p_value
        );
    }
}

/// Why it failed, if the record proves it.
fn cause(out: &mut String, outcome: &Outcome) {
    const COLUMNS: usize = 100;
    let Some(cause) = &outcome.cause else {
        return;
    };
    let (title, indent) = (format!("  {:<17} ", "why"), " ".repeat(20));
    let advice = format!("→ {}", cause.advice);
    let sentence = wrapped(&title, &indent, &cause.sentence, COLUMNS);
    for line in sentence
        .into_iter()
        .chain(wrapped(&indent, &indent, &advice, COLUMNS))
    {
        let _ = writeln!(out, "{line}");
    }
}

/// The last operations of the client that failed.
fn story(out: &mut String, outcome: &Outcome) {
    if outcome.story.is_empty() {
        return;
    }
    let client = outcome.failures.first().and_then(|failure| failure.client);
    let _ = match client {
        Some(client) => writeln!(out, "  the last operations of client {client}"),
        None => writeln!(out, "  the last operations"),
    };
    for line in &outcome.story {
        let _ = writeln!(out, "  {line}");
    }
}

fn drawn(out: &mut String, outcome: &Outcome) {
    let drawn = &outcome.drawn;
    if drawn.clients == 0 {
        return;
    }
    let buggify = if drawn.buggify { "on" } else { "off" };
    let _ = write!(
        out,
        "  drawn             {} clients, buggify {buggify}",
        drawn.clients
    );
    if !drawn.cluster.is_empty() {
        let _ = write!(out, "; {}", drawn.cluster);
    }
    out.push('\n');
    if !drawn.faults.is_empty() {
        let _ = writeln!(out, "    faults          {}", drawn.faults.join(", "));
    }
    if !drawn.buggified.is_empty() {
        let _ = writeln!(out, "    buggified       {}", drawn.buggified.join(", "));
    }
    if !drawn.knobs.is_empty() {
        let knobs: Vec<String> = drawn
            .knobs
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let _ = writeln!(out, "    knobs           {}", knobs.join(", "));
    }
}

fn fault_counts(out: &mut String, outcome: &Outcome) {
    if !outcome.faults.is_empty() {
        let counts = outcome
            .faults
            .iter()
            .map(|(name, count)| format!("{count} × {name}"));
        let _ = writeln!(
            out,
            "  faults in all     {}",
            counts.collect::<Vec<_>>().join(", ")
        );
    }
}

/// The last events up to a moment.
fn last_until(events: &[Event], end: f64) -> Vec<Event> {
    let before: Vec<&Event> = events.iter().filter(|event| event.time <= end).collect();
    let skipped = before.len().saturating_sub(EVENTS_MAX);
    before[skipped..]
        .iter()
        .map(|event| (*event).clone())
        .collect()
}

fn events(out: &mut String, title: &str, events: &[Event]) {
    if events.is_empty() {
        return;
    }
    let _ = writeln!(out, "  {title}");
    for event in events {
        let style = if event.severity == Severity::Error {
            BAD
        } else {
            FAINT
        };
        let details: Vec<String> = event
            .details
            .iter()
            .filter(|(key, _)| {
                !key.starts_with("Frame") && key != "RustWorkload" && key != "RustFailure"
            })
            .map(|(key, value)| format!("{key}={}", shortened(value)))
            .collect();
        let _ = writeln!(
            out,
            "    {:>12.6} s  {style}{}{style:#} {} {}",
            event.time,
            event.kind,
            event.machine,
            details.join(" ")
        );
    }
}

fn printed(out: &mut String, text: &str) {
    let lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() {
        return;
    }
    // The first lines show what went wrong, the last ones how it ended.
    let skipped = lines.len().saturating_sub(PRINTED_LINES_MAX);
    let first = if skipped > 0 {
        PRINTED_LINES_MAX / 2
    } else {
        lines.len()
    };
    let _ = writeln!(out, "  printed");
    for line in &lines[..first] {
        let _ = writeln!(out, "    {FAINT}|{FAINT:#} {line}");
    }
    if skipped > 0 {
        let _ = writeln!(out, "    {FAINT}({skipped} lines more){FAINT:#}");
    }
    for line in &lines[first + skipped..] {
        let _ = writeln!(out, "    {FAINT}|{FAINT:#} {line}");
    }
}

/// The end of a report: what ran, what failed, and how to see it again.
pub fn summary(summary: &Summary, elapsed: Duration, repro: &Repro) -> String {
    let mut out = String::new();
    let runs = summary.runs();
    let failed = summary.total_failed();
    let verdict = if failed == 0 {
        format!("{GOOD}passed{GOOD:#}")
    } else {
        format!("{BAD}{failed} failed{BAD:#}")
    };
    let seconds = elapsed.as_secs_f64().max(1e-9);
    let _ = writeln!(
        out,
        "{}: {verdict}, {} simulated in {} ({:.0} runs/s, {:.0} times real time)",
        plural(runs, "run"),
        simulated(summary.simulated_seconds),
        real(elapsed),
        runs as f64 / seconds,
        summary.simulated_seconds / seconds,
    );
    for (what, count) in &summary.uncontrolled {
        let _ = writeln!(
            out,
            "  in {} the workload {what}: such runs may differ when repeated",
            plural(*count, "run")
        );
    }
    assertions(&mut out, summary);
    if summary.groups.len() > 1 {
        let _ = writeln!(out, "  {} distinct failures:", summary.groups.len());
        for group in &summary.groups {
            let first = group.example.failures.first();
            let text = first.map_or(String::new(), |failure| shortened(&failure.to_string()));
            let _ = writeln!(out, "  {:>6} × {text}", group.count);
        }
    }
    if let Some(group) = summary.groups.first() {
        let file = &summary.files[group.file];
        let _ = writeln!(out, "{}", repro.line(file, group.seeds[0]));
    }
    out
}

/// Each assertion in the code under test, and how often it held.
fn assertions(out: &mut String, summary: &Summary) {
    if summary.assertions.is_empty() {
        return;
    }
    let _ = writeln!(out, "  {:>10} {:>10}  assertion", "held", "did not");
    for one in &summary.assertions {
        let must_hold = matches!(one.kind.as_str(), "always" | "unreachable");
        let (style, remark) = if one.is_missed() {
            (BAD, "  never held")
        } else if must_hold && one.broken > 0 {
            (BAD, "  violated")
        } else {
            (FAINT, "")
        };
        let _ = writeln!(
            out,
            "  {:>10} {:>10}  {} {:?} {FAINT}{}{FAINT:#}{style}{remark}{style:#}",
            one.held, one.broken, one.kind, one.message, one.site
        );
    }
}

/// The lines fdbserver prints for a run, and the verdict.
pub fn single(outcome: &Outcome, file: &Path, real_seconds: f64) -> String {
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
    if !outcome.metrics.is_empty() {
        out.push('\n');
        for metric in &outcome.metrics {
            let _ = writeln!(out, "  {:<32} {}", metric.name, metric.formatted);
        }
    }
    if outcome.passed() {
        let _ = writeln!(
            out,
            "\n{GOOD}PASS{GOOD:#} {STRONG}{}{STRONG:#} seed {}",
            file.display(),
            outcome.seed
        );
        for what in &outcome.uncontrolled {
            let _ = writeln!(
                out,
                "  not controlled    the workload {what}: the seed may not decide everything"
            );
        }
    }
    out
}

/// The tables of `stats`.
pub fn stats(summary: &Summary) -> String {
    let mut out = String::new();
    let runs = summary.runs().max(1) as f64;
    let _ = writeln!(out, "{STRONG}errors that reached a workload{STRONG:#}");
    if summary.errors.is_empty() {
        let _ = writeln!(out, "  none");
    }
    for (code, count) in &summary.errors {
        let name = shaketable_host::error_name(*code);
        let _ = writeln!(
            out,
            "  {code:>5} {name:<36} {count:>9}  {:>9.2} per run",
            *count as f64 / runs
        );
    }
    let _ = writeln!(out, "{STRONG}faults{STRONG:#}");
    if summary.faults.is_empty() {
        let _ = writeln!(out, "  none");
    }
    for (name, count) in &summary.faults {
        let _ = writeln!(
            out,
            "        {name:<36} {count:>9}  {:>9.2} per run",
            *count as f64 / runs
        );
    }
    out
}

/// The beginning of a text, as much as fits a line; the trace has the rest.
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

fn real(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    if seconds >= 120.0 {
        format!("{:.1} minutes", seconds / 60.0)
    } else {
        format!("{seconds:.2} s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::BuildArgs;
    use crate::report::samples;
    use shaketable_host::plan::Settings;
    use shaketable_host::verdict::Metric;

    fn repro() -> Repro {
        Repro {
            program: "shaketable".into(),
            cases: Vec::new(),
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
}
