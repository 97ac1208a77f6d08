//! `explore`: every fate of every operation.

use super::run::folders::trace_names;
use crate::args::{ExploreArgs, MessageFormat, results_dir};
use crate::exit_codes;
use crate::explore::deaths::Death;
use crate::explore::table::{DeathRow, Row, Table};
use crate::explore::{Coped, Exploration, Try, explore as search};
use crate::minimise::relative;
use crate::pool::Addresses;
use crate::progress::spinner;
use crate::report::human::{Rows, columns, plural};
use crate::seed::Seed;
use crate::session::{Session, SessionError, workers};
use indicatif::ProgressBar;
use serde::Serialize;
use shaketable_host::case::Case;
use shaketable_host::minimise::words::clause;
use shaketable_host::verdict::Failure;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// `explore`.
pub fn explore(args: &ExploreArgs) -> Result<u8, SessionError> {
    let file = std::slice::from_ref(&args.search.file);
    let session = Session::prepare(file, &args.simulation, &args.build, true)?;
    let seed = session.only_seed(args.search.seed)?;
    let mut pool = session.pool(workers(args.search.jobs, None), Addresses::Fixed)?;
    let bar = match args.search.message_format {
        MessageFormat::Human => spinner(),
        MessageFormat::Json => ProgressBar::hidden(),
    };
    let mut progress = |tried: &str| {
        bar.set_message(format!("{tried} tried"));
        bar.tick();
    };
    let found = search(&session, &mut pool, seed, args.search.budget, &mut progress)?;
    bar.finish_and_clear();
    if found.base.passed() && found.operations.is_empty() {
        let file = args.search.file.display();
        eprintln!(
            "{file} seed {seed}: nothing to explore, because no workload of a library calls the database; \
             `shaketable run` runs such a file"
        );
        return Ok(exit_codes::NOTHING_RUN);
    }
    let name = format!("{}-{seed}", trace_names(&session.files)[0]);
    let folder = results_dir().join("explore").join(name);
    let _ = fs::remove_dir_all(&folder);
    let cases = write_cases(&found, &folder)?;
    let fatal_cases = write_fatal_cases(&found, &folder)?;
    let base_case = match found.base.passed() {
        true => None,
        false => {
            let path = folder.join("nothing-forced.toml");
            write_case(&found, found.case.clone(), &path)?;
            Some(path)
        }
    };
    let report = Report {
        file: &args.search.file,
        base_case,
        table: Table::new(&found, &cases),
        found: &found,
        cases: &cases,
        fatal_cases: &fatal_cases,
        program: &session.repro.program,
        is_interrupted: session.interrupted.load(Ordering::Relaxed),
    };
    match args.search.message_format {
        MessageFormat::Human => anstream::print!("{}", report.text(columns())),
        MessageFormat::Json => println!("{}", report.json()),
    }
    if report.is_interrupted {
        return Ok(exit_codes::INTERRUPTED);
    }
    let failed = found.failures().next().is_some() || found.fatal().next().is_some();
    Ok(match failed || !found.base.passed() {
        true => exit_codes::TESTS_FAILED,
        false => exit_codes::PASSED,
    })
}

/// Writes one case for each line and outcome that failed.
fn write_cases<'a>(
    found: &'a Exploration,
    folder: &Path,
) -> Result<Vec<(&'a Try, PathBuf)>, SessionError> {
    let mut written: Vec<(&Try, PathBuf)> = Vec::new();
    for one in found.failures() {
        if written.iter().any(|(other, _)| other.cell() == one.cell()) {
            continue;
        }
        let path = folder.join(format!("{}.toml", written.len() + 1));
        write_case(found, found.case_of(one), &path)?;
        written.push((one, path));
    }
    Ok(written)
}

/// Writes one case for each line in which a death was one too many.
fn write_fatal_cases<'a>(
    found: &'a Exploration,
    folder: &Path,
) -> Result<Vec<(&'a Death, PathBuf)>, SessionError> {
    let mut written: Vec<(&Death, PathBuf)> = Vec::new();
    for death in found.fatal() {
        if written.iter().any(|(other, _)| other.line == death.line) {
            continue;
        }
        let path = folder.join(format!("death-{}.toml", written.len() + 1));
        let case = Case {
            note: death.result.note(),
            ..death.case(&found.case)
        };
        write_case(found, case, &path)?;
        written.push((death, path));
    }
    Ok(written)
}

fn write_case(found: &Exploration, case: Case, path: &Path) -> Result<(), SessionError> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let refuse = |error| SessionError::Write(path.to_owned(), error);
    // The folder is there before the way from it to the test file is looked for.
    fs::create_dir_all(folder).map_err(refuse)?;
    let case = Case {
        test: relative(folder, &found.test),
        ..case
    };
    fs::write(path, case.to_toml()).map_err(refuse)
}

struct Report<'a> {
    file: &'a Path,
    found: &'a Exploration,
    table: Table,
    cases: &'a [(&'a Try, PathBuf)],
    /// The first death that was one too many, for each line.
    fatal_cases: &'a [(&'a Death, PathBuf)],
    /// The case of the run as it is, if that fails.
    base_case: Option<PathBuf>,
    program: &'a str,
    /// Whether the user ended it.
    is_interrupted: bool,
}

/// More failures than these are left to the table.
const FAILURES_SHOWN: usize = 8;

impl Report<'_> {
    fn text(&self, columns: usize) -> String {
        let Exploration {
            base, operations, ..
        } = self.found;
        let mut rows = Rows::new(columns);
        rows.words(&format!(
            "{} seed {}, {}: {}",
            self.file.display(),
            base.seed,
            plural(base.drawn.clients.into(), "client"),
            plural(operations.len() as u64, "operation")
        ));
        if let Some(failure) = base.failures.first() {
            rows.line("\nthe run fails as it is, with nothing forced:");
            rows.aligned(2, &failure.to_string());
            if let Some(path) = &self.base_case {
                rows.line(self.reproduce(path));
            }
            return rows.finish();
        }
        rows.line(self.table.text(columns));
        rows.words("✓ passed, ✗ failed of those tried, ? never tried, – cannot happen there");
        let mut failed = |line: &str, words: &str, failure: &Failure, path: &Path| {
            rows.line("");
            rows.words(&format!("{line}: {words}"));
            rows.aligned(2, &failure.to_string());
            rows.line(self.reproduce(path));
        };
        for (one, path) in self.cases.iter().take(FAILURES_SHOWN) {
            if let Coped::Failed(failure) = &one.result {
                let words: Vec<String> = one.decisions.iter().map(|name| clause(name)).collect();
                failed(&one.line, &words.join("; then "), failure, path);
            }
        }
        for (death, path) in self.fatal_cases.iter().take(FAILURES_SHOWN) {
            if let Coped::Failed(failure) = &death.result {
                failed(&death.line, &death.words(), failure, path);
            }
        }
        if self.cases.len() > FAILURES_SHOWN {
            let more = plural((self.cases.len() - FAILURES_SHOWN) as u64, "case");
            let folder = self.cases[0].1.parent().unwrap_or(Path::new(""));
            rows.line(format_args!("\n{more} more in {}", folder.display()));
        }
        rows.line("");
        for line in self.summary().lines() {
            rows.words(line);
        }
        rows.finish()
    }

    fn reproduce(&self, path: &Path) -> String {
        format!("  reproduce  {} replay {}", self.program, path.display())
    }

    /// How much was tried, and with what result.
    fn summary(&self) -> String {
        let (tried, possible) = (self.found.tried.len(), self.found.possible);
        let seconds = self.found.elapsed.as_secs_f64();
        let failed = self.found.failures().count() + self.found.fatal().count();
        let failed = match failed {
            0 => "none failed".to_owned(),
            failed => format!("{failed} failed"),
        };
        let deaths = match self.found.deaths.len() {
            0 => String::new(),
            deaths if self.found.all_died => format!("all {deaths} deaths and "),
            deaths => format!("the first {deaths} deaths and "),
        };
        if tried == possible {
            let pairs = match self.found.pairs.len() {
                0 => String::new(),
                pairs => format!(", and {pairs} with a second event during the retry"),
            };
            return format!(
                "{deaths}all {possible} outcomes tried in {seconds:.1} s{pairs}: {failed}"
            );
        }
        let (gaps, cells) = self.table.gaps();
        let gaps = match gaps {
            0 => format!("each of the {cells} pairs of line and outcome at least once"),
            gaps => format!("{gaps} of the {cells} pairs of line and outcome never"),
        };
        let why = match self.is_interrupted {
            true => "interrupted",
            false => "time was up: --budget gives more, --clients 2 makes the run smaller",
        };
        format!(
            "{deaths}{tried} of {possible} outcomes tried in {seconds:.1} s, {gaps}: {failed}\n{why}"
        )
    }

    fn json(&self) -> String {
        #[derive(Serialize)]
        struct Failed<'a> {
            line: &'a str,
            decisions: &'a [String],
            failure: &'a Failure,
            case: &'a Path,
        }
        #[derive(Serialize)]
        struct Fatal<'a> {
            line: &'a str,
            moment: String,
            failure: &'a Failure,
            case: &'a Path,
        }
        #[derive(Serialize)]
        struct Line<'a> {
            #[serde(rename = "type")]
            kind: &'static str,
            file: &'a Path,
            seed: Seed,
            clients: u32,
            operations: usize,
            possible: usize,
            tried: usize,
            pairs_tried: usize,
            failed: usize,
            deaths_tried: usize,
            all_died: bool,
            deaths_failed: usize,
            #[serde(skip_serializing_if = "Option::is_none")]
            fails_as_it_is: Option<&'a Failure>,
            #[serde(skip_serializing_if = "Option::is_none")]
            case: Option<&'a Path>,
            lines: &'a [Row],
            deaths: &'a [DeathRow],
            failures: Vec<Failed<'a>>,
            fatal: Vec<Fatal<'a>>,
            seconds: f64,
        }
        let failures = self.cases.iter().filter_map(|(one, path)| {
            let Coped::Failed(failure) = &one.result else {
                return None;
            };
            Some(Failed {
                line: &one.line,
                decisions: &one.decisions,
                failure,
                case: path,
            })
        });
        let fatal = self.fatal_cases.iter().filter_map(|(death, path)| {
            let Coped::Failed(failure) = &death.result else {
                return None;
            };
            Some(Fatal {
                line: &death.line,
                moment: death.moment.to_string(),
                failure,
                case: path,
            })
        });
        let line = Line {
            kind: "explored",
            file: self.file,
            seed: Seed(self.found.base.seed),
            clients: self.found.base.drawn.clients,
            operations: self.found.operations.len(),
            possible: self.found.possible,
            tried: self.found.tried.len(),
            pairs_tried: self.found.pairs.len(),
            failed: self.found.failures().count(),
            deaths_tried: self.found.deaths.len(),
            all_died: self.found.all_died,
            deaths_failed: self.found.fatal().count(),
            fails_as_it_is: self.found.base.failures.first(),
            case: self.base_case.as_deref(),
            lines: &self.table.rows,
            deaths: &self.table.deaths,
            failures: failures.collect(),
            fatal: fatal.collect(),
            seconds: self.found.elapsed.as_secs_f64(),
        };
        serde_json::to_string(&line).expect("a report can be written")
    }
}
