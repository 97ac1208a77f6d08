//! Write FoundationDB simulation workloads in async Rust.
//!
//! A *workload* is a shared library that a simulator loads: FoundationDB's own
//! `fdbserver -r simulation`, or Shaketable's embedded one. It runs on every client of a test,
//! fills a database, works on it while the cluster underneath fails in every way a cluster fails,
//! and then checks what is left.
//!
//! ```standalone_crate
//! use shaketable::{
//!     Metric, Metrics, PhaseResult, SimDatabase, SingleRustWorkload, Workload, WorkloadContext,
//!     register_workload,
//! };
//!
//! struct Hello {
//!     context: WorkloadContext,
//!     greetings: u32,
//! }
//!
//! impl SingleRustWorkload for Hello {
//!     fn new(_name: String, context: WorkloadContext) -> Self {
//!         let greetings = context.get_option("greetings").unwrap_or(10);
//!         Hello { context, greetings }
//!     }
//! }
//!
//! impl Workload for Hello {
//!     async fn start(&mut self, db: SimDatabase) -> PhaseResult {
//!         for number in 0..self.greetings {
//!             let key = &format!("hello/{}/{number}", self.context.client_id()).into_bytes();
//!             db.run(|trx, _maybe_committed| async move {
//!                 trx.set(key, b"world");
//!                 Ok(())
//!             })
//!             .await?;
//!         }
//!         Ok(())
//!     }
//!
//!     fn get_metrics(&self, mut out: Metrics) {
//!         out.push(Metric::val("greetings", self.greetings));
//!     }
//! }
//!
//! register_workload!(Hello);
//! # fn main() {}
//! ```
//!
//! # What to know
//!
//! * Phases return a [`PhaseResult`] and can use `?`: see [`Workload`].
//! * [`spawn`], [`sleep`], [`timeout`] and [`yield_now`] do what they do elsewhere, in simulated
//!   time; `select!` and `join!` of the `futures` crate work unchanged. Threads do not work.
//! * A panic is an error event, and the end of the phase.
//! * The crate is a drop-in for `foundationdb-simulation` 0.3:
//!   `foundationdb-simulation = { package = "shaketable", … }` compiles what compiled with that
//!   one, whose trait is [`RustWorkload`].
//!
//! # Features
//!
//! Exactly one of `fdb-7_1`, `fdb-7_3` and `fdb-7_4` names the FoundationDB to work with. `cpp-abi`
//! adds the C++ ABI to a `fdb-7_4` library; `fdb-7_1` and `fdb-7_3` have it always, because their
//! servers speak nothing else.
//!
//! `assertions`, on by default, compiles [`always!`], [`sometimes!`], [`reachable!`],
//! [`never_reached!`] and [`buggify!`], which cost nothing without it.
//!
//! `hermetic` has the library answer for time and randomness itself where the host does not: inside
//! fdbserver `Instant`, `SystemTime`, `HashMap` and whatever else asks the operating system get
//! their values from the simulation, and threads and sockets are noted in the trace. `tokio`
//! includes it. It includes `measure`, which counts what the database answers and how long it
//! takes, for `shaketable compare`.
//!
//! `tokio` runs code on tokio in simulated time: `tokio::spawn`, timers, channels, `select!`, and
//! what is built on them, unchanged. Each phase has a runtime of its own.
//!
//! `tracing` sends events and spans of the crate of that name to the simulation's trace, as
//! `WorkloadLog`; `SHAKETABLE_LOG` chooses the level.
//!
//! `record` writes what the clients do and are told into the simulation's trace, so that
//! `shaketable explain --trace` can explain a run under fdbserver. A test program records without
//! it.
//!
//! `embedded` brings the embedded simulation into a test program: `Simulation` and
//! `#[shaketable::sim_test]`. It belongs in `[dev-dependencies]`; a workload library that a
//! simulator loads must be built without it.

#[cfg(not(any(feature = "fdb-7_1", feature = "fdb-7_3", feature = "fdb-7_4")))]
compile_error!(
    "shaketable needs to know the FoundationDB it works with: enable exactly one of the features \
     `fdb-7_1`, `fdb-7_3`, `fdb-7_4`, for example shaketable = { ..., features = [\"fdb-7_4\"] }"
);

#[cfg(any(
    all(feature = "fdb-7_1", feature = "fdb-7_3"),
    all(feature = "fdb-7_1", feature = "fdb-7_4"),
    all(feature = "fdb-7_3", feature = "fdb-7_4"),
))]
compile_error!(
    "shaketable works with one FoundationDB at a time: enable exactly one of the features `fdb-7_1`, \
     `fdb-7_3`, `fdb-7_4`"
);

mod assertions;
#[cfg(feature = "tracing")]
mod bridge;
mod buggify;
mod clock;
mod context;
mod crash;
mod draw;
#[cfg(feature = "embedded")]
mod embedded;
mod executor;
#[cfg(all(feature = "hermetic", not(feature = "embedded")))]
mod hermetic;
#[cfg(any(all(feature = "measure", not(feature = "embedded")), feature = "tokio"))]
mod hidden;
pub mod history;
mod host;
mod instance;
#[cfg(all(feature = "measure", not(feature = "embedded")))]
mod measure;
mod metrics;
mod phase;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod processor;
#[cfg(all(feature = "record", not(feature = "embedded")))]
mod record;
mod register;
mod rng;
#[cfg(feature = "assertions")]
mod sites;
#[cfg(all(feature = "measure", not(feature = "embedded")))]
mod stack;
mod stderr;
mod time;
mod trace_event;
mod workload;

pub use clock::Clock;
pub use context::{OptionError, ProcessId, Severity, WorkloadContext};
#[cfg(feature = "embedded")]
pub use embedded::{Failed, Faults, Passed, Seeds, Simulation};
pub use executor::{
    JoinError, JoinHandle, PanicReport, fdb_spawn, poll_pending_tasks, set_poll_budget, spawn,
};
pub use foundationdb;
pub use instance::WrappedWorkload;
pub use metrics::{Metric, Metrics};
pub use rng::Rng;
/// ```
/// use shaketable::{Faults, PhaseResult, SimDatabase, WorkloadContext};
///
/// #[shaketable::sim_test]
/// async fn what_was_written_is_read(db: SimDatabase) -> PhaseResult {
///     db.run(|trx, _| async move {
///         trx.set(b"hello", b"world");
///         Ok(())
///     })
///     .await?;
///     let value = db
///         .run(|trx, _| async move { Ok(trx.get(b"hello", false).await?) })
///         .await?;
///     assert_eq!(value.as_deref(), Some(&b"world"[..]));
///     Ok(())
/// }
///
/// #[shaketable::sim_test(seeds = 0..200, clients = 5, faults = Faults::default().buggify(true))]
/// async fn every_client_greets(db: SimDatabase, context: WorkloadContext) -> PhaseResult {
///     let key = &format!("hello/{}", context.client_id()).into_bytes();
///     db.run(|trx, _| async move {
///         trx.set(key, b"world");
///         Ok(())
///     })
///     .await?;
///     Ok(())
/// }
/// ```
#[cfg(feature = "embedded")]
pub use shaketable_macros::sim_test;
pub use time::{Elapsed, Sleep, sleep, timeout, yield_now};
pub use workload::{
    PhaseError, PhaseOutcome, PhaseResult, RustWorkload, RustWorkloadFactory, SimDatabase,
    SingleRustWorkload, Workload,
};

#[doc(hidden)]
pub mod internals {
    //! What the `register_…!` macros expand to; not for direct use.

    pub use crate::executor::poll_pending_tasks;
    pub use crate::register::{create, create_cpp, make_single};
    #[cfg(feature = "assertions")]
    pub use crate::sites::{Distance, Kind, Site};
    pub use shaketable_abi::v1::FDBWorkloadContext;
}
