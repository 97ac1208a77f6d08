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
//!
//! Here is how attempts begin, go on and end. `asked` is an operation that waits for its answer,
//! `commit` what becomes of a commit, `keep` how much of keys and values is kept, `evict` what goes
//! when there is too much, and `finish` joins all that is kept into the record.

mod asked;
mod commit;
mod evict;
mod finish;
mod keep;

pub(crate) use asked::Asked;
pub(crate) use keep::Keep;

use crate::database::FDBDatabase;
use commit::{KeptCommit, Sent, conflicts_with_itself};
use evict::{ATTEMPT_BYTES, OPERATION_BYTES};
use keep::{answer_bytes, call_bytes, commit_bytes};
use shaketable_cluster::checker::History;
use shaketable_cluster::client::Transaction;
use shaketable_cluster::proto::{CommitTransaction, Version};
use shaketable_kernel::{Kernel, ProcessId};
use shaketable_record::{Answer, Attempt, Call, Committed, End, LeftOut, Operation};
use std::collections::{BTreeMap, VecDeque};

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

#[cfg(test)]
mod tests;
