//! An id is taken from a counter that is read by snapshot.
//!
//! Every order gets the next number. All clients want the same counter, so it is read by snapshot
//! "to avoid conflicts". Two clients read the same number, both commit, and the second order
//! replaces the first. The fix reads the counter serializably: the second one conflicts and takes
//! the next number.

use crate::canary::{Client, Layer, decode, read_all};
use shaketable::foundationdb::tuple::Subspace;
use shaketable::{PhaseResult, SimDatabase};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Orders {
    /// The orders of this client: the number of each, and what was ordered.
    placed: BTreeMap<i64, Vec<u8>>,
}

impl Layer for Orders {
    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        for round in 0..client.rounds {
            let order = Subspace::all().pack(&(client.id(), round));
            let number = db
                .run(|trx, _| {
                    let order = order.clone();
                    async move {
                        let last = trx.get(&counter(), !client.fixed).await?;
                        let next = last.as_deref().map_or(Ok(0), decode)? + 1;
                        trx.set(&counter(), &next.to_le_bytes());
                        trx.set(&orders().pack(&next), &order);
                        Ok(next)
                    }
                })
                .await?;
            self.placed.insert(number, order);
        }
        Ok(())
    }

    async fn check(&mut self, _client: &Client, db: &SimDatabase) -> PhaseResult {
        let rows = db
            .run(|trx, _| async move { read_all(&trx, &orders()).await })
            .await?;
        let stored: BTreeMap<_, _> = rows.into_iter().collect();
        for (number, order) in &self.placed {
            if stored.get(&orders().pack(number)) != Some(order) {
                return Err(
                    format!("order {number} was confirmed, and another one is there").into(),
                );
            }
        }
        Ok(())
    }
}

fn counter() -> Vec<u8> {
    Subspace::all().pack(&"last order")
}

fn orders() -> Subspace {
    Subspace::all().subspace(&"orders")
}
