//! The database as a plain ordered map: what FoundationDB promises to look like from inside a transaction.

use super::observation::{Read, Step};
use crate::client::{atomic, versionstamp};
use crate::proto::{
    Key, KeyRange, KeySelector, KeyValue, Mutation, MutationKind, Value, Versionstamp,
};
use bytes::Bytes;
use std::collections::BTreeMap;

/// Where the keys end that this model holds.
const END: &[u8] = b"\xff";

/// The user's keys and their values at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Model(BTreeMap<Key, Value>);

impl Model {
    /// Applies a mutation of a committed transaction. System keys are none of this model's business.
    pub(super) fn apply(&mut self, mutation: Mutation, stamp: Versionstamp) {
        let Mutation {
            kind,
            param1,
            param2,
        } = versionstamp::resolve(mutation, stamp);
        if kind == MutationKind::ClearRange {
            let end = param2.min(Bytes::from_static(END));
            if param1 < end {
                let cleared: Vec<Key> = self
                    .0
                    .range(param1..end)
                    .map(|(key, _)| key.clone())
                    .collect();
                cleared.iter().for_each(|key| drop(self.0.remove(key)));
            }
        } else if &param1[..] < END {
            match atomic::apply(kind, self.0.get(&param1), &param2) {
                Some(value) => self.0.insert(param1, value),
                None => self.0.remove(&param1),
            };
        }
    }

    /// Does to the map what a call of the application asks for. The outcome of a versionstamped one needs a stamp.
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

    /// What a read should have shown, in words, if that is not what it did show.
    pub(super) fn contradicts(&self, read: &Read) -> Option<String> {
        match read {
            Read::Get { key, value } => {
                let expected = self.0.get(key);
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
                    expected.extend(
                        self.0
                            .range(begin..end)
                            .map(|(k, v)| (k.clone(), v.clone())),
                    );
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

    /// What differs between two maps, in words: of the first key where they do.
    pub(super) fn first_difference(&self, other: &Model) -> Option<(String, String)> {
        let mut keys: Vec<&Key> = self.0.keys().chain(other.0.keys()).collect();
        keys.sort();
        let key = keys
            .into_iter()
            .find(|key| self.0.get(*key) != other.0.get(*key))?;
        let show = |model: &Model| format!("{key:?} = {:?}", model.0.get(key));
        Some((show(self), show(other)))
    }

    /// The key that a selector resolves to; a walk that leaves the map ends at its edge.
    fn resolve(&self, selector: &KeySelector) -> Key {
        let before = if selector.or_equal {
            self.0.range(..=selector.key.clone()).count()
        } else {
            self.0.range(..selector.key.clone()).count()
        };
        let index = before as i64 - 1 + i64::from(selector.offset);
        match usize::try_from(index) {
            Err(_) => Bytes::new(),
            Ok(index) => self
                .0
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
