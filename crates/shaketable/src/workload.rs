//! What a workload author implements.

use crate::context::WorkloadContext;
use crate::instance::{self, WrappedWorkload};
use crate::metrics::Metrics;
use foundationdb::Database;
use std::error::Error;
use std::sync::Arc;

/// The database of one phase.
///
/// It dies with the phase: every copy must be dropped when the phase ends. One that is kept is
/// reported with the phase's name, and the client takes no further part in the test.
pub type SimDatabase = Arc<Database>;

/// Any error; what `?` turns an error into in a phase that returns [`PhaseResult`].
pub type PhaseError = Box<dyn Error + Send + Sync>;

/// What a phase returns when it can fail.
pub type PhaseResult<E = PhaseError> = Result<(), E>;

/// What a phase may return: nothing, or a `Result`.
pub trait PhaseOutcome: 'static {
    /// The verdict of the phase.
    fn into_result(self) -> PhaseResult;
}

impl PhaseOutcome for () {
    fn into_result(self) -> PhaseResult {
        Ok(())
    }
}

impl<E> PhaseOutcome for Result<(), E>
where
    E: Into<PhaseError> + 'static,
{
    fn into_result(self) -> PhaseResult {
        self.map_err(Into::into)
    }
}

/// A workload: three phases, a few numbers, a time limit.
///
/// Every client of a test has its own workload. All clients finish a phase before any starts the
/// next one.
///
/// The parameter is what the phases return. Left out, they return nothing, and fail by a panic or an
/// error event. With [`PhaseResult`] they can use `?`; an error fails the run, with its chain of
/// causes in the trace:
///
/// ```
/// use shaketable::{Metrics, PhaseResult, RustWorkload, SimDatabase};
///
/// struct Greeter;
///
/// impl RustWorkload<PhaseResult> for Greeter {
///     async fn setup(&mut self, db: SimDatabase) -> PhaseResult {
///         let trx = db.create_trx()?;
///         trx.set(b"hello", b"world");
///         trx.commit().await?;
///         Ok(())
///     }
///     async fn start(&mut self, _db: SimDatabase) -> PhaseResult {
///         Ok(())
///     }
///     async fn check(&mut self, db: SimDatabase) -> PhaseResult {
///         match db.create_trx()?.get(b"hello", false).await? {
///             Some(value) if value[..] == *b"world" => Ok(()),
///             other => Err(format!("expected `world`, found {:?}", other.as_deref()).into()),
///         }
///     }
///     fn get_metrics(&self, _out: Metrics) {}
///     fn get_check_timeout(&self) -> f64 {
///         600.0
///     }
/// }
/// ```
#[allow(async_fn_in_trait)]
pub trait RustWorkload<R = ()>: Sized + 'static
where
    R: PhaseOutcome,
{
    /// First phase: fills the database.
    async fn setup(&mut self, db: SimDatabase) -> R;

    /// Second phase: the test itself, while the cluster fails around it.
    async fn start(&mut self, db: SimDatabase) -> R;

    /// Third phase: whether the database holds what it should.
    async fn check(&mut self, db: SimDatabase) -> R;

    /// Reports numbers, after the check.
    fn get_metrics(&self, out: Metrics);

    /// How many simulated seconds the check may take.
    fn get_check_timeout(&self) -> f64;

    /// Makes the workload what a factory returns.
    fn wrap(self) -> WrappedWorkload {
        instance::wrap(self)
    }
}

/// Makes workloads by name, for a library that holds several.
///
/// Registered with [`register_factory!`](crate::register_factory).
pub trait RustWorkloadFactory {
    /// The version of FoundationDB's API to ask for.
    const FDB_API_VERSION: u32 = foundationdb_sys::FDB_API_VERSION;

    /// Makes the workload of one client. `name` is the test file's `workloadName`, or empty.
    ///
    /// For a name that is not known return [`WrappedWorkload::unknown`]; a panic is reported, too,
    /// and fails the run just as well.
    fn create(name: String, context: WorkloadContext) -> WrappedWorkload;
}

/// A workload that is the only one of its library.
///
/// Registered with [`register_workload!`](crate::register_workload).
pub trait SingleRustWorkload<R = ()>: RustWorkload<R>
where
    R: PhaseOutcome,
{
    /// The version of FoundationDB's API to ask for.
    const FDB_API_VERSION: u32 = foundationdb_sys::FDB_API_VERSION;

    /// Makes the workload of one client. `name` is the test file's `workloadName`, or empty.
    fn new(name: String, context: WorkloadContext) -> Self;
}
