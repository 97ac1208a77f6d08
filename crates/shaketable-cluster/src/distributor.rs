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

use crate::client::{Database, RangeLimits, Transaction};
use crate::data::key::{ALL_END, KeyBound};
use crate::error::Error;
use crate::process::Process;
use crate::proto::{Key, KeyRange, KeySelector, KeyValue, Value, Version};
use crate::server::controller::Controller;
use crate::server::coordinator::CoreState;
use crate::server::distribution::DataDistributor;
use crate::server::layout::Fitness;
use crate::server::messages::{CommitEmptyBatch, Tag, WaitShardsHeld};
use crate::server::metadata::{
    KEY_SERVERS_PREFIX, SERVER_LIST_PREFIX, Team, key_servers_key, server_list_key, server_list_tag,
};
use crate::server::storage;
use crate::server::worker::{
    GetStorageTag, Recruit, Recruited, recruit_endpoint, storage_tag_endpoint,
};
use bytes::Bytes;
use shaketable_kernel::{AsyncVar, Notify, ProcessId, Stream, Time, first_of};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::rc::Rc;

/// The pause after something went wrong, in seconds.
const RETRY: f64 = 1.0;
/// The longest that pause grows to, in seconds.
const RETRY_MAX: f64 = 30.0;
/// How long a fetch may take before the move is given up, in seconds.
const FETCH_TIMEOUT: f64 = 60.0;
/// The API version of its transactions.
pub(crate) const API_VERSION: i32 = 740;
/// How many shards are read at once.
const ROWS_AT_ONCE: i32 = 10_000;

/// Where the distributor that may move shards has written its name.
const MOVE_KEYS_LOCK_OWNER: Key = Bytes::from_static(b"\xff/moveKeysLock/Owner");

const ACCESS_SYSTEM_KEYS: i32 = 301;
const PRIORITY_SYSTEM_IMMEDIATE: i32 = 200;
const LOCK_AWARE: i32 = 700;

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

struct Shard {
    range: KeyRange,
    team: Team,
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

    /// Makes this distributor the only one whose transactions commit.
    async fn take_over(&self) -> Result<(), Interrupted> {
        let address = self.here.describe(self.here.id()).address;
        let name = Value::from(format!("{address} {}", self.here.now().as_secs()));
        self.commit(async |transaction| {
            transaction.set(MOVE_KEYS_LOCK_OWNER, name.clone());
            Ok(())
        })
        .await?;
        self.name.replace(Some(name));
        Ok(())
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

    /// Returns the storage servers that are gone for good, or as good as gone, and when to check
    /// again if another may be soon.
    async fn gone(&self) -> (BTreeSet<Tag>, Option<Time>) {
        let mut gone = BTreeSet::new();
        let mut next: Option<Time> = None;
        let core = self.controller.core();
        let patience = self
            .controller
            .knobs()
            .data_distribution_failure_reaction_time;
        for (tag, process) in &core.storages {
            let away = *process != self.here.id() && self.here.is_failed(*process);
            if away {
                let now = self.here.now();
                let since = *self.failed_since.borrow_mut().entry(*tag).or_insert(now);
                // A point in time, not the seconds left: a remainder shorter than the clock's tick
                // would never pass.
                let due = since.after(patience);
                if due <= now {
                    gone.insert(*tag);
                } else {
                    next = Some(next.map_or(due, |next| next.min(due)));
                }
                continue;
            }
            self.failed_since.borrow_mut().remove(tag);
            let endpoint = storage_tag_endpoint(&self.here, *process);
            if let Ok(found) = endpoint.request(self.here.id(), GetStorageTag).await
                && found != Some(*tag)
            {
                gone.insert(*tag);
            }
        }
        (gone, next)
    }

    fn replicas(&self) -> Result<usize, Interrupted> {
        let generation = self.controller.generation().ok_or(Interrupted)?;
        Ok(generation.configuration.storage_replicas)
    }

    fn healthy(&self) -> Vec<(Tag, ProcessId)> {
        let core = self.controller.core();
        let reachable =
            |process: ProcessId| process == self.here.id() || !self.here.is_failed(process);
        core.storages
            .iter()
            .copied()
            .filter(|(_, process)| reachable(*process))
            .collect()
    }

    /// Picks a team of `count` servers in different zones that keeps those of `keep`.
    fn pick(&self, servers: &[(Tag, ProcessId)], keep: &[Tag], count: usize) -> Vec<Tag> {
        let core = self.controller.core();
        let mut team: Vec<Tag> = keep.iter().copied().take(count).collect();
        let zone = |process: ProcessId| self.here.describe(process).zone.clone();
        let mut zones: Vec<String> = core
            .storages
            .iter()
            .filter(|(tag, _)| team.contains(tag))
            .map(|(_, process)| zone(*process))
            .collect();
        for (tag, process) in servers {
            if team.len() < count && !zones.contains(&zone(*process)) {
                zones.push(zone(*process));
                team.push(*tag);
            }
        }
        team
    }

    /// Creates a storage server on a process that has none, or none that counts.
    async fn recruit_storage(&self, gone: &BTreeSet<Tag>) -> Result<(), Interrupted> {
        let core = self.controller.core();
        let taken: Vec<ProcessId> = core
            .storages
            .iter()
            .filter(|(tag, _)| !gone.contains(tag))
            .map(|(_, process)| *process)
            .collect();
        let mut candidates: Vec<ProcessId> = self
            .controller
            .servers()
            .iter()
            .copied()
            .filter(|process| !taken.contains(process))
            .filter(|process| *process == self.here.id() || !self.here.is_failed(*process))
            .collect();
        let zone = |process: &ProcessId| self.here.describe(*process).zone.clone();
        let taken_zones: Vec<String> = taken.iter().map(zone).collect();
        candidates.sort_by_key(|process| {
            let class = &self.here.describe(*process).class;
            (
                taken_zones.contains(&zone(process)),
                Fitness::Storage.of(class),
            )
        });
        let process = *candidates.first().ok_or(Interrupted)?;
        // The tag is reserved before it is assigned: if the answer is lost, no other server gets
        // the same tag.
        let tag = core.next_tag;
        self.write_core(|core| core.next_tag = tag + 1).await?;
        let recruit = recruit_endpoint(&self.here, process);
        let asked = recruit.request(self.here.id(), Recruit::Storage(tag)).await;
        let Ok(Recruited::Storage(tag)) = asked else {
            return Err(Interrupted);
        };
        // Listed before it can be given a shard: the logs keep only what listed servers need.
        let address = Bytes::from(self.here.describe(process).address.to_string());
        self.transact(async |transaction| {
            transaction.set(server_list_key(tag), address.clone());
            Ok(())
        })
        .await?;
        self.write_core(|core| {
            core.storages.retain(|(other, _)| *other != tag);
            core.storages.push((tag, process));
        })
        .await
    }

    /// Removes storage servers from the cluster, unless one of them was given a shard while others
    /// were moved away from them: it may have come back in the meantime. Returns whether it did.
    async fn remove_storages(&self, gone: &BTreeSet<Tag>) -> Result<bool, Interrupted> {
        let _turn = self.turn().await;
        let shards = self.shards().await?;
        let mut tags = shards.iter().flat_map(|shard| shard.team.all.iter());
        if tags.any(|tag| gone.contains(tag)) {
            return Ok(false);
        }
        self.write_core(|core| core.storages.retain(|(tag, _)| !gone.contains(tag)))
            .await?;
        let core = self.controller.core();
        // Taken off the list only once they can no longer be given a shard. The list may also
        // contain others, whose recruiting or removal was interrupted.
        self.transact(async |transaction| {
            for tag in read_server_list(transaction).await? {
                if core.storages.iter().all(|(known, _)| *known != tag) {
                    transaction.clear(server_list_key(tag));
                }
            }
            Ok(())
        })
        .await?;
        Ok(true)
    }

    async fn write_core(&self, change: impl FnOnce(&mut CoreState)) -> Result<(), Interrupted> {
        let mut core = (*self.controller.core()).clone();
        change(&mut core);
        let written = self.controller.write_core(core).await;
        written.map_err(|_| Interrupted)
    }

    /// Moves a range to a team. Does nothing if it is already there. The caller has the turn.
    async fn move_range(&self, range: &KeyRange, team: &[Tag]) -> Result<(), Interrupted> {
        self.assert_in_distinct_zones(team);
        let joined = self
            .transact(async |transaction| {
                let shards = read_shards(transaction).await?;
                for shard in overlapping(&shards, range) {
                    let serving = &shard.team.serving;
                    let fetching: Vec<Tag> = team
                        .iter()
                        .filter(|tag| !serving.contains(tag))
                        .copied()
                        .collect();
                    let begin = shard.range.begin.clone().max(range.begin.clone());
                    transaction.set(
                        key_servers_key(&begin),
                        Team::new(serving, &fetching).encode(),
                    );
                    if shard.range.end > range.end {
                        transaction.set(key_servers_key(&range.end), shard.team.encode());
                    }
                }
                Ok(())
            })
            .await?;
        self.wait_until_held(range, team, joined).await?;
        self.transact(async |transaction| {
            let shards = read_shards(transaction).await?;
            let joined = |shard: &&Shard| team.iter().all(|tag| shard.team.all.contains(tag));
            if !overlapping(&shards, range).all(|shard| joined(&shard)) {
                return Err(Error::OPERATION_FAILED); // another move came first
            }
            let first = key_servers_key(&range.begin);
            let end = key_servers_key(&range.end);
            transaction.clear_range(KeyBound::after(&first).to_key(), end);
            transaction.set(first, Team::new(team, &[]).encode());
            Ok(())
        })
        .await
        .map(drop)
    }

    fn assert_in_distinct_zones(&self, team: &[Tag]) {
        let core = self.controller.core();
        let members = core.storages.iter().filter(|(tag, _)| team.contains(tag));
        let mut zones = BTreeSet::new();
        for (tag, process) in members {
            let zone = self.here.describe(*process).zone.clone();
            assert!(
                zones.insert(zone),
                "replica {tag} shares a zone with another"
            );
        }
    }

    async fn wait_until_held(
        &self,
        range: &KeyRange,
        team: &[Tag],
        after: Version,
    ) -> Result<(), Interrupted> {
        let generation = self.controller.generation().ok_or(Interrupted)?;
        // A fetch waits for a version that cannot be undone; versions advance only with commits.
        for _ in 0..2 {
            let proxy = &generation.commit_proxies[0].commit_empty_batch;
            proxy
                .request(self.here.id(), CommitEmptyBatch)
                .await
                .map_err(|_| Interrupted)?;
            self.transact(async |transaction| transaction.get_read_version().await.map(drop))
                .await?;
            self.here.sleep(0.05).await;
        }
        let core = self.controller.core();
        let waits: Vec<_> = core
            .storages
            .iter()
            .filter(|(tag, _)| team.contains(tag))
            .map(|(_, process)| {
                let endpoint = storage::wait_shards_held(&self.here, *process);
                let range = range.clone();
                endpoint.request(self.here.id(), WaitShardsHeld { range, after })
            })
            .collect();
        for wait in waits {
            let held = self.here.timeout(FETCH_TIMEOUT, wait).await;
            held.ok_or(Interrupted)?.map_err(|_| Interrupted)?;
        }
        Ok(())
    }

    async fn shards(&self) -> Result<Vec<Shard>, Interrupted> {
        let found = RefCell::new(Vec::new());
        self.transact(async |transaction| {
            *found.borrow_mut() = read_shards(transaction).await?;
            Ok(())
        })
        .await?;
        Ok(found.into_inner())
    }

    /// Runs a transaction as [`Distributor::commit`] does, and fails if another distributor has
    /// taken over.
    async fn transact(
        &self,
        body: impl AsyncFn(&Transaction) -> Result<(), Error>,
    ) -> Result<Version, Interrupted> {
        let name = self.name.borrow().clone();
        let name = name.ok_or(Interrupted)?;
        self.commit(async |transaction| {
            let owner = transaction.get(MOVE_KEYS_LOCK_OWNER, false).await?;
            if owner.as_ref() != Some(&name) {
                self.name.replace(None); // the next repair takes over again
                return Err(Error::OPERATION_FAILED);
            }
            body(transaction).await
        })
        .await
    }

    /// Runs a transaction on system keys until it commits, or fails for good. Returns the version
    /// of the commit.
    async fn commit(
        &self,
        body: impl AsyncFn(&Transaction) -> Result<(), Error>,
    ) -> Result<Version, Interrupted> {
        let transaction = self.database.create_transaction();
        loop {
            for option in [ACCESS_SYSTEM_KEYS, PRIORITY_SYSTEM_IMMEDIATE, LOCK_AWARE] {
                transaction.set_option(option, None);
            }
            let result = match body(&transaction).await {
                Ok(()) => transaction.commit().await,
                Err(error) => Err(error),
            };
            match result {
                Ok(()) => return Ok(transaction.get_committed_version()),
                Err(error) => transaction.on_error(error).await?,
            }
        }
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

fn overlapping<'a>(shards: &'a [Shard], range: &'a KeyRange) -> impl Iterator<Item = &'a Shard> {
    shards
        .iter()
        .filter(|shard| shard.range.begin < range.end && range.begin < shard.range.end)
}

/// All rows of a range.
async fn read_rows(
    transaction: &Transaction,
    begin: Key,
    end: Key,
) -> Result<Vec<KeyValue>, Error> {
    let at = |key: Key| KeySelector {
        key,
        or_equal: false,
        offset: 1,
    };
    let mut begin = at(begin);
    let mut rows: Vec<KeyValue> = Vec::new();
    loop {
        let limits = RangeLimits::rows(ROWS_AT_ONCE);
        let part = transaction
            .get_range(begin, at(end.clone()), limits, false, false)
            .await?;
        rows.extend(part.rows);
        // A shard missing here would seem to belong to the one before it.
        let Some(last) = rows.last().filter(|_| part.more) else {
            return Ok(rows);
        };
        begin = KeySelector {
            or_equal: true,
            ..at(last.key.clone())
        };
    }
}

/// The storage servers on the list.
async fn read_server_list(transaction: &Transaction) -> Result<Vec<Tag>, Error> {
    let begin = Bytes::from_static(SERVER_LIST_PREFIX);
    let end = server_list_key(Tag::MAX);
    let rows = read_rows(transaction, begin, end).await?;
    let tags = rows.iter().filter_map(|row| server_list_tag(&row.key));
    Ok(tags.collect())
}

async fn read_shards(transaction: &Transaction) -> Result<Vec<Shard>, Error> {
    let begin = Bytes::from_static(KEY_SERVERS_PREFIX);
    let end: Key = [KEY_SERVERS_PREFIX, &ALL_END].concat().into();
    let rows = read_rows(transaction, begin, end).await?;
    let begins: Vec<Key> = rows
        .iter()
        .map(|row| row.key.slice(KEY_SERVERS_PREFIX.len()..))
        .collect();
    let ends = begins.iter().skip(1).cloned().chain([ALL_END]);
    let shards = begins.iter().cloned().zip(ends).zip(&rows);
    Ok(shards
        .filter_map(|((begin, end), row)| {
            Some(Shard {
                range: KeyRange { begin, end },
                team: Team::decode(&row.value)?,
            })
        })
        .collect())
}
