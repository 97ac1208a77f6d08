//! What a job of GitHub Actions shows: a summary on its page, as Markdown that is appended to the
//! file that `GITHUB_STEP_SUMMARY` names, and an annotation on the line of the code that made the
//! mistake, or that panicked. A failure without such a line is annotated without a place.

use super::Summary;
use crate::report::human::{plural, simulated};
use crate::report::repro::Repro;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;

/// Appends the report to the job's summary, if this is a job of GitHub Actions.
pub fn append(summary: &Summary, repro: &Repro) -> io::Result<()> {
    let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty()) else {
        return Ok(());
    };
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(Path::new(&path))?;
    file.write_all(markdown(summary, repro).as_bytes())
}

/// Annotates the lines that failures come from, if this is a job of GitHub Actions. Its runner
/// reads them from the standard error too, which leaves the messages on the standard output alone.
pub fn annotate(summary: &Summary, repro: &Repro) {
    if std::env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true") {
        eprint!("{}", annotations(summary, repro));
    }
}

/// One workflow command for each distinct failure.
fn annotations(summary: &Summary, repro: &Repro) -> String {
    let mut out = String::new();
    for group in &summary.groups {
        let failure = group.example.failures[0].to_string();
        let cause = group.example.cause.as_ref();
        let place = match cause {
            Some(cause) => cause.place.as_deref(),
            None => panicked_at(&failure),
        };
        let place = place.and_then(|place| {
            let mut parts = place.split(':');
            let (file, line) = (parts.next()?, parts.next()?);
            Some(format!("file={},line={line},", property(file)))
        });
        let title = cause.map_or("a seed failed", |cause| cause.name.as_str());
        let told = cause.map_or(failure.as_str(), |cause| cause.sentence.as_str());
        let line = group.reproduce(repro, &summary.files[group.file]);
        let runs = plural(group.count, "run");
        let _ = writeln!(
            out,
            "::error {}title={}::{}",
            place.unwrap_or_default(),
            property(&format!("Shaketable: {title}")),
            data(&format!("{told}\n{runs} failed; {line}"))
        );
    }
    out
}

/// The place in the text of a panic: what stands last, as `(at src/lib.rs:12:5)`.
fn panicked_at(failure: &str) -> Option<&str> {
    let (_, place) = failure.strip_suffix(')')?.rsplit_once("(at ")?;
    Some(place)
}

/// As a workflow command wants its message.
fn data(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// As a workflow command wants the value of a property.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

/// The Markdown.
pub fn markdown(summary: &Summary, repro: &Repro) -> String {
    let mut out = String::new();
    let failed = summary.total_failed();
    let verdict = if failed == 0 { "passed" } else { "failed" };
    let _ = writeln!(
        out,
        "### Shaketable: {verdict}\n\n{}, {} failed, {} simulated\n",
        plural(summary.runs(), "run"),
        failed,
        simulated(summary.simulated_seconds)
    );
    if summary.groups.is_empty() {
        return out;
    }
    let _ = writeln!(out, "| runs | failure | reproduce |\n|---:|---|---|");
    for group in &summary.groups {
        let text = group.example.failures[0]
            .to_string()
            .replace('|', "\\|")
            .replace('\n', " ");
        let line = group.reproduce(repro, &summary.files[group.file]);
        let _ = writeln!(out, "| {} | {text} | `{line}` |", group.count);
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::BuildArgs;
    use crate::report::samples;
    use shaketable_host::plan::Settings;

    #[test]
    fn failures_are_rows_with_their_line_to_paste() {
        let repro = Repro {
            program: "shaketable".into(),
            cases: Vec::new(),
            host: crate::args::HostArgs::default(),
            settings: Settings::default(),
            build: BuildArgs::default(),
        };
        insta::assert_snapshot!(markdown(&samples::summary(), &repro));
        insta::assert_snapshot!(annotations(&samples::summary(), &repro));
    }

    #[test]
    fn the_place_of_a_panic_is_found() {
        let failure = "panicked in start of test, client 3: out of (eggs) (at src/lib.rs:12:5)";
        assert_eq!(panicked_at(failure), Some("src/lib.rs:12:5"));
        assert_eq!(panicked_at("the stack is used up (in start)"), None);
    }
}
