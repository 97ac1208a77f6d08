//! An unknown result is reported as a failure, and what was done stays.
//!
//! An order takes a piece out of the stock. If the result of its commit is unknown (1021), the shop
//! marks the order as failed and tells the customer; but the piece may be gone. The fix runs the
//! transaction again and lets it look for its own order first.

use crate::canary::{Client, Layer, number, read_all};
use shaketable::foundationdb::tuple::Subspace;
use shaketable::foundationdb::{FdbError, Transaction};
use shaketable::{PhaseError, PhaseResult, SimDatabase};

const STOCK: i64 = 10_000;

#[derive(Default)]
pub struct Shop;

impl Layer for Shop {
    async fn setup(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        if client.id() == 0 {
            db.run(|trx, _| async move {
                trx.set(&stock(), &STOCK.to_le_bytes());
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        for round in 0..client.rounds {
            let order = orders().pack(&(client.id(), round));
            if place(client, db, &order).await? {
                continue;
            }
            db.run(|trx, _| {
                let order = order.clone();
                async move {
                    trx.set(&order, b"failed");
                    Ok(())
                }
            })
            .await?;
        }
        Ok(())
    }

    async fn check(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        if client.id() != 0 {
            return Ok(());
        }
        let (left, rows) = db
            .run(|trx, _| async move {
                let left = number(&trx, &stock()).await?;
                Ok((left, read_all(&trx, &orders()).await?))
            })
            .await?;
        let placed = rows.iter().filter(|(_, state)| state == b"placed").count();
        let gone = STOCK - left;
        if gone != placed as i64 {
            return Err(format!("{placed} orders were placed, {gone} pieces are gone").into());
        }
        Ok(())
    }
}

/// Places an order, and returns whether the customer is told that it was.
async fn place(client: &Client, db: &SimDatabase, order: &[u8]) -> Result<bool, PhaseError> {
    let mut trx = db.create_trx()?;
    loop {
        if let Err(error) = fill(&trx, order).await {
            trx = trx.on_error(error).await?;
            continue;
        }
        match trx.commit().await {
            Ok(_) => return Ok(true),
            Err(error) if error.is_maybe_committed() && !client.fixed => return Ok(false),
            Err(error) => trx = error.on_error().await?,
        }
    }
}

/// Everything that belongs to an order.
async fn fill(trx: &Transaction, order: &[u8]) -> Result<(), FdbError> {
    if trx.get(order, false).await?.is_some() {
        return Ok(());
    }
    let left = trx.get(&stock(), false).await?;
    let left = left.and_then(|left| left[..].try_into().ok());
    let left = left.map_or(0, i64::from_le_bytes);
    trx.set(&stock(), &(left - 1).to_le_bytes());
    trx.set(order, b"placed");
    Ok(())
}

fn stock() -> Vec<u8> {
    Subspace::all().pack(&"stock")
}

fn orders() -> Subspace {
    Subspace::all().subspace(&"orders")
}
