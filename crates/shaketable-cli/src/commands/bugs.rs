//! `bugs`: the bugs that are remembered, and what became of them.

use crate::args::{BugsArgs, MessageFormat};
use crate::cargo_test;
use crate::exit_codes;
use crate::list;
use crate::pool::Addresses;
use crate::protocol::Request;
use crate::session::{Session, SessionError};
use crate::sweep::run_one;
use serde::Serialize;
use shaketable_host::bugs;
use shaketable_host::case::Case;
use shaketable_host::plan::Recording;
use shaketable_host::verdict::{Failure, FailureKind};
use std::fmt;
use std::path::{Path, PathBuf};

/// `bugs`.
pub fn bugs(args: &BugsArgs) -> Result<u8, SessionError> {
    let folder = args.folder.clone();
    let folder = folder.unwrap_or_else(|| crate::args::workspace_root().join(bugs::FOLDER));
    let files = list::find_test_files(std::slice::from_ref(&folder));
    if !folder.is_dir() || files.is_empty() {
        eprintln!("no bug is remembered in {}", folder.display());
        return Ok(exit_codes::PASSED);
    }
    let mut cases = Vec::new();
    for path in files {
        let case = Case::read(&path).map_err(|error| SessionError::TestFiles(vec![error]))?;
        cases.push((path, case));
    }
    let of_files = cases.iter().filter(|(_, case)| case.cargo_test.is_none());
    let of_files: Vec<PathBuf> = of_files.map(|(path, _)| path.clone()).collect();
    let mut session = match of_files.is_empty() {
        true => None,
        false => {
            let session = Session::prepare(&of_files, &args.simulation, &args.build, true)?;
            let pool = session.pool(1, Addresses::Fixed)?;
            Some((session, pool))
        }
    };
    let now = bugs::commit();
    let mut any_left = false;
    for (path, mut case) in cases {
        let file = of_files.iter().position(|file| *file == path);
        let ran = match (&mut session, file) {
            (Some((session, pool)), Some(file)) => {
                let request = Request {
                    file,
                    seed: case.seed,
                    recording: Recording::Nothing,
                    case: None,
                };
                let response = run_one(pool, request, &session.interrupted);
                Ok(response.ok_or(SessionError::Interrupted)?.outcome)
            }
            _ => cargo_test::run(&case, &path, None).map(|ran| ran.outcome),
        };
        let (state, failures) = match ran {
            Ok(outcome) => (State::of(&case, &outcome.failures), outcome.failures),
            Err(why) => {
                eprintln!("{}: {why}", path.display());
                (State::NotRun, Vec::new())
            }
        };
        any_left |= state != State::Gone;
        if state == State::Left && case.last_seen != now && now.is_some() {
            case.last_seen.clone_from(&now);
            bugs::write(&case, &path).map_err(|error| SessionError::Write(path.clone(), error))?;
        }
        match args.message_format {
            MessageFormat::Human => anstream::print!("{}", text(&path, &case, state, &failures)),
            MessageFormat::Json => println!("{}", json(&path, &case, state, &failures)),
        }
    }
    Ok(if any_left {
        exit_codes::TESTS_FAILED
    } else {
        exit_codes::PASSED
    })
}

/// What became of a bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// The case fails as it did.
    Left,
    /// The case passes.
    Gone,
    /// The case fails in another way.
    Other,
    /// A decision of the case never comes up.
    Outdated,
    /// Its test could not be run.
    NotRun,
}

impl State {
    fn of(case: &Case, failures: &[Failure]) -> State {
        match (&case.fails, failures.first()) {
            (_, None) => State::Gone,
            (_, Some(first)) if first.kind == FailureKind::CaseOutdated => State::Outdated,
            (Some(wanted), _) if !failures.iter().any(|one| one.signature() == *wanted) => {
                State::Other
            }
            _ => State::Left,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            State::Left => "still there",
            State::Gone => "gone",
            State::Other => "fails otherwise",
            State::Outdated => "outdated",
            State::NotRun => "not run",
        })
    }
}

fn text(path: &Path, case: &Case, state: State, failures: &[Failure]) -> String {
    let indent = " ".repeat(17);
    let mut text = format!("{:<15}  {}\n", state.to_string(), path.display());
    if let Some(note) = &case.note {
        text.push_str(&format!("{indent}{note}\n"));
    }
    if let (State::Other | State::Outdated, Some(failure)) = (state, failures.first()) {
        text.push_str(&format!("{indent}now: {failure}\n"));
    }
    let seen = match (&case.first_seen, &case.last_seen) {
        (Some(first), Some(last)) => Some(format!("first seen at {first}, last at {last}")),
        _ => None,
    };
    let facts: Vec<String> = case.finding.clone().into_iter().chain(seen).collect();
    if !facts.is_empty() {
        text.push_str(&format!("{indent}{}\n", facts.join("; ")));
    }
    text
}

fn json(path: &Path, case: &Case, state: State, failures: &[Failure]) -> String {
    #[derive(Serialize)]
    struct Line<'a> {
        #[serde(rename = "type")]
        kind: &'static str,
        path: &'a Path,
        state: State,
        case: &'a Case,
        failures: &'a [Failure],
    }
    let line = Line {
        kind: "bug",
        path,
        state,
        case,
        failures,
    };
    serde_json::to_string(&line).expect("a bug can be written")
}

#[cfg(test)]
mod tests {
    use super::*;
    use shaketable_host::verdict::Phase;

    fn failure(kind: FailureKind, message: &str) -> Failure {
        Failure {
            kind,
            test: "counter".into(),
            workload: "counter".into(),
            phase: Phase::Check,
            client: Some(0),
            time: 5.5,
            message: message.into(),
        }
    }

    #[test]
    fn a_bug_is_there_gone_or_something_else() {
        let known = failure(FailureKind::CheckFailed, "made 20, counted 21");
        let case = Case {
            note: Some("check failed: made 20, counted 21".into()),
            fails: Some(known.signature()),
            finding: Some("retry-after-unknown-result".into()),
            first_seen: Some("0123abc".into()),
            last_seen: Some("4567def".into()),
            ..Case::default()
        };
        let shown = |failures: Vec<Failure>| {
            let state = State::of(&case, &failures);
            text(Path::new("a.toml"), &case, state, &failures)
        };
        let texts = [
            shown(vec![failure(
                FailureKind::CheckFailed,
                "made 30, counted 33",
            )]),
            shown(vec![]),
            shown(vec![failure(FailureKind::Panicked, "index out of bounds")]),
            shown(vec![failure(
                FailureKind::CaseOutdated,
                "`x` never came up",
            )]),
        ];
        insta::assert_snapshot!(texts.join("\n"));
    }
}
