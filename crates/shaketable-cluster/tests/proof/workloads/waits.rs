//! Everything a client can wait for, at random, without a time limit of its own: reads of every
//! kind, read versions, locations, sizes, versionstamps, commits, `on_error`, and watches that
//! another client ends.
//!
//! The only check is that each of them ends: the harness allows no more than its patience after the
//! faults have stopped.

use super::value;
use crate::harness::{Client, Workload};
use bytes::Bytes;
use shaketable_cluster::client::{RangeLimits, Transaction};
use shaketable_cluster::error::Error;
use shaketable_cluster::proto::{KeyRange, KeySelector};
use shaketable_kernel::{Stream, Time};
use std::cell::Cell;

/// The chunk size requested, in bytes.
const CHUNK_BYTES: i64 = 100;

pub struct Waits {
    keys: u64,
    /// The clients still waiting for watches. While there are any, the first client writes.
    waiting: Cell<usize>,
}

impl Workload for Waits {
    const NAME: &str = "waits";
    const IS_OBSERVED: bool = false;

    fn new(random: &Stream, clients: usize) -> Waits {
        Waits {
            keys: *random.pick(&[2, 10, 50]),
            waiting: Cell::new(clients - 1),
        }
    }

    async fn set_up(&self, _: &Client) {}

    async fn work(&self, client: &Client, end: Time) {
        client
            .until(end, async || self.wait_for_anything(client).await)
            .await;
        if client.index > 0 {
            self.waiting.set(self.waiting.get() - 1);
            return;
        }
        while self.waiting.get() > 0 {
            for index in 0..self.keys {
                self.overwrite(client, index).await;
            }
            client.kernel.sleep(1.0).await;
        }
    }

    async fn check(&self, _: &Client) {}
}

impl Waits {
    async fn wait_for_anything(&self, client: &Client) {
        let transaction = client.database.create_transaction();
        loop {
            let result = self.attempt(client, &transaction).await;
            let Err(error) = result else { return };
            if transaction.on_error(error).await.is_err() {
                return;
            }
        }
    }

    async fn attempt(&self, client: &Client, transaction: &Transaction) -> Result<(), Error> {
        let random = &client.random;
        let key = |index: u64| Bytes::from(format!("key {index:03}"));
        let any = || key(random.below(self.keys));
        let range = || KeyRange {
            begin: key(0),
            end: key(self.keys),
        };
        let at = |key: Bytes| KeySelector {
            key,
            or_equal: random.chance(0.5),
            offset: random.range(-2, 3_i32),
        };
        let snapshot = random.chance(0.3);
        match random.below(9) {
            0 => transaction.get_read_version().await.map(drop)?,
            1 => transaction.get(any(), snapshot).await.map(drop)?,
            2 => transaction.get_key(at(any()), snapshot).await.map(drop)?,
            3 => transaction
                .get_range(
                    at(key(0)),
                    at(key(self.keys)),
                    RangeLimits::rows(100),
                    snapshot,
                    false,
                )
                .await
                .map(drop)?,
            4 => transaction.get_addresses_for_key(any()).await.map(drop)?,
            5 => transaction
                .get_estimated_range_size_bytes(range())
                .await
                .map(drop)?,
            6 => transaction
                .get_range_split_points(range(), CHUNK_BYTES)
                .await
                .map(drop)?,
            7 => {
                transaction.set(any(), value(random.next_u64()));
                let stamp = transaction.get_versionstamp();
                transaction.commit().await?;
                return stamp.await.map(drop);
            }
            // The first client never sleeps: it ends the watches of the others.
            _ if client.index > 0 => {
                let changed = transaction.watch(any());
                transaction.commit().await?;
                return changed.await;
            }
            _ => {}
        }
        transaction.set(any(), value(random.next_u64()));
        transaction.commit().await
    }

    async fn overwrite(&self, client: &Client, index: u64) {
        let random = client.random.next_u64();
        client
            .transact(async |transaction| {
                transaction.set(Bytes::from(format!("key {index:03}")), value(random));
                Ok(())
            })
            .await;
    }
}
