//! A whole cluster: what it is made of, how it starts, how clients connect to it.

use crate::client::{Buggify, Connection, Database};
use crate::distributor::{self, Distributor};
use crate::knobs::Knobs;
use crate::process::Process;
use crate::process::exceptions::Announced;
use crate::proto::{KeyRange, OpenDatabase};
pub use crate::server::config::ClusterConfig;
use crate::server::controller::{Controller, Surroundings, WeakController};
use crate::server::coordinator::{self, Coordinators, Quorum};
use crate::server::distribution::BeginDistribution;
use crate::server::env::{Env, Instruments};
pub use crate::server::layout::EMBEDDED_CONNECTION_STRING;
use crate::server::layout::{Configuration, Layout, LayoutOptions};
use crate::server::worker;
use shaketable_kernel::{Boot, Endpoint, Kernel, NetworkConfig, ProcessId};
use std::cell::RefCell;
use std::rc::Rc;

pub mod kill;
pub mod replicas;

use kill::Losses;

/// A running cluster. Cheap to clone.
#[derive(Clone)]
pub struct Cluster(Rc<Inner>);

struct Inner {
    kernel: Kernel,
    instruments: Rc<Instruments>,
    layout: Rc<Layout>,
    servers: Rc<[ProcessId]>,
    clients: Clients,
    /// The newest controller, for fault injection. No process learns anything from here.
    controller: Rc<RefCell<WeakController>>,
    losses: Losses,
}

impl Cluster {
    /// Builds a cluster and starts it. It exists immediately but needs a moment until it answers;
    /// clients wait for it.
    pub fn start(kernel: &Kernel, config: ClusterConfig) -> Cluster {
        let instruments = Instruments::new(&config, kernel.stream("grv rejection"));
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
        let coordinators: Box<[ProcessId]> = config
            .layout
            .coordinators
            .iter()
            .map(|index| servers[*index])
            .collect();
        let losses = Losses::new(kernel, &coordinators);
        let addresses: Vec<String> = coordinators
            .iter()
            .map(|process| kernel.process(*process).address.to_string())
            .collect();
        let name = coordinator::connection_string(kernel.seed(), &addresses);
        let clients = Clients {
            kernel: kernel.clone(),
            instruments: instruments.clone(),
            coordinators: Rc::new(Quorum {
                number: 0,
                connection_string: name.into(),
                processes: coordinators,
            }),
            leader: Announced::default(),
        };
        let cluster = Cluster(Rc::new(Inner {
            kernel: kernel.clone(),
            instruments,
            layout: Rc::new(config.layout),
            servers,
            clients,
            controller: Rc::default(),
            losses,
        }));
        let boot = cluster.boot();
        for process in cluster.servers() {
            kernel.set_boot(*process, boot.clone());
            kernel.boot(*process);
        }
        cluster
    }

    /// What runs when a server process boots. It is given its own process, and where the others
    /// are.
    fn boot(&self) -> Boot {
        let instruments = self.0.instruments.clone();
        let (layout, servers) = (self.0.layout.clone(), self.0.servers.clone());
        let coordinators = self.0.clients.coordinators.clone();
        let (leader, client_leader) = (Announced::default(), self.leader());
        let begin_distribution = self.0.clients.begin_distribution(&self.0.controller);
        Rc::new(move |kernel, process| {
            let here = Process::new(kernel, process);
            let around = Surroundings {
                coordinators: Coordinators::new(&here, &coordinators),
                env: Env::new(here, &instruments),
                layout: layout.clone(),
                servers: servers.clone(),
                leader: leader.clone(),
                client_leader: client_leader.clone(),
                begin_distribution: begin_distribution.clone(),
            };
            coordinator::start(&around);
            worker::start(&around);
        })
    }

    /// Opens the cluster for the client on a process, which need not be one of the servers.
    pub fn open_database(&self, process: ProcessId, api_version: i32) -> Database {
        self.0.clients.open_database(process, api_version)
    }

    /// How buggify strikes in a client on that process.
    pub fn buggify_on(&self, process: ProcessId) -> Buggify {
        let instruments = self.0.instruments.clone();
        let here = Process::new(&self.0.kernel, process);
        Rc::new(move |site| instruments.buggify(&here, site))
    }

    /// Where clients find the cluster controller.
    pub fn leader(&self) -> Announced<Endpoint<OpenDatabase>> {
        self.0.clients.leader.clone()
    }

    /// The kernel it lives in.
    pub fn kernel(&self) -> &Kernel {
        &self.0.kernel
    }

    /// Whether faults are on.
    pub fn faults_enabled(&self) -> bool {
        self.0.instruments.faults_enabled()
    }

    /// Switches faults on or off, in the cluster and in the network. They are off at the beginning.
    /// While they are off clogs are ignored, nothing is killed, and the cluster heals.
    pub fn set_faults_enabled(&self, enabled: bool) {
        self.0.instruments.set_faults_enabled(enabled);
        self.kernel().set_faults_enabled(enabled);
        self.kernel().set_connection_failures(enabled);
    }

    /// Ends all faults for the rest of the run, also those of fault workloads that are under way:
    /// they do nothing any more.
    pub fn end_faults(&self) {
        self.set_faults_enabled(false);
        self.0.instruments.end_faults();
    }

    /// Whether all faults have ended for the rest of the run.
    pub(crate) fn have_faults_ended(&self) -> bool {
        self.0.instruments.have_faults_ended()
    }

    /// The current cluster controller, if there is one.
    pub(crate) fn controller(&self) -> Option<Controller> {
        self.0.controller.borrow().upgrade()
    }

    fn losses(&self) -> &Losses {
        &self.0.losses
    }

    /// The layout it was built from.
    pub fn layout(&self) -> &Layout {
        &self.0.layout
    }

    /// The current knobs.
    pub fn knobs(&self) -> Rc<Knobs> {
        self.0.instruments.knobs()
    }

    /// Changes knobs while the cluster runs. Operations under way keep the old ones.
    pub fn set_knobs(&self, knobs: Knobs) {
        self.0.instruments.live_knobs().set(knobs);
    }

    /// The places where buggify may strike in this run, among those that were reached.
    pub fn buggified_sites(&self) -> Vec<&'static str> {
        self.0.instruments.active_sites()
    }

    /// The server processes, in the order of the layout.
    pub fn servers(&self) -> &[ProcessId] {
        &self.0.servers
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
        let controller = self.controller();
        let first = || self.0.clients.coordinators.clone();
        let quorum = controller
            .as_ref()
            .map_or_else(first, |one| one.coordinators());
        let controller = controller.map(|controller| controller.process());
        quorum.processes.iter().copied().chain(controller).collect()
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
        let until = self.0.kernel.now().after(seconds);
        self.0.instruments.stall_disk(process, until);
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
    kernel: Kernel,
    instruments: Rc<Instruments>,
    /// The first ones.
    coordinators: Rc<Quorum>,
    leader: Announced<Endpoint<OpenDatabase>>,
}

impl Clients {
    fn open_database(&self, process: ProcessId, api_version: i32) -> Database {
        let kernel = &self.kernel;
        let seed = u128::from(kernel.seed());
        let process = Process::new(kernel, process);
        let (here, instruments) = (process.clone(), self.instruments.clone());
        let connection = Connection {
            api_version,
            knobs: self.instruments.live_knobs().clone(),
            has_shared_state: false,
            is_instant: self.instruments.is_instant(),
            buggify: Some(Rc::new(move |site| instruments.buggify(&here, site))),
            leader: self.leader.clone(),
            connection_string: self.coordinators.connection_string.to_string(),
            cluster_file_path: "fdb.cluster".into(),
            cluster_id: (seed << 64) | (seed ^ 0x5eed_0000_c1a5_7e45),
        };
        Database::open(process, connection)
    }

    /// Gives each controller its data distributor, and records that it is the newest one.
    fn begin_distribution(&self, newest: &Rc<RefCell<WeakController>>) -> BeginDistribution {
        let (clients, newest) = (self.clone(), newest.clone());
        Rc::new(move |controller| {
            newest.replace(controller.downgrade());
            let process = controller.process();
            let database = clients.open_database(process, distributor::API_VERSION);
            Distributor::new(controller, database)
        })
    }
}

/// The knobs that chance has chosen, each a decision.
fn decided(kernel: &Kernel, drawn: Knobs) -> Knobs {
    if !kernel.is_deciding() {
        return drawn;
    }
    let mut knobs = Knobs::default();
    let changed = drawn.changed().into_iter();
    let changed = changed.map(|changed| {
        let (name, value) = changed.split_once('=').expect("a name and a value");
        (name.to_owned(), value.to_owned())
    });
    for (name, value) in kernel.decide_values("knob", changed.collect()) {
        // A value that cannot be read leaves the knob as it is by default.
        let _ = knobs.set(&name, &value);
    }
    knobs
}

impl ClusterConfig {
    /// A cluster drawn from the kernel's seed, within what a test file says. With `buggify` the
    /// knobs are drawn too. Fails with the unknown word if a `configure` command has one.
    pub fn simulation(
        kernel: &Kernel,
        options: &LayoutOptions,
        buggify: bool,
    ) -> Result<ClusterConfig, String> {
        let decide =
            |name: &str, drawn, smallest| kernel.decide_number("cluster", name, drawn, smallest);
        let layout = Layout::draw(&kernel.stream("layout"), options, buggify, &decide)?;
        let mut knobs = Knobs::default();
        if buggify {
            knobs.buggify(&kernel.stream("knobs"));
        }
        let knobs = decided(kernel, knobs);
        Ok(ClusterConfig {
            layout,
            knobs,
            instant: false,
            buggify,
            stress: false,
            stress_factor: 1.0,
            rival_chance: 0.0,
            history: None,
            keeper: None,
            begins_after: 0,
        })
    }
}
