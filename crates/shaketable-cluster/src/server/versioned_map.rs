//! The ordered map of a storage server, readable at every version of its window.
//!
//! Each key has one row: its newest value with the versions at which it was set and at which it was
//! cleared. What was there before is in the list of changes, for as long as a reader may need it,
//! and the row says where. So a change that leaves the window is dropped without a look at its row,
//! which by then is in no cache. A read at a version is one look-up in an ordered map (`key_map`)
//! and a comparison. Clearing a range marks rows in place, so it allocates nothing however many
//! keys it covers; the rows are removed when the clear leaves the window.
//!
//! The same marks allow the map to go *back*: [`VersionedMap::rollback`] undoes everything newer
//! than a version inside the window. That is what a reboot does (what was not durable is gone) and
//! what a recovery does to versions that the logs could not keep. Both are rare, so they look at
//! every row, and spare each write a note of the key that it wrote: a new row, which is what most
//! writes make, leaves no trace in the list of changes.
//!
//! Keys and short values are stored in the row, longer ones in boxes of their own instead of in a
//! `Bytes`: half the size per row, one less piece of memory to wait for, and a row never pins the
//! buffer of the transaction that wrote it.

use crate::data::atomic::Outcome;
use crate::proto::Version;
use crate::server::key_map::{KeyMap, Place};
use crate::server::small_key::SmallKey;
use bytes::Bytes;
use std::collections::VecDeque;
use std::ops::Deref;

/// The version of something that has not happened.
const NEVER: Version = Version::MAX;

/// A list of so many changes is small.
const CHANGES_FEW: usize = 1024;

/// Clears that kill more rows than this are remembered as one range instead of key by key.
const RANGE_CHANGE_ROWS: usize = 32;

/// A multi-version ordered map.
#[derive(Debug, Default)]
pub struct VersionedMap {
    rows: KeyMap<Row>,
    /// What changed in the window, and at which version, oldest first.
    changes: VecDeque<(Version, Change)>,
    /// How many changes have left the window.
    forgotten: u64,
    oldest: Version,
}

/// The value of a key. It lives from `set_at` until `gone_at`.
#[derive(Debug)]
struct Row {
    set_at: Version,
    gone_at: Version,
    value: Value,
    /// The number of the change that holds the row as it was before, counted from 1; 0 if there was
    /// nothing. A change that was forgotten holds nothing that a reader needs.
    before: u64,
}

/// How long a value may be to lie in its row.
const SHORT_MAX: usize = 22;

#[derive(Debug)]
enum Value {
    /// The bytes and how many there are.
    Short([u8; SHORT_MAX], u8),
    Long(Box<[u8]>),
}

impl From<&[u8]> for Value {
    #[inline]
    fn from(bytes: &[u8]) -> Value {
        if bytes.len() > SHORT_MAX {
            return Value::Long(bytes.into());
        }
        let mut short = [0; SHORT_MAX];
        short[..bytes.len()].copy_from_slice(bytes);
        Value::Short(short, bytes.len() as u8)
    }
}

impl Deref for Value {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Value::Short(bytes, len) => &bytes[..usize::from(*len)],
            Value::Long(bytes) => bytes,
        }
    }
}

#[derive(Debug)]
enum Change {
    /// A row got another value; this is what it was before, found through the row.
    Set(Row),
    /// A row was cleared, and is removed when that leaves the window.
    Cleared(SmallKey),
    /// So were those of a range.
    Range(Box<(Bytes, Bytes)>),
    Undone,
}

impl VersionedMap {
    /// The oldest version that can be read.
    pub fn oldest(&self) -> Version {
        self.oldest
    }

    /// The value of a key at a version of the window.
    pub fn get(&self, key: &[u8], version: Version) -> Option<&[u8]> {
        self.at(self.rows.get(&SmallKey::from(key))?, version)
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
        self.rows
            .range(begin, end)
            .filter_map(move |(key, row)| Some((key.as_ref(), self.at(row, version)?)))
    }

    /// Sets a key. Versions must not go backwards, except for rows that enter a range which was not
    /// held before (see `server::storage`).
    pub fn set(&mut self, version: Version, key: impl Into<SmallKey>, value: &[u8]) {
        let key = key.into();
        match self.rows.find(&key) {
            Ok(place) => self.replace(version, place, value.into()),
            Err(place) => self.make(version, place, key, value.into()),
        }
    }

    /// Sets or clears a key, depending on its value after everything applied so far.
    pub fn update(
        &mut self,
        version: Version,
        key: impl Into<SmallKey>,
        outcome: impl FnOnce(Option<&[u8]>) -> Outcome,
    ) {
        let key = key.into();
        match self.rows.find(&key) {
            Ok(place) => {
                let row = self.rows.at_mut(place);
                match outcome(row.latest()) {
                    Outcome::Value(value) => self.replace(version, place, (*value).into()),
                    Outcome::Number(bytes) => self.replace(version, place, bytes[..].into()),
                    Outcome::Absent if row.gone_at == NEVER => {
                        row.gone_at = version;
                        self.changed(version, Change::Cleared(key));
                    }
                    Outcome::Absent | Outcome::Unchanged => {}
                }
            }
            Err(place) => match outcome(None) {
                Outcome::Value(value) => self.make(version, place, key, (*value).into()),
                Outcome::Number(bytes) => self.make(version, place, key, bytes[..].into()),
                Outcome::Absent | Outcome::Unchanged => {}
            },
        }
    }

    /// Clears one key.
    pub fn clear(&mut self, version: Version, key: impl Into<SmallKey>) {
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
        self.rows.for_each_in(begin, end, |key, row| {
            if row.gone_at == NEVER {
                row.gone_at = version;
                count += 1;
                if count <= RANGE_CHANGE_ROWS {
                    killed.push(Change::Cleared(key.clone()));
                }
            }
        });
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
        self.rows.retain_in(begin, end, |_, _| false);
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
            self.forgotten += 1;
            match change {
                Change::Set(_) | Change::Undone => {}
                Change::Cleared(key) => {
                    if let Ok(place) = self.rows.find(&key)
                        && self.rows.at_mut(place).gone_at <= oldest
                    {
                        self.rows.remove(place);
                    }
                }
                Change::Range(range) => {
                    let lives = |_: &SmallKey, row: &mut Row| row.gone_at > oldest;
                    self.rows.retain_in(&range.0, &range.1, lives);
                }
            }
        }
        // Whoever loads a million rows would go round in that much memory for ever after.
        if self.changes.capacity() > CHANGES_FEW && self.changes.len() < self.changes.capacity() / 8
        {
            self.changes.shrink_to(2 * self.changes.len());
        }
    }

    /// Undoes everything newer than `to`, which must lie inside the window.
    pub fn rollback(&mut self, to: Version) {
        assert!(
            to >= self.oldest,
            "roll back to {to}, before the window at {}",
            self.oldest
        );
        let stays = self.changes.partition_point(|(version, _)| *version <= to);
        // What stays of a change that was filed under a later version is in the window now.
        for (version, _) in self.changes.range_mut(stays..) {
            *version = to;
        }
        let VersionedMap {
            rows,
            changes,
            forgotten,
            oldest,
        } = self;
        rows.retain(|_, row| {
            while row.set_at > to {
                let before =
                    changes_index(row.before, *forgotten).and_then(|at| changes.get_mut(at));
                let Some((_, before @ Change::Set(_))) = before else {
                    return false; // there was nothing
                };
                if let Change::Set(before) = std::mem::replace(before, Change::Undone) {
                    *row = before;
                }
            }
            row.revive(to);
            // If not, the change that would have removed it has left the window.
            row.gone_at > *oldest
        });
        while let Some((_, Change::Undone)) = self.changes.back() {
            self.changes.pop_back();
        }
    }

    /// The value of a row at a version of the window.
    #[inline]
    fn at<'a>(&'a self, mut row: &'a Row, version: Version) -> Option<&'a [u8]> {
        while version < row.set_at {
            let index = changes_index(row.before, self.forgotten)?;
            let (_, Change::Set(before)) = self.changes.get(index)? else {
                return None;
            };
            row = before;
        }
        (version < row.gone_at).then_some(&*row.value)
    }

    /// Adds a row where there is none.
    fn make(&mut self, version: Version, place: Place, key: SmallKey, value: Value) {
        let row = Row {
            set_at: version,
            gone_at: NEVER,
            value,
            before: 0,
        };
        self.rows.insert(place, key, row);
    }

    /// Gives a row another value.
    fn replace(&mut self, version: Version, place: Place, value: Value) {
        let row = self.rows.at_mut(place);
        if row.set_at == version {
            (row.gone_at, row.value) = (NEVER, value);
            return;
        }
        let new = Row {
            set_at: version,
            gone_at: NEVER,
            value,
            before: self.forgotten + self.changes.len() as u64 + 1,
        };
        let mut before = std::mem::replace(row, new);
        before.gone_at = before.gone_at.min(version);
        self.changed(version, Change::Set(before));
    }

    fn changed(&mut self, version: Version, change: Change) {
        // A row that arrives late, with a fetched shard, is filed under the newest version: the
        // list only says where to look, the versions in the rows decide.
        let newest = self.changes.back().map_or(version, |(newest, _)| *newest);
        self.changes.push_back((version.max(newest), change));
    }
}

impl Row {
    fn latest(&self) -> Option<&[u8]> {
        (self.gone_at == NEVER).then_some(&*self.value)
    }

    /// Undoes a clear after a version.
    fn revive(&mut self, to: Version) {
        if self.gone_at > to {
            self.gone_at = NEVER;
        }
    }
}

/// Where a change with a number is in the list, unless it has left the window or is none.
fn changes_index(number: u64, forgotten: u64) -> Option<usize> {
    Some(number.checked_sub(forgotten + 1)? as usize)
}

/// Whether `[begin, end)` holds exactly the key `begin`.
pub fn is_single_key(begin: &[u8], end: &[u8]) -> bool {
    end.len() == begin.len() + 1 && end[begin.len()] == 0 && &end[..begin.len()] == begin
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

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
