//! A job is chosen by a snapshot read and claimed without a conflict.
//!
//! All workers want the first job, so the queue is read by snapshot: that is good advice, if the
//! chosen job is then read serializably. Without that nothing conflicts, and two workers claim the
//! same job. The fix adds a read conflict for the chosen key.

use crate::canary::{Client, Layer, read_all};
use shaketable::foundationdb::options::ConflictRangeType;
use shaketable::foundationdb::tuple::Subspace;
use shaketable::foundationdb::{FdbBindingError, RangeOption};
use shaketable::{PhaseResult, SimDatabase};
use std::collections::BTreeSet;

#[derive(Default)]
pub struct Queue;

impl Layer for Queue {
    async fn setup(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        if client.id() == 0 {
            db.run(|trx, _| async move {
                for job in 0..4 * client.rounds {
                    trx.set(&jobs().pack(&job), b"");
                }
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        let mut left = true;
        while left {
            left = db
                .run(|trx, _| async move {
                    let head = RangeOption {
                        limit: Some(1),
                        ..RangeOption::from(&jobs())
                    };
                    let rows = trx.get_range(&head, 1, true).await?;
                    let Some(row) = rows.first() else {
                        return Ok(false);
                    };
                    let key = row.key();
                    if client.fixed {
                        let after = [key, &[0]].concat();
                        trx.add_conflict_range(key, &after, ConflictRangeType::Read)?;
                    }
                    let job: u32 = jobs().unpack(key).map_err(FdbBindingError::PackError)?;
                    trx.clear(key);
                    trx.set(&claims().pack(&(job, client.id())), b"");
                    Ok(true)
                })
                .await?;
        }
        Ok(())
    }

    async fn check(&mut self, _client: &Client, db: &SimDatabase) -> PhaseResult {
        let rows = db
            .run(|trx, _| async move { read_all(&trx, &claims()).await })
            .await?;
        let mut seen = BTreeSet::new();
        for (key, _) in rows {
            let (job, client): (u32, i32) = claims().unpack(&key)?;
            if !seen.insert(job) {
                return Err(format!("job {job} has two workers, one is client {client}").into());
            }
        }
        Ok(())
    }
}

fn jobs() -> Subspace {
    Subspace::all().subspace(&"jobs")
}

fn claims() -> Subspace {
    Subspace::all().subspace(&"claims")
}
