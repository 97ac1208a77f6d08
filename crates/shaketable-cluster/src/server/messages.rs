//! The messages between servers.
//!
//! Clients never see these. As everywhere, a message left unanswered because its receiver died, or
//! gave up its role, is the kernel's `Disconnected` and nothing else: no message here says "I am no
//! longer who you think".

use crate::proto::{KeyRange, Mutation, StorageInterface, Value, Version};
use crate::server::conflict_set::{ResolveTransaction, Verdict};
use crate::server::coordinator::Quorum;
use crate::server::metadata::{Metadata, touches_metadata};
use shaketable_kernel::{Endpoint, ProcessId, Request};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The number of a generation of the transaction system. A recovery takes the next one.
pub type Epoch = u64;

/// Names a storage server in the logs. It is also the server's identity.
pub type Tag = u64;

/// Asks the sequencer for the version of a batch.
#[derive(Debug)]
pub struct GetCommitVersion;
/// A batch's place in the one order of batches.
#[derive(Clone, Copy, Debug)]
pub struct CommitVersion {
    /// The version of the batch before.
    pub previous: Version,
    /// The version of the batch.
    pub version: Version,
}
impl Request for GetCommitVersion {
    type Reply = CommitVersion;
}

/// What proxies hand out along with versions.
#[derive(Clone, Debug, Default)]
pub struct DatabaseState {
    /// The value of `\xff/dbLocked`.
    pub locked: Option<Value>,
    /// The value of `\xff/metadataVersion`.
    pub metadata_version: Option<Value>,
}

/// Tells the sequencer that a batch is durable on the logs.
#[derive(Debug)]
pub struct ReportCommitted {
    /// The version of the batch.
    pub version: Version,
    /// The state of the database at that version.
    pub state: DatabaseState,
}
impl Request for ReportCommitted {
    type Reply = ();
}

/// Asks the sequencer for the newest version known to be committed.
#[derive(Debug)]
pub struct GetLiveCommitted;
/// The newest committed version.
#[derive(Clone, Debug)]
pub struct LiveCommitted {
    /// The version.
    pub version: Version,
    /// The state of the database at that version.
    pub state: DatabaseState,
    /// The version was made up because nothing had been committed for a while: the logs have not
    /// seen it, and a commit proxy should commit an empty batch so that storage servers learn of
    /// it.
    pub ahead_of_logs: bool,
}
impl Request for GetLiveCommitted {
    type Reply = LiveCommitted;
}

/// Asks a commit proxy to commit a batch even if it is empty.
#[derive(Debug)]
pub struct CommitEmptyBatch;
impl Request for CommitEmptyBatch {
    type Reply = ();
}

/// A transaction that changes metadata, which every commit proxy must learn of in version order.
#[derive(Clone, Debug)]
pub struct StateTransaction {
    /// Its index in the batch.
    pub index: usize,
    /// Whether it may change a locked database.
    pub lock_aware: bool,
    /// Its mutations.
    pub mutations: Rc<[Mutation]>,
}

/// Asks a resolver for its verdicts on a batch.
#[derive(Debug)]
pub struct ResolveBatch {
    /// The version of the batch before.
    pub previous: Version,
    /// The version of the batch.
    pub version: Version,
    /// Which commit proxy asks.
    pub proxy: usize,
    /// The newest version up to which this proxy has received state transactions.
    pub received: Version,
    /// The transactions, in order, with the ranges that belong to this resolver.
    pub transactions: Vec<ResolveTransaction>,
    /// Those that change metadata.
    pub state: Vec<StateTransaction>,
}
/// A resolver's verdicts on a batch.
#[derive(Debug)]
pub struct Resolution {
    /// One verdict per transaction.
    pub verdicts: Vec<Verdict>,
    /// What other proxies have changed since the asking proxy was last informed: the state
    /// transactions of each version.
    pub state: Vec<(Version, Vec<ResolvedState>)>,
}
/// A state transaction with one resolver's verdict.
#[derive(Clone, Debug)]
pub struct ResolvedState {
    /// Whether this resolver lets it commit.
    pub commits: bool,
    /// Whether it may change a locked database.
    pub lock_aware: bool,
    /// Its mutations.
    pub mutations: Rc<[Mutation]>,
}
impl Request for ResolveBatch {
    type Reply = Resolution;
}

/// One version as the logs keep it.
#[derive(Debug)]
pub struct LogBatch {
    /// The version before.
    pub previous: Version,
    /// The version.
    pub version: Version,
    /// What happened at it, in order.
    pub entries: Vec<LogEntry>,
    /// About how many bytes it takes on disk.
    pub bytes: usize,
    /// Whether any of it changes metadata. Every log needs to know, and hardly any batch does.
    pub touches_metadata: bool,
}

impl LogBatch {
    /// A version, and what happened at it.
    pub fn new(previous: Version, version: Version, entries: Vec<LogEntry>) -> LogBatch {
        assert!(previous < version, "version {version} follows {previous}");
        let mut bytes = 32 * entries.len();
        let mut touches = false;
        for entry in &entries {
            if let Payload::Mutation(mutation) = &entry.payload {
                bytes += mutation.param1.len() + mutation.param2.len();
                touches |= touches_metadata(mutation);
            }
        }
        LogBatch {
            previous,
            version,
            entries,
            bytes,
            touches_metadata: touches,
        }
    }
}

/// Asserts that batches follow one another, the first of them a given version; returns the version
/// of the last.
pub fn assert_unbroken<'a>(
    after: Version,
    batches: impl IntoIterator<Item = &'a Rc<LogBatch>>,
) -> Version {
    batches.into_iter().fold(after, |version, batch| {
        assert_eq!(batch.previous, version, "a batch is missing");
        batch.version
    })
}

/// One change and the storage servers that must receive it.
#[derive(Clone, Debug)]
pub struct LogEntry {
    /// The storage servers it is for.
    pub tags: Rc<[Tag]>,
    /// The change.
    pub payload: Payload,
}

/// What storage servers find in the logs.
#[derive(Clone, Debug)]
pub enum Payload {
    /// A change of the data.
    Mutation(Mutation),
    /// A change of which servers hold what. Made by the commit proxies from changes of
    /// `\xff/keyServers/`.
    Shard(ShardChange),
}

/// What becomes of a range at a storage server.
#[derive(Clone, Debug)]
pub struct ShardChange {
    /// The keys.
    pub range: KeyRange,
    /// The servers that serve reads of the range from this version on.
    pub serving: Rc<[Tag]>,
    /// The servers that will hold the range next and fetch it from the serving ones.
    pub fetching: Rc<[Tag]>,
}

/// Appends a version to a log.
#[derive(Debug)]
pub struct PushBatch {
    /// The version and its contents.
    pub batch: Rc<LogBatch>,
    /// A version known to be on all logs.
    pub known_committed: Version,
}
impl Request for PushBatch {
    /// Answered when the version is durable; never once the log is locked.
    type Reply = ();
}

/// Asks a log whether its generation is still the one that commits.
#[derive(Debug)]
pub struct ConfirmEpochLive;
impl Request for ConfirmEpochLive {
    /// Never answered once the log is locked.
    type Reply = ();
}

/// Asks a log to send a storage server everything from a version on.
#[derive(Debug)]
pub struct SubscribeLog {
    /// The storage server.
    pub tag: Tag,
    /// The newest version it has.
    pub after: Version,
    /// Where to send versions.
    pub sink: Endpoint<LogUpdate>,
}
impl Request for SubscribeLog {
    /// The subscription lasts as long as the request is outstanding.
    type Reply = Removed;
}

/// Tells a storage server that the logs no longer have what it needs. That happens only to a server
/// that was taken off the list of storage servers: there is nothing left for it to do.
#[derive(Debug)]
pub struct Removed;

/// Versions for a storage server, in order.
#[derive(Debug)]
pub struct LogUpdate {
    /// The generation of the log that sends.
    pub epoch: Epoch,
    /// Whether this is the first answer to a subscription.
    pub first: bool,
    /// Versions, each following the one before.
    pub batches: Vec<Rc<LogBatch>>,
    /// A version known to be on all logs: it will not be rolled back.
    pub known_committed: Version,
}
impl Request for LogUpdate {
    type Reply = ();
}

/// Tells a log that a storage server will not ask for older versions again.
#[derive(Debug)]
pub struct PopLog {
    /// The storage server.
    pub tag: Tag,
    /// It has everything up to here on disk.
    pub upto: Version,
}
impl Request for PopLog {
    type Reply = ();
}

/// Asks a worker to end the generation of one of its logs.
#[derive(Debug)]
pub struct LockLog {
    /// The log.
    pub id: u64,
    /// The generation that will follow.
    pub epoch: Epoch,
}
/// What a locked log holds.
#[derive(Clone, Debug)]
pub struct LockedLog {
    /// The log.
    pub id: u64,
    /// The newest version it has on disk.
    pub durable: Version,
    /// A version it knows to be on all logs.
    pub known_committed: Version,
    /// The newest version that is no longer among `batches`.
    pub discarded: Version,
    /// Versions that some storage server may still need.
    pub batches: Vec<Rc<LogBatch>>,
    /// The metadata before the first of `batches`.
    pub metadata: Metadata,
    /// How far each storage server has its data on disk.
    pub popped: BTreeMap<Tag, Version>,
}

impl LockedLog {
    /// Asserts what the log promises and the recovery relies on: everything up to `durable` is in
    /// it or no longer needed, and what is known to be committed is durable.
    pub fn assert_whole(&self) {
        let newest = assert_unbroken(self.discarded, &self.batches);
        assert_eq!(newest, self.durable, "a log ends with what is on its disk");
        let (durable, known) = (self.durable, self.known_committed);
        assert!(
            known <= durable,
            "{known} is on all logs, and {durable} here"
        );
    }
}

impl Request for LockLog {
    /// Not answered if there is no such log (any more), or if a later generation has locked it.
    type Reply = LockedLog;
}

/// A log as other servers see it.
#[derive(Clone, Debug)]
pub struct LogInterface {
    /// Identity of the log, which survives reboots of its process.
    pub id: u64,
    /// Where it runs.
    pub process: ProcessId,
    /// Appends.
    pub push: Endpoint<PushBatch>,
    /// Proof of life.
    pub confirm: Endpoint<ConfirmEpochLive>,
    /// Streams for storage servers.
    pub subscribe: Endpoint<SubscribeLog>,
    /// Frees what is no longer needed.
    pub pop: Endpoint<PopLog>,
}

/// How a generation began.
#[derive(Clone, Copy, Debug)]
pub struct Beginning {
    /// Which one.
    pub epoch: Epoch,
    /// The last version of the previous generation; later versions of that generation never
    /// happened.
    pub recovery_version: Version,
    /// Its own first version.
    pub version: Version,
}

/// Everything a server needs to know about the current generation.
#[derive(Clone, Debug)]
pub struct ServerDbInfo {
    /// Grows with every change.
    pub revision: u64,
    /// The generation.
    pub epoch: Epoch,
    /// The generations so far.
    pub beginnings: Rc<[Beginning]>,
    /// The logs.
    pub logs: Rc<[LogInterface]>,
    /// Every storage server, for those that fetch shards.
    pub storages: Rc<[StorageInterface]>,
    /// The coordinators.
    pub quorum: Rc<Quorum>,
}

/// Asks the cluster controller for other coordinators, which ends the generation.
#[derive(Debug)]
pub struct ChangeCoordinators {
    /// The generation of the proxy that was asked to commit this.
    pub epoch: Epoch,
    /// What `\xff/coordinators` was set to.
    pub connection_string: Value,
}
impl Request for ChangeCoordinators {
    /// Never answered: the asker ends with its generation.
    type Reply = ();
}

/// Asks the cluster controller for news; answered when there is some.
#[derive(Debug)]
pub struct GetServerDbInfo {
    /// What the asker knows already.
    pub known_revision: u64,
}
impl Request for GetServerDbInfo {
    type Reply = Rc<ServerDbInfo>;
}

/// Asks a storage server to answer once it holds all rows of a range.
#[derive(Clone, Debug)]
pub struct WaitShardsHeld {
    /// The range.
    pub range: KeyRange,
    /// The server must have received everything up to this version: what it held before may have
    /// been given up since.
    pub after: Version,
}
impl Request for WaitShardsHeld {
    type Reply = ();
}

/// Tells a commit proxy where the storage servers are now.
#[derive(Debug)]
pub struct UpdateStorages(
    /// All of them.
    pub Rc<[StorageInterface]>,
);
impl Request for UpdateStorages {
    type Reply = ();
}
