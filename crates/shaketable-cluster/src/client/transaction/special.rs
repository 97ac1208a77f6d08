//! What the special key space sees of its transaction.

use super::Inner;
use crate::client::conflicts::RANGE_BYTES;
use crate::client::range_set::RangeSet;
use crate::client::special_keys::{self, ClusterDescription, Host};
use crate::data::key::key_after;
use crate::data::versionstamp;
use crate::error::Error;
use crate::proto::{Key, KeyRange, Mutation, MutationKind, Value};
use std::cell::RefCell;

/// How long a client that has just been opened looks for its cluster before it reports that there
/// is none.
const CONNECT_SECONDS: f64 = 5.0;

impl Host for Inner {
    fn special(&self) -> &RefCell<special_keys::State> {
        &self.special
    }

    fn api_version(&self) -> i32 {
        self.context.api_version
    }

    fn is_relaxed(&self) -> bool {
        self.state().options.special_relaxed
    }

    fn is_writable(&self) -> bool {
        self.state().options.special_writes
    }

    fn is_read_your_writes(&self) -> bool {
        !self.state().options.read_your_writes_disabled
    }

    fn approximate_size(&self) -> i64 {
        self.state().approximate_size()
    }

    fn read_conflict_ranges(&self) -> Vec<KeyRange> {
        let state = self.state();
        if !state.options.read_your_writes_disabled {
            return state.read_conflicts.ranges.iter().collect();
        }
        let native = &state.native.commit.read_conflict_ranges;
        let late = &state.native.late_read_ranges;
        merged(native.iter().chain(late).chain(&state.committed_ranges.0))
    }

    fn write_conflict_ranges(&self) -> Vec<KeyRange> {
        let read_version = self.known_read_version();
        let state = self.state();
        let mut ranges: Vec<KeyRange> = if state.options.read_your_writes_disabled {
            let native = &state.native.commit.write_conflict_ranges;
            native
                .iter()
                .chain(&state.committed_ranges.1)
                .cloned()
                .collect()
        } else {
            state.writes.conflict_ranges()
        };
        let stamp = state.native.versionstamp.peek().and_then(Result::ok);
        for key in &state.stamped_keys {
            match stamp {
                Some(stamp) => {
                    let kind = MutationKind::SetVersionstampedKey;
                    let mutation = Mutation {
                        kind,
                        param1: key.clone(),
                        param2: Value::new(),
                    };
                    let begin = versionstamp::resolve(mutation, stamp).param1;
                    ranges.push(KeyRange {
                        end: key_after(&begin),
                        begin,
                    });
                }
                None => ranges.extend(versionstamp::unreadable_range(
                    key,
                    read_version,
                    &state.max_read_key(),
                )),
            }
        }
        merged(&ranges)
    }

    fn conflicting_keys(&self) -> Vec<KeyRange> {
        self.state().conflicting_keys.clone()
    }

    fn cluster(&self) -> ClusterDescription {
        self.context.describe_cluster()
    }

    async fn connected(&self) {
        let context = &self.context;
        if !context.is_connected() {
            let found = context.process.timeout(CONNECT_SECONDS, context.proxies());
            found.await;
        }
    }

    fn random_u64(&self) -> u64 {
        self.context.random.next_u64()
    }

    async fn pending_reads(&self) -> Result<(), Error> {
        let attempt = self.state().attempt.clone();
        if let Some(error) = attempt.broken() {
            return Err(error);
        }
        attempt.reads_done().await
    }

    async fn read_system_key(&self, key: Key) -> Result<Option<Value>, Error> {
        let version = self.request_read_version(false).wait().await?.version;
        self.context.get_value(&key, version).await
    }

    fn write_system_key(&self, mutation: Mutation, conflict: Option<KeyRange>) {
        let mut state = self.state_mut();
        state.options.lock_aware = true;
        state.options.read_only = false;
        if let Some(range) = conflict {
            state.write_bytes += (range.begin.len() + range.end.len()) as i64 + RANGE_BYTES;
            state.native.commit.write_conflict_ranges.push(range);
        }
        state.native.commit.mutations.push(mutation);
    }
}

fn merged<'a>(ranges: impl IntoIterator<Item = &'a KeyRange>) -> Vec<KeyRange> {
    let mut set = RangeSet::default();
    for range in ranges {
        set.insert(range.begin.clone(), range.end.clone());
    }
    set.iter().collect()
}
