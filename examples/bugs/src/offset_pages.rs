//! Pages are counted by an offset, in a list that changes.
//!
//! Page two is "skip five rows, take five", in a transaction of its own. When a row before it goes
//! away between the pages, everything moves up and one row is on neither page. The fix goes on
//! after the last key it has seen.

use crate::canary::{Client, Layer};
use shaketable::foundationdb::tuple::Subspace;
use shaketable::foundationdb::{FdbBindingError, KeySelector, RangeOption};
use shaketable::{PhaseError, PhaseResult, SimDatabase, sleep};
use std::collections::BTreeSet;
use std::time::Duration;

const ROWS: u32 = 40;
const PAGE: usize = 5;

#[derive(Default)]
pub struct List;

impl Layer for List {
    async fn setup(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        if client.id() == 0 {
            db.run(|trx, _| async move {
                for row in 0..ROWS {
                    trx.set(&rows().pack(&row), b"");
                }
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        for round in 0..client.rounds {
            if client.id() == 0 {
                let seen = read_pages(client, db).await?;
                // Rows with even numbers are never touched.
                if let Some(missing) = (0..ROWS).step_by(2).find(|row| !seen.contains(row)) {
                    return Err(format!("row {missing} is on no page, and was there").into());
                }
            } else {
                let row = client.below(ROWS / 2) * 2 + 1;
                db.run(|trx, _| async move {
                    if round.is_multiple_of(2) {
                        trx.clear(&rows().pack(&row));
                    } else {
                        trx.set(&rows().pack(&row), b"");
                    }
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

async fn read_pages(client: &Client, db: &SimDatabase) -> Result<BTreeSet<u32>, PhaseError> {
    let (first, end) = rows().range();
    let mut seen = BTreeSet::new();
    let mut last = first.clone();
    for page in 0.. {
        let begin = if client.fixed {
            KeySelector::first_greater_than(last.clone())
        } else {
            KeySelector::new(first.clone().into(), false, 1 + page * PAGE as i32)
        };
        let option = RangeOption {
            begin,
            end: KeySelector::first_greater_or_equal(end.clone()),
            limit: Some(PAGE),
            ..RangeOption::default()
        };
        let keys = db
            .run(|trx, _| {
                let mut range = Some(option.clone());
                async move {
                    let mut keys = Vec::new();
                    while let Some(option) = range {
                        let rows = trx.get_range(&option, 1, false).await?;
                        keys.extend(rows.iter().map(|row| row.key().to_vec()));
                        range = option.next_range(&rows);
                    }
                    Ok::<_, FdbBindingError>(keys)
                }
            })
            .await?;
        let Some(key) = keys.last() else { break };
        last.clone_from(key);
        for key in &keys {
            seen.insert(rows().unpack(key)?);
        }
        sleep(Duration::from_millis(u64::from(client.below(50)))).await;
    }
    Ok(seen)
}

fn rows() -> Subspace {
    Subspace::all().subspace(&"rows")
}
