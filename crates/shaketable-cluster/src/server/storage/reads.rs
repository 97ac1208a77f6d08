//! How a storage server reads: selectors and ranges inside the keys it serves.

use crate::data::key::{ALL_END, KeyBound};
use crate::proto::{GetKeyValues, Key, KeyRange, KeySelector, KeyValue, KeyValues, Version};
use crate::server::versioned_map::VersionedMap;
use bytes::Bytes;

/// What a row costs on top of its key and value when bytes are counted.
const ROW_BYTES: usize = 24;

/// Resolves a selector inside `served`. Returns the key (offset 0, `or_equal`), or what is left to
/// walk from the edge. At the edges of the key space the walk ends.
pub fn resolve(
    rows: &VersionedMap,
    selector: &KeySelector,
    version: Version,
    served: &KeyRange,
) -> KeySelector {
    let exactly = |key: Key| KeySelector {
        key,
        or_equal: true,
        offset: 0,
    };
    let from: Key = if selector.or_equal {
        KeyBound::after(&selector.key).to_key()
    } else {
        selector.key.clone()
    };
    if selector.offset > 0 {
        let mut left = selector.offset;
        for (key, _) in rows.range(&from, &served.end, version) {
            left -= 1;
            if left == 0 {
                return exactly(Bytes::copy_from_slice(key));
            }
        }
        if served.end >= ALL_END {
            return exactly(served.end.clone());
        }
        KeySelector {
            key: served.end.clone(),
            or_equal: false,
            offset: left,
        }
    } else {
        let mut left = selector.offset;
        for (key, _) in rows.range(&served.begin, &from, version).rev() {
            if left == 0 {
                return exactly(Bytes::copy_from_slice(key));
            }
            left += 1;
        }
        if served.begin.is_empty() {
            return exactly(Key::new());
        }
        KeySelector {
            key: served.begin.clone(),
            or_equal: false,
            offset: left,
        }
    }
}

/// Where a range read begins or ends: the key of a plain selector, or what it resolves to. `None`
/// if that depends on keys outside `served`, or if the walk runs off an end of the key space, which
/// the client must learn of. One step beyond the end is inside, because the end of a range is not
/// read.
pub fn bound(
    rows: &VersionedMap,
    selector: &KeySelector,
    version: Version,
    served: &KeyRange,
) -> Option<Key> {
    let from: Key = if selector.or_equal {
        KeyBound::after(&selector.key).to_key()
    } else {
        selector.key.clone()
    };
    if selector.offset == 1 {
        // The first key at or after a key: the read itself finds it.
        return Some(from);
    }
    // A walk must begin inside, or the keys between would not be counted.
    let backwards = selector.offset <= 0 && !selector.or_equal;
    let before_end = selector.key < served.end || backwards && selector.key == served.end;
    if selector.key < served.begin || !before_end {
        return None;
    }
    if selector.offset > 1 {
        let mut left = selector.offset;
        for (key, _) in rows.range(&from, &served.end, version) {
            left -= 1;
            if left == 0 {
                return Some(Bytes::copy_from_slice(key));
            }
        }
        return (left == 1).then(|| served.end.clone());
    }
    let steps = selector.offset.unsigned_abs() as usize;
    let mut before = rows.range(&served.begin, &from, version).rev();
    before
        .nth(steps)
        .map(|(key, _)| Bytes::copy_from_slice(key))
}

/// Reads rows of `[begin, end)` up to the limits of the request.
pub fn read(
    rows: &VersionedMap,
    begin: &[u8],
    end: &[u8],
    request: &GetKeyValues,
    limit_bytes: usize,
) -> KeyValues {
    let range = rows.range(begin, end, request.version);
    if request.reverse {
        collect(range.rev(), request.limit, limit_bytes)
    } else {
        collect(range, request.limit, limit_bytes)
    }
}

fn collect<'a>(
    mut rows: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    limit: usize,
    limit_bytes: usize,
) -> KeyValues {
    let mut result = KeyValues::default();
    let mut bytes = 0;
    while result.rows.len() < limit && bytes < limit_bytes {
        let Some((key, value)) = rows.next() else {
            return result;
        };
        bytes += ROW_BYTES + key.len() + value.len();
        result.rows.push(KeyValue {
            key: Bytes::copy_from_slice(key),
            value: Bytes::copy_from_slice(value),
        });
    }
    // If the limit is reached exactly at the last row, the reply still says that there may be more.
    result.more = true;
    result
}

/// The bytes of the rows of a range.
pub fn bytes(rows: &VersionedMap, range: &KeyRange, version: Version) -> i64 {
    let rows = rows.range(&range.begin, &range.end, version);
    rows.map(|(key, value)| (key.len() + value.len()) as i64)
        .sum()
}

/// Keys that cut a range into chunks of about this many bytes.
pub fn split_points(
    rows: &VersionedMap,
    range: &KeyRange,
    version: Version,
    chunk_bytes: i64,
) -> Vec<Key> {
    let mut points = Vec::new();
    let mut chunk = 0;
    for (key, value) in rows.range(&range.begin, &range.end, version) {
        if chunk >= chunk_bytes.max(1) {
            points.push(Bytes::copy_from_slice(key));
            chunk = 0;
        }
        chunk += (key.len() + value.len()) as i64;
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Key {
        Key::copy_from_slice(text.as_bytes())
    }

    fn some_rows() -> VersionedMap {
        let mut rows = VersionedMap::default();
        for name in ["b", "d", "f", "h"] {
            rows.set(1, &key(name), b"v");
        }
        rows
    }

    #[test]
    fn a_selector_resolves_inside_the_shard_or_says_what_is_left() {
        let rows = some_rows();
        let served = KeyRange {
            begin: key("c"),
            end: key("g"),
        };
        let resolve = |text: &str, or_equal, offset| {
            let selector = KeySelector {
                key: key(text),
                or_equal,
                offset,
            };
            let found = resolve(&rows, &selector, 1, &served);
            (
                String::from_utf8(found.key.to_vec()).unwrap(),
                found.or_equal,
                found.offset,
            )
        };
        assert_eq!(resolve("d", false, 1), ("d".into(), true, 0));
        assert_eq!(resolve("d", true, 1), ("f".into(), true, 0));
        assert_eq!(resolve("f", false, 0), ("d".into(), true, 0));
        assert_eq!(resolve("d", false, 5), ("g".into(), false, 3));
        assert_eq!(resolve("f", true, -3), ("c".into(), false, -1));
    }

    #[test]
    fn a_byte_limit_stops_after_the_row_that_reaches_it() {
        let rows = some_rows();
        let first_row = KeySelector {
            key: key(""),
            or_equal: false,
            offset: 1,
        };
        let mut request = GetKeyValues {
            begin: first_row.clone(),
            end: first_row,
            limit: 100,
            limit_bytes: 0,
            reverse: false,
            version: 1,
            is_early: false,
        };
        let read = |request: &GetKeyValues, bytes| {
            let result = read(&rows, b"a", b"z", request, bytes);
            (
                result
                    .rows
                    .iter()
                    .map(|row| row.key.clone())
                    .collect::<Vec<_>>(),
                result.more,
            )
        };
        assert_eq!(read(&request, 26), (vec![key("b")], true));
        assert_eq!(read(&request, 27), (vec![key("b"), key("d")], true));
        assert_eq!(read(&request, 1000).0.len(), 4);
        assert!(!read(&request, 1000).1);
        request.limit = 4;
        assert!(
            read(&request, 1000).1,
            "a row limit met exactly may hide more rows"
        );
        request.reverse = true;
        assert_eq!(read(&request, 1), (vec![key("h")], true));
    }
}
