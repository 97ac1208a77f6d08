//! Records what the code under test asks for, what it is told, and what really happened.
//!
//! While a host wants a record ([`crate::CApi::record`]), every call of a transaction becomes an
//! operation of an attempt: what was asked, when, from which line, and what was answered. An
//! attempt begins with its first call. It ends when its commit is answered, when `on_error` accepts
//! its error (the next call then begins another attempt of the same transaction), with a reset, a
//! cancel, or when its handle or the future of its commit is dropped.
//!
//! What a commit sends is noted when it is sent, with a tag. The cluster's history keeps that tag
//! with everything that committed, so at the end each commit finds out what became of it, also if
//! its client never did.
//!
//! The recorder only looks: it draws nothing, posts nothing and wakes nothing, so a run with it is
//! the same run. It keeps a bounded amount: when there is more, the oldest attempts go, whole.

mod commit;
mod keep;

pub(crate) use keep::Keep;

use crate::database::FDBDatabase;
use crate::universe::Universe;
use crate::value::Value;
use commit::{KeptCommit, Sent, conflicts_with_itself};
use keep::{answer_bytes, call_bytes, commit_bytes};
use shaketable_cluster::checker::History;
use shaketable_cluster::client::Transaction;
use shaketable_cluster::error::Error;
use shaketable_cluster::proto::{CommitTransaction, Version, Versionstamp};
use shaketable_kernel::{Kernel, ProcessId};
use shaketable_record::{Answer, Attempt, Call, Committed, End, LeftOut, Operation, Retry};
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
    /// The places from which calls were made, as the host's numbers for them.
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
        let place = place.map(|number| self.place(number));
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

    fn place(&mut self, number: usize) -> u32 {
        let Recorder {
            places, place_ids, ..
        } = self;
        *place_ids.entry(number).or_insert_with(|| {
            places.push(number);
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
            let may_be_older = |kept: &KeptAttempt| {
                let sent = kept.commit.as_ref().and_then(|commit| commit.sent.as_ref());
                sent.is_some_and(|sent| sent.read_version < oldest)
            };
            let last = self.attempts.iter().rposition(may_be_older);
            for _ in 0..last.map_or(0, |last| last + 1) {
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

#[cfg(test)]
mod tests;
