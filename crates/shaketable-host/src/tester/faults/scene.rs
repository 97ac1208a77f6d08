//! What faults act on: the cluster, by zones and roles.

use crate::tester::run::Run;
use crate::tester::stage::Stage;
use shaketable_cluster::cluster::Cluster;
use shaketable_kernel::{Kernel, KillKind, ProcessId, Stream};
use std::rc::Rc;

/// The surroundings of one fault.
pub(in crate::tester) struct Scene {
    pub(in crate::tester) run: Rc<Run>,
    pub(in crate::tester) stage: Stage,
    pub(in crate::tester) cluster: Cluster,
    /// The draws of this fault alone.
    pub(in crate::tester) random: Stream,
}

impl Scene {
    pub(super) fn kernel(&self) -> &Kernel {
        &self.run.kernel
    }

    /// The zones that can be hit, sorted.
    pub(super) fn zones(&self) -> Vec<String> {
        let mut zones: Vec<String> = self
            .cluster
            .servers()
            .iter()
            .map(|process| self.kernel().process(*process).zone.clone())
            .collect();
        zones.sort();
        zones.dedup();
        zones
    }

    /// The datacenters, sorted.
    pub(super) fn datacenters(&self) -> Vec<String> {
        let servers = self.cluster.servers().iter();
        let mut datacenters: Vec<String> = servers
            .map(|process| self.kernel().process(*process).datacenter.clone())
            .collect();
        datacenters.sort();
        datacenters.dedup();
        datacenters
    }

    /// Kills a zone, or what of it may be killed.
    pub(super) fn kill_zone(&self, zone: &str, _kind: KillKind) {
        for process in self.servers_of(|spec| spec.zone == zone) {
            self.kernel().reboot(
                process,
                KillKind::Reboot,
                self.random.range(4.0, 5.0) + self.random.uniform() * 10.0,
            );
        }
    }

    /// Kills a datacenter, or what of it may be killed.
    pub(super) fn kill_datacenter(&self, datacenter: &str, _kind: KillKind) {
        for process in self.servers_of(|spec| spec.datacenter == datacenter) {
            self.kernel().reboot(
                process,
                KillKind::Reboot,
                self.random.range(4.0, 5.0) + self.random.uniform() * 10.0,
            );
        }
    }

    /// Kills one process, or reboots it.
    pub(super) fn kill_process(&self, process: ProcessId, _kind: KillKind) {
        self.kernel().reboot(
            process,
            KillKind::RebootProcess,
            self.random.range(4.0, 5.0),
        );
    }

    /// Reboots one process of a zone, or all of them one by one.
    pub(super) fn reboot_processes(&self, zone: &str, one: bool) {
        let processes = self.servers_of(|spec| spec.zone == zone);
        if one {
            self.kill_process(*self.random.pick(&processes), KillKind::RebootProcess);
        } else {
            for process in processes {
                self.kill_process(process, KillKind::RebootProcess);
            }
        }
    }

    pub(super) fn commit_proxies(&self) -> Vec<ProcessId> {
        self.players("commit_proxy")
    }

    pub(super) fn logs(&self) -> Vec<ProcessId> {
        self.players("log")
    }

    /// Changes the configuration by a `configure` command.
    pub(super) async fn configure(&self, command: &str) {
        let mut configuration = self.cluster.layout().configuration;
        if let Err(word) = configuration.configure(command) {
            self.run.fail_host(format!(
                "`configMode` of ChangeConfig has the word `{word}`, which is not known"
            ));
            return;
        }
        self.stage.write_system_keys(configuration.write()).await;
    }

    /// Moves the coordinators. What a client can notice of that is the recovery it costs.
    pub(super) async fn change_coordinators(&self) {
        let configuration = self.cluster.layout().configuration;
        self.stage.write_system_keys(configuration.write()).await;
    }

    fn players(&self, _role: &str) -> Vec<ProcessId> {
        Vec::new()
    }

    fn servers_of(
        &self,
        is_meant: impl Fn(&shaketable_kernel::ProcessSpec) -> bool,
    ) -> Vec<ProcessId> {
        let servers = self.cluster.servers().iter().copied();
        servers
            .filter(|process| is_meant(&self.kernel().process(*process)))
            .collect()
    }
}
