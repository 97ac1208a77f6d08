//! Reads: which layer serves them, and what they add to the conflict ranges.
//!
//! Ordinarily a read goes through the overlay of the transaction's own writes. A snapshot read with
//! snapshot read-your-writes disabled sees the snapshot cache alone. With read-your-writes disabled
//! altogether a read goes to the database, and its conflict range takes no account of writes.
//!
//! The conflict range is computed from the writes as they were when the read began, and added when
//! it ends.
//!
//! Here are the calls. `single` reads one key, `ranges` plays a range read to its end; a selector
//! is resolved by a range read of one row.

mod ranges;
mod single;

use super::{Inner, Transaction};
use crate::client::conflicts::{range_of_forward_read, range_of_reverse_read, range_of_selector};
use crate::client::range_read::{RangeRead, RangeResult};
use crate::client::write_map::WriteMap;
use crate::client::{Pending, RangeLimits, special_keys};
use crate::data::key::{ALL_END, METADATA_VERSION, max_key_bytes};
use crate::error::Error;
use crate::proto::{Key, KeyRange, KeySelector, KeyValues, MappedKeyValues, Value};
use bytes::Bytes;
use ranges::{cut, resolved_key, selector_read};
use std::rc::Rc;

/// The layer that serves a read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layer {
    Overlay,
    Snapshot,
    Database,
}

impl Transaction {
    /// The value of a key.
    pub fn get(&self, key: Key, snapshot: bool) -> Pending<Option<Value>> {
        let inner = self.inner();
        inner.operation(|| {
            if special_keys::answers_get(inner.context.api_version, &key) {
                let this = inner.clone();
                return Ok(inner.start(move || async move { special_keys::get(&*this, key).await }));
            }
            inner.check_used_during_commit()?;
            inner.check_broken()?;
            if key >= inner.state().max_read_key() && key != METADATA_VERSION {
                return Err(Error::KEY_OUTSIDE_LEGAL_RANGE);
            }
            if key.len() > max_key_bytes(&key) {
                return Ok(Pending::ready(Ok(None)));
            }
            Ok(match inner.begin_get(key, snapshot) {
                Ok(result) => inner.finish_read(result),
                Err(get) => {
                    let this = inner.clone();
                    inner.start_read(move || async move { this.finish_get(&get).await })
                }
            })
        })
    }

    /// The key a selector resolves to.
    pub fn get_key(&self, selector: KeySelector, snapshot: bool) -> Pending<Key> {
        let inner = self.inner();
        let selector = cut(selector);
        inner.operation(|| {
            inner.check_used_during_commit()?;
            inner.check_broken()?;
            let max_key = inner.state().max_read_key();
            if selector.key > max_key {
                return Err(Error::KEY_OUTSIDE_LEGAL_RANGE);
            }
            let layer = inner.layer(snapshot);
            if layer == Layer::Database {
                let this = inner.clone();
                return Ok(inner.start_read(move || async move {
                    let version = this.read_version().await?;
                    let resolved = this
                        .context
                        .resolve_selector(selector.clone(), version)
                        .await?;
                    if !snapshot {
                        this.add_native_conflict(range_of_selector(&selector, &resolved));
                    }
                    Ok(resolved.min(max_key))
                }));
            }
            let writes = inner.writes_for(layer);
            let mut read = selector_read(selector.clone().normalised(), max_key);
            let first = inner.advance(&mut read, &writes);
            let finish = move |this: &Inner, result: RangeResult, writes: &WriteMap| {
                let resolved = resolved_key(&selector, result, &this.state().max_read_key());
                if !snapshot {
                    let (begin, end) = range_of_selector(&selector, &resolved);
                    this.state_mut()
                        .read_conflicts
                        .add_range(begin, end, writes)?;
                }
                Ok(resolved)
            };
            Ok(inner.run(read, writes, first, finish))
        })
    }

    /// The rows between two selectors. [`RangeLimits::from_parameters`] makes limits from the C
    /// parameters.
    pub fn get_range(
        &self,
        begin: KeySelector,
        end: KeySelector,
        limits: RangeLimits,
        snapshot: bool,
        reverse: bool,
    ) -> Pending<KeyValues> {
        let inner = self.inner();
        inner.operation(|| {
            if special_keys::answers_get_range(inner.context.api_version, &begin, &end) {
                let this = inner.clone();
                return Ok(inner.start(move || async move {
                    special_keys::get_range(&*this, begin, end, limits, reverse).await
                }));
            }
            let Some((begin, end)) = inner.check_range(begin, end, &limits)? else {
                return Ok(Pending::ready(Ok(KeyValues::default())));
            };
            let max_key = inner.state().max_read_key();
            let layer = inner.layer(snapshot);
            if layer == Layer::Database {
                let this = inner.clone();
                return Ok(inner.start_read(move || async move {
                    this.read_through(begin, end, limits, snapshot, reverse, max_key)
                        .await
                }));
            }
            let writes = inner.writes_for(layer);
            let mut read =
                RangeRead::new(begin.clone(), end.clone(), limits, reverse, max_key.clone());
            let first = inner.advance(&mut read, &writes);
            let finish = move |this: &Inner, result: RangeResult, writes: &WriteMap| {
                if !snapshot {
                    let range = if reverse {
                        range_of_reverse_read
                    } else {
                        range_of_forward_read
                    };
                    let (begin, end) = range(&begin, &end, &result, &max_key);
                    this.state_mut()
                        .read_conflicts
                        .add_range(begin, end, writes)?;
                }
                Ok(KeyValues {
                    rows: result.rows,
                    more: result.more,
                })
            };
            Ok(inner.run(read, writes, first, finish))
        })
    }

    /// The rows between two selectors, each with the range that `mapper` makes of it.
    pub fn get_mapped_range(
        &self,
        begin: KeySelector,
        end: KeySelector,
        mapper: Bytes,
        limits: RangeLimits,
        snapshot: bool,
        reverse: bool,
    ) -> Pending<MappedKeyValues> {
        let inner = self.inner();
        inner.operation(|| {
            if special_keys::answers_get_range(inner.context.api_version, &begin, &end) {
                return Err(Error::CLIENT_INVALID_OPERATION);
            }
            let Some((begin, end)) = inner.check_range(begin, end, &limits)? else {
                return Ok(Pending::ready(Ok(MappedKeyValues::default())));
            };
            if snapshot || inner.state().options.read_your_writes_disabled {
                return Err(Error::UNSUPPORTED_OPERATION);
            }
            let this = inner.clone();
            // A commit does not wait for this read, unlike others.
            Ok(inner.start(move || async move {
                this.read_mapped(begin, end, mapper, limits, reverse).await
            }))
        })
    }

    /// The addresses of the storage servers that hold a key.
    pub fn get_addresses_for_key(&self, key: Key) -> Pending<Vec<Rc<str>>> {
        let inner = self.inner();
        inner.operation(|| {
            inner.check_used_during_commit()?;
            inner.check_broken()?;
            let this = inner.clone();
            Ok(inner.start_read(move || async move {
                this.read_version().await?;
                if key >= ALL_END {
                    return Ok(Vec::new());
                }
                let shard = this.context.locate(&key, false).await?;
                let include_port = this.state().options.include_port;
                let addresses = shard.servers.iter().map(|server| {
                    let address = server.address;
                    Rc::from(match include_port {
                        true => address.to_string(),
                        false => address.ip.to_string(),
                    })
                });
                Ok(addresses.collect())
            }))
        })
    }

    /// The sampled size of a range. The caller has checked that it is not inverted.
    pub fn get_estimated_range_size_bytes(&self, range: KeyRange) -> Pending<i64> {
        let inner = self.inner();
        inner.operation(|| {
            inner.check_used_during_commit()?;
            inner.check_broken()?;
            let this = inner.clone();
            Ok(inner.start(move || async move {
                this.check_tenant()?;
                this.context.estimate_bytes(range).await
            }))
        })
    }

    /// Keys that cut a range into chunks, including its ends. The caller has checked that it is not
    /// inverted.
    pub fn get_range_split_points(&self, range: KeyRange, chunk_bytes: i64) -> Pending<Vec<Key>> {
        let inner = self.inner();
        inner.operation(|| {
            inner.check_used_during_commit()?;
            inner.check_broken()?;
            let max_key = inner.state().max_read_key();
            if range.begin > max_key || range.end > max_key {
                return Err(Error::KEY_OUTSIDE_LEGAL_RANGE);
            }
            let this = inner.clone();
            Ok(inner.start(move || async move {
                this.check_tenant()?;
                this.context.split_points(range, chunk_bytes).await
            }))
        })
    }
}

impl Inner {
    fn layer(&self, snapshot: bool) -> Layer {
        let state = self.state();
        if state.options.read_your_writes_disabled {
            Layer::Database
        } else if snapshot && state.options.snapshot_ryw <= 0 {
            Layer::Snapshot
        } else {
            Layer::Overlay
        }
    }

    /// The writes that a read sees, as they are now.
    fn writes_for(&self, layer: Layer) -> WriteMap {
        match layer {
            Layer::Overlay => self.state().writes.clone(),
            Layer::Snapshot | Layer::Database => self.context.no_writes.clone(),
        }
    }
}
