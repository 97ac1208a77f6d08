//! A range is cleared that begins like another one.
//!
//! Files are stored as `file/<owner>/<name>`, and all files of an owner are deleted by clearing
//! everything that begins with `file/<owner>`. Without the slash at the end that is also true of
//! owner 10 if the owner is 1. The fix clears `file/<owner>/`.

use crate::canary::{Client, Layer};
use shaketable::{PhaseResult, SimDatabase};

#[derive(Default)]
pub struct Files;

impl Layer for Files {
    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        // Owners 8, 9, 10, 11…: some of them begin like owner 1.
        let owner = client.id() as u32 + 8;
        for round in 0..client.rounds {
            let name = format!("file/{owner}/{round}");
            db.run(|trx, _| {
                let name = name.clone();
                async move {
                    trx.set(name.as_bytes(), b"content");
                    Ok(())
                }
            })
            .await?;
            // Owner 1 leaves now and then.
            let guest = format!("file/1{}", if client.fixed { "/" } else { "" });
            if client.below(100) == 0 {
                db.run(|trx, _| {
                    let guest = guest.clone();
                    async move {
                        trx.clear_range(guest.as_bytes(), &[guest.as_bytes(), b"\xff"].concat());
                        Ok(())
                    }
                })
                .await?;
            }
        }
        Ok(())
    }

    async fn check(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        let owner = client.id() as u32 + 8;
        for round in 0..client.rounds {
            let name = format!("file/{owner}/{round}");
            let found = db
                .run(|trx, _| {
                    let name = name.clone();
                    async move { Ok(trx.get(name.as_bytes(), false).await?.is_some()) }
                })
                .await?;
            if !found {
                return Err(
                    format!("{name} is gone, and owner {owner} has deleted nothing").into(),
                );
            }
        }
        Ok(())
    }
}
