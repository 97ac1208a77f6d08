//! A client that tries everything.
//!
//! It makes random transactions over a few keys, so that clients conflict with one another: reads
//! of every kind, serializable and snapshot, mutations of every kind, explicit conflict ranges,
//! options that change what reads see, attempts that fail and are tried again. All its randomness
//! comes from one stream of the kernel.
//!
//! It leaves out calls that give up the promise the checkers verify (writes without conflict
//! ranges), and the cases where FoundationDB itself, which the client follows, does not look like a
//! plain map: a versionstamp makes keys unreadable; key selectors still count a key that the same
//! transaction has cleared with `COMPARE_AND_CLEAR`; and a reverse read whose begin is before the
//! empty key treats the shards it has not reached as empty.

use super::{Notebook, ObservedTransaction};
use crate::client::{ConflictRangeKind, Database, RangeLimits};
use crate::error::Error;
use crate::process::Process;
use crate::proto::{Key, KeyRange, KeySelector, Value};
use bytes::Bytes;
use shaketable_kernel::Stream;

/// Codes of the atomic operations, except those that carry a stamp.
const ATOMIC_CODES: [i32; 10] = [2, 6, 7, 8, 9, 12, 13, 16, 17, COMPARE_AND_CLEAR];
const COMPARE_AND_CLEAR: i32 = 20;
/// How often an attempt is repeated before the client gives up the transaction.
const ATTEMPTS_MAX: usize = 5;

/// A client that makes random transactions.
pub struct RandomClient {
    here: Process,
    database: Database,
    api_version: i32,
    random: Stream,
    notebook: Notebook,
    keys: u64,
}

impl RandomClient {
    /// A client that draws from this stream. Few keys make many conflicts.
    pub fn new(
        database: Database,
        api_version: i32,
        random: Stream,
        notebook: &Notebook,
        keys: u64,
    ) -> RandomClient {
        RandomClient {
            here: database.process().clone(),
            database,
            api_version,
            random,
            notebook: notebook.clone(),
            keys,
        }
    }

    /// Makes one transaction, with as many attempts as it takes, up to a limit.
    pub async fn transact(&self) {
        let transaction =
            ObservedTransaction::new(&self.database, self.api_version, &self.notebook);
        for _ in 0..ATTEMPTS_MAX {
            let mut attempt = Attempt {
                client: self,
                transaction: &transaction,
                has_compared: false,
            };
            let Err(error) = attempt.run().await else {
                break;
            };
            if transaction.on_error(error).await.is_err() {
                break;
            }
        }
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
    transaction: &'a ObservedTransaction,
    /// Whether it has used `COMPARE_AND_CLEAR`, which selectors do not see through.
    has_compared: bool,
}

impl Attempt<'_> {
    async fn run(&mut self) -> Result<(), Error> {
        let random = &self.client.random;
        match random.below(20) {
            0 => self.transaction.disable_read_your_writes(),
            1 => self.transaction.disable_snapshot_read_your_writes(),
            _ => {}
        }
        if random.chance(0.3) {
            self.transaction.get_read_version().await?;
        }
        let read_only = random.chance(0.2);
        for _ in 0..random.range(1, 9) {
            if random.chance(0.2) {
                self.client.here.sleep(random.uniform() * 0.01).await;
            }
            match random.below(10) {
                0..5 => self.read().await?,
                _ if read_only => {}
                5..9 => self.mutate(),
                _ => self.add_conflict_range(),
            }
        }
        // Last, because keys next to a pending stamp cannot be read.
        if !read_only && random.chance(0.15) {
            self.mutate_with_stamp();
        }
        self.transaction.commit().await
    }

    async fn read(&mut self) -> Result<(), Error> {
        let random = &self.client.random;
        let snapshot = random.chance(0.25);
        match random.below(3) {
            0 => {
                let key = self.client.key();
                self.transaction.get(key, snapshot).await?;
            }
            1 if !self.has_compared => {
                let selector = self.client.selector();
                self.transaction.get_key(selector, snapshot).await?;
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
                self.transaction
                    .get_range(begin, end, limits, limit, snapshot, reverse)
                    .await?;
            }
        }
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
            0..4 => self.transaction.set(client.key(), client.value()),
            4 => self.transaction.clear(client.key()),
            5 => self.transaction.clear_range(client.range()),
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

    fn add_conflict_range(&self) {
        let random = &self.client.random;
        let range = self.client.range();
        let kind = *random.pick(&[ConflictRangeKind::Read, ConflictRangeKind::Write]);
        self.transaction.add_conflict_range(range, kind);
    }

    fn atomic(&mut self, code: i32, key: Key, operand: Value) {
        self.has_compared |= code == COMPARE_AND_CLEAR;
        self.transaction.atomic_op(key, operand, code);
    }
}
