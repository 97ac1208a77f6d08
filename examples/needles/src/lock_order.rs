//! Clients that wait for each other in a circle.
//!
//! A client takes one lock, finds out which other one it needs, and takes that too. Before it waits
//! it looks for whom the holder waits, and so on, and steps back if that leads to itself: circles
//! of up to five are noticed. It looks no further, so a circle of six is not.
//!
//! A line of clients that wait becomes a circle if its head needs the lock of the last one. So the
//! mark says how long the line is, but only while the head does not know what it needs: a head that
//! has all it needs, or a lock that is free again, ends the line, however long it is. And it is set
//! where the line is read: when the commit is answered, the head has often drawn already.

use crate::key;
use shaketable::foundationdb::tuple::{Subspace, unpack};
use shaketable::foundationdb::{FdbBindingError, RetryableTransaction};
use shaketable::{PhaseResult, SimDatabase, Workload, WorkloadContext, closest, sleep};
use std::time::Duration;

/// A client that has waited more often than this waits without end.
const WAITS_MAX: u32 = 300;

/// Who holds a lock, whether they hold all they need, and which other one they wait for.
type Held = (i32, bool, Option<u32>);

pub struct Locks {
    context: WorkloadContext,
    locks: u32,
    rounds: u32,
    /// How many holders a client looks at before it waits.
    depth: u32,
}

enum Second {
    Taken,
    /// The holder waits for the first, or for one whose holder does.
    StepBack,
    Wait,
}

impl Locks {
    pub fn new(context: WorkloadContext) -> Locks {
        Locks {
            locks: context.get_option("locks").unwrap_or(12),
            rounds: context.get_option("rounds").unwrap_or(6),
            depth: context.get_option("depth").unwrap_or(4),
            context,
        }
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
                Some((holder, ..)) => Ok(holder == me),
                None => {
                    hold(&trx, lock, (me, false, None));
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
        let depth = self.depth;
        // The shortest circle that is not noticed.
        let circle = depth + 2;
        db.run(|trx, _| async move {
            let mut head = match held(&trx, lock).await? {
                Some((holder, ..)) if holder == me => return Ok(Second::Taken),
                Some(head) => Some(head),
                None => {
                    hold(&trx, first, (me, true, None));
                    hold(&trx, lock, (me, true, None));
                    return Ok(Second::Taken);
                }
            };
            // The clients that wait in a line, this one included.
            let mut waiting = 1;
            while let Some((.., Some(lock))) = head
                && waiting < circle
            {
                if lock == first && waiting <= depth {
                    return Ok(Second::StepBack);
                }
                waiting += 1;
                head = held(&trx, lock).await?;
            }
            hold(&trx, first, (me, false, Some(lock)));
            if matches!(head, Some((_, false, None))) {
                closest!(circle - waiting, "a circle that is too long to be noticed");
            }
            Ok(Second::Wait)
        })
        .await
    }

    async fn release(&self, db: &SimDatabase, locks: &[u32]) -> Result<(), FdbBindingError> {
        let me = self.context.client_id();
        db.run(|trx, _| async move {
            for lock in locks {
                if held(&trx, *lock)
                    .await?
                    .is_some_and(|(holder, ..)| holder == me)
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
        for _ in 0..self.rounds {
            let first = self.context.rnd() % self.locks;
            while !self.take(&db, first).await? {
                self.pause(200).await;
            }
            // What it finds behind the first lock says which other one it needs.
            self.pause(200).await;
            let second = (first + 1 + self.context.rnd() % (self.locks - 1)) % self.locks;
            let mut waits = 0;
            loop {
                match self.second(&db, first, second).await? {
                    Second::Taken => {
                        self.pause(50).await;
                        break;
                    }
                    Second::StepBack => break,
                    Second::Wait => waits += 1,
                }
                if waits > WAITS_MAX {
                    return Err("waited for a lock without end".into());
                }
                self.pause(100).await;
            }
            self.release(&db, &[first, second]).await?;
        }
        Ok(())
    }
}
