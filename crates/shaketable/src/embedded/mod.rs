//! The embedded simulation as a library: `cargo test` is enough.
//!
//! A test of a layer runs a workload, or just an async closure with a database, in the same
//! simulation as `shaketable run`: nothing to install, no shared library, no other process, so that
//! a debugger and a profiler work as in any test.
//!
//! * Every seed runs on a thread of its own. A simulation has one thread and no global state, so
//!   tests run side by side; and a fresh thread is what makes a seed mean the same whether it is
//!   the first or the thousandth: a thread remembers things, such as the keys of its `HashMap`s.
//! * Time and chance that code under test takes from the operating system come from the seed, as
//!   they do under `shaketable run`: see [`hermetic`].
//! * A failure is a panic with the seed, the reason and the line to paste. The seed is written to
//!   the [regression file](Simulation::regressions) and tried first from then on.
//!
//! * A seed that takes longer than the [limit](Simulation::hang_limit) fails, and other tests
//!   continue.
//!
//! What it does not do: give each seed a process of its own. If the code under test crashes or
//! exits, so does the test program; `shaketable run` survives such a crash. But before the program
//! dies it says which seed it dies of, keeps that seed, and starts itself again to leave the same
//! folder and the same report as any other failure.

mod body;
mod explore;
mod faults;
mod hermetic;
mod regressions;
mod report;
mod seeds;

pub use faults::Faults;
pub use report::{Failed, Passed};
pub use seeds::Seeds;

use crate::context::WorkloadContext;
use crate::instance::WrappedWorkload;
use crate::register;
use crate::workload::{PhaseOutcome, RustWorkloadFactory, SimDatabase, SingleRustWorkload};
use shaketable_abi::v1::{FDBWorkload, FDBWorkloadContext, Factory};
use shaketable_host::library::Library;
use shaketable_host::plan::{Plan, Settings, StalledAfter};
use shaketable_host::testfile::{Configuration, EXTERNAL, TestFile, TestSpec, WorkloadSpec};
use std::ffi::c_char;
use std::fmt::Display;
use std::iter;
use std::panic::Location;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

/// A simulation to be run, with one seed after another.
///
/// ```no_run
/// # use shaketable::{PhaseResult, SimDatabase, SingleRustWorkload, Workload, WorkloadContext};
/// use shaketable::{Faults, Simulation};
///
/// # struct Transfers;
/// # impl SingleRustWorkload for Transfers {
/// #     fn new(_: String, _: WorkloadContext) -> Self { Transfers }
/// # }
/// # impl Workload for Transfers {
/// #     async fn start(&mut self, _db: SimDatabase) -> PhaseResult { Ok(()) }
/// # }
/// # /* so that it is compiled:
/// #[test]
/// # */
/// fn no_transfer_loses_money() {
///     Simulation::new()
///         .seeds(0..200)
///         .clients(5)
///         .faults(Faults::default())
///         .option("transfers", 30)
///         .run::<Transfers>();
/// }
/// ```
///
/// Environment variables change what a test runs, without a change of its code:
///
/// | | |
/// |---|---|
/// | `SHAKETABLE_SEED=17` | only this seed: the way to run a failure again |
/// | `SHAKETABLE_SEEDS=5000` | this number of seeds instead of the test's own: for a nightly run |
/// | `SHAKETABLE_HANG_LIMIT=10m` | what a seed may take in real time, instead of the test's own limit; `off` for none |
/// | `SHAKETABLE_TRACE=folder` | a trace of each run is written there |
/// | `SHAKETABLE_LOG=debug` | with the feature `tracing`: the level of the events in it |
#[derive(Debug, Clone)]
#[must_use = "a simulation does nothing until `run` or `test`"]
pub struct Simulation {
    /// As `cargo test` knows it; `None` outside of a test.
    test: Option<String>,
    name: String,
    seeds: Seeds,
    clients: Option<u32>,
    stalled_after: StalledAfter,
    hang_limit: Option<Duration>,
    faults: Faults,
    options: Vec<(String, String)>,
    regressions: Option<PathBuf>,
    cases: Vec<PathBuf>,
    required: Vec<String>,
    require_sometimes: bool,
}

impl Simulation {
    /// Sixteen seeds, all faults, four to eight clients; named after the test that is running.
    ///
    /// ```
    /// use shaketable::Simulation;
    ///
    /// let passed = Simulation::new().test(async |_db, _context| {});
    /// assert_eq!(passed.seeds(), 16);
    /// ```
    #[track_caller]
    #[expect(
        clippy::new_without_default,
        reason = "the name depends on the place of the call"
    )]
    pub fn new() -> Self {
        let thread = thread::current();
        let test = thread.name().filter(|name| *name != "main");
        let place = Location::caller();
        let place = || format!("{}:{}", place.file(), place.line());
        Simulation {
            test: test.map(str::to_owned),
            name: test.map_or_else(place, str::to_owned),
            seeds: Seeds::default(),
            clients: None,
            stalled_after: StalledAfter::default(),
            hang_limit: Some(explore::HANG_LIMIT),
            faults: Faults::default(),
            options: Vec::new(),
            // The place of the call would not do as a name: it changes as the file does.
            regressions: test.and_then(|_| regressions::default_path()),
            cases: Vec::new(),
            required: Vec::new(),
            require_sometimes: false,
        }
    }

    /// The name in messages and in the regression file. The default is the test's own name.
    ///
    /// ```
    /// # use shaketable::Simulation;
    /// let failed = Simulation::new()
    ///     .named("a quiet morning")
    ///     .seeds(7)
    ///     .without_regressions()
    ///     .try_test(async |_db, _context| assert!(1 > 2, "out of eggs"))
    ///     .expect_err("it always panics");
    /// assert!(failed.to_string().contains("`a quiet morning` fails with seed 7"));
    /// ```
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The seeds to try: a range, a list, or one.
    ///
    /// ```
    /// # use shaketable::Simulation;
    /// let quiet = async |_db, _context| {};
    /// assert_eq!(Simulation::new().seeds(0..3).test(quiet).seeds(), 3);
    /// assert_eq!(Simulation::new().seeds([7, 11]).test(quiet).seeds(), 2);
    /// assert_eq!(Simulation::new().seeds(42).test(quiet).seeds(), 1); // only seed 42
    /// ```
    pub fn seeds(mut self, seeds: impl Into<Seeds>) -> Self {
        self.seeds = seeds.into();
        self
    }

    /// How many clients run the workload. By default the seed draws four to eight, as fdbserver
    /// does, and a [`test`](Self::test) has one.
    ///
    /// ```
    /// # use shaketable::Simulation;
    /// Simulation::new().seeds(1).clients(3).test(async |_db, context| {
    ///     assert_eq!(context.client_count(), 3);
    /// });
    /// ```
    pub fn clients(mut self, clients: u32) -> Self {
        self.clients = Some(clients);
        self
    }

    /// How long a client may make no progress, in simulated time, once the faults are over: five
    /// minutes by default, and no limit with `None`. After that the run has *stalled*, and the
    /// report lists what each client waits for.
    ///
    /// ```
    /// # use shaketable::Simulation;
    /// use std::time::Duration;
    ///
    /// let failed = Simulation::new()
    ///     .seeds(1)
    ///     .stalled_after(Duration::from_secs(120))
    ///     .without_regressions()
    ///     .try_test(async |db, _context| {
    ///         let trx = db.create_trx().expect("a transaction");
    ///         let changed = trx.watch(b"a key that stays as it is");
    ///         trx.commit().await.expect("it has written nothing");
    ///         changed.await.expect("a watch waits");
    ///     })
    ///     .expect_err("nothing ever changes");
    /// assert!(failed.reason().contains("stalled"), "{failed}");
    /// ```
    pub fn stalled_after(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.stalled_after = match limit.into() {
            Some(limit) => StalledAfter::Seconds(limit.as_secs()),
            None => StalledAfter::Never,
        };
        self
    }

    /// How long a seed may take, in real time: two minutes by default, and no limit with `None`.
    /// After that it *hangs*: it loops or blocks without letting the simulation continue, or its
    /// clients never finish. The report says where. While a debugger is attached there is no limit.
    ///
    /// The thread of such a seed cannot be ended: it goes on at the lowest priority until the test
    /// program ends, while other tests continue.
    ///
    /// # Panics
    ///
    /// If the limit is zero.
    ///
    /// ```no_run
    /// # use shaketable::Simulation;
    /// use std::time::Duration;
    ///
    /// let failed = Simulation::new()
    ///     .seeds(1)
    ///     .hang_limit(Duration::from_secs(1))
    ///     .without_regressions()
    ///     .try_test(async |_db, _context| {
    ///         while std::hint::black_box(true) {} // waits for a thread that is not there
    ///     })
    ///     .expect_err("it never ends");
    /// assert!(failed.reason().contains("no end after 1 s"), "{failed}");
    /// ```
    pub fn hang_limit(mut self, limit: impl Into<Option<Duration>>) -> Self {
        let limit = limit.into();
        assert!(
            limit != Some(Duration::ZERO),
            "the hang limit of a Simulation is zero: a seed needs more than no time at all"
        );
        self.hang_limit = limit;
        self
    }

    /// What happens to the cluster meanwhile.
    ///
    /// ```
    /// # use shaketable::{Faults, PhaseResult, Simulation};
    /// let quiet = Simulation::new().seeds(0..3).faults(Faults::none());
    /// quiet.test(async |db, _context| -> PhaseResult {
    ///     let trx = db.create_trx()?;
    ///     trx.set(b"hello", b"world");
    ///     trx.commit().await?; // nothing breaks, so it is not tried again
    ///     Ok(())
    /// });
    /// ```
    pub fn faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    /// An option, as a test file would give it to the workload, which reads it in its constructor.
    /// A closure captures what it needs instead.
    ///
    /// ```
    /// # use shaketable::{
    /// #     PhaseResult, SimDatabase, Simulation, SingleRustWorkload, Workload, WorkloadContext,
    /// # };
    /// struct Transfers {
    ///     accounts: u32,
    /// }
    ///
    /// impl SingleRustWorkload for Transfers {
    ///     fn new(_name: String, context: WorkloadContext) -> Self {
    ///         Transfers { accounts: context.get_option("accounts").unwrap_or(100) }
    ///     }
    /// }
    /// # impl Workload for Transfers {
    /// #     async fn start(&mut self, _db: SimDatabase) -> PhaseResult {
    /// #         assert_eq!(self.accounts, 30);
    /// #         Ok(())
    /// #     }
    /// # }
    ///
    /// Simulation::new().seeds(1).option("accounts", 30).run::<Transfers>();
    /// ```
    pub fn option(mut self, name: impl Into<String>, value: impl Display) -> Self {
        self.options.push((name.into(), value.to_string()));
        self
    }

    /// The file that keeps failing seeds: `shaketable-regressions.txt` beside the `Cargo.toml` of
    /// the tests, unless another is named here. Commit it. Outside of a test there is none unless
    /// it is named.
    ///
    /// Its seeds run before all others. A line is a seed, the name of the test, and what went
    /// wrong; a line that is no longer useful can be deleted.
    ///
    /// ```
    /// # use shaketable::Simulation;
    /// # let file = format!("shaketable-regressions-{}", std::process::id());
    /// # let file = std::env::temp_dir().join(file);
    /// // Seed 17 failed once, and is tried before the others from then on.
    /// std::fs::write(&file, "17 a quiet morning # out of eggs\n")?;
    /// let passed = Simulation::new()
    ///     .named("a quiet morning")
    ///     .seeds(0..3)
    ///     .regressions(&file)
    ///     .test(async |_db, _context| {});
    /// assert_eq!(passed.seeds(), 4);
    /// # std::fs::remove_file(&file)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn regressions(mut self, file: impl Into<PathBuf>) -> Self {
        self.regressions = Some(file.into());
        self
    }

    /// Keeps no failing seeds.
    pub fn without_regressions(mut self) -> Self {
        self.regressions = None;
        self
    }

    /// Runs a case before all seeds: a TOML file with a seed and the decisions of chance that a run
    /// needs to fail, as `shaketable minimise` writes it. The case fails too if one of its decisions
    /// never comes up any more. What the case leaves open, such as the number of clients, is as this
    /// simulation says; the test file that it names is not read.
    ///
    /// ```
    /// # use shaketable::Simulation;
    /// # let file = format!("shaketable-case-{}.toml", std::process::id());
    /// # let file = std::env::temp_dir().join(file);
    /// let case = "[case]\nseed = 17\nonly = [\"a reply is lost/tester 0 1\"]\n";
    /// std::fs::write(&file, case)?;
    /// let passed = Simulation::new().case(&file).seeds(0..3).test(async |db, _context| {
    ///     // The reply to this commit is lost, and it is made a second time.
    ///     let set = db.run(|trx, _| async move {
    ///         trx.set(b"greeting", b"hello");
    ///         Ok(())
    ///     });
    ///     set.await.unwrap();
    /// });
    /// assert_eq!(passed.seeds(), 4);
    /// # std::fs::remove_file(&file)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn case(mut self, file: impl Into<PathBuf>) -> Self {
        self.cases.push(file.into());
        self
    }

    /// Fails if the [`sometimes!`](crate::sometimes) or [`reachable!`](crate::reachable) with this
    /// message never held, in any seed.
    ///
    /// Not checked when `SHAKETABLE_SEED` asks for a single seed.
    ///
    /// ```
    /// # use shaketable::Simulation;
    /// Simulation::new().seeds(0..3).require("a transfer was made").test(async |_db, _context| {
    ///     shaketable::reachable!("a transfer was made");
    /// });
    /// ```
    pub fn require(mut self, message: impl Into<String>) -> Self {
        self.required.push(message.into());
        self
    }

    /// Fails if any [`sometimes!`](crate::sometimes) or [`reachable!`](crate::reachable) of the
    /// whole program never held, in any seed.
    ///
    /// For a test program with a single simulation; where there are several, each
    /// [requires](Self::require) its own.
    ///
    /// ```standalone_crate
    /// # use shaketable::Simulation;
    /// Simulation::new().seeds(0..3).require_sometimes().test(async |_db, context| {
    ///     shaketable::sometimes!(context.client_id() == 0, "there is a first client");
    /// });
    /// ```
    pub fn require_sometimes(mut self) -> Self {
        self.require_sometimes = true;
        self
    }

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

    fn plan(&self, workload: &str, factory: Factory) -> Plan {
        // SAFETY: `factory` is one of this module's, which serve the External-workload ABI.
        let library = unsafe { Library::in_process(&self.name, factory) };
        Plan::in_process(self.test_file(workload), library)
    }

    /// The simulation as a test file would describe it.
    fn test_file(&self, workload: &str) -> TestFile {
        let mut external = WorkloadSpec::new(EXTERNAL)
            .with("libraryName", "this program")
            .with("workloadName", workload);
        for (name, value) in &self.options {
            assert!(
                external.option(name).is_none(),
                "the option `{name}` of a Simulation is given twice, or has a name of its own meaning"
            );
            external = external.with(name, value.as_str());
        }
        let test = TestSpec {
            title: self.name.clone(),
            run_failure_workloads: self.faults.are_drawn(),
            // A simulated connection breaks now and then, also where no fault was asked for.
            connection_failures_disable_seconds: match self.faults.are_any() {
                true => 0.0,
                false => 10_000.0,
            },
            workloads: iter::once(external)
                .chain(self.faults.workloads())
                .collect(),
            ..TestSpec::default()
        };
        TestFile {
            path: "(a simulation in cargo test)".into(),
            configuration: Configuration::default(),
            knobs: Vec::new(),
            tests: vec![test],
            case: None,
        }
    }

    fn settings(&self) -> Settings {
        Settings {
            buggify: Some(self.faults.is_buggified()),
            fault_injection: Some(self.faults.are_any()),
            stress: self.faults.are_stressed(),
            clients: self.clients,
            stalled_after: self.stalled_after,
            ..Settings::default()
        }
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
unsafe fn enter(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_reaches_the_workload_as_it_is() {
        let text = "a \"quoted\" \\ back\nslash\u{7f}€";
        let simulation = Simulation::new()
            .named(text)
            .option(text, text)
            .faults(Faults::default());
        let file = simulation.test_file(text);
        assert_eq!(file.tests[0].title, text);
        let workload = &file.tests[0].workloads[0];
        assert_eq!(workload.option("workloadName"), Some(text));
        assert_eq!(workload.option(text), Some(text));
    }

    #[test]
    #[should_panic(expected = "the option `rounds` of a Simulation is given twice")]
    fn an_option_has_one_value() {
        let simulation = Simulation::new().option("rounds", 1).option("rounds", 2);
        simulation.test_file("any");
    }

    #[test]
    fn faults_are_those_of_a_test_file() {
        let faults = Faults::default().configuration_changes(true).seconds(0.1);
        let [test] = &Simulation::new().faults(faults).test_file("any").tests[..] else {
            panic!("one test")
        };
        let text = "[[test]]
            [[test.workload]]
            testName = 'RandomClogging'
            testDuration = 0.1
            swizzle = 1
            [[test.workload]]
            testName = 'Attrition'
            testDuration = 0.1
            machinesToKill = 10
            machinesToLeave = 3
            reboot = true
            [[test.workload]]
            testName = 'Rollback'
            testDuration = 0.1
            [[test.workload]]
            testName = 'ChangeConfig'
            maxDelayBeforeChange = 0.1
            coordinators = 'auto'";
        let written = TestFile::parse("x".as_ref(), text).unwrap();
        let plain = |workload: &WorkloadSpec| {
            let options = workload.options.iter();
            let options = options.map(|option| (option.key.clone(), option.text.clone()));
            (workload.name.clone(), options.collect::<Vec<_>>())
        };
        let said: Vec<_> = test.workloads[1..].iter().map(plain).collect();
        let written: Vec<_> = written.tests[0].workloads.iter().map(plain).collect();
        assert_eq!(said, written);
    }

    #[test]
    fn connections_break_by_chance_only_where_faults_are_asked_for() {
        let lasts = |faults: Faults| {
            let file = Simulation::new().faults(faults).test_file("any");
            file.tests[0].connection_failures_disable_seconds > 0.0
        };
        assert!(lasts(Faults::none()));
        assert!(lasts(Faults::none().buggify(true)));
        assert!(!lasts(Faults::default()));
        assert!(!lasts(Faults::drawn()));
    }

    #[test]
    fn a_simulation_is_called_as_the_test_that_makes_it() {
        assert!(
            Simulation::new()
                .name
                .ends_with("a_simulation_is_called_as_the_test_that_makes_it")
        );
    }
}
