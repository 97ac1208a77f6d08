//! The doubt whether a transaction has committed is forgotten one attempt later.
//!
//! `Database::run` tells its closure whether the attempt *before this one* may have committed. A
//! layer that looks for its receipt only then misses this: the first attempt ends in an unknown
//! result (1021) and has committed; the second, which looks, meets an error of its own before it
//! has seen the receipt; the third is told that nothing is in doubt, and increments again. The fix
//! looks at every attempt.

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
            db.run(|trx, maybe_committed| {
                let receipt = receipt.clone();
                async move {
                    let look = client.fixed || bool::from(maybe_committed);
                    if look && trx.get(&receipt, false).await?.is_some() {
                        return Ok(());
                    }
                    trx.set(&receipt, b"");
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
