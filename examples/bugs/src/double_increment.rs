//! An increment is made again after an unknown result.
//!
//! `Database::run` retries a transaction whose result is unknown (1021). If the first attempt did
//! commit, the increment happens twice. The fix leaves a receipt in the same transaction, and every
//! attempt looks for it first.

use crate::canary::{Client, Layer, check_counter};
use shaketable::foundationdb::options::MutationType;
use shaketable::foundationdb::tuple::Subspace;
use shaketable::{PhaseResult, SimDatabase};

#[derive(Default)]
pub struct Counter;

impl Layer for Counter {
    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        for round in 0..client.rounds {
            let receipt = Subspace::all().pack(&("receipt", client.id(), round));
            db.run(|trx, _| {
                let receipt = receipt.clone();
                async move {
                    if client.fixed {
                        if trx.get(&receipt, false).await?.is_some() {
                            return Ok(());
                        }
                        trx.set(&receipt, b"");
                    }
                    trx.atomic_op(&key(), &1i64.to_le_bytes(), MutationType::Add);
                    Ok(())
                }
            })
            .await?;
        }
        Ok(())
    }

    async fn check(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        check_counter(client, db, &key()).await
    }
}

fn key() -> Vec<u8> {
    Subspace::all().pack(&"counter")
}
