//! A whole cluster: what it is made of, how it starts, how clients connect to it.

use crate::client::{Connection, Database};
use crate::distributor::{self, Distributor};
use crate::knobs::Knobs;
use crate::proto::{KeyRange, OpenDatabase};
pub use crate::server::config::ClusterConfig;
use crate::server::controller::{Controller, Surroundings};
use crate::server::coordinator::{self, Coordinators};
use crate::server::election;
use crate::server::env::Env;
use crate::server::layout::{Configuration, Layout};
use crate::server::worker::{self, LeaderVar};
use shaketable_kernel::{AsyncVar, Endpoint, Kernel, NetworkConfig, ProcessId};
use std::rc::Rc;

pub mod kill;

use kill::Losses;

/// A running cluster. Cheap to clone.
#[derive(Clone)]
pub struct Cluster(Rc<Inner>);

struct Inner {
    around: Surroundings,
    clients: Clients,
    losses: Losses,
}

impl Cluster {
    /// Builds a cluster and starts it. It exists immediately but needs a moment until it answers;
    /// clients wait for it.
    pub fn start(kernel: &Kernel, config: ClusterConfig) -> Cluster {
        let env = Env::new(kernel, &config);
        if config.knobs.max_clogging_latency > 0.0 && !config.instant {
            kernel.set_network_config(NetworkConfig {
                pair_latency_seconds: config.knobs.max_clogging_latency,
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
        let clients = Clients {
            env: env.clone(),
            coordinators: coordinators.clone(),
            leader: client_leader.clone(),
        };
        let distributors = clients.clone();
        let cluster = Cluster(Rc::new(Inner {
            around: Surroundings {
                env: env.clone(),
                layout: Rc::new(config.layout),
                servers: servers.clone(),
                coordinators: Coordinators::new(kernel, coordinators),
                leader,
                client_leader,
                controller: Rc::default(),
                begin_distribution: Rc::new(move |controller| {
                    let process = controller.process();
                    let database = distributors.open_database(process, distributor::API_VERSION);
                    Distributor::new(controller, database)
                }),
            },
            clients,
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

    /// Opens the cluster for the client on a process, which need not be one of the servers.
    pub fn open_database(&self, process: ProcessId, api_version: i32) -> Database {
        self.0.clients.open_database(process, api_version)
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

    /// Switches faults on or off, in the cluster and in the network. They are off at the beginning.
    /// While they are off clogs are ignored, nothing is killed, and the cluster heals.
    pub fn set_faults_enabled(&self, enabled: bool) {
        self.0.around.env.set_faults_enabled(enabled);
        self.kernel().set_faults_enabled(enabled);
        self.kernel().set_connection_failures(enabled);
    }

    /// The current cluster controller, if there is one.
    pub(crate) fn controller(&self) -> Option<Controller> {
        self.0.around.controller.borrow().upgrade()
    }

    fn losses(&self) -> &Losses {
        &self.0.losses
    }

    /// The layout it was built from.
    pub fn layout(&self) -> &Layout {
        &self.0.around.layout
    }

    /// The current knobs.
    pub fn knobs(&self) -> Rc<Knobs> {
        self.0.around.env.knobs()
    }

    /// Changes knobs while the cluster runs. Operations under way keep the old ones.
    pub fn set_knobs(&self, knobs: Knobs) {
        self.0.around.env.live_knobs().set(knobs);
    }

    /// The places where buggify may strike in this run, among those that were reached.
    pub fn buggified_sites(&self) -> Vec<&'static str> {
        self.0.around.env.active_sites()
    }

    /// The server processes, in the order of the layout.
    pub fn servers(&self) -> &[ProcessId] {
        &self.0.around.servers
    }

    // For fault injection.

    /// Which process plays which role at the moment: `sequencer`, `commitproxy`, `grvproxy`,
    /// `resolver`, `tlog`, `storage`, `clustercontroller`. In the middle of a recovery only the
    /// last two are known.
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

    /// Reduces a configuration to no more replicas than there are zones for.
    pub fn fitting(&self, mut configuration: Configuration) -> Configuration {
        let zones = self.zones().len().max(1);
        configuration.log_replicas = configuration.log_replicas.min(zones);
        configuration.storage_replicas = configuration.storage_replicas.min(zones);
        configuration
    }

    /// Stalls the disk of a process for this many seconds.
    pub fn stall_disk(&self, process: ProcessId, seconds: f64) {
        self.0.around.env.stall_disk(process, seconds);
    }

    /// Moves a range of keys to storage servers picked at random. Returns whether it did: a
    /// recovery, or the death of one of them, may interrupt the move.
    pub async fn move_keys(&self, range: KeyRange) -> bool {
        let controller = self.controller();
        match controller.and_then(|controller| controller.distributor()) {
            Some(distributor) => distributor.move_at_random(range).await,
            None => false,
        }
    }
}

/// How clients reach the cluster.
#[derive(Clone)]
struct Clients {
    env: Env,
    coordinators: Rc<[ProcessId]>,
    leader: AsyncVar<Option<Endpoint<OpenDatabase>>>,
}

impl Clients {
    fn open_database(&self, process: ProcessId, api_version: i32) -> Database {
        let kernel = self.env.kernel();
        let addresses: Vec<String> = self
            .coordinators
            .iter()
            .map(|process| kernel.process(*process).address.to_string())
            .collect();
        let seed = u128::from(kernel.seed());
        let env = self.env.clone();
        let connection = Connection {
            process,
            api_version,
            knobs: self.env.live_knobs().clone(),
            is_instant: self.env.is_instant(),
            buggify: Some(Rc::new(move |site| env.buggify(site))),
            leader: self.leader.clone(),
            connection_string: format!("shaketable:{seed:016x}@{}", addresses.join(",")),
            cluster_file_path: "fdb.cluster".into(),
            cluster_id: (seed << 64) | (seed ^ 0x5eed_0000_c1a5_7e45),
        };
        Database::open(kernel, connection)
    }
}
