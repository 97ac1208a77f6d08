//! A whole cluster: what it is made of, how it starts, how a client comes to it.

use crate::client::Database;
use crate::history::History;
use crate::kill::Losses;
use crate::knobs::Knobs;
use crate::proto::{KeyRange, OpenDatabase};
use crate::server::controller::{Controller, Surroundings};
use crate::server::coordinator::{self, Coordinators};
use crate::server::election;
use crate::server::env::Env;
use crate::server::layout::{Configuration, Layout, LayoutOptions};
use crate::server::worker::{self, LeaderVar};
use shaketable_kernel::{AsyncVar, Endpoint, Kernel, NetworkConfig, ProcessId};
use std::rc::Rc;

/// What a cluster is to be.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// Its processes and roles.
    pub layout: Layout,
    /// Its numbers.
    pub knobs: Knobs,
    /// Whether nobody waits on purpose.
    pub instant: bool,
    /// Whether rare and nasty code paths are taken on purpose.
    pub buggify: bool,
    /// Whether rare but legal outcomes are frequent; see [`ClusterConfig::under_stress`].
    pub stress: bool,
    /// Where the cluster writes down what commits, for a checker.
    pub history: Option<History>,
}

impl ClusterConfig {
    /// One process with one replica, for a database inside an ordinary program; `instant` leaves all
    /// artificial waits out.
    pub fn single_process(instant: bool) -> ClusterConfig {
        ClusterConfig {
            layout: Layout::single_process(),
            knobs: Knobs::default(),
            instant,
            buggify: false,
            stress: false,
            history: None,
        }
    }

    /// A cluster drawn from the kernel's seed, within what a test file says. With `buggify` the knobs
    /// are drawn too. Fails with the word of a `configure` command that nobody knows.
    pub fn simulation(
        kernel: &Kernel,
        options: &LayoutOptions,
        buggify: bool,
    ) -> Result<ClusterConfig, String> {
        let layout = Layout::draw(&kernel.stream("layout"), options, buggify)?;
        let mut knobs = Knobs::default();
        if buggify {
            knobs.buggify(&kernel.stream("knobs"));
        }
        Ok(ClusterConfig {
            layout,
            knobs,
            instant: false,
            buggify,
            stress: false,
            history: None,
        })
    }
}

impl ClusterConfig {
    /// The same, but worse than production: what clients see rarely even under faults they see all the time, while faults
    /// are on. Everything stays legal.
    pub fn under_stress(mut self) -> ClusterConfig {
        self.stress = true;
        crate::stress::set_knobs(&mut self.knobs);
        self
    }
}

/// A running cluster. Cheap to clone.
#[derive(Clone)]
pub struct Cluster(Rc<Inner>);

struct Inner {
    around: Surroundings,
    losses: Losses,
}

impl Cluster {
    /// Builds a cluster and starts it. It is there at once but needs a moment until it answers; clients
    /// wait for it.
    pub fn start(kernel: &Kernel, config: ClusterConfig) -> Cluster {
        let env = Env::new(kernel, &config);
        if config.knobs.max_clogging_latency > 0.0 && !config.instant {
            kernel.set_network_config(NetworkConfig {
                pair_latency: config.knobs.max_clogging_latency,
                ..kernel.network_config()
            });
        }
        let servers: Rc<[ProcessId]> = config
            .layout
            .processes
            .iter()
            .map(|spec| kernel.add_process(spec.clone()))
            .collect();
        let coordinators: Rc<[ProcessId]> = config
            .layout
            .coordinators
            .iter()
            .map(|index| servers[*index])
            .collect();
        let losses = Losses::new(kernel, &coordinators);
        let leader: LeaderVar = AsyncVar::new(None);
        let client_leader: AsyncVar<Option<Endpoint<OpenDatabase>>> = AsyncVar::new(None);
        let cluster = Cluster(Rc::new(Inner {
            around: Surroundings {
                env: env.clone(),
                layout: Rc::new(config.layout),
                servers: servers.clone(),
                coordinators: Coordinators::new(kernel, coordinators),
                leader,
                client_leader,
                controller: Rc::default(),
            },
            losses,
        }));
        for process in servers.iter() {
            let around = cluster.0.around.clone();
            let boot = move |_: &Kernel, process: ProcessId| {
                if around.coordinators.processes.contains(&process) {
                    coordinator::start(&around.env, process);
                    election::start(&around, process);
                }
                worker::start(&around, process);
            };
            kernel.set_boot(*process, Rc::new(boot));
            kernel.boot(*process);
        }
        cluster
    }

    /// Opens the cluster for the client on a process, which need not be one of the servers'.
    pub fn open_database(&self, process: ProcessId, api_version: i32) -> Database {
        self.0.around.open_database(process, api_version)
    }

    /// Where clients find the cluster controller.
    pub fn leader(&self) -> AsyncVar<Option<Endpoint<OpenDatabase>>> {
        self.0.around.client_leader.clone()
    }

    /// The kernel it lives in.
    pub fn kernel(&self) -> &Kernel {
        self.0.around.env.kernel()
    }

    /// Whether faults are on.
    pub fn faults_enabled(&self) -> bool {
        self.0.around.env.faults_enabled()
    }

    /// Switches faults on or off, in the cluster and in the network. They are off at the beginning. While they
    /// are off clogs are ignored, nothing is killed, and the cluster heals.
    pub fn set_faults_enabled(&self, enabled: bool) {
        self.0.around.env.set_faults_enabled(enabled);
        self.kernel().set_faults_enabled(enabled);
        self.kernel().set_connection_failures(enabled);
    }

    /// Whoever leads at the moment, if anybody does.
    pub(crate) fn controller(&self) -> Option<Controller> {
        self.0.around.controller.borrow().upgrade()
    }

    pub(crate) fn losses(&self) -> &Losses {
        &self.0.losses
    }

    /// The layout it was built from.
    pub fn layout(&self) -> &Layout {
        &self.0.around.layout
    }

    /// The knobs that hold now.
    pub fn knobs(&self) -> Rc<Knobs> {
        self.0.around.env.knobs()
    }

    /// Changes knobs while the cluster runs. What is under way was begun with the old ones.
    pub fn set_knobs(&self, knobs: Knobs) {
        self.0.around.env.live_knobs().set(knobs);
    }

    /// The places where buggify may strike in this run, of those that were reached.
    pub fn buggified_sites(&self) -> Vec<&'static str> {
        self.0.around.env.active_sites()
    }

    /// The server processes, in the order of the layout.
    pub fn servers(&self) -> &[ProcessId] {
        &self.0.around.servers
    }

    // For those who make trouble.

    /// Who plays which role at the moment: `sequencer`, `commitproxy`, `grvproxy`, `resolver`, `tlog`, `storage`,
    /// `clustercontroller`. In the middle of a recovery only the last two are known.
    pub fn roles(&self) -> Vec<(&'static str, ProcessId)> {
        let Some(controller) = self.controller() else {
            return Vec::new();
        };
        let mut roles = vec![("clustercontroller", controller.process())];
        roles.extend(
            controller
                .core()
                .storages
                .iter()
                .map(|(_, process)| ("storage", *process)),
        );
        if let Some(generation) = controller.generation() {
            roles.extend(&generation.roles);
        }
        roles
    }

    /// The number of the current generation; `None` in the middle of a recovery.
    pub fn epoch(&self) -> Option<u64> {
        Some(self.controller()?.generation()?.epoch)
    }

    /// The coordinators, and the controller.
    pub fn coordinators_and_controller(&self) -> Vec<ProcessId> {
        let controller = self.controller().map(|controller| controller.process());
        self.0
            .around
            .coordinators
            .processes
            .iter()
            .copied()
            .chain(controller)
            .collect()
    }

    /// Ends the current generation although nothing has failed.
    pub fn trigger_recovery(&self) {
        if let Some(controller) = self.controller() {
            controller.trigger_recovery();
        }
    }

    /// A configuration with no more replicas than there are zones for.
    pub fn fitting(&self, mut configuration: Configuration) -> Configuration {
        let zones = self.zones().len().max(1);
        configuration.log_replicas = configuration.log_replicas.min(zones);
        configuration.storage_replicas = configuration.storage_replicas.min(zones);
        configuration
    }

    /// Lets the disk of a process stand still for so many seconds.
    pub fn stall_disk(&self, process: ProcessId, seconds: f64) {
        self.0.around.env.stall_disk(process, seconds);
    }

    /// Moves a range of keys to storage servers picked at random. Says whether it did: a recovery, or the death of
    /// one of them, may come between.
    pub async fn move_keys(&self, range: KeyRange) -> bool {
        let mover = self.controller().and_then(|controller| controller.mover());
        match mover {
            Some(mover) => mover.move_at_random(&range).await.is_ok(),
            None => false,
        }
    }
}
