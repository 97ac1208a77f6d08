//! A simulation as a test describes it: its seeds, its clients, its faults, and its limits.
//!
//! A [`Simulation`] does nothing until it is run (`run.rs`): every method takes it and returns it
//! with one thing changed. What is left unsaid has a default that suits a test of a layer, so that
//! `Simulation::new()` is enough. `test_file.rs` puts the description into the simulator's terms.

use super::{Faults, Seeds, explore, minimise, regressions};
use shaketable_host::plan::StalledAfter;
use std::fmt::Display;
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
/// | `SHAKETABLE_SEED=17` | only this seed, of 64 bits: the way to run a failure again |
/// | `SHAKETABLE_CASE=file` | only this case |
/// | `SHAKETABLE_MINIMISE=1m` | how long to make a new failure small, or the case that is asked for; `off` for not at all |
/// | `SHAKETABLE_SEEDS=5000` | this number of seeds instead of the test's own: for a nightly run |
/// | `SHAKETABLE_BUDGET=5m` | as many seeds as there is time for, instead of the test's own number |
/// | `SHAKETABLE_JOBS=4` | how many seeds run at once, instead of one for each processor |
/// | `SHAKETABLE_HANG_LIMIT=10m` | what a seed may take in real time, instead of the test's own limit; `off` for none |
/// | `SHAKETABLE_TRACE=folder` | a trace of each run is written there |
/// | `SHAKETABLE_LOG=debug` | with the feature `tracing`: the level of the events in it |
#[derive(Debug, Clone)]
#[must_use = "a simulation does nothing until `run` or `test`"]
pub struct Simulation {
    /// As `cargo test` knows it; `None` outside of a test.
    pub(super) test: Option<String>,
    pub(super) name: String,
    pub(super) seeds: Seeds,
    pub(super) swarm: bool,
    pub(super) clients: Option<u32>,
    pub(super) stalled_after: StalledAfter,
    pub(super) hang_limit: Option<Duration>,
    pub(super) faults: Faults,
    pub(super) options: Vec<(String, String)>,
    pub(super) regressions: Option<PathBuf>,
    pub(super) minimise_budget: Duration,
    pub(super) cases: Vec<PathBuf>,
    pub(super) required: Vec<String>,
    pub(super) require_sometimes: bool,
    pub(super) require_coverage: bool,
    pub(super) count_outcomes: bool,
    pub(super) check_determinism: bool,
    pub(super) budget: Option<Duration>,
}

impl Simulation {
    /// Sixteen seeds, each with its own choice of all faults and its own number of clients; named
    /// after the test that is running.
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
            swarm: true,
            clients: None,
            stalled_after: StalledAfter::default(),
            hang_limit: Some(explore::HANG_LIMIT),
            faults: Faults::default(),
            options: Vec::new(),
            // The place of the call would not do as a name: it changes as the file does.
            regressions: test.and_then(|_| regressions::default_path()),
            minimise_budget: minimise::BUDGET,
            cases: Vec::new(),
            required: Vec::new(),
            require_sometimes: false,
            require_coverage: false,
            count_outcomes: false,
            check_determinism: false,
            budget: None,
        }
    }

    /// The name in messages and in cases. The default is the test's own name.
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

    /// How long the test may try new seeds, in real time; without one it tries all of them. Cases
    /// and the first seed run in any case, and a seed that has begun is not interrupted.
    ///
    /// ```
    /// # use shaketable::Simulation;
    /// use std::time::Duration;
    ///
    /// // As many seeds as there is time for.
    /// let simulation = Simulation::new().seeds(0..).budget(Duration::from_millis(100));
    /// let passed = simulation.test(async |_db, _context| {});
    /// assert!(passed.seeds() > 0);
    /// ```
    pub fn budget(mut self, time: Duration) -> Self {
        self.budget = Some(time);
        self
    }

    /// Runs every seed twice, and fails if the two runs differ: if the code under test depends on
    /// something that the seed does not decide. The report names the first event that is not the
    /// same.
    ///
    /// ```
    /// # use shaketable::Simulation;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// static CALLS: AtomicU64 = AtomicU64::new(0);
    /// let failed = Simulation::new()
    ///     .seeds(1)
    ///     .check_determinism()
    ///     .try_test(async |_db, _context| {
    ///         // Remembered from one run to the next, so that each is a little slower.
    ///         let calls = CALLS.fetch_add(1, Ordering::Relaxed);
    ///         shaketable::sleep(std::time::Duration::from_secs(calls)).await;
    ///     })
    ///     .expect_err("two runs differ");
    /// assert!(failed.to_string().contains("two different runs"), "{failed}");
    /// ```
    pub fn check_determinism(mut self) -> Self {
        self.check_determinism = true;
        self
    }

    /// Whether each seed draws how it is run, as in `shaketable run`: which of the
    /// [faults](Self::faults) and how strong, whether with buggify and under stress where the
    /// faults leave that open, how many clients if that is left open. It does by default. Without,
    /// every seed has all of the faults at full strength, no buggify and no stress, unless they are
    /// asked for.
    ///
    /// ```
    /// # use shaketable::Simulation;
    /// let always_the_same = Simulation::new().seeds(0..3).swarm(false);
    /// always_the_same.test(async |_db, _context| {
    ///     assert!(!shaketable::buggify!());
    /// });
    /// ```
    pub fn swarm(mut self, on: bool) -> Self {
        self.swarm = on;
        self
    }

    /// How many clients run the workload. By default the seed draws the number, mostly four to
    /// eight as fdbserver does, and a [`test`](Self::test) has one.
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

    /// The folder that keeps a case of each failure: `.shaketable/bugs` of the workspace, unless
    /// another is named here. Commit it. Outside of a test there is none unless it is named.
    ///
    /// Its cases run before all seeds. A new one is made as small as it can be in
    /// [ten seconds](Simulation::minimise_budget); `shaketable minimise` takes more time, and
    /// `shaketable bugs` lists and runs all of them. A case that is no longer useful can be
    /// deleted.
    ///
    /// A file of the older form is still read: each line has a seed, the name of the test, and what
    /// went wrong.
    ///
    /// ```
    /// # use shaketable::Simulation;
    /// # let folder = format!("shaketable-regressions-{}", std::process::id());
    /// # let folder = std::env::temp_dir().join(folder);
    /// # std::fs::create_dir_all(&folder)?;
    /// // Seed 17 failed once, and is tried before the others from then on.
    /// let case = "[case]\nsimulation = \"a quiet morning\"\nseed = 17\n";
    /// std::fs::write(folder.join("out-of-eggs.toml"), case)?;
    /// let passed = Simulation::new()
    ///     .named("a quiet morning")
    ///     .seeds(0..3)
    ///     .regressions(&folder)
    ///     .test(async |_db, _context| {});
    /// assert_eq!(passed.seeds(), 4);
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn regressions(mut self, folder: impl Into<PathBuf>) -> Self {
        self.regressions = Some(folder.into());
        self
    }

    /// How long a new failure is made small, in real time: ten seconds by default, which the
    /// environment can change. Without any, the case has nothing but its seed.
    ///
    /// ```
    /// # use shaketable::Simulation;
    /// # use std::time::Duration;
    /// # let folder = format!("shaketable-budget-{}", std::process::id());
    /// # let folder = std::env::temp_dir().join(folder);
    /// let failed = Simulation::new()
    ///     .named("breakfast")
    ///     .seeds(1)
    ///     .regressions(&folder)
    ///     .minimise_budget(Duration::ZERO)
    ///     .try_test(async |_db, _context| assert_eq!(11, 12, "eggs"))
    ///     .expect_err("one is missing");
    /// assert!(failed.to_string().contains("kept as a case"), "{failed}");
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn minimise_budget(mut self, budget: Duration) -> Self {
        self.minimise_budget = budget;
        self
    }

    /// Keeps no failures.
    pub fn without_regressions(mut self) -> Self {
        self.regressions = None;
        self
    }

    /// Runs a case before all seeds: a TOML file with a seed and the decisions of chance that a run
    /// needs to fail, as `shaketable minimise` writes it. The case fails too if one of its
    /// decisions never comes up any more. What the case leaves open, such as the number of clients,
    /// is as this simulation says; the test file that it names is not read.
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

    /// Counts what becomes of the calls of each line, for
    /// [`Passed::outcomes`](crate::Passed::outcomes).
    ///
    /// ```
    /// # use shaketable::Simulation;
    /// let passed = Simulation::new().seeds(0..2).count_outcomes().test(async |db, _context| {
    ///     let write = db.run(|trx, _| async move {
    ///         trx.set(b"key", b"value");
    ///         Ok(())
    ///     });
    ///     write.await.expect("it commits in the end");
    /// });
    /// println!("{} commits landed and were answered 1021", passed.outcomes("1021 landed"));
    /// ```
    pub fn count_outcomes(mut self) -> Self {
        self.count_outcomes = true;
        self
    }

    /// Counts what each line that calls the database has met, and fails the test if one has never
    /// met an outcome that its calls can have, in any seed: 1007, 1009, 1020, 1021 landed and lost,
    /// a range with `more`. [`Passed`](crate::Passed) shows what was met.
    ///
    /// ```should_panic
    /// # use shaketable::Simulation;
    /// // Two seeds are not enough to meet everything that can become of a commit.
    /// Simulation::new().seeds(0..2).require_coverage().test(async |db, _context| {
    ///     let write = db.run(|trx, _| async move {
    ///         trx.set(b"key", b"value");
    ///         Ok(())
    ///     });
    ///     write.await.expect("it commits in the end");
    /// });
    /// ```
    pub fn require_coverage(mut self) -> Self {
        self.require_coverage = true;
        self.count_outcomes = true;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulation_is_called_as_the_test_that_makes_it() {
        assert!(
            Simulation::new()
                .name
                .ends_with("a_simulation_is_called_as_the_test_that_makes_it")
        );
    }
}
