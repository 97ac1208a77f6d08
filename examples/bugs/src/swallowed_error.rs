//! A failed commit is logged and taken for done.
//!
//! A wrapper around `commit` that is "best effort" treats an error that wants a retry as the end of
//! the matter. Without failures that goes unnoticed. The fix retries as FoundationDB asks.

use crate::canary::{Client, Layer, read_all};
use shaketable::foundationdb::tuple::Subspace;
use shaketable::{PhaseResult, Severity, SimDatabase, details};

#[derive(Default)]
pub struct Log;

impl Layer for Log {
    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        for round in 0..client.rounds {
            let key = entries().pack(&(client.id(), round));
            if client.fixed {
                db.run(|trx, _| {
                    let key = key.clone();
                    async move {
                        trx.set(&key, b"");
                        Ok(())
                    }
                })
                .await?;
                continue;
            }
            let trx = db.create_trx()?;
            trx.set(&key, b"");
            if let Err(error) = trx.commit().await {
                client.context.trace(
                    Severity::Warn,
                    "LogEntryNotWritten",
                    details!["Error" => error.to_string()],
                );
            }
        }
        Ok(())
    }

    async fn check(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        let found = db
            .run(|trx, _| async move { read_all(&trx, &entries()).await })
            .await?
            .len();
        let expected = client.rounds as usize * client.count() as usize;
        if found != expected {
            return Err(format!("{expected} entries were logged, {found} are there").into());
        }
        Ok(())
    }
}

fn entries() -> Subspace {
    Subspace::all().subspace(&"entries")
}
