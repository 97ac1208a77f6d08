//! The old entry of an index is found by a snapshot read.
//!
//! A user changes city; the index by city must lose the old entry and get a new one. The old city
//! is read by snapshot, because "the write will conflict anyway": it does not. Two changes at once
//! both remove the same old entry, and the user lives in two cities. The fix reads serializably.

use crate::canary::{Client, Layer, read_all};
use shaketable::foundationdb::tuple::Subspace;
use shaketable::{PhaseResult, SimDatabase};

const USERS: u32 = 3;

#[derive(Default)]
pub struct Cities;

impl Layer for Cities {
    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        for _ in 0..client.rounds {
            let (user, city) = (client.below(USERS), client.below(100));
            db.run(|trx, _| async move {
                let old = trx.get(&users().pack(&user), !client.fixed).await?;
                if let Some(old) = old {
                    let old: u32 = Subspace::all().unpack(&old).expect("a city");
                    trx.clear(&index().pack(&(old, user)));
                }
                trx.set(&users().pack(&user), &Subspace::all().pack(&city));
                trx.set(&index().pack(&(city, user)), b"");
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    async fn check(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        if client.id() != 0 {
            return Ok(());
        }
        let (entries, users) = db
            .run(|trx, _| async move {
                Ok((
                    read_all(&trx, &index()).await?,
                    read_all(&trx, &users()).await?,
                ))
            })
            .await?;
        if entries.len() != users.len() {
            return Err(format!(
                "{} users, {} entries in the index",
                users.len(),
                entries.len()
            )
            .into());
        }
        Ok(())
    }
}

fn users() -> Subspace {
    Subspace::all().subspace(&"users")
}
fn index() -> Subspace {
    Subspace::all().subspace(&"by city")
}
