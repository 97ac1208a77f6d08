//! `minimise`: the smallest case that fails in the same way as a run.

use super::run::folders::{folder_of, trace_names};
use crate::args::{MessageFormat, MinimiseArgs};
use crate::exit_codes;
use crate::minimise::words::clause;
use crate::minimise::{CannotMinimise, Minimised, minimise as make_small};
use crate::pool::Addresses;
use crate::progress;
use crate::report::human::plural;
use crate::session::{Session, SessionError, workers};
use indicatif::ProgressBar;
use serde::Serialize;
use shaketable_host::failure_folder;
use shaketable_host::verdict::Failure;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// `minimise`.
pub fn minimise(args: &MinimiseArgs) -> Result<u8, SessionError> {
    let file = std::slice::from_ref(&args.file);
    let session = Session::prepare(file, &args.simulation, &args.build, true)?;
    let seed = session.only_seed(args.seed)?;
    let mut pool = session.pool(workers(args.jobs, None), Addresses::Fixed)?;
    let bar = match args.message_format {
        MessageFormat::Human => progress::spinner(),
        MessageFormat::Json => ProgressBar::hidden(),
    };
    let mut progress = |runs: u64| {
        bar.set_message(format!("{} tried", plural(runs, "candidate")));
        bar.tick();
    };
    let minimised = make_small(&session, &mut pool, (0, seed), args.budget, &mut progress);
    bar.finish_and_clear();
    let mut minimised = match minimised {
        Ok(minimised) => minimised,
        Err(CannotMinimise::Session(error)) => return Err(error),
        Err(reason) => {
            eprintln!("{} seed {seed}: {reason}", args.file.display());
            return Ok(match reason {
                CannotMinimise::Passes => exit_codes::NOTHING_RUN,
                _ => exit_codes::TESTS_FAILED,
            });
        }
    };
    let folder = folder_of(&trace_names(&session.files)[0], seed);
    minimised.write(&folder.join(failure_folder::CASE))?;
    if let Some(path) = &args.output {
        minimised.write(path)?;
    }
    match args.message_format {
        MessageFormat::Human => {
            let text = text(&minimised, &args.file, &session.repro.program);
            anstream::print!("{text}");
        }
        MessageFormat::Json => println!("{}", json(&minimised, &args.file)),
    }
    Ok(exit_codes::PASSED)
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
            minimised.listed().len().to_string(),
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
    let failure = found.tried.failure.as_ref().unwrap_or(&minimised.wanted);
    let _ = writeln!(text, "\n{failure}\n");
    for line in minimised.needs() {
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
    struct Needed<'a> {
        name: &'a str,
        words: String,
        without: Option<String>,
    }
    #[derive(Serialize)]
    struct Line<'a> {
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
    let needs = minimised.listed().iter().enumerate();
    let needs = needs.map(|(index, name)| Needed {
        name,
        words: clause(name),
        without: minimised.without(index),
    });
    let found = &minimised.found;
    let line = Line {
        kind: "minimised",
        file,
        seed: minimised.start.seed,
        decisions_before: minimised.happened(),
        needs: needs.collect(),
        clients_before: minimised.start.drawn.clients,
        clients: found.case.clients,
        simulated_seconds_before: minimised.start.simulated_seconds,
        simulated_seconds: found.tried.simulated_seconds,
        is_minimal: found.is_minimal,
        failure: found.tried.failure.as_ref().unwrap_or(&minimised.wanted),
        case: minimised.path.as_ref(),
        runs: minimised.runs,
        seconds: minimised.elapsed.as_secs_f64(),
    };
    serde_json::to_string(&line).expect("a report can be written")
}
