//! A commit that takes too long is dropped and made again.
//!
//! A service gives every call some time, as services do. When the commit takes longer its future is
//! dropped, and a new transaction does the same again. But dropping a future takes nothing back: the
//! commit was on its way, and it arrives. The fix gives every transfer an id, and looks for it.

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
            let id = Subspace::all().pack(&("transfer", client.id(), round));
            while !transfer(client, db, &id).await? {}
        }
        Ok(())
    }

    async fn check(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        check_counter(client, db, &key()).await
    }
}

/// Tries once, and returns whether it is done.
async fn transfer(client: &Client, db: &SimDatabase, id: &[u8]) -> Result<bool, PhaseError> {
    let mut trx = db.create_trx()?;
    loop {
        if client.fixed {
            let found = trx.get(id, false).await;
            match found {
                Ok(Some(_)) => return Ok(true),
                Ok(None) => trx.set(id, b""),
                Err(error) => {
                    trx = trx.on_error(error).await?;
                    continue;
                }
            }
        }
        trx.atomic_op(&key(), &1i64.to_le_bytes(), MutationType::Add);
        match timeout(PATIENCE, trx.commit()).await {
            Err(_too_long) => return Ok(false),
            Ok(Ok(_)) => return Ok(true),
            // Nothing was committed, so nothing is lost by trying again.
            Ok(Err(error)) if error.is_retryable_not_committed() => {
                trx = error.on_error().await?;
            }
            // Everything else is too late to be taken back.
            Ok(Err(error)) if client.fixed => trx = error.on_error().await?,
            Ok(Err(_unknown)) => return Ok(true),
        }
    }
}

fn key() -> Vec<u8> {
    Subspace::all().pack(&"transferred")
}
