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
///
/// ```
/// use shaketable::SimDatabase;
/// use shaketable::foundationdb::FdbBindingError;
///
/// async fn greet(db: &SimDatabase) -> Result<(), FdbBindingError> {
///     db.run(|trx, _maybe_committed| async move {
///         trx.set(b"hello", b"world");
///         Ok(())
///     })
///     .await
/// }
/// ```
pub type SimDatabase = Arc<Database>;

/// Any error; what `?` turns an error into in a phase that returns [`PhaseResult`].
///
/// ```
/// use shaketable::PhaseError;
///
/// let error: PhaseError = "out of eggs".into();
/// assert_eq!(error.to_string(), "out of eggs");
/// ```
pub type PhaseError = Box<dyn Error + Send + Sync>;

/// What a phase returns when it can fail.
///
/// ```
/// use shaketable::PhaseResult;
///
/// fn look(found: u64, expected: u64) -> PhaseResult {
///     match found == expected {
///         true => Ok(()),
///         false => Err(format!("expected {expected}, found {found}").into()),
///     }
/// }
/// assert!(look(1, 2).is_err());
/// ```
pub type PhaseResult<E = PhaseError> = Result<(), E>;

/// What the closure of a test may return: nothing, or a `Result`.
///
/// ```
/// use shaketable::PhaseOutcome;
///
/// assert!(().into_result().is_ok());
/// assert!(Err::<(), _>("out of eggs").into_result().is_err());
/// ```
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

/// A workload: three phases, of which only `start` is required, a few metrics, a time limit.
///
/// Every client of a test has its own workload. All clients finish a phase before any starts the
/// next one. Phases can use `?`; an error fails the run, with its chain of causes in the trace, and
/// so does a panic.
///
/// ```
/// use shaketable::{PhaseResult, SimDatabase, Workload};
///
/// struct Greeter;
///
/// impl Workload for Greeter {
///     async fn start(&mut self, db: SimDatabase) -> PhaseResult {
///         db.run(|trx, _| async move {
///             trx.set(b"hello", b"world");
///             Ok(())
///         })
///         .await?;
///         Ok(())
///     }
///
///     async fn check(&mut self, db: SimDatabase) -> PhaseResult {
///         let read = db.run(|trx, _| async move { Ok(trx.get(b"hello", false).await?) });
///         match read.await? {
///             Some(value) if value[..] == *b"world" => Ok(()),
///             other => Err(format!("expected `world`, found {:?}", other.as_deref()).into()),
///         }
///     }
/// }
/// ```
///
/// [`SingleRustWorkload`] constructs it when it is registered or run by its type. Each workload is
/// a [`RustWorkload`], too: that is the trait of the crate `foundationdb-simulation`, whose phases
/// return nothing.
#[allow(async_fn_in_trait)]
pub trait Workload: Sized + 'static {
    /// First phase: fills the database.
    async fn setup(&mut self, db: SimDatabase) -> PhaseResult {
        drop(db);
        Ok(())
    }

    /// Second phase: the test itself, while the cluster fails around it.
    async fn start(&mut self, db: SimDatabase) -> PhaseResult;

    /// What takes the place of `start` in a fresh instance, when its client died in `start` and
    /// lives again: only where the test file says `shaketableCrashes`, or the test
    /// `Faults::crashes`.
    ///
    /// Nothing of the instance that died is left. What it had committed is in the database, and a
    /// commit that was in flight may still land while this runs. The default is `start` itself,
    /// from its beginning.
    ///
    /// ```
    /// # use shaketable::{PhaseResult, SimDatabase, Workload};
    /// struct Worker;
    ///
    /// impl Workload for Worker {
    ///     async fn start(&mut self, _db: SimDatabase) -> PhaseResult {
    ///         // … claim a job, do it, mark it as done …
    ///         Ok(())
    ///     }
    ///
    ///     async fn recover(&mut self, db: SimDatabase) -> PhaseResult {
    ///         // … finish what an earlier life has claimed …
    ///         self.start(db).await
    ///     }
    /// }
    /// ```
    async fn recover(&mut self, db: SimDatabase) -> PhaseResult {
        self.start(db).await
    }

    /// Third phase: whether the database holds what it should.
    async fn check(&mut self, db: SimDatabase) -> PhaseResult {
        drop(db);
        Ok(())
    }

    /// Reports numbers, after the check.
    fn get_metrics(&self, out: Metrics) {
        drop(out);
    }

    /// How many simulated seconds the check may take: 3000 by default.
    fn get_check_timeout(&self) -> f64 {
        instance::CHECK_TIMEOUT_SECONDS_DEFAULT
    }
}

/// A workload as the crate `foundationdb-simulation` defines it: phases return nothing, and fail by
/// a panic or an [error event](crate::Severity::Error).
///
/// What was written for that crate compiles unchanged. New workloads are easier to write as a
/// [`Workload`], which is one of these, too.
///
/// ```
/// use shaketable::{Metrics, RustWorkload, SimDatabase};
///
/// struct Greeter;
///
/// impl RustWorkload for Greeter {
///     async fn setup(&mut self, _db: SimDatabase) {}
///     async fn start(&mut self, db: SimDatabase) {
///         let trx = db.create_trx().expect("a transaction");
///         trx.set(b"hello", b"world");
///         trx.commit().await.expect("no faults in this test");
///     }
///     async fn check(&mut self, _db: SimDatabase) {}
///     fn get_metrics(&self, _out: Metrics) {}
///     fn get_check_timeout(&self) -> f64 {
///         600.0
///     }
/// }
/// ```
#[allow(async_fn_in_trait)]
pub trait RustWorkload: Sized + 'static {
    /// First phase: fills the database.
    async fn setup(&mut self, db: SimDatabase);

    /// Second phase: the test itself, while the cluster fails around it.
    async fn start(&mut self, db: SimDatabase);

    /// What takes the place of `start` in a fresh instance, when its client died in `start` and
    /// lives again. The default is `start` itself, from its beginning.
    async fn recover(&mut self, db: SimDatabase) {
        self.start(db).await;
    }

    /// Third phase: whether the database holds what it should.
    async fn check(&mut self, db: SimDatabase);

    /// Reports numbers, after the check.
    fn get_metrics(&self, out: Metrics);

    /// How many simulated seconds the check may take.
    fn get_check_timeout(&self) -> f64;

    /// Turns the workload into what a [factory](RustWorkloadFactory) returns.
    fn wrap(self) -> WrappedWorkload {
        instance::wrap(NeverFails(self))
    }
}

impl<W: Workload> RustWorkload for W {
    async fn setup(&mut self, db: SimDatabase) {
        expect_success(Workload::setup(self, db).await);
    }

    async fn start(&mut self, db: SimDatabase) {
        expect_success(Workload::start(self, db).await);
    }

    async fn recover(&mut self, db: SimDatabase) {
        expect_success(Workload::recover(self, db).await);
    }

    async fn check(&mut self, db: SimDatabase) {
        expect_success(Workload::check(self, db).await);
    }

    fn get_metrics(&self, out: Metrics) {
        Workload::get_metrics(self, out);
    }

    fn get_check_timeout(&self) -> f64 {
        Workload::get_check_timeout(self)
    }

    fn wrap(self) -> WrappedWorkload {
        instance::wrap(self)
    }
}

/// A phase that cannot return an error fails by a panic.
fn expect_success(result: PhaseResult) {
    if let Err(error) = result {
        panic!("the phase failed: {error}");
    }
}

/// A workload of the other crate, whose phases return nothing.
struct NeverFails<W>(W);

impl<W: RustWorkload> Workload for NeverFails<W> {
    async fn setup(&mut self, db: SimDatabase) -> PhaseResult {
        self.0.setup(db).await;
        Ok(())
    }

    async fn start(&mut self, db: SimDatabase) -> PhaseResult {
        self.0.start(db).await;
        Ok(())
    }

    async fn recover(&mut self, db: SimDatabase) -> PhaseResult {
        self.0.recover(db).await;
        Ok(())
    }

    async fn check(&mut self, db: SimDatabase) -> PhaseResult {
        self.0.check(db).await;
        Ok(())
    }

    fn get_metrics(&self, out: Metrics) {
        self.0.get_metrics(out);
    }

    fn get_check_timeout(&self) -> f64 {
        self.0.get_check_timeout()
    }
}

/// Makes workloads by name, for a library that holds several.
///
/// Registered with [`register_factory!`](crate::register_factory).
///
/// ```
/// # use shaketable::{PhaseResult, SimDatabase, Workload};
/// use shaketable::{RustWorkloadFactory, WorkloadContext, WrappedWorkload};
/// # struct Deposits(WorkloadContext);
/// # impl Workload for Deposits {
/// #     async fn start(&mut self, _db: SimDatabase) -> PhaseResult { Ok(()) }
/// # }
/// # struct Transfers(WorkloadContext);
/// # impl Workload for Transfers {
/// #     async fn start(&mut self, _db: SimDatabase) -> PhaseResult { Ok(()) }
/// # }
///
/// struct Bank;
///
/// impl RustWorkloadFactory for Bank {
///     fn create(name: String, context: WorkloadContext) -> WrappedWorkload {
///         match name.as_str() {
///             "Deposits" => WrappedWorkload::new(Deposits(context)),
///             "Transfers" => WrappedWorkload::new(Transfers(context)),
///             _ => WrappedWorkload::unknown(&name),
///         }
///     }
/// }
/// ```
pub trait RustWorkloadFactory {
    /// The version of FoundationDB's API to ask for.
    const FDB_API_VERSION: u32 = foundationdb_sys::FDB_API_VERSION;

    /// Makes the workload of one client. `name` is the test file's `workloadName`, or empty.
    ///
    /// For an unknown name return [`WrappedWorkload::unknown`]; a panic is reported, too, and also
    /// fails the run.
    fn create(name: String, context: WorkloadContext) -> WrappedWorkload;
}

/// The constructor of a workload that is [registered](crate::register_workload) or run by its type.
///
/// ```
/// use shaketable::{PhaseResult, SimDatabase, SingleRustWorkload, Workload, WorkloadContext};
///
/// struct Greeter {
///     name: String,
/// }
///
/// impl SingleRustWorkload for Greeter {
///     fn new(_name: String, context: WorkloadContext) -> Self {
///         Greeter { name: format!("client {}", context.client_id()) }
///     }
/// }
/// # impl Workload for Greeter {
/// #     async fn start(&mut self, _db: SimDatabase) -> PhaseResult { Ok(()) }
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "the workload `{Self}` has no constructor",
    label = "implement `SingleRustWorkload` for it",
    note = "that is, beside `impl Workload for {Self}`: `impl SingleRustWorkload for {Self} {{ fn new(name: String, context: WorkloadContext) -> Self {{ … }} }}`"
)]
pub trait SingleRustWorkload: RustWorkload {
    /// The version of FoundationDB's API to ask for.
    const FDB_API_VERSION: u32 = foundationdb_sys::FDB_API_VERSION;

    /// Makes the workload of one client. `name` is the test file's `workloadName`, or empty.
    fn new(name: String, context: WorkloadContext) -> Self;
}
