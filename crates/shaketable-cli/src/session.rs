//! What `run`, `replay`, `stats` and `check-determinism` have in common: files read, libraries
//! built, workers started.

use crate::args::{BuildArgs, HostArgs, SimulationArgs, SweepArgs};
use crate::cargo::{self, BuildError};
use crate::exit_codes;
use crate::list;
use crate::pool::{Addresses, Pool, PoolError};
use crate::protocol::{FileJob, Host, Job};
use crate::report::repro::{Repro, program_words};
use crate::seed::Seed;
use crate::sweep::Schedule;
use shaketable_fdbserver::test_file::Unsupported;
use shaketable_fdbserver::{SeedTooWide, Server, ServerError};
use shaketable_host::plan::Settings;
use shaketable_host::testfile::{TestFile, TestFileError};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a seed may take in this program.
pub(crate) const HANG_LIMIT: Duration = Duration::from_secs(60);
/// How long a seed may take under a server: on one core, half a minute is usual.
const SERVER_HANG_LIMIT: Duration = Duration::from_secs(15 * 60);

/// Everything is ready for the first seed.
pub struct Session {
    /// The files, as the user named them.
    pub files: Vec<PathBuf>,
    /// The seeds of those files that are cases.
    pub case_seeds: Vec<Option<Seed>>,
    /// What workers are given.
    pub job: Job,
    /// How to write the line that repeats a run.
    pub repro: Repro,
    /// Set when the user interrupts.
    pub interrupted: Arc<AtomicBool>,
}

/// Why nothing can run.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// There is no test file.
    #[error(
        "no test file: give one, such as `shaketable run tests/atomic.toml`, or a package that has some with -p"
    )]
    NoFiles,
    /// There is none in the folders that were given.
    #[error("no test file found below {}: a test file is TOML with `[[test]]` tables", list::show(.0))]
    NoneFound(Vec<PathBuf>),
    /// Test files are wrong.
    #[error("test files are wrong")]
    TestFiles(Vec<TestFileError>),
    /// A library is not built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// There is no server to run seeds with.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// A server does not take a seed.
    #[error(transparent)]
    SeedTooWide(#[from] SeedTooWide),
    /// A server cannot run a file.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// Something else that a server cannot do.
    #[error("{0} needs the embedded host: fdbserver does not tell what that takes")]
    NeedsEmbedded(&'static str),
    /// No worker started.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A record cannot be read.
    #[error("{}", .0.display())]
    Record(PathBuf, #[source] shaketable_record::file::ReadError),
    /// The seed of a test file is not given.
    #[error("{} is a test file: give the --seed to run, or the folder of an earlier failure", .0.display())]
    NoSeed(PathBuf),
    /// A case has another seed than the one that is asked for.
    #[error("{} is a case with seed {}: leave --seed {} out, or change the seed in the case", .case.display(), .seed, .asked)]
    OtherSeed {
        /// The case.
        case: PathBuf,
        /// Its seed.
        seed: Seed,
        /// What was asked for.
        asked: Seed,
    },
    /// One run is asked for, and there are several files.
    #[error("expected one test file or case, found {}: name one of them, such as {}", .0.len(), .0[0].display())]
    SeveralFiles(Vec<PathBuf>),
    /// There is no such file, or folder, or it has no record.
    #[error("{} has no record: records are in the folders below target/shaketable/failures", .0.display())]
    NoRecord(PathBuf),
    /// A trace cannot be read.
    #[error("cannot read the trace {}", .0.display())]
    Trace(PathBuf, #[source] std::io::Error),
    /// A trace has nothing of what clients have seen.
    #[error("{} has no record of any client: build the workload with the feature `record` of the crate shaketable, and run it again", .0.display())]
    NoLines(PathBuf),
    /// The run was interrupted before it had a record.
    #[error("the run was interrupted")]
    Interrupted,
    /// What an earlier guided search has kept cannot be read, and would be overwritten.
    #[error(
        "cannot go on from the moments in {} (remove that file to search without them, or name another folder with --corpus)",
        .0.display()
    )]
    Corpus(PathBuf, #[source] std::io::Error),
    /// Something that must be written cannot be.
    #[error("cannot write {}", .0.display())]
    Write(PathBuf, #[source] std::io::Error),
}

impl SessionError {
    /// The message for the user.
    pub fn report(&self) -> String {
        match self {
            // Each of these is a report of its own, with the place in the file.
            SessionError::TestFiles(wrong) => {
                let wrong: Vec<String> = wrong.iter().map(ToString::to_string).collect();
                wrong.join("\n\n")
            }
            other => format!("error: {}", crate::with_causes(other)),
        }
    }

    /// The exit status for this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            SessionError::NoFiles | SessionError::NoneFound(_) => exit_codes::NOTHING_RUN,
            SessionError::Build(BuildError::Failed(_)) => exit_codes::BUILD_FAILED,
            SessionError::Interrupted => exit_codes::INTERRUPTED,
            _ => exit_codes::SETUP_FAILED,
        }
    }
}

impl Session {
    /// Reads the files and builds what they need.
    pub fn prepare(
        files: &[PathBuf],
        simulation: &SimulationArgs,
        build: &BuildArgs,
        capture: bool,
    ) -> Result<Session, SessionError> {
        let files = if files.is_empty() {
            cargo::test_files(build)?
        } else {
            let of = |path: &PathBuf| list::find_test_files(std::slice::from_ref(path));
            let found: Vec<PathBuf> = files.iter().flat_map(of).collect();
            if found.is_empty() {
                return Err(SessionError::NoneFound(files.to_vec()));
            }
            found
        };
        if files.is_empty() {
            return Err(SessionError::NoFiles);
        }
        let settings = Settings {
            swarm: simulation.swarm.map(crate::args::OnOff::is_on),
            buggify: simulation.buggify.map(crate::args::OnOff::is_on),
            fault_injection: simulation.fault_injection.map(crate::args::OnOff::is_on),
            stress: simulation.stress.map(crate::args::OnOff::is_on),
            knobs: simulation.knobs.clone(),
            clients: simulation.clients,
            coverage: false,
            measure: false,
            moments: false,
            stalled_after: simulation.stalled_after,
            liveness: simulation.liveness,
        };
        let (mut parsed, mut wrong) = (Vec::new(), Vec::new());
        for path in &files {
            match TestFile::read(path) {
                Ok(file) => parsed.push(file),
                Err(error) => wrong.push(error),
            }
        }
        if !wrong.is_empty() {
            return Err(SessionError::TestFiles(wrong));
        }
        let mut jobs = Vec::new();
        for (path, file) in files.iter().zip(&parsed) {
            jobs.push(FileJob {
                built: cargo::build_for(file, build)?,
                path: path.clone(),
            });
        }
        let seed_of = |file: &TestFile| file.case.as_ref().map(|case| Seed(case.seed));
        let case_seeds: Vec<Option<Seed>> = parsed.iter().map(seed_of).collect();
        let cases = files.iter().zip(&case_seeds);
        let cases = cases.filter(|(_, seed)| seed.is_some());
        let cases = cases.map(|(path, _)| path.clone()).collect();
        let interrupted = Arc::new(AtomicBool::new(false));
        watch_for_interrupt(&interrupted);
        Ok(Session {
            files,
            case_seeds,
            repro: Repro {
                program: program_words(),
                settings: settings.clone(),
                build: build.clone(),
                cases,
                host: HostArgs::default(),
            },
            job: Job {
                files: jobs,
                settings,
                hang_limit_seconds: simulation.hang_limit.unwrap_or(HANG_LIMIT).as_secs_f64(),
                capture,
                host: Host::Embedded,
            },
            interrupted,
        })
    }

    /// Has the seeds run where the user asks for, after looking at what that host needs. A trace
    /// that a server is asked for is kept of failing runs; with `keeps_passing` of all.
    pub fn on(
        mut self,
        host: &HostArgs,
        simulation: &SimulationArgs,
        keeps_passing: bool,
    ) -> Result<Session, SessionError> {
        let Some(find) = host.server() else {
            return Ok(self);
        };
        let server = Server::find(&find)?;
        for seed in self.case_seeds.iter().flatten() {
            server.takes(seed.0)?;
        }
        for file in &self.job.files {
            server.prepare(&file.path, &file.built, &self.job.settings)?;
        }
        self.repro.host = host.clone();
        let limit = simulation.hang_limit.unwrap_or(SERVER_HANG_LIMIT);
        self.job.hang_limit_seconds = limit.as_secs_f64();
        self.job.host = Host::Fdbserver {
            server: Box::new(server),
            keeps_passing,
        };
        Ok(self)
    }

    /// How many workers are started: as asked, else one for each core, but not more than there are
    /// runs, and of servers not more than fit into memory.
    pub fn workers(&self, asked: Option<u16>, runs: Option<u64>) -> usize {
        let count = workers(asked, runs);
        match (asked, &self.job.host) {
            (None, Host::Fdbserver { .. }) => count.min(shaketable_fdbserver::memory_for()),
            _ => count,
        }
    }

    /// The seed to run a single file with: that of the case, or the one that was asked for.
    pub fn only_seed(&self, asked: Option<Seed>) -> Result<Seed, SessionError> {
        if self.files.len() > 1 {
            return Err(SessionError::SeveralFiles(self.files.clone()));
        }
        let of_case = self.case_seeds.first().copied().flatten();
        if let (Some(seed), Some(asked)) = (of_case, asked)
            && seed != asked
        {
            let case = self.files[0].clone();
            return Err(SessionError::OtherSeed { case, seed, asked });
        }
        let no_seed = || SessionError::NoSeed(self.files[0].clone());
        of_case
            .or(asked)
            .ok_or_else(no_seed)
            .and_then(|seed| self.taken(seed))
    }

    /// The seeds that the arguments ask for, from one on that the host takes.
    pub fn schedule(&self, args: &SweepArgs, default_count: u64) -> Result<Schedule, SessionError> {
        let mut schedule = Schedule::new(args, default_count, self.files.len());
        schedule.first = self.taken(schedule.first)?;
        schedule.last = self.last_seed();
        Ok(schedule)
    }

    /// The last seed that the host takes.
    pub fn last_seed(&self) -> Seed {
        let server = self.job.host.server();
        Seed(server.map_or(u64::MAX, Server::last_seed))
    }

    fn taken(&self, seed: Seed) -> Result<Seed, SessionError> {
        if let Some(server) = self.job.host.server() {
            server.takes(seed.0)?;
        }
        Ok(seed)
    }

    /// Starts workers.
    pub fn pool(&self, workers: usize, addresses: Addresses) -> Result<Pool, SessionError> {
        Ok(Pool::start(&self.job, workers, addresses)?)
    }
}

/// The first interrupt ends the sweep in an orderly way; the second exits at once.
fn watch_for_interrupt(interrupted: &Arc<AtomicBool>) {
    let flag = interrupted.clone();
    // Only one handler can be set; a second session in one process shares that of the first.
    let _ = ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(exit_codes::INTERRUPTED));
        }
    });
}

/// The number of workers to start: as asked, else one for each core, but not more than there are
/// runs.
pub fn workers(asked: Option<u16>, runs: Option<u64>) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = asked.map_or(cores, usize::from);
    let runs = runs
        .and_then(|runs| usize::try_from(runs).ok())
        .unwrap_or(usize::MAX);
    workers.min(runs).max(1)
}
