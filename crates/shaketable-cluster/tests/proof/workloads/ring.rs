//! FoundationDB's own Cycle: keys point to one another in a ring, and each transaction takes a node
//! out and puts it back one place further on. Two transactions that interfere without a conflict
//! leave something that is not a ring.

use super::{number, value};
use crate::harness::{Client, Workload};
use bytes::Bytes;
use shaketable_cluster::checker::ObservedTransaction;
use shaketable_cluster::error::Error;
use shaketable_kernel::{Stream, Time};

pub struct Ring {
    nodes: u64,
}

fn node(index: u64) -> Bytes {
    format!("node/{index:03}").into()
}

async fn next(transaction: &ObservedTransaction, index: u64) -> Result<u64, Error> {
    let value = transaction.get(node(index), false).await?;
    assert!(value.is_some(), "node {index} is gone");
    Ok(number(value.as_ref()))
}

impl Ring {
    async fn work_once(&self, client: &Client) {
        let first = client.random.below(self.nodes);
        client
            .transact(async |transaction| {
                let second = next(transaction, first).await?;
                let third = next(transaction, second).await?;
                let fourth = next(transaction, third).await?;
                transaction.set(node(first), value(third));
                transaction.set(node(second), value(fourth));
                transaction.set(node(third), value(second));
                Ok(())
            })
            .await;
    }
}

impl Workload for Ring {
    const NAME: &str = "ring";

    fn new(random: &Stream, _: usize) -> Ring {
        Ring {
            nodes: *random.pick(&[5, 10, 40]),
        }
    }

    async fn set_up(&self, client: &Client) {
        client
            .transact(async |transaction| {
                for index in 0..self.nodes {
                    transaction.set(node(index), value((index + 1) % self.nodes));
                }
                Ok(())
            })
            .await;
    }

    async fn work(&self, client: &Client, end: Time) {
        client
            .until(end, async || self.work_once(client).await)
            .await;
    }

    async fn check(&self, client: &Client) {
        let (begin, end) = (Bytes::from_static(b"node/"), Bytes::from_static(b"node0"));
        let rows = client
            .transact(async |transaction| transaction.get_all(begin.clone(), end.clone()).await)
            .await;
        assert_eq!(rows.len() as u64, self.nodes);
        let (mut at, mut steps) = (0, 0);
        loop {
            at = number(Some(&rows[at as usize].value));
            steps += 1;
            if at == 0 || steps > self.nodes {
                break;
            }
        }
        assert_eq!(steps, self.nodes, "it is no ring any more");
    }
}
