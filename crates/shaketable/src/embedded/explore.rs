//! Trying seeds, several at once (`jobs.rs`), up to the first that fails.
//!
//! Each runs on a fresh thread that is watched (`isolation::InProcess` of the host): a seed that
//! crashes the program, ends it or never comes back is reported like any other failure. Before the
//! program dies it starts itself again, to make the record of the death; that process arrives here
//! too, and does nothing else.

use super::jobs::{self, Step};
use super::minimise::{self, minimise};
use super::progress::Progress;
use super::regressions::{self, Regressions};
use super::report::{self, Failed, Kept, Passed};
use super::{Seeds, Simulation, determinism, hermetic, seeds};
use shaketable_abi::v1::Factory;
use shaketable_host::bugs;
use shaketable_host::case::{CASE_VARIABLE, Case, MINIMISED_VARIABLE, OUTCOME_VARIABLE};
use shaketable_host::coverage;
use shaketable_host::failure_folder;
use shaketable_host::isolation::{
    DeathToRecord, Failing, InProcess, Output, Seed, Work, parse_hang_limit,
};
use shaketable_host::minimise::told::Told;
use shaketable_host::plan::{Plan, RecordTo, Recording, Settings, Values};
use shaketable_host::trace::Format;
use shaketable_host::verdict::{FailureKind, Outcome};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// What a seed may take in real time unless something else is said: more than the program allows,
/// because tests are not optimized and run side by side.
pub(super) const HANG_LIMIT: Duration = Duration::from_secs(120);

thread_local! {
    /// How many simulations the test on this thread has begun.
    static BEGUN: Cell<u32> = const { Cell::new(0) };
}

impl Simulation {
    /// Runs every seed, each on a thread of its own, after `prepare` ran there.
    pub(super) fn explore<G: 'static>(
        self,
        workload: &str,
        factory: Factory,
        prepare: impl Fn() -> G + Send + Sync + 'static,
    ) -> Result<Passed, Failed> {
        hermetic::keep_symbols();
        #[cfg(all(feature = "tokio", not(tokio_unstable)))]
        crate::executor::runtime::chance::find();
        let simulation = BEGUN.replace(BEGUN.get() + 1);
        let replay = seeds::from_environment();
        let asked_case = case_from_environment();
        let path = self.regressions.as_deref();
        let path = path.filter(|_| replay == Seeds::Unsaid && asked_case.is_none());
        let regressions = path.map(|path| Regressions::new(path, self.test.as_deref(), &self.name));
        let is_sweep = !matches!(replay, Seeds::List(_)) && asked_case.is_none();
        let trials = self.trials(asked_case.as_deref(), regressions.as_ref(), replay);
        assert!(
            trials.len() > 0 || asked_case.is_some(),
            "`{}` has no seed to try: give `seeds` a range that is not empty, such as 0..100",
            self.name
        );
        let prepare = Arc::new(prepare);
        let plan = Arc::new(self.plan(workload, factory));
        let of_seeds = self.in_process(plan.clone(), self.settings(), prepare.clone());
        let of_case = |case: &Case| {
            let plan = Arc::new(plan.with_case(case.clone()));
            // What the simulation says is in the case already.
            let settings = Settings {
                coverage: self.count_outcomes,
                stalled_after: self.settings().stalled_after,
                ..Settings::default()
            };
            self.in_process(plan, settings, prepare.clone())
        };
        let failures = failures_folder();
        let mut passed = Passed::new(&self.name);
        if let Some(seed) = DeathToRecord::find(&self.name, simulation).map(|death| death.seed()) {
            // The seeds before it need not be counted again.
            let trial = Trial::of(seed);
            self.record_death(
                &trial,
                simulation,
                &of_seeds,
                &failures,
                regressions.as_ref(),
            );
        }
        for trial in &trials.first {
            let process = trial.case.as_ref().map(|(_, case)| of_case(case));
            let process = process.as_ref().unwrap_or(&of_seeds);
            self.record_death(trial, simulation, process, &failures, regressions.as_ref());
        }
        let count = AtomicU32::new(0);
        let deadline = self.deadline();
        let output = match is_sweep {
            true => Output::OfFailure,
            false => Output::Shown,
        };
        let work = |index| {
            // What failed once, and one seed, are worth more than the time.
            let is_late = index > trials.first.len() && deadline.is_some_and(has_passed);
            let Some(trial) = trials.get(index).filter(|_| !is_late) else {
                return Step::End;
            };
            let of_this = trial.case.as_ref().map(|(_, case)| of_case(case));
            let process = of_this.as_ref().unwrap_or(&of_seeds);
            let names = self.names(&trial, &failures, regressions.as_ref());
            let passed = count.load(Ordering::Relaxed);
            let seed = names.seed(&self, trial.seed, simulation, passed, output);
            let outcome = match process.run_seed(&seed, &self.recording(trial.seed)) {
                Ok(outcome) => outcome,
                Err(failing) => return Step::Failed(Trouble::Failed(trial, failing)),
            };
            let twice = self.check_determinism.then_some(process);
            let difference = |twice| {
                let texts = (names.name.as_str(), names.replay.as_str());
                determinism::difference(twice, texts, &outcome, &names.folder)
            };
            match twice.and_then(difference) {
                None => Step::Done(Box::new(outcome)),
                Some(text) => Step::Failed(Trouble::Differs(trial, text)),
            }
        };
        let mut progress = Progress::begin(trials.len() as u64);
        let trouble = jobs::in_order(trials.jobs(), work, |mut outcome| {
            write_asked(&outcome);
            coverage::settle(&mut outcome);
            passed.add(&outcome);
            count.store(passed.seeds(), Ordering::Relaxed);
            progress.step();
        });
        drop(progress);
        match trouble {
            None => {}
            Some(Trouble::Differs(trial, text)) => {
                let replay = trial.replay(self.test.as_deref());
                return Err(Failed::differs(&self.name, trial.seed, &text, &replay));
            }
            Some(Trouble::Failed(trial, failing)) => {
                let names = self.names(&trial, &failures, regressions.as_ref());
                let seed = names.seed(&self, trial.seed, simulation, passed.seeds(), output);
                let recording = self.recording_of_failure(trial.seed, &names.folder, &names.replay);
                let of_this = trial.case.as_ref().map(|(_, case)| of_case(case));
                let process = of_this.as_ref().unwrap_or(&of_seeds);
                let outcome = process.run_again(&seed, *failing, &recording);
                write_asked(&outcome);
                let Names { name, replay, .. } = &names;
                let run = |case: &Case, recording: &Recording| {
                    let name = format!("{name}, which is being made small");
                    of_case(case).try_seed(&name, replay, case.seed, recording)
                };
                let kept = match (&trial.case, regressions.as_ref()) {
                    (Some((path, case)), _) => {
                        self.make_smaller(path, case, &outcome, run);
                        Some(Kept::Known(path.clone()))
                    }
                    (None, Some(file)) if trial.is_old => {
                        Some(Kept::Known(file.old_file().to_owned()))
                    }
                    (None, Some(file)) => self.keep(file, trial.seed, &outcome, run),
                    (None, None) => None,
                };
                return Err(Failed::new(&self.name, &outcome, &passed, replay, kept));
            }
        }
        let missed = match is_sweep {
            true => passed.missed(&self.required, self.require_sometimes),
            false => Vec::new(),
        };
        if !missed.is_empty() {
            return Err(Failed::missed(&passed, &missed));
        }
        match is_sweep && self.require_coverage && passed.has_gaps() {
            true => Err(Failed::uncovered(&passed)),
            false => Ok(passed),
        }
    }

    /// What is said about a trial, and where it is kept.
    fn names(&self, trial: &Trial, failures: &Path, regressions: Option<&Regressions>) -> Names {
        let name = trial.name(&self.name);
        let folder = failures.join(failure_folder::name(&name, trial.seed));
        let of_death = regressions.filter(|_| trial.is_new());
        Names {
            replay: trial.replay(self.test.as_deref()),
            folder,
            of_death: of_death.map(|file| file.of_death(trial.seed)),
            name,
        }
    }

    /// What is tried, in this order: the cases of the test, those that failed once, seeds that
    /// failed once, seeds. If the environment names a case, it alone is tried.
    fn trials(
        &self,
        asked_case: Option<&Path>,
        regressions: Option<&Regressions>,
        replay: Seeds,
    ) -> Trials {
        if let Some(path) = asked_case {
            let case = self.read_case(path);
            // A test with several simulations is asked about one of them.
            let is_own = case.of_simulation().is_none_or(|name| name == self.name);
            return Trials {
                first: match is_own {
                    true => vec![Trial::of_case(path.to_owned(), case)],
                    false => Vec::new(),
                },
                seeds: Seeds::List(Vec::new()),
            };
        }
        let cases = match replay {
            Seeds::List(_) => Vec::new(),
            _ => self.cases.clone(),
        };
        let kept = regressions.map_or(Vec::new(), Regressions::cases);
        let cases = cases.into_iter().chain(kept).map(|path| {
            let case = self.read_case(&path);
            Trial::of_case(path, case)
        });
        let old = regressions.map_or(Vec::new(), Regressions::seeds);
        let old = old.into_iter().map(|seed| Trial {
            is_old: true,
            ..Trial::of(seed)
        });
        let is_unsaid = replay == Seeds::Unsaid;
        let seeds = replay.or(&self.seeds);
        let is_endless = is_unsaid && budget_from_environment().is_some();
        Trials {
            first: cases.chain(old).collect(),
            seeds: if is_endless {
                seeds.without_end()
            } else {
                seeds
            },
        }
    }

    /// When no new seed is tried any more.
    #[expect(
        clippy::disallowed_methods,
        reason = "the budget is one of real time, and measured outside of all seeds"
    )]
    fn deadline(&self) -> Option<Instant> {
        let budget = budget_from_environment().or(self.budget)?;
        Instant::now().checked_add(budget)
    }

    /// Keeps a failure: its seed at once, and a smaller case if one is found in time.
    fn keep(
        &self,
        regressions: &Regressions,
        seed: u64,
        outcome: &Outcome,
        run: impl Fn(&Case, &Recording) -> Option<Outcome>,
    ) -> Option<Kept> {
        let failure = outcome.failures.first()?;
        let kept = regressions.keep(&regressions.plain(seed), outcome, failure);
        let Kept::New(path, _) = kept else {
            return Some(kept);
        };
        // What blocks its thread would do so again, and nothing can end a thread.
        let blocks = matches!(failure.kind, FailureKind::Hung);
        if blocks || !outcome.uncontrolled.is_empty() {
            return Some(Kept::New(path, Vec::new()));
        }
        let start = self.completed(regressions.plain(seed));
        let budget = minimise::budget_from_environment().unwrap_or(self.minimise_budget);
        let found = minimise(&start, failure, budget, run);
        let needs = found.map_or(Vec::new(), |found| {
            regressions.keep(&found.case, outcome, found.failure(failure));
            found.sentences()
        });
        Some(Kept::New(path, needs))
    }

    /// Makes a case that fails smaller, in its file, if the environment asks for it.
    fn make_smaller(
        &self,
        path: &Path,
        case: &Case,
        outcome: &Outcome,
        run: impl Fn(&Case, &Recording) -> Option<Outcome>,
    ) {
        let (Some(budget), Some(failure)) = (
            minimise::budget_from_environment(),
            outcome.failures.first(),
        ) else {
            return;
        };
        if let Some(found) = minimise(case, failure, budget, run) {
            // The old case is as good if the new one cannot be written.
            let _ = bugs::write(&found.case, path);
            if let Some(told) = std::env::var_os(MINIMISED_VARIABLE) {
                // What asked finds no file, and says so.
                let _ = Told::new(&found, failure).write(Path::new(&told));
            }
        }
    }

    /// Makes the record and the report of a trial, if this process was started because another one
    /// died of it.
    fn record_death(
        &self,
        trial: &Trial,
        simulation: u32,
        process: &InProcess,
        failures: &Path,
        regressions: Option<&Regressions>,
    ) {
        let name = trial.name(&self.name);
        if let Some(death) = DeathToRecord::find(&name, simulation) {
            let replay = trial.replay(self.test.as_deref());
            let folder = failures.join(failure_folder::name(&name, death.seed()));
            let known = trial.case.as_ref().map(|(path, _)| path.as_path());
            self.record(death, process, (&replay, &folder), (known, regressions));
        }
    }

    fn in_process<G: 'static>(
        &self,
        plan: Arc<Plan>,
        settings: Settings,
        prepare: Arc<impl Fn() -> G + Send + Sync + 'static>,
    ) -> InProcess {
        let work: Work = {
            let plan = plan.clone();
            Arc::new(move |seed, recording| {
                let _lent = prepare();
                shaketable_host::simulate(&plan, &settings, seed, recording)
            })
        };
        let limit = limit_from_environment().unwrap_or(self.hang_limit);
        InProcess::prepare(plan, limit.unwrap_or(Duration::MAX), work)
    }

    /// A case, with what it leaves open as the simulation says.
    fn read_case(&self, path: &Path) -> Case {
        let case = Case::read(path).unwrap_or_else(|error| panic!("{error}"));
        self.completed(case)
    }

    fn completed(&self, case: Case) -> Case {
        let settings = self.settings();
        Case {
            clients: case.clients.or(settings.clients),
            buggify: case.buggify.or(settings.buggify),
            fault_injection: case.fault_injection.or(settings.fault_injection),
            stress: case.stress.or(settings.stress),
            liveness: case.liveness.or(settings.liveness),
            swarm: case.swarm.or(settings.swarm),
            ..case
        }
    }

    /// Makes the record and the report of a seed, or of a case, of which another process of this
    /// program dies. The folder is for the record, and the line runs it again.
    fn record(
        &self,
        death: DeathToRecord,
        process: &InProcess,
        (replay, folder): (&str, &Path),
        (known, regressions): (Option<&Path>, Option<&Regressions>),
    ) -> ! {
        let recording = self.recording_of_failure(death.seed(), folder, replay);
        let outcome = death.record(process, &recording);
        write_asked(&outcome);
        let kept = match (known, regressions) {
            (Some(path), _) => Some(Kept::Known(path.to_owned())),
            (None, None) => None,
            (None, Some(file)) => match (death.kept_in(), outcome.failures.first()) {
                (Ok(None), _) => Some(Kept::Known(file.old_file().to_owned())),
                (Ok(Some(path)), Some(failure)) => {
                    // It was written in a hurry; now more is known.
                    let _ = std::fs::remove_file(path);
                    Some(file.keep(&file.plain(death.seed()), &outcome, failure))
                }
                (Ok(Some(path)), None) => Some(Kept::New(path, Vec::new())),
                (Err(error), _) => {
                    let (path, _) = file.of_death(death.seed());
                    Some(Kept::Not(path, error.to_string()))
                }
            },
        };
        let passed = Passed::after(&self.name, death.passed());
        let failed = Failed::new(&self.name, &outcome, &passed, replay, kept);
        death.end(&failed.to_string())
    }

    fn recording(&self, seed: u64) -> Recording {
        let Some(path) = self.trace_asked_for(seed) else {
            return Recording::Faults;
        };
        Recording::Trace {
            path,
            format: Format::Json,
            record: None,
        }
    }

    /// The file for the trace of a run, if traces are asked for.
    fn trace_asked_for(&self, seed: u64) -> Option<PathBuf> {
        let folder = std::env::var_os("SHAKETABLE_TRACE")?;
        // If it cannot be made, the trace cannot be written, and that is reported.
        let _ = std::fs::create_dir_all(&folder);
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let name: String = self.name.chars().map(plain).collect();
        Some(Path::new(&folder).join(format!("{name}.{seed}.json")))
    }

    /// Everything about a seed that fails, in a folder of its own.
    fn recording_of_failure(&self, seed: u64, folder: &Path, replay: &str) -> Recording {
        let _ = std::fs::create_dir_all(folder);
        let asked_for = self.trace_asked_for(seed);
        let record = folder.join(failure_folder::RECORD);
        Recording::Trace {
            path: asked_for.unwrap_or_else(|| folder.join("trace.json")),
            format: Format::Json,
            record: Some(RecordTo::new(
                record,
                Values::default(),
                Some(replay.to_owned()),
            )),
        }
    }
}

/// Why a simulation ends before its time.
enum Trouble {
    /// A trial failed.
    Failed(Trial, Box<Failing>),
    /// Two runs of a trial differ, in this.
    Differs(Trial, String),
}

/// What is said about a trial, and where it is kept.
struct Names {
    name: String,
    /// The line that runs it again.
    replay: String,
    folder: PathBuf,
    /// The file that keeps it if it ends the process, and what is written to it.
    of_death: Option<(PathBuf, String)>,
}

impl Names {
    fn seed<'a>(
        &'a self,
        of: &'a Simulation,
        seed: u64,
        simulation: u32,
        passed: u32,
        output: Output,
    ) -> Seed<'a> {
        let of_death = self.of_death.as_ref();
        Seed {
            seed,
            name: &self.name,
            test: of.test.as_deref(),
            simulation,
            passed,
            replay: &self.replay,
            folder: &self.folder,
            regression: of_death.map(|(path, text)| (path.as_path(), text.as_str())),
            output,
        }
    }
}

/// What is tried, in order.
struct Trials {
    /// Cases, and seeds that failed once.
    first: Vec<Trial>,
    seeds: Seeds,
}

impl Trials {
    fn len(&self) -> usize {
        self.first.len().saturating_add(self.seeds.len())
    }

    fn get(&self, index: usize) -> Option<Trial> {
        match self.first.get(index) {
            Some(trial) => Some(trial.clone()),
            None => {
                let seed = self.seeds.get(index - self.first.len())?;
                let is_old = self.first.iter().any(|old| old.is_old && old.seed == seed);
                Some(Trial {
                    is_old,
                    ..Trial::of(seed)
                })
            }
        }
    }

    /// How many of them run at once.
    fn jobs(&self) -> usize {
        jobs::from_environment().min(self.len()).max(1)
    }
}

/// Something to be tried: a seed, or a case.
#[derive(Clone)]
struct Trial {
    seed: u64,
    /// The case, and its file.
    case: Option<(PathBuf, Case)>,
    /// Whether it is a seed that failed once.
    is_old: bool,
}

impl Trial {
    fn of(seed: u64) -> Trial {
        Trial {
            seed,
            case: None,
            is_old: false,
        }
    }

    fn of_case(path: PathBuf, case: Case) -> Trial {
        Trial {
            seed: case.seed,
            case: Some((path, case)),
            is_old: false,
        }
    }

    /// Whether nothing is known about it yet.
    fn is_new(&self) -> bool {
        self.case.is_none() && !self.is_old
    }

    fn name(&self, simulation: &str) -> String {
        let Some((path, _)) = &self.case else {
            return simulation.to_owned();
        };
        let file = path.file_stem().unwrap_or_default();
        format!("{simulation} case {}", file.display())
    }

    /// The line that tries it again.
    fn replay(&self, test: Option<&str>) -> String {
        match &self.case {
            Some((path, _)) => report::case_line(test, path),
            None => report::replay_line(test, self.seed),
        }
    }
}

/// The case that the environment asks for: from the root of the workspace, as the line to paste
/// has it, or from the folder of the package.
fn case_from_environment() -> Option<PathBuf> {
    let path = std::env::var_os(CASE_VARIABLE).filter(|path| !path.is_empty())?;
    let from_root = regressions::workspace_root().join(&path);
    Some(match from_root.is_file() {
        true => from_root,
        false => PathBuf::from(path),
    })
}

/// Writes what became of a run where the environment asks for it.
fn write_asked(outcome: &Outcome) {
    if let Some(path) = std::env::var_os(OUTCOME_VARIABLE) {
        // What asked finds no file, and says so.
        let _ = outcome.write(Path::new(&path));
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the budget is one of real time, and measured outside of all seeds"
)]
fn has_passed(deadline: Instant) -> bool {
    Instant::now() >= deadline
}

/// The time for new seeds that the environment asks for.
fn budget_from_environment() -> Option<Duration> {
    const VARIABLE: &str = "SHAKETABLE_BUDGET";
    let text = std::env::var(VARIABLE).ok();
    let text = text.filter(|text| !text.is_empty())?;
    match parse_hang_limit(&text) {
        Ok(Some(budget)) => Some(budget),
        Ok(None) => panic!("{VARIABLE}: expected a time such as 30s or 5m, found `{text}`"),
        Err(error) => {
            panic!("{VARIABLE}: expected a time such as 30s or 5m, found `{text}`: {error}")
        }
    }
}

/// The limit that the environment asks for.
fn limit_from_environment() -> Option<Option<Duration>> {
    const VARIABLE: &str = "SHAKETABLE_HANG_LIMIT";
    let text = std::env::var(VARIABLE)
        .ok()
        .filter(|text| !text.is_empty())?;
    match parse_hang_limit(&text) {
        Ok(limit) => Some(limit),
        Err(error) => {
            panic!("{VARIABLE}: expected a time such as 30s or 5m, or off, found `{text}`: {error}")
        }
    }
}

/// Where the folders of failing seeds are: in the `target` of the workspace whose test this is.
fn failures_folder() -> PathBuf {
    regressions::workspace_root().join("target/shaketable/failures")
}
