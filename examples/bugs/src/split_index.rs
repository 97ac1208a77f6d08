//! A record and its index are written in two transactions.
//!
//! Between the two anything can happen: another client writes the same record, or reads one and not
//! the other. The fix writes both in one transaction.

use crate::canary::{Client, Layer, read_all};
use shaketable::foundationdb::tuple::Subspace;
use shaketable::foundationdb::{FdbBindingError, RetryableTransaction};
use shaketable::{PhaseResult, SimDatabase};
use std::collections::BTreeSet;

#[derive(Default)]
pub struct Index;

impl Layer for Index {
    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        for _ in 0..client.rounds {
            let id = client.below(5);
            let colour = client.below(3);
            if client.fixed {
                db.run(|trx, _| async move {
                    let old = write_record(&trx, id, colour).await?;
                    write_index(&trx, id, old, colour);
                    Ok(())
                })
                .await?;
            } else {
                let old = db
                    .run(|trx, _| async move { write_record(&trx, id, colour).await })
                    .await?;
                db.run(|trx, _| async move {
                    write_index(&trx, id, old, colour);
                    Ok(())
                })
                .await?;
            }
        }
        Ok(())
    }

    async fn check(&mut self, _client: &Client, db: &SimDatabase) -> PhaseResult {
        let (records, index) = db
            .run(|trx, _| async move {
                let mut records = BTreeSet::new();
                for (key, value) in read_all(&trx, &records_space()).await? {
                    let id: u32 = records_space()
                        .unpack(&key)
                        .map_err(FdbBindingError::PackError)?;
                    let colour: u32 = Subspace::all()
                        .unpack(&value)
                        .map_err(FdbBindingError::PackError)?;
                    records.insert((colour, id));
                }
                let mut index = BTreeSet::new();
                for (key, _) in read_all(&trx, &index_space()).await? {
                    let entry: (u32, u32) = index_space()
                        .unpack(&key)
                        .map_err(FdbBindingError::PackError)?;
                    index.insert(entry);
                }
                Ok((records, index))
            })
            .await?;
        if records != index {
            return Err(format!("records say {records:?}, the index says {index:?}").into());
        }
        Ok(())
    }
}

/// Writes a record and returns its old colour.
async fn write_record(
    trx: &RetryableTransaction,
    id: u32,
    colour: u32,
) -> Result<Option<u32>, FdbBindingError> {
    let key = records_space().pack(&id);
    let old = match trx.get(&key, false).await? {
        Some(value) => Some(
            Subspace::all()
                .unpack(&value)
                .map_err(FdbBindingError::PackError)?,
        ),
        None => None,
    };
    trx.set(&key, &Subspace::all().pack(&colour));
    Ok(old)
}

fn write_index(trx: &RetryableTransaction, id: u32, old: Option<u32>, colour: u32) {
    if let Some(old) = old {
        trx.clear(&index_space().pack(&(old, id)));
    }
    trx.set(&index_space().pack(&(colour, id)), b"");
}

fn records_space() -> Subspace {
    Subspace::all().subspace(&"records")
}

fn index_space() -> Subspace {
    Subspace::all().subspace(&"index")
}
