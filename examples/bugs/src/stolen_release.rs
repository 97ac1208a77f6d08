//! A lock is released by a client that no longer holds it.
//!
//! A lock has a deadline, so that a client that died does not hold it until the end of days. A slow
//! holder comes back after its deadline, when another client has the lock, and clears the key "as
//! every well-behaved holder does": the lock of the other one. A third client takes it, and now two
//! hold it. The fix releases the lock only if it is still its own.

use crate::canary::{Client, Layer};
use shaketable::foundationdb::tuple::Subspace;
use shaketable::foundationdb::{FdbBindingError, RetryableTransaction};
use shaketable::{PhaseResult, SimDatabase, sleep};
use std::time::Duration;

const HELD_SECONDS: f64 = 1.0;

#[derive(Default)]
pub struct Lock;

impl Layer for Lock {
    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        for round in 0..client.rounds {
            let me = (client.id(), round);
            sleep(Duration::from_millis(u64::from(client.below(500)))).await;
            let deadline = db
                .run(|trx, _| async move { take(&trx, client, me).await })
                .await?;
            let Some(deadline) = deadline else {
                continue;
            };
            // Most work is done in time.
            sleep(Duration::from_millis(u64::from(client.below(1200)))).await;
            let holder = db
                .run(|trx, _| async move { Ok(holder(&trx).await?.map(|(holder, _)| holder)) })
                .await?;
            if client.context.now() < deadline && holder != Some(me) {
                return Err(format!("{me:?} holds the lock, and so does {holder:?}").into());
            }
            db.run(|trx, _| async move {
                let own = !client.fixed || holder_is(&trx, me).await?;
                if own {
                    trx.clear(&key());
                }
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    async fn check(&mut self, _client: &Client, _db: &SimDatabase) -> PhaseResult {
        Ok(())
    }
}

/// Takes the lock if it is free or its deadline has passed; returns the new deadline.
async fn take(
    trx: &RetryableTransaction,
    client: &Client,
    me: (i32, u32),
) -> Result<Option<f64>, FdbBindingError> {
    let now = client.context.now();
    match holder(trx).await? {
        // An attempt before this one took it.
        Some((holder, deadline)) if holder == me => return Ok(Some(deadline)),
        Some((_, deadline)) if now < deadline => return Ok(None),
        _ => {}
    }
    let deadline = now + HELD_SECONDS;
    trx.set(&key(), &Subspace::all().pack(&(me.0, me.1, deadline)));
    Ok(Some(deadline))
}

async fn holder_is(trx: &RetryableTransaction, me: (i32, u32)) -> Result<bool, FdbBindingError> {
    Ok(holder(trx).await?.is_some_and(|(holder, _)| holder == me))
}

async fn holder(trx: &RetryableTransaction) -> Result<Option<((i32, u32), f64)>, FdbBindingError> {
    let Some(value) = trx.get(&key(), false).await? else {
        return Ok(None);
    };
    let (client, round, deadline) = Subspace::all()
        .unpack(&value)
        .map_err(FdbBindingError::PackError)?;
    Ok(Some(((client, round), deadline)))
}

fn key() -> Vec<u8> {
    Subspace::all().pack(&"lock")
}
