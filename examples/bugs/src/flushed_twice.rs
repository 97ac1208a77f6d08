//! A counter that is cached is flushed again after an unknown result.
//!
//! Hits are counted in memory and flushed now and then, by an atomic addition. If the flush fails,
//! what was counted stays in memory, for the next flush, together with what comes until then. After
//! an unknown result (1021) it may be in the database already. The fix writes the sum of this
//! client under a key of its own, which may be done twice.

use crate::canary::{Client, Layer, number};
use shaketable::foundationdb::options::MutationType;
use shaketable::foundationdb::tuple::Subspace;
use shaketable::{PhaseResult, SimDatabase};

#[derive(Default)]
pub struct Hits {
    /// Not flushed yet.
    pending: i64,
    total: i64,
}

impl Layer for Hits {
    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        for _ in 0..client.rounds {
            let hits = 1 + i64::from(client.below(5));
            self.pending += hits;
            self.total += hits;
            self.flush(client, db).await?;
        }
        while self.pending > 0 {
            self.flush(client, db).await?;
        }
        Ok(())
    }

    async fn check(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        let found = db
            .run(|trx, _| async move { number(&trx, &hits(client)).await })
            .await?;
        if found != self.total {
            return Err(
                format!("{} hits were counted, the counter says {found}", self.total).into(),
            );
        }
        Ok(())
    }
}

impl Hits {
    async fn flush(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        let trx = db.create_trx()?;
        match client.fixed {
            true => trx.set(&hits(client), &self.total.to_le_bytes()),
            false => trx.atomic_op(
                &hits(client),
                &self.pending.to_le_bytes(),
                MutationType::Add,
            ),
        }
        match trx.commit().await {
            Ok(_) => self.pending = 0,
            // The next flush has them.
            Err(error) => drop(error.on_error().await?),
        }
        Ok(())
    }
}

fn hits(client: &Client) -> Vec<u8> {
    Subspace::all().pack(&("hits", client.id()))
}
