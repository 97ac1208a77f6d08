//! `maybe_committed` is taken for "committed".
//!
//! `Database::run` tells a closure that the attempt before it may have committed. Here that is
//! taken for a yes: the retry returns without doing anything, so that nothing is counted twice. But
//! the attempt may as well have been lost, and then the increment is. The fix leaves a receipt in
//! the same transaction, and every attempt looks for it.

use crate::canary::{Client, Layer, check_counter};
use shaketable::foundationdb::options::MutationType;
use shaketable::foundationdb::tuple::Subspace;
use shaketable::{PhaseResult, SimDatabase};

#[derive(Default)]
pub struct Counter;

impl Layer for Counter {
    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        for round in 0..client.rounds {
            let receipt = &Subspace::all().pack(&("receipt", client.id(), round));
            db.run(|trx, maybe_committed| async move {
                if client.fixed {
                    if trx.get(receipt, false).await?.is_some() {
                        return Ok(());
                    }
                    trx.set(receipt, b"");
                } else if bool::from(maybe_committed) {
                    return Ok(());
                }
                trx.atomic_op(&key(), &1i64.to_le_bytes(), MutationType::Add);
                Ok(())
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
