//! What holds for a run from its beginning to its end: the file, what was asked for beside it, and
//! what follows from the two.

use super::swarm::{self, Draw};
use crate::case::Case;
use crate::library::Library;
use crate::plan::{Liveness, Plan, Settings, StalledAfter};
use crate::testfile::{Configuration, Knob, TestFile};
use shaketable_kernel::Kernel;

/// The conditions of one run.
pub(super) struct Conditions {
    pub(super) seed: u64,
    pub(super) file: TestFile,
    /// For each test, for each workload: its library, if it is an External one.
    pub(super) libraries: Vec<Vec<Option<Library>>>,
    /// What the seed drew about the way it is run.
    pub(super) swarm: Draw,
    pub(super) buggify: bool,
    pub(super) stress: bool,
    pub(super) fault_injection: bool,
    /// Knobs that were set outside the file, and override those in it.
    pub(super) asked_knobs: Vec<Knob>,
    pub(super) client_count: u32,
    /// Whether it is kept when something was met for the first time.
    pub(super) keeps_moments: bool,
    /// Whether the library counts what the database answers.
    pub(super) measures: bool,
    /// Simulated seconds the whole run may take.
    pub(super) limit_seconds: f64,
    /// Simulated seconds that a client may go without progress, if that is limited.
    pub(super) stalled_after_seconds: Option<f64>,
    /// Simulated seconds that a phase may take once only a minority is broken, if the run is one
    /// for liveness.
    pub(super) liveness_seconds: Option<f64>,
}

/// FoundationDB's limits for a whole run, in simulated seconds.
const LIMIT_NORMAL_SECONDS: f64 = 5_400.0;
const LIMIT_BUGGIFY_SECONDS: f64 = 36_000.0;

impl Conditions {
    pub(super) fn new(plan: &Plan, settings: &Settings, seed: u64, kernel: &Kernel) -> Conditions {
        let configuration = &plan.file.configuration;
        let unchanged = Case::default();
        let case = plan.file.case.as_deref().unwrap_or(&unchanged);
        let swarm = settings.swarm.or(case.swarm).or(configuration.swarm);
        let swarm = Draw::new(swarm.unwrap_or(true), seed);
        let buggify = settings.buggify.or(case.buggify);
        let buggify = buggify.or(configuration.buggify).unwrap_or(swarm.buggify);
        let fault_injection = settings.fault_injection.or(case.fault_injection);
        let fault_injection = fault_injection.or(configuration.fault_injection);
        let fault_injection = fault_injection.unwrap_or(true);
        let may_be_stressed = buggify && fault_injection && swarm::allows_faults(&plan.file);
        let stress = settings.stress.or(case.stress);
        let liveness = settings.liveness.or(case.liveness);
        let liveness = liveness.or(configuration.liveness);
        let usual_clients = kernel.stream("testers").range(4_u32, 9);
        let clients = settings.clients.or(case.clients).or(swarm.clients);
        let asked_knobs = case.knobs.clone().into_iter();
        let asked_knobs = asked_knobs.chain(settings.knobs.iter().cloned());
        let asked_knobs = asked_knobs.map(|(name, value)| Knob { name, value });
        let tests = plan.file.tests.iter().enumerate();
        let libraries = tests
            .map(|(test, spec)| {
                (0..spec.workloads.len())
                    .map(|workload| plan.library(test, workload).cloned())
                    .collect()
            })
            .collect();
        Conditions {
            seed,
            file: plan.file.clone(),
            libraries,
            buggify,
            stress: stress.unwrap_or(swarm.stress && may_be_stressed),
            fault_injection,
            asked_knobs: asked_knobs.collect(),
            client_count: clients.unwrap_or(usual_clients),
            swarm,
            keeps_moments: settings.moments,
            measures: settings.measure,
            limit_seconds: limit_seconds(configuration, buggify),
            stalled_after_seconds: match settings.stalled_after {
                StalledAfter::Seconds(seconds) => Some(seconds as f64),
                StalledAfter::Never => None,
            },
            liveness_seconds: match liveness {
                Some(Liveness::Seconds(seconds)) => Some(seconds as f64),
                Some(Liveness::Off) | None => None,
            },
        }
    }
}

impl Conditions {
    /// Whether the case, if there is one, lets the run have this fault workload.
    pub(super) fn has_fault(&self, name: &str) -> bool {
        let case = self.file.case.as_deref();
        case.is_none_or(|case| case.has_fault(name))
    }
}

fn limit_seconds(configuration: &Configuration, buggify: bool) -> f64 {
    let (asked, usual) = if buggify {
        let asked = configuration.buggify_timeout_seconds;
        (asked, LIMIT_BUGGIFY_SECONDS)
    } else {
        let asked = configuration.normal_timeout_seconds;
        (asked, LIMIT_NORMAL_SECONDS)
    };
    if configuration.long_running_test {
        f64::INFINITY
    } else {
        asked.map_or(usual, |seconds| seconds as f64)
    }
}
