//! An unknown result is reported as a failure, and the customer tries again.
//!
//! Orders have ids, so that the same order is not placed twice. But the id is made by the function
//! that places the order. An unknown result (1021) is shown as "please try again"; the customer
//! does, the order gets a new id, and both arrive. The fix makes the id where the wish to order is
//! born, once.

use crate::canary::{Client, Layer, read_all};
use shaketable::foundationdb::tuple::Subspace;
use shaketable::{PhaseError, PhaseResult, SimDatabase};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Shop {
    /// For new ids.
    ids: u32,
}

impl Layer for Shop {
    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        for wish in 0..client.rounds {
            let id = self.new_id();
            while !self.order(client, db, id, wish).await? {}
        }
        Ok(())
    }

    async fn check(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        let rows = db
            .run(|trx, _| async move { read_all(&trx, &orders(client)).await })
            .await?;
        let mut placed = BTreeMap::new();
        for (_, value) in rows {
            let wish: u32 = Subspace::all().unpack(&value)?;
            *placed.entry(wish).or_insert(0) += 1;
        }
        for wish in 0..client.rounds {
            let count = placed.get(&wish).copied().unwrap_or(0);
            if count != 1 {
                return Err(
                    format!("wish {wish} was ordered once, {count} orders are there").into(),
                );
            }
        }
        Ok(())
    }
}

impl Shop {
    fn new_id(&mut self) -> u32 {
        self.ids += 1;
        self.ids
    }

    /// Tries to place an order, and returns whether the customer may go.
    async fn order(
        &mut self,
        client: &Client,
        db: &SimDatabase,
        id: u32,
        wish: u32,
    ) -> Result<bool, PhaseError> {
        let id = if client.fixed { id } else { self.new_id() };
        let mut trx = db.create_trx()?;
        loop {
            trx.set(&orders(client).pack(&id), &Subspace::all().pack(&wish));
            match trx.commit().await {
                Ok(_) => return Ok(true),
                Err(error) if error.is_maybe_committed() => return Ok(false),
                Err(error) => trx = error.on_error().await?,
            }
        }
    }
}

fn orders(client: &Client) -> Subspace {
    Subspace::all().subspace(&("orders", client.id()))
}
