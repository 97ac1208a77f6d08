//! A client that tries everything.
//!
//! It makes random transactions over a few keys, so that clients get in one another's way: reads of every kind,
//! serializable and snapshot, mutations of every kind, explicit conflict ranges, options that change what reads see, attempts
//! that fail and are tried again. What it did and was told it writes down as [`Observation`]s. All its randomness comes from one
//! stream of the kernel.
//!
//! It leaves out what would take the promise back that the checkers verify (writes without conflict ranges), and where
//! FoundationDB itself, which the client follows, does not look like a plain map: a versionstamp makes keys unreadable; key
//! selectors still count a key that the same transaction has cleared with `COMPARE_AND_CLEAR`; a reverse read whose begin
//! is before the empty key takes the shards for empty that it has not reached; and an empty range whose selectors walk outwards
//! adds no conflict range for where they walk, so it counts as a snapshot read.

use super::{Observation, Outcome, Read, Step};
use crate::client::atomic;
use crate::client::{ConflictRangeKind, Database, RangeLimits, Transaction};
use crate::error::Error;
use crate::proto::{Key, KeyRange, KeySelector, MutationKind, Value};
use bytes::Bytes;
use shaketable_kernel::{Kernel, Stream};
use std::cell::Cell;
use std::rc::Rc;

/// Codes of the atomic operations, but for those that carry a stamp.
const ATOMIC_CODES: [i32; 10] = [2, 6, 7, 8, 9, 12, 13, 16, 17, COMPARE_AND_CLEAR];
const COMPARE_AND_CLEAR: i32 = 20;
/// How often an attempt is repeated before the client gives the transaction up.
const ATTEMPTS_MAX: usize = 5;

/// A client that makes random transactions.
pub struct RandomClient {
    kernel: Kernel,
    database: Database,
    api_version: i32,
    random: Stream,
    attempts: Rc<Cell<u64>>,
    keys: u64,
}

impl RandomClient {
    /// A client with this name, which is also the name of its random stream. Clients of one run share the counter of attempts.
    /// Few keys make many conflicts.
    pub fn new(
        kernel: &Kernel,
        database: Database,
        api_version: i32,
        name: &str,
        attempts: Rc<Cell<u64>>,
        keys: u64,
    ) -> RandomClient {
        let random = kernel.stream(name);
        RandomClient {
            kernel: kernel.clone(),
            database,
            api_version,
            random,
            attempts,
            keys,
        }
    }

    /// Makes so many transactions, each with as many attempts as it takes, and tells all about them.
    pub async fn run(self, transactions: usize) -> Vec<Observation> {
        let mut observations = Vec::new();
        for _ in 0..transactions {
            let transaction = self.database.create_transaction();
            for _ in 0..ATTEMPTS_MAX {
                let observation = self.attempt(&transaction).await;
                let outcome = observation.outcome;
                observations.push(observation);
                let Outcome::Failed(error) = outcome else {
                    break;
                };
                if transaction.on_error(error).await.is_err() {
                    break;
                }
            }
        }
        observations
    }

    /// One attempt, to the end of its commit.
    async fn attempt(&self, transaction: &Transaction) -> Observation {
        self.attempts.set(self.attempts.get() + 1);
        let mut attempt = Attempt {
            client: self,
            transaction,
            observation: Observation {
                attempt: self.attempts.get(),
                read_version: None,
                steps: Vec::new(),
                outcome: Outcome::ReadOnly,
                ended: self.kernel.now(),
            },
            ignores_writes: [false; 2],
            writes: false,
            has_compared: false,
        };
        attempt.observation.outcome = match attempt.run().await {
            Ok(outcome) => outcome,
            Err(error) => Outcome::Failed(error),
        };
        attempt.observation.ended = self.kernel.now();
        attempt.observation
    }

    fn key(&self) -> Key {
        let plain = format!("k{:02}", self.random.below(self.keys));
        match self.random.below(20) {
            0 => Bytes::new(),
            1 => (plain + "\0").into(),
            _ => plain.into(),
        }
    }

    fn range(&self) -> KeyRange {
        let (a, b) = (self.key(), self.key());
        KeyRange {
            begin: a.clone().min(b.clone()),
            end: a.max(b),
        }
    }

    fn value(&self) -> Value {
        let length = *self.random.pick(&[0, 1, 2, 4, 8, 8, 9]);
        (0..length)
            .map(|_| {
                *self
                    .random
                    .pick(&[0, 1, 127, 128, 255, self.random.below(256) as u8])
            })
            .collect()
    }

    fn selector(&self) -> KeySelector {
        let offset = *self.random.pick(&[-2, 0, 1, 1, 1, 2, 3]);
        KeySelector {
            key: self.key(),
            or_equal: self.random.chance(0.5),
            offset,
        }
    }
}

/// An attempt under way.
struct Attempt<'a> {
    client: &'a RandomClient,
    transaction: &'a Transaction,
    observation: Observation,
    /// Whether serializable reads, and snapshot reads, do not see the transaction's writes.
    ignores_writes: [bool; 2],
    writes: bool,
    /// Whether it has used `COMPARE_AND_CLEAR`, which selectors do not see through.
    has_compared: bool,
}

impl Attempt<'_> {
    async fn run(&mut self) -> Result<Outcome, Error> {
        let random = &self.client.random;
        self.choose_options();
        if random.chance(0.3) {
            self.note_read_version().await?;
        }
        let read_only = random.chance(0.2);
        for _ in 0..random.range(1, 9) {
            if random.chance(0.2) {
                self.client.kernel.sleep(random.uniform() * 0.01).await;
            }
            match random.below(10) {
                0..5 => self.read().await?,
                _ if read_only => {}
                5..9 => self.mutate(),
                _ => self.add_conflict_range(),
            }
        }
        // Last, because nobody can read beside a stamp that is not there yet.
        if !read_only && random.chance(0.15) {
            self.mutate_with_stamp();
        }
        if self.writes {
            let marker = Observation::marker(self.observation.attempt);
            self.set(marker, Bytes::new());
        }
        let stamp = self.transaction.get_versionstamp();
        self.transaction.commit().await?;
        match stamp.await {
            Ok(stamp) => Ok(Outcome::Committed(stamp)),
            Err(Error::NO_COMMIT_VERSION) => Ok(Outcome::ReadOnly),
            Err(error) => Err(error),
        }
    }

    fn choose_options(&mut self) {
        match self.client.random.below(20) {
            // READ_YOUR_WRITES_DISABLE and SNAPSHOT_RYW_DISABLE.
            0 => {
                self.transaction.set_option(51, None);
                self.ignores_writes = [true, true];
            }
            1 => {
                self.transaction.set_option(601, None);
                self.ignores_writes = [false, true];
            }
            _ => {}
        }
    }

    /// Learns the read version, of which the first read is when it was asked for.
    async fn note_read_version(&mut self) -> Result<(), Error> {
        let asked = self.client.kernel.now();
        let version = self.transaction.get_read_version().await?;
        self.observation.read_version = Some((asked, self.client.kernel.now(), version));
        Ok(())
    }

    async fn read(&mut self) -> Result<(), Error> {
        let random = &self.client.random;
        let snapshot = random.chance(0.25);
        let sees_writes = !self.ignores_writes[usize::from(snapshot)];
        let asked = self.client.kernel.now();
        let read = match random.below(3) {
            0 => {
                let key = self.client.key();
                let value = self.transaction.get(key.clone(), snapshot).await?;
                Read::Get { key, value }
            }
            1 if !self.has_compared => {
                let selector = self.client.selector();
                let key = self.transaction.get_key(selector.clone(), snapshot).await?;
                Read::GetKey { selector, key }
            }
            _ => {
                let (mut begin, end) = (self.selector(), self.selector());
                let reverse = random.chance(0.4);
                if reverse && begin.key.is_empty() {
                    begin.offset = 1;
                }
                let (rows, bytes) = (
                    *random.pick(&[0, 0, 1, 2, 5]),
                    *random.pick(&[0, 0, 1, 60, 200]),
                );
                let mode = *random.pick(&[-2, -1, 1, 2, 3, 4]);
                let limits = RangeLimits::from_parameters(rows, bytes, mode, 1)?;
                let limit = (rows > 0).then_some(rows as usize);
                let (from, to) = (begin.clone(), end.clone());
                let found = self
                    .transaction
                    .get_range(from, to, limits, snapshot, reverse)
                    .await?;
                Read::GetRange {
                    begin,
                    end,
                    reverse,
                    limit,
                    rows: found.rows,
                    more: found.more,
                }
            }
        };
        if self.observation.read_version.is_none() {
            // Some reads need no version, and only this asks for it.
            let version = self.transaction.get_read_version().await?;
            let received = self.client.kernel.now();
            self.observation.read_version = Some((asked, received, version));
        }
        let snapshot = snapshot || read.is_unprotected();
        self.observation.steps.push(Step::Read {
            read,
            snapshot,
            sees_writes,
        });
        Ok(())
    }

    /// One end of a range.
    fn selector(&self) -> KeySelector {
        let selector = self.client.selector();
        let offset = if self.has_compared {
            1
        } else {
            selector.offset
        };
        KeySelector { offset, ..selector }
    }

    fn mutate(&mut self) {
        let client = self.client;
        match client.random.below(10) {
            0..4 => self.set(client.key(), client.value()),
            4 => {
                let begin = client.key();
                let end = [&begin[..], &[0]].concat().into();
                self.transaction.clear(begin.clone());
                self.note(Step::Clear(KeyRange { begin, end }));
            }
            5 => {
                let range = client.range();
                self.transaction
                    .clear_range(range.begin.clone(), range.end.clone());
                self.note(Step::Clear(range));
            }
            _ => self.atomic(
                *client.random.pick(&ATOMIC_CODES),
                client.key(),
                client.value(),
            ),
        }
    }

    /// A versionstamped key or value, with the stamp somewhere in it.
    fn mutate_with_stamp(&mut self) {
        let client = self.client;
        let offset = client.random.range(1, 4);
        let body = [&b"s__"[..offset as usize], &[0; 10], b"end"].concat();
        let stamped: Bytes = [&body[..], &i32::to_le_bytes(offset)].concat().into();
        if client.random.chance(0.5) {
            self.atomic(14, stamped, client.value());
        } else {
            self.atomic(15, client.key(), stamped);
        }
    }

    fn add_conflict_range(&mut self) {
        let range = self.client.range();
        let kind = *self
            .client
            .random
            .pick(&[ConflictRangeKind::Read, ConflictRangeKind::Write]);
        // An empty range adds nothing, so that the transaction may still have nothing to commit.
        self.writes |= kind == ConflictRangeKind::Write && range.begin < range.end;
        self.transaction.add_conflict_range(range, kind);
    }

    fn set(&mut self, key: Key, value: Value) {
        self.transaction.set(key.clone(), value.clone());
        self.note(Step::Mutate {
            kind: MutationKind::SetValue,
            key,
            operand: value,
        });
    }

    fn atomic(&mut self, code: i32, key: Key, operand: Value) {
        self.has_compared |= code == COMPARE_AND_CLEAR;
        self.transaction
            .atomic_op(key.clone(), operand.clone(), code);
        let kind =
            atomic::kind_of_code(code, self.client.api_version).expect("one of our own codes");
        self.note(Step::Mutate { kind, key, operand });
    }

    fn note(&mut self, step: Step) {
        self.writes = true;
        self.observation.steps.push(step);
    }
}

impl Read {
    /// Whether FoundationDB's conflict ranges do not cover what the read depends on.
    fn is_unprotected(&self) -> bool {
        match self {
            Read::GetRange {
                begin, end, rows, ..
            } => rows.is_empty() && (begin.offset < 1 || end.offset > 1),
            Read::Get { .. } | Read::GetKey { .. } => false,
        }
    }
}
