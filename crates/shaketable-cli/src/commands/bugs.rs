//! `bugs`: the bugs that are remembered, and what became of them.

use crate::args::{BugsArgs, MessageFormat};
use crate::bugs;
use crate::exit_codes;
use crate::list;
use crate::pool::Addresses;
use crate::protocol::Request;
use crate::session::{Session, SessionError};
use crate::sweep::run_one;
use serde::Serialize;
use shaketable_host::case::Case;
use shaketable_host::plan::Recording;
use shaketable_host::verdict::{FailureKind, Outcome};
use std::fmt;
use std::path::Path;

/// `bugs`.
pub fn bugs(args: &BugsArgs) -> Result<u8, SessionError> {
    let folder = args.folder.clone();
    let folder = folder.unwrap_or_else(|| crate::args::workspace_root().join(bugs::FOLDER));
    let files = list::find_test_files(std::slice::from_ref(&folder));
    if !folder.is_dir() || files.is_empty() {
        eprintln!("no bug is remembered in {}", folder.display());
        return Ok(exit_codes::PASSED);
    }
    let session = Session::prepare(&files, &args.simulation, &args.build, true)?;
    let mut pool = session.pool(1, Addresses::Fixed)?;
    let now = bugs::commit();
    let mut any_left = false;
    for (index, path) in files.iter().enumerate() {
        let mut case = Case::read(path).map_err(|error| SessionError::TestFiles(vec![error]))?;
        let request = Request {
            file: index,
            seed: case.seed,
            recording: Recording::Nothing,
            case: None,
        };
        let response = run_one(&mut pool, request, &session.interrupted);
        let outcome = response.ok_or(SessionError::Interrupted)?.outcome;
        let state = State::of(&case, &outcome);
        any_left |= state != State::Gone;
        if state == State::Left && case.last_seen != now && now.is_some() {
            case.last_seen.clone_from(&now);
            bugs::write(&case, path)?;
        }
        match args.message_format {
            MessageFormat::Human => anstream::print!("{}", text(path, &case, state, &outcome)),
            MessageFormat::Json => println!("{}", json(path, &case, state, &outcome)),
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
}

impl State {
    fn of(case: &Case, outcome: &Outcome) -> State {
        let mut failures = outcome.failures.iter();
        match (&case.fails, outcome.failures.first()) {
            (_, None) => State::Gone,
            (_, Some(first)) if first.kind == FailureKind::CaseOutdated => State::Outdated,
            (Some(wanted), _) if !failures.any(|one| one.signature() == *wanted) => State::Other,
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
        })
    }
}

fn text(path: &Path, case: &Case, state: State, outcome: &Outcome) -> String {
    let indent = " ".repeat(17);
    let mut text = format!("{:<15}  {}\n", state.to_string(), path.display());
    if let Some(note) = &case.note {
        text.push_str(&format!("{indent}{note}\n"));
    }
    if let (State::Other | State::Outdated, Some(failure)) = (state, outcome.failures.first()) {
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

fn json(path: &Path, case: &Case, state: State, outcome: &Outcome) -> String {
    #[derive(Serialize)]
    struct Line<'a> {
        #[serde(rename = "type")]
        kind: &'static str,
        path: &'a Path,
        state: State,
        case: &'a Case,
        failures: &'a [shaketable_host::verdict::Failure],
    }
    let line = Line {
        kind: "bug",
        path,
        state,
        case,
        failures: &outcome.failures,
    };
    serde_json::to_string(&line).expect("a bug can be written")
}

#[cfg(test)]
mod tests {
    use super::*;
    use shaketable_host::verdict::{Failure, Phase};

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
            let outcome = Outcome {
                failures,
                ..Outcome::default()
            };
            text(
                Path::new("a.toml"),
                &case,
                State::of(&case, &outcome),
                &outcome,
            )
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
