//! The map against a list of single keys, and what it promises about clears and versionstamps.

use super::*;
use crate::error::Error;
use crate::proto::Value;

fn operation(kind: MutationKind, value: &'static str) -> Operation {
    Operation {
        kind,
        value: Some(Bytes::from_static(value.as_bytes())),
    }
}

fn set(value: &'static str) -> Operation {
    operation(MutationKind::SetValue, value)
}

fn key(text: &'static str) -> Key {
    Bytes::from_static(text.as_bytes())
}

fn fold(map: &WriteMap, at: &str, value: Option<&'static str>) -> Result<Option<Value>, Error> {
    let stack = map
        .cursor(at.as_bytes())
        .operations()
        .expect("it was written");
    stack.fold_over(value.map(key).as_ref())
}

#[test]
fn an_operation_after_a_clear_needs_no_value_of_the_database() {
    let mut map = WriteMap::new();
    map.clear(key("a"), key("c"), true);
    map.mutate(key("b"), operation(MutationKind::Add, "\x02"), true);
    assert_eq!(map.cursor(b"b").segment(), WriteSegment::IndependentWrite);
    assert_eq!(fold(&map, "b", Some("\x05")), Ok(Some(key("\x02"))));
    map.mutate(key("d"), operation(MutationKind::Add, "\x02"), true);
    assert_eq!(map.cursor(b"d").segment(), WriteSegment::DependentWrite);
    assert_eq!(fold(&map, "d", Some("\x05")), Ok(Some(key("\x07"))));
}

#[test]
fn a_stamped_key_stays_unreadable_until_it_is_cleared() {
    let mut map = WriteMap::new();
    let stamp = operation(MutationKind::SetVersionstampedValue, "0123456789\0\0\0\0");
    map.mutate(key("a"), stamp, true);
    map.mutate(key("a"), set("x"), true);
    assert!(map.cursor(b"a").is_unreadable());
    map.clear(key("a"), key("a\0"), true);
    assert!(!map.cursor(b"a").is_unreadable());
    map.add_unreadable_range(key("m"), key("p"));
    map.mutate(key("n"), set("x"), true);
    assert!(map.cursor(b"n").is_unreadable() && map.cursor(b"o").is_unreadable());
    assert!(!map.cursor(b"p").is_unreadable());
}

#[test]
fn a_snapshot_keeps_the_writes_it_was_taken_of() {
    let mut map = WriteMap::new();
    map.mutate(key("a"), set("old"), true);
    let snapshot = map.clone();
    map.mutate(key("a"), set("new"), true);
    map.clear(key("b"), key("z"), true);
    assert_eq!(fold(&snapshot, "a", None), Ok(Some(key("old"))));
    assert!(snapshot.cursor(b"c").is_unmodified_range());
}

/// What is known about one key, stored the simple way.
#[derive(Clone, Debug, Default, PartialEq)]
struct Simple {
    cleared: bool,
    written: bool,
    conflict: bool,
    unreadable: bool,
}

#[test]
fn every_key_is_what_a_list_of_single_keys_says() {
    let keys: Vec<Key> = (b'a'..=b'h')
        .flat_map(|byte| [vec![byte], vec![byte, 0], vec![byte, 1]])
        .map(Bytes::from)
        .collect();
    let mut random = 1u32;
    let mut below = |n: usize| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 8) as usize % n
    };
    for round in 0..2_000 {
        let mut map = WriteMap::new();
        let mut simple = vec![Simple::default(); keys.len()];
        for _ in 0..12 {
            let (a, b) = (below(keys.len()), below(keys.len()));
            let (from, to) = (a.min(b), a.max(b));
            let conflict = below(2) == 0;
            let (begin, end) = (keys[from].clone(), keys[to].clone());
            match below(6) {
                0 | 1 => {
                    map.mutate(keys[a].clone(), set("x"), conflict);
                    simple[a].written = true;
                    simple[a].conflict |= conflict;
                }
                2 | 3 if from < to => {
                    map.clear(begin, end, conflict);
                    for key in &mut simple[from..to] {
                        let conflict = key.conflict || conflict;
                        *key = Simple {
                            cleared: true,
                            conflict,
                            ..Simple::default()
                        };
                    }
                }
                4 if from < to => {
                    map.add_conflict_range(begin, end);
                    simple[from..to]
                        .iter_mut()
                        .for_each(|key| key.conflict = true);
                }
                5 if from < to && below(4) == 0 => {
                    map.add_unreadable_range(begin, end);
                    let unreadable = Simple {
                        unreadable: true,
                        ..Simple::default()
                    };
                    simple[from..to].fill(unreadable);
                }
                _ => {}
            }
            for (key, expected) in keys.iter().zip(&simple) {
                let cursor = map.cursor(key);
                let found = Simple {
                    cleared: if cursor.operations().is_some() {
                        expected.cleared
                    } else {
                        cursor.is_cleared_range()
                    },
                    written: cursor.operations().is_some(),
                    conflict: cursor.is_conflict(),
                    unreadable: cursor.is_unreadable(),
                };
                assert_eq!(found, *expected, "round {round}: {key:?} in {map:?}");
            }
        }
    }
}
