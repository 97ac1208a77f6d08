//! A lease is never given back: its holder died.
//!
//! A client takes the lease, works, and gives it back. A client that dies while it holds the lease
//! knows nothing of it afterwards, and all others wait. The fix gives the lease an end, after which
//! any client may take it; and what is done under it checks in its own transaction that it still is
//! the holder.

use crate::canary::{Client, Layer, number};
use shaketable::foundationdb::tuple::Subspace;
use shaketable::foundationdb::{FdbBindingError, RetryableTransaction};
use shaketable::{PhaseResult, SimDatabase, sleep};
use std::error::Error;
use std::time::Duration;

/// How long a holder may work.
const LEASE_SECONDS: f64 = 5.0;
/// A lease that is held for this long is lost.
const PATIENCE_SECONDS: f64 = 120.0;

#[derive(Default)]
pub struct Lease;

impl Layer for Lease {
    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        for _ in 0..client.rounds {
            let term = take(client, db).await?;
            sleep(Duration::from_millis(u64::from(client.below(200)))).await;
            db.run(|trx, _| async move {
                if held(&trx).await?.is_some_and(|held| held.term == term) {
                    trx.clear(&lease());
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

/// Waits for the lease; returns its term.
async fn take(client: &Client, db: &SimDatabase) -> Result<i64, Box<dyn Error + Send + Sync>> {
    let mut waits_for: Option<(i64, f64)> = None;
    // By this it recognises a lease that it took in an attempt of which it has not heard.
    let taker = i64::from(client.context.rnd());
    loop {
        let taken = db
            .run(|trx, _| async move { try_take(&trx, client, taker).await })
            .await?;
        let holder = match taken {
            Ok(term) => return Ok(term),
            Err(holder) => holder,
        };
        let now = client.context.now();
        match waits_for {
            Some((term, since)) if term == holder => {
                if now - since > PATIENCE_SECONDS {
                    return Err(format!("term {term} of the lease never ends").into());
                }
            }
            _ => waits_for = Some((holder, now)),
        }
        sleep(Duration::from_millis(100 + u64::from(client.below(200)))).await;
    }
}

/// Takes the lease if it is free, and returns its term, or else the term of its holder.
async fn try_take(
    trx: &RetryableTransaction,
    client: &Client,
    taker: i64,
) -> Result<Result<i64, i64>, FdbBindingError> {
    let now = client.context.now();
    if let Some(held) = held(trx).await?
        && !(client.fixed && now >= held.end)
    {
        let mine = held.taker == taker;
        return Ok(if mine { Ok(held.term) } else { Err(held.term) });
    }
    let term = number(trx, &terms()).await? + 1;
    trx.set(&terms(), &term.to_le_bytes());
    trx.set(
        &lease(),
        &Subspace::all().pack(&(term, taker, now + LEASE_SECONDS)),
    );
    Ok(Ok(term))
}

/// The lease while somebody holds it.
struct Held {
    term: i64,
    taker: i64,
    end: f64,
}

async fn held(trx: &RetryableTransaction) -> Result<Option<Held>, FdbBindingError> {
    let Some(value) = trx.get(&lease(), false).await? else {
        return Ok(None);
    };
    let unpacked = Subspace::all().unpack(&value);
    let (term, taker, end) = unpacked.map_err(FdbBindingError::PackError)?;
    Ok(Some(Held { term, taker, end }))
}

fn lease() -> Vec<u8> {
    Subspace::all().pack(&"lease")
}

fn terms() -> Vec<u8> {
    Subspace::all().pack(&"terms")
}
