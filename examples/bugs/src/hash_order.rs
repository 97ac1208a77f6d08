//! The order of a `HashMap` becomes part of what is stored.
//!
//! A document is a map of fields, stored as bytes. Whether it changed is decided by comparing
//! bytes, and the bytes follow the map's order, which is another one in every map. Equal documents
//! look different. The fix stores the fields in their own order.

use crate::canary::{Client, Layer};
use shaketable::foundationdb::tuple::Subspace;
use shaketable::{PhaseResult, SimDatabase};
use std::collections::{BTreeMap, HashMap};

#[derive(Default)]
pub struct Document;

impl Layer for Document {
    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        for _ in 0..client.rounds {
            let bytes = encode(client.fixed);
            let changed = db
                .run(|trx, _| {
                    let bytes = bytes.clone();
                    async move {
                        let stored = trx.get(&key(), false).await?;
                        trx.set(&key(), &bytes);
                        Ok(stored.is_some_and(|stored| stored[..] != bytes[..]))
                    }
                })
                .await?;
            if changed {
                return Err("the document changed, although everybody writes the same one".into());
            }
        }
        Ok(())
    }

    async fn check(&mut self, _client: &Client, _db: &SimDatabase) -> PhaseResult {
        Ok(())
    }
}

/// The same three fields, always.
fn encode(ordered: bool) -> Vec<u8> {
    let fields = [
        ("name", "shaketable"),
        ("kind", "machine"),
        ("colour", "grey"),
    ];
    if ordered {
        return pack(BTreeMap::from(fields));
    }
    #[expect(clippy::disallowed_methods, reason = "this is the bug")]
    let unordered = HashMap::from(fields).drain().collect::<Vec<_>>();
    pack(unordered)
}

fn pack<'a>(fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<u8> {
    let fields: Vec<_> = fields.into_iter().collect();
    Subspace::all().pack(&fields)
}

fn key() -> Vec<u8> {
    Subspace::all().pack(&"document")
}
