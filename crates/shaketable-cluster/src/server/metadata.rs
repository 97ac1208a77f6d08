//! The part of the database that steers the cluster itself: FoundationDB's transaction state store.
//!
//! Keys under `\xff/` are ordinary keys, held by storage servers and readable by clients. Commit
//! proxies and logs keep a copy of them, because they decide where everything else goes:
//!
//! * `\xff/keyServers/<begin>`: which storage servers serve the shard that begins there, and which
//!   are about to;
//! * `\xff/serverList/<id>`: the storage servers;
//! * `\xff/rangeLock/<begin>`: whether writes to the range that begins there are refused;
//! * `\xff/dbLocked`, `\xff/metadataVersion`, `\xff/coordinators`, `\xff/conf/…`.

use crate::data::key::METADATA_VERSION;
use crate::proto::{Key, KeyRange, Mutation, MutationKind, Value};
use crate::server::messages::{DatabaseState, LogBatch, Payload, ShardChange, Tag};
use crate::server::range_map::RangeMap;
use bytes::{Buf, BufMut, BytesMut};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;

/// Everything that steers the cluster lives under here.
pub const METADATA_PREFIX: &[u8] = b"\xff/";
/// Where the metadata ends.
pub const METADATA_END: &[u8] = b"\xff0";
/// Prefix of the shard boundaries.
pub const KEY_SERVERS_PREFIX: &[u8] = b"\xff/keyServers/";
/// Prefix of the storage servers.
pub const SERVER_LIST_PREFIX: &[u8] = b"\xff/serverList/";
/// Prefix of the boundaries of locked ranges.
pub const RANGE_LOCK_PREFIX: &[u8] = b"\xff/rangeLock/";
/// The coordinators, as in a cluster file. Whoever sets it to others asks for a change.
pub const COORDINATORS_KEY: &[u8] = b"\xff/coordinators";
/// Set while the database is locked.
pub const DATABASE_LOCKED_KEY: &[u8] = b"\xff/dbLocked";

/// The servers that hold a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Team {
    /// The servers that answer reads.
    pub serving: Rc<[Tag]>,
    /// The servers that receive mutations and fetch the rest.
    pub fetching: Rc<[Tag]>,
    /// Both.
    pub all: Rc<[Tag]>,
}

impl Team {
    /// A team of these servers.
    pub fn new(serving: &[Tag], fetching: &[Tag]) -> Team {
        let mut all = serving.to_vec();
        all.extend(fetching.iter().filter(|tag| !serving.contains(tag)));
        Team {
            serving: serving.into(),
            fetching: fetching.into(),
            all: all.into(),
        }
    }

    /// Encodes the team as the value of a row of `\xff/keyServers/`.
    pub fn encode(&self) -> Value {
        let mut bytes = BytesMut::new();
        for part in [&self.serving, &self.fetching] {
            bytes.put_u8(part.len() as u8);
            for tag in part.iter() {
                bytes.put_u64(*tag);
            }
        }
        bytes.freeze()
    }

    /// Decodes the value of a row; `None` if it has another format.
    pub fn decode(mut value: &[u8]) -> Option<Team> {
        let mut parts = [Vec::new(), Vec::new()];
        for part in &mut parts {
            for _ in 0..value.try_get_u8().ok()? {
                part.push(value.try_get_u64().ok()?);
            }
        }
        Some(Team::new(&parts[0], &parts[1]))
    }
}

/// The key of a shard's row.
pub fn key_servers_key(begin: &[u8]) -> Key {
    [KEY_SERVERS_PREFIX, begin].concat().into()
}

/// The key of a storage server's row.
pub fn server_list_key(tag: Tag) -> Key {
    [SERVER_LIST_PREFIX, &tag.to_be_bytes()].concat().into()
}

/// The storage server whose row has this key.
pub fn server_list_tag(key: &[u8]) -> Option<Tag> {
    let tag = key.strip_prefix(SERVER_LIST_PREFIX)?;
    Some(Tag::from_be_bytes(tag.try_into().ok()?))
}

/// Whether a mutation changes metadata.
pub fn touches_metadata(mutation: &Mutation) -> bool {
    match mutation.kind {
        MutationKind::ClearRange => {
            *mutation.param1 < *METADATA_END && *mutation.param2 > *METADATA_PREFIX
        }
        _ => mutation.param1.starts_with(METADATA_PREFIX),
    }
}

/// A copy of the metadata, with the shard map derived from it. Every log and every proxy has one
/// and most never change theirs, so clones share one copy until one of them changes.
#[derive(Clone, Debug, Default)]
pub struct Metadata(Rc<Maps>);

#[derive(Clone, Debug, Default)]
struct Maps {
    rows: BTreeMap<Key, Value>,
    shards: RangeMap<Team>,
    locks: BTreeMap<Key, bool>,
    /// Needed for every batch.
    state: DatabaseState,
}

impl Metadata {
    /// Applies what happened at a version.
    pub fn apply_batch(&mut self, batch: &LogBatch) {
        if !batch.touches_metadata {
            return;
        }
        for entry in &batch.entries {
            if let Payload::Mutation(mutation) = &entry.payload {
                self.apply(mutation);
            }
        }
    }

    /// Applies a mutation and returns where it changed shards, if it did: see
    /// [`Metadata::shard_changes`]. Mutations of other keys change nothing.
    pub fn apply(&mut self, mutation: &Mutation) -> Option<KeyRange> {
        if !touches_metadata(mutation) {
            return None;
        }
        Rc::make_mut(&mut self.0).apply(mutation)
    }

    /// Returns what storage servers must be told about a range whose shards have changed.
    pub fn shard_changes(&self, range: &KeyRange) -> Vec<ShardChange> {
        self.shards_of(range)
            .map(|(range, team)| ShardChange {
                range,
                serving: team.serving.clone(),
                fetching: team.fetching.clone(),
            })
            .collect()
    }

    /// The value of a metadata key.
    pub fn get(&self, key: &[u8]) -> Option<&Value> {
        self.0.rows.get(key)
    }

    /// The rows whose keys begin with a prefix.
    pub fn with_prefix(&self, prefix: &'static [u8]) -> impl Iterator<Item = (&Key, &Value)> {
        self.0
            .rows
            .range::<[u8], _>((Bound::Included(prefix), Bound::Unbounded))
            .take_while(move |(key, _)| key.starts_with(prefix))
    }

    /// What proxies hand out along with versions.
    pub fn database_state(&self) -> &DatabaseState {
        &self.0.state
    }

    /// The team of a key.
    pub fn team(&self, key: &[u8]) -> &Team {
        self.0.shards.around(key).1
    }

    /// The shards that overlap a range, in order and from both ends. The ranges are clipped to it.
    pub fn shards_of<'a>(
        &'a self,
        range: &'a KeyRange,
    ) -> impl DoubleEndedIterator<Item = (KeyRange, &'a Team)> {
        self.whole_shards_of(range).map(|(shard, team)| {
            let clipped = KeyRange {
                begin: shard.begin.max(range.begin.clone()),
                end: shard.end.min(range.end.clone()),
            };
            (clipped, team)
        })
    }

    /// The shards that overlap a range, in order and from both ends, whole.
    pub fn whole_shards_of<'a>(
        &'a self,
        range: &'a KeyRange,
    ) -> impl DoubleEndedIterator<Item = (KeyRange, &'a Team)> {
        self.0.shards.overlapping(range)
    }

    /// Every shard.
    pub fn shards(&self) -> impl Iterator<Item = (&Key, &Team)> {
        self.0.shards.iter()
    }

    /// The storage servers, with their addresses.
    pub fn servers(&self) -> impl Iterator<Item = (Tag, &Value)> {
        self.with_prefix(SERVER_LIST_PREFIX)
            .filter_map(|(key, value)| Some((server_list_tag(key)?, value)))
    }

    /// Whether any key of a range is locked against writes.
    pub fn is_range_locked(&self, begin: &[u8], end: &[u8]) -> bool {
        if self.0.locks.is_empty() {
            return false;
        }
        let before = self
            .0
            .locks
            .range::<[u8], _>((Bound::Unbounded, Bound::Included(begin)))
            .next_back()
            .is_some_and(|(_, locked)| *locked);
        before
            || begin < end
                && self
                    .0
                    .locks
                    .range::<[u8], _>((Bound::Included(begin), Bound::Excluded(end)))
                    .any(|(_, locked)| *locked)
    }
}

impl Maps {
    /// Applies a mutation that touches metadata.
    fn apply(&mut self, mutation: &Mutation) -> Option<KeyRange> {
        let mut touched: Option<KeyRange> = None;
        let changes_state;
        match mutation.kind {
            MutationKind::ClearRange => {
                let cleared: Vec<Key> = self
                    .rows
                    .range::<[u8], _>((
                        Bound::Included(&*mutation.param1),
                        Bound::Excluded(&*mutation.param2),
                    ))
                    .map(|(key, _)| key.clone())
                    .collect();
                changes_state = true;
                for key in cleared {
                    self.rows.remove(&key);
                    self.derive(&key, None, &mut touched);
                }
            }
            kind => {
                let key = &mutation.param1;
                changes_state = [DATABASE_LOCKED_KEY, &METADATA_VERSION].contains(&&**key);
                let old = self.rows.get(key);
                match crate::data::atomic::apply(kind, old, &mutation.param2) {
                    Some(value) => {
                        self.rows.insert(key.clone(), value.clone());
                        self.derive(key, Some(&value), &mut touched);
                    }
                    None => {
                        self.rows.remove(key);
                        self.derive(key, None, &mut touched);
                    }
                }
            }
        }
        if changes_state {
            self.state = DatabaseState {
                locked: self.rows.get(DATABASE_LOCKED_KEY).cloned(),
                metadata_version: self.rows.get(&METADATA_VERSION).cloned(),
            };
        }
        touched
    }

    /// Keeps the maps derived from rows in step with the rows.
    fn derive(&mut self, key: &Key, value: Option<&Value>, touched: &mut Option<KeyRange>) {
        if key.starts_with(KEY_SERVERS_PREFIX) {
            let begin = key.slice(KEY_SERVERS_PREFIX.len()..);
            match value.and_then(|value| Team::decode(value)) {
                Some(team) => {
                    self.shards.insert(begin.clone(), team);
                }
                // The first row cannot be removed: the map covers every key.
                None if begin.is_empty() => return,
                None => {
                    self.shards.remove(&begin);
                }
            }
            let end = self.shards.end_of(&begin);
            *touched = Some(match touched.take() {
                Some(old) => KeyRange {
                    begin: old.begin.min(begin),
                    end: old.end.max(end),
                },
                None => KeyRange { begin, end },
            });
        } else if key.starts_with(RANGE_LOCK_PREFIX) {
            let begin = key.slice(RANGE_LOCK_PREFIX.len()..);
            match value {
                Some(value) => self.locks.insert(begin, **value == *b"1"),
                None => self.locks.remove(&begin),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::key::ALL_END;

    fn set(key: Key, value: Value) -> Mutation {
        Mutation {
            kind: MutationKind::SetValue,
            param1: key,
            param2: value,
        }
    }

    fn key(text: &str) -> Key {
        Key::copy_from_slice(text.as_bytes())
    }

    fn ranges(metadata: &Metadata, begin: &str, end: &str) -> Vec<(Key, Key, Vec<Tag>)> {
        let range = KeyRange {
            begin: key(begin),
            end: key(end),
        };
        let shards = metadata.shards_of(&range);
        shards
            .map(|(range, team)| (range.begin, range.end, team.serving.to_vec()))
            .collect()
    }

    #[test]
    fn the_shard_map_follows_the_rows() {
        let mut metadata = Metadata::default();
        let first = Team::new(&[1, 2], &[]);
        metadata.apply(&set(key_servers_key(b""), first.encode()));
        let second = Team::new(&[2], &[3]);
        let touched = metadata.apply(&set(key_servers_key(b"m"), second.encode()));
        let changes = metadata.shard_changes(&touched.unwrap());
        assert_eq!(changes.len(), 1);
        assert_eq!(
            changes[0].range,
            KeyRange {
                begin: key("m"),
                end: ALL_END
            }
        );
        assert_eq!(*changes[0].fetching, [3]);
        assert_eq!(metadata.team(b"lzz"), &first);
        assert_eq!(*metadata.team(b"m").all, [2, 3]);
        assert_eq!(
            ranges(&metadata, "a", "z"),
            [
                (key("a"), key("m"), vec![1, 2]),
                (key("m"), key("z"), vec![2])
            ]
        );
        assert_eq!(
            ranges(&metadata, "a", "m"),
            [(key("a"), key("m"), vec![1, 2])]
        );

        let gone = Mutation {
            kind: MutationKind::ClearRange,
            param1: key_servers_key(b"a"),
            param2: key_servers_key(b"z"),
        };
        let touched = metadata.apply(&gone);
        let changes = metadata.shard_changes(&touched.unwrap());
        assert_eq!(*changes[0].serving, [1, 2]);
        assert_eq!(
            ranges(&metadata, "x", "z"),
            [(key("x"), key("z"), vec![1, 2])]
        );
    }

    #[test]
    fn a_locked_range_is_locked_up_to_its_end() {
        let mut metadata = Metadata::default();
        let lock = |text: &str| -> Key { [RANGE_LOCK_PREFIX, text.as_bytes()].concat().into() };
        metadata.apply(&set(lock("b"), key("1")));
        metadata.apply(&set(lock("d"), key("0")));
        let locked =
            |begin: &str, end: &str| metadata.is_range_locked(begin.as_bytes(), end.as_bytes());
        assert!(!locked("a", "b"));
        assert!(locked("a", "b\0"));
        assert!(locked("c", "c\0"));
        assert!(!locked("d", "e"));
        assert!(locked("a", "z"));
    }
}
