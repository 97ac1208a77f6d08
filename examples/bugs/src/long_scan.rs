//! A scan outlives the five seconds of a transaction and goes on in the next one.
//!
//! A long read meets `transaction_too_old` (1007), takes a new transaction and continues where it
//! was: rows before and after that point are of different moments, and a sum over them was never
//! true at any one. The fix begins again, in one transaction that is short enough.

use crate::canary::{Client, Layer, decode, number, read_all};
use shaketable::foundationdb::tuple::Subspace;
use shaketable::{PhaseResult, SimDatabase, sleep};
use std::time::Duration;

const ACCOUNTS: u32 = 10;
const OPENING_BALANCE: i64 = 100;

#[derive(Default)]
pub struct Audit;

impl Layer for Audit {
    async fn setup(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        if client.id() == 0 {
            db.run(|trx, _| async move {
                for account in 0..ACCOUNTS {
                    trx.set(&key(account), &OPENING_BALANCE.to_le_bytes());
                }
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        for _ in 0..client.rounds {
            if client.id() == 0 {
                let sum = if client.fixed {
                    at_once(db).await?
                } else {
                    in_pieces(client, db).await?
                };
                let expected = i64::from(ACCOUNTS) * OPENING_BALANCE;
                if sum != expected {
                    return Err(format!("the bank holds {expected}, the audit found {sum}").into());
                }
                continue;
            }
            let (from, to) = (client.below(ACCOUNTS), client.below(ACCOUNTS));
            if from != to {
                db.run(|trx, _| async move {
                    let available = number(&trx, &key(from)).await?;
                    let target = number(&trx, &key(to)).await?;
                    trx.set(&key(from), &(available - 1).to_le_bytes());
                    trx.set(&key(to), &(target + 1).to_le_bytes());
                    Ok(())
                })
                .await?;
            }
            sleep(Duration::from_millis(u64::from(client.below(500)))).await;
        }
        Ok(())
    }

    async fn check(&mut self, _client: &Client, _db: &SimDatabase) -> PhaseResult {
        Ok(())
    }
}

async fn at_once(db: &SimDatabase) -> Result<i64, shaketable::PhaseError> {
    let rows = db
        .run(|trx, _| async move { read_all(&trx, &accounts()).await })
        .await?;
    let mut sum = 0;
    for (_, value) in rows {
        sum += decode(&value)?;
    }
    Ok(sum)
}

/// One account after the other, with a pause in between.
async fn in_pieces(client: &Client, db: &SimDatabase) -> Result<i64, shaketable::PhaseError> {
    let mut trx = db.create_trx()?;
    let mut sum = 0;
    let mut account = 0;
    while account < ACCOUNTS {
        let read = trx.get(&key(account), false).await;
        match read {
            Ok(value) => {
                sum += value.as_deref().map_or(Ok(0), decode)?;
                account += 1;
                sleep(Duration::from_millis(u64::from(client.below(1200)))).await;
            }
            Err(error) => trx = trx.on_error(error).await?,
        }
    }
    Ok(sum)
}

fn accounts() -> Subspace {
    Subspace::all().subspace(&"accounts")
}

fn key(account: u32) -> Vec<u8> {
    accounts().pack(&account)
}
