//! A value is read in one transaction and written back in another.
//!
//! `let balance = load(); save(balance + amount)`, each with a transaction of its own, as the
//! repository pattern suggests. What another client saves in between is overwritten. The fix reads
//! and writes in one transaction.

use crate::canary::{Client, Layer, decode, number, read_all};
use shaketable::foundationdb::tuple::Subspace;
use shaketable::{PhaseResult, SimDatabase};

#[derive(Default)]
pub struct Account;

impl Layer for Account {
    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        for round in 0..client.rounds {
            let amount = i64::from(client.below(10)) + 1;
            let receipt = Subspace::all().pack(&("deposit", client.id(), round));
            if client.fixed {
                db.run(|trx, _| {
                    let receipt = receipt.clone();
                    async move {
                        if trx.get(&receipt, false).await?.is_some() {
                            return Ok(());
                        }
                        let balance = number(&trx, &balance()).await?;
                        trx.set(&self::balance(), &(balance + amount).to_le_bytes());
                        trx.set(&receipt, &amount.to_le_bytes());
                        Ok(())
                    }
                })
                .await?;
            } else {
                let balance = db
                    .run(|trx, _| async move { number(&trx, &balance()).await })
                    .await?;
                db.run(|trx, _| {
                    let receipt = receipt.clone();
                    async move {
                        trx.set(&self::balance(), &(balance + amount).to_le_bytes());
                        trx.set(&receipt, &amount.to_le_bytes());
                        Ok(())
                    }
                })
                .await?;
            }
        }
        Ok(())
    }

    async fn check(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        let (balance, deposits) = db
            .run(|trx, _| async move {
                let mut deposits = 0;
                for other in 0..client.count() {
                    let space = Subspace::all().subspace(&("deposit", other));
                    for (_, value) in read_all(&trx, &space).await? {
                        deposits += decode(&value)?;
                    }
                }
                Ok((number(&trx, &balance()).await?, deposits))
            })
            .await?;
        if balance != deposits {
            return Err(format!("{deposits} was deposited, the account holds {balance}").into());
        }
        Ok(())
    }
}

fn balance() -> Vec<u8> {
    Subspace::all().pack(&"balance")
}
