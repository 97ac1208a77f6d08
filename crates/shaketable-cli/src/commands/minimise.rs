//! `minimise`: the smallest case that fails in the same way as a run.

use super::run::{folder_of, trace_names};
use crate::args::{MessageFormat, MinimiseArgs};
use crate::exit_codes;
use crate::minimise::oracle::{Oracle, Tried};
use crate::minimise::search::{Found, search};
use crate::minimise::words::clause;
use crate::pool::{Addresses, Pool};
use crate::protocol::Request;
use crate::report::human::plural;
use crate::session::{Session, SessionError, workers};
use crate::sweep::run_one;
use indicatif::ProgressBar;
use serde::Serialize;
use shaketable_host::case::Case;
use shaketable_host::failure_folder;
use shaketable_host::plan::{Recording, Settings};
use shaketable_host::testfile::TestFile;
use shaketable_host::verdict::{Failure, Outcome};
use std::fmt::Write;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

/// `minimise`.
pub fn minimise(args: &MinimiseArgs) -> Result<u8, SessionError> {
    let began = Instant::now();
    let file = std::slice::from_ref(&args.file);
    let mut session = Session::prepare(file, &args.simulation, &args.build, true)?;
    let seed = session.only_seed(args.seed)?;
    let read = TestFile::read(&args.file).map_err(|error| SessionError::TestFiles(vec![error]))?;
    let settings = std::mem::take(&mut session.job.settings);
    session.job.settings.stalled_after = settings.stalled_after;
    let mut start = start_of(&read, &settings, seed.0);
    let mut pool = session.pool(workers(args.jobs, None), Addresses::Fixed)?;
    let outcome = run_start(&mut pool, &session, &start)?;
    let Some(wanted) = outcome.failures.first().cloned() else {
        eprintln!(
            "{} passes with seed {seed}: there is no failure to make small",
            args.file.display()
        );
        return Ok(exit_codes::NOTHING_RUN);
    };
    start.clients = Some(outcome.drawn.clients);
    start.buggify = Some(outcome.drawn.buggify);
    let bar = match args.message_format {
        MessageFormat::Human => ProgressBar::new_spinner(),
        MessageFormat::Json => ProgressBar::hidden(),
    };
    let searching = Instant::now();
    let mut progress = |runs: u64| {
        bar.set_message(format!("{} tried", plural(runs, "candidate")));
        bar.tick();
    };
    let deadline = searching + args.budget;
    let mut oracle = Oracle::new(
        &mut pool,
        &session.interrupted,
        deadline,
        &wanted,
        &mut progress,
    );
    let found = search(&mut oracle, &start, &outcome.decisions);
    let runs = oracle.runs;
    bar.finish_and_clear();
    let Some(mut found) = found else {
        eprintln!(
            "{} with seed {seed} does not fail in the same way when its decisions are listed",
            args.file.display()
        );
        return Ok(exit_codes::TESTS_FAILED);
    };
    let failure = found.tried.failure.as_ref().unwrap_or(&wanted);
    found.case.note = Some(format!("{}: {}", failure.kind.describe(), failure.message));
    let folder = folder_of(&trace_names(&session.files)[0], seed);
    let paths = [Some(folder.join(failure_folder::CASE)), args.output.clone()];
    for path in paths.iter().flatten() {
        write_case(&found.case, &read.path, path)?;
    }
    let report = Report {
        file: &args.file,
        start: &outcome,
        wanted: &wanted,
        found: &found,
        path: args.output.as_ref().or(paths[0].as_ref()),
        runs,
        elapsed: began.elapsed(),
        replay: session.repro.program.clone(),
    };
    match args.message_format {
        MessageFormat::Human => anstream::print!("{}", report.text()),
        MessageFormat::Json => println!("{}", report.json()),
    }
    Ok(exit_codes::PASSED)
}

/// The case that is made smaller: what the file, a case, and the arguments say.
fn start_of(file: &TestFile, settings: &Settings, seed: u32) -> Case {
    let mut case = file.case.as_deref().cloned().unwrap_or_default();
    case.seed = seed;
    case.test = file.path.clone();
    case.clients = settings.clients.or(case.clients);
    case.buggify = settings.buggify.or(case.buggify);
    case.fault_injection = settings.fault_injection.or(case.fault_injection);
    case.stress |= settings.stress;
    case.knobs.extend(settings.knobs.iter().cloned());
    case
}

fn run_start(pool: &mut Pool, session: &Session, start: &Case) -> Result<Outcome, SessionError> {
    let request = Request {
        file: 0,
        seed: start.seed,
        recording: Recording::Decisions,
        case: Some(Box::new(start.clone())),
    };
    let response = run_one(pool, request, &session.interrupted);
    Ok(response.ok_or(SessionError::Interrupted)?.outcome)
}

/// Writes a case to a file; `test` is the path of its test file, from the current folder.
fn write_case(case: &Case, test: &Path, path: &Path) -> Result<(), SessionError> {
    let refuse = |error| SessionError::Write(path.to_owned(), error);
    let folder = path.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(folder).map_err(refuse)?;
    let case = Case {
        test: relative(folder, test),
        ..case.clone()
    };
    fs::write(path, case.to_toml()).map_err(refuse)
}

/// The path of a file from a folder; both are from the current folder.
fn relative(folder: &Path, file: &Path) -> PathBuf {
    let (Ok(folder), Ok(file)) = (std::path::absolute(folder), fs::canonicalize(file)) else {
        return file.to_owned();
    };
    let folder = fs::canonicalize(&folder).unwrap_or(folder);
    let (folder, file): (Vec<Component<'_>>, Vec<Component<'_>>) =
        (folder.components().collect(), file.components().collect());
    let common = folder
        .iter()
        .zip(&file)
        .take_while(|(one, other)| one == other)
        .count();
    let up = (common..folder.len()).map(|_| Component::ParentDir);
    up.chain(file[common..].iter().copied()).collect()
}

/// What was found, for people and programs.
struct Report<'a> {
    file: &'a Path,
    start: &'a Outcome,
    wanted: &'a Failure,
    found: &'a Found,
    path: Option<&'a PathBuf>,
    runs: u64,
    elapsed: Duration,
    replay: String,
}

impl Report<'_> {
    fn listed(&self) -> &[String] {
        self.found.case.only.as_deref().unwrap_or_default()
    }

    fn happened(&self) -> usize {
        let decisions = self.start.decisions.iter();
        decisions.filter(|decision| decision.happened).count()
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let found = self.found;
        let _ = writeln!(
            text,
            "{} seed {}, made small in {:.1} s with {}",
            self.file.display(),
            self.start.seed,
            self.elapsed.as_secs_f64(),
            plural(self.runs, "run")
        );
        let rows = [
            (
                "decisions",
                self.happened().to_string(),
                self.listed().len().to_string(),
            ),
            (
                "clients",
                self.start.drawn.clients.to_string(),
                found.case.clients.unwrap_or_default().to_string(),
            ),
            (
                "simulated",
                format!("{:.1} s", self.start.simulated_seconds),
                format!("{:.1} s", found.tried.simulated_seconds),
            ),
        ];
        for (what, before, after) in rows {
            let _ = writeln!(text, "  {what:<10} {before:>8} → {after}");
        }
        for (name, number) in &found.case.options {
            let _ = writeln!(text, "  {name} = {number}");
        }
        let failure = found.tried.failure.as_ref().unwrap_or(self.wanted);
        let _ = writeln!(text, "\n{failure}\n");
        if self.listed().is_empty() {
            text.push_str("needs: no fault, only the clients\n");
        }
        for (index, name) in self.listed().iter().enumerate() {
            let _ = writeln!(text, "needs: {}", clause(name));
            if let Some(without) = self.without(index) {
                let _ = writeln!(text, "       {without}");
            }
        }
        if !found.is_minimal {
            text.push_str("time was up before each of these was known to be needed\n");
        }
        if let Some(path) = self.path {
            let path = path.display();
            let _ = writeln!(text, "\ncase       {path}");
            let _ = writeln!(text, "reproduce  {} replay {path}", self.replay);
        }
        text
    }

    /// What happens without a decision.
    fn without(&self, index: usize) -> Option<String> {
        let tried: &Tried = self.found.without.get(index)?.as_deref()?;
        Some(match &tried.failure {
            None => "without it the run passes".to_owned(),
            Some(other) => format!("without it the run fails in another way: {other}"),
        })
    }

    fn json(&self) -> String {
        #[derive(Serialize)]
        struct Needed<'a> {
            name: &'a str,
            words: String,
            without: Option<String>,
        }
        #[derive(Serialize)]
        struct Minimised<'a> {
            #[serde(rename = "type")]
            kind: &'static str,
            file: &'a Path,
            seed: u32,
            decisions_before: usize,
            needs: Vec<Needed<'a>>,
            clients_before: u32,
            clients: Option<u32>,
            simulated_seconds_before: f64,
            simulated_seconds: f64,
            is_minimal: bool,
            failure: &'a Failure,
            case: Option<&'a PathBuf>,
            runs: u64,
            seconds: f64,
        }
        let needs = self
            .listed()
            .iter()
            .enumerate()
            .map(|(index, name)| Needed {
                name,
                words: clause(name),
                without: self.without(index),
            });
        let minimised = Minimised {
            kind: "minimised",
            file: self.file,
            seed: self.start.seed,
            decisions_before: self.happened(),
            needs: needs.collect(),
            clients_before: self.start.drawn.clients,
            clients: self.found.case.clients,
            simulated_seconds_before: self.start.simulated_seconds,
            simulated_seconds: self.found.tried.simulated_seconds,
            is_minimal: self.found.is_minimal,
            failure: self.found.tried.failure.as_ref().unwrap_or(self.wanted),
            case: self.path,
            runs: self.runs,
            seconds: self.elapsed.as_secs_f64(),
        };
        serde_json::to_string(&minimised).expect("a report can be written")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_names_its_test_file_from_its_own_folder() {
        let root = std::env::temp_dir().join(format!("shaketable-case-{}", std::process::id()));
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/test.toml"), "").unwrap();
        let file = root.join("a/test.toml");
        assert_eq!(
            relative(&root.join("a/b"), &file),
            Path::new("../test.toml")
        );
        assert_eq!(relative(&root.join("a"), &file), Path::new("test.toml"));
        fs::remove_dir_all(&root).unwrap();
    }
}
