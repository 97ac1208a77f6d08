//! A queue whose order is the order of commits: a client that puts something in leaves the key to
//! the database (a versionstamp), and a client that takes something out takes the first. Each item
//! is taken out once, and the items of one client come out in the order in which it put them in.

use super::{number, value};
use crate::harness::{Client, Workload};
use bytes::Bytes;
use shaketable_cluster::client::RangeLimits;
use shaketable_cluster::proto::KeySelector;
use shaketable_kernel::{Stream, Time};
use std::cell::{Cell, RefCell};

const SET_VERSIONSTAMPED_KEY: i32 = 14;
const ADD: i32 = 2;

pub struct Queue {
    /// How many items each client has certainly put in.
    put_in: Vec<Cell<u64>>,
    /// The items that have certainly been taken out: the client that put each in, and which of its
    /// items it is.
    taken_out: RefCell<Vec<(u64, u64)>>,
}

/// An item: the client that puts it in, and which of that client's items it is.
fn item(client: usize, count: u64) -> Bytes {
    [(client as u64).to_le_bytes(), count.to_le_bytes()]
        .concat()
        .into()
}

fn parse(item: &Bytes) -> (u64, u64) {
    (
        number(Some(&item.slice(..8))),
        number(Some(&item.slice(8..))),
    )
}

impl Queue {
    async fn work_once(&self, client: &Client) {
        if client.random.chance(0.6) {
            self.put_in(client).await;
        } else {
            self.take_out(client).await;
        }
    }

    async fn put_in(&self, client: &Client) {
        let count = self.put_in[client.index].get();
        let last: Bytes = format!("last/{}", client.index).into();
        // Ten bytes for the stamp, and where they begin.
        let key: Bytes = [&b"queue/"[..], &[0; 10], &6_u32.to_le_bytes()]
            .concat()
            .into();
        client
            .transact(async |transaction| {
                // After an unknown result: has it happened?
                if number(transaction.get(last.clone(), false).await?.as_ref()) > count {
                    return Ok(());
                }
                let item = item(client.index, count);
                transaction.atomic_op(key.clone(), item, SET_VERSIONSTAMPED_KEY);
                transaction.set(last.clone(), value(count + 1));
                Ok(())
            })
            .await;
        self.put_in[client.index].set(count + 1);
    }

    async fn take_out(&self, client: &Client) {
        let at = |key: &'static [u8]| KeySelector {
            key: Bytes::from_static(key),
            or_equal: false,
            offset: 1,
        };
        let receipt: Bytes = format!("taken/{:016x}", client.random.next_u64()).into();
        let taken = client
            .transact(async |transaction| {
                if let Some(item) = transaction.get(receipt.clone(), false).await? {
                    return Ok(Some(item));
                }
                let first = RangeLimits::rows(1);
                let (rows, _) = transaction
                    .get_range(at(b"queue/"), at(b"queue0"), first, Some(1), false, false)
                    .await?;
                let Some(first) = rows.first() else {
                    return Ok(None);
                };
                transaction.clear(first.key.clone());
                transaction.set(receipt.clone(), first.value.clone());
                transaction.atomic_op(Bytes::from_static(b"taken"), value(1), ADD);
                Ok(Some(first.value.clone()))
            })
            .await;
        self.taken_out
            .borrow_mut()
            .extend(taken.as_ref().map(parse));
    }
}

impl Workload for Queue {
    const NAME: &str = "queue";

    fn new(_: &Stream, clients: usize) -> Queue {
        Queue {
            put_in: vec![Cell::new(0); clients],
            taken_out: RefCell::default(),
        }
    }

    async fn set_up(&self, _: &Client) {}

    async fn work(&self, client: &Client, end: Time) {
        client
            .until(end, async || self.work_once(client).await)
            .await;
    }

    async fn check(&self, client: &Client) {
        let (begin, end) = (Bytes::from_static(b"queue/"), Bytes::from_static(b"queue0"));
        let (counted, left) = client
            .transact(async |transaction| {
                let counted = transaction.get(Bytes::from_static(b"taken"), false).await?;
                let left = transaction.get_all(begin.clone(), end.clone()).await?;
                Ok((number(counted.as_ref()), left))
            })
            .await;
        let taken = self.taken_out.take();
        assert_eq!(counted, taken.len() as u64, "something was taken out twice");
        for (index, put_in) in self.put_in.iter().enumerate() {
            let of = |items: &[(u64, u64)]| -> Vec<u64> {
                let own = items.iter().filter(|(client, _)| *client == index as u64);
                own.map(|(_, count)| *count).collect()
            };
            let left: Vec<_> = left.iter().map(|row| parse(&row.value)).collect();
            // Clients learn what they have taken out in any order; what is left in the queue has
            // one order.
            let mut all = of(&taken);
            all.sort_unstable();
            all.extend(of(&left));
            let expected: Vec<u64> = (0..put_in.get()).collect();
            assert_eq!(all, expected, "the items of client {index}");
        }
    }
}
