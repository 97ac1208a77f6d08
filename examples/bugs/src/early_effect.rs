//! Work is done for a transaction that does not commit.
//!
//! A worker takes a job from the queue and ships it while its transaction is still open. Then the
//! commit conflicts, because another worker took the same job, and it is shipped twice. The fix
//! ships in the same transaction that takes the job.

use crate::canary::{Client, Layer, read_all};
use shaketable::foundationdb::tuple::Subspace;
use shaketable::foundationdb::{FdbBindingError, RangeOption};
use shaketable::{PhaseResult, SimDatabase};
use std::collections::BTreeSet;

#[derive(Default)]
pub struct Worker;

impl Layer for Worker {
    async fn setup(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        if client.id() == 0 {
            db.run(|trx, _| async move {
                for job in 0..client.rounds {
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
                    let rows = trx.get_range(&head, 1, false).await?;
                    let Some(row) = rows.first() else {
                        return Ok(false);
                    };
                    let job: u32 = jobs()
                        .unpack(row.key())
                        .map_err(FdbBindingError::PackError)?;
                    let parcel = shipped().pack(&(job, client.id()));
                    if client.fixed {
                        trx.set(&parcel, b"");
                    } else {
                        db.run(|shipping, _| {
                            let parcel = parcel.clone();
                            async move {
                                shipping.set(&parcel, b"");
                                Ok(())
                            }
                        })
                        .await?;
                    }
                    trx.clear(row.key());
                    Ok(true)
                })
                .await?;
        }
        Ok(())
    }

    async fn check(&mut self, _client: &Client, db: &SimDatabase) -> PhaseResult {
        let rows = db
            .run(|trx, _| async move { read_all(&trx, &shipped()).await })
            .await?;
        let mut seen = BTreeSet::new();
        for (key, _) in rows {
            let (job, client): (u32, i32) = shipped().unpack(&key)?;
            if !seen.insert(job) {
                return Err(format!("job {job} was shipped twice, once by client {client}").into());
            }
        }
        Ok(())
    }
}

fn jobs() -> Subspace {
    Subspace::all().subspace(&"jobs")
}

fn shipped() -> Subspace {
    Subspace::all().subspace(&"shipped")
}
