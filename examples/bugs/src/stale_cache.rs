//! A cache is filled with a value that was read before the last change.
//!
//! Readers that miss the cache read the source in one transaction and fill the cache in the next.
//! Writers change the source and clear the cache entry, together. A change between the two steps of
//! a reader clears an entry that is not there yet, and then the reader stores the old value: it
//! stays. The fix fills the cache in the transaction that read the source.

use crate::canary::{Client, Layer, decode, number};
use shaketable::foundationdb::tuple::Subspace;
use shaketable::{PhaseResult, SimDatabase, sleep};
use std::time::Duration;

#[derive(Default)]
pub struct Cached;

impl Layer for Cached {
    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        for round in 1..=i64::from(client.rounds) {
            if client.id() == 0 {
                db.run(|trx, _| async move {
                    trx.set(&source(), &round.to_le_bytes());
                    trx.clear(&cache());
                    Ok(())
                })
                .await?;
            } else if client.fixed {
                db.run(|trx, _| async move {
                    if trx.get(&cache(), false).await?.is_none() {
                        let value = number(&trx, &source()).await?;
                        trx.set(&cache(), &value.to_le_bytes());
                    }
                    Ok(())
                })
                .await?;
            } else {
                let missed = db
                    .run(|trx, _| async move {
                        if trx.get(&cache(), false).await?.is_some() {
                            return Ok(None);
                        }
                        Ok(Some(number(&trx, &source()).await?))
                    })
                    .await?;
                if let Some(value) = missed {
                    db.run(|trx, _| async move {
                        trx.set(&cache(), &value.to_le_bytes());
                        Ok(())
                    })
                    .await?;
                }
            }
            sleep(Duration::from_millis(u64::from(client.below(100)))).await;
        }
        Ok(())
    }

    async fn check(&mut self, _client: &Client, db: &SimDatabase) -> PhaseResult {
        let (cached, stored) = db
            .run(|trx, _| async move {
                let cached = match trx.get(&cache(), false).await? {
                    Some(value) => Some(decode(&value)?),
                    None => None,
                };
                Ok((cached, number(&trx, &source()).await?))
            })
            .await?;
        if let Some(cached) = cached.filter(|cached| *cached != stored) {
            return Err(format!("the cache says {cached}, the source says {stored}").into());
        }
        Ok(())
    }
}

fn source() -> Vec<u8> {
    Subspace::all().pack(&"source")
}

fn cache() -> Vec<u8> {
    Subspace::all().pack(&"cache")
}
