//! A job that was popped is lost after an unknown result.
//!
//! A worker clears the first job of a queue and then does it. If the result of the commit is
//! unknown and it had committed, the retry finds another job first, and the one that is gone is
//! never done. The fix writes down which job was taken, under a key that the worker knows before it
//! looks.

use crate::canary::{Client, Layer, read_all};
use shaketable::foundationdb::RangeOption;
use shaketable::foundationdb::tuple::Subspace;
use shaketable::{PhaseError, PhaseResult, SimDatabase};

#[derive(Default)]
pub struct Worker;

impl Layer for Worker {
    async fn setup(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        if client.id() == 0 {
            db.run(|trx, _| async move {
                for job in 0..jobs_of(client) {
                    trx.set(&queue().pack(&job), format!("job {job}").as_bytes());
                }
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        let mut turn = 0;
        while let Some(job) = pop(client, db, turn).await? {
            turn += 1;
            db.run(|trx, _| {
                let key = done().pack(&job);
                async move {
                    trx.set(&key, b"");
                    Ok(())
                }
            })
            .await?;
        }
        Ok(())
    }

    async fn check(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        let rows = db
            .run(|trx, _| async move { read_all(&trx, &done()).await })
            .await?;
        let (given, done) = (jobs_of(client), rows.len());
        if done != given as usize {
            return Err(format!("{given} jobs were given, {done} were done").into());
        }
        Ok(())
    }
}

/// Takes the first job out of the queue, if there is one left.
async fn pop(client: &Client, db: &SimDatabase, turn: u32) -> Result<Option<String>, PhaseError> {
    let taken = Subspace::all().pack(&("taken", client.id(), turn));
    let job = db
        .run(|trx, _| {
            let taken = taken.clone();
            async move {
                if client.fixed
                    && let Some(job) = trx.get(&taken, false).await?
                {
                    return Ok(Some(job.to_vec()));
                }
                let head = RangeOption {
                    limit: Some(1),
                    ..RangeOption::from(&queue())
                };
                let rows = trx.get_range(&head, 1, false).await?;
                let Some(row) = rows.first() else {
                    return Ok(None);
                };
                trx.clear(row.key());
                if client.fixed {
                    trx.set(&taken, row.value());
                }
                Ok(Some(row.value().to_vec()))
            }
        })
        .await?;
    Ok(job.map(|job| String::from_utf8_lossy(&job).into_owned()))
}

fn jobs_of(client: &Client) -> u32 {
    4 * client.rounds
}

fn queue() -> Subspace {
    Subspace::all().subspace(&"queue")
}

fn done() -> Subspace {
    Subspace::all().subspace(&"done")
}
