//! A lease is trusted because the clock says so.
//!
//! The holder of the lease may write until its deadline, and looks at the clock before writing.
//! Between the look and the commit time passes: the lease runs out, another client takes it and
//! writes, and then the first write arrives. The fix makes the term of the lease a fencing token
//! that the write checks in its own transaction.

use crate::canary::{Client, Layer, read_all};
use shaketable::foundationdb::options::MutationType;
use shaketable::foundationdb::tuple::{Subspace, Versionstamp};
use shaketable::foundationdb::{FdbBindingError, RetryableTransaction};
use shaketable::{PhaseResult, SimDatabase, sleep};
use std::time::Duration;

const LEASE_SECONDS: f64 = 1.0;

#[derive(Default)]
pub struct Lease;

impl Layer for Lease {
    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        for _ in 0..client.rounds {
            sleep(Duration::from_millis(u64::from(client.below(500)))).await;
            let taken = db
                .run(|trx, _| async move { take(&trx, client).await })
                .await?;
            let Some((term, deadline)) = taken else {
                continue;
            };
            sleep(Duration::from_millis(u64::from(client.below(1000)))).await;
            if client.context.now() >= deadline {
                continue;
            }
            db.run(|trx, _| async move {
                if client.fixed
                    && lease(&trx)
                        .await?
                        .is_none_or(|(current, _)| current != term)
                {
                    return Ok(());
                }
                let key = journal().pack_with_versionstamp(&Versionstamp::incomplete(0));
                trx.atomic_op(
                    &key,
                    &Subspace::all().pack(&term),
                    MutationType::SetVersionstampedKey,
                );
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    async fn check(&mut self, _client: &Client, db: &SimDatabase) -> PhaseResult {
        let rows = db
            .run(|trx, _| async move { read_all(&trx, &journal()).await })
            .await?;
        let mut highest = 0;
        for (_, value) in rows {
            let term: u64 = Subspace::all().unpack(&value)?;
            if term < highest {
                return Err(format!("term {term} wrote after term {highest} had begun to").into());
            }
            highest = term;
        }
        Ok(())
    }
}

/// Takes the lease if it is free; returns its term and deadline.
async fn take(
    trx: &RetryableTransaction,
    client: &Client,
) -> Result<Option<(u64, f64)>, FdbBindingError> {
    let now = client.context.now();
    let last = lease(trx).await?;
    if last.is_some_and(|(_, deadline)| now < deadline) {
        return Ok(None);
    }
    let term = last.map_or(0, |(term, _)| term) + 1;
    let deadline = now + LEASE_SECONDS;
    trx.set(&lease_key(), &Subspace::all().pack(&(term, deadline)));
    Ok(Some((term, deadline)))
}

async fn lease(trx: &RetryableTransaction) -> Result<Option<(u64, f64)>, FdbBindingError> {
    match trx.get(&lease_key(), false).await? {
        Some(value) => Ok(Some(
            Subspace::all()
                .unpack(&value)
                .map_err(FdbBindingError::PackError)?,
        )),
        None => Ok(None),
    }
}

fn lease_key() -> Vec<u8> {
    Subspace::all().pack(&"lease")
}

fn journal() -> Subspace {
    Subspace::all().subspace(&"journal")
}
