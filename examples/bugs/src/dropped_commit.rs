//! A commit that takes too long is dropped and made again.
//!
//! A service gives every call some time, as services do. When the commit takes longer its future is
//! dropped, and the call is made again. But dropping a future takes nothing back: the commit was on
//! its way, and it arrives. The id that would have told is of no use, because it is made by the
//! call: the second one looks for another. The fix makes the id once for all calls.

use crate::canary::{Client, Layer, check_counter};
use shaketable::foundationdb::options::MutationType;
use shaketable::foundationdb::tuple::Subspace;
use shaketable::{PhaseError, PhaseResult, SimDatabase, timeout};
use std::time::Duration;

/// Long for a commit, unless the cluster is in trouble.
const PATIENCE: Duration = Duration::from_millis(500);

#[derive(Default)]
pub struct Transfers;

impl Layer for Transfers {
    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        for round in 0..client.rounds {
            let mut call = 0;
            loop {
                let id = Subspace::all().pack(&("transfer", client.id(), round, call));
                if transfer(db, &id).await? {
                    break;
                }
                call += u32::from(!client.fixed);
            }
        }
        Ok(())
    }

    async fn check(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        check_counter(client, db, &key()).await
    }
}

/// Transfers once, and returns whether that was done in time.
async fn transfer(db: &SimDatabase, id: &[u8]) -> Result<bool, PhaseError> {
    let mut trx = db.create_trx()?;
    loop {
        let found = trx.get(id, false).await;
        match found {
            Ok(Some(_)) => return Ok(true),
            Ok(None) => trx.set(id, b""),
            Err(error) => {
                trx = trx.on_error(error).await?;
                continue;
            }
        }
        trx.atomic_op(&key(), &1i64.to_le_bytes(), MutationType::Add);
        match timeout(PATIENCE, trx.commit()).await {
            Err(_too_long) => return Ok(false),
            Ok(Ok(_)) => return Ok(true),
            Ok(Err(error)) => trx = error.on_error().await?,
        }
    }
}

fn key() -> Vec<u8> {
    Subspace::all().pack(&"transferred")
}
