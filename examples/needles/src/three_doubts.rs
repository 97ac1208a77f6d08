//! Three commits in a row whose results are unknown, and that have all landed.
//!
//! A client counts, and looks for its receipt when the result of a commit is unknown (1021). It
//! remembers the receipts of two doubts. The third in a row is one too many: it counts again.

use crate::{key, number};
use shaketable::foundationdb::FdbBindingError;
use shaketable::foundationdb::options::MutationType;
use shaketable::{PhaseResult, SimDatabase, Workload, WorkloadContext, sometimes_each};

const ROUNDS: u32 = 25;
const REMEMBERED: u32 = 2;

pub struct Counter {
    context: WorkloadContext,
}

impl Counter {
    pub fn new(context: WorkloadContext) -> Counter {
        Counter { context }
    }

    /// Counts once. Returns whether the result was in doubt, although it had landed.
    async fn count(&self, db: &SimDatabase, round: u32) -> Result<bool, FdbBindingError> {
        let receipt = key(&("receipt", self.context.client_id(), round));
        let mut is_landed_doubt = false;
        let mut trx = db.create_trx()?;
        loop {
            trx.set(&receipt, b"");
            trx.atomic_op(&key(&"counter"), &1_i64.to_le_bytes(), MutationType::Add);
            let error = match trx.commit().await {
                Ok(_) => return Ok(is_landed_doubt),
                Err(error) => error,
            };
            let in_doubt = error.is_maybe_committed();
            trx = error.on_error().await?;
            if in_doubt {
                let receipt = &receipt;
                is_landed_doubt = db
                    .run(|trx, _| async move { Ok(trx.get(receipt, false).await?.is_some()) })
                    .await?;
                if is_landed_doubt {
                    return Ok(true);
                }
            }
        }
    }
}

impl Workload for Counter {
    async fn start(&mut self, db: SimDatabase) -> PhaseResult {
        let mut doubts = 0;
        for round in 0..ROUNDS {
            doubts = match self.count(&db, round).await? {
                true => doubts + 1,
                false => 0,
            };
            sometimes_each!(doubts, "landed doubts in a row");
            if doubts > REMEMBERED {
                self.count(&db, ROUNDS + round).await?;
            }
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
