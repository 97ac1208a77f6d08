//! One transaction that meets an unknown result and then is too old.
//!
//! A client counts in a loop of its own. After an unknown result (1021) it looks for its receipt
//! first. But `transaction_too_old` (1007) sets the loop back to its beginning, where nothing is in
//! doubt yet. Only the two together, in this order, count twice.

use crate::{key, number};
use shaketable::foundationdb::options::MutationType;
use shaketable::foundationdb::{FdbError, Transaction};
use shaketable::{PhaseResult, SimDatabase, Workload, WorkloadContext, sometimes};

const ROUNDS: u32 = 20;
const TOO_OLD: i32 = 1007;

pub struct Counter {
    context: WorkloadContext,
}

impl Counter {
    pub fn new(context: WorkloadContext) -> Counter {
        Counter { context }
    }

    async fn count(&self, db: &SimDatabase, round: u32) -> Result<(), FdbError> {
        let receipt = key(&("receipt", self.context.client_id(), round));
        let mut in_doubt = false;
        let mut trx = db.create_trx()?;
        loop {
            let error = match attempt(&trx, &receipt, in_doubt).await {
                Ok(true) => return Ok(()),
                Ok(false) => match trx.commit().await {
                    Ok(_) => return Ok(()),
                    Err(error) => {
                        let is_doubtful = error.is_maybe_committed();
                        sometimes!(is_doubtful, "the result of a commit is unknown");
                        sometimes!(in_doubt && is_doubtful, "the result of a retry is unknown");
                        in_doubt |= is_doubtful;
                        let is_too_old = error.code() == TOO_OLD;
                        in_doubt &= !is_too_old;
                        trx = error.on_error().await?;
                        continue;
                    }
                },
                Err(error) => error,
            };
            sometimes!(in_doubt, "a look at the receipt fails");
            if error.code() == TOO_OLD {
                in_doubt = false;
            }
            trx = trx.on_error(error).await?;
        }
    }
}

/// Whether the receipt is there already; if not, counts.
async fn attempt(trx: &Transaction, receipt: &[u8], look: bool) -> Result<bool, FdbError> {
    if look && trx.get(receipt, false).await?.is_some() {
        return Ok(true);
    }
    trx.set(receipt, b"");
    trx.atomic_op(&key(&"counter"), &1_i64.to_le_bytes(), MutationType::Add);
    Ok(false)
}

impl Workload for Counter {
    async fn start(&mut self, db: SimDatabase) -> PhaseResult {
        for round in 0..ROUNDS {
            self.count(&db, round).await?;
        }
        Ok(())
    }

    async fn check(&mut self, db: SimDatabase) -> PhaseResult {
        let expected = i64::from(ROUNDS) * i64::from(self.context.client_count());
        let found = db
            .run(|trx, _| async move { number(&trx, &key(&"counter")).await })
            .await?;
        if found != expected {
            return Err(format!("{expected} were counted, the counter says {found}").into());
        }
        Ok(())
    }
}
