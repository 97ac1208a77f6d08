//! Trying one seed after another, up to the first that fails.
//!
//! Each runs on a fresh thread that is watched (`isolation::InProcess` of the host): a seed that
//! crashes the program, ends it or never comes back is reported like any other failure. Before the
//! program dies it starts itself again, to make the record of the death; that process arrives here
//! too, and does nothing else.

use super::regressions::Regressions;
use super::report::{self, Failed, Kept, Passed};
use super::{Seeds, Simulation, hermetic, seeds};
use shaketable_abi::v1::Factory;
use shaketable_host::case::Case;
use shaketable_host::coverage;
use shaketable_host::failure_folder;
use shaketable_host::isolation::{DeathToRecord, InProcess, Seed, Work, parse_hang_limit};
use shaketable_host::plan::{Plan, RecordTo, Recording, Settings, Values};
use shaketable_host::trace::Format;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

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
        let regressions = match replay {
            Seeds::Unsaid => self.regressions.as_deref().map(Regressions::new),
            _ => None,
        };
        let known = regressions
            .as_ref()
            .map_or(Vec::new(), |file| file.seeds(&self.name));
        let is_sweep = !matches!(replay, Seeds::List(_));
        let asked = replay.or(&self.seeds);
        assert!(
            !self.cases.is_empty() || !known.is_empty() || asked.iter().next().is_some(),
            "`{}` has no seed to try: give `seeds` a range that is not empty, such as 0..100",
            self.name
        );
        let prepare = Arc::new(prepare);
        let plan = Arc::new(self.plan(workload, factory));
        let process = self.in_process(plan.clone(), self.settings(), prepare.clone());
        let failures = failures_folder();
        if let Some(death) = DeathToRecord::find(&self.name, simulation) {
            let replay = report::replay_line(self.test.as_deref(), death.seed());
            let folder = failures.join(failure_folder::name(&self.name, death.seed()));
            self.record(death, &process, (&replay, &folder), regressions.as_ref());
        }
        let mut passed = Passed::new(&self.name);
        for (case, number) in self.read_cases().iter().zip(1..) {
            let plan = Arc::new(plan.with_case(case.clone()));
            // What the simulation says is in the case already.
            let settings = Settings {
                stalled_after: self.settings().stalled_after,
                ..Settings::default()
            };
            let process = self.in_process(plan, settings, prepare.clone());
            let replay = report::case_line(self.test.as_deref());
            let name = format!("{} case {number}", self.name);
            let folder = failures.join(failure_folder::name(&name, case.seed));
            if let Some(death) = DeathToRecord::find(&name, simulation) {
                self.record(death, &process, (&replay, &folder), None);
            }
            if !is_sweep {
                continue;
            }
            let watched = Seed {
                seed: case.seed,
                name: &name,
                test: self.test.as_deref(),
                simulation,
                passed: passed.seeds(),
                replay: &replay,
                folder: &folder,
                regression: None,
            };
            let of_failure = || self.recording_of_failure(case.seed, &folder, &replay);
            let outcome = process.run_seed(&watched, &self.recording(case.seed), of_failure);
            if !outcome.passed() {
                return Err(Failed::new(&self.name, &outcome, &passed, &replay, None));
            }
            passed.add(&outcome);
        }
        for seed in known.iter().copied().chain(asked.iter()) {
            let is_new = !known.contains(&seed);
            let replay = report::replay_line(self.test.as_deref(), seed);
            let folder = failures.join(failure_folder::name(&self.name, seed));
            let regression = regressions.as_ref().filter(|_| is_new);
            let regression = regression
                .map(|file| (file.path(), file.line(seed, &self.name, "the process died")));
            let watched = Seed {
                seed,
                name: &self.name,
                test: self.test.as_deref(),
                simulation,
                passed: passed.seeds(),
                replay: &replay,
                folder: &folder,
                regression: regression
                    .as_ref()
                    .map(|(path, line)| (*path, line.as_str())),
            };
            let of_failure = || self.recording_of_failure(seed, &folder, &replay);
            let mut outcome = process.run_seed(&watched, &self.recording(seed), of_failure);
            if outcome.passed() {
                coverage::settle(&mut outcome);
                passed.add(&outcome);
                continue;
            }
            let kept = regressions.as_ref().map(|file| match is_new {
                true => file.keep(seed, &self.name, &report::reason(&outcome)),
                false => Kept::Known(file.path().to_owned()),
            });
            return Err(Failed::new(&self.name, &outcome, &passed, &replay, kept));
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

    /// The cases, with what they leave open as the simulation says.
    fn read_cases(&self) -> Vec<Case> {
        let settings = self.settings();
        let read = |path: &PathBuf| {
            let mut case = Case::read(path).unwrap_or_else(|error| panic!("{error}"));
            case.clients = case.clients.or(settings.clients);
            case.buggify = case.buggify.or(settings.buggify);
            case.fault_injection = case.fault_injection.or(settings.fault_injection);
            case.stress = case.stress.or(settings.stress);
            case.liveness = case.liveness.or(settings.liveness);
            case.swarm = case.swarm.or(settings.swarm);
            case
        };
        self.cases.iter().map(read).collect()
    }

    /// Makes the record and the report of a seed, or of a case, of which another process of this
    /// program dies. The folder is for the record, and the line runs it again.
    fn record(
        &self,
        death: DeathToRecord,
        process: &InProcess,
        (replay, folder): (&str, &Path),
        regressions: Option<&Regressions>,
    ) -> ! {
        let recording = self.recording_of_failure(death.seed(), folder, replay);
        let outcome = death.record(process, &recording);
        let kept = regressions.map(|file| {
            let path = file.path().to_owned();
            match death.is_kept() {
                Ok(true) => Kept::New(path),
                Ok(false) => Kept::Known(path),
                Err(error) => Kept::Not(path, error.to_string()),
            }
        });
        let passed = Passed::after(&self.name, death.passed());
        let failed = Failed::new(&self.name, &outcome, &passed, replay, kept);
        death.end(&failed.to_string())
    }

    fn recording(&self, seed: u32) -> Recording {
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
    fn trace_asked_for(&self, seed: u32) -> Option<PathBuf> {
        let folder = std::env::var_os("SHAKETABLE_TRACE")?;
        // If it cannot be made, the trace cannot be written, and that is reported.
        let _ = std::fs::create_dir_all(&folder);
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let name: String = self.name.chars().map(plain).collect();
        Some(Path::new(&folder).join(format!("{name}.{seed}.json")))
    }

    /// Everything about a seed that fails, in a folder of its own.
    fn recording_of_failure(&self, seed: u32, folder: &Path, replay: &str) -> Recording {
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
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let here = package.unwrap_or_default();
    let root = here
        .ancestors()
        .find(|folder| folder.join("Cargo.lock").is_file());
    root.unwrap_or(&here).join("target/shaketable/failures")
}
