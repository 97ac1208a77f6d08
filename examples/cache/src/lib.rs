//! A cache that watches its key and must end with the newest value.
//!
//! Client 0 writes a growing number; every other client keeps a copy and refreshes it when a watch
//! fires. The rule that makes it right: the value is read and the watch is set in *one*
//! transaction, so no change can slip in between. A watch may fire for nothing, and it may fail
//! with the transaction that set it: both only mean that the cache reads again.

use shaketable::foundationdb::tuple::Subspace;
use shaketable::foundationdb::{FdbError, RetryableTransaction};
use shaketable::{
    Metric, Metrics, PhaseResult, SimDatabase, SingleRustWorkload, Workload, WorkloadContext,
    register_workload, sleep,
};
use std::time::Duration;

struct Cache {
    context: WorkloadContext,
    writes: u32,
    /// The copy.
    value: u32,
    refreshes: u64,
    fired: u64,
}

impl SingleRustWorkload for Cache {
    fn new(_name: String, context: WorkloadContext) -> Self {
        Cache {
            writes: context.get_option("writes").unwrap_or(15),
            context,
            value: 0,
            refreshes: 0,
            fired: 0,
        }
    }
}

impl Workload for Cache {
    async fn start(&mut self, db: SimDatabase) -> PhaseResult {
        if self.context.client_id() == 0 {
            for value in 1..=self.writes {
                db.run(|trx, _| async move {
                    trx.set(&key(), &value.to_le_bytes());
                    Ok(())
                })
                .await?;
                sleep(Duration::from_millis(u64::from(self.context.rnd() % 2000))).await;
            }
            return Ok(());
        }
        while self.value < self.writes {
            let watch = self.refresh(&db).await?;
            if self.value == self.writes {
                break;
            }
            match watch.await {
                Ok(()) => self.fired += 1,
                Err(error) if error.is_retryable() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    async fn check(&mut self, db: SimDatabase) -> PhaseResult {
        let stored = db
            .run(|trx, _| async move { Ok(stored(&trx).await?) })
            .await?;
        if stored != self.writes {
            return Err(format!("the last write was {}, found {stored}", self.writes).into());
        }
        if self.context.client_id() != 0 && self.value != stored {
            return Err(format!("the cache holds {}, the database {stored}", self.value).into());
        }
        Ok(())
    }

    fn get_metrics(&self, mut out: Metrics) {
        out.extend([
            Metric::val("refreshes", self.refreshes as f64),
            Metric::val("fired", self.fired as f64),
        ]);
    }

    fn get_check_timeout(&self) -> f64 {
        5000.0
    }
}

impl Cache {
    /// Copies the value and sets a watch, in one transaction.
    async fn refresh(
        &mut self,
        db: &SimDatabase,
    ) -> Result<impl Future<Output = Result<(), FdbError>> + use<>, shaketable::PhaseError> {
        let mut trx = db.create_trx()?;
        loop {
            let read = trx.get(&key(), false).await;
            let value = match read {
                Ok(value) => value,
                Err(error) => {
                    trx = trx.on_error(error).await?;
                    continue;
                }
            };
            let watch = trx.watch(&key());
            match trx.commit().await {
                Ok(_) => {
                    let value = value.as_deref().map_or(Ok(0), number)?;
                    if value < self.value {
                        return Err(
                            format!("the value went back from {} to {value}", self.value).into(),
                        );
                    }
                    self.value = value;
                    self.refreshes += 1;
                    return Ok(watch);
                }
                Err(error) => trx = error.on_error().await?,
            }
        }
    }
}

async fn stored(trx: &RetryableTransaction) -> Result<u32, FdbError> {
    let value = trx.get(&key(), false).await?;
    Ok(value
        .as_deref()
        .and_then(|value| number(value).ok())
        .unwrap_or(0))
}

fn number(value: &[u8]) -> Result<u32, std::array::TryFromSliceError> {
    value.try_into().map(u32::from_le_bytes)
}

fn key() -> Vec<u8> {
    Subspace::all().pack(&("cache", "value"))
}

register_workload!(Cache);
