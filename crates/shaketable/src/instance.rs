//! A workload as the host sees it: a pointer and a table of functions.
//!
//! Nothing that a workload does reaches the host except through a return: panics are caught here or
//! in the executor, and become events. Whatever the order of the host's calls, no two pieces of
//! workload code ever hold the workload at once: a phase that runs has it alone.

use crate::executor::scope::Scope;
use crate::executor::{Failure, fdb_spawn, poll_pending_tasks};
use crate::host::{HostMetrics, HostPromise};
use crate::metrics::Metrics;
use crate::phase::{Broken, Client, Phase, PhaseEnd, PhaseObserver, PhaseTask};
use crate::stderr::complain;
use crate::workload::{PhaseResult, RustWorkload, SimDatabase, Workload};
use crate::{WorkloadContext, details};
use foundationdb::Database;
use shaketable_abi::FDBDatabase;
use shaketable_abi::v1::{
    FDB_WORKLOAD_API_VERSION, FDBMetrics, FDBPromise, FDBWorkload, FDBWorkloadVt, OpaqueWorkload,
};
use std::cell::{Cell, UnsafeCell};
use std::ffi::c_double;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A workload in the form that a [factory](crate::RustWorkloadFactory) returns.
///
/// ```
/// # use shaketable::{
/// #     PhaseResult, RustWorkloadFactory, SimDatabase, Workload, WorkloadContext, WrappedWorkload,
/// # };
/// # struct Transfers;
/// # impl Workload for Transfers {
/// #     async fn start(&mut self, _db: SimDatabase) -> PhaseResult { Ok(()) }
/// # }
/// # struct Bank;
/// # impl RustWorkloadFactory for Bank {
/// fn create(name: String, _context: WorkloadContext) -> WrappedWorkload {
///     match name.as_str() {
///         "Transfers" => WrappedWorkload::new(Transfers),
///         _ => WrappedWorkload::unknown(&name),
///     }
/// }
/// # }
/// ```
#[repr(transparent)]
#[derive(Debug)]
pub struct WrappedWorkload(FDBWorkload);

impl WrappedWorkload {
    /// What a factory returns for a name that it knows.
    pub fn new(workload: impl RustWorkload) -> Self {
        workload.wrap()
    }

    /// What a factory returns for a name that it does not know: an error event with the name, and a
    /// workload whose every phase fails.
    pub fn unknown(name: &str) -> Self {
        let client = current_client();
        client.error(
            "WorkloadUnknown",
            Phase::Factory,
            details![
                "WorkloadName" => format!("`{name}`"),
                "Message" => "the library has no workload of the name that the test file gives as \
                              workloadName",
            ],
        );
        failed(client)
    }
}

#[cfg(feature = "embedded")]
impl WrappedWorkload {
    /// What the host gets.
    pub(crate) fn into_raw(self) -> FDBWorkload {
        self.0
    }
}

/// Puts a workload behind the ABI, in the name of the client whose factory is running.
pub(crate) fn wrap(workload: impl Workload) -> WrappedWorkload {
    raw(current_client(), workload)
}

/// A workload whose every phase fails; what went wrong was reported before.
pub(crate) fn failed(client: Rc<Client>) -> WrappedWorkload {
    client.interrupt(Phase::Factory);
    raw(client, Nothing)
}

/// Runs workload code outside a phase. A panic becomes an event, and `None`.
pub(crate) fn guard<T>(client: &Rc<Client>, phase: Phase, body: impl FnOnce() -> T) -> Option<T> {
    let scope = PhaseObserver::scope(client, phase);
    let result = scope.enter(|| catch_unwind(AssertUnwindSafe(body)));
    poll_pending_tasks();
    client.stop_left_overs(&scope, phase);
    match result {
        Ok(value) => Some(value),
        Err(payload) => {
            client.report_failure(phase, &Failure::panic(payload));
            None
        }
    }
}

/// The client whose factory is running; outside a factory one that reports to stderr.
fn current_client() -> Rc<Client> {
    Scope::current()
        .and_then(|scope| Some(scope.observer::<PhaseObserver>()?.client().clone()))
        .unwrap_or_else(|| Client::new(WorkloadContext::current()))
}

/// FoundationDB's own default.
pub(crate) const CHECK_TIMEOUT_SECONDS_DEFAULT: f64 = 3000.0;

pub(crate) struct Instance {
    client: Rc<Client>,
    /// Used by the running phase, or else by the call from the host that is being served. `None`
    /// only while a client that died has no next life yet.
    workload: UnsafeCell<Option<Box<dyn AnyWorkload>>>,
    /// What the workload returned before its check began.
    check_timeout_seconds: Cell<f64>,
}

fn raw(client: Rc<Client>, workload: impl Workload) -> WrappedWorkload {
    let instance = Instance {
        client,
        workload: UnsafeCell::new(Some(Box::new(workload))),
        check_timeout_seconds: Cell::new(CHECK_TIMEOUT_SECONDS_DEFAULT),
    };
    WrappedWorkload(FDBWorkload {
        api_version: FDB_WORKLOAD_API_VERSION,
        inner: Box::into_raw(Box::new(instance)).cast::<OpaqueWorkload>(),
        vt: const {
            &FDBWorkloadVt {
                free: Some(free),
                setup: Some(setup),
                start: Some(start),
                check: Some(check),
                get_metrics: Some(get_metrics),
                get_check_timeout: Some(get_check_timeout),
            }
        },
    })
}

unsafe extern "C" fn setup(
    inner: *mut OpaqueWorkload,
    database: *mut FDBDatabase,
    promise: FDBPromise,
) {
    // SAFETY: the host passes what `raw` made, and a promise of its own.
    unsafe { run_phase(inner, Phase::Setup, database, promise) }
}

unsafe extern "C" fn start(
    inner: *mut OpaqueWorkload,
    database: *mut FDBDatabase,
    promise: FDBPromise,
) {
    // SAFETY: the host passes what `raw` made, and a promise of its own.
    unsafe { run_phase(inner, Phase::Start, database, promise) }
}

unsafe extern "C" fn check(
    inner: *mut OpaqueWorkload,
    database: *mut FDBDatabase,
    promise: FDBPromise,
) {
    // SAFETY: the host passes what `raw` made.
    if let Some(instance) = unsafe { instance(inner) } {
        // While the check runs the workload cannot be asked, and that is when the host asks.
        ask_check_timeout(instance);
    }
    // SAFETY: the host passes what `raw` made, and a promise of its own.
    unsafe { run_phase(inner, Phase::Check, database, promise) }
}

/// # Safety
///
/// `inner` is null or comes from [`raw`] and is not freed; `promise` is the
/// host's.
unsafe fn run_phase(
    inner: *mut OpaqueWorkload,
    phase: Phase,
    database: *mut FDBDatabase,
    promise: FDBPromise,
) {
    // SAFETY: by the caller's promise.
    let instance = unsafe { instance(inner) };
    // SAFETY: by the caller's promise.
    let promise = match unsafe { HostPromise::new(promise) } {
        Ok(promise) => promise,
        Err(why) => {
            // Without a promise there is no way to reply: the host will wait forever.
            let complaint = format!("the host passed a broken promise: {why}");
            return match instance {
                Some(instance) => instance.host_error(phase, &complaint),
                None => complain!("{}: {complaint}", phase.as_str()),
            };
        }
    };
    let Some(instance) = instance else {
        complain!("the host called {} of a null workload", phase.as_str());
        return promise.send(false);
    };
    let client = &instance.client;
    if let Some(Broken::Interrupted(earlier) | Broken::KeptDatabase(earlier)) = client.broken() {
        client.error(
            "WorkloadPhaseSkipped",
            phase,
            details!["Because" => format!("{} failed in a way that leaves the workload unusable", earlier.as_str())],
        );
        return promise.send(false);
    }
    if client.is_running() {
        instance.host_error(
            phase,
            "the host began a phase before the last one had ended",
        );
        return promise.send(false);
    }
    let Some(database) = NonNull::new(database) else {
        instance.host_error(phase, "the host passed a null database (useDB = false?)");
        return promise.send(false);
    };
    // SAFETY: the host's database lives until the promise is kept, and `PhaseEnd` takes it back.
    let database = Arc::new(unsafe { Database::new_from_pointer(database.cast()) });
    #[cfg(all(feature = "record", not(feature = "embedded")))]
    if let Some(context) = client.context() {
        crate::record::phase_begins(context, phase);
    }
    begin_life(Life {
        instance: NonNull::from(instance),
        client: client.clone(),
        phase,
        database,
        promise,
        deaths: 0,
        awaits: 0,
        down_time: Duration::ZERO,
    });
}

/// A phase of a client from its beginning, or from the last death of the client in it.
pub(crate) struct Life {
    pub(crate) instance: NonNull<Instance>,
    pub(crate) client: Rc<Client>,
    pub(crate) phase: Phase,
    pub(crate) database: SimDatabase,
    pub(crate) promise: HostPromise,
    /// How often the client died in this phase.
    pub(crate) deaths: u32,
    /// The awaits of the lives before.
    pub(crate) awaits: u64,
    /// How long the client stays dead first.
    pub(crate) down_time: Duration,
}

/// Runs the code of the workload: the phase itself, or `recover` after a death.
fn begin_life(life: Life) {
    let Life {
        instance,
        client,
        phase,
        deaths,
        ..
    } = &life;
    // SAFETY: the host frees the instance after the phase has ended.
    let instance = unsafe { instance.as_ref() };
    let scope = PhaseObserver::scope(client, *phase);
    #[cfg(feature = "tokio")]
    if let Some(context) = client.context()
        && let Err(why) = crate::executor::runtime::begin(&scope, context)
    {
        instance.host_error(*phase, &why);
        std::mem::forget(life.database);
        return life.promise.send(false);
    }
    client.begin(&scope);
    // SAFETY: no phase runs, so nothing else uses the workload; it is freed, or dies, after its
    // phase ended.
    let workload: &'static mut Option<_> = unsafe { &mut *instance.workload.get() };
    let Some(workload) = workload.as_deref_mut() else {
        unreachable!("a life begins with a workload")
    };
    let database = life.database.clone();
    let code = match phase {
        Phase::Setup => workload.setup(database),
        Phase::Start if *deaths > 0 => workload.recover(database),
        Phase::Start => workload.start(database),
        _ => workload.check(database),
    };
    let down_time = life.down_time;
    let end = PhaseEnd::new(life, scope.clone());
    scope.enter(|| fdb_spawn(PhaseTask::new(code, down_time, end)));
}

/// The client died in `life`, whose scope is dead: what it had in memory goes, and a fresh instance
/// goes on. Returns the life if there is none to go on with, which was reported.
pub(crate) fn live_again(life: Life, scope: &Rc<Scope>) -> Result<(), Life> {
    let client = &life.client;
    // SAFETY: the host frees the instance after the phase has ended.
    let instance = unsafe { life.instance.as_ref() };
    // SAFETY: no phase runs, so nothing else uses the workload.
    let slot = unsafe { &mut *instance.workload.get() };
    let dead = slot.take();
    // What a destructor spawns in a dead scope is never polled.
    if let Err(payload) = scope.enter(|| catch_unwind(AssertUnwindSafe(|| drop(dead)))) {
        client.report_failure(Phase::Free, &Failure::panic(payload));
    }
    scope.stop_all();
    if let Some(context) = client.context() {
        context.begin_life();
    }
    let fresh = guard(client, Phase::Factory, || client.make()).flatten();
    *slot = match fresh {
        // SAFETY: made by `raw`, and the host has not seen it.
        Some(fresh) => unsafe { Box::from_raw(fresh.0.inner.cast::<Instance>()) }
            .workload
            .into_inner(),
        None => {
            client.interrupt(Phase::Factory);
            Some(Box::new(Nothing))
        }
    };
    if client.broken().is_some() {
        return Err(life);
    }
    begin_life(life);
    Ok(())
}

unsafe extern "C" fn get_metrics(inner: *mut OpaqueWorkload, out: FDBMetrics) {
    // SAFETY: the host passes what `raw` made.
    let Some(instance) = (unsafe { instance(inner) }) else {
        return complain!("the host called get_metrics of a null workload");
    };
    if !instance.is_at_rest(Phase::Metrics) {
        return;
    }
    // SAFETY: the host passes its list, which is open until this call returns.
    let metrics = match unsafe { HostMetrics::new(out) } {
        Ok(metrics) => metrics,
        Err(why) => {
            let complaint = format!("the host passed a broken list of metrics: {why}");
            return instance.host_error(Phase::Metrics, &complaint);
        }
    };
    // SAFETY: no phase runs, so nothing else uses the workload.
    let workload = unsafe { &*instance.workload.get() };
    guard(&instance.client, Phase::Metrics, || {
        if let Some(workload) = workload {
            workload.get_metrics(Metrics::new(metrics.clone()));
        }
    });
    metrics.close();
}

unsafe extern "C" fn get_check_timeout(inner: *mut OpaqueWorkload) -> c_double {
    // SAFETY: the host passes what `raw` made.
    let Some(instance) = (unsafe { instance(inner) }) else {
        complain!("the host called get_check_timeout of a null workload");
        return CHECK_TIMEOUT_SECONDS_DEFAULT;
    };
    ask_check_timeout(instance);
    instance.check_timeout_seconds.get()
}

/// Asks the workload for its limit, if it can be asked now.
fn ask_check_timeout(instance: &Instance) {
    if instance.client.is_running() || instance.client.broken().is_some() {
        return;
    }
    // SAFETY: no phase runs, so nothing else uses the workload.
    let Some(workload) = (unsafe { &*instance.workload.get() }) else {
        return;
    };
    let answer = guard(&instance.client, Phase::CheckTimeout, || {
        workload.get_check_timeout()
    });
    match answer {
        Some(seconds) if seconds > 0.0 => instance.check_timeout_seconds.set(seconds),
        Some(seconds) => instance.client.error(
            "WorkloadCheckTimeoutInvalid",
            Phase::CheckTimeout,
            details!["Seconds" => seconds, "Expected" => "a positive number of seconds"],
        ),
        None => {}
    }
}

unsafe extern "C" fn free(inner: *mut OpaqueWorkload) {
    if inner.is_null() {
        return complain!("the host freed a null workload");
    }
    // SAFETY: the host passes what `raw` made, once, and never uses it again.
    let instance = unsafe { Box::from_raw(inner.cast::<Instance>()) };
    let client = instance.client.clone();
    let is_at_rest = client.stop_phase();
    let kept_database = matches!(client.broken(), Some(Broken::KeptDatabase(_)));
    if is_at_rest && !kept_database {
        guard(&client, Phase::Free, || {
            drop(instance.workload.into_inner());
        });
    } else {
        // Its code is still on the stack, or it holds what the host has freed: leaking is sound.
        std::mem::forget(instance);
    }
    client.tell_counts();
    if let Some(context) = client.context() {
        context.kill();
    }
}

impl Instance {
    /// Whether workload code other than a phase may run now; complains if not.
    fn is_at_rest(&self, phase: Phase) -> bool {
        if self.client.is_running() {
            self.host_error(phase, "the host called while a phase was running");
            return false;
        }
        self.client.broken().is_none()
    }

    fn host_error(&self, phase: Phase, complaint: &str) {
        self.client
            .error("WorkloadHostError", phase, details!["Message" => complaint]);
    }
}

/// # Safety
///
/// `inner` is null or comes from [`raw`], and is not freed while the returned
/// reference is used.
unsafe fn instance<'a>(inner: *mut OpaqueWorkload) -> Option<&'a Instance> {
    // SAFETY: by the caller's promise.
    unsafe { inner.cast::<Instance>().as_ref() }
}

/// A workload of any type. Each phase is a future on the heap.
trait AnyWorkload {
    fn setup(&'static mut self, db: SimDatabase) -> PhaseCode;
    fn start(&'static mut self, db: SimDatabase) -> PhaseCode;
    fn recover(&'static mut self, db: SimDatabase) -> PhaseCode;
    fn check(&'static mut self, db: SimDatabase) -> PhaseCode;
    fn get_metrics(&self, out: Metrics);
    fn get_check_timeout(&self) -> f64;
}

/// The code of a phase.
pub(crate) type PhaseCode = Pin<Box<dyn Future<Output = PhaseResult>>>;

impl<W: Workload> AnyWorkload for W {
    fn setup(&'static mut self, db: SimDatabase) -> PhaseCode {
        // Inside a block, because a workload may do something before its first await.
        Box::pin(async move { Workload::setup(self, db).await })
    }

    fn start(&'static mut self, db: SimDatabase) -> PhaseCode {
        Box::pin(async move { Workload::start(self, db).await })
    }

    fn recover(&'static mut self, db: SimDatabase) -> PhaseCode {
        Box::pin(async move { Workload::recover(self, db).await })
    }

    fn check(&'static mut self, db: SimDatabase) -> PhaseCode {
        Box::pin(async move { Workload::check(self, db).await })
    }

    fn get_metrics(&self, out: Metrics) {
        Workload::get_metrics(self, out);
    }

    fn get_check_timeout(&self) -> f64 {
        Workload::get_check_timeout(self)
    }
}

/// The workload of a factory that failed. Its phases never run.
struct Nothing;

impl Workload for Nothing {
    async fn start(&mut self, _db: SimDatabase) -> PhaseResult {
        Ok(())
    }
}
