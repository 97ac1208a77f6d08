//! Unique names with an index. A client claims a free name, under its own number, or renames
//! itself, or lets the name go; names and numbers are two indexes that one transaction changes
//! together. No name ever has two owners, and what a client was told it owns, it owns.

use crate::harness::{Client, Workload};
use bytes::Bytes;
use shaketable_cluster::proto::KeyValue;
use shaketable_kernel::{Stream, Time};
use std::cell::RefCell;
use std::collections::BTreeMap;

pub struct Claims {
    names: u64,
    /// What each client was last told it owns.
    owned: RefCell<BTreeMap<usize, Option<Bytes>>>,
}

fn by_name(name: &[u8]) -> Bytes {
    [b"name/", name].concat().into()
}

fn by_owner(client: usize) -> Bytes {
    format!("owner/{client:02}").into()
}

impl Claims {
    async fn work_once(&self, client: &Client) {
        let random = &client.random;
        let wish = random
            .chance(0.8)
            .then(|| Bytes::from(format!("{:02}", random.below(self.names))));
        let own = by_owner(client.index);
        let known = self.owned.borrow().get(&client.index).cloned().flatten();
        let owned = client
            .transact(async |transaction| {
                let old = transaction.get(own.clone(), false).await?;
                // After an unknown result it may have its wish already; no other client can have
                // changed it.
                assert!(old == known || old == wish, "{old:?} instead of {known:?}");
                if let Some(wish) = &wish {
                    let owner = transaction.get(by_name(wish), false).await?;
                    if owner.is_some_and(|owner| owner != own) {
                        return Ok(old);
                    }
                }
                if let Some(old) = &old {
                    transaction.clear(by_name(old));
                    transaction.clear(own.clone());
                }
                if let Some(wish) = &wish {
                    transaction.set(by_name(wish), own.clone());
                    transaction.set(own.clone(), wish.clone());
                }
                Ok(wish.clone())
            })
            .await;
        self.owned.borrow_mut().insert(client.index, owned);
    }
}

impl Workload for Claims {
    const NAME: &str = "claims";

    fn new(random: &Stream, clients: usize) -> Claims {
        Claims {
            names: clients as u64 + random.below(4),
            owned: RefCell::default(),
        }
    }

    async fn set_up(&self, _: &Client) {}

    async fn work(&self, client: &Client, end: Time) {
        client
            .until(end, async || self.work_once(client).await)
            .await;
    }

    async fn check(&self, client: &Client) {
        let [begin, middle, end] = [&b"name/"[..], b"name0", b"owner0"].map(Bytes::from_static);
        let (names, owners) = client
            .transact(async |transaction| {
                let names = transaction.get_all(begin.clone(), middle.clone()).await?;
                let owners = transaction.get_all(middle.clone(), end.clone()).await?;
                Ok((names, owners))
            })
            .await;
        let turned = |row: &KeyValue| (row.value.clone(), row.key.slice(b"name/".len()..));
        let from_names: BTreeMap<Bytes, Bytes> = names.iter().map(turned).collect();
        let plain = |row: &KeyValue| (row.key.clone(), row.value.clone());
        let from_owners: BTreeMap<Bytes, Bytes> = owners.iter().map(plain).collect();
        assert_eq!(from_names.len(), names.len(), "an owner has two names");
        assert_eq!(from_names, from_owners, "the indexes do not agree");
        for (client, owned) in self.owned.take() {
            assert_eq!(from_owners.get(&by_owner(client)), owned.as_ref());
        }
    }
}
