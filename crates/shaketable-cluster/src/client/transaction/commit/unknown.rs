//! Settling the fate of a commit whose reply was lost.
//!
//! A transaction that reads and writes some key conflicts with every other one that does. So when
//! a second transaction on that key has committed, the first either has or never will. With an
//! idempotency id the client can then find out which: the commit proxy wrote the id beside the
//! transaction.

use super::delivered;
use crate::client::RangeLimits;
use crate::client::database::Context;
use crate::client::grv::GrvKind;
use crate::client::limits::REPLY_BYTES_MAX;
use crate::data::idempotency;
use crate::data::key::{compare, key_after};
use crate::error::Error;
use crate::proto::{
    Commit, CommitOutcome, CommitTransaction, Key, KeyRange, KeySelector, TransactionPriority,
    Version, Versionstamp,
};
use std::rc::Rc;

impl Context {
    /// Commits a transaction that conflicts with every other one that reads and writes `key`,
    /// however long it takes.
    pub(super) async fn commit_dummy(self: &Rc<Self>, key: Key) {
        let mut backoff = self.knobs().default_backoff;
        loop {
            let kind = GrvKind {
                priority: TransactionPriority::Default,
                causal_read_risky: true,
            };
            let version = self.request_read_version(kind, &[]).wait().await;
            let outcome = match version {
                Ok(version) => {
                    let mut transaction = CommitTransaction {
                        read_snapshot: version.version,
                        lock_aware: true,
                        ..CommitTransaction::default()
                    };
                    transaction.conflict_with_itself(key.clone());
                    let commit = Commit {
                        transaction,
                        first_in_batch: false,
                        idempotency_id: None,
                    };
                    let info = self.proxies().await;
                    delivered(self.send_to_proxy(&info, commit).await)
                }
                Err(error) => Ok(Err(error)),
            };
            if let Ok(Ok(CommitOutcome::Committed { .. })) = outcome {
                return;
            }
            self.process.sleep(backoff * self.random.uniform()).await;
            backoff =
                (backoff * self.knobs().backoff_growth_rate).min(self.knobs().default_max_backoff);
        }
    }

    /// Looks up whether a transaction with this id has committed. It can no longer be under way.
    pub(super) async fn find_idempotency_id(
        self: &Rc<Self>,
        read_snapshot: Version,
        id: &[u8],
    ) -> Result<Option<Versionstamp>, Error> {
        let last = read_snapshot + self.knobs().max_write_transaction_life_versions;
        let kind = GrvKind {
            priority: TransactionPriority::Default,
            causal_read_risky: false,
        };
        'attempt: loop {
            let (mut begin, end) = (
                idempotency::key(read_snapshot, 0),
                idempotency::key(last + 1, 0),
            );
            let version = match self.request_read_version(kind, &[]).wait().await {
                Ok(version) => version.version,
                Err(_) => {
                    self.process
                        .sleep(self.knobs().future_version_retry_delay)
                        .await;
                    continue;
                }
            };
            loop {
                let edge = KeySelector::first_greater_or_equal;
                let limits = RangeLimits {
                    rows: None,
                    min_rows: 1,
                    bytes: Some(REPLY_BYTES_MAX),
                };
                let (from, to) = (edge(begin), edge(end.clone()));
                let Ok(answer) = self.get_rows(from, to, limits, false, version).await else {
                    self.process
                        .sleep(self.knobs().future_version_retry_delay)
                        .await;
                    continue 'attempt;
                };
                if let Some(stamp) = answer
                    .rows
                    .iter()
                    .find_map(|row| idempotency::find(row, id))
                {
                    return Ok(Some(stamp));
                }
                match (answer.more, answer.read_through, answer.rows.last()) {
                    (false, ..) => return Ok(None),
                    (true, Some(through), _) => begin = through,
                    (true, None, Some(last)) => begin = key_after(&last.key),
                    (true, None, None) => return Ok(None),
                }
            }
        }
    }
}

impl CommitTransaction {
    /// Makes a key part of both what is read and what is written.
    pub(super) fn conflict_with_itself(&mut self, key: Key) {
        let range = KeyRange {
            end: key_after(&key),
            begin: key,
        };
        self.read_conflict_ranges.push(range.clone());
        self.write_conflict_ranges.push(range);
    }

    /// A key that is both read and written, if there is one.
    pub(super) fn common_key(&self) -> Option<Key> {
        // Ranges from the overlay are in order; only a transaction without it may have them out of
        // order.
        let sorted = |ranges: &'_ [KeyRange]| {
            let order = |a: &KeyRange, b: &KeyRange| compare(&a.begin, &b.begin);
            let mixed = !ranges.is_sorted_by(|a, b| order(a, b).is_le());
            mixed.then(|| {
                let mut sorted = ranges.to_vec();
                sorted.sort_by(order);
                sorted
            })
        };
        let (all_reads, all_writes) = (&self.read_conflict_ranges, &self.write_conflict_ranges);
        let (reads, writes) = (sorted(all_reads), sorted(all_writes));
        let reads = reads.as_ref().unwrap_or(all_reads);
        let writes = writes.as_ref().unwrap_or(all_writes);
        let (mut read, mut write) = (0, 0);
        while read < reads.len() && write < writes.len() {
            let (r, w) = (&reads[read], &writes[write]);
            if compare(&r.end, &w.begin).is_le() {
                read += 1;
            } else if compare(&w.end, &r.begin).is_le() {
                write += 1;
            } else {
                return Some((&r.begin).max(&w.begin).clone());
            }
        }
        None
    }
}
