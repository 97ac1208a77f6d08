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
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;

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
pub(crate) fn wrap<W>(workload: W) -> WrappedWorkload
where
    W: Workload,
{
    raw(Instance {
        client: current_client(),
        workload: UnsafeCell::new(ManuallyDrop::new(workload)),
        check_timeout_seconds: Cell::new(CHECK_TIMEOUT_SECONDS_DEFAULT),
    })
}

/// A workload whose every phase fails; what went wrong was reported before.
pub(crate) fn failed(client: Rc<Client>) -> WrappedWorkload {
    client.interrupt(Phase::Factory);
    raw(Instance {
        client,
        workload: UnsafeCell::new(ManuallyDrop::new(Nothing)),
        check_timeout_seconds: Cell::new(CHECK_TIMEOUT_SECONDS_DEFAULT),
    })
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

struct Instance<W> {
    client: Rc<Client>,
    /// Used by the running phase, or else by the call from the host that is being served.
    workload: UnsafeCell<ManuallyDrop<W>>,
    /// What the workload returned before its check began.
    check_timeout_seconds: Cell<f64>,
}

fn raw<W>(instance: Instance<W>) -> WrappedWorkload
where
    W: Workload,
{
    WrappedWorkload(FDBWorkload {
        api_version: FDB_WORKLOAD_API_VERSION,
        inner: Box::into_raw(Box::new(instance)).cast::<OpaqueWorkload>(),
        vt: const {
            &FDBWorkloadVt {
                free: Some(free::<W>),
                setup: Some(setup::<W>),
                start: Some(start::<W>),
                check: Some(check::<W>),
                get_metrics: Some(get_metrics::<W>),
                get_check_timeout: Some(get_check_timeout::<W>),
            }
        },
    })
}

unsafe extern "C" fn setup<W: Workload>(
    inner: *mut OpaqueWorkload,
    database: *mut FDBDatabase,
    promise: FDBPromise,
) {
    // SAFETY: the host passes what `raw` made, and a promise of its own.
    unsafe { run_phase::<W>(inner, Phase::Setup, database, promise) }
}

unsafe extern "C" fn start<W: Workload>(
    inner: *mut OpaqueWorkload,
    database: *mut FDBDatabase,
    promise: FDBPromise,
) {
    // SAFETY: the host passes what `raw` made, and a promise of its own.
    unsafe { run_phase::<W>(inner, Phase::Start, database, promise) }
}

unsafe extern "C" fn check<W: Workload>(
    inner: *mut OpaqueWorkload,
    database: *mut FDBDatabase,
    promise: FDBPromise,
) {
    // SAFETY: the host passes what `raw` made.
    if let Some(instance) = unsafe { instance::<W>(inner) } {
        // While the check runs the workload cannot be asked, and that is when the host asks.
        ask_check_timeout::<W>(instance);
    }
    // SAFETY: the host passes what `raw` made, and a promise of its own.
    unsafe { run_phase::<W>(inner, Phase::Check, database, promise) }
}

/// # Safety
///
/// `inner` is null or comes from [`raw`] for the same `W` and is not freed; `promise` is the
/// host's.
unsafe fn run_phase<W: Workload>(
    inner: *mut OpaqueWorkload,
    phase: Phase,
    database: *mut FDBDatabase,
    promise: FDBPromise,
) {
    // SAFETY: by the caller's promise.
    let instance = unsafe { instance::<W>(inner) };
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
    let scope = PhaseObserver::scope(client, phase);
    #[cfg(feature = "tokio")]
    if let Some(context) = client.context()
        && let Err(why) = crate::executor::runtime::begin(&scope, context)
    {
        instance.host_error(phase, &why);
        std::mem::forget(database);
        return promise.send(false);
    }
    client.begin(&scope);
    #[cfg(all(feature = "record", not(feature = "embedded")))]
    if let Some(context) = client.context() {
        crate::record::phase_begins(context, phase);
    }
    let end = PhaseEnd::new(
        client.clone(),
        scope.clone(),
        phase,
        database.clone(),
        promise,
    );
    // SAFETY: no phase runs, so nothing else uses the workload; it is freed after its phase ended.
    let workload: &'static mut W = unsafe { &mut *instance.workload.get() };
    let body = async move {
        match phase {
            Phase::Setup => workload.setup(database).await,
            Phase::Start => workload.start(database).await,
            _ => workload.check(database).await,
        }
    };
    scope.enter(|| fdb_spawn(PhaseTask::new(body, end)));
}

unsafe extern "C" fn get_metrics<W: Workload>(inner: *mut OpaqueWorkload, out: FDBMetrics) {
    // SAFETY: the host passes what `raw` made.
    let Some(instance) = (unsafe { instance::<W>(inner) }) else {
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
        workload.get_metrics(Metrics::new(metrics.clone()));
    });
    metrics.close();
}

unsafe extern "C" fn get_check_timeout<W: Workload>(inner: *mut OpaqueWorkload) -> c_double {
    // SAFETY: the host passes what `raw` made.
    let Some(instance) = (unsafe { instance::<W>(inner) }) else {
        complain!("the host called get_check_timeout of a null workload");
        return CHECK_TIMEOUT_SECONDS_DEFAULT;
    };
    ask_check_timeout::<W>(instance);
    instance.check_timeout_seconds.get()
}

/// Asks the workload for its limit, if it can be asked now.
fn ask_check_timeout<W: Workload>(instance: &Instance<W>) {
    if instance.client.is_running() || instance.client.broken().is_some() {
        return;
    }
    // SAFETY: no phase runs, so nothing else uses the workload.
    let workload = unsafe { &*instance.workload.get() };
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

unsafe extern "C" fn free<W>(inner: *mut OpaqueWorkload) {
    if inner.is_null() {
        return complain!("the host freed a null workload");
    }
    // SAFETY: the host passes what `raw` made, once, and never uses it again.
    let instance = unsafe { Box::from_raw(inner.cast::<Instance<W>>()) };
    let client = instance.client.clone();
    let is_at_rest = client.stop_phase();
    let kept_database = matches!(client.broken(), Some(Broken::KeptDatabase(_)));
    if is_at_rest && !kept_database {
        guard(&client, Phase::Free, || {
            drop(ManuallyDrop::into_inner(instance.workload.into_inner()));
        });
    } else {
        // Its code is still on the stack, or it holds what the host has freed: leaking is sound.
        std::mem::forget(instance);
    }
    client.tell_sites();
    if let Some(context) = client.context() {
        context.kill();
    }
}

impl<W> Instance<W> {
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
/// `inner` is null or comes from [`raw`] for the same `W`, and is not freed while the returned
/// reference is used.
unsafe fn instance<'a, W>(inner: *mut OpaqueWorkload) -> Option<&'a Instance<W>> {
    // SAFETY: by the caller's promise.
    unsafe { inner.cast::<Instance<W>>().as_ref() }
}

/// The workload of a factory that failed. Its phases never run.
struct Nothing;

impl Workload for Nothing {
    async fn start(&mut self, _db: SimDatabase) -> PhaseResult {
        Ok(())
    }
}
