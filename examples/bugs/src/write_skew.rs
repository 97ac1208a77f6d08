//! A rule over two keys is checked with snapshot reads.
//!
//! Of two doctors at least one must be on call. Each may leave when the other is there. Snapshot
//! reads are cheap because they conflict with nothing, and that is the bug: both look, both see the
//! other, both leave. The fix reads the other one serializably, so that the second to commit
//! conflicts and looks again.

use crate::canary::{Client, Layer};
use shaketable::foundationdb::tuple::Subspace;
use shaketable::{PhaseResult, SimDatabase};

#[derive(Default)]
pub struct Rota;

impl Layer for Rota {
    async fn setup(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        if client.id() == 0 {
            db.run(|trx, _| async move {
                trx.set(&key(0), b"on call");
                trx.set(&key(1), b"on call");
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        let me = client.id() as u32 % 2;
        for _ in 0..client.rounds {
            let leave = client.below(2) == 0;
            let alone = db
                .run(|trx, _| async move {
                    let other = trx.get(&key(1 - me), !client.fixed).await?;
                    let own = trx.get(&key(me), !client.fixed).await?;
                    if leave && other.is_some() {
                        trx.clear(&key(me));
                    } else {
                        trx.set(&key(me), b"on call");
                    }
                    Ok(other.is_none() && own.is_none())
                })
                .await?;
            if alone {
                return Err("nobody was on call".into());
            }
        }
        Ok(())
    }

    async fn check(&mut self, _client: &Client, db: &SimDatabase) -> PhaseResult {
        let anybody = db
            .run(|trx, _| async move {
                Ok(trx.get(&key(0), false).await?.is_some()
                    || trx.get(&key(1), false).await?.is_some())
            })
            .await?;
        if !anybody {
            return Err("nobody is on call".into());
        }
        Ok(())
    }
}

fn key(doctor: u32) -> Vec<u8> {
    Subspace::all().pack(&("on call", doctor))
}
