//! What a storage server has: its rows, and the ranges they belong to.
//!
//! Rows of the newest versions are in memory only. The oldest version of the window is what is on
//! disk: when the process dies, [`StorageDisk::rollback`] to it restores what is found after the
//! reboot.
//!
//! A server knows for every shard, its own or not, which servers serve it, because it may have to
//! ask them. Its own part in a shard is one of three: none, *fetching* (it receives mutations and
//! keeps them until it has the rows), *held*. Like rows, changes of shards can be undone.

use crate::data::atomic;
use crate::data::key::ALL_END;
use crate::proto::{Key, KeyRange, Mutation, MutationKind, Version};
use crate::server::messages::{Epoch, ShardChange, Tag};
use crate::server::range_map::RangeMap;
use crate::server::small_key::SmallKey;
use crate::server::versioned_map::VersionedMap;
use bytes::Bytes;
use std::collections::VecDeque;
use std::rc::Rc;

/// The version of the first batch of a database: shards that begin with it begin empty.
pub const FIRST_VERSION: Version = 1;

/// A storage server on disk and in memory.
#[derive(Debug)]
pub struct StorageDisk {
    /// Its identity.
    pub tag: Tag,
    /// The rows.
    pub rows: VersionedMap,
    /// The newest generation it knows of.
    pub epoch: Epoch,
    /// The newest version applied.
    pub version: Version,
    /// A version that no recovery will undo.
    pub known_committed: Version,
    shards: RangeMap<Shard>,
    /// What shards were before the changes of recent versions.
    undo: VecDeque<(Version, Vec<(Key, Shard)>)>,
    /// Ranges given up; their rows are dropped when the version can no longer be undone.
    drops: VecDeque<(Version, KeyRange)>,
    /// Fetches that finished recently, with the version of their rows. The rows are on disk
    /// although the change that requested them may be replayed after a reboot.
    finished: Vec<(KeyRange, Version)>,
    next_fetch: u64,
}

/// A range and the servers that hold it.
#[derive(Clone, Debug)]
pub struct Shard {
    /// The servers that answer reads.
    pub serving: Rc<[Tag]>,
    /// The servers that will answer reads once they have the rows.
    pub fetching: Rc<[Tag]>,
    /// This server's part.
    pub part: Part,
}

/// A server's part in a shard.
#[derive(Clone, Debug)]
pub enum Part {
    /// None.
    Absent,
    /// The rows are on their way.
    Fetching {
        /// Names this attempt.
        fetch: u64,
        /// Mutations from this version on are in `buffer`.
        since: Version,
        /// Mutations that will be applied on top of the fetched rows.
        buffer: Vec<(Version, Mutation)>,
    },
    /// The rows are here, as of this version and later.
    Held {
        /// The version of the fetched rows; 0 if the shard was here from its beginning.
        from: Version,
    },
}

impl StorageDisk {
    /// An empty server.
    pub fn new(tag: Tag) -> StorageDisk {
        let nobody: Rc<[Tag]> = Rc::from([]);
        let shard = Shard {
            serving: nobody.clone(),
            fetching: nobody,
            part: Part::Absent,
        };
        let mut shards = RangeMap::default();
        shards.insert(Key::new(), shard);
        StorageDisk {
            tag,
            rows: VersionedMap::default(),
            epoch: 0,
            version: 0,
            known_committed: 0,
            shards,
            undo: VecDeque::new(),
            drops: VecDeque::new(),
            finished: Vec::new(),
            next_fetch: 1,
        }
    }

    /// Applies a mutation of keys this server holds or fetches.
    pub fn apply(&mut self, version: Version, mutation: &Mutation) {
        if mutation.kind == MutationKind::ClearRange {
            let end = self.shards.end_of(&mutation.param1);
            if end < mutation.param2 {
                let [mut first, mut rest] = [mutation.clone(), mutation.clone()];
                first.param2 = end.clone();
                rest.param1 = end;
                self.apply(version, &first);
                return self.apply(version, &rest);
            }
        }
        let key = SmallKey::from(&mutation.param1);
        match &mut self.shards.around_mut(&key).part {
            Part::Held { from } => {
                // Replayed after a reboot, though the fetched rows already contain it.
                if version <= *from {
                    return;
                }
            }
            Part::Fetching { buffer, .. } => {
                buffer.push((version, mutation.clone()));
                return;
            }
            Part::Absent => return,
        }
        apply_to_rows(&mut self.rows, version, key, mutation);
    }

    /// Follows a change of which servers hold what, at the version being applied.
    /// [`StorageDisk::fetches`] finds the fetches that must be started.
    pub fn change_shard(&mut self, version: Version, change: &ShardChange) {
        let ShardChange {
            range,
            serving,
            fetching,
        } = change;
        self.remember(version, range);
        self.cut(&range.begin);
        self.cut(&range.end);
        // If parts of the range were fetched already, each part is judged separately.
        for (fetched, from) in self.finished.clone() {
            if from >= version && fetched.begin < range.end && range.begin < fetched.end {
                self.cut(&fetched.begin.max(range.begin.clone()));
                self.cut(&fetched.end.min(range.end.clone()));
            }
        }
        let me = self.tag;
        let (serves, fetches) = (serving.contains(&me), fetching.contains(&me));
        let inside: Vec<Key> = self
            .shards
            .beginning_in(&range.begin, &range.end)
            .map(|(key, _)| key.clone())
            .collect();
        for begin in inside {
            let end = self.shards.end_of(&begin);
            let finished = self.finished_since(&begin, &end, version);
            let fetch = self.next_fetch;
            let mut dropped = false;
            let shard = self.shards.around_mut(&SmallKey::from(&begin));
            shard.serving = serving.clone();
            shard.fetching = fetching.clone();
            shard.part = match (std::mem::replace(&mut shard.part, Part::Absent), finished) {
                (Part::Absent, Some(from)) if serves || fetches => Part::Held { from },
                (Part::Absent, None) if serves => Part::Held { from: 0 },
                (Part::Absent, None) if fetches => Part::Fetching {
                    fetch,
                    since: version,
                    buffer: Vec::new(),
                },
                (Part::Held { .. }, _) if !serves && !fetches => {
                    dropped = true;
                    Part::Absent
                }
                (Part::Fetching { .. }, _) if !serves && !fetches => Part::Absent,
                (part, _) => part,
            };
            let held = matches!(shard.part, Part::Held { .. });
            self.next_fetch += 1;
            if held {
                self.cancel_drops(&begin, &end);
            }
            if dropped {
                self.drops.push_back((version, KeyRange { begin, end }));
            }
        }
    }

    /// The rows of a range are needed again: an earlier change must not drop them.
    fn cancel_drops(&mut self, begin: &Key, end: &Key) {
        let overlaps = |range: &KeyRange| range.begin < *end && *begin < range.end;
        if !self.drops.iter().any(|(_, range)| overlaps(range)) {
            return;
        }
        let mut left = VecDeque::new();
        for (version, range) in std::mem::take(&mut self.drops) {
            let before = KeyRange {
                begin: range.begin.clone(),
                end: range.end.clone().min(begin.clone()),
            };
            let behind = KeyRange {
                begin: range.begin.max(end.clone()),
                end: range.end,
            };
            for part in [before, behind] {
                if part.begin < part.end {
                    left.push_back((version, part));
                }
            }
        }
        self.drops = left;
    }

    /// The version of rows of a range that were fetched at or after a version.
    fn finished_since(&self, begin: &Key, end: &Key, version: Version) -> Option<Version> {
        let covers = |range: &KeyRange| range.begin <= *begin && *end <= range.end;
        let finished = self
            .finished
            .iter()
            .filter(|(range, from)| covers(range) && *from >= version);
        finished.map(|(_, from)| *from).max()
    }

    /// Returns the fetches that are under way or must be started: attempt, range, sources, and the
    /// earliest version they may read at.
    pub fn fetches(&self) -> Vec<(u64, KeyRange, Rc<[Tag]>, Version)> {
        self.shards
            .whole()
            .filter_map(|(range, shard)| match &shard.part {
                Part::Fetching { fetch, since, .. } => {
                    Some((*fetch, range, shard.serving.clone(), *since))
                }
                _ => None,
            })
            .collect()
    }

    /// Stores the rows of a fetch as of `version`, a version that cannot be undone. Returns whether
    /// that attempt still counts.
    pub fn finish_fetch(&mut self, fetch: u64, version: Version, rows: &[(Key, Bytes)]) -> bool {
        assert!(
            version <= self.known_committed,
            "fetched rows are never undone"
        );
        let found = self
            .shards
            .iter_mut()
            .find_map(|(begin, shard)| match &mut shard.part {
                Part::Fetching {
                    fetch: this,
                    buffer,
                    ..
                } if *this == fetch => {
                    let buffer = std::mem::take(buffer);
                    shard.part = Part::Held { from: version };
                    Some((begin.clone(), buffer))
                }
                _ => None,
            });
        let Some((begin, buffer)) = found else {
            return false;
        };
        let end = self.shards.end_of(&begin);
        self.rows.forget_range(&begin, &end);
        self.cancel_drops(&begin, &end);
        // On disk immediately, and never undone: the oldest version is the one that stays.
        let oldest = self.rows.oldest();
        for (key, value) in rows {
            self.rows.set(oldest, key, value);
        }
        for (at, mutation) in buffer {
            if at <= version {
                continue;
            }
            let key = SmallKey::from(&mutation.param1);
            apply_to_rows(&mut self.rows, at, key, &mutation);
        }
        self.finished.push((KeyRange { begin, end }, version));
        true
    }

    /// Moves the window, as far as nothing in it can be undone any more.
    pub fn forget_before(&mut self, oldest: Version) {
        let oldest = oldest.min(self.known_committed);
        self.rows.forget_before(oldest);
        self.finished.retain(|(_, from)| *from > oldest);
        while self
            .undo
            .front()
            .is_some_and(|(version, _)| *version <= oldest)
        {
            self.undo.pop_front();
        }
        while self
            .drops
            .front()
            .is_some_and(|(version, _)| *version <= oldest)
        {
            let (_, range) = self.drops.pop_front().expect("looked at above");
            self.rows.forget_range(&range.begin, &range.end);
        }
    }

    /// Undoes everything after a version of the window.
    pub fn rollback(&mut self, to: Version) {
        if to >= self.version {
            return;
        }
        self.rows.rollback(to);
        while self.undo.back().is_some_and(|(version, _)| *version > to) {
            let (_, before) = self.undo.pop_back().expect("looked at above");
            let Some((begin, _)) = before.first() else {
                continue;
            };
            // The last entry of `before` is where the remembered range ends.
            let (end, _) = before.last().expect("it has a first");
            let gone: Vec<Key> = self
                .shards
                .beginning_in(begin, end)
                .map(|(key, _)| key.clone())
                .collect();
            for key in gone {
                self.shards.remove(&key);
            }
            for (begin, shard) in before.iter().take(before.len() - 1) {
                self.shards.insert(begin.clone(), shard.clone());
            }
        }
        self.drops.retain(|(version, _)| *version <= to);
        self.version = to;
        // Fetched rows stay, even where the fetch itself will be replayed: what they already
        // contain must not be applied to them again.
        for (range, fetched) in self.finished.clone() {
            if fetched <= to {
                continue;
            }
            self.cut(&range.begin);
            self.cut(&range.end);
            for (_, shard) in self.shards.beginning_in_mut(&range.begin, &range.end) {
                if let Part::Held { from } = &mut shard.part {
                    *from = fetched.max(*from);
                }
            }
        }
        self.restart_fetches();
    }

    /// Drops what was only in memory when the process dies; what was on disk stays.
    pub fn lose_memory(&mut self) {
        self.rollback(self.rows.oldest());
        self.restart_fetches();
        assert_eq!(
            self.version,
            self.rows.oldest(),
            "only what is on disk is left"
        );
    }

    /// The range of keys around `key` that this server answers for, and the first version it can
    /// answer at.
    pub fn served_around(&self, key: &[u8]) -> Option<(KeyRange, Version)> {
        let mut before = self.shards.back_from(key);
        let (begin, shard) = before.next()?;
        let mut from = self.serves(shard)?;
        let mut begin = begin;
        for (earlier, shard) in before {
            let Some(since) = self.serves(shard) else {
                break;
            };
            (begin, from) = (earlier, from.max(since));
        }
        let mut end = ALL_END;
        for (later, shard) in self.shards.after(key) {
            match self.serves(shard) {
                Some(since) => from = from.max(since),
                None => {
                    end = later.clone();
                    break;
                }
            }
        }
        Some((
            KeyRange {
                begin: begin.clone(),
                end,
            },
            from,
        ))
    }

    /// The shards that this server answers for, each with the first version it can answer at.
    pub fn served(&self) -> impl Iterator<Item = (KeyRange, Version)> {
        let shards = self.shards.whole();
        shards.filter_map(|(range, shard)| Some((range, self.serves(shard)?)))
    }

    /// Whether all rows of a range are here.
    pub fn holds(&self, range: &KeyRange) -> bool {
        self.shards
            .overlapping(range)
            .all(|(_, shard)| matches!(shard.part, Part::Held { .. }))
    }

    /// Returns the servers that answer for a key, and the key up to which they do.
    pub fn serving(&self, key: &[u8]) -> (Rc<[Tag]>, Key) {
        let (_, shard) = self.shards.around(key);
        (shard.serving.clone(), self.shards.end_of(key))
    }

    /// Returns a key that stands for the keys just before `key`: one in the last shard that begins
    /// before it.
    pub fn last_key_before(&self, key: &[u8]) -> Key {
        let shard = self.shards.beginning_in(b"", key).next_back();
        shard.map_or_else(Key::new, |(begin, _)| begin.clone())
    }

    /// The version from which on this server answers for a shard; `None` if it does not.
    fn serves(&self, shard: &Shard) -> Option<Version> {
        match shard.part {
            Part::Held { from } if shard.serving.contains(&self.tag) => Some(from),
            _ => None,
        }
    }

    /// Makes a key the beginning of a shard. A fetch that is cut restarts in both halves.
    fn cut(&mut self, key: &Key) {
        if **key >= *ALL_END || self.shards.begins_with(key) {
            return;
        }
        let found_by = SmallKey::from(key);
        let mut half = self.shards.around_mut(&found_by).clone();
        if let Part::Fetching { fetch, .. } = &mut half.part {
            *fetch = self.next_fetch;
            self.next_fetch += 2;
            let second = self.next_fetch - 1;
            let first = self.shards.around_mut(&found_by);
            if let Part::Fetching { fetch, buffer, .. } = &mut first.part {
                *fetch = second;
                buffer.retain(|(_, mutation)| mutation.param1 < *key);
            }
            if let Part::Fetching { buffer, .. } = &mut half.part {
                buffer.retain(|(_, mutation)| mutation.param1 >= *key);
            }
        }
        self.shards.insert(key.clone(), half);
    }

    /// Records the shards of a range before they change. The last entry only marks where they end.
    fn remember(&mut self, version: Version, range: &KeyRange) {
        let before = self.shards.overlapping(range);
        let mut before: Vec<(Key, Shard)> = before
            .map(|(keys, shard)| (keys.begin, shard.clone()))
            .collect();
        let Some((last, shard)) = before.last().cloned() else {
            return;
        };
        before.push((self.shards.end_of(&last), shard));
        self.undo.push_back((version, before));
    }

    /// Restarts fetches that were under way when the server rolled back.
    fn restart_fetches(&mut self) {
        let version = self.version;
        for (_, range, _, since) in self.fetches() {
            let finished = self.finished_since(&range.begin, &range.end, since);
            let fetch = self.next_fetch;
            self.next_fetch += 1;
            let shard = self.shards.around_mut(&SmallKey::from(&range.begin));
            shard.part = match finished {
                Some(from) => Part::Held { from },
                None => Part::Fetching {
                    fetch,
                    since: version,
                    buffer: Vec::new(),
                },
            };
        }
    }
}

/// Applies a mutation, whose first parameter is this key.
fn apply_to_rows(rows: &mut VersionedMap, version: Version, key: SmallKey, mutation: &Mutation) {
    let Mutation {
        kind,
        param1,
        param2,
    } = mutation;
    match kind {
        MutationKind::SetValue => rows.set(version, key, param2),
        MutationKind::ClearRange => rows.clear_range(version, param1, param2),
        _ => rows.update(version, key, |existing| {
            atomic::outcome(*kind, existing, param2)
        }),
    }
}
