//! The cluster of an ordinary program or of a server: the miniature that a simulation runs, as one
//! process on a network that costs nothing and the machine's clock.

use crate::faults::Faults;
use shaketable_cluster::cluster::Cluster;
use shaketable_cluster::time_keeper;
use shaketable_kernel::{Address, Kernel, Priority, ProcessId, ProcessSpec};

/// The newest API version: that of the client which keeps the time.
const API_VERSION: i32 = 740;
/// How often to look whether a recovery has ended.
const RECOVERY_POLL_SECONDS: f64 = 0.001;

/// Starts a cluster with these faults, and a client of it that keeps the time.
pub fn start(kernel: &Kernel, faults: &Faults) -> Cluster {
    let cluster = Cluster::start(kernel, faults.cluster(kernel));
    attend(&cluster, faults);
    cluster
}

/// Starts the clients that every cluster has: one that keeps the time, and those that break it.
pub(crate) fn attend(cluster: &Cluster, faults: &Faults) {
    let client = add_client(cluster.kernel(), "timekeeper".to_owned());
    time_keeper::start(cluster.open_database(client, API_VERSION), unix_seconds());
    faults.start(cluster, client, API_VERSION);
}

/// Adds a process for clients.
pub fn add_client(kernel: &Kernel, name: String) -> ProcessId {
    let client = kernel.add_process(ProcessSpec {
        name: name.clone(),
        address: Address::v4(127, 0, 0, 1, 0),
        machine: name.clone(),
        zone: name.clone(),
        datacenter: name,
        class: "unset".into(),
        ..ProcessSpec::default()
    });
    kernel.boot(client);
    client
}

/// Ends the current generation, as the reboot of a process does in a cluster that has no other, if
/// there is a process at that address. `done` hears whether there was, when the cluster has
/// recovered.
pub fn reboot(
    cluster: &Cluster,
    client: ProcessId,
    address: &[u8],
    done: impl FnOnce(bool) + 'static,
) {
    let kernel = cluster.kernel().clone();
    let mut servers = cluster.servers().iter();
    if !servers.any(|id| kernel.process(*id).address.to_string().as_bytes() == address) {
        return done(false);
    }
    let before = cluster.epoch();
    cluster.trigger_recovery();
    let (cluster, clock) = (cluster.clone(), kernel.clone());
    let recovery = async move {
        while cluster.epoch().is_none() || cluster.epoch() == before {
            clock.sleep(RECOVERY_POLL_SECONDS).await;
        }
        done(true);
    };
    kernel
        .spawn(client, Priority::DefaultDelay, recovery)
        .detach();
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
