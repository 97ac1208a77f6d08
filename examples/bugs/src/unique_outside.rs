//! A name is looked up in one transaction and taken in another.
//!
//! `if !exists(name) { create(name) }`: both halves are transactions, the whole is not. Two clients
//! find the name free, and the second one takes it from the first. The fix looks and takes in one
//! transaction.

use crate::canary::{Client, Layer};
use shaketable::foundationdb::tuple::Subspace;
use shaketable::foundationdb::{FdbBindingError, RetryableTransaction};
use shaketable::{PhaseResult, SimDatabase};

const NAMES: u32 = 40;

#[derive(Default)]
pub struct Names {
    /// What this client was told is its own.
    own: Vec<u32>,
}

impl Layer for Names {
    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        for _ in 0..client.rounds {
            let name = client.below(NAMES);
            let taken = if client.fixed {
                db.run(|trx, _| async move {
                    let free = owner(&trx, name)
                        .await?
                        .is_none_or(|owner| owner == client.id());
                    if free {
                        take(&trx, name, client.id());
                    }
                    Ok(free)
                })
                .await?
            } else {
                let owner = db
                    .run(|trx, _| async move { owner(&trx, name).await })
                    .await?;
                if owner.is_none() {
                    db.run(|trx, _| async move {
                        take(&trx, name, client.id());
                        Ok(())
                    })
                    .await?;
                }
                owner.is_none()
            };
            if taken {
                self.own.push(name);
            }
        }
        Ok(())
    }

    async fn check(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        for name in &self.own {
            let owner = db
                .run(|trx, _| async move { owner(&trx, *name).await })
                .await?;
            if owner != Some(client.id()) {
                return Err(format!(
                    "client {} took name {name}, which belongs to {owner:?}",
                    client.id()
                )
                .into());
            }
        }
        Ok(())
    }
}

async fn owner(trx: &RetryableTransaction, name: u32) -> Result<Option<i32>, FdbBindingError> {
    match trx.get(&key(name), false).await? {
        Some(value) => Ok(Some(
            Subspace::all()
                .unpack(&value)
                .map_err(FdbBindingError::PackError)?,
        )),
        None => Ok(None),
    }
}

fn take(trx: &RetryableTransaction, name: u32, client: i32) {
    trx.set(&key(name), &Subspace::all().pack(&client));
}

fn key(name: u32) -> Vec<u8> {
    Subspace::all().pack(&("name", name))
}
