//! The cluster controller: watches over the generation and begins the next one.
//!
//! It tells clients and servers which process plays which role, and when a role of the current
//! generation fails it starts a recovery (see [`crate::server::recovery`]). It stores nothing
//! itself: a new controller reads what it needs from the coordinators and the logs.

use crate::knobs::Knobs;
use crate::process::Process;
use crate::process::exceptions::Announced;
use crate::proto::{ClientDbInfo, OpenDatabase};
use crate::server::coordinator::{Coordinators, CoreState, Outvoted, Quorum};
use crate::server::distribution::{BeginDistribution, DataDistributor};
use crate::server::env::Env;
use crate::server::layout::Layout;
use crate::server::messages::{
    ChangeCoordinators, Epoch, GetServerDbInfo, ServerDbInfo, UpdateStorages,
};
use crate::server::recovery::{self, Generation};
use crate::server::role::{Role, WaitFailure};
use crate::server::worker::Leader;
use shaketable_kernel::{
    Disconnected, Endpoint, Event, First, Notify, Priority, ProcessId, Reply, Time, first_of,
};
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

/// How long a failure must last before the controller acts on it, in seconds.
const FAILURE_REACTION: f64 = 0.4;
/// How many servers the controller informs of a generation; these inform the others.
const DBINFO_SEND_AMOUNT: usize = 5;
/// The pause before a recovery that failed is tried again, in seconds.
const RETRY_DELAY: f64 = 0.5;
/// By how much a change of coordinators may be held up on purpose, in seconds.
const SLOW_CHANGE: f64 = 5.0;
/// How long a controller waits for servers that have not found the new coordinators, in seconds.
const SERVERS_RETURN: f64 = 10.0;

/// What a controller is given when it begins.
#[derive(Clone)]
pub struct Surroundings {
    /// Its process, and the instruments of the run.
    pub env: Env,
    /// What the cluster was laid out as.
    pub layout: Rc<Layout>,
    /// The server processes, in the order of the layout.
    pub servers: Rc<[ProcessId]>,
    /// The coordinators, which remember the generation.
    pub coordinators: Coordinators,
    /// Where servers find the controller.
    pub leader: Announced<Leader>,
    /// Where clients find it.
    pub client_leader: Announced<Endpoint<OpenDatabase>>,
    /// How a controller gets its data distributor.
    pub begin_distribution: BeginDistribution,
}

/// A controller, as fault injection sees it.
#[derive(Clone)]
pub struct Controller(Rc<Inner>);

struct Inner {
    role: Role,
    around: Surroundings,
    generation: RefCell<Option<Rc<Generation>>>,
    core: RefCell<Rc<CoreState>>,
    revision: RefCell<u64>,
    server_info: RefCell<Option<Rc<ServerDbInfo>>>,
    clients: RefCell<Vec<(u64, Reply<ClientDbInfo>)>>,
    servers: RefCell<Vec<(u64, Reply<Rc<ServerDbInfo>>)>>,
    recover: Notify,
    /// The coordinators that a commit proxy has asked for.
    asked_for: RefCell<Option<Rc<Quorum>>>,
    distributor: RefCell<Option<Weak<dyn DataDistributor>>>,
    /// When the servers were last informed, and which of them are informed later.
    broadcast_at: Cell<Time>,
    late: RefCell<Vec<ProcessId>>,
    replicated: Cell<bool>,
}

/// Starts the controller on a process and announces it to servers and clients.
pub fn start(around: &Surroundings) {
    let role = Role::new(&around.env, Priority::ClusterController);
    let controller = Controller(Rc::new(Inner {
        role: role.clone(),
        around: around.clone(),
        generation: RefCell::default(),
        core: RefCell::default(),
        revision: RefCell::default(),
        server_info: RefCell::default(),
        clients: RefCell::default(),
        servers: RefCell::default(),
        recover: Notify::new(),
        asked_for: RefCell::default(),
        distributor: RefCell::default(),
        broadcast_at: Cell::new(Time::ZERO),
        late: RefCell::default(),
        replicated: Cell::new(false),
    }));
    let [for_clients, for_servers, for_changes, runner] = [(); 4].map(|()| controller.clone());
    let mut unanswered = Vec::new();
    let orders = role.serve(move |request: ChangeCoordinators, reply| {
        for_changes.receive_change(&request);
        unanswered.push(reply);
    });
    let open_database = role.serve(move |request: OpenDatabase, reply| {
        for_clients
            .0
            .clients
            .borrow_mut()
            .push((request.known_generation, reply));
        for_clients.answer();
    });
    let server_info = role.serve(move |request: GetServerDbInfo, reply| {
        for_servers
            .0
            .servers
            .borrow_mut()
            .push((request.known_revision, reply));
        for_servers.answer();
    });
    let here = around.env.process();
    around.leader.announce(Leader {
        process: here.id(),
        incarnation: here.incarnation(),
        server_info,
    });
    around.client_leader.announce(open_database);
    let replaced = around.leader.on_change();
    let stopping = role.clone();
    role.spawn(async move {
        replaced.await;
        stopping.stop();
    });
    let distributor = (around.begin_distribution)(&controller);
    let weak = Rc::downgrade(&distributor);
    controller.0.distributor.replace(Some(weak));
    role.spawn(async move {
        let _distributor = distributor; // holds the controller, which must not hold it
        runner.run(&orders).await;
    });
}

/// A controller that is not kept alive by this handle: its own tasks do that, and they end with its
/// process.
#[derive(Clone, Default)]
pub struct WeakController(Weak<Inner>);

impl WeakController {
    /// Returns the controller, if it still exists.
    pub fn upgrade(&self) -> Option<Controller> {
        self.0.upgrade().map(Controller)
    }
}

impl Controller {
    /// A handle that does not keep it alive.
    pub fn downgrade(&self) -> WeakController {
        WeakController(Rc::downgrade(&self.0))
    }

    /// The current generation, once recovered.
    pub fn generation(&self) -> Option<Rc<Generation>> {
        self.0.generation.borrow().clone()
    }

    /// What the coordinators know, as far as this controller knows it.
    pub fn core(&self) -> Rc<CoreState> {
        self.0.core.borrow().clone()
    }

    /// The coordinators, as far as this controller knows.
    pub fn coordinators(&self) -> Rc<Quorum> {
        self.0.around.coordinators.known()
    }

    /// The process it runs on.
    pub fn process(&self) -> ProcessId {
        self.0.role.process()
    }

    /// The current knobs.
    pub fn knobs(&self) -> Rc<Knobs> {
        self.0.around.env.knobs()
    }

    /// The server processes.
    pub fn servers(&self) -> &[ProcessId] {
        &self.0.around.servers
    }

    /// Its data distributor.
    pub fn distributor(&self) -> Option<Rc<dyn DataDistributor>> {
        self.0.distributor.borrow().as_ref()?.upgrade()
    }

    /// Whether every shard is known to have all its replicas, as of the last look in this
    /// generation.
    pub fn is_replicated(&self) -> bool {
        self.0.replicated.get()
    }

    /// Records whether every shard has all its replicas.
    pub fn set_replicated(&self, replicated: bool) {
        self.0.replicated.set(replicated);
    }

    /// Runs a task that ends with the controller.
    pub fn spawn(&self, future: impl Future<Output = ()> + 'static) {
        self.0.role.spawn(future);
    }

    /// Changes what the coordinators know of the storage servers, and informs servers and proxies.
    pub async fn write_core(&self, core: CoreState) -> Result<(), Outvoted> {
        let Some(generation) = self.generation() else {
            return Err(Outvoted);
        };
        let core = Rc::new(core);
        self.0
            .around
            .coordinators
            .write(generation.epoch, core.clone())
            .await?;
        if self
            .generation()
            .is_none_or(|now| now.epoch != generation.epoch)
        {
            return Err(Outvoted);
        }
        self.0.core.replace(core);
        self.publish_servers(&generation);
        let here = self.0.around.env.process();
        let storages = self.0.core.borrow().interfaces(here);
        for proxy in &generation.commit_proxies {
            here.send(&proxy.update_storages, UpdateStorages(storages.clone()));
        }
        Ok(())
    }

    /// Ends the current generation although nothing has failed.
    pub fn trigger_recovery(&self) {
        self.0.recover.notify_all();
    }

    /// Begins generation after generation. Commit proxies ask for other coordinators at `orders`.
    async fn run(&self, orders: &Endpoint<ChangeCoordinators>) {
        let here = self.0.around.env.process().clone();
        let mut ballot = 1;
        loop {
            self.record_recovery(0, "reading_coordinated_state");
            let recovered = recovery::recover(&self.0.around, &mut ballot, orders).await;
            let Ok(generation) = recovered else {
                here.sleep(RETRY_DELAY).await;
                continue;
            };
            let generation = Rc::new(generation);
            self.0.core.replace(generation.core.clone());
            self.publish(generation.clone());
            self.record_recovery(11, "accepting_commits");
            let distribution = self
                .distributor()
                .map(|distributor| here.spawn(Priority::DataDistribution, distributor.run()));
            let triggered = self.0.recover.notified();
            if let First::Left(()) = first_of(self.any_failure(&generation), triggered).await {
                here.sleep(FAILURE_REACTION).await;
            }
            drop(distribution);
            self.set_replicated(false);
            self.0.generation.replace(None);
            if let Some(successor) = self.0.asked_for.take() {
                self.change_coordinators(generation.epoch, &successor).await;
            }
        }
    }

    /// Notes a wish for other coordinators, and ends the generation for it.
    fn receive_change(&self, request: &ChangeCoordinators) {
        let is_current = |generation: Rc<Generation>| generation.epoch == request.epoch;
        if !self.generation().is_some_and(is_current) {
            return;
        }
        let around = &self.0.around;
        let here = around.env.process();
        let text = String::from_utf8_lossy(&request.connection_string);
        let (_, addresses) = text.split_once('@').unwrap_or_default();
        let server = |address: &str| {
            let is_it =
                |server: &&ProcessId| here.describe(**server).address.to_string() == address;
            around.servers.iter().find(is_it).copied()
        };
        let processes: Option<Box<[ProcessId]>> = addresses.split(',').map(server).collect();
        // Coordinators that do not exist cannot be had: all that comes of it is a new generation.
        self.0.asked_for.replace(processes.map(|processes| {
            Rc::new(Quorum {
                number: request.epoch,
                connection_string: text.into(),
                processes,
            })
        }));
        self.trigger_recovery();
    }

    /// Moves what the coordinators know to others. If that fails, the next recovery finds out
    /// whether it has happened.
    async fn change_coordinators(&self, epoch: Epoch, successor: &Rc<Quorum>) {
        let around = &self.0.around;
        let here = around.env.process();
        if around.env.buggify("coordinators change slowly") {
            here.sleep(SLOW_CHANGE).await;
        }
        let moved = around.coordinators.move_to(epoch, self.core(), successor);
        if moved.await.is_err() {
            return;
        }
        if around.env.buggify("old coordinators retire slowly") {
            here.sleep(SLOW_CHANGE).await;
        }
        // Servers look for a controller at the new coordinators, and register with it. It recruits
        // nobody before they are back.
        let told = Coordinators::tell(here, &around.servers, successor);
        here.timeout(SERVERS_RETURN, told).await;
    }

    /// Records how far a recovery has come, in FoundationDB's words.
    fn record_recovery(&self, code: u32, status: &'static str) {
        let here = self.0.around.env.process();
        here.record(|| Event::User {
            name: "MasterRecoveryState".into(),
            details: vec![
                (
                    "Machine".into(),
                    here.describe(here.id()).address.to_string(),
                ),
                ("StatusCode".into(), code.to_string()),
                ("Status".into(), status.to_owned()),
            ],
        });
    }

    fn publish(&self, generation: Rc<Generation>) {
        self.publish_servers(&generation);
        self.0.generation.replace(Some(generation));
        self.answer();
    }

    fn publish_servers(&self, generation: &Generation) {
        let mut revision = self.0.revision.borrow_mut();
        *revision = (*revision + 1).max(generation.epoch << 16);
        let core = self.0.core.borrow();
        self.0.server_info.replace(Some(Rc::new(ServerDbInfo {
            revision: *revision,
            epoch: generation.epoch,
            beginnings: core.beginnings.clone().into(),
            logs: generation.logs.clone(),
            storages: core.interfaces(self.0.around.env.process()),
            quorum: self.0.around.coordinators.known(),
        })));
        drop(revision);
        self.broadcast();
    }

    /// Informs the servers of the newest generation. A real controller informs a few, which inform
    /// the others: servers behind a dead one learn of it only once that one has been given up.
    fn broadcast(&self) {
        let here = self.0.around.env.process();
        let servers = &self.0.around.servers;
        self.0.broadcast_at.set(here.now());
        let segment = servers.len().div_ceil(DBINFO_SEND_AMOUNT).max(1);
        let late: Vec<ProcessId> = servers
            .chunks(segment)
            .filter(|segment| !here.is_truly_alive(segment[0]))
            .flatten()
            .copied()
            .collect();
        let anybody = !late.is_empty() && !self.0.around.env.is_instant();
        self.0.late.replace(late);
        if anybody {
            let controller = self.downgrade();
            let delay = self.0.around.env.knobs().dbinfo_failed_delay;
            let clock = here.clone();
            here.call_after(delay, move || {
                let controller = controller.upgrade();
                let newest = controller.filter(|controller| {
                    let delayed = clock.now().since(controller.0.broadcast_at.get());
                    delayed >= delay
                });
                if let Some(controller) = newest {
                    controller.0.late.take();
                    controller.answer();
                }
            });
        }
        self.answer();
    }

    /// Answers every request that does not know the newest state yet.
    fn answer(&self) {
        if let Some(generation) = &*self.0.generation.borrow() {
            let mut clients = self.0.clients.borrow_mut();
            let due = clients.extract_if(.., |(known, _)| *known != generation.epoch);
            for (_, reply) in due {
                reply.send(generation.client_info.clone());
            }
        }
        if let Some(info) = &*self.0.server_info.borrow() {
            let mut servers = self.0.servers.borrow_mut();
            let late = self.0.late.borrow();
            let due = servers.extract_if(.., |(known, reply)| {
                *known < info.revision && !late.contains(&reply.from())
            });
            for (_, reply) in due {
                reply.send(info.clone());
            }
        }
    }

    /// Waits until some role of a generation has failed.
    async fn any_failure(&self, generation: &Generation) {
        let failed = Notify::new();
        let waiting = failed.notified();
        let watchers: Vec<_> = generation
            .failures
            .iter()
            .map(|endpoint| {
                let here = self.0.around.env.process().clone();
                let (endpoint, failed) = (endpoint.clone(), failed.clone());
                here.clone().spawn(Priority::FailureMonitor, async move {
                    wait_for_failure(&here, &endpoint).await;
                    failed.notify_all();
                })
            })
            .collect();
        waiting.await;
        drop(watchers);
    }
}

/// Waits for the end of a role, or until its process has been silent for too long.
async fn wait_for_failure(here: &Process, endpoint: &Endpoint<WaitFailure>) {
    loop {
        let silent = here.on_failed(endpoint.process());
        match first_of(here.request_reliably(endpoint, WaitFailure), silent).await {
            First::Left(Ok(()) | Err(Disconnected::Refused)) | First::Right(()) => return,
            // The connection may have broken while the role lives: ask again, which fails if the
            // role has ended.
            First::Left(Err(Disconnected::MaybeDelivered)) => {}
        }
    }
}
