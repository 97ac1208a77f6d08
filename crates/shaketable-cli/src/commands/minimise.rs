//! `minimise`: the smallest case that fails in the same way as a run.

use super::run::folders::{folder_of, trace_names};
use crate::args::{MessageFormat, MinimiseArgs};
use crate::cargo_test;
use crate::exit_codes;
use crate::minimise::{CannotMinimise, Failing, Minimised, minimise as make_small};
use crate::pool::Addresses;
use crate::progress;
use crate::report::human::plural;
use crate::seed::Seed;
use crate::session::{Session, SessionError, workers};
use indicatif::ProgressBar;
use serde::Serialize;
use shaketable_host::case::{Case, is_case};
use shaketable_host::failure_folder;
use shaketable_host::minimise::told::Told;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// The type of the message that a case became small.
const KIND: &str = "minimised";

/// `minimise`.
pub fn minimise(args: &MinimiseArgs) -> Result<u8, SessionError> {
    if let Some(case) = of_cargo_test(&args.search.file) {
        return in_cargo_test(args, &case);
    }
    let file = std::slice::from_ref(&args.search.file);
    let session = Session::prepare(file, &args.simulation, &args.build, true)?;
    let seed = session.only_seed(args.search.seed)?;
    let mut pool = session.pool(workers(args.search.jobs, None), Addresses::Fixed)?;
    let bar = match args.search.message_format {
        MessageFormat::Human => progress::spinner(),
        MessageFormat::Json => ProgressBar::hidden(),
    };
    let mut progress = |runs: u64| {
        bar.set_message(format!("{} tried", plural(runs, "candidate")));
        bar.tick();
    };
    let run = Failing {
        file: 0,
        seed,
        case: None,
    };
    let minimised = make_small(&session, &mut pool, run, args.search.budget, &mut progress);
    bar.finish_and_clear();
    let mut minimised = match minimised {
        Ok(minimised) => minimised,
        Err(CannotMinimise::Session(error)) => return Err(error),
        Err(reason) => {
            eprintln!("{} seed {seed}: {reason}", args.search.file.display());
            return Ok(match reason {
                CannotMinimise::Passes => exit_codes::NOTHING_RUN,
                CannotMinimise::TimeIsUp => exit_codes::INTERRUPTED,
                _ => exit_codes::TESTS_FAILED,
            });
        }
    };
    let folder = folder_of(&trace_names(&session.files)[0], seed);
    minimised.write(&folder.join(failure_folder::CASE))?;
    if let Some(path) = &args.output {
        minimised.write(path)?;
    }
    match args.search.message_format {
        MessageFormat::Human => {
            let text = text(&minimised, &args.search.file, &session.repro.program);
            anstream::print!("{text}");
        }
        MessageFormat::Json => println!("{}", json(&minimised, &args.search.file)),
    }
    Ok(exit_codes::PASSED)
}

/// The case in this file, if it belongs to a test of `cargo test`.
fn of_cargo_test(file: &Path) -> Option<Case> {
    let source = fs::read_to_string(file).ok()?;
    let case = is_case(&source).then(|| Case::read(file).ok())??;
    case.cargo_test.is_some().then_some(case)
}

/// Has the test program make its own case small.
fn in_cargo_test(args: &MinimiseArgs, case: &Case) -> Result<u8, SessionError> {
    let file = args.search.file.display();
    match cargo_test::run(case, &args.search.file, Some(args.search.budget)) {
        Err(why) => {
            eprintln!("{file}: {why}");
            Ok(exit_codes::TESTS_FAILED)
        }
        Ok(ran) if ran.outcome.failures.is_empty() => {
            eprintln!("{file}: {}", CannotMinimise::Passes);
            Ok(exit_codes::NOTHING_RUN)
        }
        Ok(ran) => {
            match (args.search.message_format, ran.minimised) {
                (MessageFormat::Human, _) => {
                    let source = fs::read_to_string(&args.search.file).unwrap_or_default();
                    let line = case.line(&args.search.file);
                    anstream::print!("{file} is now\n\n{source}\nreproduce  {line}\n");
                }
                (MessageFormat::Json, Some(told)) => {
                    println!("{}", told_json(&args.search.file, Seed(case.seed), &told));
                }
                (MessageFormat::Json, None) => eprintln!("{file}: nothing smaller was found"),
            }
            Ok(exit_codes::PASSED)
        }
    }
}

/// The line of a case of `cargo test`, which is made small in its own file.
fn told_json(file: &Path, seed: Seed, told: &Told) -> String {
    #[derive(Serialize)]
    struct Line<'a> {
        #[serde(rename = "type")]
        kind: &'static str,
        file: &'a Path,
        seed: Seed,
        #[serde(flatten)]
        told: &'a Told,
        case: &'a Path,
    }
    let line = Line {
        kind: KIND,
        file,
        seed,
        told,
        case: file,
    };
    serde_json::to_string(&line).expect("a report can be written")
}

fn text(minimised: &Minimised, file: &Path, program: &str) -> String {
    let mut text = String::new();
    let (start, found) = (&minimised.start, &minimised.found);
    let _ = writeln!(
        text,
        "{} seed {}, made small in {:.1} s with {}",
        file.display(),
        start.seed,
        minimised.elapsed.as_secs_f64(),
        plural(minimised.runs, "run")
    );
    let rows = [
        (
            "decisions",
            minimised.happened().to_string(),
            found.needs.len().to_string(),
        ),
        (
            "clients",
            start.drawn.clients.to_string(),
            found.case.clients.unwrap_or_default().to_string(),
        ),
        (
            "simulated",
            format!("{:.1} s", start.simulated_seconds),
            format!("{:.1} s", found.tried.simulated_seconds),
        ),
    ];
    for (what, before, after) in rows {
        let _ = writeln!(text, "  {what:<10} {before:>8} → {after}");
    }
    for (name, number) in &found.case.options {
        let _ = writeln!(text, "  {name} = {number}");
    }
    let failure = found.failure(&minimised.wanted);
    let _ = writeln!(text, "\n{failure}\n");
    for line in found.sentences() {
        let _ = writeln!(text, "needs: {line}");
    }
    if !found.is_minimal {
        text.push_str("time was up before each of these was known to be needed\n");
    }
    if let Some(path) = &minimised.path {
        let path = path.display();
        let _ = writeln!(text, "\ncase       {path}");
        let _ = writeln!(text, "reproduce  {program} replay {path}");
    }
    text
}

fn json(minimised: &Minimised, file: &Path) -> String {
    #[derive(Serialize)]
    struct Line<'a> {
        #[serde(rename = "type")]
        kind: &'static str,
        file: &'a Path,
        seed: Seed,
        decisions_before: usize,
        clients_before: u32,
        simulated_seconds_before: f64,
        simulated_seconds: f64,
        #[serde(flatten)]
        told: Told,
        case: Option<&'a PathBuf>,
        runs: u64,
        seconds: f64,
    }
    let found = &minimised.found;
    let line = Line {
        kind: KIND,
        file,
        seed: Seed(minimised.start.seed),
        decisions_before: minimised.happened(),
        clients_before: minimised.start.drawn.clients,
        simulated_seconds_before: minimised.start.simulated_seconds,
        simulated_seconds: found.tried.simulated_seconds,
        told: Told::new(found, &minimised.wanted),
        case: minimised.path.as_ref(),
        runs: minimised.runs,
        seconds: minimised.elapsed.as_secs_f64(),
    };
    serde_json::to_string(&line).expect("a report can be written")
}
