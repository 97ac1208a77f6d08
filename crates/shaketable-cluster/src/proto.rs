//! The messages between client and servers.
//!
//! This is the one border inside the cluster: the client holds endpoints for these requests and
//! knows nothing else about a server. Messages are plain values and use FoundationDB's vocabulary.
//! A reply that can fail for a reason the client must act on is a `Result<_, Error>` with
//! FoundationDB's code; a lost connection is not a reply at all but the kernel's `Disconnected`.

use crate::error::Error;
use crate::truth::CommitTruth;
use bytes::Bytes;
use shaketable_kernel::{Address, Endpoint, ProcessId, Request};
use std::rc::Rc;

/// A key of the ordered map.
pub type Key = Bytes;
/// A value of the ordered map.
pub type Value = Bytes;
/// A version of the database: one per commit batch, about 1e6 per second.
pub type Version = i64;

/// A half-open range of keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyRange {
    /// First key inside the range.
    pub begin: Key,
    /// First key beyond the range.
    pub end: Key,
}

/// A position among the existing keys, relative to a reference key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySelector {
    /// The reference key.
    pub key: Key,
    /// Whether the walk starts at the last key `<= key` rather than `< key`.
    pub or_equal: bool,
    /// How many existing keys to walk from there.
    pub offset: i32,
}

/// One row of a range read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The row's key.
    pub key: Key,
    /// The row's value.
    pub value: Value,
}

/// The ten bytes that identify a committed transaction: version, then index in its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Versionstamp {
    /// The commit version.
    pub version: Version,
    /// The position of the transaction in its commit batch.
    pub batch_index: u16,
}

impl Versionstamp {
    /// The stamp as it is written into keys and values.
    pub fn to_bytes(self) -> [u8; 10] {
        let mut bytes = [0; 10];
        bytes[..8].copy_from_slice(&self.version.to_be_bytes());
        bytes[8..].copy_from_slice(&self.batch_index.to_be_bytes());
        bytes
    }
}

/// The operation of a [`Mutation`]. The numbers are FoundationDB's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum MutationKind {
    SetValue = 0,
    ClearRange = 1,
    Add = 2,
    And = 6,
    Or = 7,
    Xor = 8,
    AppendIfFits = 9,
    Max = 12,
    Min = 13,
    SetVersionstampedKey = 14,
    SetVersionstampedValue = 15,
    ByteMin = 16,
    ByteMax = 17,
    MinV2 = 18,
    AndV2 = 19,
    CompareAndClear = 20,
}

/// One change to the database. For `ClearRange` the two parameters are begin and end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutation {
    /// What to do.
    pub kind: MutationKind,
    /// The key, or the beginning of the range.
    pub param1: Bytes,
    /// The operand, or the end of the range.
    pub param2: Bytes,
}

/// What the cluster controller publishes about where clients send their requests. A new one
/// replaces it after each recovery.
#[derive(Clone, Debug)]
pub struct ClientDbInfo {
    /// Grows with every recovery; equal ids mean equal proxies.
    pub generation: u64,
    /// Where read versions come from.
    pub grv_proxies: Rc<[GrvProxyInterface]>,
    /// Where commits and location requests go.
    pub commit_proxies: Rc<[CommitProxyInterface]>,
    /// Which process plays which role since the recovery, for the status.
    pub roles: Rc<[(&'static str, ProcessId)]>,
    /// How many there are to be of each role and of each piece of data, for the status.
    pub configuration: Rc<[(&'static str, usize)]>,
    /// The coordinators, as in a cluster file, if they are not the first any more.
    pub coordinators: Option<Rc<str>>,
}

/// Asks the cluster controller for proxies other than those of `known_generation`; answered when
/// there are some.
#[derive(Debug)]
pub struct OpenDatabase {
    /// The generation the client has, or 0.
    pub known_generation: u64,
}
impl Request for OpenDatabase {
    type Reply = ClientDbInfo;
}

/// A GRV proxy as its clients see it.
#[derive(Clone, Debug)]
pub struct GrvProxyInterface {
    /// Read versions.
    pub get_read_version: Endpoint<GetReadVersion>,
}

/// A commit proxy as its clients see it.
#[derive(Clone, Debug)]
pub struct CommitProxyInterface {
    /// Commits.
    pub commit: Endpoint<Commit>,
    /// Which storage servers hold which keys.
    pub get_key_locations: Endpoint<GetKeyLocations>,
}

/// How urgent a transaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum TransactionPriority {
    Batch,
    Default,
    Immediate,
}

/// Asks for a version at which everything acknowledged before the request was sent is visible.
#[derive(Debug)]
pub struct GetReadVersion {
    /// How many transactions this request stands for.
    pub transaction_count: u32,
    /// Their priority.
    pub priority: TransactionPriority,
    /// Whether the proof that this generation is still alive may be skipped.
    pub causal_read_risky: bool,
    /// The throttling tags of the transactions.
    pub tags: Vec<Bytes>,
}
/// A read version.
#[derive(Clone, Debug)]
pub struct ReadVersion {
    /// The version.
    pub version: Version,
    /// Whether the database is locked.
    pub locked: bool,
    /// The current value of `\xff/metadataVersion`.
    pub metadata_version: Option<Value>,
}
impl Request for GetReadVersion {
    type Reply = Result<ReadVersion, Error>;
}

/// A transaction as it travels to a commit proxy.
#[derive(Clone, Debug, Default)]
pub struct CommitTransaction {
    /// The version its reads saw.
    pub read_snapshot: Version,
    /// What it read.
    pub read_conflict_ranges: Vec<KeyRange>,
    /// What it wrote.
    pub write_conflict_ranges: Vec<KeyRange>,
    /// Its changes, in order.
    pub mutations: Vec<Mutation>,
    /// Whether a conflict must name the ranges it was found in.
    pub report_conflicting_keys: bool,
    /// Whether it may commit to a locked database.
    pub lock_aware: bool,
    /// The number under which a recorder finds it again in the history. Nothing else looks at it.
    pub tag: Option<u64>,
    /// What the override of a decision makes of it.
    pub fate: Option<CommitFate>,
    /// Where to note what becomes of it, if it is counted.
    pub truth: Option<CommitTruth>,
}

/// What can be made of a commit on its way. By chance each of these happens too, to whichever
/// commit is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitFate {
    /// The connection breaks when it arrives.
    RequestLost,
    /// The connection breaks when it is durable.
    ReplyLost,
    /// The proxy ends before it writes the batch to the logs.
    ProxyDiesBeforeWriting,
    /// The proxy ends when the logs have the batch.
    ProxyDiesBeforeAnswering,
}

/// Commits a transaction.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The transaction.
    pub transaction: CommitTransaction,
    /// Whether it asks to be first in its batch.
    pub first_in_batch: bool,
    /// Recorded with the commit, so that its fate can be looked up later.
    pub idempotency_id: Option<Bytes>,
}
/// What became of a transaction whose commit did not end in an error.
#[derive(Clone, Debug)]
pub enum CommitOutcome {
    /// It is durable.
    Committed {
        /// Version and position.
        stamp: Versionstamp,
        /// `\xff/metadataVersion` as of this commit.
        metadata_version: Option<Value>,
    },
    /// It conflicted. The indices point into its read conflict ranges and are empty unless
    /// requested.
    Conflict {
        /// Indices of the conflicting read ranges.
        conflicting_ranges: Vec<u32>,
    },
}
impl Request for Commit {
    /// An error is 1007, 1042, 1038, 1235, 1242, 2101…; 1021 is never sent: the client reports it
    /// when a reply is lost.
    type Reply = Result<CommitOutcome, Error>;
}

/// Asks which storage servers hold the shards that overlap a range.
#[derive(Debug)]
pub struct GetKeyLocations {
    /// The range; `end` may be the key itself plus a zero byte.
    pub range: KeyRange,
    /// The largest number of shards to return.
    pub limit: usize,
    /// Whether the shards at the end of the range are wanted first.
    pub reverse: bool,
}
/// A shard and the servers that hold it.
#[derive(Clone, Debug)]
pub struct ShardLocation {
    /// The keys of the shard.
    pub range: KeyRange,
    /// Its replicas.
    pub servers: Rc<[StorageInterface]>,
}
impl Request for GetKeyLocations {
    type Reply = Result<Vec<ShardLocation>, Error>;
}

/// A storage server as its clients see it.
#[derive(Clone, Debug)]
pub struct StorageInterface {
    /// The server's identity, which stays the same over reboots that keep its data.
    pub id: u64,
    /// Where it is, for `get_addresses_for_key`.
    pub address: Address,
    /// Point reads.
    pub get_value: Endpoint<GetValue>,
    /// Selector resolution.
    pub get_key: Endpoint<GetKey>,
    /// Range reads.
    pub get_key_values: Endpoint<GetKeyValues>,
    /// Index lookups: a range read whose rows each become another range read.
    pub get_mapped_key_values: Endpoint<GetMappedKeyValues>,
    /// Waits for a value to change.
    pub watch_value: Endpoint<WatchValue>,
    /// Sampled sizes.
    pub get_metrics: Endpoint<GetStorageMetrics>,
    /// Sampled split points.
    pub get_split_points: Endpoint<GetSplitPoints>,
}

/// What a storage server may reply instead of an answer. The first is FoundationDB's
/// `wrong_shard_server`: the client drops the location from its cache and asks again; it never
/// reaches the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageError {
    /// The server does not hold that shard (any more).
    WrongShardServer,
    /// 1007, 1009, 1037, 2041…: reaches the application.
    Code(Error),
}

/// Reads one value at a version.
#[derive(Debug)]
pub struct GetValue {
    /// The key.
    pub key: Key,
    /// The version.
    pub version: Version,
    /// Whether the server has not got this version yet, whatever it has: an override says so.
    pub is_early: bool,
}
impl Request for GetValue {
    type Reply = Result<Option<Value>, StorageError>;
}

/// Resolves a selector inside one shard. Where the walk leaves the shard the reply is a selector
/// for the client to continue with: `offset` 0 and `or_equal` true mean "resolved to exactly this
/// key".
#[derive(Debug)]
pub struct GetKey {
    /// The selector.
    pub selector: KeySelector,
    /// The version.
    pub version: Version,
    /// Whether the server has not got this version yet, whatever it has: an override says so.
    pub is_early: bool,
}
impl Request for GetKey {
    type Reply = Result<KeySelector, StorageError>;
}

/// Reads rows between two selectors that resolve inside one shard, at a version.
#[derive(Debug)]
pub struct GetKeyValues {
    /// First row.
    pub begin: KeySelector,
    /// First row beyond.
    pub end: KeySelector,
    /// The largest number of rows; counted from the end of the range if `reverse`.
    pub limit: usize,
    /// Stop after the row that reaches this many bytes (24 per row plus key plus value).
    pub limit_bytes: usize,
    /// From the end, descending.
    pub reverse: bool,
    /// The version.
    pub version: Version,
    /// Whether the server has not got this version yet, whatever it has: an override says so.
    pub is_early: bool,
}
/// Rows, and whether the range holds more of them.
#[derive(Clone, Debug, Default)]
pub struct KeyValues {
    /// The rows in reading order.
    pub rows: Vec<KeyValue>,
    /// Whether a limit stopped the read.
    pub more: bool,
}
impl Request for GetKeyValues {
    type Reply = Result<KeyValues, StorageError>;
}

/// Reads rows and, for each, the range that `mapper` makes of it.
#[derive(Debug)]
pub struct GetMappedKeyValues {
    /// The primary read.
    pub primary: GetKeyValues,
    /// The packed tuple that describes how a row becomes a range.
    pub mapper: Bytes,
}
/// One primary row with its secondary range.
#[derive(Clone, Debug)]
pub struct MappedKeyValue {
    /// The primary row.
    pub row: KeyValue,
    /// The secondary range that was read.
    pub range: KeyRange,
    /// Its rows.
    pub rows: Vec<KeyValue>,
}
/// Mapped rows, and whether the primary range holds more.
#[derive(Clone, Debug, Default)]
pub struct MappedKeyValues {
    /// The rows in reading order.
    pub rows: Vec<MappedKeyValue>,
    /// Whether a limit stopped the read.
    pub more: bool,
}
impl Request for GetMappedKeyValues {
    type Reply = Result<MappedKeyValues, StorageError>;
}

/// Waits until the value of a key differs from `value`, as of some version at or after `version`.
#[derive(Debug)]
pub struct WatchValue {
    /// The key.
    pub key: Key,
    /// The value the watcher has seen.
    pub value: Option<Value>,
    /// The version at which the watcher has seen it.
    pub version: Version,
    /// What the override of a decision makes of it.
    pub fate: Option<WatchFate>,
}

/// What can be made of a watch that waits at a storage server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WatchFate {
    /// It is answered at once: the value has changed and is what it was again.
    Spurious,
    /// Its answer is late by this many seconds.
    Late(f64),
}
impl Request for WatchValue {
    /// The version at which the value was seen to differ.
    type Reply = Result<Version, StorageError>;
}

/// Asks for the sampled number of bytes in a range.
#[derive(Debug)]
pub struct GetStorageMetrics {
    /// The range, inside one shard.
    pub range: KeyRange,
}
impl Request for GetStorageMetrics {
    type Reply = Result<i64, StorageError>;
}

/// Asks for keys that cut a range into chunks.
#[derive(Debug)]
pub struct GetSplitPoints {
    /// The range, inside one shard.
    pub range: KeyRange,
    /// The wanted size of a chunk in bytes.
    pub chunk_bytes: i64,
}
impl Request for GetSplitPoints {
    /// The inner split points, without the range's own ends.
    type Reply = Result<Vec<Key>, StorageError>;
}
