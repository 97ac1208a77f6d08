//! `when`: at which moment a failure became inevitable.

use super::log;
use super::run::folders::{folder_of, trace_names};
use crate::args::{FilterArgs, LogArgs, LogFormat, MessageFormat, ValuesShown, WhenArgs};
use crate::exit_codes;
use crate::minimise::oracle::Oracle;
use crate::minimise::{Failing, Start};
use crate::pool::Addresses;
use crate::progress;
use crate::report::human::plural;
use crate::seed::Seed;
use crate::session::{Session, SessionError, workers};
use crate::when::{Moment, When, run_futures, when as search};
use indicatif::ProgressBar;
use serde::Serialize;
use shaketable_host::case::TakenDecision;
use shaketable_host::failure_folder;
use shaketable_host::story::Story;
use shaketable_host::verdict::Failure;
use shaketable_page::{Curve, Likelihood};
use shaketable_record::Record;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// `when`.
pub fn when(args: &WhenArgs) -> Result<u8, SessionError> {
    let began = Instant::now();
    let record = log::find(&LogArgs {
        file: args.search.file.clone(),
        seed: args.search.seed,
        filter: FilterArgs::default(),
        format: LogFormat::Text,
        values: ValuesShown::Short,
        simulation: args.simulation.clone(),
        build: args.build.clone(),
    })?;
    let file = std::slice::from_ref(&args.search.file);
    let session = Session::prepare(file, &args.simulation, &args.build, true)?;
    let seed = session.only_seed(args.search.seed)?;
    let mut pool = session.pool(workers(args.search.jobs, None), Addresses::Fixed)?;
    let run = Failing {
        file: 0,
        seed,
        case: None,
    };
    let start = Start::run(&session, &mut pool, run)?;
    let Some(failure) = start.outcome.failures.first() else {
        eprintln!("{} seed {seed}: the run passes", args.search.file.display());
        return Ok(exit_codes::NOTHING_RUN);
    };
    let decisions: Vec<&TakenDecision> = start
        .outcome
        .decisions
        .iter()
        .filter(|decision| decision.happened)
        .collect();
    let happenings = happenings(&record, &decisions);
    let times: Vec<f64> = happenings.iter().map(|happening| happening.time).collect();
    let bar = match args.search.message_format {
        MessageFormat::Human => progress::spinner(),
        MessageFormat::Json => ProgressBar::hidden(),
    };
    let mut progress = |runs: u64| {
        bar.set_message(format!("{} run", plural(runs, "future")));
        bar.tick();
    };
    let deadline = Instant::now() + args.search.budget;
    let interrupted = &session.interrupted;
    let mut oracle = Oracle::new(&mut pool, 0, interrupted, deadline, failure, &mut progress);
    let found = search(failure.time, &times, args.futures, |times, futures| {
        run_futures(&mut oracle, &start.case, times, futures)
    });
    let runs = oracle.runs;
    bar.finish_and_clear();
    let Some(found) = found else {
        eprintln!("time was up before the first moments were known: give it a larger --budget");
        return Ok(exit_codes::INTERRUPTED);
    };
    let decisive = happenings.iter();
    let decisive = decisive.filter(|one| found.happenings.contains(&one.time));
    let report = Report {
        file: &args.search.file,
        seed,
        failure,
        found: &found,
        decisive: decisive.take(HAPPENINGS_SHOWN).collect(),
        runs,
        seconds: began.elapsed().as_secs_f64(),
    };
    let folder = folder_of(&trace_names(&session.files)[0], seed);
    let page = write_page(&folder, &record, &report.curve())?;
    match args.search.message_format {
        MessageFormat::Human => {
            anstream::print!("{}page  {}\n", report.text(), page.display());
        }
        MessageFormat::Json => println!("{}", report.json()),
    }
    Ok(exit_codes::PASSED)
}

/// Writes the page of the run with the curve, and the curve for pages to come; returns where.
fn write_page(folder: &Path, record: &Record, curve: &Curve) -> Result<PathBuf, SessionError> {
    let json = serde_json::to_vec(curve).expect("a curve can be written");
    let path = folder.join(failure_folder::WHEN);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&path, json))
        .map_err(|error| SessionError::Write(path, error))?;
    let explanation = shaketable_explain::explain(record);
    let path = folder.join(failure_folder::PAGE);
    fs::File::create(&path)
        .and_then(|file| shaketable_page::write_html(record, &explanation, Some(curve), file))
        .map_err(|error| SessionError::Write(path.clone(), error))?;
    Ok(path)
}

fn likelihood(moment: &Moment) -> Likelihood {
    let (low, high) = moment.interval();
    Likelihood {
        time: moment.time,
        probability: moment.probability(),
        low,
        high,
    }
}

/// More than these say nothing about what was decisive.
const HAPPENINGS_SHOWN: usize = 12;

/// Something that happened in the run.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Happening {
    time: f64,
    text: String,
}

/// Everything that a person could point at: operations, decisions, what happened to the cluster.
fn happenings(record: &Record, decisions: &[&TakenDecision]) -> Vec<Happening> {
    let story = Story::of(record);
    let mut all = Vec::new();
    for (id, operation) in (0..).zip(&record.operations) {
        let attempt = &record.attempts[operation.attempt as usize];
        let client = match attempt.client {
            Some(client) => format!("client {client}"),
            None => "the tester".to_owned(),
        };
        let text = story.text(id);
        let asked = text.split(" → ").next().unwrap_or_default();
        all.push(Happening {
            time: operation.asked,
            text: format!("{client} asks: {asked}"),
        });
        if let Some(time) = operation.answered {
            all.push(Happening {
                time,
                text: format!("{client} is answered: {text}"),
            });
        }
    }
    all.extend(decisions.iter().map(|decision| Happening {
        time: decision.time,
        text: shaketable_host::minimise::words::clause(&decision.text()),
    }));
    let events = record.events.iter().filter(|event| event.fault);
    all.extend(events.map(|event| {
        Happening {
            time: event.time,
            text: format!("{} {}", event.name, event.machine)
                .trim_end()
                .to_owned(),
        }
    }));
    all.sort_by(|one, other| one.time.total_cmp(&other.time));
    all
}

struct Report<'a> {
    file: &'a Path,
    seed: Seed,
    failure: &'a Failure,
    found: &'a When,
    decisive: Vec<&'a Happening>,
    runs: u64,
    seconds: f64,
}

impl Report<'_> {
    fn curve(&self) -> Curve {
        let (before, after) = &self.found.jump;
        let decisive = self.decisive.iter();
        let decisive = decisive.map(|one| format!("{:.6} s  {}", one.time, one.text));
        Curve {
            moments: self.found.moments.iter().map(likelihood).collect(),
            step: (likelihood(before), likelihood(after)),
            decisive: decisive.collect(),
        }
    }

    fn text(&self) -> String {
        const COLUMNS: f64 = 40.0;
        let mut text = format!(
            "{} seed {}\n{}\n\nhow likely it was, had the rest of the run been drawn anew\n",
            self.file.display(),
            self.seed,
            self.failure
        );
        for moment in &self.found.moments {
            let filled = (moment.probability() * COLUMNS).round() as usize;
            let _ = writeln!(
                text,
                "  {:>12.6} s  {:<40}  {}",
                moment.time,
                "█".repeat(filled),
                percentages(moment)
            );
        }
        let (before, after) = &self.found.jump;
        let _ = writeln!(
            text,
            "\nthe largest step, from {:.0} % to {:.0} %, is between {:.6} s and {:.6} s:",
            before.probability() * 100.0,
            after.probability() * 100.0,
            before.time,
            after.time
        );
        for happening in &self.decisive {
            let _ = writeln!(text, "  {:>12.6} s  {}", happening.time, happening.text);
        }
        if self.decisive.is_empty() {
            text.push_str("  nothing that has a name: only how long messages took, and the like\n");
        }
        if before.interval().1 >= after.interval().0 {
            text.push_str("so small a step may be chance: give it more --futures\n");
        }
        let runs = plural(self.runs, "future");
        let _ = writeln!(text, "\n{runs} in {:.1} s", self.seconds);
        text
    }

    fn json(&self) -> String {
        #[derive(Serialize)]
        struct Point {
            #[serde(flatten)]
            moment: Moment,
            probability: f64,
            low: f64,
            high: f64,
        }
        #[derive(Serialize)]
        struct Line<'a> {
            #[serde(rename = "type")]
            kind: &'static str,
            file: &'a Path,
            seed: Seed,
            failure: &'a Failure,
            moments: Vec<Point>,
            jump_from: f64,
            jump_to: f64,
            decisive: &'a [&'a Happening],
            futures: u64,
            seconds: f64,
        }
        let moments = self.found.moments.iter().map(|moment| Point {
            moment: *moment,
            probability: moment.probability(),
            low: moment.interval().0,
            high: moment.interval().1,
        });
        let line = Line {
            kind: "when",
            file: self.file,
            seed: self.seed,
            failure: self.failure,
            moments: moments.collect(),
            jump_from: self.found.jump.0.time,
            jump_to: self.found.jump.1.time,
            decisive: &self.decisive,
            futures: self.runs,
            seconds: self.seconds,
        };
        serde_json::to_string(&line).expect("a report can be written")
    }
}

fn percentages(moment: &Moment) -> String {
    let (low, high) = moment.interval();
    format!(
        "{:>3.0} % ({:.0} to {:.0})",
        moment.probability() * 100.0,
        low * 100.0,
        high * 100.0
    )
}
