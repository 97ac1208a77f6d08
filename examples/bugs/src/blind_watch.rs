//! A watch is taken for a message.
//!
//! Client 0 raises a level step by step, and the others count its steps by their watch: it fired,
//! so there was one. But a watch only says that a look may be worth it: several changes fire it
//! once, and it may fire without any. The fix reads the value again.

use crate::canary::{Client, Layer, decode, number};
use shaketable::foundationdb::FdbResult;
use shaketable::foundationdb::tuple::Subspace;
use shaketable::{PhaseError, PhaseResult, SimDatabase, sleep, timeout};
use std::time::Duration;

/// After this time without a change there will be none.
const SILENCE: Duration = Duration::from_secs(1000);

#[derive(Default)]
pub struct Follower {
    level: i64,
}

impl Layer for Follower {
    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        let last = i64::from(client.rounds);
        if client.id() == 0 {
            for level in 1..=last {
                db.run(|trx, _| async move {
                    trx.set(&key(), &level.to_le_bytes());
                    Ok(())
                })
                .await?;
                sleep(Duration::from_millis(u64::from(client.below(1000)))).await;
            }
            return Ok(());
        }
        let (level, mut watch) = read_and_watch(db).await?;
        self.level = level;
        while self.level < last {
            let Ok(fired) = timeout(SILENCE, watch).await else {
                break;
            };
            let (level, next) = read_and_watch(db).await?;
            watch = next;
            if client.fixed {
                self.level = level;
            } else if fired.is_ok() {
                self.level += 1;
            }
        }
        Ok(())
    }

    async fn check(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        if client.id() == 0 {
            return Ok(());
        }
        let level = db
            .run(|trx, _| async move { number(&trx, &key()).await })
            .await?;
        if level != self.level {
            return Err(format!("the level is {level}, the follower says {}", self.level).into());
        }
        Ok(())
    }
}

/// The level, and a future that is ready when it may have changed.
async fn read_and_watch(
    db: &SimDatabase,
) -> Result<(i64, impl Future<Output = FdbResult<()>> + use<>), PhaseError> {
    let mut trx = db.create_trx()?;
    loop {
        let read = trx.get(&key(), false).await;
        trx = match read {
            Ok(value) => {
                let watch = trx.watch(&key());
                match trx.commit().await {
                    Ok(_) => return Ok((value.as_deref().map_or(Ok(0), decode)?, watch)),
                    Err(error) => error.on_error().await?,
                }
            }
            Err(error) => trx.on_error(error).await?,
        };
    }
}

fn key() -> Vec<u8> {
    Subspace::all().pack(&"level")
}
