//! Transfers between accounts. The sum is the same for every reader at any time, and every transfer
//! that was acknowledged has happened once: it leaves a receipt, which a client looks for when it
//! does not know what became of its commit.

use super::{number, value};
use crate::harness::{Client, Workload};
use bytes::Bytes;
use shaketable_cluster::checker::ObservedTransaction;
use shaketable_cluster::error::Error;
use shaketable_kernel::{Stream, Time};
use std::cell::Cell;

const BALANCE: u64 = 100;

pub struct Transfers {
    accounts: u64,
    /// How many transfers were acknowledged.
    done: Cell<u64>,
}

impl Transfers {
    async fn work_once(&self, client: &Client) {
        let random = &client.random;
        if random.chance(0.15) {
            return self.audit(client).await;
        }
        let from = random.below(self.accounts);
        let to = (from + 1 + random.below(self.accounts - 1)) % self.accounts;
        let amount = random.range(1, 50_u64);
        let receipt: Bytes = format!("receipt/{:016x}", random.next_u64()).into();
        client
            .transact(async |transaction| {
                if transaction.get(receipt.clone(), false).await?.is_some() {
                    return Ok(());
                }
                let [from, to] = [from, to].map(account);
                let has = number(transaction.get(from.clone(), false).await?.as_ref());
                let other = number(transaction.get(to.clone(), false).await?.as_ref());
                let amount = amount.min(has);
                transaction.set(from, value(has - amount));
                transaction.set(to, value(other + amount));
                transaction.set(receipt.clone(), Bytes::new());
                Ok(())
            })
            .await;
        self.done.set(self.done.get() + 1);
    }

    async fn sum(&self, transaction: &ObservedTransaction) -> Result<u64, Error> {
        let rows = transaction
            .get_all(
                Bytes::from_static(b"account/"),
                Bytes::from_static(b"account0"),
            )
            .await?;
        assert_eq!(rows.len() as u64, self.accounts);
        Ok(rows.iter().map(|row| number(Some(&row.value))).sum())
    }

    async fn audit(&self, client: &Client) {
        let sum = client
            .transact(async |transaction| self.sum(transaction).await)
            .await;
        assert_eq!(sum, self.accounts * BALANCE, "money was made or lost");
    }
}

fn account(index: u64) -> Bytes {
    format!("account/{index:02}").into()
}

impl Workload for Transfers {
    const NAME: &str = "transfers";

    fn new(random: &Stream, _: usize) -> Transfers {
        Transfers {
            accounts: random.range(2, 12),
            done: Cell::new(0),
        }
    }

    async fn set_up(&self, client: &Client) {
        client
            .transact(async |transaction| {
                for index in 0..self.accounts {
                    transaction.set(account(index), value(BALANCE));
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
        self.audit(client).await;
        let (begin, end) = (
            Bytes::from_static(b"receipt/"),
            Bytes::from_static(b"receipt0"),
        );
        let receipts = client
            .transact(async |transaction| transaction.get_all(begin.clone(), end.clone()).await)
            .await;
        assert_eq!(
            receipts.len() as u64,
            self.done.get(),
            "expected a receipt for every transfer"
        );
    }
}
