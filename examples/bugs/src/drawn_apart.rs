//! A number is drawn by an atomic addition, and read in the next transaction.
//!
//! An addition conflicts with nothing, so it looks like the way to draw numbers that are never
//! drawn twice. But it does not say what it made of the counter: a later read sees the additions of
//! other clients too, and two clients go by the same number. The fix reads and writes the counter
//! in the transaction that uses the number.

use crate::canary::{Client, Layer, number, read_all};
use shaketable::foundationdb::options::MutationType;
use shaketable::foundationdb::tuple::Subspace;
use shaketable::{PhaseError, PhaseResult, SimDatabase};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Tickets;

impl Layer for Tickets {
    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        for round in 0..client.rounds {
            match client.fixed {
                true => draw_and_use(client, db, round).await?,
                false => {
                    let ticket = draw(client, db, round).await?;
                    let key = tickets().pack(&(ticket, client.id(), round));
                    db.run(|trx, _| {
                        let key = key.clone();
                        async move {
                            trx.set(&key, b"");
                            Ok(())
                        }
                    })
                    .await?;
                }
            }
        }
        Ok(())
    }

    async fn check(&mut self, _client: &Client, db: &SimDatabase) -> PhaseResult {
        let rows = db
            .run(|trx, _| async move { read_all(&trx, &tickets()).await })
            .await?;
        let mut owners: BTreeMap<i64, i32> = BTreeMap::new();
        for (key, _) in rows {
            let (ticket, owner, _): (i64, i32, u32) = tickets().unpack(&key)?;
            if let Some(other) = owners.insert(ticket, owner) {
                let both = format!("client {other} and client {owner}");
                return Err(format!("ticket {ticket} was drawn by {both}").into());
            }
        }
        Ok(())
    }
}

/// Adds one to the counter, once, and returns what it is then.
async fn draw(client: &Client, db: &SimDatabase, round: u32) -> Result<i64, PhaseError> {
    let receipt = Subspace::all().pack(&("drawn", client.id(), round));
    db.run(|trx, _| {
        let receipt = receipt.clone();
        async move {
            if trx.get(&receipt, false).await?.is_none() {
                trx.set(&receipt, b"");
                trx.atomic_op(&counter(), &1i64.to_le_bytes(), MutationType::Add);
            }
            Ok(())
        }
    })
    .await?;
    let drawn = db
        .run(|trx, _| async move { number(&trx, &counter()).await })
        .await?;
    Ok(drawn)
}

async fn draw_and_use(client: &Client, db: &SimDatabase, round: u32) -> PhaseResult {
    let receipt = Subspace::all().pack(&("drawn", client.id(), round));
    db.run(|trx, _| {
        let receipt = receipt.clone();
        async move {
            if trx.get(&receipt, false).await?.is_some() {
                return Ok(());
            }
            let ticket = number(&trx, &counter()).await? + 1;
            trx.set(&receipt, b"");
            trx.set(&counter(), &ticket.to_le_bytes());
            trx.set(&tickets().pack(&(ticket, client.id(), round)), b"");
            Ok(())
        }
    })
    .await?;
    Ok(())
}

fn counter() -> Vec<u8> {
    Subspace::all().pack(&"counter")
}

fn tickets() -> Subspace {
    Subspace::all().subspace(&"tickets")
}
