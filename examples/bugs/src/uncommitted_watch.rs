//! A watch is set in a transaction that is never committed.
//!
//! The transaction only reads, so committing it looks pointless. But a watch begins to watch when
//! its transaction commits; until then its future just waits, and the copy stays old. The fix
//! commits.

use crate::canary::{Client, Layer, decode};
use shaketable::foundationdb::tuple::Subspace;
use shaketable::{PhaseResult, SimDatabase, sleep, timeout};
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
        let mut trx = db.create_trx()?;
        while self.value < last {
            let read = trx.get(&key(), false).await;
            let value = match read {
                Ok(value) => value,
                Err(error) => {
                    trx = trx.on_error(error).await?;
                    continue;
                }
            };
            self.value = value.as_deref().map_or(Ok(0), decode)?;
            let watch = trx.watch(&key());
            let open = if client.fixed {
                match trx.commit().await {
                    Ok(_) => None,
                    Err(error) => {
                        trx = error.on_error().await?;
                        continue;
                    }
                }
            } else {
                Some(trx)
            };
            if self.value < last && timeout(PATIENCE, watch).await.is_err() {
                return Err(
                    format!("the copy still says {}, nothing wakes it up", self.value).into(),
                );
            }
            drop(open);
            trx = db.create_trx()?;
        }
        Ok(())
    }

    async fn check(&mut self, _client: &Client, _db: &SimDatabase) -> PhaseResult {
        Ok(())
    }
}

fn key() -> Vec<u8> {
    Subspace::all().pack(&"copied")
}
