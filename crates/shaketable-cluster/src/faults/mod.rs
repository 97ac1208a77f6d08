//! Fault workloads: what breaks a cluster while a test runs, by FoundationDB's names.
//!
//! Each workload is one file, with FoundationDB's options, defaults and timing. It acts only on
//! client 0 and ends without being stopped; the start phase of a test lasts as long as the slowest
//! of them. [`inject()`] adds workloads that the test file does not mention, as FoundationDB does.
//!
//! Every workload draws from its own random stream: leaving one out changes nothing about the
//! others. What it does to the cluster it does through its [`Context`], where each act is a
//! decision with a name: `Attrition/kill 3`. A run can be told to leave an act out; the workload
//! then draws as if it had happened.

mod attrition;
mod change_config;
mod clog_single_connection;
mod clog_tlog;
mod disk_failure_injection;
mod inject;
mod options;
mod random_clogging;
mod random_move_keys;
mod random_range_lock;
mod rollback;
mod strength;
mod targeted_kill;
mod together;
mod trigger_recovery_loop;

pub use attrition::Attrition;
pub use change_config::ChangeConfig;
pub use clog_single_connection::ClogSingleConnection;
pub use clog_tlog::ClogTlog;
pub use disk_failure_injection::DiskFailureInjection;
pub use inject::inject;
pub use options::{BadOption, Options};
pub use random_clogging::RandomClogging;
pub use random_move_keys::RandomMoveKeys;
pub use random_range_lock::RandomRangeLock;
pub use rollback::Rollback;
pub use targeted_kill::TargetedKill;
pub use together::start_together;
pub use trigger_recovery_loop::TriggerRecoveryLoop;

use crate::client::{Database, Transaction};
use crate::error::Error;
use crate::kill::Target;
use crate::process::Process;
use crate::saboteur::Saboteur;
use shaketable_kernel::{ClogMode, KillKind, ProcessId, Stream, Time};
use std::net::IpAddr;

/// What a fault workload works with.
#[derive(Clone)]
pub struct Context {
    /// Its power over the cluster.
    pub saboteur: Saboteur,
    /// Its name among the fault workloads of the run; see [`Context::name_of`].
    pub name: String,
    /// A database handle of client 0, on whose process the workload runs.
    pub database: Database,
    /// Its random draws. Give each instance its own stream.
    pub random: Stream,
}

macro_rules! workloads {
    ($($name:ident),* $(,)?) => {
        /// A fault workload with its options.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs)]
        pub enum FaultWorkload { $($name($name),)* }

        impl FaultWorkload {
            /// The names of all fault workloads.
            pub const NAMES: &[&str] = &[$(stringify!($name)),*];

            /// Reads the options of a workload; `None` if there is no fault workload of that name.
            /// Defaults that FoundationDB draws are drawn from `random`.
            pub fn read(
                name: &str,
                options: &mut Options<'_>,
                random: &Stream,
            ) -> Option<Result<FaultWorkload, BadOption>> {
                match name {
                    $(stringify!($name) => {
                        Some($name::read(options, random).map(FaultWorkload::$name))
                    })*
                    _ => None,
                }
            }

            /// FoundationDB's name for it.
            pub fn name(&self) -> &'static str {
                match self { $(FaultWorkload::$name(_) => stringify!($name),)* }
            }

            /// Runs it, as the start phase of client 0.
            pub async fn start(&self, context: &Context) {
                match self { $(FaultWorkload::$name(workload) => workload.start(context).await,)* }
            }
        }
    };
}

workloads!(
    Attrition,
    ChangeConfig,
    ClogSingleConnection,
    ClogTlog,
    DiskFailureInjection,
    RandomClogging,
    RandomMoveKeys,
    RandomRangeLock,
    Rollback,
    TargetedKill,
    TriggerRecoveryLoop,
);

impl FaultWorkload {
    /// Whether its presence in a test file keeps the automatic workloads away.
    pub fn disables_injection(&self) -> bool {
        matches!(self, FaultWorkload::ChangeConfig(_))
    }
}

impl Context {
    /// The process of the workload.
    fn here(&self) -> &Process {
        self.database.process()
    }

    /// The name of a workload: which of its kind it is, if it is not the first, and in which test,
    /// if that is not the first. Both are counted from 0.
    pub fn name_of(workload: &str, same_before: usize, test: usize) -> String {
        let mut name = workload.to_owned();
        if same_before > 0 {
            name = format!("{name} #{}", same_before + 1);
        }
        if test > 0 {
            name = format!("{name} of test {}", test + 1);
        }
        name
    }

    /// Whether it acts now, or was told not to.
    fn acts(&self, act: &str) -> bool {
        !self.saboteur.have_faults_ended()
            && self
                .here()
                .decide(true, || (self.name.clone(), act.to_owned()))
    }

    fn kill(&self, target: &Target, kind: KillKind) {
        if self.acts("kill") {
            self.saboteur.kill(target, kind, &self.random);
        } else {
            self.saboteur.spare(target, kind, &self.random);
        }
    }

    fn clog_pair(&self, from: IpAddr, to: IpAddr, seconds: f64) {
        if self.acts("clog a pair") {
            self.saboteur.clog_pair(from, to, seconds);
        }
    }

    /// Returns whether it did.
    fn clog_interface(&self, ip: IpAddr, mode: ClogMode, seconds: f64) -> bool {
        let acts = self.acts("clog an interface");
        if acts {
            self.saboteur.clog_interface(ip, mode, seconds);
        }
        acts
    }

    fn stall_disk(&self, process: ProcessId, seconds: f64) {
        if self.acts("stall a disk") {
            self.saboteur.stall_disk(process, seconds);
        }
    }

    fn trigger_recovery(&self) {
        if self.acts("trigger a recovery") {
            self.saboteur.trigger_recovery();
        }
    }

    async fn sleep(&self, seconds: f64) {
        self.here().sleep(seconds).await;
    }

    /// Waits for the next of a series of events on an absolute schedule, `mean` seconds apart on
    /// average.
    async fn poisson(&self, last: &mut Time, mean: f64) {
        *last = last.after(mean * -self.random.uniform().max(1e-12).ln());
        self.here().sleep_until(*last).await;
    }

    /// Lets a transaction read and write what steers the cluster.
    fn steer(&self, transaction: &Transaction) {
        transaction.set_option(ACCESS_SYSTEM_KEYS, None);
        transaction.set_option(LOCK_AWARE, None);
    }

    /// Runs a transaction on system keys until it commits.
    async fn system_transaction(
        &self,
        body: impl AsyncFn(&Transaction) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let transaction = self.database.create_transaction();
        loop {
            self.steer(&transaction);
            let result = match body(&transaction).await {
                Ok(()) => transaction.commit().await,
                Err(error) => Err(error),
            };
            match result {
                Ok(()) => return Ok(()),
                Err(error) => transaction.on_error(error).await?,
            }
        }
    }
}

const ACCESS_SYSTEM_KEYS: i32 = 301;
const LOCK_AWARE: i32 = 700;
