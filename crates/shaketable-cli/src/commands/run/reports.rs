//! What a campaign says: of its only run, of runs that were cut short, and at its end.
//!
//! The verdict is the exit status, and worth more than any report: a file that cannot be written is
//! complained about, and changes only the status of what passed.

use super::{Campaign, Traces};
use crate::commands::lint::Hazards;
use crate::exit_codes;
use crate::protocol::Response;
use crate::report::human::{self, Detail, Extent};
use crate::report::{Summary, github, json, junit};
use crate::session::SessionError;
use crate::sweep::Ended;
use shaketable_host::failure_folder;
use std::fs;
use std::path::Path;

/// What `--until-stable` has to say.
fn stability(summary: &Summary, last_news: u64) -> String {
    let runs = summary.runs();
    let missed = summary.missed().count() as u64;
    let since = runs - last_news;
    let news = match since {
        0 => "the last run still met something new".to_owned(),
        since => format!("nothing new in the last {}", human::plural(since, "run")),
    };
    let held = match missed {
        0 => "every `sometimes!` has held".to_owned(),
        missed => format!("{} never held", human::plural(missed, "assertion")),
    };
    match summary.is_stable(last_news) {
        true => format!("stable: {held}, and {news}"),
        false => format!("not stable yet: {held}, {news}"),
    }
}

impl Campaign<'_> {
    /// Reports a run that is the only one; a failure is reported with its cause later.
    pub(super) fn show_single(&self, response: &Response, file: &Path) {
        let Response {
            outcome,
            real_seconds,
            ..
        } = response;
        let detail = self.output.detail();
        if detail == Detail::Verbose {
            anstream::print!("{}", human::console(outcome, *real_seconds));
        }
        if outcome.passed() {
            let columns = human::columns();
            let text = human::passed(outcome, file, *real_seconds, detail, columns);
            anstream::print!("{text}");
        }
    }

    /// Reports what the runs that the user interrupted after a while were waiting for.
    pub(super) fn show_cut_short(&self, runs: &[Response]) {
        for run in runs {
            let file = &self.session.files[run.file];
            if self.is_json() {
                println!("{}", json::interrupted(run, file).line());
            } else {
                anstream::println!("{}", human::cut_short(run, file, human::columns()));
            }
        }
    }

    /// Writes the reports and decides the exit status.
    pub(super) fn conclude(
        &self,
        summary: &Summary,
        hazards: Option<&Hazards>,
        elapsed: std::time::Duration,
        ended: Ended,
    ) -> Result<u8, SessionError> {
        let repro = &self.session.repro;
        let detail = self.output.detail();
        // Failures come first; their records are not what passes.
        let hazards = hazards.filter(|_| summary.total_failed() == 0);
        let code = match () {
            () if summary.total_failed() > 0 => exit_codes::TESTS_FAILED,
            () if ended == Ended::Interrupted => exit_codes::INTERRUPTED,
            () if ended == Ended::NoWorkers => exit_codes::SETUP_FAILED,
            () if summary.runs() == 0 => exit_codes::NOTHING_RUN,
            () if self.require_sometimes && summary.missed().next().is_some() => {
                exit_codes::TESTS_FAILED
            }
            () if self.require_coverage && !summary.gaps().is_empty() => exit_codes::TESTS_FAILED,
            () if hazards.is_some_and(|hazards| !hazards.is_empty()) => exit_codes::TESTS_FAILED,
            () => exit_codes::PASSED,
        };
        for group in &summary.groups {
            let file = &self.session.files[group.file];
            let report = |detail, columns| {
                human::failure(group, file, summary.runs(), repro, detail, columns)
            };
            if let Some(folder) = group.example.folder() {
                let plain = human::plain(&report(Detail::Usual, human::UNWRAPPED));
                let path = folder.join(failure_folder::REPORT);
                // The verdict is worth more than the file.
                if let Err(error) = fs::write(&path, plain) {
                    eprintln!("warning: cannot write {}: {error}", path.display());
                }
            }
            if self.is_json() {
                println!("{}", json::failure(group, file, repro).line());
            } else {
                anstream::println!("{}", report(detail, human::columns()));
            }
        }
        let code = self.write_reports(summary, code);
        if self.is_json() {
            print!("{}", hazards.map(Hazards::json).unwrap_or_default());
            println!("{}", json::summary(summary, elapsed, code).line());
            return Ok(code);
        }
        if self.traces == Traces::Counts {
            anstream::print!("{}", human::stats(summary, human::columns()));
        }
        if summary.runs() == 0 && code == exit_codes::NOTHING_RUN {
            eprintln!("nothing was run: time was up before the first seed");
        } else if !self.is_single() {
            let extent = match ended {
                Ended::Interrupted => Extent::Interrupted(self.schedule.runs()),
                Ended::Complete | Ended::Stopped | Ended::NoWorkers => Extent::Complete,
            };
            let columns = human::columns();
            let text = human::summary(summary, elapsed, extent, detail, columns);
            anstream::print!("{text}");
        }
        if let (Some(last_news), true) = (summary.last_news, self.until_stable) {
            anstream::println!("{}", stability(summary, last_news));
        }
        let missed = summary.missed().count() as u64;
        if self.require_sometimes && missed > 0 {
            anstream::println!(
                "--require-sometimes: {} never held",
                human::plural(missed, "assertion")
            );
        }
        let gaps = summary.gaps().len() as u64;
        if self.require_coverage && gaps > 0 {
            anstream::println!(
                "--require-coverage: {} with outcomes that were never met",
                human::plural(gaps, "line")
            );
        }
        if let Some(hazards) = hazards {
            anstream::print!("\n{}--lint: {}", hazards.text(), hazards.summary());
        }
        Ok(code)
    }

    /// Writes the reports for CI systems, and returns the exit status. The verdict is worth more
    /// than a file: what cannot be written is said, and changes only the status of what passed.
    fn write_reports(&self, summary: &Summary, code: u8) -> u8 {
        let repro = &self.session.repro;
        let junit = self.output.junit.as_ref().map(|path| {
            let xml = junit::report(summary, repro).map_err(std::io::Error::other);
            let written = xml.and_then(|xml| fs::write(path, xml));
            written.map_err(|error| SessionError::Write(path.clone(), error))
        });
        let job_summary = github::append(summary, repro)
            .map_err(|error| SessionError::Write("the job summary".into(), error));
        github::annotate(summary, repro);
        let mut code = code;
        for error in junit
            .into_iter()
            .chain([job_summary])
            .filter_map(Result::err)
        {
            eprintln!("{}", error.report());
            if code == exit_codes::PASSED {
                code = error.exit_code();
            }
        }
        code
    }
}
