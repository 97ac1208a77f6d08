//! A first-in-first-out queue on versionstamped keys: every item is taken exactly once, in order.
//!
//! An item's key ends in the versionstamp of the transaction that pushed it, so the keys of the
//! queue are in commit order and pushing never conflicts. A consumer reads the first item, removes
//! it and records that it took it, in one transaction.
//!
//! An unknown result (1021) is the difficulty on both sides. A push that is made again would leave
//! two items, so a producer first looks for a receipt that the first push would have left. A
//! consumer that tries again may find another item at the head; that is fine, because what it took
//! the first time is in its log.

use shaketable::foundationdb::options::MutationType;
use shaketable::foundationdb::tuple::{Subspace, Versionstamp};
use shaketable::foundationdb::{FdbBindingError, RangeOption, RetryableTransaction};
use shaketable::{
    Metric, Metrics, PhaseResult, SimDatabase, SingleRustWorkload, Workload, WorkloadContext,
    register_workload,
};
use std::collections::BTreeMap;

struct Queue {
    context: WorkloadContext,
    /// How many items every client pushes.
    items: u32,
    pushed: u64,
    taken: u64,
}

impl SingleRustWorkload for Queue {
    fn new(_name: String, context: WorkloadContext) -> Self {
        Queue {
            items: context.get_option("items").unwrap_or(20),
            context,
            pushed: 0,
            taken: 0,
        }
    }
}

impl Workload for Queue {
    async fn start(&mut self, db: SimDatabase) -> PhaseResult {
        let client = self.context.client_id();
        for item in 0..self.items {
            db.run(|trx, _| async move { push(&trx, client, item).await })
                .await?;
            self.pushed += 1;
            if self.context.rnd().is_multiple_of(2) {
                let taken = db.run(|trx, _| async move { take(&trx).await }).await?;
                self.taken += u64::from(taken);
            }
        }
        Ok(())
    }

    async fn check(&mut self, db: SimDatabase) -> PhaseResult {
        if self.context.client_id() != 0 {
            return Ok(());
        }
        let (taken, waiting) = db
            .run(|trx, _| async move {
                Ok((
                    read(&trx, &taken_space()).await?,
                    read(&trx, &items_space()).await?,
                ))
            })
            .await?;

        // What was taken, in the order in which it was taken, then what still waits.
        let mut next: BTreeMap<i32, u32> = BTreeMap::new();
        for (client, item) in taken.iter().chain(&waiting) {
            let expected = next.entry(*client).or_default();
            if item != expected {
                return Err(format!(
                    "client {client} pushed item {expected} next, but the queue gave {item}; \
                     taken: {taken:?}, waiting: {waiting:?}"
                )
                .into());
            }
            *expected += 1;
        }
        for client in 0..self.context.client_count() {
            let count = next.get(&client).copied().unwrap_or(0);
            if count != self.items {
                return Err(format!(
                    "client {client} pushed {} items, but {count} came out or wait",
                    self.items
                )
                .into());
            }
        }
        Ok(())
    }

    fn get_metrics(&self, mut out: Metrics) {
        out.extend([
            Metric::val("pushed", self.pushed as f64),
            Metric::val("taken", self.taken as f64),
        ]);
    }

    fn get_check_timeout(&self) -> f64 {
        5000.0
    }
}

/// Puts an item at the end of the queue, once. It looks for a receipt at every attempt:
/// `Database::run` passes on only whether the attempt before this one may have committed, not
/// whether earlier ones may have.
async fn push(trx: &RetryableTransaction, client: i32, item: u32) -> Result<(), FdbBindingError> {
    let receipt = receipts_space().pack(&(client, item));
    if trx.get(&receipt, false).await?.is_some() {
        return Ok(());
    }
    let key = items_space().pack_with_versionstamp(&Versionstamp::incomplete(0));
    let value = Subspace::all().pack(&(client, item));
    trx.atomic_op(&key, &value, MutationType::SetVersionstampedKey);
    trx.set(&receipt, b"");
    Ok(())
}

/// Takes the first item, if there is one, and records that it was taken.
async fn take(trx: &RetryableTransaction) -> Result<bool, FdbBindingError> {
    let head = RangeOption {
        limit: Some(1),
        ..RangeOption::from(&items_space())
    };
    let rows = trx.get_range(&head, 1, false).await?;
    let Some(row) = rows.first() else {
        return Ok(false);
    };
    trx.clear(row.key());
    // The log is in the order of the takes, because two of them never commit at the same version:
    // both would have read the same head.
    let key = taken_space().pack_with_versionstamp(&Versionstamp::incomplete(0));
    trx.atomic_op(&key, row.value(), MutationType::SetVersionstampedKey);
    Ok(true)
}

/// The `(client, item)` pairs of a subspace, in order.
async fn read(
    trx: &RetryableTransaction,
    space: &Subspace,
) -> Result<Vec<(i32, u32)>, FdbBindingError> {
    let mut pairs = Vec::new();
    let mut range = Some(RangeOption::from(space));
    while let Some(option) = range {
        let rows = trx.get_range(&option, 1, false).await?;
        for row in rows.iter() {
            pairs.push(
                Subspace::all()
                    .unpack(row.value())
                    .map_err(FdbBindingError::PackError)?,
            );
        }
        range = option.next_range(&rows);
    }
    Ok(pairs)
}

fn space() -> Subspace {
    Subspace::all().subspace(&"queue")
}

fn items_space() -> Subspace {
    space().subspace(&"items")
}

fn taken_space() -> Subspace {
    space().subspace(&"taken")
}

fn receipts_space() -> Subspace {
    space().subspace(&"receipts")
}

register_workload!(Queue);
