//! Histories of a counter under faults: a right one is always linearizable, a wrong one is caught.

use foundationdb::FdbError;
use shaketable::history::{Counter, CounterOperation, History};
use shaketable::{
    PhaseResult, SimDatabase, Simulation, SingleRustWorkload, Workload, WorkloadContext,
};
use std::time::Duration;

/// Increments a counter that is one key, and reads it.
struct Increments<const CAREFUL: bool> {
    context: WorkloadContext,
    history: History<Counter>,
}

impl<const CAREFUL: bool> Increments<CAREFUL> {
    async fn increment(&self, db: &SimDatabase) -> PhaseResult {
        let call = self
            .history
            .call(self.context.client_id(), CounterOperation::AddAndGet(1));
        let mut trx = db.create_trx()?;
        loop {
            let read = trx.get(b"counter", false).await;
            let value = match read {
                Ok(value) => number(value.as_deref()) + 1,
                Err(error) => {
                    trx = trx.on_error(error).await?;
                    continue;
                }
            };
            trx.set(b"counter", &value.to_le_bytes());
            match trx.commit().await {
                Ok(committed) => {
                    call.committed(Some(value), committed.committed_version()?);
                    return Ok(());
                }
                // A careless layer tries again, and may count twice.
                Err(error) if CAREFUL && error.is_maybe_committed() => {
                    call.unknown();
                    return Ok(());
                }
                Err(error) => trx = error.on_error().await?,
            }
        }
    }

    async fn read(&self, db: &SimDatabase) -> PhaseResult {
        let call = self
            .history
            .call(self.context.client_id(), CounterOperation::Read);
        let mut trx = db.create_trx()?;
        loop {
            let read: Result<_, FdbError> = async {
                let value = trx.get(b"counter", false).await?;
                Ok((number(value.as_deref()), trx.get_read_version().await?))
            }
            .await;
            match read {
                Ok((value, version)) => {
                    call.read(Some(value), version);
                    return Ok(());
                }
                Err(error) => trx = trx.on_error(error).await?,
            }
        }
    }
}

fn number(value: Option<&[u8]>) -> i64 {
    value.map_or(0, |value| i64::from_le_bytes(value.try_into().unwrap()))
}

impl<const CAREFUL: bool> SingleRustWorkload for Increments<CAREFUL> {
    fn new(_name: String, context: WorkloadContext) -> Self {
        let history = History::shared("counter");
        Increments { context, history }
    }
}

impl<const CAREFUL: bool> Workload for Increments<CAREFUL> {
    async fn start(&mut self, db: SimDatabase) -> PhaseResult {
        for _ in 0..25 {
            self.increment(&db).await?;
            self.read(&db).await?;
            shaketable::sleep(Duration::from_millis(400)).await;
        }
        Ok(())
    }

    async fn check(&mut self, _db: SimDatabase) -> PhaseResult {
        if self.context.client_id() == 0 {
            self.history.check()?;
        }
        Ok(())
    }
}

#[test]
fn a_counter_that_knows_what_it_does_not_know_is_linearizable() {
    Simulation::new()
        .seeds(0..12)
        .clients(4)
        .run::<Increments<true>>();
}

#[test]
fn a_counter_that_tries_again_after_an_unknown_result_is_caught() {
    let failed = Simulation::new()
        .seeds(0..60)
        .clients(4)
        .without_regressions()
        .try_run::<Increments<false>>()
        .expect_err("in some seed a commit of unknown fate had happened");
    let text = failed.to_string();
    assert!(
        text.contains("not linearizable: no order of these"),
        "{text}"
    );
}
