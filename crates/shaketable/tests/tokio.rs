//! Code on tokio in the embedded simulation: unchanged, in simulated time.
//!
//! Run with `cargo test -p shaketable --features tokio --test tokio`.

use shaketable::{Faults, PhaseResult, SimDatabase, Simulation, WorkloadContext};
use std::time::Duration;
use tokio::sync::mpsc;

fn quiet() -> Simulation {
    Simulation::new()
        .seeds(0..3)
        .faults(Faults::none())
        .without_regressions()
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

async fn put(db: &SimDatabase, key: &'static [u8]) -> PhaseResult {
    db.run(|trx, _| async move {
        trx.set(key, b"here");
        Ok(())
    })
    .await?;
    Ok(())
}

#[test]
fn tasks_timers_and_transactions_run_in_simulated_time() {
    quiet().test(
        async |db: SimDatabase, context: WorkloadContext| -> PhaseResult {
            let before = (context.now(), tokio::time::Instant::now());
            let (sender, mut receiver) = mpsc::channel(1);
            let writer = tokio::spawn({
                let db = db.clone();
                async move {
                    tokio::time::sleep(seconds(3600)).await;
                    put(&db, b"key").await.expect("a transaction");
                    sender.send("written").await.expect("a receiver");
                }
            });
            let mut ticks = tokio::time::interval(seconds(60));
            let mut ticked = 0;
            let received = loop {
                tokio::select! {
                    _ = ticks.tick() => ticked += 1,
                    message = receiver.recv() => break message,
                }
            };
            assert_eq!(received, Some("written"));
            assert!((60..=62).contains(&ticked), "{ticked} ticks");
            writer.await?;
            let slow = tokio::time::timeout(seconds(5), std::future::pending::<()>());
            assert!(slow.await.is_err());
            let passed = context.now() - before.0;
            assert!((3605.0..3610.0).contains(&passed), "{passed} s");
            let passed = before.1.elapsed().as_secs_f64();
            assert!((3605.0..3610.0).contains(&passed), "{passed} s");
            Ok(())
        },
    );
}
