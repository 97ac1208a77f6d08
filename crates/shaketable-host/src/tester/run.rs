//! What the parts of one run share: its log, its failures, and where it is.

use crate::isolation::beacon::Beacon;
use crate::library::instance::Workload;
use crate::library::promise::Promises;
use crate::plan::{Plan, Recording, Settings};
use crate::testfile::{Knob, TestFile, TestSpec};
use crate::trace::{Event, Log, Severity};
use crate::verdict::{Drawn, Failure, FailureKind, Metric, Outcome, Phase};
use shaketable_cluster::cluster::Cluster;
use shaketable_kernel::{Kernel, ProcessId, Spinning};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::rc::Rc;

/// One run.
pub(super) struct Run {
    pub(super) kernel: Kernel,
    pub(super) log: Log,
    pub(super) seed: u32,
    pub(super) file: TestFile,
    pub(super) libraries: Vec<Vec<Option<crate::library::Library>>>,
    pub(super) buggify: bool,
    pub(super) stress: bool,
    pub(super) fault_injection: bool,
    /// Knobs that were asked for beside the file, and win over those in it.
    pub(super) asked_knobs: Vec<Knob>,
    pub(super) client_count: u32,
    pub(super) limit_seconds: f64,
    pub(super) promises: Promises,
    /// Every workload there was. What their contexts point to must outlive the last call of their code.
    pub(super) instances: RefCell<Vec<Rc<RefCell<Workload>>>>,
    pub(super) drawn: RefCell<Drawn>,
    pub(super) metrics: RefCell<Vec<Metric>>,
    /// How often each error reached a workload.
    errors: RefCell<BTreeMap<i32, u64>>,
    pub(super) sites: super::sites::Sites,
    console: RefCell<Vec<String>>,
    failures: RefCell<Vec<Failure>>,
    /// The clients, by their process.
    clients: RefCell<BTreeMap<ProcessId, u32>>,
    test: Cell<usize>,
    phase: Cell<Phase>,
    /// Workloads in a phase: (client, workload).
    pending: RefCell<Vec<(u32, usize, Waits)>>,
    /// How many of them can only be woken through the border.
    pending_on_the_border: Cell<usize>,
    over: Cell<bool>,
    tests_passed: Cell<u32>,
    tests_failed: Cell<u32>,
}

/// What a workload in a phase may wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waits {
    /// Futures that the border has lent to a library: without one nothing can wake it.
    OnTheBorder,
    /// Anything in the simulation.
    Elsewhere,
}

/// More failures than this say nothing new.
const FAILURES_MAX: usize = 32;
/// FoundationDB's limits for a whole run, in simulated seconds.
const LIMIT_NORMAL_SECONDS: f64 = 5_400.0;
const LIMIT_BUGGIFY_SECONDS: f64 = 36_000.0;

impl Run {
    pub(super) fn new(plan: &Plan, settings: &Settings, seed: u32, kernel: &Kernel) -> Rc<Run> {
        let configuration = &plan.file.configuration;
        let buggify = settings.buggify.or(configuration.buggify).unwrap_or(false);
        let limit_seconds = if configuration.long_running_test {
            f64::INFINITY
        } else if buggify {
            let limit = configuration.buggify_timeout_seconds;
            limit.map_or(LIMIT_BUGGIFY_SECONDS, |limit| limit as f64)
        } else {
            let limit = configuration.normal_timeout_seconds;
            limit.map_or(LIMIT_NORMAL_SECONDS, |limit| limit as f64)
        };
        let drawn_clients = kernel.stream("testers").range(4_u32, 9);
        let asked_knobs = settings.knobs.iter().cloned();
        let asked_knobs = asked_knobs.map(|(name, value)| Knob { name, value });
        let libraries = plan
            .file
            .tests
            .iter()
            .enumerate()
            .map(|(test, spec)| {
                (0..spec.workloads.len())
                    .map(|workload| plan.library(test, workload).cloned())
                    .collect()
            })
            .collect();
        Rc::new(Run {
            kernel: kernel.clone(),
            log: Log::default(),
            seed,
            file: plan.file.clone(),
            libraries,
            buggify,
            stress: settings.stress,
            fault_injection: settings
                .fault_injection
                .or(configuration.fault_injection)
                .unwrap_or(true),
            asked_knobs: asked_knobs.collect(),
            client_count: settings.clients.unwrap_or(drawn_clients),
            limit_seconds,
            promises: Promises::default(),
            instances: RefCell::default(),
            drawn: RefCell::default(),
            metrics: RefCell::default(),
            errors: RefCell::default(),
            sites: super::sites::Sites::default(),
            console: RefCell::default(),
            failures: RefCell::default(),
            clients: RefCell::default(),
            test: Cell::new(0),
            phase: Cell::new(Phase::Boot),
            pending: RefCell::default(),
            pending_on_the_border: Cell::new(0),
            over: Cell::new(false),
            tests_passed: Cell::new(0),
            tests_failed: Cell::new(0),
        })
    }

    pub(super) fn now(&self) -> f64 {
        self.kernel.now().as_secs()
    }

    pub(super) fn trace(&self, event: Event) -> Severity {
        self.log.trace(event)
    }

    /// An event of the orchestrator, now.
    pub(super) fn event(&self, severity: Severity, kind: &str) -> Event {
        Event::new(severity, self.now(), kind)
    }

    /// A line fdbserver would print.
    pub(super) fn print(&self, line: impl Into<String>) {
        self.console.borrow_mut().push(line.into());
    }

    pub(super) fn spec(&self, test: usize) -> &TestSpec {
        &self.file.tests[test]
    }

    pub(super) fn add_client(&self, process: ProcessId, client: u32) {
        self.clients.borrow_mut().insert(process, client);
    }

    /// Says which test and phase everybody is in.
    pub(super) fn enter(&self, test: usize, phase: Phase) {
        self.test.set(test);
        self.phase.set(phase);
        Beacon::enter(test, 0, None, phase);
    }

    /// Says that code of a workload is about to be called.
    pub(super) fn call(&self, client: u32, workload: usize) {
        Beacon::enter(self.test.get(), workload, Some(client), self.phase.get());
    }

    /// The phase everybody is in.
    pub(super) fn phase(&self) -> Phase {
        self.phase.get()
    }

    /// A phase of a workload has begun.
    pub(super) fn begin(&self, client: u32, workload: usize, waits: Waits) {
        self.pending.borrow_mut().push((client, workload, waits));
        self.count_pending();
    }

    /// It has ended.
    pub(super) fn end(&self, client: u32, workload: usize) {
        self.pending
            .borrow_mut()
            .retain(|(of, number, _)| (*of, *number) != (client, workload));
        self.count_pending();
    }

    /// Whatever was under way is no longer waited for.
    pub(super) fn forget_pending(&self) {
        self.pending.borrow_mut().clear();
        self.count_pending();
    }

    fn count_pending(&self) {
        let pending = self.pending.borrow();
        let on_the_border = pending
            .iter()
            .filter(|(_, _, waits)| *waits == Waits::OnTheBorder);
        self.pending_on_the_border.set(on_the_border.count());
    }

    /// Whether a workload of a library is in a phase.
    pub(super) fn waits_for_libraries(&self) -> bool {
        self.pending_on_the_border.get() > 0
    }

    /// Ends the run after what is happening now.
    pub(super) fn stop(&self) {
        self.over.set(true);
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.get()
    }

    pub(super) fn has_failed(&self) -> bool {
        !self.failures.borrow().is_empty()
    }

    pub(super) fn count_test(&self, passed: bool) {
        let counter = if passed {
            &self.tests_passed
        } else {
            &self.tests_failed
        };
        counter.set(counter.get() + 1);
    }

    pub(super) fn tests(&self) -> (u32, u32) {
        (self.tests_passed.get(), self.tests_failed.get())
    }

    /// Remembers a failure in the present phase.
    pub(super) fn fail(
        &self,
        kind: FailureKind,
        client: Option<u32>,
        workload: Option<usize>,
        message: impl Into<String>,
    ) {
        let mut failures = self.failures.borrow_mut();
        if failures.len() < FAILURES_MAX {
            let test = self.spec(self.test.get());
            let failure = Failure {
                kind,
                test: test.title.clone(),
                workload: workload.map_or(String::new(), |workload| {
                    test.workloads[workload].display_name().to_owned()
                }),
                phase: self.phase.get(),
                client,
                time: self.now(),
                message: message.into(),
            };
            Beacon::note_failure(&failure);
            failures.push(failure);
        }
    }

    /// Remembers one failure for everybody who is still pending; they share the cause.
    pub(super) fn fail_pending(&self, kind: FailureKind, message: &str) {
        let pending = self.pending.borrow().clone();
        let Some((client, workload, _)) = pending.first().copied() else {
            self.fail(kind, None, None, message);
            return;
        };
        let others = pending.len() - 1;
        let message = match others {
            0 => message.to_owned(),
            1 => format!("{message} (and one more client)"),
            _ => format!("{message} (and {others} more clients)"),
        };
        self.fail(kind, Some(client), Some(workload), message);
    }

    pub(super) fn fail_spinning(&self, spinning: &Spinning) {
        let client = spinning
            .process
            .and_then(|process| self.clients.borrow().get(&process).copied());
        self.fail(FailureKind::Spinning, client, None, spinning.to_string());
    }

    pub(super) fn fail_host(&self, message: String) {
        self.fail(FailureKind::HostFault, None, None, message);
    }

    /// Turns misuse of promises into failures.
    pub(super) fn collect_misuse(&self) {
        if !self.promises.is_misused() {
            return;
        }
        for misuse in self.promises.take_misuses() {
            let (client, workload) = unpack_owner(misuse.owner);
            self.fail(
                FailureKind::PromiseMisused,
                Some(client),
                Some(workload),
                misuse.what,
            );
        }
    }

    /// An error reached a workload that the border does not see.
    pub(super) fn count_error(&self, code: i32) {
        *self.errors.borrow_mut().entry(code).or_default() += 1;
    }

    /// Adds the errors that the border saw.
    pub(super) fn add_errors(&self, errors: BTreeMap<i32, u64>) {
        let mut all = self.errors.borrow_mut();
        for (code, count) in errors {
            *all.entry(code).or_default() += count;
        }
    }

    /// Remembers which places were buggified.
    pub(super) fn note_buggified(&self, cluster: Option<&Cluster>) {
        let sites = cluster.map_or(Vec::new(), Cluster::buggified_sites);
        let sites = sites.into_iter().map(str::to_owned);
        self.drawn.borrow_mut().buggified = sites.chain(self.sites.buggified()).collect();
    }

    /// The last events and lines of a run.
    pub(super) fn note_end(&self) {
        self.trace(
            self.event(Severity::Info, "ElapsedTime")
                .detail("SimTime", crate::printf::g(self.now()))
                .detail("RandomUnseed", self.unseed()),
        );
    }

    fn unseed(&self) -> u32 {
        (self.kernel.fingerprint() % 100_001) as u32
    }

    pub(super) fn outcome(
        &self,
        recorder: &super::recorder::Recorded,
        recording: &Recording,
    ) -> Outcome {
        let unseed = self.unseed();
        self.log.mix(self.kernel.fingerprint());
        let failures = self.failures.borrow().clone();
        let around = failures
            .first()
            .map_or(Vec::new(), |failure| recorder.faults_around(failure.time));
        Outcome {
            seed: self.seed,
            failures,
            tests_passed: self.tests_passed.get(),
            tests_failed: self.tests_failed.get(),
            simulated_seconds: self.now(),
            unseed,
            fingerprint: self.log.fingerprint(),
            error_events: self.log.errors(),
            drawn: self.drawn.borrow().clone(),
            metrics: self.metrics.borrow().clone(),
            assertions: self.sites.assertions(),
            errors: self.errors.take(),
            faults: recorder.faults(),
            notable: self.log.notable(),
            faults_around: around,
            uncontrolled: crate::hermetic::take_uncontrolled(),
            console: self.console.borrow().clone(),
            stack: Vec::new(),
            printed: String::new(),
            trace: recording.trace_path(),
        }
    }
}

/// Client and workload as one number, for [`Promises`].
pub(super) fn pack_owner(client: u32, workload: usize) -> usize {
    (workload << 32) | client as usize
}

fn unpack_owner(owner: usize) -> (u32, usize) {
    (owner as u32, owner >> 32)
}

thread_local! {
    /// Without a destructor, so that it can still be read while the process exits.
    static CURRENT: ManuallyDrop<RefCell<Option<Rc<Run>>>> =
        const { ManuallyDrop::new(RefCell::new(None)) };
}

/// Sets the run of this thread, for [`current_client`].
pub(super) fn set_current(run: Option<&Rc<Run>>) {
    CURRENT.with(|current| *current.borrow_mut() = run.cloned());
}

/// The client whose code runs on this thread, if any: asked when that code has just crashed.
pub(crate) fn current_client() -> Option<u32> {
    CURRENT.with(|current| {
        let run = current.try_borrow().ok()?;
        let run = run.as_ref()?;
        let process = run.kernel.current_process()?;
        run.clients.try_borrow().ok()?.get(&process).copied()
    })
}
