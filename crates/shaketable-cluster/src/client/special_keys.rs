//! The special key space: keys behind `\xff\xff` that are not data but the client's view of itself
//! and of the cluster.
//!
//! The space is divided into *modules*. An ordinary range read must lie in one of them; with the
//! option `special_key_space_relaxed` it may span several. Inside modules lie *ranges*, and each
//! range knows how to compute its rows (`modules`). Reads here bypass the read-your-writes layer
//! and add no conflict ranges. Some ranges can be written if the option
//! `special_key_space_enable_writes` is set: writes are collected in the transaction and carried
//! out when it commits.
//!
//! This file does the walking: legality, key selectors, limits, directions. It knows the
//! transaction only through the trait [`Host`], so that either can be tested without the other.
//! What this cluster has no use for (exclusions, process classes, …) reads as empty and is refused
//! when written, with the reason in `\xff\xff/error_message`, instead of being accepted without
//! effect.

mod modules;
mod status;

pub use status::{ClusterDescription, GenerationDescription, ProcessDescription};

use super::RangeLimits;
use crate::data::key::{KeyBound, compare};
use crate::error::Error;
use crate::proto::{Key, KeyRange, KeySelector, KeyValues, Mutation, Value};
use bytes::Bytes;
use modules::{Kind, Range};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// What the special key space needs from the transaction it belongs to.
pub trait Host {
    /// The special keys' part of the transaction's state.
    fn special(&self) -> &RefCell<State>;
    /// The API version of the database handle.
    fn api_version(&self) -> i32;
    /// Whether reads may cross modules.
    fn is_relaxed(&self) -> bool;
    /// Whether special keys may be written.
    fn is_writable(&self) -> bool;
    /// Whether the transaction reads its own writes.
    fn is_read_your_writes(&self) -> bool;
    /// The estimated size of the transaction so far.
    fn approximate_size(&self) -> i64;
    /// What the transaction depends on, sorted, without overlap.
    fn read_conflict_ranges(&self) -> Vec<KeyRange>;
    /// What depends on the transaction, sorted, without overlap. A versionstamped key counts as all
    /// the keys it may become, or as the one it became.
    fn write_conflict_ranges(&self) -> Vec<KeyRange>;
    /// What the last commit conflicted on, if that was requested; sorted, without overlap.
    fn conflicting_keys(&self) -> Vec<KeyRange>;
    /// The cluster, as its client knows it.
    fn cluster(&self) -> ClusterDescription;
    /// Ends when the client has found the cluster, or has looked for it long enough.
    fn connected(&self) -> impl Future<Output = ()>;
    /// A number that has not been drawn before.
    fn random_u64(&self) -> u64;
    /// Ends when all reads that the transaction has begun are done; fails if one of them failed.
    fn pending_reads(&self) -> impl Future<Output = Result<(), Error>>;
    /// Reads a system key, whether or not the database is locked, without a conflict.
    fn read_system_key(&self, key: Key) -> impl Future<Output = Result<Option<Value>, Error>>;
    /// Adds a mutation of a system key to the commit under way and makes that commit aware of
    /// locks. It conflicts with every transaction that reads anything in `conflict`.
    fn write_system_key(&self, mutation: Mutation, conflict: Option<KeyRange>);
}

/// The special keys' part of a transaction's state. Recreated when the transaction is reset.
#[derive(Debug)]
pub struct State {
    /// What was written: a value, or `None` where it was cleared.
    writes: BTreeMap<Key, Option<Value>>,
    /// Why the last special write failed: a JSON object.
    error_message: Option<Value>,
    trace_id: [u64; 2],
    trace_token: u64,
}

impl State {
    /// Creates the state; `random` provides the identity under which it is traced.
    pub fn new(mut random: impl FnMut() -> u64) -> State {
        let mut identity = || random().max(1);
        State {
            writes: BTreeMap::new(),
            error_message: None,
            trace_id: [identity(), identity()],
            trace_token: identity(),
        }
    }
}

impl State {
    /// Forgets what was written. The identity stays: another attempt is traced as the same
    /// transaction.
    pub(crate) fn soft_reset(&mut self) {
        self.writes.clear();
        self.error_message = None;
    }
}

/// Where the special keys begin.
pub const BEGIN: &[u8] = b"\xff\xff";
/// Where they end.
pub const END: &[u8] = b"\xff\xff\xff";

/// Whether the special key space serves a read of this key. Before API version 630 it served only
/// three keys.
pub fn answers_get(api_version: i32, key: &[u8]) -> bool {
    if api_version >= 630 {
        is_special(key)
    } else {
        modules::LEGACY_KEYS.contains(&key)
    }
}

/// Whether the special key space serves a range read between these selectors.
pub fn answers_get_range(api_version: i32, begin: &KeySelector, end: &KeySelector) -> bool {
    if api_version >= 630 {
        is_special(&begin.key) && (BEGIN..=END).contains(&&end.key[..])
    } else {
        begin.key == modules::LEGACY_WORKER_INTERFACES
    }
}

/// Whether the special key space handles a write of this key.
pub fn answers_write(api_version: i32, key: &[u8]) -> bool {
    api_version >= 700 && is_special(key)
}

/// Whether the special key space handles clearing this range.
pub fn answers_clear_range(api_version: i32, range: &KeyRange) -> bool {
    api_version >= 700 && &range.begin[..] >= BEGIN && &range.end[..] <= END
}

/// The value of a special key.
pub async fn get(host: &impl Host, key: Key) -> Result<Option<Value>, Error> {
    if key == BEGIN {
        // FoundationDB knows no key after this one, and nothing is in an empty range.
        return Ok(None);
    }
    let end = KeyBound::after(&key).to_key();
    let rows = if host.api_version() >= 630 {
        let limits = RangeLimits::rows(i32::MAX);
        let (begin, end) = (first_greater_or_equal(key), first_greater_or_equal(end));
        get_range(host, begin, end, limits, false).await?.rows
    } else {
        let range = KeyRange { begin: key, end };
        let kind = modules::ranges(630)
            .into_iter()
            .find(|r| r.keys.begin == range.begin);
        match kind {
            Some(found) => modules::rows(host, &found, range).await?,
            None => Vec::new(),
        }
    };
    Ok(rows.into_iter().next().map(|row| row.value))
}

/// The rows between two selectors.
pub async fn get_range(
    host: &impl Host,
    begin: KeySelector,
    end: KeySelector,
    mut limits: RangeLimits,
    reverse: bool,
) -> Result<KeyValues, Error> {
    if host.api_version() < 630 {
        return Ok(KeyValues::default());
    }
    if !limits.is_valid() {
        return Err(Error::RANGE_LIMITS_INVALID);
    }
    let (begin, end) = (without_or_equal(begin), without_or_equal(end));
    if limits.is_reached() || (begin.offset >= end.offset && begin.key >= end.key) {
        return Ok(KeyValues::default());
    }
    let boundary = boundary(host, &begin.key, &end.key)?;
    let ranges = modules::ranges(host.api_version());
    let (begin, begin_offset) = resolve(host, &ranges, begin, &boundary).await?;
    let (end, end_offset) = resolve(host, &ranges, end, &boundary).await?;
    let mut result = KeyValues::default();
    let inverted = begin_offset >= end_offset && begin >= end;
    if inverted || begin == boundary.end || end == boundary.begin {
        return Ok(result);
    }
    let wanted = KeyRange { begin, end };
    let mut touched: Vec<&Range> = ranges
        .iter()
        .filter(|range| overlap(&range.keys, &wanted).is_some())
        .collect();
    if reverse {
        touched.reverse();
    }
    for range in touched {
        let Some(part) = overlap(&range.keys, &wanted) else {
            continue;
        };
        let mut rows = modules::rows(host, range, part).await?;
        if reverse {
            rows.reverse();
        }
        for row in rows {
            limits.decrement(&row);
            result.rows.push(row);
            if limits.is_reached() {
                result.more = true;
                return Ok(result);
            }
        }
    }
    Ok(result)
}

/// Sets a special key. Takes effect at commit, except for what concerns the transaction itself.
pub fn set(host: &impl Host, key: Key, value: Value) -> Result<(), Error> {
    modules::set(host, writable_range(host, &key)?, key, value)
}

/// Clears a special key.
pub fn clear(host: &impl Host, key: Key) -> Result<(), Error> {
    let range = writable_range(host, &key)?;
    let end = KeyBound::after(&key).to_key();
    modules::clear(host, range, KeyRange { begin: key, end })
}

/// Clears a range of special keys, which must lie inside one range that can be written.
pub fn clear_range(host: &impl Host, keys: KeyRange) -> Result<(), Error> {
    if !host.is_writable() {
        return Err(Error::SPECIAL_KEYS_WRITE_DISABLED);
    }
    if keys.begin >= keys.end {
        return Ok(());
    }
    let ranges = modules::ranges(host.api_version());
    let writable = |contains: &dyn Fn(&KeyRange) -> bool| {
        let found = ranges
            .iter()
            .find(|range| range.writable && contains(&range.keys));
        found.map(|range| range.kind)
    };
    let first = writable(&|range| contains(range, &keys.begin));
    let last = writable(&|range| range.begin < keys.end && keys.end <= range.end);
    match (first, last) {
        (None, None) => Err(Error::SPECIAL_KEYS_NO_WRITE_MODULE_FOUND),
        (Some(first), Some(last)) if first == last => modules::clear(host, first, keys),
        _ => Err(Error::SPECIAL_KEYS_CROSS_MODULE_CLEAR),
    }
}

/// Carries out what was written. Runs first in a commit; if it fails, the commit fails.
pub async fn commit(host: &impl Host) -> Result<(), Error> {
    if !host.is_writable() {
        return Ok(());
    }
    let mut written: Vec<Kind> = Vec::new();
    for key in host.special().borrow().writes.keys() {
        let kind = writable_range(host, key)?;
        if !written.contains(&kind) {
            written.push(kind);
        }
    }
    for kind in written {
        modules::commit(host, kind).await?;
    }
    Ok(())
}

fn is_special(key: &[u8]) -> bool {
    compare(key, BEGIN).is_ge() && compare(key, END).is_lt()
}

fn first_greater_or_equal(key: Key) -> KeySelector {
    KeySelector {
        key,
        or_equal: false,
        offset: 1,
    }
}

fn without_or_equal(selector: KeySelector) -> KeySelector {
    if !selector.or_equal {
        return selector;
    }
    KeySelector {
        key: KeyBound::after(&selector.key).to_key(),
        or_equal: false,
        ..selector
    }
}

fn contains(range: &KeyRange, key: &Key) -> bool {
    range.begin <= *key && *key < range.end
}

fn overlap(a: &KeyRange, b: &KeyRange) -> Option<KeyRange> {
    let begin = (&a.begin).max(&b.begin);
    let end = (&a.end).min(&b.end);
    (begin < end).then(|| KeyRange {
        begin: begin.clone(),
        end: end.clone(),
    })
}

/// The part of the space in which selectors may walk: all of it, or the module that contains both
/// keys.
fn boundary(host: &impl Host, begin: &Key, end: &Key) -> Result<KeyRange, Error> {
    let whole = KeyRange {
        begin: Bytes::from_static(BEGIN),
        end: Bytes::from_static(END),
    };
    if host.is_relaxed() {
        return Ok(whole);
    }
    let mut gap = whole;
    for module in modules::modules() {
        if contains(&module, begin) {
            let inside = module.begin <= *end && *end <= module.end;
            return if inside {
                Ok(module)
            } else {
                Err(Error::SPECIAL_KEYS_CROSS_MODULE_READ)
            };
        }
        if module.end <= *begin {
            gap.begin = gap.begin.max(module.end);
        } else {
            gap.end = gap.end.min(module.begin);
        }
    }
    let inside = gap.begin <= *end && *end <= gap.end;
    Err(if inside {
        Error::SPECIAL_KEYS_NO_MODULE_FOUND
    } else {
        Error::SPECIAL_KEYS_CROSS_MODULE_READ
    })
}

/// Returns the key that a selector points to, and the offset that was left when the walk ended. A
/// walk that leaves the boundary ends there.
async fn resolve(
    host: &impl Host,
    ranges: &[Range],
    selector: KeySelector,
    boundary: &KeyRange,
) -> Result<(Key, i32), Error> {
    let KeySelector {
        mut key,
        mut offset,
        ..
    } = selector;
    let backwards = offset < 1;
    let within = ranges
        .iter()
        .filter(|r| overlap(&r.keys, boundary).is_some());
    let ahead: Vec<&Range> = if backwards {
        within.filter(|r| r.keys.begin < key).rev().collect()
    } else {
        within.filter(|r| key < r.keys.end).collect()
    };
    for range in ahead {
        if offset == 1 {
            break;
        }
        let mut part = range.keys.clone();
        if contains(&part, &key) {
            let side = if backwards {
                &mut part.end
            } else {
                &mut part.begin
            };
            *side = key.clone();
        }
        let rows = modules::rows(host, range, part).await?;
        let count = rows.len() as i32;
        if count == 0 {
            continue;
        }
        (key, offset) = match offset {
            back if backwards && count > -back => {
                (rows[(count - 1 + back) as usize].key.clone(), 1)
            }
            back if backwards => (rows[0].key.clone(), back + count),
            forth if count >= forth => (rows[forth as usize - 1].key.clone(), 1),
            forth => (
                KeyBound::after(&rows[rows.len() - 1].key).to_key(),
                forth - count,
            ),
        };
    }
    let left = offset;
    match left {
        1 => {}
        _ if left < 1 => key = boundary.begin.clone(),
        _ => key = boundary.end.clone(),
    }
    Ok((key, left))
}

/// The range that a key to be written belongs to.
fn writable_range(host: &impl Host, key: &Key) -> Result<Kind, Error> {
    if !host.is_writable() {
        return Err(Error::SPECIAL_KEYS_WRITE_DISABLED);
    }
    let ranges = modules::ranges(host.api_version());
    let found = ranges
        .iter()
        .find(|range| range.writable && contains(&range.keys, key));
    found
        .map(|range| range.kind)
        .ok_or(Error::SPECIAL_KEYS_NO_WRITE_MODULE_FOUND)
}

#[cfg(test)]
mod tests;
