//! What the transactions of one database handle share: FoundationDB's `DatabaseContext`.
//!
//! A handle knows how to find the cluster and nothing about the servers' state. It follows the
//! cluster controller to learn the proxies of the current generation; requests to proxies that are
//! gone are sent again to the next ones, indefinitely. Options set on the handle become the
//! defaults of its transactions. An option with a bad value poisons the handle: every operation of
//! every transaction fails with that error.

use super::fate::Fated;
use super::grv::GrvBatchers;
use super::load_balance::{LoadBalance, Question};
use super::locations::LocationCache;
use super::options::{DatabaseOption, OptionValue};
use super::snapshot_cache::SnapshotCache;
use super::special_keys::{ClusterDescription, GenerationDescription, ProcessDescription};
use super::transaction::Transaction;
use super::watches::WatchRegistry;
use super::write_map::WriteMap;
use crate::error::Error;
use crate::knobs::{Knobs, LiveKnobs};
use crate::process::Process;
use crate::process::exceptions::Announced;
use crate::proto::{ClientDbInfo, OpenDatabase, Value, Version};
use bytes::Bytes;
use shaketable_kernel::{
    AsyncVar, Disconnected, Endpoint, First, Priority, ProcessId, Stream, Task, first_of,
};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::rc::Rc;

/// A database handle. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Database(pub(crate) Rc<Context>);

/// How a client finds its cluster, and which process it speaks for.
#[derive(Clone)]
pub struct Connection {
    /// The API version that the application selected.
    pub api_version: i32,
    /// The knobs of the run.
    pub knobs: LiveKnobs,
    /// Whether the handle shares state with clients of other versions, as it does in a program that
    /// uses them. A cached read version needs that.
    pub has_shared_state: bool,
    /// Whether all deliberate waits are skipped: for a database that is part of an ordinary
    /// program.
    pub is_instant: bool,
    /// Decides whether buggify strikes at the named place; `None` if buggify is off.
    pub buggify: Option<Buggify>,
    /// Where the cluster controller is, as the coordinators know it.
    pub leader: Announced<Endpoint<OpenDatabase>>,
    /// `description:id@address`, as in a cluster file.
    pub connection_string: String,
    /// Where the connection string was read from.
    pub cluster_file_path: String,
    /// The identity of the cluster.
    pub cluster_id: u128,
}

/// Called at the places where the client may do something rare and nasty on purpose.
pub type Buggify = Rc<dyn Fn(&'static str) -> bool>;

/// The state of a handle.
pub(crate) struct Context {
    pub(crate) process: Process,
    pub(crate) api_version: i32,
    pub(crate) has_shared_state: bool,
    knobs: LiveKnobs,
    pub(crate) is_instant: bool,
    buggify: Option<Buggify>,
    pub(crate) random: Stream,
    pub(crate) locations: RefCell<LocationCache>,
    pub(crate) balance: LoadBalance,
    pub(crate) grv: GrvBatchers,
    pub(crate) watches: WatchRegistry,
    /// The fate of the operation that is being worked for.
    pub(super) fated: RefCell<Option<Rc<Fated>>>,
    /// The lowest version this handle has ever been given; nothing below it is requested.
    pub(crate) min_acceptable_read_version: Cell<Version>,
    pub(crate) deferred_error: Cell<Option<Error>>,
    pub(crate) defaults: RefCell<Vec<(i32, OptionValue)>>,
    pub(crate) snapshot_ryw: Cell<i32>,
    /// A write map without writes, with which every transaction begins.
    pub(crate) no_writes: WriteMap,
    /// A cache that knows nothing, with which every transaction begins.
    pub(crate) nothing_known: SnapshotCache,
    info: AsyncVar<Option<Rc<ClientDbInfo>>>,
    metadata_versions: RefCell<MetadataVersions>,
    description: (String, String, u128),
    _follower: Task<()>,
}

/// How many values of the metadata version key are remembered.
const METADATA_VERSIONS_MAX: usize = 1000;

/// The metadata versions that a handle has seen. As they hardly ever change, a value is kept once
/// and for all database versions after it that had the same one.
#[derive(Default)]
struct MetadataVersions {
    /// The database versions seen, oldest first.
    seen: VecDeque<Version>,
    /// The values, each with the first version seen that had it.
    values: VecDeque<(Version, Option<Value>)>,
}

impl MetadataVersions {
    fn remember(&mut self, version: Version, value: Option<Value>) {
        if self.seen.back().is_some_and(|newest| version <= *newest) {
            return;
        }
        if self.seen.len() == METADATA_VERSIONS_MAX {
            self.seen.pop_front();
            let oldest = self.seen.front().copied();
            while self
                .values
                .get(1)
                .is_some_and(|(since, _)| Some(*since) <= oldest)
            {
                self.values.pop_front();
            }
        }
        self.seen.push_back(version);
        if self.values.back().is_none_or(|(_, known)| *known != value) {
            self.values.push_back((version, value));
        }
    }

    fn get(&self, version: Version) -> Option<Option<Value>> {
        self.seen.binary_search(&version).ok()?;
        let behind = self.values.partition_point(|(since, _)| *since <= version);
        Some(self.values[behind - 1].1.clone())
    }
}

impl Database {
    /// Opens a database without waiting for anything: operations wait until there is a cluster to
    /// ask. The handle belongs to the client on `process`.
    pub fn open(process: Process, connection: Connection) -> Database {
        let Connection {
            api_version,
            has_shared_state,
            knobs,
            is_instant,
            leader,
            ..
        } = connection;
        let info = AsyncVar::new(None);
        let follower = process.spawn(
            Priority::DefaultEndpoint,
            follow_leader(process.clone(), leader, info.clone()),
        );
        Database(Rc::new(Context {
            api_version,
            has_shared_state,
            knobs,
            is_instant,
            buggify: connection.buggify,
            random: process.stream("client"),
            locations: RefCell::default(),
            balance: LoadBalance::default(),
            grv: GrvBatchers::default(),
            watches: WatchRegistry::default(),
            fated: RefCell::default(),
            min_acceptable_read_version: Cell::new(Version::MAX),
            deferred_error: Cell::new(None),
            defaults: RefCell::default(),
            snapshot_ryw: Cell::new(1),
            no_writes: WriteMap::new(),
            nothing_known: SnapshotCache::new(),
            info,
            metadata_versions: RefCell::default(),
            description: (
                connection.connection_string,
                connection.cluster_file_path,
                connection.cluster_id,
            ),
            _follower: follower,
            process,
        }))
    }

    /// The requests of this handle that no storage server has answered yet.
    pub fn questions(&self) -> Vec<Question> {
        self.0.balance.questions()
    }

    /// The process that speaks through this handle.
    pub fn process(&self) -> &Process {
        &self.0.process
    }

    /// Sets an option whose code the caller has checked. The error of a bad value is deferred:
    /// every later operation of every transaction of this handle fails with it.
    pub fn set_option(&self, code: i32, value: Option<&[u8]>) {
        let context = &self.0;
        if context.deferred_error.get().is_some() {
            return;
        }
        let value = value.map(Bytes::copy_from_slice);
        match DatabaseOption::parse(code, &value) {
            Err(error) => context.deferred_error.set(Some(error)),
            Ok(DatabaseOption::TransactionDefault { code, value }) => {
                let mut defaults = context.defaults.borrow_mut();
                defaults.retain(|(other, _)| *other != code);
                defaults.push((code, value));
            }
            Ok(DatabaseOption::MaxWatches(max)) => context.watches.set_max(max),
            Ok(DatabaseOption::SnapshotRywEnable) => {
                context.snapshot_ryw.set(context.snapshot_ryw.get() + 1);
            }
            Ok(DatabaseOption::SnapshotRywDisable) => {
                context.snapshot_ryw.set(context.snapshot_ryw.get() - 1);
            }
            Ok(DatabaseOption::Accepted) => {}
        }
    }

    /// Lets every later operation of every transaction of this handle fail with this error.
    pub fn poison(&self, error: Error) {
        self.0.deferred_error.set(Some(error));
    }

    /// The error with which all operations of this handle fail, if they do.
    pub fn error(&self) -> Option<Error> {
        self.0.deferred_error.get()
    }

    /// Creates a transaction with this handle's defaults.
    pub fn create_transaction(&self) -> Transaction {
        Transaction::new(self.0.clone(), false)
    }

    /// Creates a transaction inside a tenant, whatever its name: no tenant exists.
    pub fn create_tenant_transaction(&self) -> Transaction {
        Transaction::new(self.0.clone(), true)
    }

    /// Whether proxies are known, so that a transaction could start now.
    pub fn is_connected(&self) -> bool {
        self.0.is_connected()
    }
}

impl Context {
    /// The knobs in force now.
    pub(crate) fn knobs(&self) -> Rc<Knobs> {
        self.knobs.get()
    }

    pub(crate) fn api_version_at_least(&self, version: i32) -> bool {
        self.api_version >= version
    }

    /// Returns the proxies of the current generation, as soon as there are any.
    pub(crate) async fn proxies(&self) -> Rc<ClientDbInfo> {
        loop {
            if let Some(info) = self.info.get()
                && !info.grv_proxies.is_empty()
                && !info.commit_proxies.is_empty()
            {
                return info;
            }
            self.info.on_change().await;
        }
    }

    /// Ends when the proxies are no longer those of `generation`.
    pub(crate) async fn proxies_change(&self, generation: u64) {
        self.info
            .wait_for(|info| info.as_ref().is_none_or(|i| i.generation != generation))
            .await;
    }

    /// Whether to do something rare and nasty here and now.
    pub(crate) fn buggify(&self, site: &'static str) -> bool {
        self.buggify.as_ref().is_some_and(|buggify| buggify(site))
    }

    /// Picks one of several equivalent items.
    pub(crate) fn pick<'a, T>(&self, items: &'a [T]) -> &'a T {
        if items.len() == 1 {
            &items[0]
        } else {
            self.random.pick(items)
        }
    }

    /// Refuses a version below anything this handle has been given: it is too old without asking.
    pub(crate) fn validate_version(&self, version: Version) -> Result<(), Error> {
        if version < self.min_acceptable_read_version.get() {
            return Err(Error::TRANSACTION_TOO_OLD);
        }
        Ok(())
    }

    pub(crate) fn remember_metadata_version(&self, version: Version, value: Option<Value>) {
        self.metadata_versions.borrow_mut().remember(version, value);
    }

    /// The metadata version as of a version that this handle has seen.
    pub(crate) fn metadata_version(&self, version: Version) -> Option<Option<Value>> {
        self.metadata_versions.borrow().get(version)
    }

    pub(crate) fn describe_cluster(&self) -> ClusterDescription {
        let (first, cluster_file_path, cluster_id) = self.description.clone();
        let info = self.info.get();
        let others = info.as_ref().and_then(|info| info.coordinators.as_deref());
        ClusterDescription {
            connection_string: others.map_or(first, str::to_owned),
            cluster_file_path,
            cluster_id,
            generation: info.map(|info| self.describe_generation(&info)),
            now: self.process.now().as_secs(),
        }
    }

    fn describe_generation(&self, info: &ClientDbInfo) -> GenerationDescription {
        let mut processes: BTreeMap<ProcessId, ProcessDescription> = BTreeMap::new();
        for (role, id) in info.roles.iter() {
            let process = processes.entry(*id).or_insert_with(|| {
                let spec = self.process.describe(*id);
                ProcessDescription {
                    address: spec.address.to_string(),
                    class: spec.class.clone(),
                    machine: spec.machine.clone(),
                    zone: spec.zone.clone(),
                    datacenter: spec.datacenter.clone(),
                    roles: Vec::new(),
                }
            });
            process.roles.push(role);
        }
        GenerationDescription {
            number: info.generation,
            configuration: info.configuration.to_vec(),
            processes: processes.into_values().collect(),
        }
    }

    pub(crate) fn outage_backoff(&self) -> Backoff<'_> {
        Backoff {
            here: &self.process,
            seconds: OUTAGE_BACKOFF_MIN,
        }
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.info.borrow().is_some()
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("process", &self.process.id())
            .finish_non_exhaustive()
    }
}

const OUTAGE_BACKOFF_MIN: f64 = 0.05;
const OUTAGE_BACKOFF_MAX: f64 = 1.0;

/// Waits longer and longer for servers that do not answer.
pub(crate) struct Backoff<'a> {
    here: &'a Process,
    seconds: f64,
}

impl Backoff<'_> {
    pub(crate) async fn wait(&mut self) {
        self.here.sleep(self.seconds).await;
        self.seconds = (2.0 * self.seconds).min(OUTAGE_BACKOFF_MAX);
    }
}

/// Follows the cluster controller and learns the proxies of every generation.
async fn follow_leader(
    here: Process,
    leader: Announced<Endpoint<OpenDatabase>>,
    info: AsyncVar<Option<Rc<ClientDbInfo>>>,
) {
    loop {
        let changed = leader.on_change();
        let Some(controller) = leader.get() else {
            changed.await;
            continue;
        };
        let known_generation = info.borrow().as_ref().map_or(0, |info| info.generation);
        let reply = here.request(&controller, OpenDatabase { known_generation });
        match first_of(reply, changed).await {
            First::Left(Ok(new)) => {
                info.replace(Some(Rc::new(new)));
            }
            // That controller is gone for good; until there is another, there is nothing to ask.
            First::Left(Err(Disconnected::Refused)) => {
                let gone = Some(controller);
                leader.wait_for(|leader| *leader != gone).await;
            }
            First::Left(Err(Disconnected::MaybeDelivered)) => {
                here.sleep(OUTAGE_BACKOFF_MIN).await;
            }
            First::Right(()) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metadata_version_is_known_for_the_versions_seen_and_only_for_the_newest_of_them() {
        let mut known = MetadataVersions::default();
        let value = |version: Version| match version / 700 {
            0 => None,
            era => Some(Value::from(era.to_string())),
        };
        let seen = 3 * METADATA_VERSIONS_MAX as Version;
        for version in 1..=seen {
            known.remember(2 * version, value(version));
            known.remember(version, None); // out of order
        }
        let oldest = seen - METADATA_VERSIONS_MAX as Version + 1;
        for version in 1..=seen {
            let expected = (version >= oldest).then(|| value(version));
            assert_eq!(known.get(2 * version), expected, "{version}");
            assert_eq!(known.get(2 * version + 1), None, "never seen");
        }
        assert!(known.values.len() <= 3, "{} values", known.values.len());
    }
}
