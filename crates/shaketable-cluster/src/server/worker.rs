//! The worker: runs on every server process, and plays the roles it is asked to play.
//!
//! When a process boots its worker looks at the disk: a storage server continues, and logs of
//! earlier generations wait to be locked by a recovery. The worker follows the cluster controller
//! to learn of generations, and stops the roles of generations that are over.

use crate::process::Process;
use crate::process::exceptions::Announced;
use crate::proto::{GrvProxyInterface, Version};
use crate::server::commit_proxy::{self, CommitProxyHandle, CommitProxySpec};
use crate::server::controller::{self, Surroundings};
use crate::server::coordinator::Coordinators;
use crate::server::env::Env;
use crate::server::grv_proxy::{self, GrvProxySpec};
use crate::server::log::{self, LogDisk, LogHandle};
use crate::server::messages::{
    DatabaseState, Epoch, GetServerDbInfo, LockLog, LockedLog, LogInterface, ServerDbInfo, Tag,
};
use crate::server::resolver::{self, ResolverInterface};
use crate::server::role::{Role, WaitFailure};
use crate::server::sequencer::{self, SequencerInterface};
use crate::server::storage::{self, StorageDisk};
use shaketable_kernel::{AsyncVar, Endpoint, First, Priority, ProcessId, Request, first_of};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The cluster controller as servers see it.
#[derive(Clone, Debug)]
pub struct Leader {
    /// Its process.
    pub process: ProcessId,
    /// The life of that process in which it leads.
    pub incarnation: u32,
    /// Generations.
    pub server_info: Endpoint<GetServerDbInfo>,
}

/// Asks a worker to be the cluster controller.
#[derive(Debug)]
pub struct Lead;
impl Request for Lead {
    type Reply = ();
}

/// Asks a worker which storage server it has.
#[derive(Debug)]
pub struct GetStorageTag;
impl Request for GetStorageTag {
    type Reply = Option<Tag>;
}

/// The endpoint of a process's worker for [`GetStorageTag`].
pub fn storage_tag_endpoint(here: &Process, process: ProcessId) -> Endpoint<GetStorageTag> {
    here.well_known_endpoint(process, "worker storage tag")
}

/// Asks a worker to play a role.
#[derive(Debug)]
pub enum Recruit {
    /// The sequencer, continuing after a version.
    Sequencer(Epoch, Version, DatabaseState),
    /// A resolver, continuing after a version, for this many proxies.
    Resolver(Epoch, Version, usize),
    /// A log with an identity, beginning with what the previous generation left behind.
    Log(Epoch, u64, Version, Rc<LockedLog>),
    /// A commit proxy.
    CommitProxy(Epoch, Box<CommitProxySpec>),
    /// A GRV proxy.
    GrvProxy(Epoch, GrvProxySpec),
    /// An empty storage server, if there is none yet.
    Storage(Tag),
}
impl Request for Recruit {
    type Reply = Recruited;
}

/// A role that has begun.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum Recruited {
    Sequencer(SequencerInterface),
    Resolver(ResolverInterface),
    Log(LogInterface, Endpoint<WaitFailure>),
    CommitProxy(CommitProxyHandle),
    GrvProxy(GrvProxyInterface, Endpoint<WaitFailure>),
    /// The identity of the process's storage server: the requested one, or one that existed
    /// already.
    Storage(Tag),
}

/// The endpoint of a process's worker for [`Recruit`].
pub fn recruit_endpoint(here: &Process, process: ProcessId) -> Endpoint<Recruit> {
    here.well_known_endpoint(process, "worker recruit")
}

/// The endpoint of a process's worker for [`LockLog`].
pub fn lock_log_endpoint(here: &Process, process: ProcessId) -> Endpoint<LockLog> {
    here.well_known_endpoint(process, "worker lock log")
}

struct Worker {
    env: Env,
    coordinators: Coordinators,
    info: AsyncVar<Option<Rc<ServerDbInfo>>>,
    /// Roles that end with their generation.
    roles: RefCell<Vec<(Epoch, Role)>>,
    logs: RefCell<BTreeMap<u64, (Role, LogHandle)>>,
}

/// Starts the worker of a process: called at every boot.
pub fn start(around: &Surroundings) {
    let env = &around.env;
    let worker = Rc::new(Worker {
        env: env.clone(),
        coordinators: around.coordinators.clone(),
        info: AsyncVar::new(None),
        roles: RefCell::default(),
        logs: RefCell::default(),
    });
    let role = Role::new(env, Priority::DefaultEndpoint);
    let disk = env.process().disk();
    if let Some(storage) = disk.get::<RefCell<StorageDisk>>(storage::DISK_NAME) {
        storage.borrow_mut().lose_memory();
        worker.start_storage(storage);
    }
    for name in disk.names() {
        if name.starts_with("log ") {
            let log: Rc<RefCell<LogDisk>> = disk.get(&name).expect("the name was listed");
            log.borrow_mut().lose_memory();
            worker.start_log(log, false);
        }
    }
    let [for_recruit, for_lock] = [(); 2].map(|()| worker.clone());
    role.serve_well_known("worker recruit", move |recruit, reply| {
        reply.send(for_recruit.recruit(recruit));
    });
    role.serve_well_known("worker lock log", move |LockLog { id, epoch }, reply| {
        let logs = for_lock.logs.borrow();
        // A log that is gone, or that a later recovery has locked, sends no answer.
        if let Some(locked) = logs.get(&id).and_then(|(_, log)| log.lock(epoch)) {
            reply.send(locked);
        }
    });
    let storage_disk = disk.clone();
    role.serve_well_known("worker storage tag", move |GetStorageTag, reply| {
        let storage = storage_disk.get::<RefCell<StorageDisk>>(storage::DISK_NAME);
        reply.send(storage.map(|storage| storage.borrow().tag));
    });
    let for_lead = around.clone();
    role.serve_well_known("worker lead", move |Lead, reply| {
        controller::start(&for_lead);
        reply.send(());
    });
    let leader = around.leader.clone();
    role.spawn(async move {
        worker.coordinators.find_leader().await;
        worker.follow(leader).await;
    });
}

impl Worker {
    fn recruit(&self, recruit: Recruit) -> Recruited {
        let role = |epoch: Epoch, priority: Priority| {
            let role = Role::new(&self.env, priority);
            self.roles.borrow_mut().push((epoch, role.clone()));
            role
        };
        match recruit {
            Recruit::Sequencer(epoch, version, state) => {
                let role = role(epoch, Priority::DefaultPromiseEndpoint);
                Recruited::Sequencer(sequencer::start(&role, version, state))
            }
            Recruit::Resolver(epoch, version, proxies) => {
                let role = role(epoch, Priority::ProxyCommit);
                Recruited::Resolver(resolver::start(&role, version, proxies))
            }
            Recruit::CommitProxy(epoch, spec) => {
                let role = role(epoch, Priority::ProxyCommit);
                Recruited::CommitProxy(commit_proxy::start(&role, *spec))
            }
            Recruit::GrvProxy(epoch, spec) => {
                let role = role(epoch, Priority::GetConsistentReadVersion);
                let (interface, failure) = grv_proxy::start(&role, spec);
                Recruited::GrvProxy(interface, failure)
            }
            Recruit::Log(epoch, id, version, contents) => {
                let contents = Rc::unwrap_or_clone(contents);
                let log = RefCell::new(LogDisk::new(id, epoch, version, contents));
                let disk = self.env.process().disk();
                let log = disk.open(&format!("log {id}"), || log);
                let handle = self.start_log(log, true);
                Recruited::Log(handle.interface, handle.failure)
            }
            Recruit::Storage(tag) => {
                let disk = self.env.process().disk();
                if let Some(storage) = disk.get::<RefCell<StorageDisk>>(storage::DISK_NAME) {
                    return Recruited::Storage(storage.borrow().tag);
                }
                self.start_storage(
                    disk.open(storage::DISK_NAME, || RefCell::new(StorageDisk::new(tag))),
                );
                Recruited::Storage(tag)
            }
        }
    }

    fn start_log(&self, disk: Rc<RefCell<LogDisk>>, writable: bool) -> LogHandle {
        let role = Role::new(&self.env, Priority::TLogCommit);
        let handle = log::start(&role, disk, writable);
        self.logs
            .borrow_mut()
            .insert(handle.interface.id, (role, handle.clone()));
        handle
    }

    fn start_storage(&self, disk: Rc<RefCell<StorageDisk>>) {
        let role = Role::new(&self.env, Priority::DefaultEndpoint);
        storage::start(&role, disk, self.info.clone());
    }

    /// Learns of every generation from the current cluster controller.
    async fn follow(self: Rc<Self>, leader: Announced<Leader>) {
        let here = self.env.process().clone();
        loop {
            let changed = leader.on_change();
            let Some(current) = leader.get() else {
                changed.await;
                continue;
            };
            let known_revision = self.info.borrow().as_ref().map_or(0, |info| info.revision);
            let question = GetServerDbInfo { known_revision };
            let answer = here.request(&current.server_info, question);
            match first_of(answer, changed).await {
                First::Left(Ok(info)) => self.learn(info),
                First::Left(Err(_)) => {
                    let _ = first_of(leader.on_change(), here.sleep(0.5)).await;
                }
                First::Right(()) => {}
            }
        }
    }

    fn learn(&self, info: Rc<ServerDbInfo>) {
        self.coordinators.learn(&info.quorum);
        let epoch = info.epoch;
        self.roles.borrow_mut().retain(|(of, role)| {
            if *of < epoch {
                role.stop();
            }
            *of >= epoch
        });
        // What earlier logs held is in the new ones.
        let disk = self.env.process().disk();
        self.logs.borrow_mut().retain(|id, (role, log)| {
            let over = log.epoch < epoch;
            if over {
                role.stop();
                disk.remove(&format!("log {id}"));
            }
            !over
        });
        self.info.replace(Some(info));
    }
}
