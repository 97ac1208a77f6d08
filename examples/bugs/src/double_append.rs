//! A line is appended again after an unknown result.
//!
//! The diary is one value: read, add a line, write. There is no conflict to fear, because the read
//! is serializable. But after an unknown result (1021) the next attempt reads the line that the
//! first one wrote, and adds it again. The fix looks whether the line is there.

use crate::canary::{Client, Layer};
use shaketable::foundationdb::tuple::Subspace;
use shaketable::{PhaseResult, SimDatabase};

#[derive(Default)]
pub struct Diary;

impl Layer for Diary {
    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        for round in 0..client.rounds {
            let line = format!("{}.{round}\n", client.id());
            db.run(|trx, _| {
                let line = line.clone();
                async move {
                    let diary = trx.get(&key(), false).await?;
                    let diary = diary.as_deref().map_or("".into(), String::from_utf8_lossy);
                    let there = diary.split_inclusive('\n').any(|known| known == line);
                    if !(client.fixed && there) {
                        trx.set(&key(), format!("{diary}{line}").as_bytes());
                    }
                    Ok(())
                }
            })
            .await?;
        }
        Ok(())
    }

    async fn check(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        let diary =
            db.run(|trx, _| async move {
                Ok(trx.get(&key(), false).await?.map(|value| value.to_vec()))
            })
            .await?;
        let lines = diary.map_or(0, |diary| diary.split(|byte| *byte == b'\n').count() - 1);
        let expected = client.rounds as usize * client.count() as usize;
        if lines != expected {
            return Err(format!("{expected} lines were written, the diary has {lines}").into());
        }
        Ok(())
    }
}

fn key() -> Vec<u8> {
    Subspace::all().pack(&"diary")
}
