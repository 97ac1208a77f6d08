//! How calls, answers and commits become parts of a record, and how much memory these take.

use super::RecordSettings;
use crate::value::Value;
use shaketable_cluster::error::Error;
use shaketable_cluster::proto::{KeyRange, KeySelector, Mutation as Change, MutationKind};
use shaketable_record::text::atomic_name;
use shaketable_record::{Answer, Bytes, Call, Commit, Mutation, Range, Selector};

/// Keys are kept whole up to FoundationDB's own limit.
pub(super) const KEY_BYTES_MAX: usize = 10_000;
/// How many rows of an answer are kept.
const ROWS_MAX: usize = 1000;
/// How many ranges or changes of a commit are kept, each.
const COMMIT_PARTS_MAX: usize = 5000;
/// The prefix of keys that make a transaction conflict with itself. They say nothing.
pub(super) const SELF_CONFLICT_PREFIX: &[u8] = b"\xff/SC/";

/// How keys and values become parts of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keep {
    value_bytes_max: usize,
}

impl Keep {
    pub(crate) fn new(settings: &RecordSettings) -> Keep {
        Keep {
            value_bytes_max: settings.value_bytes_max,
        }
    }

    pub(crate) fn key(self, key: &[u8]) -> Bytes {
        Bytes::shortened(key, KEY_BYTES_MAX)
    }

    pub(crate) fn value(self, value: &[u8]) -> Bytes {
        Bytes::shortened(value, self.value_bytes_max)
    }

    pub(crate) fn range(self, begin: &[u8], end: &[u8]) -> Range {
        Range {
            begin: self.key(begin),
            end: self.key(end),
        }
    }

    pub(crate) fn selector(self, selector: &KeySelector) -> Selector {
        Selector {
            key: self.key(&selector.key),
            or_equal: selector.or_equal,
            offset: selector.offset,
        }
    }

    pub(super) fn ranges(self, ranges: &[KeyRange]) -> Vec<Range> {
        let told = ranges
            .iter()
            .filter(|range| !range.begin.starts_with(SELF_CONFLICT_PREFIX));
        told.take(COMMIT_PARTS_MAX)
            .map(|range| self.range(&range.begin, &range.end))
            .collect()
    }

    pub(super) fn mutations(self, changes: &[Change]) -> Vec<Mutation> {
        let changes = changes.iter().take(COMMIT_PARTS_MAX);
        changes.map(|change| self.mutation(change)).collect()
    }

    fn mutation(self, change: &Change) -> Mutation {
        match change.kind {
            MutationKind::SetValue => Mutation::Set {
                key: self.key(&change.param1),
                value: self.value(&change.param2),
            },
            MutationKind::ClearRange => Mutation::Clear {
                range: self.range(&change.param1, &change.param2),
            },
            kind => Mutation::Atomic {
                key: self.key(&change.param1),
                operand: self.value(&change.param2),
                name: atomic_name(kind as i32),
            },
        }
    }

    pub(super) fn answer(self, outcome: &Result<Value, Error>) -> Answer {
        let value = match outcome {
            Ok(value) => value,
            Err(error) => return Answer::Error(error.0),
        };
        match value {
            Value::Int64(number) => Answer::Version(*number),
            Value::Key(key) => Answer::Key(self.key(key)),
            Value::Optional(value) => Answer::Value(value.as_ref().map(|value| self.value(value))),
            Value::Rows(rows) => self.rows(
                rows.owners().iter().map(|row| (&row.key, &row.value)),
                rows.more,
            ),
            Value::MappedRows(rows) => {
                let owners = rows.owners().iter();
                self.rows(owners.map(|one| (&one.row.key, &one.row.value)), rows.more)
            }
            _ => Answer::Nothing,
        }
    }

    fn rows<'a>(
        self,
        rows: impl ExactSizeIterator<Item = (&'a bytes::Bytes, &'a bytes::Bytes)>,
        more: bool,
    ) -> Answer {
        let count = rows.len() as u32;
        let rows = rows.take(ROWS_MAX);
        Answer::Rows {
            rows: rows
                .map(|(key, value)| (self.key(key), self.value(value)))
                .collect(),
            count,
            more,
        }
    }
}

pub(super) fn call_bytes(call: &Call) -> usize {
    match call {
        Call::Get { key, .. } | Call::Watch { key } => key.kept().len(),
        Call::GetKey { selector, .. } => selector.key.kept().len(),
        Call::GetRange(range) | Call::GetMappedRange(range) => {
            range.begin.key.kept().len() + range.end.key.kept().len()
        }
        Call::Set { key, value } => key.kept().len() + value.kept().len(),
        Call::Clear { range } | Call::AddConflictRange { range, .. } => range_bytes(range),
        Call::Atomic { key, operand, .. } => key.kept().len() + operand.kept().len(),
        _ => 0,
    }
}

pub(super) fn answer_bytes(answer: &Answer) -> usize {
    const ROW_BYTES: usize = size_of::<(Bytes, Bytes)>();
    match answer {
        Answer::Key(key) | Answer::Value(Some(key)) => key.kept().len(),
        Answer::Rows { rows, .. } => rows
            .iter()
            .map(|(key, value)| ROW_BYTES + key.kept().len() + value.kept().len())
            .sum(),
        _ => 0,
    }
}

fn range_bytes(range: &Range) -> usize {
    size_of::<Range>() + range.begin.kept().len() + range.end.kept().len()
}

pub(super) fn commit_bytes(commit: &Commit) -> usize {
    let ranges: usize = commit
        .reads
        .iter()
        .chain(&commit.writes)
        .map(range_bytes)
        .sum();
    let mutations: usize = commit
        .mutations
        .iter()
        .map(|mutation| {
            size_of::<Mutation>()
                + match mutation {
                    Mutation::Set { key, value } => key.kept().len() + value.kept().len(),
                    Mutation::Clear { range } => range_bytes(range),
                    Mutation::Atomic { key, operand, .. } => {
                        key.kept().len() + operand.kept().len()
                    }
                }
        })
        .sum();
    ranges + mutations
}
