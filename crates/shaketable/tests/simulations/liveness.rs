//! Code that waits for a machine which never returns, and code that gets on without it.

use shaketable::foundationdb::options::TransactionOption;
use shaketable::foundationdb::{FdbBindingError, RangeOption};
use shaketable::{
    Faults, PhaseResult, SimDatabase, Simulation, SingleRustWorkload, Workload, WorkloadContext,
    sleep,
};
use std::time::Duration;

const SEEDS: u64 = 12;
const ROUNDS: u32 = 120;

/// Works with one of the storage servers, as long as the cluster counts on it.
struct Neighbour {
    /// Whether it stays with the server that it began with.
    is_faithful: bool,
}

impl SingleRustWorkload for Neighbour {
    fn new(_name: String, context: WorkloadContext) -> Self {
        Neighbour {
            is_faithful: context.get_option("faithful").unwrap_or(false),
        }
    }
}

impl Workload for Neighbour {
    async fn start(&mut self, db: SimDatabase) -> PhaseResult {
        let mut home: Option<Vec<u8>> = None;
        for _ in 0..ROUNDS {
            loop {
                let servers = servers(&db).await?;
                match &home {
                    Some(home) if servers.contains(home) => break,
                    Some(_) if self.is_faithful => sleep(Duration::from_secs(1)).await,
                    _ => home = servers.into_iter().next(),
                }
            }
            sleep(Duration::from_secs(1)).await;
        }
        Ok(())
    }
}

/// The storage servers that the cluster counts on.
async fn servers(db: &SimDatabase) -> Result<Vec<Vec<u8>>, FdbBindingError> {
    db.run(|trx, _| async move {
        trx.set_option(TransactionOption::ReadSystemKeys)?;
        let all = RangeOption::from((&b"\xff/serverList/"[..], &b"\xff/serverList0"[..]));
        let rows = trx.get_range(&all, 1, true).await?;
        Ok(rows.iter().map(|row| row.key().to_vec()).collect())
    })
    .await
}

fn simulation(seed: u64, is_faithful: bool) -> Simulation {
    Simulation::new()
        .seeds(seed)
        .clients(2)
        .faults(Faults::none().liveness(Duration::from_secs(300)))
        .option("faithful", is_faithful)
        .without_regressions()
}

#[test]
fn what_waits_for_a_machine_that_never_returns_is_not_live() {
    let mut not_live = 0;
    for seed in 1..=SEEDS {
        let Err(failed) = simulation(seed, true).try_run::<Neighbour>() else {
            // The machine that broke was another one.
            continue;
        };
        let reason = failed.reason();
        assert!(reason.contains("not live"), "seed {seed}: {reason}");
        not_live += 1;
    }
    assert!(not_live > 0 && not_live < SEEDS, "{not_live} of {SEEDS}");
}

#[test]
fn what_takes_another_machine_gets_on() {
    for seed in 1..=SEEDS {
        let passed = simulation(seed, false).try_run::<Neighbour>();
        assert!(passed.is_ok(), "seed {seed}: {:?}", passed.err());
    }
}
