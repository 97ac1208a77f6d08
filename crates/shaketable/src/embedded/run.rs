//! Running a simulation: with a workload, with one of a factory's workloads, or with a closure.
//!
//! Each form comes down to the address of a C function, because that is how a host knows a factory,
//! and then explores the seeds (`explore.rs`). `run` and `test` panic at the first seed that fails,
//! at the line of the test that called them; `try_run` and `try_test` return it.

use super::{Failed, Passed, Simulation, body};
use crate::context::WorkloadContext;
use crate::instance::WrappedWorkload;
use crate::register;
use crate::workload::{PhaseOutcome, RustWorkloadFactory, SimDatabase, SingleRustWorkload};
use shaketable_abi::v1::{FDBWorkload, FDBWorkloadContext};
use std::ffi::c_char;

impl Simulation {
    /// Runs a workload with every seed, and panics at the first that fails.
    ///
    /// ```
    /// # use shaketable::{
    /// #     PhaseResult, SimDatabase, Simulation, SingleRustWorkload, Workload, WorkloadContext,
    /// # };
    /// struct Greeter;
    ///
    /// impl SingleRustWorkload for Greeter {
    ///     fn new(_name: String, _context: WorkloadContext) -> Self {
    ///         Greeter
    ///     }
    /// }
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
    /// }
    ///
    /// let passed = Simulation::new().seeds(0..3).clients(5).run::<Greeter>();
    /// assert_eq!(passed.seeds(), 3);
    /// ```
    #[track_caller]
    pub fn run<W>(self) -> Passed
    where
        W: SingleRustWorkload,
    {
        expect_passed(self.try_run::<W>())
    }

    /// Runs a workload with every seed, up to the first that fails.
    ///
    /// ```
    /// # use shaketable::{
    /// #     PhaseResult, SimDatabase, Simulation, SingleRustWorkload, Workload, WorkloadContext,
    /// # };
    /// # struct Transfers;
    /// # impl Workload for Transfers {
    /// #     async fn start(&mut self, _db: SimDatabase) -> PhaseResult { Ok(()) }
    /// # }
    /// # impl SingleRustWorkload for Transfers {
    /// #     fn new(_: String, context: WorkloadContext) -> Self {
    /// #         let _ = context.get_option::<u32>("accounts");
    /// #         Transfers
    /// #     }
    /// # }
    /// let passed = Simulation::new().seeds(0..3).try_run::<Transfers>().expect("no seed fails");
    /// assert_eq!(passed.seeds(), 3);
    /// ```
    pub fn try_run<W>(self) -> Result<Passed, Failed>
    where
        W: SingleRustWorkload,
    {
        self.explore(&short_name::<W>(), single::<W>, || ())
    }

    /// Runs a workload of a factory with every seed, and panics at the first that fails.
    ///
    /// ```
    /// # use shaketable::{
    /// #     PhaseResult, RustWorkloadFactory, SimDatabase, Simulation, Workload, WorkloadContext,
    /// #     WrappedWorkload,
    /// # };
    /// # struct Transfers;
    /// # impl Workload for Transfers {
    /// #     async fn start(&mut self, _db: SimDatabase) -> PhaseResult { Ok(()) }
    /// # }
    /// struct Bank;
    ///
    /// impl RustWorkloadFactory for Bank {
    ///     fn create(name: String, _context: WorkloadContext) -> WrappedWorkload {
    ///         match name.as_str() {
    ///             "Transfers" => WrappedWorkload::new(Transfers),
    ///             _ => WrappedWorkload::unknown(&name),
    ///         }
    ///     }
    /// }
    ///
    /// Simulation::new().seeds(1).run_named::<Bank>("Transfers");
    /// ```
    #[track_caller]
    pub fn run_named<F>(self, workload: &str) -> Passed
    where
        F: RustWorkloadFactory,
    {
        expect_passed(self.explore(workload, by_name::<F>, || ()))
    }

    /// Runs a closure as the `start` of a workload, with every seed, and panics at the first that
    /// fails.
    ///
    /// One client runs it, unless [`clients`](Self::clients) asks for more.
    /// [`#[shaketable::sim_test]`](macro@crate::sim_test) is the short form.
    ///
    /// ```no_run
    /// # use shaketable::{Simulation, PhaseResult};
    /// # /* so that it is compiled:
    /// #[test]
    /// # */
    /// fn what_was_written_is_read() {
    ///     Simulation::new().test(async |db, _context| -> PhaseResult {
    ///         db.run(|trx, _| async move {
    ///             trx.set(b"hello", b"world");
    ///             Ok(())
    ///         })
    ///         .await?;
    ///         let value = db
    ///             .run(|trx, _| async move { Ok(trx.get(b"hello", false).await?) })
    ///             .await?;
    ///         assert_eq!(value.as_deref(), Some(&b"world"[..]));
    ///         Ok(())
    ///     });
    /// }
    /// ```
    #[track_caller]
    pub fn test<F, R>(self, body: F) -> Passed
    where
        F: AsyncFn(SimDatabase, WorkloadContext) -> R + Send + Sync + 'static,
        R: PhaseOutcome,
    {
        expect_passed(self.try_test(body))
    }

    /// Runs a closure as the `start` of a workload, with every seed, up to the first that fails.
    ///
    /// ```
    /// # use shaketable::Simulation;
    /// let failed = Simulation::new()
    ///     .without_regressions()
    ///     .try_test(async |_db, _context| assert!(1 > 2, "out of eggs"))
    ///     .expect_err("it always panics");
    /// assert!(failed.reason().contains("out of eggs"));
    /// ```
    pub fn try_test<F, R>(mut self, body: F) -> Result<Passed, Failed>
    where
        F: AsyncFn(SimDatabase, WorkloadContext) -> R + Send + Sync + 'static,
        R: PhaseOutcome,
    {
        self.clients.get_or_insert(1);
        let body = std::sync::Arc::new(body);
        self.explore("test", body::factory::<F, R>, move || body::lend(&body))
    }
}

/// Panics at the place of the test, not of this file.
#[track_caller]
fn expect_passed(result: Result<Passed, Failed>) -> Passed {
    match result {
        Ok(passed) => passed,
        Err(failed) => panic!("{failed}"),
    }
}

unsafe extern "C" fn single<W>(name: *const c_char, context: FDBWorkloadContext) -> FDBWorkload
where
    W: SingleRustWorkload,
{
    // SAFETY: a host calls this, with what a host passes.
    unsafe {
        enter(
            name,
            context,
            W::FDB_API_VERSION,
            register::make_single::<W>,
        )
    }
}

unsafe extern "C" fn by_name<F>(name: *const c_char, context: FDBWorkloadContext) -> FDBWorkload
where
    F: RustWorkloadFactory,
{
    // SAFETY: a host calls this, with what a host passes.
    unsafe { enter(name, context, F::FDB_API_VERSION, F::create) }
}

/// # Safety
///
/// Called for a host, with what a host passes.
pub(super) unsafe fn enter(
    name: *const c_char,
    context: FDBWorkloadContext,
    api_version: u32,
    make: fn(String, WorkloadContext) -> WrappedWorkload,
) -> FDBWorkload {
    // SAFETY: by the caller's promise.
    unsafe { register::create(name, context, api_version, make) }.into_raw()
}

/// The name of a type, without where it is and what it is made of.
fn short_name<T>() -> String {
    let whole = std::any::type_name::<T>();
    let plain = whole.split('<').next().unwrap_or(whole);
    plain.rsplit("::").next().unwrap_or(plain).to_owned()
}
