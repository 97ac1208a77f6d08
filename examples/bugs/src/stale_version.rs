//! A read version is kept to save a round trip, and is too old.
//!
//! A client remembers the read version of its last transaction for some seconds and gives it to the
//! next one. That saves a question, and it costs what the question is for: a transaction sees
//! everything that was committed before it began. Here a client does not find the note that it has
//! just saved. The fix lets every transaction get a read version of its own.

use crate::canary::{Client, Layer};
use shaketable::foundationdb::tuple::Subspace;
use shaketable::{PhaseResult, SimDatabase};

/// For how long a read version is kept.
const KEPT_SECONDS: f64 = 2.0;

#[derive(Default)]
pub struct Notes {
    /// A read version, and when it was fresh.
    kept: Option<(i64, f64)>,
}

impl Layer for Notes {
    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        for round in 0..client.rounds {
            let key = Subspace::all().pack(&("note", client.id(), round));
            db.run(|trx, _| {
                let key = key.clone();
                async move {
                    trx.set(&key, b"text");
                    Ok(())
                }
            })
            .await?;
            let now = client.context.now();
            let kept = self
                .kept
                .filter(|(_, since)| !client.fixed && now < since + KEPT_SECONDS)
                .map(|(version, _)| version);
            let (version, found) = db
                .run(|trx, _| {
                    let key = key.clone();
                    async move {
                        if let Some(version) = kept {
                            trx.set_read_version(version);
                        }
                        let found = trx.get(&key, false).await?.is_some();
                        Ok((trx.get_read_version().await?, found))
                    }
                })
                .await?;
            if kept.is_none() {
                self.kept = Some((version, now));
            }
            if !found {
                return Err(format!("note {round} was saved, and is not there").into());
            }
        }
        Ok(())
    }

    async fn check(&mut self, _client: &Client, _db: &SimDatabase) -> PhaseResult {
        Ok(())
    }
}
