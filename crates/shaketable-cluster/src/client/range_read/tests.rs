//! Range reads against a plain ordered map: no matter what is cached and written, and how small the
//! batches are, the rows are those of the map.

use super::{RangeRead, RangeResult, Step};
use crate::client::RangeLimits;
use crate::client::operations::Operation;
use crate::client::overlay::Overlay;
use crate::client::snapshot_cache::SnapshotCache;
use crate::client::write_map::WriteMap;
use crate::data::key::{ALL_END, NORMAL_END};
use crate::proto::{Key, KeySelector, KeyValue, MutationKind, Value};
use std::collections::BTreeMap;

type Rows = BTreeMap<Key, Value>;

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn key(&mut self) -> Key {
        let mut key = format!("k{:02}", self.below(20)).into_bytes();
        if self.below(4) == 0 {
            key.push(0);
        }
        key.into()
    }

    fn selector(&mut self) -> KeySelector {
        let (key, or_equal) = (self.key(), self.below(2) == 0);
        KeySelector {
            key,
            or_equal,
            offset: self.below(9) as i32 - 4,
        }
        .normalised()
    }
}

/// The index of the row that a selector stands for: -1 and the number of rows are off the ends.
fn index_of(rows: &[KeyValue], selector: &KeySelector) -> usize {
    let base = rows.partition_point(|row| row.key < selector.key) as i64;
    (base + i64::from(selector.offset) - 1).clamp(0, rows.len() as i64) as usize
}

fn model(rows: &Rows, begin: &KeySelector, end: &KeySelector, reverse: bool) -> Vec<KeyValue> {
    let all: Vec<_> = rows
        .iter()
        .map(|(k, v)| KeyValue {
            key: k.clone(),
            value: v.clone(),
        })
        .collect();
    let (from, to) = (index_of(&all, begin), index_of(&all, end));
    let mut found = if from < to {
        all[from..to].to_vec()
    } else {
        vec![]
    };
    if reverse {
        found.reverse();
    }
    found
}

/// What the database returns for one request.
fn answer(
    rows: &Rows,
    begin: &KeySelector,
    end: &KeySelector,
    mut limits: RangeLimits,
    reverse: bool,
) -> RangeResult {
    let mut result = RangeResult::default();
    for row in model(rows, begin, end, reverse) {
        limits.decrement(&row);
        result.rows.push(row);
        if limits.is_reached() {
            result.more = true;
            break;
        }
    }
    let off_begin = |selector: &KeySelector| {
        rows.range::<Key, _>(..&selector.key).count() as i64 + i64::from(selector.offset) < 1
    };
    let off_end = |selector: &KeySelector| {
        rows.range::<Key, _>(&selector.key..).count() as i64 + 1 < i64::from(selector.offset)
    };
    let from_begin = !reverse || !result.more;
    let to_end = reverse || !result.more;
    result.read_to_begin = off_begin(begin) && from_begin;
    result.read_through_end = off_end(end) && to_end;
    result
}

/// Runs one read to its end.
fn play(
    database: &Rows,
    cache: &mut SnapshotCache,
    writes: &WriteMap,
    mut read: RangeRead,
) -> RangeResult {
    for _ in 0..1_000 {
        let overlay = Overlay {
            cache,
            writes,
            bypass_unreadable: false,
        };
        match read.advance(overlay).unwrap() {
            Step::Done(result) => return result,
            Step::Resolve(selector) => {
                let key = resolve(database, cache, writes, selector);
                read.resolved(key);
            }
            Step::Read { begin, end, limits } => {
                let result = answer(database, &begin, &end, limits, read.reverse);
                if let Some((from, to)) = read.learn(&begin, &end, &result) {
                    let mut rows = result.rows;
                    if read.reverse {
                        rows.reverse();
                    }
                    cache.insert_range(from, to, rows.into());
                }
            }
        }
    }
    panic!("the read does not end: {read:?}");
}

fn resolve(
    database: &Rows,
    cache: &mut SnapshotCache,
    writes: &WriteMap,
    mut selector: KeySelector,
) -> Key {
    let edge = KeySelector::first_greater_or_equal;
    let forward = selector.offset > 0;
    let limits = RangeLimits::rows(1);
    let read = if forward {
        RangeRead::new(selector, edge(NORMAL_END), limits, false, NORMAL_END)
    } else {
        selector.offset += 1;
        RangeRead::new(edge(Key::new()), selector, limits, true, NORMAL_END)
    };
    let result = play(database, cache, writes, read);
    match result.rows.first() {
        _ if forward && result.read_to_begin => Key::new(),
        _ if !forward && result.read_through_end => NORMAL_END,
        Some(row)
            if !(forward && result.read_through_end) && (forward || !result.read_to_begin) =>
        {
            row.key.clone()
        }
        _ if forward => NORMAL_END,
        _ => Key::new(),
    }
}

#[test]
fn rows_are_those_of_an_ordered_map_whatever_is_cached_and_written() {
    for seed in 0..3_000 {
        let mut random = Random(seed);
        let mut database = Rows::new();
        for _ in 0..random.below(30) {
            database.insert(random.key(), format!("{}", random.below(100)).into());
        }
        let (mut cache, mut writes) = (SnapshotCache::new(), WriteMap::new());
        let mut expected = database.clone();
        for _ in 0..20 {
            match random.below(4) {
                0 => {
                    let (key, value) = (random.key(), Value::from_static(b"mine"));
                    expected.insert(key.clone(), value.clone());
                    let operation = Operation {
                        kind: MutationKind::SetValue,
                        value: Some(value),
                    };
                    writes.mutate(key, operation, random.below(2) == 0);
                }
                1 => {
                    let (a, b) = (random.key(), random.key());
                    let (begin, end) = if a < b { (a, b) } else { (b, a) };
                    if begin < end {
                        expected.retain(|key, _| *key < begin || *key >= end);
                        writes.clear(begin, end, random.below(2) == 0);
                    }
                }
                2 => {
                    let key = random.key();
                    let operand = Value::from_static(b"!");
                    let old = expected.get(&key).cloned().unwrap_or_default();
                    expected.insert(key.clone(), [&old[..], &operand].concat().into());
                    let operation = Operation {
                        kind: MutationKind::AppendIfFits,
                        value: Some(operand),
                    };
                    writes.mutate(key, operation, true);
                }
                _ => {}
            }
            let (begin, end, reverse) =
                (random.selector(), random.selector(), random.below(2) == 0);
            if begin.offset >= end.offset && begin.key >= end.key {
                continue;
            }
            let limits = RangeLimits {
                rows: (random.below(2) == 0).then(|| random.below(5) as i32 + 1),
                min_rows: 1,
                bytes: Some(random.below(80) as i32 + 1),
            };
            let read = RangeRead::new(begin.clone(), end.clone(), limits, reverse, NORMAL_END);
            let result = play(&database, &mut cache, &writes, read);
            let all = model(&expected, &begin, &end, reverse);
            let context = format!("seed {seed}: {begin:?} {end:?} {limits:?} reverse {reverse}");
            if result.more {
                assert!(
                    all.starts_with(&result.rows),
                    "{context}: {result:?} instead of {all:?}"
                );
                assert!(!result.rows.is_empty(), "{context}");
            } else {
                assert_eq!(result.rows, all, "{context}");
            }
            assert!(result.rows.iter().all(|row| row.key < ALL_END));

            let selector = random.selector();
            let rows: Vec<_> = model(
                &expected,
                &KeySelector::first_greater_or_equal(Key::new()),
                &KeySelector::first_greater_or_equal(NORMAL_END),
                false,
            );
            let base = rows.partition_point(|row| row.key < selector.key) as i64;
            let index = base + i64::from(selector.offset) - 1;
            let key = match usize::try_from(index) {
                Err(_) => Key::new(),
                Ok(index) => rows.get(index).map_or(NORMAL_END, |row| row.key.clone()),
            };
            let found = resolve(&database, &mut cache, &writes, selector.clone());
            assert_eq!(found, key, "seed {seed}: {selector:?}");
        }
    }
}
