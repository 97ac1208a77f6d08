//! The version of a commit is taken for a unique number.
//!
//! Each client saves a draft, and enters it into a log under the version of that commit: a number
//! that grows, and comes for free. But a cluster commits in batches, and all commits of a batch
//! have one version: two clients write the same row of the log. The fix adds the client to the key;
//! a versionstamp, which has the place in the batch, would do as well.

use crate::canary::{Client, Layer, read_all};
use shaketable::foundationdb::tuple::Subspace;
use shaketable::{PhaseError, PhaseResult, SimDatabase};

#[derive(Default)]
pub struct Log;

impl Layer for Log {
    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        for round in 0..client.rounds {
            let version = save(client, db, round).await?;
            let key = &match client.fixed {
                true => log().pack(&(version, client.id())),
                false => log().pack(&version),
            };
            let entry = &Subspace::all().pack(&(client.id(), round));
            db.run(|trx, _| async move {
                trx.set(key, entry);
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    async fn check(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        let rows = db
            .run(|trx, _| async move { read_all(&trx, &log()).await })
            .await?;
        let expected = i64::from(client.rounds) * i64::from(client.count());
        if rows.len() as i64 != expected {
            let found = rows.len();
            return Err(format!("{expected} entries were made, {found} are in the log").into());
        }
        Ok(())
    }
}

/// Saves a draft, and returns the version of the commit.
async fn save(client: &Client, db: &SimDatabase, round: u32) -> Result<i64, PhaseError> {
    let draft = Subspace::all().pack(&("draft", client.id()));
    let mut trx = db.create_trx()?;
    loop {
        trx.set(&draft, &Subspace::all().pack(&round));
        trx = match trx.commit().await {
            Ok(committed) => return Ok(committed.committed_version()?),
            Err(error) => error.on_error().await?,
        };
    }
}

fn log() -> Subspace {
    Subspace::all().subspace(&"log")
}
