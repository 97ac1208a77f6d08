//! What the parts of one run share: its log, its failures, and where it is.

use super::conditions::Conditions;
use super::liveness::Aftermath;
use super::progress::Progress;
use super::record::Notes;
use super::testbed::Testbed;
use super::waits::{self, Waiting};
use crate::case::TakenDecision;
use crate::isolation::beacon::Beacon;
use crate::library::instance::Workload;
use crate::library::promise::{Owner, Promises};
use crate::plan::{Plan, Recording, Settings};
use crate::testfile::TestSpec;
use crate::trace::{Event, Log, Severity};
use crate::verdict::{Drawn, Failure, FailureKind, Metric, Outcome, Phase};
use shaketable_cluster::cluster::Cluster;
use shaketable_kernel::{Kernel, ProcessId, Spinning};
use shaketable_record::Stream;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::ManuallyDrop;
use std::rc::Rc;

/// One run.
pub(super) struct Run {
    pub(super) kernel: Kernel,
    pub(super) log: Log,
    pub(super) given: Conditions,
    pub(super) progress: Progress,
    pub(super) aftermath: Aftermath,
    pub(super) findings: Findings,
    pub(super) promises: Promises,
    /// Every workload there was. What their contexts point to must outlive the last call of their
    /// code.
    pub(super) instances: RefCell<Vec<Rc<RefCell<Workload>>>>,
    /// What becomes the record, if one is wanted.
    pub(super) notes: Option<Notes>,
    /// The clients, by their process.
    clients: RefCell<BTreeMap<ProcessId, u32>>,
}

/// What a run has shown so far: the parts of its outcome.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) drawn: RefCell<Drawn>,
    pub(super) metrics: RefCell<Vec<Metric>>,
    pub(super) sites: crate::verdict::Sites,
    pub(super) deaths: super::deaths::Deaths,
    /// The fault workloads of the run, by the groups of their decisions, whether or not they act.
    pub(super) fault_workloads: RefCell<BTreeSet<String>>,
    /// The options that the code under test read; only of cases.
    options: RefCell<BTreeMap<String, String>>,
    /// How often each error reached a workload.
    errors: RefCell<BTreeMap<i32, u64>>,
    console: RefCell<Vec<String>>,
    failures: RefCell<Vec<Failure>>,
    /// What the clients waited for when a phase did not end.
    pub(super) waits: RefCell<Vec<Waiting>>,
}

/// The run ends here, because nothing after it would mean anything: as in fdbserver after a broken
/// promise, a check that takes too long, or a workload that cannot be created. The failure with the
/// reason has been noted.
#[derive(Debug)]
pub(super) struct EndRun;

/// More failures than this add nothing new.
const FAILURES_MAX: usize = 32;
impl Run {
    pub(super) fn new(
        plan: &Plan,
        settings: &Settings,
        seed: u64,
        kernel: &Kernel,
        recording: &Recording,
    ) -> Rc<Run> {
        Rc::new(Run {
            kernel: kernel.clone(),
            log: Log::default(),
            given: Conditions::new(plan, settings, seed, kernel),
            progress: Progress::default(),
            aftermath: Aftermath::default(),
            findings: Findings::default(),
            promises: Promises::default(),
            instances: RefCell::default(),
            notes: Notes::of(recording),
            clients: RefCell::default(),
        })
    }

    pub(super) fn now(&self) -> f64 {
        self.kernel.now().as_secs()
    }

    pub(super) fn trace(&self, event: Event) -> Severity {
        if let Some(notes) = &self.notes {
            notes.event(&event, false);
        }
        self.log.trace(event)
    }

    /// Traces something that may make the clients' lives harder.
    pub(super) fn trace_fault(&self, event: Event) {
        if let Some(notes) = &self.notes {
            notes.event(&event, true);
        }
        self.log.trace(event);
    }

    /// An event of the tester, now.
    pub(super) fn event(&self, severity: Severity, kind: &str) -> Event {
        Event::new(severity, self.now(), kind)
    }

    /// A line fdbserver would print.
    pub(super) fn print(&self, line: impl Into<String>) {
        self.findings.console.borrow_mut().push(line.into());
    }

    pub(super) fn spec(&self, test: usize) -> &TestSpec {
        &self.given.file.tests[test]
    }

    pub(super) fn add_client(&self, process: ProcessId, client: u32) {
        self.clients.borrow_mut().insert(process, client);
    }

    /// Sets which test and phase the run is in.
    pub(super) fn enter(&self, test: usize, phase: Phase) {
        self.progress.test.set(test);
        self.progress.phase.set(phase);
        self.progress.phase_began.set(self.kernel.now());
        Beacon::enter(test, 0, None, phase);
    }

    /// Records that code of a workload is about to be called.
    pub(super) fn call(&self, client: u32, workload: usize) {
        Beacon::enter(
            self.progress.test.get(),
            workload,
            Some(client),
            self.progress.phase.get(),
        );
    }

    /// The phase the run is in.
    pub(super) fn phase(&self) -> Phase {
        self.progress.phase.get()
    }

    /// Ends the run after what is happening now.
    pub(super) fn stop(&self) {
        self.progress.over.set(true);
    }

    pub(super) fn is_over(&self) -> bool {
        self.progress.over.get()
    }

    pub(super) fn has_failed(&self) -> bool {
        !self.findings.failures.borrow().is_empty()
    }

    /// Remembers a failure in the present phase.
    pub(super) fn fail(
        &self,
        kind: FailureKind,
        client: Option<u32>,
        workload: Option<usize>,
        message: impl Into<String>,
    ) {
        self.progress.note_failed();
        let mut failures = self.findings.failures.borrow_mut();
        if failures.len() < FAILURES_MAX {
            let test = self.spec(self.progress.test.get());
            let failure = Failure {
                kind,
                test: test.title.clone(),
                workload: workload.map_or(String::new(), |workload| {
                    test.workloads[workload].display_name().to_owned()
                }),
                phase: self.progress.phase.get(),
                client,
                time: self.now(),
                message: message.into(),
            };
            Beacon::note_failure(&failure);
            failures.push(failure);
        }
    }

    /// Remembers one failure for all workloads that are still pending; they share the cause.
    pub(super) fn fail_pending(&self, testbed: &Testbed, kind: FailureKind, message: &str) {
        let pending = self.progress.pending();
        if self.findings.waits.borrow().is_empty() {
            let waits = waits::describe(self, testbed);
            self.findings.waits.replace(waits);
        }
        let Some(first) = pending.first() else {
            self.fail(kind, None, None, message);
            return;
        };
        let others = pending.len() - 1;
        let message = match others {
            0 => message.to_owned(),
            1 => format!("{message} (and one more client)"),
            _ => format!("{message} (and {others} more clients)"),
        };
        self.fail(kind, Some(first.client), Some(first.workload), message);
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

    /// The message of the last failure of a workload.
    pub(super) fn last_failure(&self, client: u32) -> Option<String> {
        let failures = self.findings.failures.borrow();
        let mut failures = failures.iter().rev();
        let failure = failures.find(|failure| failure.client == Some(client))?;
        Some(failure.message.clone())
    }

    /// Turns misuse of promises into failures.
    pub(super) fn collect_misuse(&self) {
        if !self.promises.is_misused() {
            return;
        }
        for misuse in self.promises.take_misuses() {
            let Owner { client, workload } = misuse.owner;
            self.fail(
                FailureKind::PromiseMisused,
                Some(client),
                Some(workload),
                misuse.what,
            );
        }
    }

    /// An error reached a workload that does not use the C API.
    pub(super) fn count_error(&self, code: i32) {
        *self.findings.errors.borrow_mut().entry(code).or_default() += 1;
    }

    /// Adds the errors that the C API returned.
    pub(super) fn add_errors(&self, errors: BTreeMap<i32, u64>) {
        let mut all = self.findings.errors.borrow_mut();
        for (code, count) in errors {
            *all.entry(code).or_default() += count;
        }
    }

    /// Remembers which places were buggified.
    pub(super) fn note_buggified(&self, cluster: Option<&Cluster>) {
        let sites = cluster.map_or(Vec::new(), Cluster::buggified_sites);
        let sites = sites.into_iter().map(str::to_owned);
        self.findings.drawn.borrow_mut().buggified =
            sites.chain(self.findings.sites.buggified()).collect();
    }

    /// A case that lists decisions or fault workloads which no longer come up must not pass: it
    /// tests nothing. A run that has failed may well have ended before their turn.
    pub(super) fn check_case(&self) {
        let mut unmet = self.kernel.unmet_overrides();
        let case = self.given.file.case.as_ref();
        let faults = case.and_then(|case| case.faults.as_ref());
        let known = self.findings.fault_workloads.borrow();
        let missing = faults.into_iter().flatten();
        unmet.extend(missing.filter(|fault| !known.contains(*fault)).cloned());
        if !unmet.is_empty() && !self.has_failed() {
            let names: Vec<String> = unmet.iter().map(|name| format!("`{name}`")).collect();
            let message = format!(
                "the case no longer applies: {} never came up",
                names.join(", ")
            );
            self.fail(FailureKind::CaseOutdated, None, None, message);
        }
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

    pub(super) fn decisions(&self, all: bool) -> Vec<TakenDecision> {
        let case = self.given.file.case.as_ref();
        let lists = case.is_some_and(|case| case.only.is_some());
        let decisions = self.kernel.decisions().into_iter();
        decisions
            .map(TakenDecision::from)
            .filter(|decision| all || lists && decision.is_event())
            .collect()
    }

    /// The streams that were drawn from.
    pub(super) fn streams(&self) -> Vec<Stream> {
        let drawn = self.kernel.streams_drawn_from().into_iter();
        drawn.map(|(name, draws)| Stream { name, draws }).collect()
    }

    /// The code under test read an option.
    pub(super) fn note_option(&self, name: &str, text: &str) {
        // The crate `shaketable` reads options of its own.
        if self.given.file.case.is_some() && !name.starts_with("shaketable") {
            let mut options = self.findings.options.borrow_mut();
            options.entry(name.to_owned()).or_insert(text.to_owned());
        }
    }

    pub(super) fn outcome(
        &self,
        recorder: &super::recorder::Recorded,
        recording: &Recording,
    ) -> Outcome {
        let unseed = self.unseed();
        self.log.mix(self.kernel.fingerprint());
        let failures = self.findings.failures.borrow().clone();
        let around = failures
            .first()
            .map_or(Vec::new(), |failure| recorder.faults_around(failure.time));
        let (tests_passed, tests_failed) = self.progress.verdicts();
        Outcome {
            seed: self.given.seed,
            failures,
            tests_passed,
            tests_failed,
            simulated_seconds: self.now(),
            unseed,
            fingerprint: self.log.fingerprint(),
            error_events: self.log.errors(),
            drawn: self.findings.drawn.borrow().clone(),
            metrics: self.findings.metrics.borrow().clone(),
            assertions: self.findings.sites.assertions(),
            errors: self.findings.errors.take(),
            calls: self.findings.sites.calls(),
            faults: super::recorder::fault_counts(self),
            options: self.findings.options.take(),
            decisions: self.decisions(*recording == Recording::Decisions),
            streams: match *recording == Recording::Decisions {
                true => self.streams(),
                false => Vec::new(),
            },
            moments: match self.given.keeps_moments {
                true => self.findings.sites.moments(),
                false => Vec::new(),
            },
            futures: Vec::new(),
            fates: Vec::new(),
            notable: self.log.notable(),
            faults_around: around,
            uncontrolled: crate::hermetic::take_uncontrolled(),
            console: self.findings.console.borrow().clone(),
            coverage: Vec::new(),
            counts: None,
            waits: Vec::new(),
            deaths: self.findings.deaths.all(),
            stack: Vec::new(),
            trace: recording.trace_path(),
            record: None,
            cause: None,
            story: Vec::new(),
            hazards: None,
            lines_found: Vec::new(),
            frames_found: Vec::new(),
        }
    }
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
