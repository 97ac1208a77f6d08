//! A transaction that records what is done with it.
//!
//! Everything a client does through an [`ObservedTransaction`] becomes [`Observation`]s in the
//! [`Notebook`] of the run, one per attempt, so that any workload can be proved, not only those
//! that were written for the proof. It has the calls that the proof understands, and leaves out the
//! rest: calls that give up a promise the proof checks (writes without conflict ranges, risky
//! reads) have no place here.

use super::{Observation, Outcome, Read, Step};
use crate::client::{ConflictRangeKind, Database, Pending, RangeLimits, Transaction};
use crate::data::atomic;
use crate::data::key::KeyBound;
use crate::error::Error;
use crate::process::Process;
use crate::proto::{Key, KeyRange, KeySelector, KeyValue, MutationKind, Value};
use bytes::Bytes;
use shaketable_kernel::Time;
use std::cell::RefCell;
use std::rc::Rc;

const READ_YOUR_WRITES_DISABLE: i32 = 51;
const SNAPSHOT_RYW_DISABLE: i32 = 601;

/// The observations of all clients of a run. Cheap to clone: clones share the same notebook.
#[derive(Clone, Debug, Default)]
pub struct Notebook(Rc<RefCell<Pages>>);

#[derive(Debug, Default)]
struct Pages {
    attempts: u64,
    observations: Vec<Observation>,
}

impl Notebook {
    /// Takes all attempts that have ended so far.
    pub fn take(&self) -> Vec<Observation> {
        std::mem::take(&mut self.0.borrow_mut().observations)
    }

    fn number(&self) -> u64 {
        let mut pages = self.0.borrow_mut();
        pages.attempts += 1;
        pages.attempts
    }
}

/// A transaction whose attempts are observed.
pub struct ObservedTransaction {
    here: Process,
    transaction: Transaction,
    api_version: i32,
    notebook: Notebook,
    attempt: RefCell<Option<Attempt>>,
}

/// An attempt under way.
struct Attempt {
    observation: Observation,
    /// Whether serializable reads, and snapshot reads, do not see the transaction's writes.
    ignores_writes: [bool; 2],
    writes: bool,
}

impl ObservedTransaction {
    /// A transaction on a database that was opened with this API version.
    pub fn new(database: &Database, api_version: i32, notebook: &Notebook) -> ObservedTransaction {
        ObservedTransaction {
            here: database.process().clone(),
            transaction: database.create_transaction(),
            api_version,
            notebook: notebook.clone(),
            attempt: RefCell::default(),
        }
    }

    /// Gets the read version.
    pub async fn get_read_version(&self) -> Result<(), Error> {
        let asked = self.begin();
        self.note_read_version(asked).await
    }

    /// Reads a key.
    pub async fn get(&self, key: Key, snapshot: bool) -> Result<Option<Value>, Error> {
        let asked = self.begin();
        let value = self.transaction.get(key.clone(), snapshot).await?;
        let read = Read::Get {
            key,
            value: value.clone(),
        };
        self.note_read(asked, read, snapshot).await?;
        Ok(value)
    }

    /// Resolves a selector.
    pub async fn get_key(&self, selector: KeySelector, snapshot: bool) -> Result<Key, Error> {
        let asked = self.begin();
        let key = self.transaction.get_key(selector.clone(), snapshot).await?;
        let read = Read::GetKey {
            selector,
            key: key.clone(),
        };
        self.note_read(asked, read, snapshot).await?;
        Ok(key)
    }

    /// Reads rows, at most `limit` if there is a row limit; returns whether there may be more.
    pub async fn get_range(
        &self,
        begin: KeySelector,
        end: KeySelector,
        limits: RangeLimits,
        limit: Option<usize>,
        snapshot: bool,
        reverse: bool,
    ) -> Result<(Vec<KeyValue>, bool), Error> {
        let asked = self.begin();
        let found = self
            .transaction
            .get_range(begin.clone(), end.clone(), limits, snapshot, reverse)
            .await?;
        let read = Read::GetRange {
            begin,
            end,
            reverse,
            limit,
            rows: found.rows.clone(),
            more: found.more,
        };
        self.note_read(asked, read, snapshot).await?;
        Ok((found.rows, found.more))
    }

    /// Reads all rows from one key up to another.
    pub async fn get_all(&self, begin: Key, end: Key) -> Result<Vec<KeyValue>, Error> {
        let at = |key: Key, or_equal| KeySelector {
            key,
            or_equal,
            offset: 1,
        };
        let mut rows: Vec<KeyValue> = Vec::new();
        loop {
            let from = match rows.last() {
                Some(last) => at(last.key.clone(), true),
                None => at(begin.clone(), false),
            };
            let limits = RangeLimits::rows(1000);
            let to = at(end.clone(), false);
            let (part, more) = self
                .get_range(from, to, limits, Some(1000), false, false)
                .await?;
            rows.extend(part);
            if !more {
                return Ok(rows);
            }
        }
    }

    /// Sets a key.
    pub fn set(&self, key: Key, value: Value) {
        self.transaction.set(key.clone(), value.clone());
        self.note_write(Step::Mutate {
            kind: MutationKind::SetValue,
            key,
            operand: value,
        });
    }

    /// Clears a key.
    pub fn clear(&self, key: Key) {
        self.transaction.clear(key.clone());
        let end = KeyBound::after(&key).to_key();
        self.note_write(Step::Clear(KeyRange { begin: key, end }));
    }

    /// Clears a range.
    pub fn clear_range(&self, range: KeyRange) {
        self.transaction
            .clear_range(range.begin.clone(), range.end.clone());
        self.note_write(Step::Clear(range));
    }

    /// An atomic operation, by its code.
    pub fn atomic_op(&self, key: Key, operand: Value, code: i32) {
        let kind =
            atomic::kind_of_code(code, self.api_version).expect("the code of an atomic operation");
        self.transaction
            .atomic_op(key.clone(), operand.clone(), code);
        self.note_write(Step::Mutate { kind, key, operand });
    }

    /// Declares a range to have been read or written.
    pub fn add_conflict_range(&self, range: KeyRange, kind: ConflictRangeKind) {
        // An empty range adds nothing, so the transaction may still have nothing to commit.
        let writes = kind == ConflictRangeKind::Write && range.begin < range.end;
        self.with(|attempt| attempt.writes |= writes);
        self.transaction.add_conflict_range(range, kind);
    }

    /// Hides the writes of this attempt from all reads.
    pub fn disable_read_your_writes(&self) {
        self.transaction.set_option(READ_YOUR_WRITES_DISABLE, None);
        self.with(|attempt| attempt.ignores_writes = [true, true]);
    }

    /// Hides the writes of this attempt from snapshot reads.
    pub fn disable_snapshot_read_your_writes(&self) {
        self.transaction.set_option(SNAPSHOT_RYW_DISABLE, None);
        self.with(|attempt| attempt.ignores_writes = [false, true]);
    }

    /// Becomes ready when the value of a key is no longer what the transaction saw.
    pub fn watch(&self, key: Key) -> Pending<()> {
        self.transaction.watch(key)
    }

    /// Commits, and ends the attempt.
    pub async fn commit(&self) -> Result<(), Error> {
        let marker = self.with(|attempt| attempt.writes.then_some(attempt.observation.attempt));
        if let Some(attempt) = marker {
            self.set(Observation::marker(attempt), Bytes::new());
        }
        let stamp = self.transaction.get_versionstamp();
        let outcome = match self.transaction.commit().await {
            Err(error) => Outcome::Failed(error),
            Ok(()) => match stamp.await {
                Ok(stamp) => Outcome::Committed(stamp),
                Err(Error::NO_COMMIT_VERSION) => Outcome::ReadOnly,
                Err(error) => Outcome::Failed(error),
            },
        };
        self.end(outcome);
        match outcome {
            Outcome::Failed(error) => Err(error),
            Outcome::Committed(_) | Outcome::ReadOnly => Ok(()),
        }
    }

    /// Ends the attempt with an error, if it has not ended, and waits until the next one may begin.
    pub async fn on_error(&self, error: Error) -> Result<(), Error> {
        self.end(Outcome::Failed(error));
        self.transaction.on_error(error).await
    }

    /// Retries until it commits.
    ///
    /// # Panics
    ///
    /// On an error that cannot be retried.
    pub async fn run<T>(&self, body: impl AsyncFn(&Self) -> Result<T, Error>) -> T {
        loop {
            let result = async {
                let value = body(self).await?;
                self.commit().await?;
                Ok(value)
            };
            match result.await {
                Ok(value) => return value,
                Err(error) => {
                    let retried = self.on_error(error).await;
                    retried.unwrap_or_else(|error| panic!("expected an error to retry: {error}"));
                }
            }
        }
    }

    /// The attempt under way, which begins with the first call.
    fn with<T>(&self, change: impl FnOnce(&mut Attempt) -> T) -> T {
        let mut attempt = self.attempt.borrow_mut();
        change(attempt.get_or_insert_with(|| Attempt {
            observation: Observation {
                attempt: self.notebook.number(),
                read_version: None,
                steps: Vec::new(),
                outcome: Outcome::ReadOnly,
                ended: self.here.now(),
            },
            ignores_writes: [false; 2],
            writes: false,
        }))
    }

    /// Makes sure that an attempt is under way, even if its first read fails; returns the current
    /// time.
    fn begin(&self) -> Time {
        self.with(|_| ());
        self.here.now()
    }

    fn end(&self, outcome: Outcome) {
        let Some(mut attempt) = self.attempt.take() else {
            return;
        };
        attempt.observation.outcome = outcome;
        attempt.observation.ended = self.here.now();
        let mut pages = self.notebook.0.borrow_mut();
        pages.observations.push(attempt.observation);
    }

    /// The first read is what requests the read version.
    async fn note_read_version(&self, asked: Time) -> Result<(), Error> {
        let version = self.transaction.get_read_version().await?;
        let received = self.here.now();
        self.with(|attempt| attempt.observation.read_version = Some((asked, received, version)));
        Ok(())
    }

    async fn note_read(&self, asked: Time, read: Read, snapshot: bool) -> Result<(), Error> {
        if self.with(|attempt| attempt.observation.read_version.is_none()) {
            // Some reads need no version; only this call requests it.
            self.note_read_version(asked).await?;
        }
        self.with(|attempt| {
            let sees_writes = !attempt.ignores_writes[usize::from(snapshot)];
            let snapshot = snapshot || read.is_unprotected();
            attempt.observation.steps.push(Step::Read {
                read,
                snapshot,
                sees_writes,
            });
        });
        Ok(())
    }

    fn note_write(&self, step: Step) {
        self.with(|attempt| {
            attempt.writes = true;
            attempt.observation.steps.push(step);
        });
    }
}

impl Read {
    /// Whether FoundationDB's conflict ranges do not cover what the read depends on: an empty range
    /// whose selectors walk outwards adds no range for the keys they walk over.
    fn is_unprotected(&self) -> bool {
        match self {
            Read::GetRange {
                begin, end, rows, ..
            } => rows.is_empty() && (begin.offset < 1 || end.offset > 1),
            Read::Get { .. } | Read::GetKey { .. } => false,
        }
    }
}
