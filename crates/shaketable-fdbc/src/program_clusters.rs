//! The clusters of an ordinary program: made when they are first opened, kept until the network
//! ends.
//!
//! A cluster is the same miniature that a simulation runs, as one process on a network that costs
//! nothing and the machine's clock. All databases that name the same cluster share it, as they
//! would share a real one; it keeps its data while databases come and go.

use crate::network::ClusterName;
use crate::universe::Universe;
use crate::version::API_VERSION_MAX;
use nix::time::{ClockId, clock_gettime};
use shaketable_cluster::client::{Connection, Database};
use shaketable_cluster::cluster::{Cluster, ClusterConfig};
use shaketable_cluster::knobs::{Knobs, LiveKnobs};
use shaketable_cluster::process::Process;
use shaketable_cluster::time_keeper;
use shaketable_kernel::{Address, Kernel, ProcessId, ProcessSpec, Time};
use std::time::Duration;

/// A cluster and the process on which its clients run.
#[derive(Clone)]
pub(crate) struct ProgramCluster {
    cluster: Cluster,
    client: ProcessId,
}

/// The database that `name` stands for. Runs on the kernel's thread.
pub(crate) fn open_database(
    universe: &Universe,
    kernel: &Kernel,
    name: ClusterName,
    api_version: i32,
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
            api_version,
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

/// What the cluster file would contain if there were one.
const CONNECTION_STRING: &str = "shaketable:embedded@127.0.0.1:4500";
const CLUSTER_ID: u128 = 0x5ea5_4a6e;

impl ProgramCluster {
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
