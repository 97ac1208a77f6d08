//! The clusters of an ordinary program: made when they are first opened, kept until the network
//! ends.
//!
//! A cluster is the same miniature that a simulation runs, as one process on a network that costs
//! nothing and the machine's clock. All databases that name the same cluster share it, as they
//! would share a real one; it keeps its data while databases come and go.

use crate::network::ClusterName;
use crate::universe::Universe;
use crate::version::API_VERSION_MAX;
use bytes::Bytes;
use nix::time::{ClockId, clock_gettime};
use shaketable_cluster::client::{Connection, Database};
use shaketable_cluster::cluster::{
    Cluster, ClusterConfig, EMBEDDED_CONNECTION_STRING as CONNECTION_STRING,
};
use shaketable_cluster::knobs::{Knobs, LiveKnobs};
use shaketable_cluster::process::Process;
use shaketable_cluster::time_keeper;
use shaketable_kernel::{Address, Kernel, Priority, ProcessId, ProcessSpec, Time};
use std::time::Duration;

/// A cluster and the process on which its clients run.
#[derive(Clone)]
pub(crate) struct ProgramCluster {
    cluster: Cluster,
    client: ProcessId,
}

/// What a program has chosen before it opens a database.
pub(crate) struct Opening {
    pub(crate) api_version: i32,
    pub(crate) has_shared_state: bool,
}

/// The database that `name` stands for. Runs on the kernel's thread.
pub(crate) fn open_database(
    universe: &Universe,
    kernel: &Kernel,
    name: ClusterName,
    opening: Opening,
) -> Database {
    let known = universe
        .objects(|objects| objects.clusters.get(&name).cloned())
        .flatten();
    let embedded = known.unwrap_or_else(|| {
        let embedded = ProgramCluster::start(kernel);
        universe.objects(|objects| objects.clusters.insert(name.clone(), embedded.clone()));
        embedded
    });
    let (connection_string, cluster_file_path) = match &name {
        ClusterName::Default => (CONNECTION_STRING.to_owned(), String::new()),
        ClusterName::File(path) => (
            CONNECTION_STRING.to_owned(),
            String::from_utf8_lossy(path).into_owned(),
        ),
        ClusterName::ConnectionString(text) => {
            (String::from_utf8_lossy(text).into_owned(), String::new())
        }
    };
    Database::open(
        Process::new(kernel, embedded.client),
        Connection {
            api_version: opening.api_version,
            has_shared_state: opening.has_shared_state,
            knobs: LiveKnobs::new(Knobs::clone(&embedded.cluster.knobs())),
            is_instant: true,
            buggify: None,
            leader: embedded.cluster.leader(),
            connection_string,
            cluster_file_path,
            cluster_id: CLUSTER_ID,
        },
    )
}

/// How often to look whether a recovery has ended.
const RECOVERY_POLL_SECONDS: f64 = 0.001;
const CLUSTER_ID: u128 = 0x5ea5_4a6e;

impl ProgramCluster {
    /// Ends the current generation, as the reboot of a process does in a cluster that has no other,
    /// if there is a process at that address. `done` hears whether there was, when the cluster has
    /// recovered.
    pub(crate) fn reboot(self, kernel: &Kernel, address: Bytes, done: impl FnOnce(bool) + 'static) {
        let mut servers = self.cluster.servers().iter();
        if !servers.any(|id| kernel.process(*id).address.to_string().as_bytes() == address) {
            return done(false);
        }
        let before = self.cluster.epoch();
        self.cluster.trigger_recovery();
        let (client, clock) = (self.client, kernel.clone());
        let recovery = async move {
            while self.cluster.epoch().is_none() || self.cluster.epoch() == before {
                clock.sleep(RECOVERY_POLL_SECONDS).await;
            }
            done(true);
        };
        kernel
            .spawn(client, Priority::DefaultDelay, recovery)
            .detach();
    }

    fn start(kernel: &Kernel) -> ProgramCluster {
        let name = || "program".to_owned();
        let cluster = Cluster::start(kernel, ClusterConfig::single_process(true));
        let client = kernel.add_process(ProcessSpec {
            name: name(),
            address: Address::v4(127, 0, 0, 1, 0),
            machine: name(),
            zone: name(),
            datacenter: name(),
            class: "unset".into(),
            ..ProcessSpec::default()
        });
        kernel.boot(client);
        let keeper = cluster.open_database(client, API_VERSION_MAX);
        time_keeper::start(keeper, unix_seconds());
        ProgramCluster { cluster, client }
    }
}

/// Calls `report` once a second with the fraction of that second in which the calling thread
/// worked.
pub(crate) fn measure_busyness(kernel: &Kernel, report: impl Fn(f64) + 'static) {
    sample(kernel, kernel.now(), cpu_seconds(), report);
}

fn sample(kernel: &Kernel, since: Time, cpu: f64, report: impl Fn(f64) + 'static) {
    kernel.call_at(since.after(1.0), move |kernel| {
        let (now, cpu_now) = (kernel.now(), cpu_seconds());
        let passed = now.as_secs() - since.as_secs();
        report(((cpu_now - cpu) / passed).clamp(0.0, 1.0));
        sample(kernel, now, cpu_now, report);
    });
}

/// The machine's calendar.
#[expect(
    clippy::disallowed_methods,
    reason = "an ordinary program lives in the machine's time"
)]
fn unix_seconds() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// How long the calling thread has worked.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    time.map_or(0.0, |time| Duration::from(time).as_secs_f64())
}
