//! `check-determinism`: runs every seed twice, in processes with different memory layouts, and
//! names the first difference.

use crate::args::{CheckArgs, MessageFormat};
use crate::exit_codes;
use crate::pool::{Addresses, Pool};
use crate::progress::Progress;
use crate::protocol::{Request, Response};
use crate::report::{Summary, human, json};
use crate::seed::Seed;
use crate::session::{Session, SessionError};
use crate::sweep::run_one;
use shaketable_fdbserver::trace::comparable;
use shaketable_host::plan::Recording;
use shaketable_host::trace::Format;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// How many seeds are compared by default.
const SEEDS_DEFAULT: u64 = 10;

/// Runs the check.
pub fn check_determinism(args: &CheckArgs) -> Result<u8, SessionError> {
    let session = Session::prepare(
        std::slice::from_ref(&args.file),
        &args.simulation,
        &args.build,
        true,
    )?;
    let session = session.on(&args.host, &args.simulation, true)?;
    let schedule = session.schedule(&args.sweep, SEEDS_DEFAULT)?;
    let schedule = schedule.with_cases(&session.case_seeds);
    let mut pools = [
        session.pool(1, Addresses::Fixed)?,
        session.pool(1, Addresses::Random)?,
    ];
    let is_json = args.output.message_format == MessageFormat::Json;
    if !is_json {
        let seeds = schedule
            .runs()
            .map_or("seeds".to_owned(), |runs| human::plural(runs, "seed"));
        eprintln!("{seeds} from {}, each twice", schedule.first);
    }
    let start = Instant::now();
    let progress = Progress::new(schedule.runs(), schedule.duration);
    let mut summary = Summary::new(session.files.clone());
    for (_, seed) in schedule.begin() {
        let Some([first, second]) = run_twice(
            &mut pools,
            &session,
            seed,
            [Recording::Nothing, Recording::Nothing],
        ) else {
            return Ok(exit_codes::INTERRUPTED);
        };
        if !same(&first, &second) {
            progress.finish();
            let message = explain(&mut pools, &session, args, seed, &first, &second)?;
            if is_json {
                let difference = json::Message::Difference {
                    file: &args.file,
                    seed,
                    message: &message,
                };
                println!("{}", difference.line());
            } else {
                anstream::println!(
                    "{}: seed {seed} gave two different runs\n{message}",
                    args.file.display()
                );
            }
            return Ok(exit_codes::NOT_DETERMINISTIC);
        }
        summary.add(&first);
        progress.show(&summary);
    }
    progress.finish();
    if is_json {
        println!(
            "{}",
            json::summary(&summary, start.elapsed(), exit_codes::PASSED).line()
        );
    } else {
        println!(
            "{}: {} deterministic",
            args.file.display(),
            if summary.runs() == 1 {
                "1 seed is".to_owned()
            } else {
                format!("{} seeds are", summary.runs())
            }
        );
    }
    Ok(exit_codes::PASSED)
}

fn run_twice(
    pools: &mut [Pool; 2],
    session: &Session,
    seed: Seed,
    recordings: [Recording; 2],
) -> Option<[Response; 2]> {
    let mut run = |pool: usize, recording: &Recording| {
        let request = Request {
            file: 0,
            seed: seed.0,
            recording: recording.clone(),
            case: None,
        };
        run_one(&mut pools[pool], request, &session.interrupted)
    };
    Some([run(0, &recordings[0])?, run(1, &recordings[1])?])
}

/// Whether two runs were the same, as far as can be seen.
fn same(first: &Response, second: &Response) -> bool {
    let (first, second) = (&first.outcome, &second.outcome);
    first.fingerprint == second.fingerprint
        && first.unseed == second.unseed
        && first.failures == second.failures
        && first.metrics == second.metrics
}

/// Runs the seed twice more with traces, and finds where they diverge.
fn explain(
    pools: &mut [Pool; 2],
    session: &Session,
    args: &CheckArgs,
    seed: Seed,
    first: &Response,
    second: &Response,
) -> Result<String, SessionError> {
    let folder = &args.output.trace_dir();
    fs::create_dir_all(folder).map_err(|error| SessionError::Write(folder.clone(), error))?;
    let stem = args.file.file_stem().unwrap_or_default().to_string_lossy();
    let paths = ["a", "b"].map(|run| folder.join(format!("{stem}-{seed}-{run}.json")));
    let recordings = paths.clone().map(|path| Recording::Trace {
        path,
        format: Format::Json,
        record: None,
    });
    run_twice(pools, session, seed, recordings);
    let by_server = session.job.host.server().is_some();
    let mut message = first_difference(&paths[0], &paths[1], by_server).unwrap_or_else(|| {
        format!(
            "the traces are equal, so the runs differ in something that is not traced (unseed {} and {})",
            first.outcome.unseed, second.outcome.unseed
        )
    });
    for what in first
        .outcome
        .uncontrolled
        .iter()
        .chain(&second.outcome.uncontrolled)
    {
        let line = format!("\n  the workload {what}");
        if !message.contains(&line) {
            message.push_str(&line);
        }
    }
    Ok(message)
}

/// The first event in which two traces differ, with what came before it.
fn first_difference(a: &Path, b: &Path, by_server: bool) -> Option<String> {
    let open = |path: &PathBuf| {
        let lines = |file| BufReader::new(file).lines().map_while(Result::ok);
        // Much of what a server traces depends on the machine.
        let told = move |line: String| match by_server {
            true => comparable(&line),
            false => Some(line),
        };
        fs::File::open(path).map(|file| lines(file).filter_map(told))
    };
    let (mut left, mut right) = (open(&a.to_owned()).ok()?, open(&b.to_owned()).ok()?);
    let mut number = 0;
    let mut before = None;
    loop {
        number += 1;
        match (left.next(), right.next()) {
            (None, None) => return None,
            (Some(x), Some(y)) if x == y => before = Some(x),
            (x, y) => {
                let show = |line: Option<String>| {
                    line.map_or("the run has ended".to_owned(), |line| brief(&line))
                };
                return Some(format!(
                    "  the first difference is event {number}\n    last in common  {}\n    first run       {}\n    second run      {}\n  traces {} and {}",
                    before.map_or("nothing".to_owned(), |line| brief(&line)),
                    show(x),
                    show(y),
                    a.display(),
                    b.display()
                ));
            }
        }
    }
}

/// An event of a trace in one line: time, client or machine, type, details.
fn brief(line: &str) -> String {
    let Ok(serde_json::Value::Object(fields)) = serde_json::from_str(line) else {
        return line.to_owned();
    };
    let text = |key: &str| {
        fields
            .get(key)
            .and_then(|value| value.as_str())
            .unwrap_or_default()
    };
    let place = match text("Machine")
        .strip_prefix("3.4.3.")
        .and_then(|rest| rest.split(':').next())
    {
        Some(number) => match number.parse::<u32>() {
            Ok(number) if number > 0 => format!("client {}", number - 1),
            _ => text("Machine").to_owned(),
        },
        None => text("Machine").to_owned(),
    };
    const COMMON: [&str; 9] = [
        "Severity",
        "ErrorKind",
        "Time",
        "DateTime",
        "Type",
        "Machine",
        "ID",
        "ThreadID",
        "LogGroup",
    ];
    let details: Vec<String> = fields
        .iter()
        .filter(|(key, _)| !COMMON.contains(&key.as_str()) && *key != "Roles")
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    format!(
        "{} s, {place}: {} {}",
        text("Time"),
        text("Type"),
        details.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_event_that_differs_is_named_with_its_client() {
        let folder = std::env::temp_dir().join(format!("shaketable-diff-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (a, b) = (folder.join("a.json"), folder.join("b.json"));
        let common = r#"{  "Severity": "10", "Time": "1.000000", "Type": "TestStarting", "Machine": "0.0.0.0:0", "ID": "0" }"#;
        let event = |value: &str| {
            format!(
                r#"{{  "Severity": "10", "Time": "2.500000", "Type": "Visited", "Machine": "3.4.3.2:1", "ID": "0", "Order": "{value}", "Roles": "TS" }}"#
            )
        };
        fs::write(&a, format!("{common}\n{}\n", event("x,y"))).unwrap();
        fs::write(&b, format!("{common}\n{}\n", event("y,x"))).unwrap();
        let text = first_difference(&a, &b, false)
            .unwrap()
            .replace(&folder.display().to_string(), "");
        insta::assert_snapshot!(text);
        assert_eq!(first_difference(&a, &a, false), None);
        fs::remove_dir_all(&folder).unwrap();
    }
}
