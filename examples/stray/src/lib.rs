//! A layer whose dependencies ask the machine for time and random numbers.
//!
//! An honest layer takes its clock and its random numbers from outside. A real one depends on
//! crates that do not: `rand::rng()`, `Uuid::new_v4()`, a `HashMap` whose order is different in
//! each process, `SystemTime::now()`. Under fdbserver each of them can make a seed that failed once
//! pass from then on. Here their values come from the seed and the simulated clock, so this
//! workload, which does all of it and stores what it got, writes the same bytes for the same seed:
//! `shaketable check-determinism examples/stray/stray.toml`.

#![expect(
    clippy::disallowed_methods,
    clippy::iter_over_hash_type,
    reason = "what no layer should do is what this one is about"
)]

use rand::RngExt;
use shaketable::foundationdb::RangeOption;
use shaketable::{
    PhaseResult, Severity, SimDatabase, SingleRustWorkload, Workload, WorkloadContext, details,
    register_workload,
};
use std::collections::{HashMap, HashSet};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use uuid::Uuid;

struct Stray {
    context: WorkloadContext,
    orders: u32,
}

impl SingleRustWorkload for Stray {
    fn new(_name: String, context: WorkloadContext) -> Self {
        let orders = context.get_option("orders").unwrap_or(10);
        Stray { context, orders }
    }
}

impl Workload for Stray {
    /// Takes orders under random identifiers, in the order in which a hash map returns them.
    async fn start(&mut self, db: SimDatabase) -> PhaseResult {
        let begin = Instant::now();
        let mut basket: HashMap<Uuid, u32> = HashMap::new();
        for _ in 0..self.orders {
            basket.insert(Uuid::new_v4(), rand::rng().random_range(1..100));
        }
        for (order, amount) in &basket {
            let key = format!("orders/{order}");
            let value = amount.to_le_bytes();
            db.run(|transaction, _| {
                let key = key.as_bytes();
                async move {
                    transaction.set(key, &value);
                    Ok(())
                }
            })
            .await?;
        }
        let mut bytes = [0; 8];
        getrandom::getrandom(&mut bytes).map_err(std::io::Error::from)?;
        let calendar = SystemTime::now().duration_since(UNIX_EPOCH)?;
        self.context.trace(
            Severity::Info,
            "StrayAnswers",
            details![
                "First" => basket.keys().next().map(Uuid::to_string).unwrap_or_default(),
                "Bytes" => u64::from_le_bytes(bytes),
                "Fast" => fastrand::u64(..),
                "Later" => Uuid::now_v7(),
                "Calendar" => calendar.as_nanos(),
                "Elapsed" => begin.elapsed().as_nanos(),
            ],
        );
        Ok(())
    }

    /// No two clients drew the same identifier.
    async fn check(&mut self, db: SimDatabase) -> PhaseResult {
        let keys = db
            .run(|transaction, _| async move {
                let mut keys = HashSet::new();
                let mut range = Some(RangeOption::from((&b"orders/"[..], &b"orders0"[..])));
                while let Some(part) = range {
                    let rows = transaction.get_range(&part, 1, false).await?;
                    keys.extend(rows.iter().map(|row| row.key().to_vec()));
                    range = part.next_range(&rows);
                }
                Ok(keys)
            })
            .await?;
        let expected = self.context.client_count() as usize * self.orders as usize;
        assert_eq!(keys.len(), expected, "an order was lost");
        Ok(())
    }
}

register_workload!(Stray);
