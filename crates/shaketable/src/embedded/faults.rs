//! What happens to the cluster while a test runs.

use shaketable_host::testfile::WorkloadSpec;

/// What happens to the cluster while a test runs: the fault workloads of FoundationDB, by choice.
///
/// Each of them works for [`seconds`](Self::seconds) of simulated time, from the moment in which `start` begins.
///
/// ```
/// use shaketable::Faults;
///
/// let only_slow_networks = Faults::none().clogging(true).seconds(10.0);
/// let everything = Faults::default().configuration_changes(true).buggify(true);
/// # assert_ne!(only_slow_networks, everything);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Faults {
    clogging: bool,
    attrition: bool,
    rollback: bool,
    configuration_changes: bool,
    drawn: bool,
    buggify: bool,
    stress: bool,
    seconds: f64,
}

impl Default for Faults {
    /// Clogging, attrition and rollbacks for thirty simulated seconds.
    fn default() -> Self {
        Faults {
            clogging: true,
            attrition: true,
            rollback: true,
            ..Faults::none()
        }
    }
}

impl Faults {
    /// Nothing breaks: no machine, no connection. What a healthy cluster answers now and then remains, such as
    /// `not_committed` and a proxy that is busy; `db.run` tries again.
    ///
    /// ```
    /// use shaketable::Faults;
    ///
    /// let quiet = Faults::none();
    /// assert_ne!(quiet, Faults::default());
    /// ```
    pub const fn none() -> Self {
        Faults {
            clogging: false,
            attrition: false,
            rollback: false,
            configuration_changes: false,
            drawn: false,
            buggify: false,
            stress: false,
            seconds: 30.0,
        }
    }

    /// The seed decides which faults there are, with the odds of fdbserver: attrition in half of the seeds,
    /// clogging in a quarter, rollbacks in a tenth.
    ///
    /// ```
    /// use shaketable::Faults;
    ///
    /// let as_fdbserver_would = Faults::drawn();
    /// ```
    pub const fn drawn() -> Self {
        Faults {
            drawn: true,
            ..Faults::none()
        }
    }

    /// Whether the network between machines stands still now and then.
    ///
    /// ```
    /// # use shaketable::Faults;
    /// let only_this = Faults::none().clogging(true);
    /// ```
    pub const fn clogging(mut self, on: bool) -> Self {
        self.clogging = on;
        self
    }

    /// Whether machines are rebooted.
    ///
    /// ```
    /// # use shaketable::Faults;
    /// let only_this = Faults::none().attrition(true);
    /// ```
    pub const fn attrition(mut self, on: bool) -> Self {
        self.attrition = on;
        self
    }

    /// Whether commit proxies are cut off from transaction logs, so that a recovery forgets what they
    /// were about to commit.
    ///
    /// ```
    /// # use shaketable::Faults;
    /// let only_this = Faults::none().rollback(true);
    /// ```
    pub const fn rollback(mut self, on: bool) -> Self {
        self.rollback = on;
        self
    }

    /// Whether the coordinators move.
    ///
    /// ```
    /// # use shaketable::Faults;
    /// let only_this = Faults::none().configuration_changes(true);
    /// ```
    pub const fn configuration_changes(mut self, on: bool) -> Self {
        self.configuration_changes = on;
        self
    }

    /// Whether the cluster, and every [`buggify!`](crate::buggify) of the code under test, misbehaves in rare but legal ways.
    ///
    /// ```
    /// # use shaketable::Faults;
    /// let only_this = Faults::none().buggify(true);
    /// ```
    pub const fn buggify(mut self, on: bool) -> Self {
        self.buggify = on;
        self
    }

    /// Whether what is rare even under faults is frequent: commits of unknown fate, both landed and not, versions
    /// that are too old, short range reads, late watches, storage servers that lag. Worse than any production, and legal.
    ///
    /// ```
    /// # use shaketable::Faults;
    /// let only_this = Faults::none().stress(true);
    /// let everything_at_once = Faults::default().buggify(true).stress(true);
    /// ```
    pub const fn stress(mut self, on: bool) -> Self {
        self.stress = on;
        self
    }

    /// For how many simulated seconds the faults go on.
    ///
    /// ```
    /// # use shaketable::Faults;
    /// let long = Faults::default().seconds(300.0);
    /// ```
    pub const fn seconds(mut self, seconds: f64) -> Self {
        self.seconds = seconds;
        self
    }

    pub(super) fn are_drawn(&self) -> bool {
        self.drawn
    }

    pub(super) fn is_buggified(&self) -> bool {
        self.buggify
    }

    pub(super) fn are_stressed(&self) -> bool {
        self.stress
    }

    pub(super) fn are_any(&self) -> bool {
        self.clogging
            || self.attrition
            || self.rollback
            || self.configuration_changes
            || self.drawn
            || self.stress
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
