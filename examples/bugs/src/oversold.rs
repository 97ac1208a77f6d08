//! Stock is checked by a snapshot read and taken by an atomic subtraction.
//!
//! Neither conflicts with anything, which makes the shop fast: many clients see the last ticket,
//! and all of them take it. The fix reads the stock serializably.

use crate::canary::{Client, Layer, decode, number};
use shaketable::foundationdb::options::MutationType;
use shaketable::foundationdb::tuple::Subspace;
use shaketable::{PhaseResult, SimDatabase};

#[derive(Default)]
pub struct Tickets;

impl Layer for Tickets {
    async fn setup(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        if client.id() == 0 {
            db.run(|trx, _| async move {
                trx.set(&stock(), &i64::from(client.rounds).to_le_bytes());
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        for _ in 0..client.rounds {
            db.run(|trx, _| async move {
                let left = trx.get(&stock(), !client.fixed).await?;
                if left.as_deref().map_or(Ok(0), decode)? > 0 {
                    trx.atomic_op(&stock(), &(-1i64).to_le_bytes(), MutationType::Add);
                }
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    async fn check(&mut self, _client: &Client, db: &SimDatabase) -> PhaseResult {
        let left = db
            .run(|trx, _| async move { number(&trx, &stock()).await })
            .await?;
        if left < 0 {
            return Err(format!("{} tickets were sold that do not exist", -left).into());
        }
        Ok(())
    }
}

fn stock() -> Vec<u8> {
    Subspace::all().pack(&"tickets")
}
