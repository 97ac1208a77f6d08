//! A whole cluster: what it is made of, how it starts, how a client comes to it.

use crate::checker::History;
use crate::client::{Connection, Database};
use crate::kill::Losses;
use crate::knobs::Knobs;
use crate::proto::OpenDatabase;
use crate::server::controller::{Controller, Surroundings};
use crate::server::coordinator::{self, Coordinators};
use crate::server::election;
use crate::server::env::Env;
use crate::server::layout::{Layout, LayoutOptions};
use crate::server::worker::{self, LeaderVar};
use shaketable_kernel::{AsyncVar, Endpoint, Kernel, ProcessId};
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
            history: None,
        })
    }
}

/// A running cluster. Cheap to clone.
#[derive(Clone)]
pub struct Cluster(Rc<Inner>);

struct Inner {
    around: Surroundings,
    knobs: Rc<Knobs>,
    losses: Losses,
}

impl Cluster {
    /// Builds a cluster and starts it. It is there at once but needs a moment until it answers; clients
    /// wait for it.
    pub fn start(kernel: &Kernel, config: ClusterConfig) -> Cluster {
        let env = Env::new(kernel, &config);
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
            knobs: Rc::new(config.knobs),
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
        let around = &self.0.around;
        let kernel = around.env.kernel();
        let addresses: Vec<String> = around
            .coordinators
            .processes
            .iter()
            .map(|process| kernel.process(*process).address.to_string())
            .collect();
        let seed = u128::from(kernel.seed());
        Database::open(
            kernel,
            Connection {
                process,
                api_version,
                knobs: self.0.knobs.clone(),
                is_instant: around.env.is_instant(),
                leader: around.client_leader.clone(),
                connection_string: format!("shaketable:{seed:016x}@{}", addresses.join(",")),
                cluster_file_path: "fdb.cluster".into(),
                cluster_id: (seed << 64) | (seed ^ 0x5eed_0000_c1a5_7e45),
            },
        )
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
    }

    /// Whoever leads at the moment, if anybody does.
    pub(crate) fn controller(&self) -> Option<Controller> {
        self.0.around.controller.borrow().clone()
    }

    pub(crate) fn losses(&self) -> &Losses {
        &self.0.losses
    }

    /// The layout it was built from.
    pub fn layout(&self) -> &Layout {
        &self.0.around.layout
    }

    /// Its knobs.
    pub fn knobs(&self) -> &Knobs {
        &self.0.knobs
    }

    /// The places where buggify may strike in this run, of those that were reached.
    pub fn buggified_sites(&self) -> Vec<&'static str> {
        self.0.around.env.active_sites()
    }

    /// The server processes, in the order of the layout.
    pub fn servers(&self) -> &[ProcessId] {
        &self.0.around.servers
    }
}
