//! Moving shards, and keeping them whole: what data distribution does while a cluster is running.
//!
//! A move has three steps, each a transaction on `\xff/keyServers/` or a wait: the new servers join
//! (they receive every mutation and fetch the rest), they report that they hold everything, the old
//! ones leave. All of its state is in the database, so the next distributor can finish or undo an
//! interrupted move.
//!
//! When a storage server has been away for a while, or has come back without its disk, its shards
//! move to others, and it is taken off the list. Nothing may give it a shard meanwhile, or that
//! shard would be lost. So there is one move at a time, whose servers are picked when its turn has
//! come, and a removal is such a turn too. A distributor that was deposed and does not know it yet
//! may have a move under way: each distributor writes its name into the database when it begins,
//! and every transaction of a move fails unless it finds the name of its own distributor there.
//!
//! Here is the loop that notices what is missing and repairs it. `moves` moves one range, `members`
//! knows which storage servers there are and makes and removes them, and `records` is what the
//! database says about shards, with the transactions that read and write it.

mod members;
mod moves;
mod records;

use crate::client::Database;
use crate::error::Error;
use crate::process::Process;
use crate::proto::{KeyRange, Value};
use crate::server::controller::Controller;
use crate::server::distribution::DataDistributor;
use crate::server::messages::Tag;
use shaketable_kernel::{AsyncVar, Notify, ProcessId, Stream, Time, first_of};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::rc::Rc;

/// The pause after something went wrong, in seconds.
const RETRY: f64 = 1.0;
/// The longest that pause grows to, in seconds.
const RETRY_MAX: f64 = 30.0;
/// The API version of its transactions.
pub(crate) const API_VERSION: i32 = 740;

/// The move, or the repair, could not be finished now.
#[derive(Debug)]
struct Interrupted;

impl From<Error> for Interrupted {
    fn from(_: Error) -> Interrupted {
        Interrupted
    }
}

/// The data distributor of a controller.
pub(crate) struct Distributor {
    controller: Controller,
    here: Process,
    database: Database,
    random: Stream,
    /// One move at a time.
    busy: AsyncVar<bool>,
    /// What it has written into the database to be the only one that moves shards.
    name: RefCell<Option<Value>>,
    changed: Notify,
    /// Whether all shards have been checked since this distributor began.
    checked: Cell<bool>,
    /// Since when each missing storage server has been away.
    failed_since: RefCell<BTreeMap<Tag, Time>>,
}

/// The exclusive right to move, until it is dropped.
struct Turn(AsyncVar<bool>);

impl Turn {
    fn take(busy: &AsyncVar<bool>) -> Turn {
        busy.set(true);
        Turn(busy.clone())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl Distributor {
    /// For a controller, with a database handle on its process.
    pub(crate) fn new(controller: &Controller, database: Database) -> Rc<Distributor> {
        let here = database.process().clone();
        Rc::new(Distributor {
            controller: controller.clone(),
            random: here.stream("data distribution"),
            here,
            database,
            busy: AsyncVar::new(false),
            name: RefCell::default(),
            changed: Notify::new(),
            checked: Cell::new(false),
            failed_since: RefCell::default(),
        })
    }

    async fn move_to_random_team(&self, range: &KeyRange) -> Result<(), Interrupted> {
        let _turn = self.turn().await;
        let replicas = self.replicas()?;
        let mut servers = self.healthy();
        self.random.shuffle(&mut servers);
        let team = self.pick(&servers, &[], replicas);
        if team.len() < replicas {
            return Err(Interrupted);
        }
        self.move_range(range, &team).await
    }

    /// Waits for the exclusive right to move shards. It is released however the move ends: the
    /// caller may stop waiting for it.
    async fn turn(&self) -> Turn {
        while self.busy.get() {
            self.busy.on_change().await;
        }
        Turn::take(&self.busy)
    }

    /// Begins by checking every shard: the configuration may have changed.
    async fn watch_storages(self: Rc<Self>) {
        self.checked.set(false);
        self.name.replace(None);
        let mut pause = RETRY;
        let mut watched: BTreeSet<Tag> = BTreeSet::new();
        loop {
            let core = self.controller.core();
            for (tag, process) in &core.storages {
                if watched.insert(*tag) {
                    let distributor = self.clone();
                    let process = *process;
                    self.controller
                        .spawn(async move { distributor.watch(process).await });
                }
            }
            let changed = self.changed.notified();
            let next = match self.repair().await {
                Ok(next) => {
                    pause = RETRY;
                    next
                }
                Err(Interrupted) => {
                    pause = (pause * 2.0).min(RETRY_MAX);
                    Some(self.here.now().after(pause))
                }
            };
            let Some(next) = next else {
                changed.await;
                continue;
            };
            let _ = first_of(changed, self.here.sleep_until(next)).await;
        }
    }

    async fn watch(&self, process: ProcessId) {
        loop {
            self.here.on_failed(process).await;
            self.changed.notify_all();
            self.here.on_available(process).await;
            self.changed.notify_all();
            // A repeated failure is noticed again, but not in the same instant.
            self.here.sleep(RETRY).await;
        }
    }

    /// Moves shards away from servers that are gone. Returns when to check again if nothing happens
    /// before.
    async fn repair(&self) -> Result<Option<Time>, Interrupted> {
        let (gone, next) = self.gone().await;
        if gone.is_empty() && self.checked.get() {
            return Ok(next);
        }
        self.controller.set_replicated(false);
        if self.name.borrow().is_none() {
            self.take_over().await?;
        }
        let replicas = self.replicas()?;
        for shard in self.shards().await? {
            let stays = |tag: &&Tag| !gone.contains(tag);
            let unhealthy = shard.team.all.iter().any(|tag| gone.contains(tag));
            let complete = shard.team.serving.len() == replicas && shard.team.fetching.is_empty();
            if !unhealthy && complete {
                continue;
            }
            let keep: Vec<Tag> = shard.team.serving.iter().filter(stays).copied().collect();
            let mut servers = self.healthy();
            servers.retain(|(tag, _)| !gone.contains(tag));
            self.random.shuffle(&mut servers);
            let mut team = self.pick(&servers, &keep, replicas);
            if team.len() < replicas {
                self.recruit_storage(&gone).await?;
                servers = self.healthy();
                servers.retain(|(tag, _)| !gone.contains(tag));
                team = self.pick(&servers, &keep, replicas);
            }
            if team.len() < replicas {
                return Err(Interrupted);
            }
            let _turn = self.turn().await;
            self.move_range(&shard.range, &team).await?;
        }
        if !self.remove_storages(&gone).await? {
            return Ok(Some(self.here.now()));
        }
        self.checked.set(true);
        self.controller.set_replicated(true);
        Ok(next)
    }

    fn replicas(&self) -> Result<usize, Interrupted> {
        let generation = self.controller.generation().ok_or(Interrupted)?;
        Ok(generation.configuration.storage_replicas)
    }
}

impl DataDistributor for Distributor {
    fn run(self: Rc<Self>) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(self.watch_storages())
    }

    fn move_at_random(self: Rc<Self>, range: KeyRange) -> Pin<Box<dyn Future<Output = bool>>> {
        Box::pin(async move { self.move_to_random_team(&range).await.is_ok() })
    }
}
