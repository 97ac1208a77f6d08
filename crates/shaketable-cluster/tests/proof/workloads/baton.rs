//! Clients that wait for one another: a baton goes round, and the clients without it sleep on a
//! watch, without a timeout. If a single watch is forgotten, in a recovery or with its storage
//! server, all clients are stuck.

use super::{number, value};
use crate::harness::{Client, Workload};
use bytes::Bytes;
use shaketable_kernel::{Stream, Time};
use std::cell::Cell;

const BATON: Bytes = Bytes::from_static(b"baton");
/// The baton after the last turn.
const STOP: u64 = u64::MAX;

pub struct Baton {
    clients: u64,
    /// The greatest baton that any client was told it had passed on.
    passed: Cell<u64>,
}

impl Baton {
    /// Sleeps until the baton is not what it was; returns what it is.
    async fn wait_while(&self, client: &Client, was: u64) -> u64 {
        loop {
            let (baton, changed) = client
                .transact(async |transaction| {
                    let baton = number(transaction.get(BATON, false).await?.as_ref());
                    Ok((baton, transaction.watch(BATON)))
                })
                .await;
            if baton != was {
                return baton;
            }
            // A watch may fire without a change.
            changed.await.expect("a watch waits");
        }
    }
}

impl Workload for Baton {
    const NAME: &str = "baton";

    fn new(_: &Stream, clients: usize) -> Baton {
        Baton {
            clients: clients as u64,
            passed: Cell::new(0),
        }
    }

    async fn set_up(&self, _: &Client) {}

    async fn work(&self, client: &Client, end: Time) {
        let mut baton = 0;
        loop {
            if baton == STOP {
                return;
            }
            if baton % self.clients != client.index as u64 {
                baton = self.wait_while(client, baton).await;
                continue;
            }
            let last = client.kernel.now() >= end;
            let next = if last { STOP } else { baton + 1 };
            client
                .transact(async |transaction| {
                    let found = number(transaction.get(BATON, false).await?.as_ref());
                    // After an unknown result the baton may have been passed on already, and have
                    // gone round.
                    if found == baton {
                        transaction.set(BATON, value(next));
                    }
                    Ok(())
                })
                .await;
            self.passed.set(next.max(self.passed.get()));
            let passed = self.passed.get();
            baton = self.wait_while(client, baton).await;
            assert!(baton >= passed, "the baton went back from {passed}");
        }
    }

    async fn check(&self, client: &Client) {
        let baton = client
            .transact(async |transaction| transaction.get(BATON, false).await)
            .await;
        assert_eq!(number(baton.as_ref()), STOP);
        assert_eq!(self.passed.get(), STOP);
    }
}
