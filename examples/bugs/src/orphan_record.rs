//! A record without its index: its client died between the two transactions.
//!
//! Each client writes records of its own, one after the other, so nothing but the client itself can
//! come in between. A client that starts again goes on after the last record that it finds, and the
//! index of that one is never written. The fix writes both in one transaction.

use crate::canary::{Client, Layer, read_all};
use shaketable::foundationdb::tuple::Subspace;
use shaketable::{PhaseResult, SimDatabase};

#[derive(Default)]
pub struct Records;

impl Layer for Records {
    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        let own = records().subspace(&client.id());
        let written = db
            .run(|trx, _| {
                let own = own.clone();
                async move { Ok(read_all(&trx, &own).await?.len() as u32) }
            })
            .await?;
        for number in written..client.rounds {
            let record = records().pack(&(client.id(), number));
            let entry = index().pack(&(client.id(), number));
            let (record, entry) = (&record, &entry);
            db.run(|trx, _| async move {
                trx.set(record, b"");
                if client.fixed {
                    trx.set(entry, b"");
                }
                Ok(())
            })
            .await?;
            if !client.fixed {
                db.run(|trx, _| async move {
                    trx.set(entry, b"");
                    Ok(())
                })
                .await?;
            }
        }
        Ok(())
    }

    async fn check(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        let (written, indexed) = db
            .run(|trx, _| async move {
                let written = read_all(&trx, &records()).await?.len();
                Ok((written, read_all(&trx, &index()).await?.len()))
            })
            .await?;
        let expected = client.rounds as usize * client.count() as usize;
        if (written, indexed) != (expected, expected) {
            return Err(format!("there are {written} records, the index has {indexed}").into());
        }
        Ok(())
    }
}

fn records() -> Subspace {
    Subspace::all().subspace(&"records")
}

fn index() -> Subspace {
    Subspace::all().subspace(&"index")
}
