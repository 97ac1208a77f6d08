//! A retry takes the entry of its own commit for another client's.
//!
//! A name may be taken once, and the transaction that takes it looks first. If the result of its
//! commit is unknown and it had committed, the retry finds the name taken, and the user is asked to
//! choose another one: now the user has two. The fix compares what is stored with the request that
//! would have stored it.

use crate::canary::{Client, Layer, read_all};
use shaketable::foundationdb::tuple::Subspace;
use shaketable::{PhaseResult, SimDatabase};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Names;

impl Layer for Names {
    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        for user in 0..client.rounds {
            let request = Subspace::all().pack(&(client.id(), user));
            let mut choice = 0;
            while !take(client, db, &format!("name {choice} of {user}"), &request).await? {
                choice += 1;
            }
        }
        Ok(())
    }

    async fn check(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        let rows = db
            .run(|trx, _| async move { read_all(&trx, &names(client)).await })
            .await?;
        let mut owned = BTreeMap::new();
        for (_, request) in rows {
            let (_, user): (i32, u32) = Subspace::all().unpack(&request)?;
            *owned.entry(user).or_insert(0) += 1;
        }
        for (user, count) in owned {
            if count != 1 {
                return Err(format!("user {user} took one name and has {count}").into());
            }
        }
        Ok(())
    }
}

/// Takes a name, and returns whether it was free.
async fn take(
    client: &Client,
    db: &SimDatabase,
    name: &str,
    request: &[u8],
) -> Result<bool, shaketable::PhaseError> {
    let key = names(client).pack(&name);
    let taken = db
        .run(|trx, _| {
            let key = key.clone();
            async move {
                match trx.get(&key, false).await? {
                    Some(owner) => Ok(client.fixed && *owner == *request),
                    None => {
                        trx.set(&key, request);
                        Ok(true)
                    }
                }
            }
        })
        .await?;
    Ok(taken)
}

fn names(client: &Client) -> Subspace {
    Subspace::all().subspace(&("names", client.id()))
}
