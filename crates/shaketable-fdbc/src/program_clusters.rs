//! The clusters of an ordinary program: made when they are first opened, kept until the network
//! ends.
//!
//! A cluster is the same miniature that a simulation runs, as one process on a network that costs
//! nothing and the machine's clock; or it is in the process of `shaketable serve`, and there is a
//! gate to it. All databases that name the same cluster share it, as they would share a real one;
//! it keeps its data while databases come and go.

use crate::cluster_file;
use crate::network::ClusterName;
use crate::options;
use crate::universe::Universe;
use bytes::Bytes;
use nix::time::{ClockId, clock_gettime};
use shaketable_cluster::client::{Buggify, Connection, Database};
use shaketable_cluster::cluster::{Cluster, EMBEDDED_CONNECTION_STRING as CONNECTION_STRING};
use shaketable_cluster::knobs::{Knobs, LiveKnobs};
use shaketable_cluster::process::Process;
use shaketable_cluster::process::exceptions::Announced;
use shaketable_cluster::proto::OpenDatabase;
use shaketable_kernel::{Endpoint, Kernel, ProcessId, Time};
use shaketable_serve::{Gate, Poller, embedded};
use std::time::Duration;

/// A cluster, as the clients of a program reach it.
#[derive(Clone)]
pub(crate) enum ProgramCluster {
    /// It is here, and its clients run on this process.
    Embedded(Cluster, ProcessId),
    /// It is in the process of a server.
    Served(Gate),
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
    let cluster = known.unwrap_or_else(|| {
        let cluster = ProgramCluster::start(universe, kernel, &name);
        universe.objects(|objects| objects.clusters.insert(name.clone(), cluster.clone()));
        cluster
    });
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (connection_string, cluster_file_path) = match &name {
        ClusterName::Default => (CONNECTION_STRING.to_owned(), String::new()),
        ClusterName::File(path) => (CONNECTION_STRING.to_owned(), text(path)),
        ClusterName::ConnectionString(string) => (text(string), String::new()),
        ClusterName::Served { place, file } => (place.connection_string(), text(file)),
    };
    let database = Database::open(
        Process::new(kernel, cluster.client()),
        Connection {
            api_version: opening.api_version,
            has_shared_state: opening.has_shared_state,
            knobs: LiveKnobs::new(cluster.knobs()),
            is_instant: !options::faults().has_machines(),
            buggify: cluster.buggify(),
            leader: cluster.leader(),
            connection_string,
            cluster_file_path,
            cluster_id: CLUSTER_ID,
        },
    );
    if options::are_cluster_files_strict()
        && let Err(error) = cluster_file::check(&name)
    {
        database.poison(error);
    }
    database
}

const CLUSTER_ID: u128 = 0x5ea5_4a6e;

impl ProgramCluster {
    fn start(universe: &Universe, kernel: &Kernel, name: &ClusterName) -> ProgramCluster {
        if let ClusterName::Served { place, .. } = name {
            let poller = poller(universe, kernel);
            universe.set_served();
            return ProgramCluster::Served(Gate::open(kernel, &poller, place.clone()));
        }
        let cluster = embedded::start(kernel, options::faults());
        let client = embedded::add_client(kernel, "program".to_owned());
        ProgramCluster::Embedded(cluster, client)
    }

    fn client(&self) -> ProcessId {
        match self {
            ProgramCluster::Embedded(_, client) => *client,
            ProgramCluster::Served(gate) => gate.client(),
        }
    }

    fn knobs(&self) -> Knobs {
        match self {
            ProgramCluster::Embedded(cluster, _) => Knobs::clone(&cluster.knobs()),
            ProgramCluster::Served(_) => Knobs::default(),
        }
    }

    /// How buggify strikes in the client; it does so only where the cluster is here.
    fn buggify(&self) -> Option<Buggify> {
        match self {
            ProgramCluster::Embedded(cluster, client) if options::faults().are_on() => {
                Some(cluster.buggify_on(*client))
            }
            _ => None,
        }
    }

    fn leader(&self) -> Announced<Endpoint<OpenDatabase>> {
        match self {
            ProgramCluster::Embedded(cluster, _) => cluster.leader(),
            ProgramCluster::Served(gate) => gate.leader(),
        }
    }

    /// Ends the current generation, as the reboot of a process does in a cluster that has no other,
    /// if there is a process at that address. `done` hears whether there was, when the cluster has
    /// recovered.
    pub(crate) fn reboot(&self, address: Bytes, done: impl FnOnce(bool) + 'static) {
        match self {
            ProgramCluster::Embedded(cluster, client) => {
                embedded::reboot(cluster, *client, &address, done);
            }
            ProgramCluster::Served(gate) => gate.reboot(address, done),
        }
    }
}

/// The sockets of the network's thread.
fn poller(universe: &Universe, kernel: &Kernel) -> Poller {
    let known = universe.objects(|objects| objects.poller.clone());
    known.flatten().unwrap_or_else(|| {
        let poller = Poller::install(kernel).expect("a process has a file descriptor to spare");
        universe.objects(|objects| objects.poller = Some(poller.clone()));
        poller
    })
}

/// Calls `report` once a second with the fraction of that second in which the calling thread
/// worked.
pub(crate) fn measure_busyness(kernel: &Kernel, report: impl Fn(f64) + 'static) {
    sample(kernel, kernel.now(), cpu_seconds(), report);
}

fn sample(kernel: &Kernel, since: Time, cpu: f64, report: impl Fn(f64) + 'static) {
    kernel.call_at(since.after(1.0), move |kernel| {
        let (now, cpu_now) = (kernel.now(), cpu_seconds());
        let passed = (now.as_secs() - since.as_secs()) / f64::from(options::faults().speed);
        report(((cpu_now - cpu) / passed).clamp(0.0, 1.0));
        sample(kernel, now, cpu_now, report);
    });
}

/// How long the calling thread has worked.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    time.map_or(0.0, |time| Duration::from(time).as_secs_f64())
}
