//! Keys whose few values come and go, and clients that sleep on watches until the last value comes.
//!
//! [`super::Baton`] never writes the same value twice. Here a value returns all the time, so that a
//! storage server may compare a watch with a write that a recovery undoes: if the rollback does not
//! wake the watch, it waits for a change that has already happened.

use super::{number, value};
use crate::harness::{Client, Workload};
use bytes::Bytes;
use shaketable_kernel::{Stream, Time};

/// Counts how often a client woke up.
const WOKEN: Bytes = Bytes::from_static(b"woken");
/// The value that ends the waiting.
const STOP: u64 = u64::MAX;
/// The longest pause between two writes, in simulated seconds.
const PAUSE_SECONDS_MAX: f64 = 0.4;

pub struct Signals {
    keys: u64,
    values: u64,
}

impl Workload for Signals {
    const NAME: &str = "signals";

    fn new(random: &Stream, _: usize) -> Signals {
        Signals {
            keys: random.range(1, 4_u64),
            values: random.range(2, 4_u64),
        }
    }

    async fn set_up(&self, _: &Client) {}

    async fn work(&self, client: &Client, end: Time) {
        if client.index == 0 {
            return self.write(client, end).await;
        }
        let key = signal(client.random.below(self.keys));
        loop {
            let (found, changed) = client
                .transact(async |transaction| {
                    let found = transaction.get(key.clone(), false).await?;
                    Ok((number(found.as_ref()), transaction.watch(key.clone())))
                })
                .await;
            if found == STOP {
                return;
            }
            // A watch may fire without a change.
            changed.await.expect("a watch waits");
            // Clients that wake up together conflict with each other.
            client
                .transact(async |transaction| {
                    let woken = number(transaction.get(WOKEN, false).await?.as_ref());
                    transaction.set(WOKEN, value(woken + 1));
                    Ok(())
                })
                .await;
        }
    }

    async fn check(&self, _: &Client) {}
}

impl Signals {
    async fn write(&self, client: &Client, end: Time) {
        while client.kernel.now() < end {
            let key = signal(client.random.below(self.keys));
            let new = client.random.below(self.values);
            set(client, key, new).await;
            let pause = client.random.uniform() * PAUSE_SECONDS_MAX;
            client.kernel.sleep(pause).await;
        }
        for index in 0..self.keys {
            set(client, signal(index), STOP).await;
        }
    }
}

async fn set(client: &Client, key: Bytes, new: u64) {
    client
        .transact(async |transaction| {
            transaction.set(key.clone(), value(new));
            Ok(())
        })
        .await;
}

fn signal(index: u64) -> Bytes {
    Bytes::from(format!("signal {index}"))
}
