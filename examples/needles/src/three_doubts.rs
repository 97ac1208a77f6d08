//! Three commits in a row whose results are unknown, and that have all landed.
//!
//! A client counts, and looks for its receipt when the result of a commit is unknown (1021). It
//! remembers the receipts of two doubts. The third in a row is one too many: it counts again.

use crate::{key, number};
use shaketable::foundationdb::FdbBindingError;
use shaketable::foundationdb::options::MutationType;
use shaketable::{PhaseResult, SimDatabase, Workload, WorkloadContext, sleep, sometimes_each};
use std::time::Duration;

const REMEMBERED: u32 = 2;

pub struct Counter {
    context: WorkloadContext,
    rounds: u32,
    /// How long a client rests after it has counted, at most.
    pause_millis: u32,
}

impl Counter {
    pub fn new(context: WorkloadContext) -> Counter {
        Counter {
            rounds: context.get_option("rounds").unwrap_or(12),
            pause_millis: context.get_option("pauseMillis").unwrap_or(4_000),
            context,
        }
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
        for round in 0..self.rounds {
            doubts = match self.count(&db, round).await? {
                true => doubts + 1,
                false => 0,
            };
            sometimes_each!(doubts, "landed doubts in a row");
            if doubts > REMEMBERED {
                self.count(&db, self.rounds + round).await?;
            }
            let millis = self.context.rnd() % self.pause_millis;
            sleep(Duration::from_millis(u64::from(millis))).await;
        }
        Ok(())
    }

    async fn check(&mut self, db: SimDatabase) -> PhaseResult {
        let expected = i64::from(self.rounds) * i64::from(self.context.client_count());
        let found = db
            .run(|trx, _| async move { number(&trx, &key(&"counter")).await })
            .await?;
        if found != expected {
            return Err(format!("{expected} were counted, the counter says {found}").into());
        }
        Ok(())
    }
}
