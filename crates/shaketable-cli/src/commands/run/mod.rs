//! `run`, `replay` and `stats`: sweeps and their reports.
//!
//! All three are a campaign: a schedule of seeds that a pool of workers simulates. They differ in
//! which runs leave a trace. While it goes on, its `watcher` counts, groups failures by cause and
//! shows progress; then one seed of each cause is run again for its record. `folders` decides where
//! traces and records go, `reports` says how it ended and decides the exit status.

pub(super) mod folders;
mod reports;
mod watcher;

use super::lint::Hazards;
use crate::args::{
    MessageFormat, Minimising, OutputArgs, ReplayArgs, RunArgs, StatsArgs, SweepArgs, ValuesShown,
};
use crate::exit_codes;
use crate::guided::{Budget, Search, corpus, search};
use crate::pool::{Addresses, Pool};
use crate::progress::Progress;
use crate::protocol::Host;
use crate::report::human::{self, Detail};
use crate::report::{Guided, Summary, json};
use crate::seed::Seed;
use crate::session::{Session, SessionError};
use crate::sweep::{Ended, Schedule, sweep};
use folders::trace_names;
use shaketable_host::plan::{Recording, Values};
use std::fs;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};
use watcher::{Stability, Watcher};

/// `run`.
pub fn run(args: &RunArgs) -> Result<u8, SessionError> {
    let default_count = match () {
        () if args.guided => RUNS_GUIDED,
        () if args.until_stable => RUNS_UNTIL_STABLE,
        () => 1,
    };
    let is_one = args.sweep.seeds.unwrap_or(default_count) == 1;
    let single = is_one && args.sweep.duration.is_none() && !args.guided;
    // What a workload prints would mix with the messages.
    let capture = !single || args.output.message_format == MessageFormat::Json;
    let session = Session::prepare(&args.files, &args.simulation, &args.build, capture)?;
    let mut session = session.on(&args.host, &args.simulation, args.trace)?;
    if session.job.host.server().is_some() {
        refuse_embedded_only(args)?;
    }
    session.job.settings.coverage = true;
    session.job.settings.moments = args.guided;
    let schedule = session.schedule(&args.sweep, default_count)?;
    let schedule = schedule.with_cases(&session.case_seeds);
    if schedule.runs() == Some(0) {
        return Ok(nothing(&args.sweep, args.output.message_format));
    }
    let recording = if args.trace {
        Traces::All
    } else {
        Traces::Failing
    };
    let campaign = Campaign::new(&session, &args.output, schedule, args.sweep.jobs, recording)
        .stop_at_first(args.fail_fast)
        .require_sometimes(args.require_sometimes)
        .require_coverage(args.require_coverage)
        .make_small(minimising(args), args.minimise_budget)
        .remember(args.remember.clone());
    campaign
        .lint(args.lint)
        .guide(args.guided, args.corpus.clone())
        .until_stable(args.until_stable)
        .run()
}

/// Refuses what needs to look into the cluster, or to change single decisions.
fn refuse_embedded_only(args: &RunArgs) -> Result<(), SessionError> {
    let needs = [
        ("--lint", args.lint),
        ("--require-coverage", args.require_coverage),
        ("--remember", args.remember.is_some()),
        ("--minimise", args.minimise == Minimising::Always),
        ("--guided", args.guided),
    ];
    match needs.iter().find(|(_, is_asked)| *is_asked) {
        Some((option, _)) => Err(SessionError::NeedsEmbedded(option)),
        None => Ok(()),
    }
}

/// How many runs a guided search has if it is not told.
const RUNS_GUIDED: u64 = 1_000;
/// How many runs there are at most until things are stable, if it is not told.
const RUNS_UNTIL_STABLE: u64 = 1_000_000;

/// Whether failures are made small: what remembers them does so always.
fn minimising(args: &RunArgs) -> Minimising {
    let is_watched = args.output.message_format == MessageFormat::Human
        && std::io::stderr().is_terminal()
        && std::env::var_os("CI").is_none();
    match args.minimise {
        _ if args.remember.is_some() => Minimising::Always,
        Minimising::Auto if !is_watched => Minimising::Never,
        asked => asked,
    }
}

/// `replay`.
pub fn replay(args: &ReplayArgs) -> Result<u8, SessionError> {
    let session = Session::prepare(
        std::slice::from_ref(&args.file),
        &args.simulation,
        &args.build,
        args.output.message_format == MessageFormat::Json,
    )?;
    let session = session.on(&args.host, &args.simulation, true)?;
    let schedule = Schedule {
        first: session.only_seed(args.seed)?,
        last: session.last_seed(),
        count: Some(1),
        duration: None,
        shard: None,
        files: 1,
        cases: Vec::new(),
    };
    Campaign::new(&session, &args.output, schedule, Some(1), Traces::Replayed)
        .show_values(args.values)
        .run()
}

/// `stats`.
pub fn stats(args: &StatsArgs) -> Result<u8, SessionError> {
    let session = Session::prepare(&args.files, &args.simulation, &args.build, true)?;
    let session = session.on(&args.host, &args.simulation, false)?;
    let schedule = session.schedule(&args.sweep, 100)?;
    let schedule = schedule.with_cases(&session.case_seeds);
    Campaign::new(
        &session,
        &args.output,
        schedule,
        args.sweep.jobs,
        Traces::Counts,
    )
    .run()
}

fn nothing(asked: &SweepArgs, format: MessageFormat) -> u8 {
    let why = match asked.shard {
        Some(_) => "this part of the seeds is empty",
        None => "no seeds were asked for",
    };
    if format == MessageFormat::Human {
        eprintln!("nothing to run: {why}");
    }
    exit_codes::NOTHING_RUN
}

/// Which runs leave a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Traces {
    /// Failing ones, which are run again for it.
    Failing,
    /// Every one.
    All,
    /// The one that is replayed, with its record.
    Replayed,
    /// None, not even those of failing ones.
    Counts,
}

/// One sweep with its reports.
struct Campaign<'a> {
    session: &'a Session,
    output: &'a OutputArgs,
    schedule: Schedule,
    jobs: usize,
    traces: Traces,
    /// What the traces of each file are called.
    trace_names: Vec<String>,
    fail_fast: bool,
    require_sometimes: bool,
    require_coverage: bool,
    minimising: Minimising,
    /// How long all failures together are made small.
    minimise_budget: Duration,
    /// How many processes make a failure small.
    minimise_jobs: usize,
    /// The folder in which bugs are remembered.
    remembered: Option<PathBuf>,
    values: Values,
    /// Whether all runs are searched for hazards.
    lint: bool,
    guided: bool,
    /// Where the moments of a guided search are kept.
    corpus: Option<PathBuf>,
    until_stable: bool,
}

impl<'a> Campaign<'a> {
    fn new(
        session: &'a Session,
        output: &'a OutputArgs,
        schedule: Schedule,
        jobs: Option<u16>,
        traces: Traces,
    ) -> Self {
        Campaign {
            session,
            output,
            jobs: session.workers(jobs, schedule.runs()),
            minimise_jobs: session.workers(jobs, None),
            schedule,
            traces,
            trace_names: trace_names(&session.files),
            fail_fast: false,
            require_sometimes: false,
            require_coverage: false,
            minimising: Minimising::Never,
            minimise_budget: Duration::ZERO,
            remembered: None,
            values: Values::default(),
            lint: false,
            guided: false,
            corpus: None,
            until_stable: false,
        }
    }

    /// Searches with guidance. A search that is given its time goes on from earlier ones.
    fn guide(mut self, guided: bool, corpus: Option<PathBuf>) -> Self {
        let usual = || crate::args::results_dir().join("corpus");
        let is_long = guided && self.schedule.duration.is_some();
        self.guided = guided;
        self.corpus = corpus.or_else(|| is_long.then(usual));
        self
    }

    fn until_stable(mut self, until_stable: bool) -> Self {
        self.until_stable = until_stable;
        self
    }

    fn lint(mut self, lint: bool) -> Self {
        self.lint = lint;
        self
    }

    fn show_values(mut self, values: ValuesShown) -> Self {
        self.values = values.into();
        self
    }

    fn stop_at_first(mut self, fail_fast: bool) -> Self {
        self.fail_fast = fail_fast;
        self
    }

    fn make_small(mut self, minimising: Minimising, budget: Duration) -> Self {
        self.minimising = minimising;
        self.minimise_budget = budget;
        self
    }

    /// Remembers bugs where the user asks for it; else in the usual folder, but only if it is
    /// there. That a workspace has one is for its owner to decide.
    fn remember(mut self, asked: Option<Option<PathBuf>>) -> Self {
        let usual = crate::args::workspace_root().join(shaketable_host::bugs::FOLDER);
        self.remembered = match asked {
            Some(asked) => Some(asked.unwrap_or(usual)),
            None => usual.is_dir().then_some(usual),
        };
        self
    }

    fn require_sometimes(mut self, require: bool) -> Self {
        self.require_sometimes = require;
        self
    }

    fn require_coverage(mut self, require: bool) -> Self {
        self.require_coverage = require;
        self
    }

    fn is_single(&self) -> bool {
        self.schedule.runs() == Some(1) && !self.guided
    }

    fn is_json(&self) -> bool {
        self.output.message_format == MessageFormat::Json
    }

    fn run(&self) -> Result<u8, SessionError> {
        self.try_outputs()?;
        let mut pool = self.session.pool(self.jobs, Addresses::Fixed)?;
        self.announce();
        let start = Instant::now();
        let mut watcher = Watcher {
            campaign: self,
            summary: Summary::new(self.session.files.clone()),
            progress: self.progress(),
            cut_short: Vec::new(),
            hazards: self.lint.then(Hazards::default),
            stability: self.until_stable.then(Stability::default),
        };
        let ended = match self.guided {
            true => self.search(&mut pool, &mut watcher)?,
            false => sweep(
                &mut pool,
                &self.schedule,
                |file, seed| match self.lint {
                    true => Recording::Hazards,
                    false => self.recording(self.traces, file, seed),
                },
                &self.session.interrupted,
                &mut watcher,
            ),
        };
        let elapsed = start.elapsed();
        // A server has left the traces of its failures, and its runs cannot be changed.
        let is_embedded = self.session.job.host == Host::Embedded;
        let is_kept = matches!(self.traces, Traces::Failing | Traces::All);
        if is_embedded && is_kept && ended != Ended::NoWorkers {
            watcher.record_failures(&mut pool);
            drop(pool);
            watcher.recall_failures();
            watcher.minimise_failures();
        }
        // Futures of one run have everything in common that lies before them.
        if !self.guided {
            watcher.summary.compare();
        }
        watcher.progress.finish();
        self.show_cut_short(&watcher.cut_short);
        self.conclude(&watcher.summary, watcher.hazards.as_ref(), elapsed, ended)
    }

    /// Searches with guidance, from the moments of an earlier search on if there are any.
    fn search(&self, pool: &mut Pool, watcher: &mut Watcher<'_>) -> Result<Ended, SessionError> {
        let mut searches = Vec::new();
        for file in 0..self.session.files.len() {
            let known = match &self.corpus {
                Some(folder) => {
                    let name = &self.trace_names[file];
                    let path = folder.join(format!("{name}.json"));
                    corpus::read(folder, name).map_err(|error| SessionError::Corpus(path, error))?
                }
                None => Vec::new(),
            };
            let first = self.schedule.first;
            searches.push(Search::new(self.session, file, first, known)?);
        }
        let budget = Budget {
            runs: self.schedule.count,
            duration: self.schedule.duration,
        };
        let ended = search(self.session, pool, &mut searches, budget, watcher);
        let mut guided = Guided::default();
        for (search, name) in searches.iter().zip(&self.trace_names) {
            guided.seeds += search.counts.seeds;
            guided.futures += search.counts.futures;
            guided.moments += search.memory.len() as u64;
            if let Some(folder) = &self.corpus {
                corpus::write(folder, name, &search.kept())
                    .map_err(|error| SessionError::Write(folder.clone(), error))?;
            }
        }
        watcher.summary.guided = Some(guided);
        Ok(ended)
    }

    /// How a run of the sweep is recorded.
    fn recording(&self, traces: Traces, file: usize, seed: Seed) -> Recording {
        match traces {
            Traces::Failing if self.session.job.host != Host::Embedded => {
                self.trace_in_folder(file, seed)
            }
            Traces::Replayed if self.session.job.host != Host::Embedded => {
                self.trace_in_folder(file, seed)
            }
            Traces::All => self.trace_of(file, seed),
            Traces::Replayed => self.record_of(file, seed),
            // A single run is worth knowing where its clients wait, should it not end.
            Traces::Failing if self.is_single() => Recording::Places,
            Traces::Failing | Traces::Counts => Recording::Nothing,
        }
    }

    fn announce(&self) {
        if self.is_json() {
            let start = json::Message::Start {
                files: self.session.files.iter().map(PathBuf::as_path).collect(),
                first_seed: self.schedule.first,
                runs: self.schedule.runs(),
                jobs: self.jobs,
                host: self
                    .session
                    .job
                    .host
                    .server()
                    .map(|server| server.to_string()),
                commit: shaketable_host::bugs::commit(),
                started: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            };
            println!("{}", start.line());
        } else if !self.is_single() && self.output.detail() != Detail::Quiet {
            let runs = match (self.schedule.runs(), self.schedule.duration) {
                (Some(runs), _) => human::plural(runs, "run"),
                (None, Some(duration)) => {
                    let duration = humantime::format_duration(duration);
                    format!("as many runs as fit into {duration}")
                }
                (None, None) => "runs without end".to_owned(),
            };
            let (first, jobs) = (self.schedule.first, self.jobs);
            let host = self.session.job.host.server();
            let host = host.map_or(String::new(), |server| format!(", by {server}"));
            eprintln!("{runs} from seed {first}, {jobs} at once{host}");
        }
    }

    fn progress(&self) -> Progress {
        if self.is_single() || self.output.detail() == Detail::Quiet {
            return Progress::hidden();
        }
        Progress::new(self.schedule.runs(), self.schedule.duration)
    }

    /// Finds out now, and not when all is done, whether what was asked for can be written.
    fn try_outputs(&self) -> Result<(), SessionError> {
        if let Some(path) = &self.output.junit {
            let mut options = fs::OpenOptions::new();
            let opened = options.create(true).append(true).open(path);
            opened.map_err(|error| SessionError::Write(path.clone(), error))?;
        }
        if self.traces == Traces::All {
            self.make_trace_folder()?;
        }
        Ok(())
    }
}
