//! A cursor that an attempt has moved is still moved in the next one.
//!
//! A migration copies rows page by page. The cursor lives outside of the transaction and is moved
//! by the closure, behind the last row of the page. When the commit conflicts, the closure runs
//! again, from the next page on, and the page before is never copied. The fix moves the cursor when
//! the transaction has committed.

use crate::canary::{Client, Layer, number, read_all};
use shaketable::foundationdb::RangeOption;
use shaketable::foundationdb::tuple::Subspace;
use shaketable::{PhaseResult, SimDatabase};
use std::cell::Cell;

const ROWS: i64 = 30;
const PAGE: usize = 3;

#[derive(Default)]
pub struct Migration;

impl Layer for Migration {
    async fn setup(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        db.run(|trx, _| async move {
            for row in 0..ROWS {
                trx.set(&from(client).pack(&row), &row.to_le_bytes());
            }
            Ok(())
        })
        .await?;
        Ok(())
    }

    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        let cursor = Cell::new(0);
        while cursor.get() < ROWS {
            let next = db
                .run(|trx, _| {
                    let cursor = &cursor;
                    async move {
                        let (_, end) = from(client).range();
                        let mut range = RangeOption::from((from(client).pack(&cursor.get()), end));
                        range.limit = Some(PAGE);
                        let rows = trx.get_range(&range, 1, false).await?;
                        let mut next = cursor.get();
                        for row in &rows {
                            let number: i64 = from(client).unpack(row.key()).expect("a row");
                            trx.set(&to(client).pack(&number), row.value());
                            next = number + 1;
                        }
                        if !client.fixed {
                            cursor.set(next);
                        }
                        // How far all are, for a bar on a dashboard.
                        let copied = number(&trx, &progress()).await?;
                        trx.set(&progress(), &(copied + 1).to_le_bytes());
                        Ok(next)
                    }
                })
                .await?;
            if client.fixed {
                cursor.set(next);
            }
        }
        Ok(())
    }

    async fn check(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        let copied = db
            .run(|trx, _| async move { read_all(&trx, &to(client)).await })
            .await?;
        if copied.len() as i64 != ROWS {
            return Err(format!("{ROWS} rows to copy, {} were", copied.len()).into());
        }
        Ok(())
    }
}

fn from(client: &Client) -> Subspace {
    Subspace::all().subspace(&("old", client.id()))
}
fn to(client: &Client) -> Subspace {
    Subspace::all().subspace(&("new", client.id()))
}
fn progress() -> Vec<u8> {
    Subspace::all().pack(&"progress")
}
