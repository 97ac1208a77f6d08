//! `run`, `replay` and `stats`: sweeps and their reports.

use super::lint::{Hazards, Records};
use crate::args::{MessageFormat, OutputArgs, ReplayArgs, RunArgs, StatsArgs, ValuesShown};
use crate::bugs;
use crate::exit_codes;
use crate::minimise::minimise;
use crate::pool::{Addresses, Pool};
use crate::progress::Progress;
use crate::protocol::{Request, Response};
use crate::report::human::{self, Detail, Extent};
use crate::report::{Group, Small, Summary, github, json, junit};
use crate::seed::Seed;
use crate::session::{Session, SessionError, workers};
use crate::sweep::{Ended, Flow, Observer, Schedule, run_one, sweep};
use shaketable_host::failure_folder;
use shaketable_host::plan::{RecordTo, Recording, Values};
use shaketable_host::verdict::Outcome;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// More distinct failures than this are counted, but not run again.
const RECORDED_GROUPS_MAX: usize = 10;

/// How long one failure of a sweep is made small.
const MINIMISE_BUDGET: Duration = Duration::from_secs(20);

/// `run`.
pub fn run(args: &RunArgs) -> Result<u8, SessionError> {
    let single = args.sweep.seeds.unwrap_or(1) == 1 && args.sweep.duration.is_none();
    // What a workload prints would mix with the messages.
    let capture = !single || args.output.message_format == MessageFormat::Json;
    let session = Session::prepare(&args.files, &args.simulation, &args.build, capture)?;
    let schedule = Schedule::new(&args.sweep, 1, session.files.len());
    let schedule = schedule.with_cases(&session.case_seeds);
    if schedule.runs() == Some(0) {
        return Ok(nothing(args.output.message_format));
    }
    let recording = if args.trace {
        Traces::All
    } else {
        Traces::Failing
    };
    let campaign = Campaign::new(&session, &args.output, schedule, args.sweep.jobs, recording)
        .stop_at_first(args.fail_fast)
        .require_sometimes(args.require_sometimes)
        .make_small(args.minimise || args.remember.is_some())
        .remember(args.remember.clone());
    match args.lint {
        true => campaign.lint(&Records::new()?).run(),
        false => campaign.run(),
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
    let schedule = Schedule {
        first: session.only_seed(args.seed)?,
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
    let schedule = Schedule::new(&args.sweep, 100, session.files.len());
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

fn nothing(format: MessageFormat) -> u8 {
    if format == MessageFormat::Human {
        eprintln!("nothing to run: this part of the seeds is empty");
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
    minimise: bool,
    /// The folder in which bugs are remembered.
    remembered: Option<PathBuf>,
    values: Values,
    /// Where the records of all runs go that are searched for hazards, if they are.
    records: Option<&'a Records>,
}

impl<'a> Campaign<'a> {
    fn new(
        session: &'a Session,
        output: &'a OutputArgs,
        schedule: Schedule,
        jobs: Option<u16>,
        traces: Traces,
    ) -> Self {
        let jobs = workers(jobs, schedule.runs());
        Campaign {
            session,
            output,
            schedule,
            jobs,
            traces,
            trace_names: trace_names(&session.files),
            fail_fast: false,
            require_sometimes: false,
            minimise: false,
            remembered: None,
            values: Values::default(),
            records: None,
        }
    }

    fn lint(mut self, records: &'a Records) -> Self {
        self.records = Some(records);
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

    fn make_small(mut self, minimise: bool) -> Self {
        self.minimise = minimise;
        self
    }

    fn remember(mut self, asked: Option<Option<PathBuf>>) -> Self {
        let usual = || crate::args::workspace_root().join(bugs::FOLDER);
        self.remembered = asked.map(|folder| folder.unwrap_or_else(usual));
        self
    }

    fn require_sometimes(mut self, require: bool) -> Self {
        self.require_sometimes = require;
        self
    }

    fn is_single(&self) -> bool {
        self.schedule.runs() == Some(1)
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
            hazards: self.records.map(Hazards::new),
        };
        let ended = sweep(
            &mut pool,
            &self.schedule,
            |file, seed| match (self.traces, self.records) {
                (_, Some(records)) => records.recording(file, seed),
                (traces, None) => self.recording(traces, file, seed),
            },
            &self.session.interrupted,
            &mut watcher,
        );
        let elapsed = start.elapsed();
        if matches!(self.traces, Traces::Failing | Traces::All) && ended != Ended::NoWorkers {
            watcher.record_failures(&mut pool);
            if self.minimise {
                watcher.minimise_failures(&mut pool);
            }
        }
        watcher.summary.compare();
        watcher.progress.finish();
        self.show_cut_short(&watcher.cut_short);
        self.conclude(&watcher.summary, watcher.hazards.as_ref(), elapsed, ended)
    }

    /// How a run of the sweep is recorded.
    fn recording(&self, traces: Traces, file: usize, seed: Seed) -> Recording {
        match traces {
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
                first_seed: self.schedule.first.0,
                runs: self.schedule.runs(),
                jobs: self.jobs,
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
            eprintln!("{runs} from seed {first}, {jobs} at once");
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

    /// Reports a run that is the only one; a failure is reported with its cause later.
    fn show_single(&self, response: &Response, file: &Path) {
        let Response {
            outcome,
            real_seconds,
            ..
        } = response;
        let detail = self.output.detail();
        if detail == Detail::Verbose {
            anstream::print!("{}", human::console(outcome, *real_seconds));
        }
        if outcome.passed() {
            let columns = human::columns();
            let text = human::passed(outcome, file, *real_seconds, detail, columns);
            anstream::print!("{text}");
        }
    }

    /// Reports what the runs that the user interrupted after a while were waiting for.
    fn show_cut_short(&self, runs: &[Response]) {
        for run in runs {
            let file = &self.session.files[run.file];
            if self.is_json() {
                println!("{}", json::interrupted(run, file).line());
            } else {
                anstream::println!("{}", human::cut_short(run, file, human::columns()));
            }
        }
    }

    /// Writes the reports and decides the exit status.
    fn conclude(
        &self,
        summary: &Summary,
        hazards: Option<&Hazards<'_>>,
        elapsed: Duration,
        ended: Ended,
    ) -> Result<u8, SessionError> {
        let repro = &self.session.repro;
        let detail = self.output.detail();
        // Failures come first; their records are not what passes.
        let hazards = hazards.filter(|_| summary.total_failed() == 0);
        let code = match () {
            () if summary.total_failed() > 0 => exit_codes::TESTS_FAILED,
            () if ended == Ended::Interrupted => exit_codes::INTERRUPTED,
            () if ended == Ended::NoWorkers => exit_codes::SETUP_FAILED,
            () if summary.runs() == 0 => exit_codes::NOTHING_RUN,
            () if self.require_sometimes && summary.missed().next().is_some() => {
                exit_codes::TESTS_FAILED
            }
            () if hazards.is_some_and(|hazards| !hazards.is_empty()) => exit_codes::TESTS_FAILED,
            () => exit_codes::PASSED,
        };
        for group in &summary.groups {
            let file = &self.session.files[group.file];
            let report = |detail, columns| {
                human::failure(group, file, summary.runs(), repro, detail, columns)
            };
            if let Some(folder) = group.example.folder() {
                let plain = human::plain(&report(Detail::Usual, human::UNWRAPPED));
                let path = folder.join(failure_folder::REPORT);
                // The verdict is worth more than the file.
                if let Err(error) = fs::write(&path, plain) {
                    eprintln!("warning: cannot write {}: {error}", path.display());
                }
            }
            if self.is_json() {
                println!("{}", json::failure(group, file, repro).line());
            } else {
                anstream::println!("{}", report(detail, human::columns()));
            }
        }
        let code = self.write_reports(summary, code);
        if self.is_json() {
            print!("{}", hazards.map(Hazards::json).unwrap_or_default());
            println!("{}", json::summary(summary, elapsed, code).line());
            return Ok(code);
        }
        if self.traces == Traces::Counts {
            anstream::print!("{}", human::stats(summary, human::columns()));
        }
        if summary.runs() == 0 && code == exit_codes::NOTHING_RUN {
            eprintln!("nothing was run: time was up before the first seed");
        } else if !self.is_single() {
            let extent = match ended {
                Ended::Interrupted => Extent::Interrupted(self.schedule.runs()),
                Ended::Complete | Ended::Stopped | Ended::NoWorkers => Extent::Complete,
            };
            let columns = human::columns();
            let text = human::summary(summary, elapsed, extent, detail, columns);
            anstream::print!("{text}");
        }
        let missed = summary.missed().count() as u64;
        if self.require_sometimes && missed > 0 {
            anstream::println!(
                "--require-sometimes: {} never held",
                human::plural(missed, "assertion")
            );
        }
        if let Some(hazards) = hazards {
            anstream::print!("\n{}--lint: {}", hazards.text(), hazards.summary());
        }
        Ok(code)
    }

    /// Writes the reports for CI systems, and returns the exit status. The verdict is worth more
    /// than a file: what cannot be written is said, and changes only the status of what passed.
    fn write_reports(&self, summary: &Summary, code: u8) -> u8 {
        let repro = &self.session.repro;
        let junit = self.output.junit.as_ref().map(|path| {
            let xml = junit::report(summary, repro).map_err(std::io::Error::other);
            let written = xml.and_then(|xml| fs::write(path, xml));
            written.map_err(|error| SessionError::Write(path.clone(), error))
        });
        let job_summary = github::append(summary, repro)
            .map_err(|error| SessionError::Write("the job summary".into(), error));
        let mut code = code;
        for error in junit
            .into_iter()
            .chain([job_summary])
            .filter_map(Result::err)
        {
            eprintln!("{}", error.report());
            if code == exit_codes::PASSED {
                code = error.exit_code();
            }
        }
        code
    }

    fn make_trace_folder(&self) -> Result<(), SessionError> {
        let folder = self.output.trace_dir();
        fs::create_dir_all(&folder).map_err(|error| SessionError::Write(folder, error))
    }

    /// A trace of a file's run with a seed.
    fn trace_of(&self, file: usize, seed: Seed) -> Recording {
        let format: shaketable_host::trace::Format = self.output.trace_format.into();
        let name = format!("{}-{seed}.{}", self.trace_names[file], format.extension());
        Recording::Trace {
            path: self.output.trace_dir().join(name),
            format,
            record: None,
        }
    }

    /// A trace and a record of a file's run with a seed, in the folder of that seed unless another
    /// was asked for.
    fn record_of(&self, file: usize, seed: Seed) -> Recording {
        let folder = folder_of(&self.trace_names[file], seed);
        // If it cannot be made, neither can what is in it, and that is reported.
        let _ = fs::create_dir_all(&folder);
        let reproduce = self.session.repro.line(&self.session.files[file], seed.0);
        let format: shaketable_host::trace::Format = self.output.trace_format.into();
        let path = match &self.output.trace_dir {
            Some(asked) => {
                let _ = fs::create_dir_all(asked);
                let name = &self.trace_names[file];
                asked.join(format!("{name}-{seed}.{}", format.extension()))
            }
            None => folder.join(format!("trace.{}", format.extension())),
        };
        let record = folder.join(failure_folder::RECORD);
        Recording::Trace {
            path,
            format,
            record: Some(RecordTo::new(record, self.values, Some(reproduce))),
        }
    }
}

/// The folder of a failing seed.
pub(super) fn folder_of(name: &str, seed: Seed) -> PathBuf {
    crate::args::results_dir()
        .join("failures")
        .join(failure_folder::name(name, seed.0))
}

/// Moves the folder of a seed that passed: it is no failure. Returns the new one.
fn move_passed(outcome: &Outcome) -> Option<PathBuf> {
    let from = outcome.folder()?;
    let runs = crate::args::results_dir().join("runs");
    let to = runs.join(from.file_name()?);
    let _ = fs::remove_dir_all(&to);
    fs::create_dir_all(&runs).ok()?;
    fs::rename(from, &to).ok()?;
    Some(to)
}

/// What the traces of each file are called: as the file, with its folder's name where two have the
/// same, and with a number where that is not enough. Workers write side by side, each to a file of
/// its own.
pub(super) fn trace_names(files: &[PathBuf]) -> Vec<String> {
    let text = |part: Option<&OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let stems: Vec<String> = files.iter().map(|file| text(file.file_stem())).collect();
    let is_shared = |names: &[String], name: &String| {
        let same = names.iter().filter(|other| *other == name);
        same.count() > 1
    };
    let in_folders: Vec<String> = files
        .iter()
        .zip(&stems)
        .map(
            |(file, stem)| match file.parent().and_then(Path::file_name) {
                Some(folder) if is_shared(&stems, stem) => format!("{}-{stem}", text(Some(folder))),
                _ => stem.clone(),
            },
        )
        .collect();
    let numbered = in_folders.iter().enumerate().map(|(number, name)| {
        if is_shared(&in_folders, name) {
            format!("{name}-{}", number + 1)
        } else {
            name.clone()
        }
    });
    numbered.collect()
}

/// Watches the sweep of a campaign.
struct Watcher<'a> {
    campaign: &'a Campaign<'a>,
    summary: Summary,
    progress: Progress,
    /// Runs that the user interrupted after a while.
    cut_short: Vec<Response>,
    /// The hazards in all runs, if they are searched for.
    hazards: Option<Hazards<'a>>,
}

/// A run of a sweep that was interrupted after this long may have been what the user was waiting
/// for.
const LONG_RUN_SECONDS: f64 = 1.0;

impl Observer for Watcher<'_> {
    fn interrupted(&mut self, response: Response) {
        if self.campaign.is_single() || response.real_seconds >= LONG_RUN_SECONDS {
            self.cut_short.push(response);
        }
    }

    fn finished(&mut self, mut response: Response) -> Flow {
        let campaign = self.campaign;
        let file = &campaign.session.files[response.file];
        if let Some(hazards) = &mut self.hazards {
            hazards.add(&response);
            response.outcome.trace = None;
            response.outcome.record = None;
        }
        if response.outcome.passed() {
            let moved = move_passed(&response.outcome);
            if let (Some(trace), false) = (&response.outcome.trace, campaign.is_json()) {
                let trace = Path::new(trace);
                self.progress.print(|| match moved {
                    Some(folder) => eprintln!("folder {}", folder.display()),
                    None => eprintln!("trace {}", trace.display()),
                });
            }
        }
        if campaign.is_json() {
            println!("{}", json::run(&response, file).line());
        } else if campaign.is_single() {
            campaign.show_single(&response, file);
        }
        self.summary.add(&response);
        if campaign.fail_fast && !response.outcome.passed() {
            return Flow::Stop;
        }
        Flow::Continue
    }

    fn tick(&mut self) {
        self.progress.show(&self.summary);
    }
}

impl Watcher<'_> {
    /// Makes the first seed of each group small, and keeps the case in its folder.
    fn minimise_failures(&mut self, pool: &mut Pool) {
        let campaign = self.campaign;
        let session = campaign.session;
        for group in self.summary.groups.iter_mut().take(RECORDED_GROUPS_MAX) {
            let run = (group.file, Seed(group.seeds[0]));
            let minimised = minimise(session, pool, run, MINIMISE_BUDGET, &mut |_| {});
            let Ok(mut minimised) = minimised else {
                continue;
            };
            let folder = folder_of(&campaign.trace_names[group.file], run.1);
            // What is left is worth more than the file.
            if let Err(error) = minimised.write(&folder.join(failure_folder::CASE)) {
                eprintln!("warning: {}", crate::with_causes(&error));
            }
            if let Some(bugs) = &campaign.remembered {
                let cause = group.example.cause.as_ref();
                let finding = cause.map(|cause| cause.name.as_str());
                if let Err(error) = bugs::remember(bugs, &mut minimised, finding) {
                    eprintln!("warning: {}", crate::with_causes(&error));
                }
            }
            group.small = Some(Small {
                needs: minimised.needs(),
                clients: minimised.found.case.clients.unwrap_or_default(),
                case: minimised.path,
            });
        }
    }

    /// Runs the first seed of each group again, to get its record, its trace and what led to the
    /// failure.
    fn record_failures(&mut self, pool: &mut Pool) {
        let campaign = self.campaign;
        for index in 0..self.summary.groups.len().min(RECORDED_GROUPS_MAX) {
            let Group {
                file,
                seeds,
                signature,
                ..
            } = &self.summary.groups[index];
            let request = Request {
                file: *file,
                seed: seeds[0],
                recording: campaign.record_of(*file, Seed(seeds[0])),
                case: None,
            };
            let signature = signature.clone();
            // After an interrupt that ended the sweep its failures are still explained; a second
            // one prevents that.
            let Some(response) = run_one(pool, request, &std::sync::atomic::AtomicBool::new(false))
            else {
                return;
            };
            let again = response
                .outcome
                .failures
                .first()
                .map(shaketable_host::verdict::Failure::signature);
            let group = &mut self.summary.groups[index];
            if again.as_ref() == Some(&signature) {
                group.example = response.outcome;
                group.printed = if response.printed.is_empty() {
                    std::mem::take(&mut group.printed)
                } else {
                    response.printed
                };
            } else {
                group.example.trace = response.outcome.trace;
                group.example.record = response.outcome.record;
                group.example.uncontrolled.push(
                    "failed differently, or not at all, when it was run again: see `check-determinism`".to_owned(),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_files_share_the_name_of_their_traces() {
        let names = |files: &[&str]| {
            let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
            trace_names(&files)
        };
        assert_eq!(names(&["tests/a.toml", "tests/b.toml"]), ["a", "b"]);
        assert_eq!(
            names(&["x/a.toml", "y/a.toml", "b.toml"]),
            ["x-a", "y-a", "b"]
        );
        assert_eq!(names(&["1/x/a.toml", "2/x/a.toml"]), ["x-a-1", "x-a-2"]);
    }
}
