//! What happens to the cluster while a test runs.

use shaketable_host::plan::Liveness;
use shaketable_host::testfile::WorkloadSpec;
use std::time::Duration;

/// What happens to the cluster while a test runs: the fault workloads of FoundationDB, by choice.
///
/// Each of them works for [`seconds`](Self::seconds) of simulated time, from the moment `start`
/// begins.
///
/// ```
/// use shaketable::{Faults, Simulation};
///
/// // No machine fails, but the network is slow for the first ten of twenty seconds.
/// let slow_network = Faults::none().clogging(true).seconds(10.0);
/// let passed = Simulation::new().seeds(0..3).faults(slow_network).test(async |_db, _context| {
///     shaketable::sleep(std::time::Duration::from_secs(20)).await;
/// });
/// assert!(passed.simulated_seconds() > 60.0);
///
/// let everything = Faults::default().configuration_changes(true).buggify(true).stress(true);
/// assert_ne!(everything, Faults::default());
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Faults {
    clogging: bool,
    attrition: bool,
    rollback: bool,
    configuration_changes: bool,
    drawn: bool,
    /// What is not said is drawn.
    buggify: Option<bool>,
    stress: Option<bool>,
    crashes: u32,
    liveness: Option<Duration>,
    seconds: f64,
}

impl Default for Faults {
    /// Clogging, attrition and rollbacks for thirty simulated seconds; each seed draws whether
    /// there is buggify, and stress.
    fn default() -> Self {
        Faults {
            clogging: true,
            attrition: true,
            rollback: true,
            buggify: None,
            stress: None,
            ..Faults::none()
        }
    }
}

impl Faults {
    /// Nothing breaks: no machine, no connection. The errors of a healthy cluster remain, such as
    /// `not_committed` and a busy proxy; `db.run` tries again.
    pub const fn none() -> Self {
        Faults {
            clogging: false,
            attrition: false,
            rollback: false,
            configuration_changes: false,
            drawn: false,
            buggify: Some(false),
            stress: Some(false),
            crashes: 0,
            liveness: None,
            seconds: 30.0,
        }
    }

    /// The seed decides which faults there are, with the odds of fdbserver: attrition in half of
    /// the seeds, clogging in a quarter, rollbacks in a tenth. It draws buggify and stress, too.
    pub const fn drawn() -> Self {
        Faults {
            drawn: true,
            buggify: None,
            stress: None,
            ..Faults::none()
        }
    }

    /// Whether the network between machines is clogged now and then.
    pub const fn clogging(mut self, on: bool) -> Self {
        self.clogging = on;
        self
    }

    /// Whether machines are rebooted.
    pub const fn attrition(mut self, on: bool) -> Self {
        self.attrition = on;
        self
    }

    /// Whether commit proxies are cut off from transaction logs, so that a recovery forgets what
    /// they were about to commit.
    pub const fn rollback(mut self, on: bool) -> Self {
        self.rollback = on;
        self
    }

    /// Whether the coordinators move.
    pub const fn configuration_changes(mut self, on: bool) -> Self {
        self.configuration_changes = on;
        self
    }

    /// Whether the cluster, and every [`buggify!`](crate::buggify) of the code under test,
    /// misbehaves in rare but legal ways.
    pub const fn buggify(mut self, on: bool) -> Self {
        self.buggify = Some(on);
        self
    }

    /// Whether what is rare even under faults is frequent: commits of unknown fate, both landed and
    /// not, versions that are too old, short range reads, late watches, storage servers that lag.
    /// Worse than any production system, and legal.
    pub const fn stress(mut self, on: bool) -> Self {
        self.stress = Some(on);
        self
    }

    /// How often each client may die, at most: `start` is dropped at an await that the seed draws,
    /// everything the client had in memory is gone, and a fresh instance goes on with
    /// [`recover`](crate::Workload::recover). Not limited by [`seconds`](Self::seconds).
    ///
    /// The option `shaketableCrashAt` lets a client die at an await of your choice instead.
    ///
    /// ```
    /// use shaketable::{Faults, Simulation};
    ///
    /// let failed = Simulation::new()
    ///     .seeds(0..50)
    ///     .faults(Faults::none().crashes(1))
    ///     .without_regressions()
    ///     .try_test(async |db, _context| -> shaketable::PhaseResult {
    ///         let count = async || db.run(|trx, _| async move {
    ///             let value = trx.get(b"visits", false).await?;
    ///             let count = value.map_or(0, |value| value[0]) + 1;
    ///             trx.set(b"visits", &[count]);
    ///             Ok(count)
    ///         }).await;
    ///         // A client that dies in between visits a second time.
    ///         assert_eq!(count().await?, 1);
    ///         for _ in 0..10 {
    ///             shaketable::sleep(std::time::Duration::from_secs(1)).await;
    ///         }
    ///         Ok(())
    ///     })
    ///     .expect_err("some client dies after its visit");
    /// assert!(failed.to_string().contains("client 0 died"), "{failed}");
    /// ```
    pub const fn crashes(mut self, most: u32) -> Self {
        self.crashes = most;
        self
    }

    /// Leaves a minority of the machines broken for good. At a moment that the seed draws, at the
    /// end of `start` at the latest, one or two machines die or are cut off from everything, as far
    /// as the cluster can lose them, and all other faults stop. Each phase must then end within
    /// this simulated time, or the run is *not live*. Clients may still [die](Self::crashes).
    ///
    /// ```
    /// use shaketable::{Faults, Simulation};
    /// use std::time::Duration;
    ///
    /// let failed = Simulation::new()
    ///     .seeds(1)
    ///     .faults(Faults::none().liveness(Duration::from_secs(120)))
    ///     .without_regressions()
    ///     .try_test(async |db, _context| -> shaketable::PhaseResult {
    ///         let is_ready = async || db.run(|trx, _| async move {
    ///             Ok(trx.get(b"ready", false).await?.is_some())
    ///         }).await;
    ///         // It is busy, and gets nowhere.
    ///         while !is_ready().await? {
    ///             shaketable::sleep(Duration::from_secs(1)).await;
    ///         }
    ///         Ok(())
    ///     })
    ///     .expect_err("the key is never written");
    /// assert!(failed.reason().contains("not live"), "{failed}");
    /// ```
    pub const fn liveness(mut self, within: Duration) -> Self {
        self.liveness = Some(within);
        self
    }

    /// For how many simulated seconds the faults go on.
    pub const fn seconds(mut self, seconds: f64) -> Self {
        self.seconds = seconds;
        self
    }

    pub(super) fn are_drawn(&self) -> bool {
        self.drawn
    }

    pub(super) fn is_buggified(&self) -> Option<bool> {
        self.buggify
    }

    pub(super) fn are_stressed(&self) -> Option<bool> {
        self.stress
    }

    pub(super) fn liveness_limit(&self) -> Option<Liveness> {
        let within = self.liveness?;
        Some(Liveness::Seconds(within.as_secs().max(1)))
    }

    pub(super) fn crashes_max(&self) -> u32 {
        self.crashes
    }

    pub(super) fn are_any(&self) -> bool {
        self.clogging
            || self.attrition
            || self.rollback
            || self.configuration_changes
            || self.drawn
            || self.stress == Some(true)
    }

    /// The workloads of a test file that make these faults.
    pub(super) fn workloads(&self) -> Vec<WorkloadSpec> {
        let lasting = |name: &str| WorkloadSpec::new(name).with("testDuration", self.seconds);
        let mut workloads = Vec::new();
        if self.clogging {
            workloads.push(lasting("RandomClogging").with("swizzle", 1));
        }
        if self.attrition {
            let attrition = lasting("Attrition")
                .with("machinesToKill", 10)
                .with("machinesToLeave", 3)
                .with("reboot", true);
            workloads.push(attrition);
        }
        if self.rollback {
            workloads.push(lasting("Rollback"));
        }
        if self.configuration_changes {
            let change = WorkloadSpec::new("ChangeConfig")
                .with("maxDelayBeforeChange", self.seconds)
                .with("coordinators", "auto");
            workloads.push(change);
        }
        workloads
    }
}
