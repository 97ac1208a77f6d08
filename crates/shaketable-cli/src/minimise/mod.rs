//! Making a failure small.
//!
//! What is left out, and in which order, is decided by `shaketable_host::minimise`. [`oracle`] runs
//! its candidates on the worker processes, and this file puts them together.

pub mod oracle;

use crate::pool::Pool;
use crate::protocol::Request;
use crate::seed::Seed;
use crate::session::{Session, SessionError};
use crate::sweep::run_one;
use oracle::Oracle;
use shaketable_host::bugs;
use shaketable_host::case::Case;
use shaketable_host::minimise::search::{Found, search};
use shaketable_host::plan::Recording;
use shaketable_host::testfile::TestFile;
use shaketable_host::verdict::{Failure, Outcome};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A failure that was made small.
#[derive(Debug, Clone)]
pub struct Minimised {
    /// The run as it was.
    pub start: Outcome,
    /// Its failure.
    pub wanted: Failure,
    /// The smallest case that fails in the same way.
    pub found: Found,
    /// The test file.
    pub test: PathBuf,
    /// How many candidates were run.
    pub runs: u64,
    /// How long the search took.
    pub elapsed: Duration,
    /// Where the case was written.
    pub path: Option<PathBuf>,
}

/// Why a failure could not be made small.
#[derive(Debug, thiserror::Error)]
pub enum CannotMinimise {
    /// The run passes.
    #[error("the run passes: there is no failure to make small")]
    Passes,
    /// The run fails in another way when its decisions are listed: chance has a part in it that no
    /// decision names.
    #[error("the run does not fail in the same way again when its decisions are listed")]
    NotRepeated,
    /// Time was up before a first smaller case was found.
    #[error("time was up before a smaller case was found: give it a larger --budget")]
    TimeIsUp,
    /// No worker is left, or the user interrupted.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// A run whose failure is made small.
#[derive(Debug, Clone, Copy)]
pub struct Failing<'a> {
    /// The number of its file.
    pub file: usize,
    /// Its seed.
    pub seed: Seed,
    /// The whole of it, if the seed and the file are not all: a future in a guided search.
    pub case: Option<&'a Case>,
}

/// Makes the failure of a run small.
pub fn minimise(
    session: &Session,
    pool: &mut Pool,
    run: Failing<'_>,
    budget: Duration,
    progress: &mut dyn FnMut(u64),
) -> Result<Minimised, CannotMinimise> {
    let began = Instant::now();
    let Start {
        case,
        test,
        outcome: start,
    } = Start::run(session, pool, run)?;
    let wanted = start.failures.first();
    let wanted = wanted.ok_or(CannotMinimise::Passes)?.clone();
    let deadline = began + budget;
    let interrupted = &session.interrupted;
    let mut oracle = Oracle::new(pool, run.file, interrupted, deadline, &wanted, progress);
    let found = search(&mut oracle, &case, &start);
    let mut found = match found {
        Some(found) => found,
        None if session.interrupted.load(Ordering::Relaxed) => {
            return Err(SessionError::Interrupted.into());
        }
        None if oracle.is_out_of_time() => return Err(CannotMinimise::TimeIsUp),
        None => return Err(CannotMinimise::NotRepeated),
    };
    let failure = found.failure(&wanted);
    found.case.note = Some(format!("{}: {}", failure.kind.describe(), failure.message));
    Ok(Minimised {
        runs: oracle.runs,
        elapsed: began.elapsed(),
        start,
        wanted,
        found,
        test,
        path: None,
    })
}

/// The run that is looked at.
pub struct Start {
    /// The run as a case that says everything.
    pub case: Case,
    /// The path of its test file.
    pub test: PathBuf,
    /// What became of it, with its decisions.
    pub outcome: Outcome,
}

impl Start {
    /// Runs it again.
    pub fn run(
        session: &Session,
        pool: &mut Pool,
        run: Failing<'_>,
    ) -> Result<Start, SessionError> {
        let Failing { file, seed, case } = run;
        let path = &session.files[file];
        let read = TestFile::read(path).map_err(|error| SessionError::TestFiles(vec![error]))?;
        let mut case = match case {
            Some(case) => case.clone(),
            None => start_of(session, &read, seed),
        };
        let request = Request {
            file,
            seed: seed.0,
            recording: Recording::Decisions,
            case: Some(Box::new(case.clone())),
        };
        let response = run_one(pool, request, &session.interrupted);
        let outcome = response.ok_or(SessionError::Interrupted)?.outcome;
        case.clients = Some(outcome.drawn.clients);
        case.buggify = Some(outcome.drawn.buggify);
        case.stress = Some(outcome.drawn.stress);
        Ok(Start {
            case,
            test: read.path,
            outcome,
        })
    }
}

/// The case that is made smaller: what the file, a case, and the arguments say.
pub(crate) fn start_of(session: &Session, file: &TestFile, seed: Seed) -> Case {
    let settings = &session.job.settings;
    let mut case = file.case.as_deref().cloned().unwrap_or_default();
    case.seed = seed.0;
    case.test = file.path.clone();
    case.clients = settings.clients.or(case.clients);
    case.buggify = settings.buggify.or(case.buggify);
    case.fault_injection = settings.fault_injection.or(case.fault_injection);
    case.stress = settings.stress.or(case.stress);
    case.liveness = settings.liveness.or(case.liveness);
    case.swarm = settings.swarm.or(case.swarm);
    case.knobs.extend(settings.knobs.iter().cloned());
    case
}

impl Minimised {
    /// How many decisions happened in the run as it was, and deaths of clients.
    pub fn happened(&self) -> usize {
        let decisions = self.start.decisions.iter();
        decisions.filter(|decision| decision.is_event()).count() + self.start.deaths.len()
    }

    /// Writes the case to a file.
    pub fn write(&mut self, path: &Path) -> Result<(), SessionError> {
        let refuse = |error| SessionError::Write(path.to_owned(), error);
        let folder = path.parent().unwrap_or(Path::new(""));
        fs::create_dir_all(folder).map_err(refuse)?;
        let case = Case {
            test: relative(folder, &self.test),
            ..self.found.case.clone()
        };
        fs::write(path, case.to_toml()).map_err(refuse)?;
        self.path = Some(path.to_owned());
        Ok(())
    }

    /// Keeps the case in a folder of bugs.
    pub fn remember(&mut self, folder: &Path, finding: Option<&str>) -> Result<(), SessionError> {
        let case = Case {
            test: relative(folder, &self.test),
            finding: finding.map(str::to_owned),
            ..self.found.case.clone()
        };
        let signature = self.wanted.signature();
        let kept = bugs::remember(folder, &self.wanted.words(), &signature, case);
        let (path, _) = kept.map_err(|error| SessionError::Write(folder.to_owned(), error))?;
        self.path = Some(path);
        Ok(())
    }
}

/// The path of a file from a folder; both are from the current folder.
pub(crate) fn relative(folder: &Path, file: &Path) -> PathBuf {
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
