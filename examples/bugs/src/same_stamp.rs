//! Two rows of one transaction get the same versionstamp.
//!
//! A versionstamp is unique to a transaction, not to a row. A transaction that stores several rows
//! under one writes the same key again and again, and only the last row is there. The fix counts
//! the rows in the user version, which is the end of a versionstamp.

use crate::canary::{Client, Layer, read_all};
use shaketable::foundationdb::options::MutationType;
use shaketable::foundationdb::tuple::{Subspace, Versionstamp};
use shaketable::{PhaseResult, SimDatabase};
use std::collections::BTreeSet;

/// How many rows a letter has.
const PARTS: u16 = 2;

#[derive(Default)]
pub struct Mail;

impl Layer for Mail {
    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        for letter in 0..client.rounds {
            let receipt = Subspace::all().pack(&("sent", client.id(), letter));
            db.run(|trx, _| {
                let receipt = receipt.clone();
                async move {
                    if trx.get(&receipt, false).await?.is_some() {
                        return Ok(());
                    }
                    trx.set(&receipt, b"");
                    // Only a letter of several parts shows it.
                    for part in 0..if letter % 2 == 0 { 1 } else { PARTS } {
                        let user_version = if client.fixed { part } else { 0 };
                        let stamp = Versionstamp::incomplete(user_version);
                        trx.atomic_op(
                            &mail().pack_with_versionstamp(&stamp),
                            &Subspace::all().pack(&(client.id(), letter, part)),
                            MutationType::SetVersionstampedKey,
                        );
                    }
                    Ok(())
                }
            })
            .await?;
        }
        Ok(())
    }

    async fn check(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        let rows = db
            .run(|trx, _| async move { read_all(&trx, &mail()).await })
            .await?;
        let mut arrived = BTreeSet::new();
        for (_, value) in rows {
            arrived.insert(Subspace::all().unpack::<(i32, u32, u16)>(&value)?);
        }
        for letter in 0..client.rounds {
            for part in 0..if letter % 2 == 0 { 1 } else { PARTS } {
                if !arrived.contains(&(client.id(), letter, part)) {
                    return Err(format!("part {part} of letter {letter} is missing").into());
                }
            }
        }
        Ok(())
    }
}

fn mail() -> Subspace {
    Subspace::all().subspace(&"mail")
}
