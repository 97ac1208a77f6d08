//! Which storage servers hold which keys, as far as this client knows.
//!
//! The cache may be wrong: shards move. A server that is asked for a shard it does not hold replies
//! with that, the entry is dropped, and a commit proxy is asked again.

use super::database::Context;
use crate::data::key::{ALL_END, key_after};
use crate::error::Error;
use crate::proto::{GetKeyLocations, Key, KeyRange, ShardLocation};
use bytes::Bytes;
use shaketable_kernel::{First, first_of};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Known shards by their first key; they do not overlap.
#[derive(Debug, Default)]
pub(crate) struct LocationCache {
    shards: BTreeMap<Key, Rc<ShardLocation>>,
}

/// How many shards one request asks for. FoundationDB asks for more than it needs at the moment.
const SHARDS_PER_QUESTION: usize = 100;
/// How many times one answer tries to make room.
const EVICTIONS_AT_ONCE: usize = 200;

impl LocationCache {
    /// The shard that holds `key`, or with `backward` the keys just before it.
    fn find(&self, key: &Key, backward: bool) -> Option<Rc<ShardLocation>> {
        let shard = if backward {
            self.shards
                .range::<Key, _>(..key)
                .next_back()
                .filter(|(_, s)| *key <= s.range.end)
        } else {
            self.shards
                .range::<Key, _>(..=key)
                .next_back()
                .filter(|(_, s)| *key < s.range.end)
        };
        shard.map(|(_, shard)| shard.clone())
    }

    fn insert(&mut self, shard: Rc<ShardLocation>) {
        self.remove(&shard.range.begin, &shard.range.end);
        self.shards.insert(shard.range.begin.clone(), shard);
    }

    /// Forgets the shards that overlap a range.
    fn remove(&mut self, begin: &Key, end: &Key) {
        let first = self.shards.range::<Key, _>(..=begin).next_back();
        let from = match first {
            Some((key, shard)) if shard.range.end > *begin => key.clone(),
            _ => begin.clone(),
        };
        while let Some(key) = self
            .shards
            .range::<Key, _>(&from..end)
            .next()
            .map(|(k, _)| k.clone())
        {
            self.shards.remove(&key);
        }
    }
}

impl Context {
    /// Returns the shard that holds `key`, or with `backward` the keys just before it.
    pub(crate) async fn locate(
        &self,
        key: &Key,
        backward: bool,
    ) -> Result<Rc<ShardLocation>, Error> {
        // There is nothing at the end of the key space, only before it.
        let backward = backward || *key >= ALL_END;
        let known = self.locations.borrow().find(key, backward);
        match known {
            Some(shard) => Ok(shard),
            // Boxed, because every read carries the space for this future and few need it.
            None => Box::pin(self.look_up(key, backward)).await,
        }
    }

    async fn look_up(&self, key: &Key, backward: bool) -> Result<Rc<ShardLocation>, Error> {
        loop {
            let range = if backward {
                KeyRange {
                    begin: Bytes::new(),
                    end: key.clone(),
                }
            } else {
                KeyRange {
                    begin: key.clone(),
                    end: key_after(key),
                }
            };
            for shard in self.ask_for_locations(range, backward).await? {
                self.locations.borrow_mut().insert(Rc::new(shard));
            }
            self.evict_locations(key);
            if let Some(shard) = self.locations.borrow().find(key, backward) {
                return Ok(shard);
            }
        }
    }

    /// Makes room in the cache. In a simulation the cache is small, so that its misses are tested
    /// too. The most recently requested location stays.
    fn evict_locations(&self, key: &Key) {
        if self.is_instant || !self.process.is_simulation() {
            return;
        }
        let mut cache = self.locations.borrow_mut();
        let max = self.knobs().location_cache_eviction_size_sim.max(1) as usize;
        for _ in 0..EVICTIONS_AT_ONCE {
            if cache.shards.len() <= max {
                return;
            }
            let index = self.random.index(cache.shards.len());
            let victim = cache
                .shards
                .values()
                .nth(index)
                .map(|shard| shard.range.clone());
            if let Some(range) = victim.filter(|range| *key < range.begin || range.end < *key) {
                cache.shards.remove(&range.begin);
            }
        }
    }

    /// Forgets where a key is.
    pub(crate) fn forget_location(&self, shard: &ShardLocation) {
        self.locations
            .borrow_mut()
            .remove(&shard.range.begin, &shard.range.end);
    }

    /// Asks commit proxies. One that has no memory left is asked again later: that error never
    /// reaches an application from here, which matters most to a watch, because nothing retries it.
    async fn ask_for_locations(
        &self,
        range: KeyRange,
        reverse: bool,
    ) -> Result<Vec<ShardLocation>, Error> {
        let mut backoff = self.outage_backoff();
        let mut pause = self.knobs().default_backoff;
        loop {
            let info = self.proxies().await;
            let proxy = self.pick(&info.commit_proxies);
            let question = GetKeyLocations {
                range: range.clone(),
                limit: SHARDS_PER_QUESTION,
                reverse,
            };
            let changed = self.proxies_change(info.generation);
            let reply = self.process.request(&proxy.get_key_locations, question);
            match first_of(reply, changed).await {
                First::Left(Ok(Err(Error::COMMIT_PROXY_MEMORY_LIMIT_EXCEEDED))) => {
                    self.process.sleep(pause).await;
                    let knobs = self.knobs();
                    pause = (pause * knobs.backoff_growth_rate)
                        .min(knobs.resource_constrained_max_backoff);
                }
                First::Left(Ok(reply)) => return reply,
                First::Left(Err(_)) | First::Right(_) => backoff.wait().await,
            }
        }
    }
}
