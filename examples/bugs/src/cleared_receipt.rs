//! A receipt is gone when the retry looks for it.
//!
//! Increments leave a receipt, and every attempt looks for it first: so far, so good. But receipts
//! pile up, and a janitor clears them all from time to time. If it comes between a commit whose
//! result was unknown (1021) and the next attempt, the receipt is gone and the increment is made
//! again. The fix: a receipt belongs to its client, which clears it when it has heard that the
//! increment is done.

use crate::canary::{Client, Layer, number};
use shaketable::foundationdb::options::MutationType;
use shaketable::foundationdb::tuple::Subspace;
use shaketable::{PhaseResult, SimDatabase, sleep};
use std::time::Duration;

#[derive(Default)]
pub struct Counter;

impl Layer for Counter {
    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        if client.id() == 0 {
            return tidy(client, db).await;
        }
        for round in 0..client.rounds {
            let receipt = receipts().pack(&(client.id(), round));
            db.run(|trx, _| {
                let receipt = receipt.clone();
                async move {
                    if trx.get(&receipt, false).await?.is_some() {
                        return Ok(());
                    }
                    trx.set(&receipt, b"");
                    trx.atomic_op(&key(), &1i64.to_le_bytes(), MutationType::Add);
                    Ok(())
                }
            })
            .await?;
            if client.fixed {
                db.run(|trx, _| {
                    let receipt = receipt.clone();
                    async move {
                        trx.clear(&receipt);
                        Ok(())
                    }
                })
                .await?;
            }
        }
        Ok(())
    }

    async fn check(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        let expected = i64::from(client.rounds) * i64::from(client.count() - 1);
        let found = db
            .run(|trx, _| async move { number(&trx, &key()).await })
            .await?;
        if found != expected {
            return Err(
                format!("{expected} increments were made, the counter says {found}").into(),
            );
        }
        Ok(())
    }
}

/// Clears old receipts, again and again.
async fn tidy(client: &Client, db: &SimDatabase) -> PhaseResult {
    for _ in 0..10 * client.rounds {
        sleep(Duration::from_millis(u64::from(client.below(300)))).await;
        if !client.fixed {
            db.run(|trx, _| async move {
                trx.clear_subspace_range(&receipts());
                Ok(())
            })
            .await?;
        }
    }
    Ok(())
}

fn key() -> Vec<u8> {
    Subspace::all().pack(&"counter")
}

fn receipts() -> Subspace {
    Subspace::all().subspace(&"receipt")
}
