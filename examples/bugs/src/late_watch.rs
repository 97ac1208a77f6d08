//! A watch is set in another transaction than the read it guards.
//!
//! The value is read; then, in a new transaction, a watch is set. A change in between is seen by
//! neither, and the copy stays old until the next change. The fix reads and watches in one
//! transaction.

use crate::canary::{Client, Layer, number};
use shaketable::foundationdb::tuple::Subspace;
use shaketable::foundationdb::{FdbError, FdbResult};
use shaketable::{PhaseError, PhaseResult, SimDatabase, sleep, timeout};
use std::time::Duration;

/// Longer than any outage of a test lasts.
const PATIENCE: Duration = Duration::from_secs(1000);

#[derive(Default)]
pub struct Copy {
    value: i64,
}

impl Layer for Copy {
    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        let last = i64::from(client.rounds);
        if client.id() == 0 {
            for value in 1..=last {
                db.run(|trx, _| async move {
                    trx.set(&key(), &value.to_le_bytes());
                    Ok(())
                })
                .await?;
                sleep(Duration::from_millis(u64::from(client.below(200)))).await;
            }
            return Ok(());
        }
        while self.value < last {
            let watch = self.read_and_watch(client, db).await?;
            if self.value < last && timeout(PATIENCE, watch).await.is_err() {
                return Err(
                    format!("the copy still says {}, nothing wakes it up", self.value).into(),
                );
            }
        }
        Ok(())
    }

    async fn check(&mut self, _client: &Client, _db: &SimDatabase) -> PhaseResult {
        Ok(())
    }
}

impl Copy {
    async fn read_and_watch(
        &mut self,
        client: &Client,
        db: &SimDatabase,
    ) -> Result<impl Future<Output = FdbResult<()>> + use<>, PhaseError> {
        if !client.fixed {
            self.value = db
                .run(|trx, _| async move { number(&trx, &key()).await })
                .await?;
        }
        let mut trx = db.create_trx()?;
        loop {
            let read = trx.get(&key(), false).await;
            let error: FdbError = match read {
                Ok(value) => {
                    let watch = trx.watch(&key());
                    match trx.commit().await {
                        Ok(_) => {
                            if client.fixed {
                                self.value =
                                    value.as_deref().map_or(Ok(0), crate::canary::decode)?;
                            }
                            return Ok(watch);
                        }
                        Err(error) => {
                            trx = error.on_error().await?;
                            continue;
                        }
                    }
                }
                Err(error) => error,
            };
            trx = trx.on_error(error).await?;
        }
    }
}

fn key() -> Vec<u8> {
    Subspace::all().pack(&"watched")
}
