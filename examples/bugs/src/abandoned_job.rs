//! A job is claimed and never done: its worker died.
//!
//! A worker moves a job from the queue to its claims, works on it, and marks it as done. A worker
//! that dies while it works comes back and takes the next job from the queue; the one that it had
//! claimed is in neither place. The fix begins each life by finishing what earlier lives claimed.
//!
//! That alone is not enough: a claim whose commit was in flight when the worker died may land after
//! the next life has looked. So each life has a number, which a claim reads and the next life
//! changes as it looks: then a late claim conflicts.

use crate::canary::{Client, Layer, number, read_all};
use shaketable::foundationdb::tuple::Subspace;
use shaketable::foundationdb::{FdbBindingError, RangeOption};
use shaketable::{PhaseResult, SimDatabase, sleep};
use std::time::Duration;

#[derive(Default)]
pub struct Worker;

/// A job that is being worked on, and the key that says so.
struct Claim {
    key: Vec<u8>,
    job: u32,
}

impl Layer for Worker {
    async fn setup(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        if client.id() == 0 {
            db.run(|trx, _| async move {
                for job in 0..jobs(client) {
                    trx.set(&queue().pack(&job), b"");
                }
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        let life = client.below(u32::MAX);
        for round in 0.. {
            let key = claims(client).pack(&(life, round));
            let Some(job) = claim(client, db, &key).await? else {
                break;
            };
            work(client, db, &Claim { key, job }).await?;
        }
        Ok(())
    }

    async fn recover(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        if client.fixed {
            for claim in begin_life(client, db).await? {
                work(client, db, &claim).await?;
            }
        }
        self.start(client, db).await
    }

    async fn check(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        let done = db
            .run(|trx, _| async move { Ok(read_all(&trx, &done()).await?.len() as u32) })
            .await?;
        let expected = jobs(client);
        if done != expected {
            return Err(format!("there were {expected} jobs, {done} are done").into());
        }
        Ok(())
    }
}

/// Moves the first job of the queue to a claim; `None` if there is none.
async fn claim(
    client: &Client,
    db: &SimDatabase,
    claim: &[u8],
) -> Result<Option<u32>, FdbBindingError> {
    db.run(|trx, _| async move {
        if client.fixed {
            number(&trx, &lives(client)).await?;
        }
        // An earlier attempt of unknown result may have landed.
        if let Some(job) = trx.get(claim, false).await? {
            return Ok(Some(unpack(&Subspace::all(), &job)?));
        }
        let head = RangeOption {
            limit: Some(1),
            ..RangeOption::from(&queue())
        };
        let rows = trx.get_range(&head, 1, false).await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let job = unpack(&queue(), row.key())?;
        trx.clear(row.key());
        trx.set(claim, &Subspace::all().pack(&job));
        Ok(Some(job))
    })
    .await
}

/// Does a job that was claimed.
async fn work(client: &Client, db: &SimDatabase, claim: &Claim) -> Result<(), FdbBindingError> {
    sleep(Duration::from_millis(u64::from(client.below(100)))).await;
    db.run(|trx, _| async move {
        trx.clear(&claim.key);
        trx.set(&done().pack(&claim.job), b"");
        Ok(())
    })
    .await
}

/// Changes the number of this worker's life, and returns what earlier lives have claimed.
async fn begin_life(client: &Client, db: &SimDatabase) -> Result<Vec<Claim>, FdbBindingError> {
    db.run(|trx, _| async move {
        let before = number(&trx, &lives(client)).await?;
        trx.set(&lives(client), &(before + 1).to_le_bytes());
        let rows = read_all(&trx, &claims(client)).await?;
        let claims = rows.into_iter().map(|(key, job)| {
            let job = unpack(&Subspace::all(), &job)?;
            Ok(Claim { key, job })
        });
        claims.collect()
    })
    .await
}

fn jobs(client: &Client) -> u32 {
    4 * client.rounds
}

fn unpack(space: &Subspace, packed: &[u8]) -> Result<u32, FdbBindingError> {
    space.unpack(packed).map_err(FdbBindingError::PackError)
}

fn queue() -> Subspace {
    Subspace::all().subspace(&"queue")
}

fn claims(client: &Client) -> Subspace {
    Subspace::all().subspace(&("claims", client.id()))
}

fn done() -> Subspace {
    Subspace::all().subspace(&"done")
}

fn lives(client: &Client) -> Vec<u8> {
    Subspace::all().pack(&("lives", client.id()))
}
