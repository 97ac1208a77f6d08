//! The report for the summary page of a GitHub Actions job: Markdown, appended to the file that
//! `GITHUB_STEP_SUMMARY` names.

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
    }
}
