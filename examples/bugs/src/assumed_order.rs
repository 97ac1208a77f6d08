//! A sequence number is chosen before the commit that makes it visible.
//!
//! An item's place in the feed is the read version of the transaction that wrote it, which looks
//! like a clock that all clients share. But a transaction that began early may commit late: its
//! item appears *behind* readers that have gone past. The fix is a versionstamp, which is chosen by
//! the commit itself.

use crate::canary::{Client, Layer, read_all};
use shaketable::foundationdb::RangeOption;
use shaketable::foundationdb::options::MutationType;
use shaketable::foundationdb::tuple::{Subspace, Versionstamp};
use shaketable::{PhaseResult, SimDatabase, sleep};
use std::collections::BTreeSet;
use std::time::Duration;

#[derive(Default)]
pub struct Feed {
    /// What this client, a reader, has seen.
    seen: BTreeSet<Vec<u8>>,
    /// The last key it has seen.
    cursor: Vec<u8>,
}

impl Layer for Feed {
    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        for round in 0..client.rounds {
            if client.id() == 0 {
                self.read_on(db).await?;
            } else {
                db.run(|trx, _| async move {
                    let value = Subspace::all().pack(&(client.id(), round));
                    if client.fixed {
                        let key = feed().pack_with_versionstamp(&Versionstamp::incomplete(0));
                        trx.atomic_op(&key, &value, MutationType::SetVersionstampedKey);
                    } else {
                        let sequence = trx.get_read_version().await?;
                        trx.set(&feed().pack(&(sequence, client.id())), &value);
                    }
                    Ok(())
                })
                .await?;
            }
            sleep(Duration::from_millis(u64::from(client.below(50)))).await;
        }
        Ok(())
    }

    async fn check(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        if client.id() != 0 {
            return Ok(());
        }
        self.read_on(db).await?;
        let rows = db
            .run(|trx, _| async move { read_all(&trx, &feed()).await })
            .await?;
        for (key, value) in rows {
            if !self.seen.contains(&key) {
                let item: (i32, u32) = Subspace::all().unpack(&value)?;
                return Err(
                    format!("the reader never saw item {item:?}, which is in the feed").into(),
                );
            }
        }
        Ok(())
    }
}

impl Feed {
    /// Reads what is new since the last time.
    async fn read_on(&mut self, db: &SimDatabase) -> PhaseResult {
        let (first, end) = feed().range();
        let cursor = self.cursor.clone();
        let begin = if cursor.is_empty() {
            first
        } else {
            [&cursor[..], &[0]].concat()
        };
        let rows = db
            .run(|trx, _| {
                let mut range = Some(RangeOption::from((begin.clone(), end.clone())));
                async move {
                    let mut keys = Vec::new();
                    while let Some(option) = range {
                        let rows = trx.get_range(&option, 1, false).await?;
                        keys.extend(rows.iter().map(|row| row.key().to_vec()));
                        range = option.next_range(&rows);
                    }
                    Ok(keys)
                }
            })
            .await?;
        if let Some(last) = rows.last() {
            self.cursor = last.clone();
        }
        self.seen.extend(rows);
        Ok(())
    }
}

fn feed() -> Subspace {
    Subspace::all().subspace(&"feed")
}
