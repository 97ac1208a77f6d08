//! The database as a plain ordered map: what FoundationDB promises to look like from inside a
//! transaction.
//!
//! The map remembers what was there before each change, so that a transaction can be tried on it
//! and taken back: a history of hundreds of transactions is walked through on one map, without a
//! copy for each.

use super::observation::{Read, Step};
use crate::data::{atomic, versionstamp};
use crate::proto::{
    Key, KeyRange, KeySelector, KeyValue, Mutation, MutationKind, Value, Versionstamp,
};
use bytes::Bytes;
use std::collections::BTreeMap;

/// The end of the keys that this model holds.
const END: &[u8] = b"\xff";

/// The user's keys and their values at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    map: BTreeMap<Key, Value>,
    /// The former values of the keys that have changed since the last [`Model::keep`] or
    /// [`Model::take_back`], oldest first.
    before: Vec<(Key, Option<Value>)>,
}

/// Keys that have changed, with their new values.
pub(super) type Changes = BTreeMap<Key, Option<Value>>;

impl Model {
    /// What has changed since the last [`Model::keep`] or [`Model::take_back`]: only keys whose
    /// value is now different.
    pub(super) fn changes(&self) -> Changes {
        let mut first: BTreeMap<&Key, &Option<Value>> = BTreeMap::new();
        for (key, old) in &self.before {
            first.entry(key).or_insert(old);
        }
        let changed = first
            .into_iter()
            .filter(|(key, old)| self.map.get(*key) != old.as_ref());
        changed
            .map(|(key, _)| (key.clone(), self.map.get(key).cloned()))
            .collect()
    }

    /// Keeps all changes so far.
    pub(super) fn keep(&mut self) {
        self.before.clear();
    }

    /// Takes back all changes since the last call, or since the last [`Model::keep`].
    pub(super) fn take_back(&mut self) {
        while let Some((key, old)) = self.before.pop() {
            match old {
                Some(value) => self.map.insert(key, value),
                None => self.map.remove(&key),
            };
        }
    }

    fn put(&mut self, key: Key, value: Option<Value>) {
        let old = match value {
            Some(value) => self.map.insert(key.clone(), value),
            None => self.map.remove(&key),
        };
        self.before.push((key, old));
    }

    /// Applies a mutation of a committed transaction. System keys are outside this model.
    pub(super) fn apply(&mut self, mutation: Mutation, stamp: Versionstamp) {
        let Mutation {
            kind,
            param1,
            param2,
        } = versionstamp::resolve(mutation, stamp);
        if kind == MutationKind::ClearRange {
            let end = param2.min(Bytes::from_static(END));
            if param1 < end {
                let rows = self.map.range(param1..end);
                let cleared: Vec<Key> = rows.map(|(key, _)| key.clone()).collect();
                cleared.into_iter().for_each(|key| self.put(key, None));
            }
        } else if &param1[..] < END {
            let value = atomic::apply(kind, self.map.get(&param1), &param2);
            self.put(param1, value);
        }
    }

    /// Does to the map what a call of the application asks for. The outcome of a versionstamped
    /// call needs a stamp.
    pub(super) fn call(&mut self, step: &Step, stamp: Versionstamp) {
        let mutation = match step.clone() {
            Step::Mutate { kind, key, operand } => Mutation {
                kind,
                param1: key,
                param2: operand,
            },
            Step::Clear(KeyRange { begin, end }) => Mutation {
                kind: MutationKind::ClearRange,
                param1: begin,
                param2: end,
            },
            Step::Read { .. } => return,
        };
        self.apply(mutation, stamp);
    }

    /// Returns what a read should have shown, in words, if it showed something else.
    pub(super) fn contradicts(&self, read: &Read) -> Option<String> {
        match read {
            Read::Get { key, value } => {
                let expected = self.map.get(key);
                (expected != value.as_ref()).then(|| format!("{expected:?}"))
            }
            Read::GetKey { selector, key } => {
                let expected = self.resolve(selector);
                (expected != *key).then(|| format!("{expected:?}"))
            }
            Read::GetRange {
                begin,
                end,
                reverse,
                limit,
                rows,
                more,
            } => {
                let (begin, end) = (self.resolve(begin), self.resolve(end));
                let mut expected = Vec::new();
                if begin < end {
                    let rows = self.map.range(begin..end);
                    expected.extend(rows.map(|(key, value)| (key.clone(), value.clone())));
                }
                if *reverse {
                    expected.reverse();
                }
                let all = expected.len();
                expected.truncate(rows.len());
                let same = expected.iter().map(row).eq(rows.iter().cloned());
                let too_many = limit.is_some_and(|limit| rows.len() > limit);
                let too_few = if *more {
                    rows.is_empty()
                } else {
                    rows.len() < all
                };
                let wrong = !same || too_many || too_few;
                wrong.then(|| format!("{expected:?} of {all} rows, limit {limit:?}"))
            }
        }
    }

    /// The key that a selector resolves to; a walk that leaves the map ends at its edge.
    fn resolve(&self, selector: &KeySelector) -> Key {
        let before = if selector.or_equal {
            self.map.range(..=selector.key.clone()).count()
        } else {
            self.map.range(..selector.key.clone()).count()
        };
        let index = before as i64 - 1 + i64::from(selector.offset);
        match usize::try_from(index) {
            Err(_) => Bytes::new(),
            Ok(index) => self
                .map
                .keys()
                .nth(index)
                .cloned()
                .unwrap_or(Bytes::from_static(END)),
        }
    }
}

fn row((key, value): &(Key, Value)) -> KeyValue {
    KeyValue {
        key: key.clone(),
        value: value.clone(),
    }
}
