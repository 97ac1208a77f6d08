//! The ordered map of a storage server, readable at every version of its window.
//!
//! Each key has one row: its newest value with the versions at which it was set and at which it was
//! cleared, and, only while a reader may still need them, the values before. A read at a version is
//! one lookup in a B-tree and a comparison. Clearing a range marks rows in place, so it allocates
//! nothing however many keys it covers; the rows are removed when the clear leaves the window.
//!
//! The same marks allow the map to go *back*: [`VersionedMap::rollback`] undoes everything newer
//! than a version inside the window. That is what a reboot does (what was not durable is gone) and
//! what a recovery does to versions that the logs could not keep.
//!
//! Keys are stored inline (`SmallKey`) and values are boxed slices instead of `Bytes`: half the
//! size per row, and a row never pins the buffer of the transaction that wrote it.

use crate::data::atomic::Outcome;
use crate::proto::Version;
use crate::server::small_key::SmallKey;
use bytes::Bytes;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

/// The version of something that has not happened.
const NEVER: Version = Version::MAX;

/// Clears that kill more rows than this are remembered as one range instead of key by key.
const RANGE_CHANGE_ROWS: usize = 32;

/// A multi-version ordered map.
#[derive(Debug, Default)]
pub struct VersionedMap {
    rows: BTreeMap<SmallKey, Row>,
    /// What changed in the window, and at which version, oldest first.
    changes: VecDeque<(Version, Change)>,
    oldest: Version,
}

/// A key's values. The newest lives in `value` from `set_at` until `gone_at`.
#[derive(Debug)]
struct Row {
    set_at: Version,
    gone_at: Version,
    value: Box<[u8]>,
    /// Values before the newest, oldest first. Boxed because most rows have none, and every row
    /// pays for the field.
    #[allow(clippy::box_collection)]
    older: Option<Box<VecDeque<OldValue>>>,
}

#[derive(Debug)]
struct OldValue {
    set_at: Version,
    gone_at: Version,
    value: Box<[u8]>,
}

#[derive(Debug)]
enum Change {
    /// A row was created. There was nothing before it, so there is nothing to forget.
    Made(SmallKey),
    Key(SmallKey),
    Range(Box<(Bytes, Bytes)>),
}

impl VersionedMap {
    /// The oldest version that can be read.
    pub fn oldest(&self) -> Version {
        self.oldest
    }

    /// The value of a key at a version of the window.
    pub fn get(&self, key: &[u8], version: Version) -> Option<&[u8]> {
        self.rows.get(&SmallKey::from(key))?.at(version)
    }

    /// The value of a key after everything applied so far.
    pub fn latest(&self, key: &[u8]) -> Option<&[u8]> {
        self.rows.get(&SmallKey::from(key))?.latest()
    }

    /// The rows of `[begin, end)` at a version, in order and from both ends.
    pub fn range<'a>(
        &'a self,
        begin: &[u8],
        end: &[u8],
        version: Version,
    ) -> impl DoubleEndedIterator<Item = (&'a [u8], &'a [u8])> + 'a {
        let bounds = if begin < end {
            (begin, end)
        } else {
            (begin, begin)
        };
        self.rows
            .range::<[u8], _>((Bound::Included(bounds.0), Bound::Excluded(bounds.1)))
            .filter_map(move |(key, row)| Some((key.as_ref(), row.at(version)?)))
    }

    /// Sets a key. Versions must not go backwards, except for rows that enter a range which was not
    /// held before (see `server::storage`).
    pub fn set(&mut self, version: Version, key: &[u8], value: &[u8]) {
        let key = SmallKey::from(key);
        let change = match self.rows.entry(key.clone()) {
            Entry::Occupied(mut row) => {
                row.get_mut().set(version, value.into());
                Change::Key(key)
            }
            Entry::Vacant(place) => {
                place.insert(Row::new(version, value.into()));
                Change::Made(key)
            }
        };
        self.changed(version, change);
    }

    /// Sets or clears a key, depending on its value after everything applied so far.
    pub fn update(
        &mut self,
        version: Version,
        key: &[u8],
        outcome: impl FnOnce(Option<&[u8]>) -> Outcome,
    ) {
        let key = SmallKey::from(key);
        let change = match self.rows.entry(key.clone()) {
            Entry::Occupied(mut row) => {
                let row = row.get_mut();
                match outcome(row.latest()) {
                    Outcome::Value(value) => row.set(version, (*value).into()),
                    Outcome::Absent if row.gone_at == NEVER => row.gone_at = version,
                    Outcome::Absent | Outcome::Unchanged => return,
                }
                Change::Key(key)
            }
            Entry::Vacant(place) => {
                let Outcome::Value(value) = outcome(None) else {
                    return;
                };
                place.insert(Row::new(version, (*value).into()));
                Change::Made(key)
            }
        };
        self.changed(version, change);
    }

    /// Clears one key.
    pub fn clear(&mut self, version: Version, key: &[u8]) {
        self.update(version, key, |_| Outcome::Absent);
    }

    /// Clears the keys of `[begin, end)`.
    pub fn clear_range(&mut self, version: Version, begin: &Bytes, end: &Bytes) {
        if begin >= end {
            return;
        }
        if is_single_key(begin, end) {
            return self.clear(version, begin);
        }
        let mut killed: Vec<Change> = Vec::new();
        let mut count = 0;
        for (key, row) in self.rows.range_mut::<[u8], _>(bounds(begin, end)) {
            if row.gone_at == NEVER {
                row.gone_at = version;
                count += 1;
                if count <= RANGE_CHANGE_ROWS {
                    killed.push(Change::Key(key.clone()));
                }
            }
        }
        if count > RANGE_CHANGE_ROWS {
            self.changed(
                version,
                Change::Range(Box::new((begin.clone(), end.clone()))),
            );
        } else {
            for change in killed {
                self.changed(version, change);
            }
        }
    }

    /// Drops the keys of a range with all their history, as if they had never been here.
    pub fn forget_range(&mut self, begin: &[u8], end: &[u8]) {
        self.remove_rows(begin, end, |_| true);
    }

    /// Moves the window: versions before `oldest` can no longer be read, and no longer cost
    /// anything.
    pub fn forget_before(&mut self, oldest: Version) {
        if oldest <= self.oldest {
            return;
        }
        self.oldest = oldest;
        while self
            .changes
            .front()
            .is_some_and(|(version, _)| *version <= oldest)
        {
            let (_, change) = self.changes.pop_front().expect("looked at above");
            match change {
                Change::Made(_) => {}
                Change::Key(key) => {
                    if let Entry::Occupied(mut row) = self.rows.entry(key) {
                        row.get_mut().forget_before(oldest);
                        if row.get().gone_at <= oldest {
                            row.remove();
                        }
                    }
                }
                Change::Range(range) => {
                    self.remove_rows(&range.0, &range.1, |row| row.gone_at <= oldest);
                }
            }
        }
    }

    /// Undoes everything newer than `to`, which must lie inside the window.
    pub fn rollback(&mut self, to: Version) {
        assert!(
            to >= self.oldest,
            "roll back to {to}, before the window at {}",
            self.oldest
        );
        while self
            .changes
            .back()
            .is_some_and(|(version, _)| *version > to)
        {
            let (_, change) = self.changes.pop_back().expect("looked at above");
            match change {
                Change::Made(key) | Change::Key(key) => {
                    if let Entry::Occupied(mut row) = self.rows.entry(key)
                        && !row.get_mut().rollback(to)
                    {
                        row.remove();
                    }
                }
                Change::Range(range) => {
                    let mut unset = Vec::new();
                    for (key, row) in self.rows.range_mut::<[u8], _>(bounds(&range.0, &range.1)) {
                        if !row.rollback(to) {
                            unset.push(key.clone());
                        }
                    }
                    for key in unset {
                        self.rows.remove(&key);
                    }
                }
            }
        }
    }

    fn changed(&mut self, version: Version, change: Change) {
        // A row that arrives late, with a fetched shard, is filed under the newest version: the
        // list only says where to look, the versions in the rows decide.
        let newest = self.changes.back().map_or(version, |(newest, _)| *newest);
        self.changes.push_back((version.max(newest), change));
    }

    fn remove_rows(&mut self, begin: &[u8], end: &[u8], gone: impl Fn(&Row) -> bool) {
        if begin >= end {
            return;
        }
        let range = || self.rows.range::<[u8], _>(bounds(begin, end));
        let count = range().filter(|(_, row)| gone(row)).count();
        if count > 1000 && count * 2 > self.rows.len() {
            // Most of the map is dropped: building what stays is cheaper than removing rows one by
            // one.
            let stays = |key: &[u8], row: &Row| key < begin || key >= end || !gone(row);
            let rows = std::mem::take(&mut self.rows).into_iter();
            self.rows = rows.filter(|(key, row)| stays(key.as_ref(), row)).collect();
            return;
        }
        let dead = range().filter(|(_, row)| gone(row));
        let dead: Vec<SmallKey> = dead.map(|(key, _)| key.clone()).collect();
        for key in dead {
            self.rows.remove(&key);
        }
    }
}

impl Row {
    fn new(version: Version, value: Box<[u8]>) -> Row {
        Row {
            set_at: version,
            gone_at: NEVER,
            value,
            older: None,
        }
    }

    fn latest(&self) -> Option<&[u8]> {
        (self.gone_at == NEVER).then_some(&*self.value)
    }

    fn at(&self, version: Version) -> Option<&[u8]> {
        if version >= self.set_at {
            return (version < self.gone_at).then_some(&*self.value);
        }
        let older = self.older.as_ref()?;
        let index = older
            .partition_point(|old| old.set_at <= version)
            .checked_sub(1)?;
        let old = &older[index];
        (version < old.gone_at).then_some(&*old.value)
    }

    fn set(&mut self, version: Version, value: Box<[u8]>) {
        if self.set_at != version {
            let old = OldValue {
                set_at: self.set_at,
                gone_at: self.gone_at.min(version),
                value: std::mem::take(&mut self.value),
            };
            self.older.get_or_insert_default().push_back(old);
            self.set_at = version;
        }
        self.gone_at = NEVER;
        self.value = value;
    }

    fn forget_before(&mut self, oldest: Version) {
        if let Some(older) = &mut self.older {
            while older.front().is_some_and(|old| old.gone_at <= oldest) {
                older.pop_front();
            }
            if older.is_empty() {
                self.older = None;
            }
        }
    }

    /// Returns false when nothing of the row is left.
    fn rollback(&mut self, to: Version) -> bool {
        while self.set_at > to {
            let Some(old) = self.older.as_mut().and_then(|older| older.pop_back()) else {
                return false;
            };
            *self = Row {
                set_at: old.set_at,
                gone_at: old.gone_at,
                value: old.value,
                older: self.older.take(),
            };
        }
        if self.gone_at > to {
            self.gone_at = NEVER;
        }
        true
    }
}

/// Whether `[begin, end)` holds exactly the key `begin`.
pub fn is_single_key(begin: &[u8], end: &[u8]) -> bool {
    end.len() == begin.len() + 1 && end[begin.len()] == 0 && &end[..begin.len()] == begin
}

fn bounds<'a>(begin: &'a [u8], end: &'a [u8]) -> (Bound<&'a [u8]>, Bound<&'a [u8]>) {
    (Bound::Included(begin), Bound::Excluded(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn b(text: &str) -> Bytes {
        Bytes::copy_from_slice(text.as_bytes())
    }

    fn all(map: &VersionedMap, version: Version) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        map.range(b"", b"\xff", version)
            .map(|(k, v)| (text(k), text(v)))
            .collect()
    }

    #[test]
    fn every_version_of_the_window_stays_readable() {
        let mut map = VersionedMap::default();
        map.set(10, &b("a"), b"1");
        map.set(20, &b("a"), b"2");
        map.clear(30, &b("a"));
        map.set(40, &b("a"), b"4");
        let seen: Vec<_> = [5, 10, 19, 20, 29, 30, 39, 40, 99]
            .iter()
            .map(|v| map.get(b"a", *v).map(|x| x[0]))
            .collect();
        let (one, two, four) = (Some(b'1'), Some(b'2'), Some(b'4'));
        assert_eq!(seen, [None, one, one, two, two, None, None, four, four]);
    }

    #[test]
    fn the_last_change_of_a_version_is_the_one_that_counts() {
        let mut map = VersionedMap::default();
        map.set(10, &b("a"), b"0");
        map.set(20, &b("a"), b"1");
        map.clear_range(20, &b(""), &b("z"));
        assert_eq!(map.get(b"a", 20), None);
        assert_eq!(map.get(b"a", 19), Some(&b"0"[..]));
        map.set(20, &b("a"), b"2");
        assert_eq!(map.get(b"a", 20), Some(&b"2"[..]));
        assert_eq!(map.get(b"a", 19), Some(&b"0"[..]));
        map.forget_before(20);
        assert_eq!(all(&map, 20), [("a".into(), "2".into())]);
    }

    /// The model is a plain map per version. Operations, windows and rollbacks are drawn at random.
    #[test]
    fn it_agrees_with_one_plain_map_per_version() {
        let mut state = 7u64;
        let mut draw = |n: u64| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) % n
        };
        for _ in 0..200 {
            let mut map = VersionedMap::default();
            let mut model: BTreeMap<Version, BTreeMap<String, String>> = BTreeMap::new();
            model.insert(0, BTreeMap::new());
            let mut version = 0;
            for _ in 0..120 {
                let mut now = model[&version].clone();
                version += 1 + draw(3) as Version;
                for _ in 0..draw(4) {
                    let key = format!("{:02}", draw(60));
                    let other = format!("{:02}", draw(60));
                    match draw(4) {
                        0 => {
                            map.clear_range(version, &b(&key), &b(&other));
                            now.retain(|k, _| !(*k >= key && *k < other));
                        }
                        1 => {
                            map.clear(version, &b(&key));
                            now.remove(&key);
                        }
                        _ => {
                            let value = draw(1000).to_string();
                            map.set(version, &b(&key), value.as_bytes());
                            now.insert(key, value);
                        }
                    }
                }
                model.insert(version, now);
                if draw(10) == 0 {
                    let oldest = version - draw(30) as Version;
                    map.forget_before(oldest);
                }
                if draw(10) == 0 {
                    let floor = map.oldest().max(version - 20);
                    if let Some((&to, _)) = model.range(floor..).next() {
                        map.rollback(to);
                        model.retain(|v, _| *v <= to);
                        version = to;
                    }
                }
                for (v, expected) in model.range(map.oldest()..) {
                    let expected: Vec<_> = expected
                        .iter()
                        .map(|(k, v)| (k.clone(), v.clone()))
                        .collect();
                    assert_eq!(all(&map, *v), expected, "at version {v}");
                }
            }
            map.clear_range(version + 1, &b(""), &b("\u{7f}"));
            map.forget_before(version + 1);
            assert!(
                map.rows.is_empty(),
                "rows left after the clear left the window"
            );
        }
    }
}
