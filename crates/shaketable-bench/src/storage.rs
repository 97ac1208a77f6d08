//! A storage server's map with a million rows of 16 + 32 bytes: loaded, read, scanned, cleared; and
//! a `BTreeMap` with the same rows to compare it with.

use bytes::Bytes;
use shaketable_cluster::server::versioned_map::VersionedMap;
use std::collections::BTreeMap;
use std::hint::black_box;

/// How many rows.
pub const ROWS: u64 = 1_000_000;
const VERSION: i64 = ROWS as i64;

/// The keys in the order in which they are read, which is not that of the map.
pub fn keys() -> Vec<Bytes> {
    (0..ROWS).map(|number| key(number * 7 % ROWS)).collect()
}

/// Sixteen bytes, in no order.
fn key(number: u64) -> Bytes {
    Bytes::from(format!(
        "{:016x}",
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    ))
}

/// The map, filled as a storage server fills it: a hundred rows a version, and versions leave the
/// window as others come.
pub fn load() -> VersionedMap {
    let mut map = VersionedMap::default();
    for number in 0..ROWS {
        map.set(number as i64 / 100 + 1, &key(number), &[7; 32]);
        if number.is_multiple_of(10_000) {
            map.forget_before(number as i64 / 100 - 100);
        }
    }
    map.forget_before(VERSION);
    map
}

/// The same rows in a `BTreeMap`.
pub fn load_model() -> BTreeMap<Bytes, Bytes> {
    let value = || Bytes::from(vec![7; 32]);
    (0..ROWS).map(|number| (key(number), value())).collect()
}

/// Reads all keys, one after another.
pub fn read_points(map: &VersionedMap, keys: &[Bytes]) {
    for key in keys {
        black_box(map.get(key, VERSION).map(Bytes::copy_from_slice));
    }
}

/// Looks all keys up, one after another.
pub fn read_points_of_model(model: &BTreeMap<Bytes, Bytes>, keys: &[Bytes]) {
    for key in keys {
        black_box(model.get(key).cloned());
    }
}

/// Reads all rows in order; returns how many there are.
pub fn scan(map: &VersionedMap) -> usize {
    map.range(b"", b"\xff", VERSION).map(black_box).count()
}

/// Clears all rows at once, and lets them leave the window.
pub fn clear(mut map: VersionedMap) -> VersionedMap {
    map.clear_range(VERSION + 1, &Bytes::new(), &Bytes::from_static(b"\xff"));
    map.forget_before(VERSION + 1);
    map
}
