//! Records what the code under test asks for, what it is told, and what really happened.
//!
//! While a host wants a record ([`crate::CApi::record`]), every call of a transaction becomes an
//! operation of an attempt: what was asked, when, from which line, and what was answered. An attempt
//! begins with its first call. It ends when its commit is answered, when `on_error` accepts its
//! error (the next call then begins another attempt of the same transaction), with a reset, a
//! cancel, or when its handle or the future of its commit is dropped.
//!
//! What a commit sends is noted when it is sent, with a tag. The cluster's history keeps that tag
//! with everything that committed, so at the end each commit finds out what became of it, also if
//! its client never did.
//!
//! The recorder only looks: it draws nothing, posts nothing and wakes nothing, so a run with it is
//! the same run. It keeps a bounded amount: when there is more, the oldest attempts go, whole.

use crate::database::FDBDatabase;
use crate::universe::Universe;
use crate::value::Value;
use shaketable_cluster::checker::History;
use shaketable_cluster::client::Transaction;
use shaketable_cluster::error::Error;
use shaketable_cluster::proto::{
    CommitTransaction, KeyRange, KeySelector, Mutation as Change, MutationKind, Version,
    Versionstamp,
};
use shaketable_kernel::{Kernel, ProcessId};
use shaketable_record::{
    Answer, Attempt, Bytes, Call, Commit, Committed, Conflict, End, Fate, LeftOut, Mutation,
    Operation, Range, Retry, Selector,
};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// How much is recorded.
#[derive(Clone, Debug)]
pub struct RecordSettings {
    /// Where the cluster records what committed.
    pub history: History,
    /// How many bytes of a value are kept.
    pub value_bytes_max: usize,
    /// How many attempts are kept.
    pub attempts_max: usize,
    /// How many operations are kept.
    pub operations_max: usize,
    /// How many bytes they may take, about.
    pub bytes_max: usize,
}

/// What was recorded. Places are indices into `places`.
#[derive(Debug, Default)]
pub struct Recorded {
    /// In the order of beginning.
    pub attempts: Vec<Attempt>,
    /// In the order of being asked.
    pub operations: Vec<Operation>,
    /// In commit order.
    pub committed: Vec<Committed>,
    /// The addresses from which calls were made.
    pub places: Vec<usize>,
    /// What was not kept.
    pub left_out: LeftOut,
}

/// Who made a call: the process, and the database that it was lent, if it was.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// The process.
    pub process: ProcessId,
    /// The database.
    pub lent: Option<*const FDBDatabase>,
}

/// Keys are kept whole up to FoundationDB's own limit.
const KEY_BYTES_MAX: usize = 10_000;
/// How many rows of an answer are kept.
const ROWS_MAX: usize = 1000;
/// How many ranges or changes of a commit are kept, each.
const COMMIT_PARTS_MAX: usize = 5000;
/// The prefix of keys that make a transaction conflict with itself. They say nothing.
const SELF_CONFLICT_PREFIX: &[u8] = b"\xff/SC/";
/// Within how many versions after its read version a transaction must commit.
const LIFE_VERSIONS: Version = 5_000_000;

/// How keys and values become parts of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keep {
    value_bytes_max: usize,
}

impl Keep {
    pub(crate) fn new(settings: &RecordSettings) -> Keep {
        Keep {
            value_bytes_max: settings.value_bytes_max,
        }
    }

    pub(crate) fn key(self, key: &[u8]) -> Bytes {
        Bytes::shortened(key, KEY_BYTES_MAX)
    }

    pub(crate) fn value(self, value: &[u8]) -> Bytes {
        Bytes::shortened(value, self.value_bytes_max)
    }

    pub(crate) fn range(self, begin: &[u8], end: &[u8]) -> Range {
        Range {
            begin: self.key(begin),
            end: self.key(end),
        }
    }

    pub(crate) fn selector(self, selector: &KeySelector) -> Selector {
        Selector {
            key: self.key(&selector.key),
            or_equal: selector.or_equal,
            offset: selector.offset,
        }
    }

    fn ranges(self, ranges: &[KeyRange]) -> Vec<Range> {
        let told = ranges
            .iter()
            .filter(|range| !range.begin.starts_with(SELF_CONFLICT_PREFIX));
        told.take(COMMIT_PARTS_MAX)
            .map(|range| self.range(&range.begin, &range.end))
            .collect()
    }

    fn mutations(self, changes: &[Change]) -> Vec<Mutation> {
        let changes = changes.iter().take(COMMIT_PARTS_MAX);
        changes.map(|change| self.mutation(change)).collect()
    }

    fn mutation(self, change: &Change) -> Mutation {
        match change.kind {
            MutationKind::SetValue => Mutation::Set {
                key: self.key(&change.param1),
                value: self.value(&change.param2),
            },
            MutationKind::ClearRange => Mutation::Clear {
                range: self.range(&change.param1, &change.param2),
            },
            kind => Mutation::Atomic {
                key: self.key(&change.param1),
                operand: self.value(&change.param2),
                name: atomic_name(kind as i32),
            },
        }
    }

    fn answer(self, outcome: &Result<Value, Error>) -> Answer {
        let value = match outcome {
            Ok(value) => value,
            Err(error) => return Answer::Error(error.0),
        };
        match value {
            Value::Int64(number) => Answer::Version(*number),
            Value::Key(key) => Answer::Key(self.key(key)),
            Value::Optional(value) => Answer::Value(value.as_ref().map(|value| self.value(value))),
            Value::Rows(rows) => self.rows(
                rows.owners().iter().map(|row| (&row.key, &row.value)),
                rows.more,
            ),
            Value::MappedRows(rows) => {
                let owners = rows.owners().iter();
                self.rows(owners.map(|one| (&one.row.key, &one.row.value)), rows.more)
            }
            _ => Answer::Nothing,
        }
    }

    fn rows<'a>(
        self,
        rows: impl ExactSizeIterator<Item = (&'a bytes::Bytes, &'a bytes::Bytes)>,
        more: bool,
    ) -> Answer {
        let count = rows.len() as u32;
        let rows = rows.take(ROWS_MAX);
        Answer::Rows {
            rows: rows
                .map(|(key, value)| (self.key(key), self.value(value)))
                .collect(),
            count,
            more,
        }
    }
}

/// The name of an atomic operation, as in FoundationDB's list of options.
pub(crate) fn atomic_name(code: i32) -> String {
    let name = match code {
        2 => "add",
        6 | 19 => "bit_and",
        7 => "bit_or",
        8 => "bit_xor",
        9 => "append_if_fits",
        12 => "max",
        13 | 18 => "min",
        14 => "set_versionstamped_key",
        15 => "set_versionstamped_value",
        16 => "byte_min",
        17 => "byte_max",
        20 => "compare_and_clear",
        _ => return format!("operation {code}"),
    };
    name.to_owned()
}

/// A call, as it was made.
pub(crate) struct Noted {
    pub(crate) call: Call,
    pub(crate) place: Option<usize>,
}

/// Where an operation is kept.
#[derive(Clone, Copy, Debug)]
struct Position {
    attempt: u64,
    operation: u32,
}

/// An operation that waits for its answer.
#[derive(Clone)]
pub(crate) struct Asked {
    recorder: Rc<RefCell<Recorder>>,
    slot: usize,
    position: Position,
}

impl Asked {
    /// The answer is there.
    pub(crate) fn answer(&self, outcome: &Result<Value, Error>, universe: Option<&Universe>) {
        let read_version = universe.and_then(|universe| {
            universe.objects(|objects| objects.transactions.get(self.slot)?.known_read_version())?
        });
        let mut recorder = self.recorder.borrow_mut();
        let answer = recorder.keep.answer(outcome);
        recorder.answer(self.slot, self.position, answer, read_version);
    }

    /// The future was given up.
    pub(crate) fn drop_future(&self) {
        let mut recorder = self.recorder.borrow_mut();
        recorder.answer(self.slot, self.position, Answer::Dropped, None);
    }

    /// Notes what the commit sends, when it is sent.
    pub(crate) fn follow_commit(&self, transaction: &Transaction) {
        let (recorder, position) = (self.recorder.clone(), self.position);
        transaction.note_commit(position.attempt, move |sent| {
            recorder.borrow_mut().sent(position, sent);
        });
    }
}

/// The recorder of one universe, on the kernel's thread.
pub(crate) struct Recorder {
    kernel: Kernel,
    settings: RecordSettings,
    keep: Keep,
    /// The transactions that exist, by the number of their object.
    live: Vec<Option<Live>>,
    transactions: u32,
    /// The attempts that are kept, and the number of the first of them.
    attempts: VecDeque<KeptAttempt>,
    first: u64,
    operations: usize,
    operations_asked: u64,
    bytes: usize,
    places: Vec<usize>,
    place_ids: BTreeMap<usize, u32>,
    left_out: LeftOut,
}

/// A transaction that exists.
struct Live {
    transaction: u32,
    /// The attempt that is under way.
    attempt: Option<u64>,
    /// The number of the last attempt, from 1; 0 before the first.
    number: u32,
    retries: Option<(u64, i32)>,
}

struct KeptAttempt {
    origin: Origin,
    /// Without what needs indices of the finished record.
    attempt: Attempt,
    retries: Option<(u64, i32)>,
    operations: VecDeque<KeptOperation>,
    /// How many operations before these are not kept.
    operations_left_out: u32,
    commit: Option<KeptCommit>,
}

struct KeptOperation {
    sequence: u64,
    bytes: usize,
    operation: Operation,
}

struct KeptCommit {
    operation: u32,
    sent: Option<Sent>,
    /// Its own part of the record.
    commit: Commit,
    winner: Option<Versionstamp>,
    is_answered: bool,
    /// Whether the answer says that it can no longer land.
    is_settled: bool,
}

/// What a commit has sent.
struct Sent {
    read_version: Version,
    reads: Vec<KeyRange>,
    /// Whether 1021 is answered only when it can no longer land.
    settles: bool,
}

impl Recorder {
    pub(crate) fn new(kernel: &Kernel, settings: RecordSettings) -> Recorder {
        Recorder {
            kernel: kernel.clone(),
            keep: Keep::new(&settings),
            settings,
            live: Vec::new(),
            transactions: 0,
            attempts: VecDeque::new(),
            first: 0,
            operations: 0,
            operations_asked: 0,
            bytes: 0,
            places: Vec::new(),
            place_ids: BTreeMap::new(),
            left_out: LeftOut::default(),
        }
    }

    /// A call is being carried out.
    pub(crate) fn ask(
        this: &Rc<RefCell<Recorder>>,
        slot: usize,
        origin: Origin,
        transaction: &Transaction,
        noted: Noted,
    ) -> Option<Asked> {
        let position =
            this.borrow_mut()
                .note(slot, origin, transaction.known_read_version(), noted)?;
        Some(Asked {
            recorder: this.clone(),
            slot,
            position,
        })
    }

    fn note(
        &mut self,
        slot: usize,
        origin: Origin,
        read_version: Option<Version>,
        Noted { call, place }: Noted,
    ) -> Option<Position> {
        let now = self.now();
        // A reset after a commit begins nothing.
        let begun = self.live(slot).attempt;
        if matches!(call, Call::Reset | Call::Cancel) && begun.is_none() {
            return None;
        }
        let number = match begun {
            Some(number) => number,
            None => self.begin(slot, origin, now),
        };
        let place = place.map(|address| self.place(address));
        let sequence = self.operations_asked;
        self.operations_asked += 1;
        let ends = match call {
            Call::Reset => Some(End::Reset),
            Call::Cancel => Some(End::Cancelled),
            _ => None,
        };
        let is_reset = matches!(call, Call::Reset);
        let operation = KeptOperation {
            sequence,
            bytes: OPERATION_BYTES + call_bytes(&call),
            operation: Operation {
                attempt: 0,
                asked: now,
                answered: None,
                place,
                answer: first_answer(&call),
                call,
            },
        };
        let Some(kept) = self.kept(number) else {
            // It was evicted while it was under way.
            self.left_out.operations += 1;
            if is_reset {
                self.renew(slot);
            }
            return None;
        };
        kept.attempt.read_version = kept.attempt.read_version.or(read_version);
        let index = kept.operations_left_out + kept.operations.len() as u32;
        if operation.operation.call == Call::Commit && kept.commit.is_none() {
            kept.commit = Some(KeptCommit::new(index));
        }
        if let Some(end) = ends {
            kept.end(end, now);
        }
        let bytes = operation.bytes;
        kept.operations.push_back(operation);
        self.operations += 1;
        self.bytes += bytes;
        if is_reset {
            self.renew(slot);
        }
        self.evict();
        Some(Position {
            attempt: number,
            operation: index,
        })
    }

    /// The transaction of a handle, made if it is new.
    fn live(&mut self, slot: usize) -> &mut Live {
        if self.live.len() <= slot {
            self.live.resize_with(slot + 1, || None);
        }
        let Recorder {
            live, transactions, ..
        } = self;
        live[slot].get_or_insert_with(|| {
            *transactions += 1;
            Live {
                transaction: *transactions - 1,
                attempt: None,
                number: 0,
                retries: None,
            }
        })
    }

    /// What the handle does next is another transaction.
    fn renew(&mut self, slot: usize) {
        self.live[slot] = None;
    }

    fn begin(&mut self, slot: usize, origin: Origin, now: f64) -> u64 {
        let number = self.first + self.attempts.len() as u64;
        let live = self.live(slot);
        live.attempt = Some(number);
        live.number += 1;
        let retries = live.retries.take();
        let attempt = Attempt {
            client: None,
            phase: None,
            transaction: live.transaction,
            number: live.number,
            retries: None,
            begun: now,
            ended: None,
            read_version: None,
            commit: None,
            end: End::Open,
        };
        self.attempts.push_back(KeptAttempt {
            origin,
            attempt,
            retries,
            operations: VecDeque::new(),
            operations_left_out: 0,
            commit: None,
        });
        self.bytes += ATTEMPT_BYTES;
        number
    }

    fn kept(&mut self, number: u64) -> Option<&mut KeptAttempt> {
        let index = number.checked_sub(self.first)?;
        self.attempts.get_mut(usize::try_from(index).ok()?)
    }

    fn answer(
        &mut self,
        slot: usize,
        position: Position,
        answer: Answer,
        read_version: Option<Version>,
    ) {
        let now = self.now();
        let history = self.settings.history.clone();
        let live = self.live.get_mut(slot).and_then(Option::as_mut);
        let live = live.filter(|live| live.attempt == Some(position.attempt));
        let is_current = live.is_some();
        let index = position.attempt.checked_sub(self.first);
        let index = index.and_then(|index| usize::try_from(index).ok());
        let Some(kept) = index.and_then(|index| self.attempts.get_mut(index)) else {
            return;
        };
        if is_current {
            kept.attempt.read_version = kept.attempt.read_version.or(read_version);
        }
        let operation = position.operation.checked_sub(kept.operations_left_out);
        let operation = operation.and_then(|index| kept.operations.get_mut(index as usize));
        let Some(KeptOperation {
            bytes, operation, ..
        }) = operation
        else {
            return;
        };
        if operation.answer != Answer::Pending {
            return;
        }
        operation.answered = Some(now);
        operation.answer = answer;
        let more = answer_bytes(&operation.answer);
        *bytes += more;
        self.bytes += more;
        match (&operation.call, &operation.answer) {
            (Call::GetReadVersion, Answer::Version(version)) => {
                kept.attempt.read_version = Some(*version);
            }
            (Call::OnError(error), Answer::Nothing) => {
                let error = *error;
                kept.attempt.end = End::Retried(error);
                kept.attempt.ended = Some(now);
                if let Some(live) = live {
                    live.attempt = None;
                    live.retries = Some((position.attempt, error));
                }
            }
            (Call::Commit, answer) => {
                let (answer, is_current) = (answer.clone(), is_current);
                if let Some(commit) = &mut kept.commit
                    && commit.operation == position.operation
                {
                    commit.hear(&answer, &history);
                }
                let end = match answer {
                    Answer::Nothing => End::Committed,
                    Answer::Error(error) => End::Failed(error),
                    _ => End::DroppedInCommit,
                };
                kept.end(end, now);
                if end == End::Committed && is_current {
                    self.renew(slot);
                }
            }
            _ => {}
        }
        self.evict();
    }

    /// A commit is being sent.
    fn sent(&mut self, position: Position, sent: &CommitTransaction) {
        let keep = self.keep;
        let Some(kept) = self.kept(position.attempt) else {
            return;
        };
        kept.attempt.read_version = Some(sent.read_snapshot);
        let Some(commit) = &mut kept.commit else {
            return;
        };
        let settles = conflicts_with_itself(sent);
        commit.commit.reads = keep.ranges(&sent.read_conflict_ranges);
        commit.commit.writes = keep.ranges(&sent.write_conflict_ranges);
        commit.commit.mutations = keep.mutations(&sent.mutations);
        commit.sent = Some(Sent {
            read_version: sent.read_snapshot,
            reads: sent.read_conflict_ranges.clone(),
            settles,
        });
        let bytes = commit_bytes(&commit.commit);
        self.bytes += bytes;
    }

    /// The handle is gone.
    pub(crate) fn destroy(&mut self, slot: usize, transaction: Option<&Transaction>) {
        let now = self.now();
        let Some(live) = self.live.get_mut(slot).and_then(Option::take) else {
            return;
        };
        let Some(kept) = live.attempt.and_then(|number| self.kept(number)) else {
            return;
        };
        let read_version = transaction.and_then(Transaction::known_read_version);
        kept.attempt.read_version = kept.attempt.read_version.or(read_version);
        let in_commit = kept.commit.is_some();
        kept.end(
            if in_commit {
                End::DroppedInCommit
            } else {
                End::Dropped
            },
            now,
        );
    }

    fn now(&self) -> f64 {
        self.kernel.now().as_secs()
    }

    fn place(&mut self, address: usize) -> u32 {
        let Recorder {
            places, place_ids, ..
        } = self;
        *place_ids.entry(address).or_insert_with(|| {
            places.push(address);
            places.len() as u32 - 1
        })
    }

    /// Lets the oldest go when there is too much.
    fn evict(&mut self) {
        while self.attempts.len() > self.settings.attempts_max
            || self.operations > self.settings.operations_max
            || self.bytes > self.settings.bytes_max
        {
            if self.attempts.len() > 1 {
                self.evict_attempt();
            } else if !self.evict_operation() {
                return;
            }
        }
    }

    fn evict_attempt(&mut self) {
        let Some(gone) = self.attempts.pop_front() else {
            return;
        };
        self.first += 1;
        self.left_out.attempts += 1;
        self.left_out.operations += gone.operations.len() as u64;
        self.operations -= gone.operations.len();
        let bytes: usize = gone.operations.iter().map(|one| one.bytes).sum();
        let commit = gone.commit.map_or(0, |commit| commit_bytes(&commit.commit));
        self.bytes = self.bytes.saturating_sub(bytes + commit + ATTEMPT_BYTES);
    }

    /// Lets the oldest operation of the only attempt go. Returns whether there is one.
    fn evict_operation(&mut self) -> bool {
        let Some(only) = self.attempts.front_mut() else {
            return false;
        };
        if only.operations.len() < 2 {
            return false;
        }
        let Some(gone) = only.operations.pop_front() else {
            return false;
        };
        only.operations_left_out += 1;
        self.left_out.operations += 1;
        self.operations -= 1;
        self.bytes = self.bytes.saturating_sub(gone.bytes);
        true
    }

    /// Everything that is kept, joined with what committed.
    pub(crate) fn finish(
        &mut self,
        client_of: impl Fn(ProcessId) -> Option<u32>,
        phase_of: impl Fn(*const FDBDatabase) -> Option<u32>,
    ) -> Recorded {
        let history = self.settings.history.committed();
        let newest = history.iter().map(|one| one.stamp.version);
        let newest = newest.chain(self.read_versions()).max().unwrap_or(0);
        // What committed and is known no more takes its attempts along: a fate must not be told
        // wrong.
        if let Some(oldest) = history
            .first()
            .filter(|_| self.settings.history.left_out() > 0)
        {
            let oldest = oldest.stamp.version;
            while self.attempts.front().is_some_and(|kept| {
                let sent = kept.commit.as_ref().and_then(|commit| commit.sent.as_ref());
                sent.is_some_and(|sent| sent.read_version < oldest)
            }) {
                self.evict_attempt();
            }
        }
        let ids: BTreeMap<Versionstamp, u32> =
            (0..).zip(&history).map(|(i, c)| (c.stamp, i)).collect();
        let landed: BTreeMap<u64, u32> = (0..)
            .zip(&history)
            .filter_map(|(id, one)| Some((one.transaction.tag?, id)))
            .collect();
        let first = self.first;
        let attempt_id = |number: u64| {
            let id = number.checked_sub(first)?;
            Some(id as u32)
        };
        let committed = history.iter().map(|one| Committed {
            version: one.stamp.version,
            batch_index: u32::from(one.stamp.batch_index),
            attempt: one.transaction.tag.and_then(attempt_id),
            mutations: self.keep.mutations(&one.transaction.mutations),
        });
        let committed: Vec<Committed> = committed.collect();

        let mut attempts = Vec::with_capacity(self.attempts.len());
        let mut operations = Vec::with_capacity(self.operations);
        let mut commits: BTreeMap<u64, u32> = BTreeMap::new();
        for (id, kept) in (0_u32..).zip(std::mem::take(&mut self.attempts)) {
            let number = first + u64::from(id);
            let mut attempt = kept.attempt;
            attempt.client = client_of(kept.origin.process);
            attempt.phase = kept.origin.lent.and_then(&phase_of);
            attempt.retries = kept.retries.and_then(|(before, error)| {
                let attempt = attempt_id(before)?;
                Some(Retry { attempt, error })
            });
            if let Some(commit) = kept.commit {
                let operation = commit.operation.checked_sub(kept.operations_left_out);
                let operation = operation.and_then(|index| kept.operations.get(index as usize));
                if let Some(operation) = operation {
                    commits.insert(operation.sequence, id);
                    let landed = landed.get(&number).copied();
                    attempt.commit = Some(commit.finish(landed, newest, &ids, &committed));
                }
            }
            attempts.push(attempt);
            operations.extend(kept.operations.into_iter().map(|mut kept| {
                kept.operation.attempt = id;
                (kept.sequence, kept.operation)
            }));
        }
        operations.sort_by_key(|(sequence, _)| *sequence);
        for (index, (sequence, _)) in (0_u32..).zip(&operations) {
            if let Some(id) = commits.get(sequence)
                && let Some(commit) = &mut attempts[*id as usize].commit
            {
                commit.operation = index;
            }
        }
        let mut left_out = self.left_out;
        left_out.committed = self.settings.history.left_out();
        Recorded {
            attempts,
            operations: operations.into_iter().map(|(_, one)| one).collect(),
            committed,
            places: std::mem::take(&mut self.places),
            left_out,
        }
    }

    fn read_versions(&self) -> impl Iterator<Item = Version> {
        let attempts = self.attempts.iter();
        attempts.filter_map(|kept| kept.attempt.read_version)
    }
}

impl KeptAttempt {
    /// It has ended, unless it had before.
    fn end(&mut self, end: End, now: f64) {
        if self.attempt.end == End::Open {
            self.attempt.end = end;
            self.attempt.ended = Some(now);
        }
    }
}

impl KeptCommit {
    fn new(operation: u32) -> KeptCommit {
        KeptCommit {
            operation,
            sent: None,
            commit: Commit {
                operation: 0,
                reads: Vec::new(),
                writes: Vec::new(),
                mutations: Vec::new(),
                fate: Fate::Unknown,
                conflict: None,
            },
            winner: None,
            is_answered: false,
            is_settled: false,
        }
    }

    /// The code under test has got an answer.
    fn hear(&mut self, answer: &Answer, history: &History) {
        self.is_answered = true;
        let Some(sent) = &mut self.sent else {
            if *answer == Answer::Nothing {
                self.commit.fate = Fate::ReadOnly;
            }
            return;
        };
        let error = match answer {
            Answer::Error(error) => Error(*error),
            _ => return,
        };
        self.is_settled = match error {
            Error::COMMIT_UNKNOWN_RESULT => sent.settles,
            // The attempt has ended, but what was sent is still on its way.
            Error::TRANSACTION_CANCELLED
            | Error::TRANSACTION_TIMED_OUT
            | Error::OPERATION_CANCELLED
            | Error::USED_DURING_COMMIT
            | Error::CLUSTER_VERSION_CHANGED => false,
            _ => true,
        };
        if error == Error::NOT_COMMITTED
            && let Some((winner, range)) = history.first_writer(sent.read_version, &sent.reads)
        {
            self.winner = Some(winner);
            self.commit.conflict = Some(Conflict {
                range: Range {
                    begin: Bytes::shortened(&range.begin, KEY_BYTES_MAX),
                    end: Bytes::shortened(&range.end, KEY_BYTES_MAX),
                },
                winner: None,
            });
        }
        sent.reads = Vec::new();
    }

    fn finish(
        self,
        landed: Option<u32>,
        newest: Version,
        ids: &BTreeMap<Versionstamp, u32>,
        committed: &[Committed],
    ) -> Commit {
        let mut commit = self.commit;
        if let (Some(conflict), Some(winner)) = (&mut commit.conflict, self.winner) {
            conflict.winner = ids.get(&winner).copied();
        }
        if commit.fate == Fate::ReadOnly {
            return commit;
        }
        let too_late = match &self.sent {
            Some(sent) => self.is_settled || newest > sent.read_version + LIFE_VERSIONS,
            None => self.is_answered,
        };
        commit.fate = match landed {
            Some(id) => Fate::Landed(id),
            None if too_late => Fate::Lost,
            None => Fate::Unknown,
        };
        if let Some(landed) = landed.and_then(|id| committed.get(id as usize)) {
            commit.mutations = landed.mutations.clone();
        }
        commit
    }
}

/// Whether a later transaction can make sure that this one no longer lands: it reads something that
/// it writes. Only an option of the transaction prevents that, so few ranges need a look.
fn conflicts_with_itself(sent: &CommitTransaction) -> bool {
    const RANGES_MAX: usize = 200;
    let mut written = sent.write_conflict_ranges.iter();
    if written.any(|range| range.begin.starts_with(SELF_CONFLICT_PREFIX)) {
        return true;
    }
    let mut written = sent.write_conflict_ranges.iter().take(RANGES_MAX);
    written.any(|written| {
        let mut reads = sent.read_conflict_ranges.iter().take(RANGES_MAX);
        reads.any(|read| read.begin < written.end && written.begin < read.end)
    })
}

/// Calls that return nothing have no answer to wait for.
fn first_answer(call: &Call) -> Answer {
    match call {
        Call::SetReadVersion(_)
        | Call::Set { .. }
        | Call::Clear { .. }
        | Call::Atomic { .. }
        | Call::AddConflictRange { .. }
        | Call::Cancel
        | Call::Reset
        | Call::SetOption { .. } => Answer::Nothing,
        _ => Answer::Pending,
    }
}

/// About what an operation takes beside its keys and values.
const OPERATION_BYTES: usize = size_of::<KeptOperation>();
/// About what an attempt takes beside its operations.
const ATTEMPT_BYTES: usize = size_of::<KeptAttempt>();

fn call_bytes(call: &Call) -> usize {
    match call {
        Call::Get { key, .. } | Call::Watch { key } => key.kept().len(),
        Call::GetKey { selector, .. } => selector.key.kept().len(),
        Call::GetRange(range) | Call::GetMappedRange(range) => {
            range.begin.key.kept().len() + range.end.key.kept().len()
        }
        Call::Set { key, value } => key.kept().len() + value.kept().len(),
        Call::Clear { range } | Call::AddConflictRange { range, .. } => range_bytes(range),
        Call::Atomic { key, operand, .. } => key.kept().len() + operand.kept().len(),
        _ => 0,
    }
}

fn answer_bytes(answer: &Answer) -> usize {
    const ROW_BYTES: usize = size_of::<(Bytes, Bytes)>();
    match answer {
        Answer::Key(key) | Answer::Value(Some(key)) => key.kept().len(),
        Answer::Rows { rows, .. } => rows
            .iter()
            .map(|(key, value)| ROW_BYTES + key.kept().len() + value.kept().len())
            .sum(),
        _ => 0,
    }
}

fn range_bytes(range: &Range) -> usize {
    size_of::<Range>() + range.begin.kept().len() + range.end.kept().len()
}

fn commit_bytes(commit: &Commit) -> usize {
    let ranges: usize = commit
        .reads
        .iter()
        .chain(&commit.writes)
        .map(range_bytes)
        .sum();
    let mutations: usize = commit
        .mutations
        .iter()
        .map(|mutation| {
            size_of::<Mutation>()
                + match mutation {
                    Mutation::Set { key, value } => key.kept().len() + value.kept().len(),
                    Mutation::Clear { range } => range_bytes(range),
                    Mutation::Atomic { key, operand, .. } => {
                        key.kept().len() + operand.kept().len()
                    }
                }
        })
        .sum();
    ranges + mutations
}
