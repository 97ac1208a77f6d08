//! The parts of a record. Times are simulated seconds since the run began.

use crate::bytes::Bytes;
use serde::{Deserialize, Serialize};

/// An index into [`Record::attempts`].
pub type AttemptId = u32;
/// An index into [`Record::operations`].
pub type OperationId = u32;
/// An index into [`Record::committed`].
pub type CommittedId = u32;
/// An index into [`Record::phases`].
pub type PhaseId = u32;
/// An index into [`Record::places`].
pub type PlaceId = u32;

/// Everything about one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// What was run, and how it ended.
    pub header: Header,
    /// The lines of the code under test that are mentioned.
    pub places: Vec<Place>,
    /// What each client's workload was doing when, in the order of beginning.
    pub phases: Vec<Phase>,
    /// In the order of beginning. Attempts of one transaction are linked by [`Attempt::retries`].
    pub attempts: Vec<Attempt>,
    /// In the order of being asked.
    pub operations: Vec<Operation>,
    /// Everything that committed, in commit order, whoever's it was: the truth.
    pub committed: Vec<Committed>,
    /// What happened to the cluster, and what the workloads traced, in time.
    pub events: Vec<Event>,
    /// What chance decided, in time, by the names that a case can list. Empty if the host cannot
    /// tell.
    pub decisions: Vec<Decision>,
}

impl Record {
    /// Takes the contents of values out of a record that was made with them; their sizes stay.
    pub fn hide_values(&mut self) {
        let hide = |value: &mut Bytes| *value = value.hidden();
        for operation in &mut self.operations {
            match &mut operation.call {
                Call::Set { value, .. }
                | Call::Atomic { operand: value, .. }
                | Call::SetOption {
                    value: Some(value), ..
                } => hide(value),
                _ => {}
            }
            match &mut operation.answer {
                Answer::Value(Some(value)) => hide(value),
                Answer::Rows { rows, .. } => rows.iter_mut().for_each(|(_, value)| hide(value)),
                _ => {}
            }
        }
        let committed = self.committed.iter_mut();
        for mutation in committed.flat_map(|committed| &mut committed.mutations) {
            match mutation {
                Mutation::Set { value, .. } | Mutation::Atomic { operand: value, .. } => {
                    hide(value)
                }
                Mutation::Clear { .. } => {}
            }
        }
    }
}

/// What was run, and how it ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The program that wrote the record, with its version.
    pub program: String,
    /// What played the database: `embedded` or `fdbserver`.
    pub host: String,
    /// The test file, as it was named; or the name of a test function.
    pub file: String,
    /// The seed.
    #[serde(with = "crate::seed::plain")]
    pub seed: u64,
    /// Whether buggify was on.
    pub buggify: bool,
    /// How the seed chose to be run, in words; empty if it had no choice.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub drawn: String,
    /// The line that runs this again, if there is one to paste.
    pub reproduce: Option<String>,
    /// How many clients took part.
    pub clients: u32,
    /// The shape of the cluster, in words.
    pub cluster: String,
    /// How the run ended.
    pub verdict: Verdict,
    /// How long it lasted.
    pub seconds: f64,
    /// The names of directories that were made or opened: the prefix of each, and its path.
    pub directories: Vec<(Bytes, Vec<String>)>,
    /// What was not kept, if the run did more than a record may hold.
    pub left_out: LeftOut,
    /// The streams of random numbers that were drawn from, by name: the chances that are no
    /// decisions. Empty if the host cannot tell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<Stream>,
}

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether it passed.
    pub passed: bool,
    /// The kind of failure, as in the report: `check failed`, `stalled`, `panic`….
    pub kind: Option<String>,
    /// What the failure said.
    pub message: Option<String>,
    /// The client that failed.
    pub client: Option<u32>,
    /// The workload that failed, by its title.
    pub workload: Option<String>,
    /// The phase that failed: `setup`, `start` or `check`.
    pub phase: Option<String>,
    /// When.
    pub time: Option<f64>,
}

/// What was not kept. The oldest goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    /// How many attempts.
    pub attempts: u64,
    /// How many operations.
    pub operations: u64,
    /// How many transactions that committed.
    pub committed: u64,
    /// How many events.
    pub events: u64,
}

/// A line of the code under test.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Place {
    /// The file, from the folder of the run.
    pub file: String,
    /// The line in it, from 1.
    pub line: u32,
    /// The function, without its hash; empty if unknown.
    pub function: String,
}

/// A phase of one client's workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// The client, from 0.
    pub client: u32,
    /// The title of the test in the test file.
    pub test: String,
    /// The name of the workload.
    pub workload: String,
    /// `setup`, `start` or `check`.
    pub phase: String,
    /// When it began.
    pub begun: f64,
    /// When it ended, if it did.
    pub ended: Option<f64>,
    /// What it failed with.
    pub error: Option<String>,
}

/// One attempt of a transaction: from its first call to its commit, its error or its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// The client that made it; none if the call came from outside of every client's workload.
    pub client: Option<u32>,
    /// The phase of a workload whose database it used, if it was lent one.
    #[serde(default)]
    pub phase: Option<PhaseId>,
    /// The transaction, counted over the run from 0. A transaction is what the code under test
    /// retries: it begins anew after a reset or a commit.
    pub transaction: u32,
    /// Which attempt of the transaction this is, from 1.
    pub number: u32,
    /// What it retries.
    pub retries: Option<Retry>,
    /// When its first operation was asked for.
    pub begun: f64,
    /// When it ended, if it did.
    pub ended: Option<f64>,
    /// The version at which it read, if it got one.
    pub read_version: Option<i64>,
    /// Its commit, if it asked for one.
    pub commit: Option<Commit>,
    /// How it ended, as far as the code under test can know.
    pub end: End,
}

/// The attempt before, and the error that `on_error` was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// The attempt before this one.
    pub attempt: AttemptId,
    /// The error it is retried for.
    pub error: i32,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// It was told that it committed.
    Committed,
    /// It was told that its commit failed, and did not go on to `on_error`.
    Failed(i32),
    /// `on_error` accepted this error: another attempt may follow.
    Retried(i32),
    /// It was reset.
    Reset,
    /// It was cancelled.
    Cancelled,
    /// It was dropped before a commit was asked for. Transactions that only read often end so.
    Dropped,
    /// It was dropped, or its future was, while its commit was under way: nobody heard the result.
    DroppedInCommit,
    /// It was open when the run ended.
    Open,
}

/// A request to commit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Commit {
    /// The operation that asked for it.
    pub operation: OperationId,
    /// What the transaction read, for conflicts.
    pub reads: Vec<Range>,
    /// What it wrote, for conflicts.
    pub writes: Vec<Range>,
    /// Its changes, in order. Keys and values with versionstamps are complete if it committed.
    pub mutations: Vec<Mutation>,
    /// What became of it, which the client may not know.
    pub fate: Fate,
    /// For a conflict: where, and with whom.
    pub conflict: Option<Conflict>,
}

/// What really became of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It wrote nothing, so there was nothing to commit.
    ReadOnly,
    /// It committed.
    Landed(CommittedId),
    /// It did not commit, and never will.
    Lost,
    /// It was under way when the run ended, or the host cannot tell.
    Unknown,
}

/// Why a commit was refused with 1020.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conflict {
    /// What it had read and somebody else wrote.
    pub range: Range,
    /// The transaction that wrote it.
    pub winner: Option<CommittedId>,
}

/// Keys from the first up to, but not including, the second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// The first key.
    pub begin: Bytes,
    /// The first key that is not in it any more.
    pub end: Bytes,
}

/// A change of the database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mutation {
    /// The key now has the value.
    Set {
        /// The key.
        key: Bytes,
        /// Its value.
        value: Bytes,
    },
    /// No key of the range has a value now.
    Clear {
        /// The keys.
        range: Range,
    },
    /// An atomic operation changed the value of the key.
    Atomic {
        /// The key.
        key: Bytes,
        /// The operand.
        operand: Bytes,
        /// Its name, as `add` or `set_versionstamped_key`.
        name: String,
    },
}

/// A transaction that committed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Committed {
    /// The commit version.
    pub version: i64,
    /// The order among those of the same version.
    pub batch_index: u32,
    /// The attempt that asked for it; none if it was not the code under test: the cluster's own,
    /// a fault workload, one that was left out of the record.
    pub attempt: Option<AttemptId>,
    /// Its changes, in order.
    pub mutations: Vec<Mutation>,
}

/// One call of the code under test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// The attempt that it belongs to.
    pub attempt: AttemptId,
    /// When it was asked for.
    pub asked: f64,
    /// When its result was there, if it came and if it is a call with a result.
    pub answered: Option<f64>,
    /// The line that asked for it.
    pub place: Option<PlaceId>,
    /// What was asked.
    pub call: Call,
    /// What was answered.
    pub answer: Answer,
}

/// What was asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// The read version.
    GetReadVersion,
    /// Read at this version.
    SetReadVersion(i64),
    /// The value of a key.
    Get {
        /// The key.
        key: Bytes,
        /// Whether it is no reason for a conflict.
        snapshot: bool,
    },
    /// The key that a selector stands for.
    GetKey {
        /// The selector.
        selector: Selector,
        /// Whether it is no reason for a conflict.
        snapshot: bool,
    },
    /// The rows between two selectors.
    GetRange(RangeCall),
    /// The rows between two selectors, and those that they lead to.
    GetMappedRange(RangeCall),
    /// A new value for a key.
    Set {
        /// The key.
        key: Bytes,
        /// The value.
        value: Bytes,
    },
    /// No value for any key of the range.
    Clear {
        /// The keys.
        range: Range,
    },
    /// An atomic operation.
    Atomic {
        /// The key.
        key: Bytes,
        /// The operand.
        operand: Bytes,
        /// Its name.
        name: String,
    },
    /// A conflict range of its own.
    AddConflictRange {
        /// The keys.
        range: Range,
        /// Whether it counts as written, instead of read.
        write: bool,
    },
    /// A change of a key.
    Watch {
        /// The key.
        key: Bytes,
    },
    /// Commit. What was committed is in [`Attempt::commit`].
    Commit,
    /// The pause after this error, and a fresh attempt.
    OnError(i32),
    /// Cancel everything.
    Cancel,
    /// Begin anew.
    Reset,
    /// The versionstamp of the commit to come.
    GetVersionstamp,
    /// An option.
    SetOption {
        /// Its name, or its number if it has none.
        name: String,
        /// Its value.
        value: Option<Bytes>,
    },
    /// Something else, by the name of its function in C.
    Other(String),
}

/// A read of a range.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RangeCall {
    /// Where it begins.
    pub begin: Selector,
    /// Where it ends.
    pub end: Selector,
    /// The most rows that were wanted; 0 for no limit.
    pub limit: i32,
    /// The most bytes that were wanted; 0 for no limit.
    pub target_bytes: i32,
    /// The streaming mode, as in C.
    pub mode: i32,
    /// Which batch of an iteration this is, from 1; 0 outside of iterations.
    pub iteration: i32,
    /// Whether it is no reason for a conflict.
    pub snapshot: bool,
    /// Whether the last rows come first.
    pub reverse: bool,
}

/// A key selector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selector {
    /// The key to begin at.
    pub key: Bytes,
    /// Whether that key itself counts.
    pub or_equal: bool,
    /// How many keys further, from 1 for the next one.
    pub offset: i32,
}

/// What was answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The call has no answer, or one without content.
    Nothing,
    /// A version.
    Version(i64),
    /// A key.
    Key(Bytes),
    /// The value of a key, if it has one.
    Value(Option<Bytes>),
    /// Rows.
    Rows {
        /// Keys and values, as many as the record holds.
        rows: Vec<(Bytes, Bytes)>,
        /// How many there were.
        count: u32,
        /// Whether there are more.
        more: bool,
    },
    /// An error.
    Error(i32),
    /// The future was dropped before it was ready.
    Dropped,
    /// It had not come when the run ended.
    Pending,
}

/// Something that chance decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// When.
    pub time: f64,
    /// Its name: `Attrition/kill 3`.
    pub name: String,
    /// What happened, if there is more than one possibility.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Whether it happened: a decision that a case drops does not.
    pub happened: bool,
    /// Whether chance alone decided it, and no case.
    pub by_chance: bool,
}

/// A stream of random numbers, which a case can give another seed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stream {
    /// Its name: `network`.
    pub name: String,
    /// How often it was drawn from.
    pub draws: u64,
}

/// Something that happened outside of transactions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When.
    pub time: f64,
    /// The type, as in the trace: `MasterRecoveryState`, `ClogPair`….
    pub name: String,
    /// The address of the process, or empty.
    pub machine: String,
    /// Whether it is a fault, so that something that fails later may be its consequence.
    pub fault: bool,
    /// The details, in their order.
    pub details: Vec<(String, String)>,
}
