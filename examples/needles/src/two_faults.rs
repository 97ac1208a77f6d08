//! One transaction that meets an unknown result, and then an error as it looks for its receipt.
//!
//! A client counts in a loop of its own. After an unknown result (1021) it looks through its
//! receipts first, from the oldest on. But an error sets the loop back to its beginning, where
//! nothing is in doubt yet. Only the two together, in this order, count twice. The client counts
//! seldom, so a commit is hardly ever under way when something breaks.

use crate::{key, number};
use shaketable::foundationdb::options::MutationType;
use shaketable::foundationdb::{FdbError, Transaction};
use shaketable::{PhaseResult, SimDatabase, Workload, WorkloadContext, sleep, sometimes};
use std::time::Duration;

pub struct Counter {
    context: WorkloadContext,
    rounds: u32,
    /// How long a client rests before it counts, at most.
    pause_millis: u32,
    /// How many receipts a client has from earlier times.
    receipts: u32,
}

impl Counter {
    pub fn new(context: WorkloadContext) -> Counter {
        Counter {
            rounds: context.get_option("rounds").unwrap_or(1),
            pause_millis: context.get_option("pauseMillis").unwrap_or(800_000),
            receipts: context.get_option("receipts").unwrap_or(4),
            context,
        }
    }

    fn receipt(&self, number: u32) -> Vec<u8> {
        key(&("receipt", self.context.client_id(), number))
    }

    /// Whether there is a receipt of that number.
    async fn look(&self, trx: &Transaction, number: u32) -> Result<bool, FdbError> {
        let mut is_there = false;
        for number in 0..=number {
            is_there = trx.get(&self.receipt(number), false).await?.is_some();
        }
        Ok(is_there)
    }

    /// Counts, unless the receipt is there already. Returns whether it is.
    async fn attempt(
        &self,
        trx: &Transaction,
        number: u32,
        in_doubt: bool,
    ) -> Result<bool, FdbError> {
        if in_doubt && self.look(trx, number).await? {
            return Ok(true);
        }
        trx.set(&self.receipt(number), b"");
        trx.atomic_op(&key(&"counter"), &1_i64.to_le_bytes(), MutationType::Add);
        Ok(false)
    }

    async fn count(&self, db: &SimDatabase, number: u32) -> Result<(), FdbError> {
        let mut in_doubt = false;
        let mut trx = db.create_trx()?;
        loop {
            let error = match self.attempt(&trx, number, in_doubt).await {
                Ok(true) => return Ok(()),
                Ok(false) => match trx.commit().await {
                    Ok(_) => return Ok(()),
                    Err(error) => {
                        let is_doubtful = error.is_maybe_committed();
                        sometimes!(is_doubtful, "the result of a commit is unknown");
                        in_doubt |= is_doubtful;
                        trx = error.on_error().await?;
                        continue;
                    }
                },
                Err(error) => error,
            };
            sometimes!(in_doubt, "a look at the receipt fails");
            in_doubt = false;
            trx = trx.on_error(error).await?;
        }
    }
}

impl Workload for Counter {
    async fn setup(&mut self, db: SimDatabase) -> PhaseResult {
        let counter = &*self;
        db.run(|trx, _| async move {
            for number in 0..counter.receipts {
                trx.set(&counter.receipt(number), b"");
            }
            Ok(())
        })
        .await?;
        Ok(())
    }

    async fn start(&mut self, db: SimDatabase) -> PhaseResult {
        for round in 0..self.rounds {
            let millis = self.context.rnd() % self.pause_millis;
            sleep(Duration::from_millis(u64::from(millis))).await;
            self.count(&db, self.receipts + round).await?;
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
