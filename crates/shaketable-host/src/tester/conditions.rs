//! What holds for a run from its beginning to its end: the file, what was asked for beside it, and
//! what follows from the two.

use crate::case::Case;
use crate::library::Library;
use crate::plan::{Plan, Settings, StalledAfter};
use crate::testfile::{Configuration, Knob, TestFile};
use shaketable_kernel::Kernel;

/// The conditions of one run.
pub(super) struct Conditions {
    pub(super) seed: u32,
    pub(super) file: TestFile,
    /// For each test, for each workload: its library, if it is an External one.
    pub(super) libraries: Vec<Vec<Option<Library>>>,
    pub(super) buggify: bool,
    pub(super) stress: bool,
    pub(super) fault_injection: bool,
    /// Knobs that were set outside the file, and override those in it.
    pub(super) asked_knobs: Vec<Knob>,
    pub(super) client_count: u32,
    /// Simulated seconds the whole run may take.
    pub(super) limit_seconds: f64,
    /// Simulated seconds that a client may go without progress, if that is limited.
    pub(super) stalled_after_seconds: Option<f64>,
}

/// FoundationDB's limits for a whole run, in simulated seconds.
const LIMIT_NORMAL_SECONDS: f64 = 5_400.0;
const LIMIT_BUGGIFY_SECONDS: f64 = 36_000.0;

impl Conditions {
    pub(super) fn new(plan: &Plan, settings: &Settings, seed: u32, kernel: &Kernel) -> Conditions {
        let configuration = &plan.file.configuration;
        let unchanged = Case::default();
        let case = plan.file.case.as_deref().unwrap_or(&unchanged);
        let buggify = settings.buggify.or(case.buggify);
        let buggify = buggify.or(configuration.buggify).unwrap_or(false);
        let fault_injection = settings.fault_injection.or(case.fault_injection);
        let fault_injection = fault_injection.or(configuration.fault_injection);
        let drawn_clients = kernel.stream("testers").range(4_u32, 9);
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
            stress: settings.stress || case.stress,
            fault_injection: fault_injection.unwrap_or(true),
            asked_knobs: asked_knobs.collect(),
            client_count: settings.clients.or(case.clients).unwrap_or(drawn_clients),
            limit_seconds: limit_seconds(configuration, buggify),
            stalled_after_seconds: match settings.stalled_after {
                StalledAfter::Seconds(seconds) => Some(seconds as f64),
                StalledAfter::Never => None,
            },
        }
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
