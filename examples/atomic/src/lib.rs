//! A counter that is incremented while the cluster fails, and then checked.
//!
//! Every client adds 1 to the same key, `count` times. The addition is atomic, so clients do not
//! get in each other's way; the difficulty is error 1021, `commit_unknown_result`: the cluster
//! failed while it was committing, and the addition may or may not have happened. Adding again
//! counts twice, giving up counts too little.
//!
//! The remedy is the usual one: every increment also writes a log entry under a key of its own. A
//! transaction that may already have been committed looks for that entry first.
//!
//! To see what happens without it, set `log = false` in the test file.

use shaketable::foundationdb::options::MutationType;
use shaketable::foundationdb::tuple::Subspace;
use shaketable::foundationdb::{FdbBindingError, RangeOption, RetryableTransaction};
use shaketable::{
    Metric, Metrics, PhaseResult, Severity, SimDatabase, SingleRustWorkload, Workload,
    WorkloadContext, details, register_workload,
};

struct Atomic {
    context: WorkloadContext,
    /// How many increments this client makes.
    count: i64,
    /// Whether increments leave a log entry by which they are recognised.
    log: bool,
    /// How often a transaction was tried again.
    retries: u64,
    /// How often it was unknown whether a transaction had been committed.
    maybe_committed: u64,
    /// How often the log showed that it had been.
    recognised: u64,
}

impl SingleRustWorkload for Atomic {
    fn new(_name: String, context: WorkloadContext) -> Self {
        Atomic {
            count: context.get_option("count").unwrap_or(50),
            log: context.get_option("log").unwrap_or(true),
            context,
            retries: 0,
            maybe_committed: 0,
            recognised: 0,
        }
    }
}

impl Workload for Atomic {
    async fn setup(&mut self, db: SimDatabase) -> PhaseResult {
        if self.context.client_id() != 0 {
            return Ok(());
        }
        db.run(|trx, _| async move {
            trx.clear_subspace_range(&space());
            Ok(())
        })
        .await?;
        Ok(())
    }

    async fn start(&mut self, db: SimDatabase) -> PhaseResult {
        for number in 0..self.count {
            self.increment(&db, number).await?;
        }
        self.context.trace(
            Severity::Info,
            "AtomicIncremented",
            details![
                "Client" => self.context.client_id(),
                "Count" => self.count,
                "Retries" => self.retries,
                "MaybeCommitted" => self.maybe_committed,
                "Recognised" => self.recognised,
            ],
        );
        Ok(())
    }

    async fn check(&mut self, db: SimDatabase) -> PhaseResult {
        if self.context.client_id() != 0 {
            return Ok(());
        }
        let expected = self.count * i64::from(self.context.client_count());
        let (counted, logged) = db.run(|trx, _| async move { read_all(&trx).await }).await?;
        if counted != expected || (self.log && logged != expected) {
            return Err(format!(
                "expected {expected} increments, found {counted} in the counter and {logged} in the log"
            )
            .into());
        }
        Ok(())
    }

    fn get_metrics(&self, mut out: Metrics) {
        out.extend([
            Metric::val("increments", self.count as f64),
            Metric::val("retries", self.retries as f64),
            Metric::val("maybe_committed", self.maybe_committed as f64),
            Metric::val("recognised", self.recognised as f64),
        ]);
    }

    fn get_check_timeout(&self) -> f64 {
        5000.0
    }
}

impl Atomic {
    /// Adds 1, once, whatever happens on the way.
    async fn increment(&mut self, db: &SimDatabase, number: i64) -> PhaseResult {
        let entry = log_space().pack(&(self.context.client_id(), number));
        let mut trx = db.create_trx()?;
        let mut maybe_committed = false;
        loop {
            if maybe_committed && self.log {
                match trx.get(&entry, false).await {
                    Ok(Some(_)) => {
                        self.recognised += 1;
                        return Ok(());
                    }
                    Ok(None) => {}
                    Err(error) => {
                        self.retries += 1;
                        trx = trx.on_error(error).await?;
                        continue;
                    }
                }
            }
            trx.atomic_op(&counter_key(), &1i64.to_le_bytes(), MutationType::Add);
            if self.log {
                trx.set(&entry, b"");
            }
            match trx.commit().await {
                Ok(_) => return Ok(()),
                Err(error) => {
                    self.retries += 1;
                    // Once in doubt, always in doubt: the attempt after next must look, too.
                    if error.is_maybe_committed() {
                        self.maybe_committed += 1;
                        maybe_committed = true;
                    }
                    trx = error.on_error().await?;
                }
            }
        }
    }
}

/// The counter and the number of log entries, as of one moment.
async fn read_all(trx: &RetryableTransaction) -> Result<(i64, i64), FdbBindingError> {
    let counted = match trx.get(&counter_key(), false).await? {
        Some(value) => value
            .as_ref()
            .try_into()
            .map(i64::from_le_bytes)
            .map_err(|error| FdbBindingError::new_custom_error(Box::new(error)))?,
        None => 0,
    };
    let mut logged = 0;
    let mut range = Some(RangeOption::from(&log_space()));
    while let Some(option) = range {
        let entries = trx.get_range(&option, 1, false).await?;
        logged += entries.len() as i64;
        range = option.next_range(&entries);
    }
    Ok((counted, logged))
}

fn space() -> Subspace {
    Subspace::all().subspace(&"atomic")
}

fn counter_key() -> Vec<u8> {
    space().pack(&"counter")
}

fn log_space() -> Subspace {
    space().subspace(&"log")
}

register_workload!(Atomic);
