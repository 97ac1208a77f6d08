//! A table so lopsided that its rows are moved.
//!
//! Rows go to buckets by a hash. When one bucket has many more than another, the table moves half
//! of the difference, and the code that does so, which hardly ever runs, loses a row.

use crate::{key, number};
use shaketable::{PhaseResult, SimDatabase, Workload, WorkloadContext, closest};

const BUCKETS: u32 = 4;
const ROWS_PER_CLIENT: i64 = 20;
/// By how much the fullest may be ahead of the emptiest.
const SKEW_MAX: i64 = 26;

pub struct Table {
    context: WorkloadContext,
}

impl Table {
    pub fn new(context: WorkloadContext) -> Table {
        Table { context }
    }
}

impl Workload for Table {
    async fn start(&mut self, db: SimDatabase) -> PhaseResult {
        for _ in 0..ROWS_PER_CLIENT {
            let bucket = self.context.rnd() % BUCKETS;
            let skew = db
                .run(|trx, _| async move {
                    let mut rows = Vec::new();
                    for bucket in 0..BUCKETS {
                        rows.push(number(&trx, &key(&("bucket", bucket))).await?);
                    }
                    rows[bucket as usize] += 1;
                    let (most, least) = (rows.iter().max(), rows.iter().min());
                    let skew = most.zip(least).map_or(0, |(most, least)| most - least);
                    if skew > SKEW_MAX {
                        for count in rows.iter_mut().filter(|count| **count > SKEW_MAX) {
                            *count -= 1;
                        }
                    }
                    for (bucket, count) in (0..BUCKETS).zip(rows) {
                        trx.set(&key(&("bucket", bucket)), &count.to_le_bytes());
                    }
                    trx.set(&key(&("moved", skew > SKEW_MAX)), b"");
                    Ok(skew)
                })
                .await?;
            closest!(SKEW_MAX + 1 - skew, "a move of rows");
        }
        Ok(())
    }

    async fn check(&mut self, db: SimDatabase) -> PhaseResult {
        let is_moved = db
            .run(
                |trx, _| async move { Ok(trx.get(&key(&("moved", true)), false).await?.is_some()) },
            )
            .await?;
        match is_moved {
            true => Err("a row is missing after the rows were moved".into()),
            false => Ok(()),
        }
    }
}
