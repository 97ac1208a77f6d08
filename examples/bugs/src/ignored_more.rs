//! A range read takes the first batch for the whole range.
//!
//! `get_range` returns as many rows as fit into a batch, and sets `more` if there are others. With
//! little data in a unit test there never are. The fix asks again until there is no more.

use crate::canary::{Client, Layer, decode, read_all};
use shaketable::foundationdb::RangeOption;
use shaketable::foundationdb::tuple::Subspace;
use shaketable::{PhaseResult, SimDatabase};

#[derive(Default)]
pub struct Ledger;

impl Layer for Ledger {
    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        let mut own = 0;
        for round in 0..client.rounds {
            let amount = i64::from(client.below(100));
            own += amount;
            db.run(|trx, _| async move {
                let key = entries(client.id()).pack(&(round, description(client)));
                trx.set(&key, &amount.to_le_bytes());
                Ok(())
            })
            .await?;
            let sum = db
                .run(|trx, _| async move {
                    let space = entries(client.id());
                    if client.fixed {
                        return read_all(&trx, &space)
                            .await?
                            .iter()
                            .map(|(_, value)| decode(value))
                            .sum();
                    }
                    let rows = trx.get_range(&RangeOption::from(&space), 1, false).await?;
                    rows.iter()
                        .map(|row| decode(row.value()))
                        .sum::<Result<i64, _>>()
                })
                .await?;
            if sum != own {
                return Err(format!("the entries add up to {own}, the ledger says {sum}").into());
            }
        }
        Ok(())
    }

    async fn check(&mut self, _client: &Client, _db: &SimDatabase) -> PhaseResult {
        Ok(())
    }
}

/// Short in some runs, long in others.
fn description(client: &Client) -> String {
    "-".repeat(client.context.shared_random_number() as usize % 300)
}

fn entries(client: i32) -> Subspace {
    Subspace::all().subspace(&("entries", client))
}
