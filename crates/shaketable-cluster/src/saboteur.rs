//! The power to break a cluster.
//!
//! A fault workload is a client on a process of its own that can do one thing more: act on the
//! machines and the network of the cluster. A [`Saboteur`] is that power, and all of it: kill and
//! reboot, clog, stall disks, end a generation, move shards. It also knows what a tester of
//! FoundationDB is told: which process plays which role, and how the cluster is laid out. It shows
//! neither the kernel nor the state of any role, and it never destroys what the cluster could not
//! survive (see [`crate::kill`]).

use crate::cluster::Cluster;
use crate::kill::Target;
use crate::knobs::Knobs;
use crate::proto::KeyRange;
use crate::server::layout::Configuration;
use shaketable_kernel::{ClogMode, KillKind, ProcessId, ProcessSpec, Stream};
use std::net::IpAddr;
use std::rc::Rc;

/// The power to break one cluster. Cheap to clone.
#[derive(Clone)]
pub struct Saboteur(Cluster);

impl Saboteur {
    /// The power to break this cluster.
    pub fn new(cluster: &Cluster) -> Saboteur {
        Saboteur(cluster.clone())
    }

    // What it knows.

    /// The server processes, in the order of the layout.
    pub(crate) fn servers(&self) -> &[ProcessId] {
        self.0.servers()
    }

    /// The servers that live: a controller tells its administrator which have registered with it.
    pub(crate) fn workers(&self) -> Vec<ProcessId> {
        let servers = self.servers().iter().copied();
        let kernel = self.0.kernel();
        servers.filter(|server| kernel.is_alive(*server)).collect()
    }

    /// What a process is: the same whether or not it lives.
    pub(crate) fn describe(&self, process: ProcessId) -> Rc<ProcessSpec> {
        self.0.kernel().process(process)
    }

    /// The machine's address of a process.
    pub(crate) fn ip(&self, process: ProcessId) -> IpAddr {
        self.describe(process).address.ip
    }

    /// The address of every process, testers included. An address with many processes is listed
    /// once for each.
    pub(crate) fn all_ips(&self) -> Vec<IpAddr> {
        let processes = self.0.kernel().processes();
        processes
            .into_iter()
            .map(|process| self.ip(process))
            .collect()
    }

    /// The zones of the servers, sorted, except those that will never come back.
    pub(crate) fn zones(&self) -> Vec<String> {
        self.0.zones()
    }

    /// The processes that play a role at the moment; see [`Cluster::roles`] for the names.
    pub(crate) fn playing(&self, role: &str) -> Vec<ProcessId> {
        let roles = self.0.roles().into_iter();
        roles
            .filter(|(name, _)| *name == role)
            .map(|(_, process)| process)
            .collect()
    }

    /// The number of the current generation; `None` in the middle of a recovery.
    pub(crate) fn epoch(&self) -> Option<u64> {
        self.0.epoch()
    }

    /// The coordinators, and the controller.
    pub(crate) fn coordinators_and_controller(&self) -> Vec<ProcessId> {
        self.0.coordinators_and_controller()
    }

    /// The current knobs.
    pub(crate) fn knobs(&self) -> Rc<Knobs> {
        self.0.knobs()
    }

    /// Whether faults are on.
    pub(crate) fn faults_enabled(&self) -> bool {
        self.0.faults_enabled()
    }

    /// Whether all faults have ended for the rest of the run.
    pub(crate) fn have_faults_ended(&self) -> bool {
        self.0.have_faults_ended()
    }

    /// Reduces a configuration to no more replicas than there are zones for.
    pub(crate) fn fitting(&self, configuration: Configuration) -> Configuration {
        self.0.fitting(configuration)
    }

    // What it can do.

    /// Sees to it that a majority of these is not destroyed.
    pub(crate) fn protect_coordinators(&self, processes: &[ProcessId]) {
        self.0.protect_coordinators(processes);
    }

    /// Kills, or does as much of it as is allowed. The length of a reboot is drawn from `stream`.
    pub(crate) fn kill(&self, target: &Target, kind: KillKind, stream: &Stream) {
        self.0.kill_drawing(target, kind, stream);
    }

    /// Draws what a kill would draw, and kills nothing.
    pub(crate) fn spare(&self, target: &Target, kind: KillKind, stream: &Stream) {
        self.0.spare_drawing(target, kind, stream);
    }

    /// Delays everything from one address to another.
    pub(crate) fn clog_pair(&self, from: IpAddr, to: IpAddr, seconds: f64) {
        self.0.kernel().clog_pair(from, to, seconds);
    }

    /// Delays everything from or to an address.
    pub(crate) fn clog_interface(&self, ip: IpAddr, mode: ClogMode, seconds: f64) {
        self.0.kernel().clog_interface(ip, mode, seconds);
    }

    /// Ends the clog of an address.
    pub(crate) fn unclog_interface(&self, ip: IpAddr) {
        self.0.kernel().unclog_interface(ip);
    }

    /// Stalls the disk of a process for this many seconds.
    pub(crate) fn stall_disk(&self, process: ProcessId, seconds: f64) {
        self.0.stall_disk(process, seconds);
    }

    /// Ends the current generation although nothing has failed.
    pub(crate) fn trigger_recovery(&self) {
        self.0.trigger_recovery();
    }

    /// Moves a range of keys to storage servers picked at random, unless something interrupts the
    /// move.
    pub(crate) async fn move_keys(&self, range: KeyRange) {
        self.0.move_keys(range).await;
    }
}
