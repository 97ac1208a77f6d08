//! Measures what a client sees: latencies and errors of read-modify-writes.
//!
//! Each client, 150 times: a pause (uniform, 0.2 s in the mean), a read version, a `get` of one of
//! 20 keys, a `set`, a `commit`, with retries. The metrics show how long each step took, how often
//! it failed, and with which error. Run on fdbserver and on Shaketable it shows how alike the two
//! are: `docs/fidelity.md` has the table.

use shaketable::foundationdb::{FdbError, Transaction};
use shaketable::{
    Metric, Metrics, PhaseResult, SimDatabase, SingleRustWorkload, Workload, WorkloadContext,
    register_workload,
};
use std::collections::BTreeMap;
use std::time::Duration;

struct Probe {
    context: WorkloadContext,
    rounds: u32,
    keys: u32,
    pause: f64,
    /// The seconds of each successful step.
    latencies: [Vec<f64>; 3],
    /// How often a step failed with a code.
    errors: BTreeMap<(usize, i32), u64>,
}

const STEPS: [&str; 3] = ["read_version", "get", "commit"];

impl SingleRustWorkload for Probe {
    fn new(_name: String, context: WorkloadContext) -> Self {
        Probe {
            rounds: context.get_option("rounds").unwrap_or(150),
            keys: context.get_option("keys").unwrap_or(20),
            pause: context.get_option("pause").unwrap_or(0.2),
            context,
            latencies: Default::default(),
            errors: BTreeMap::new(),
        }
    }
}

impl Workload for Probe {
    async fn start(&mut self, db: SimDatabase) -> PhaseResult {
        for _ in 0..self.rounds {
            let part = f64::from(self.context.rnd()) / f64::from(u32::MAX);
            let pause = Duration::from_secs_f64(2.0 * self.pause * part);
            self.context.delay(pause).await?;
            let mut transaction = db.create_trx()?;
            loop {
                let key = format!("key {}", self.context.rnd() % self.keys);
                if let Err((step, error)) = self.read(&transaction, key.as_bytes()).await {
                    self.count(step, error);
                    transaction = transaction.on_error(error).await?;
                    continue;
                }
                transaction.set(key.as_bytes(), b"value");
                let began = self.context.now();
                match transaction.commit().await {
                    Ok(_) => {
                        self.latencies[2].push(self.context.now() - began);
                        break;
                    }
                    Err(error) => {
                        self.count(2, *error);
                        transaction = error.on_error().await?;
                    }
                }
            }
        }
        Ok(())
    }

    fn get_metrics(&self, mut out: Metrics) {
        for (step, values) in STEPS.iter().zip(&self.latencies) {
            let mut values = values.clone();
            values.sort_by(f64::total_cmp);
            let at = |part: f64| {
                let index = (values.len().saturating_sub(1) as f64 * part) as usize;
                values.get(index).copied().unwrap_or_default() * 1e3
            };
            for (name, part) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)] {
                out.push(Metric::avg(&format!("{step}_ms_{name}"), at(part)));
            }
        }
        for ((step, code), count) in &self.errors {
            let name = format!("{}_error_{code}", STEPS[*step]);
            out.push(Metric::val(&name, *count as f64));
        }
        out.push(Metric::val("committed", self.latencies[2].len() as f64));
    }
}

impl Probe {
    async fn read(
        &mut self,
        transaction: &Transaction,
        key: &[u8],
    ) -> Result<(), (usize, FdbError)> {
        let began = self.context.now();
        transaction.get_read_version().await.map_err(|e| (0, e))?;
        let versioned = self.context.now();
        self.latencies[0].push(versioned - began);
        transaction.get(key, false).await.map_err(|e| (1, e))?;
        self.latencies[1].push(self.context.now() - versioned);
        Ok(())
    }

    fn count(&mut self, step: usize, error: FdbError) {
        *self.errors.entry((step, error.code())).or_default() += 1;
    }
}

register_workload!(Probe);
