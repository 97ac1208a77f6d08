//! One phase, from the host's call to the verdict.
//!
//! A phase ends in exactly one place, [`PhaseEnd`], whatever ends it: the workload's code returned,
//! gave an error, panicked, spun, got stuck without a waker, or the host freed the workload in
//! between. Only the death of a client is not the end of its phase: see `crash`. The order there
//! matters and is fixed: left-over tasks are dropped (they hold handles), the database handle is
//! taken back, what went wrong is traced, and last of all the promise is kept, because the host may
//! go on from inside that call.

use crate::context::{Delay, Severity, WorkloadContext};
use crate::crash;
use crate::details;
use crate::executor::Failure;
use crate::executor::awaits::Moment;
use crate::executor::scope::{Observer, Scope};
use crate::instance::{self, Life, PhaseCode, WrappedWorkload};
use crate::stderr::complain;
use crate::workload::{PhaseResult, SimDatabase};
use std::cell::{Cell, RefCell};
use std::error::Error;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// The part of a workload's life that is running; also the name that reports use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Factory,
    Setup,
    Start,
    Check,
    Metrics,
    CheckTimeout,
    Free,
}

impl Phase {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Phase::Factory => "factory",
            Phase::Setup => "setup",
            Phase::Start => "start",
            Phase::Check => "check",
            Phase::Metrics => "get_metrics",
            Phase::CheckTimeout => "get_check_timeout",
            Phase::Free => "free",
        }
    }
}

/// Receives what goes wrong in the tasks of one phase of one client.
pub(crate) struct PhaseObserver {
    client: Rc<Client>,
    phase: Phase,
}

/// What the phases of one client share.
pub(crate) struct Client {
    /// None when a workload was wrapped outside a factory.
    context: Option<WorkloadContext>,
    /// The phase that runs, if one does.
    running: RefCell<Option<Rc<Scope>>>,
    /// Why no further phase may run.
    broken: Cell<Option<Broken>>,
    /// The host is done with this client.
    freed: Cell<bool>,
    factory: Cell<Option<Make>>,
}

/// Makes the workload of a client, by its name.
pub(crate) type Make = fn(String, WorkloadContext) -> WrappedWorkload;

/// Why a client takes no further part in the test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// Its code was interrupted half-way: a panic, a spin, nothing to wake it.
    Interrupted(Phase),
    /// It kept a database that the host has freed; none of its code may run again.
    KeptDatabase(Phase),
}

impl PhaseObserver {
    /// A scope for code of this client.
    pub(crate) fn scope(client: &Rc<Client>, phase: Phase) -> Rc<Scope> {
        Scope::new(PhaseObserver {
            client: client.clone(),
            phase,
        })
    }

    pub(crate) fn context(&self) -> Option<&WorkloadContext> {
        self.client.context.as_ref()
    }

    pub(crate) fn client(&self) -> &Rc<Client> {
        &self.client
    }

    #[cfg(all(feature = "record", not(feature = "embedded")))]
    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }
}

impl Observer for PhaseObserver {
    fn task_failed(&self, scope: &Scope, failure: &Failure, joined: bool) {
        self.client.report_failure(self.phase, failure);
        let is_fatal = !matches!(failure, Failure::ForeignWake(_));
        if is_fatal && !joined {
            self.client.interrupt(self.phase);
            scope.stop_all();
        }
    }
}

impl Client {
    pub(crate) fn new(context: Option<WorkloadContext>) -> Rc<Self> {
        Rc::new(Client {
            context,
            running: RefCell::new(None),
            broken: Cell::new(None),
            freed: Cell::new(false),
            factory: Cell::new(None),
        })
    }

    pub(crate) fn context(&self) -> Option<&WorkloadContext> {
        self.context.as_ref()
    }

    /// Remembers what makes the workload, for another life.
    pub(crate) fn set_factory(&self, make: Make) {
        self.factory.set(Some(make));
    }

    /// Makes a workload, as the host had it made.
    pub(crate) fn make(&self) -> Option<WrappedWorkload> {
        let (make, context) = (self.factory.get()?, self.context()?);
        Some(make(context.workload().to_owned(), context.clone()))
    }

    pub(crate) fn broken(&self) -> Option<Broken> {
        self.broken.get()
    }

    /// Whether a phase is under way.
    pub(crate) fn is_running(&self) -> bool {
        self.running.borrow().is_some()
    }

    /// Declares the phase that starts now.
    pub(crate) fn begin(&self, scope: &Rc<Scope>) {
        *self.running.borrow_mut() = Some(scope.clone());
    }

    /// The host frees the workload: drops the phase under way, if there is one. Returns whether
    /// nothing of it is left.
    pub(crate) fn stop_phase(&self) -> bool {
        self.freed.set(true);
        let scope = self.running.borrow().clone();
        if let Some(scope) = scope {
            scope.stop_all();
        }
        !self.is_running()
    }

    /// Drops the tasks that outlive the code that spawned them.
    pub(crate) fn stop_left_overs(&self, scope: &Scope, phase: Phase) {
        let tasks = scope.stop_all();
        #[cfg(feature = "tokio")]
        let tasks = tasks + crate::executor::runtime::end(scope);
        if tasks > 0 && self.broken().is_none() {
            self.event(
                Severity::Warn,
                "WorkloadTasksDropped",
                phase,
                details![
                    "Tasks" => tasks,
                    "Message" => "the phase ended while tasks it had spawned were still running; \
                                  await their handles to let them finish",
                ],
            );
        }
    }

    /// Writes to the trace what the assertions have counted, and what the database has answered.
    pub(crate) fn tell_counts(&self) {
        #[cfg(feature = "assertions")]
        if let Some(context) = &self.context {
            crate::sites::tell(context);
        }
        #[cfg(all(feature = "measure", not(feature = "embedded")))]
        if let Some(context) = &self.context {
            crate::measure::tell(context);
        }
    }

    /// No further phase may run: the code of `phase` was interrupted.
    pub(crate) fn interrupt(&self, phase: Phase) {
        if self.broken.get().is_none() {
            self.broken.set(Some(Broken::Interrupted(phase)));
        }
    }

    /// An event that fails the run.
    pub(crate) fn error<S2: AsRef<str>, S3: AsRef<str>>(
        &self,
        name: &str,
        phase: Phase,
        details: &[(S2, S3)],
    ) {
        self.event(Severity::Error, name, phase, details);
    }

    fn event<S2: AsRef<str>, S3: AsRef<str>>(
        &self,
        severity: Severity,
        name: &str,
        phase: Phase,
        details: &[(S2, S3)],
    ) {
        let Some(context) = &self.context else {
            let details = details
                .iter()
                .map(|(k, v)| format!(" {}={}", k.as_ref(), v.as_ref()));
            let details: String = details.collect();
            complain!("{name} Phase={}{details}", phase.as_str());
            return;
        };
        let client = context.client_id().to_string();
        let mut all = vec![("Phase", phase.as_str()), ("Client", &client)];
        all.extend(
            details
                .iter()
                .map(|(key, value)| (key.as_ref(), value.as_ref())),
        );
        context.trace(severity, name, &all);
    }

    /// An event for what happened to a task.
    pub(crate) fn report_failure(&self, phase: Phase, failure: &Failure) {
        match failure {
            Failure::Panic(report) => {
                let mut details = vec![("Message".to_owned(), report.explained())];
                if let Some(place) = report.place() {
                    details.push(("Place".to_owned(), place.to_owned()));
                }
                details.extend(frames(report.backtrace()));
                self.error("WorkloadPanic", phase, &details);
            }
            Failure::Spinning(_) | Failure::Endless(_) => self.error(
                "WorkloadTaskSpinning",
                phase,
                details!["Message" => failure],
            ),
            Failure::ForeignWake(_) => {
                self.error("WorkloadForeignWake", phase, details!["Message" => failure]);
            }
            #[cfg(feature = "tokio")]
            Failure::TokioSpinning(_) => self.error(
                "WorkloadTaskSpinning",
                phase,
                details!["Message" => failure],
            ),
            #[cfg(feature = "tokio")]
            Failure::NotSimulated(stack) => {
                let mut details = vec![("Message".to_owned(), failure.to_string())];
                details.extend(frames(stack));
                self.error("WorkloadNotSimulated", phase, &details);
            }
            #[cfg(feature = "tokio")]
            Failure::NoDelay(_) => {
                self.error("WorkloadNoDelay", phase, details!["Message" => failure]);
            }
        }
    }
}

/// The details of a stack.
fn frames(stack: &str) -> impl Iterator<Item = (String, String)> {
    let frames = stack.lines().take(BACKTRACE_FRAMES_MAX).enumerate();
    frames.map(|(i, frame)| (format!("Frame{i}"), frame.to_owned()))
}

/// A longer backtrace helps no reader.
const BACKTRACE_FRAMES_MAX: usize = 16;

/// A phase as a task: the workload's code, and the end that follows it.
///
/// They stand side by side, and not one inside the other, because a panic drops what the code holds
/// while it unwinds; the end must come later, when the panic is caught and reported.
pub(crate) struct PhaseTask {
    /// The client is dead until this is over.
    down: Option<Delay>,
    body: Option<PhaseCode>,
    end: Option<PhaseEnd>,
}

impl PhaseTask {
    pub(crate) fn new(body: PhaseCode, down_time: Duration, end: PhaseEnd) -> Self {
        let context = WorkloadContext::current().filter(|_| !down_time.is_zero());
        PhaseTask {
            down: context.map(|context| context.start_delay(down_time)),
            body: Some(body),
            end: Some(end),
        }
    }
}

impl Future for PhaseTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if let Some(down) = &mut self.down {
            // A host that cannot delay starts it again at once.
            if Pin::new(down).poll(context).is_pending() {
                return Poll::Pending;
            }
            self.down = None;
        }
        if self.body.is_some() && self.end.as_ref().is_some_and(PhaseEnd::begins_to_die) {
            self.body = None;
            if let Some(end) = self.end.take() {
                end.die();
            }
            return Poll::Ready(());
        }
        if let Some(end) = &self.end {
            end.count_awaits();
        }
        let Some(body) = &mut self.body else {
            return Poll::Ready(());
        };
        let Poll::Ready(result) = body.as_mut().poll(context) else {
            return Poll::Pending;
        };
        // Everything the code holds goes before the end looks at what is left.
        self.body = None;
        if let Some(end) = self.end.take() {
            end.finish(result);
        }
        Poll::Ready(())
    }
}

/// The end of a phase; dropping it *is* the end.
pub(crate) struct PhaseEnd(Option<Ending>);

/// What there is to do at the end of a phase.
struct Ending {
    life: Life,
    scope: Rc<Scope>,
    result: Option<PhaseResult>,
}

impl PhaseEnd {
    pub(crate) fn new(life: Life, scope: Rc<Scope>) -> Self {
        PhaseEnd(Some(Ending {
            life,
            scope,
            result: None,
        }))
    }

    /// The workload's code came to its own end.
    pub(crate) fn finish(mut self, result: PhaseResult) {
        if let Some(ending) = &mut self.0 {
            ending.result = Some(result);
        }
    }

    /// Counts the awaits of the phase, if the client is to die at one of them.
    fn count_awaits(&self) {
        if let Some(ending) = &self.0
            && ending.scope.awaits().is_none()
        {
            ending.count_awaits();
        }
    }

    /// Whether the client dies now. Its code still waits where it waited, so this is what the trace
    /// is told first.
    fn begins_to_die(&self) -> bool {
        let Some(ending) = &self.0 else {
            return false;
        };
        let Some(awaits) = ending.scope.awaits().filter(|awaits| awaits.is_dying()) else {
            return false;
        };
        ending.tell_death();
        awaits.bury();
        true
    }

    /// The client died, and its code is gone: lets it live again.
    fn die(mut self) {
        let Some(ending) = self.0.take() else {
            return;
        };
        #[cfg(feature = "tokio")]
        crate::executor::runtime::after_turn(|| ending.live_again());
        #[cfg(not(feature = "tokio"))]
        ending.live_again();
    }
}

impl Drop for PhaseEnd {
    fn drop(&mut self) {
        let Some(ending) = self.0.take() else {
            return;
        };
        #[cfg(feature = "tokio")]
        crate::executor::runtime::after_turn(|| ending.come());
        #[cfg(not(feature = "tokio"))]
        ending.come();
    }
}

impl Ending {
    fn count_awaits(&self) {
        let Life {
            client,
            phase,
            deaths,
            awaits,
            ..
        } = &self.life;
        if *phase == Phase::Start
            && let Some(context) = client.context()
            && let Some(crashes) = context.crashes()
        {
            self.scope
                .count_awaits(crashes.count(context, *deaths, *awaits));
        }
    }

    /// An event for the death of the client.
    fn tell_death(&self) {
        let client = &self.life.client;
        let Some((context, moment)) = client.context().zip(self.moment()) else {
            return;
        };
        client.event(
            Severity::Info,
            "WorkloadCrashed",
            self.life.phase,
            details![
                "At" => format!("{}:{moment}", context.client_id()),
                "DownSeconds" => crash::down_time(context, moment).as_secs_f64(),
            ],
        );
    }

    /// When the client died.
    fn moment(&self) -> Option<Moment> {
        self.scope.awaits()?.moment()
    }

    /// Everything of the client is gone, and a fresh instance goes on.
    fn live_again(mut self) {
        let client = self.life.client.clone();
        client.running.borrow_mut().take();
        self.scope.stop_all();
        #[cfg(feature = "tokio")]
        crate::executor::runtime::end(&self.scope);
        self.life.deaths += 1;
        if let (Some(context), Some(moment)) = (client.context(), self.moment()) {
            self.life.awaits = moment.at;
            self.life.down_time = crash::down_time(context, moment);
        }
        let Ending { life, scope, .. } = self;
        if let Err(life) = instance::live_again(life, &scope) {
            Ending {
                life,
                scope,
                result: None,
            }
            .come();
        }
    }

    fn come(self) {
        let Ending {
            life,
            scope,
            result,
        } = self;
        let Life {
            client,
            phase,
            database,
            promise,
            ..
        } = life;
        client.running.borrow_mut().take();
        client.stop_left_overs(&scope, phase);
        let all_back = take_database_back(&client, phase, database);
        #[cfg(all(feature = "record", not(feature = "embedded")))]
        let error = match &result {
            Some(Err(error)) => Some(error.to_string()),
            _ => None,
        };
        let verdict = match result {
            Some(Ok(())) => all_back,
            Some(Err(error)) => {
                client.error("WorkloadPhaseFailed", phase, &causes(&*error));
                false
            }
            None => {
                report_loose_end(&client, phase);
                false
            }
        };
        client.tell_counts();
        #[cfg(all(feature = "record", not(feature = "embedded")))]
        if let Some(context) = client.context() {
            crate::record::phase_ended(context, phase, verdict, error);
        }
        promise.send(verdict);
    }
}

/// The workload's code did not come to its own end, and nothing was reported about it yet.
fn report_loose_end(client: &Client, phase: Phase) {
    if client.broken().is_some() {
        return;
    }
    let (name, message) = if client.freed.get() {
        (
            "WorkloadFreedInPhase",
            "the host freed the workload while the phase was waiting for something",
        )
    } else {
        (
            "WorkloadPhaseStuck",
            "the phase was pending, and nothing held a waker that could run it again",
        )
    };
    client.error(name, phase, details!["Message" => message]);
    client.interrupt(phase);
}

/// Takes the database back from the workload. Returns whether every handle came back.
fn take_database_back(client: &Client, phase: Phase, database: SimDatabase) -> bool {
    match Arc::try_unwrap(database) {
        Ok(database) => {
            // The host owns it and frees it.
            mem::forget(database);
            true
        }
        Err(kept) => {
            let handles = Arc::strong_count(&kept) - 1;
            // One reference is never given up, so that the last of the others cannot free what
            // the host frees.
            mem::forget(kept);
            client.broken.set(Some(Broken::KeptDatabase(phase)));
            client.error(
                "WorkloadDatabaseKept",
                phase,
                details![
                    "Handles" => handles,
                    "Message" => "the database of a phase dies with the phase, but handles on \
                                  it were kept; drop every SimDatabase and transaction runner \
                                  before the phase returns. This client's later phases are \
                                  skipped",
                ],
            );
            false
        }
    }
}

/// An error and what caused it, outermost first.
fn causes(error: &(dyn Error + 'static)) -> Vec<(String, String)> {
    let chain = std::iter::successors(Some(error), |&error| error.source());
    chain
        .take(CAUSES_MAX)
        .enumerate()
        .map(|(depth, error)| {
            let key = match depth {
                0 => "Error".to_owned(),
                depth => format!("Cause{depth}"),
            };
            (key, error.to_string())
        })
        .collect()
}

/// A chain of causes longer than this is a cycle.
const CAUSES_MAX: usize = 32;
