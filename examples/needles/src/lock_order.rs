//! Clients that wait for each other in a circle.
//!
//! A client takes one lock and then another, in any order. It notices when the holder of the second
//! waits for its first, and steps back. Nothing notices a circle of three.

use crate::key;
use shaketable::foundationdb::tuple::{Subspace, unpack};
use shaketable::foundationdb::{FdbBindingError, RetryableTransaction};
use shaketable::{PhaseResult, SimDatabase, Workload, WorkloadContext, closest, sleep};
use std::time::Duration;

const LOCKS: u32 = 14;
const ROUNDS: u32 = 12;
/// A client that has waited so often waits for ever.
const WAITS_MAX: u32 = 300;

/// Who holds a lock, and which other one they wait for.
type Held = (i32, Option<u32>);

pub struct Locks {
    context: WorkloadContext,
}

enum Second {
    Taken,
    /// The holder waits for the first: a circle of two.
    StepBack,
    Wait,
}

impl Locks {
    pub fn new(context: WorkloadContext) -> Locks {
        Locks { context }
    }

    async fn pause(&self, millis: u32) {
        let millis = u64::from(self.context.rnd() % millis);
        sleep(Duration::from_millis(millis)).await;
    }

    /// Takes a lock if it is free.
    async fn take(&self, db: &SimDatabase, lock: u32) -> Result<bool, FdbBindingError> {
        let me = self.context.client_id();
        db.run(|trx, _| async move {
            match held(&trx, lock).await? {
                Some((holder, _)) => Ok(holder == me),
                None => {
                    hold(&trx, lock, (me, None));
                    Ok(true)
                }
            }
        })
        .await
    }

    /// Takes a second lock while the first is held, or notes that it is waited for.
    async fn second(
        &self,
        db: &SimDatabase,
        first: u32,
        lock: u32,
    ) -> Result<Second, FdbBindingError> {
        let me = self.context.client_id();
        let (second, chain) = db
            .run(|trx, _| async move {
                Ok(match held(&trx, lock).await? {
                    None => {
                        hold(&trx, lock, (me, None));
                        (Second::Taken, 0)
                    }
                    Some((holder, _)) if holder == me => (Second::Taken, 0),
                    Some((_, Some(wanted))) if wanted == first => (Second::StepBack, 0),
                    Some((_, mut next)) => {
                        hold(&trx, first, (me, Some(lock)));
                        let mut chain = 1;
                        while let (Some(lock), true) = (next, chain < 3) {
                            chain += 1;
                            next = match held(&trx, lock).await? {
                                Some((_, next)) if lock != first => next,
                                Some(_) => return Ok((Second::Wait, 3)),
                                None => None,
                            };
                        }
                        // A chain that is no circle is never quite there.
                        (Second::Wait, chain.min(2))
                    }
                })
            })
            .await?;
        closest!(3 - chain, "a circle of three that wait for each other");
        Ok(second)
    }

    async fn release(&self, db: &SimDatabase, locks: &[u32]) -> Result<(), FdbBindingError> {
        let me = self.context.client_id();
        db.run(|trx, _| async move {
            for lock in locks {
                if held(&trx, *lock)
                    .await?
                    .is_some_and(|(holder, _)| holder == me)
                {
                    trx.clear(&key(&("lock", *lock)));
                }
            }
            Ok(())
        })
        .await
    }
}

async fn held(trx: &RetryableTransaction, lock: u32) -> Result<Option<Held>, FdbBindingError> {
    match trx.get(&key(&("lock", lock)), false).await? {
        Some(value) => {
            let held: Held = unpack(&value).map_err(FdbBindingError::PackError)?;
            Ok(Some(held))
        }
        None => Ok(None),
    }
}

fn hold(trx: &RetryableTransaction, lock: u32, held: Held) {
    trx.set(&key(&("lock", lock)), &Subspace::all().pack(&held));
}

impl Workload for Locks {
    async fn start(&mut self, db: SimDatabase) -> PhaseResult {
        for _ in 0..ROUNDS {
            let first = self.context.rnd() % LOCKS;
            let second = (first + 1 + self.context.rnd() % (LOCKS - 1)) % LOCKS;
            while !self.take(&db, first).await? {
                self.pause(200).await;
            }
            let mut waits = 0;
            loop {
                self.pause(100).await;
                match self.second(&db, first, second).await? {
                    Second::Taken => {
                        self.pause(50).await;
                        break;
                    }
                    Second::StepBack => break,
                    Second::Wait => waits += 1,
                }
                if waits > WAITS_MAX {
                    return Err("waited for a lock for ever".into());
                }
            }
            self.release(&db, &[first, second]).await?;
        }
        Ok(())
    }
}
