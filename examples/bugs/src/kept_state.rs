//! What one attempt collected is still there in the next one.
//!
//! The closure of a transaction runs once per attempt. A list that lives outside of it grows with
//! every attempt: after a conflict the basket is billed with what was in it twice. The fix collects
//! into a list that each attempt makes for itself.

use crate::canary::{Client, Layer, number};
use shaketable::foundationdb::tuple::Subspace;
use shaketable::{PhaseResult, SimDatabase};
use std::cell::RefCell;

const ITEMS: u32 = 3;
const PRICE: i64 = 10;

#[derive(Default)]
pub struct Basket;

impl Layer for Basket {
    async fn setup(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        if client.id() == 0 {
            db.run(|trx, _| async move {
                for item in 0..ITEMS {
                    trx.set(&price(item), &PRICE.to_le_bytes());
                }
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        for round in 0..client.rounds {
            let outside = RefCell::new(Vec::new());
            let bill = Subspace::all().pack(&("bill", client.id(), round));
            db.run(|trx, _| {
                let (bill, outside) = (bill.clone(), &outside);
                async move {
                    let inside = RefCell::new(Vec::new());
                    let prices = if client.fixed { &inside } else { outside };
                    for item in 0..ITEMS {
                        let price = number(&trx, &price(item)).await?;
                        prices.borrow_mut().push(price);
                    }
                    let sum: i64 = prices.borrow().iter().sum();
                    trx.set(&bill, &sum.to_le_bytes());
                    // The stock of an item, so that customers meet.
                    let left = number(&trx, &stock()).await?;
                    trx.set(&stock(), &(left - 1).to_le_bytes());
                    Ok(())
                }
            })
            .await?;
        }
        Ok(())
    }

    async fn check(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        for round in 0..client.rounds {
            let bill = Subspace::all().pack(&("bill", client.id(), round));
            let sum = db
                .run(|trx, _| {
                    let bill = bill.clone();
                    async move { number(&trx, &bill).await }
                })
                .await?;
            let expected = i64::from(ITEMS) * PRICE;
            if sum != expected {
                return Err(format!("bill {round} should be {expected}, and is {sum}").into());
            }
        }
        Ok(())
    }
}

fn price(item: u32) -> Vec<u8> {
    Subspace::all().pack(&("price", item))
}

fn stock() -> Vec<u8> {
    Subspace::all().pack(&"stock")
}
