//! Versionstamped keys and values: where the stamp goes, and what it makes unreadable.
//!
//! An application leaves ten bytes for the stamp of its commit and gives their offset in a suffix:
//! four bytes, little endian. The proxy that commits the transaction fills them in. Until then the
//! client does not know the key, so every key that it may become is *unreadable* in that
//! transaction.
//!
//! Before API version 520 the offset had two bytes in a key and was missing in a value. The current
//! client turns the old form into the new one before using it ([`with_offset_suffix`]), and so does
//! this one: everything below deals with the four-byte form alone.

use crate::error::Error;
use crate::proto::{Key, KeyRange, Mutation, MutationKind, Version, Versionstamp};
use bytes::Bytes;

/// The length of a stamp in bytes.
const STAMP: usize = 10;
/// The length of the offset suffix in bytes.
const SUFFIX: usize = 4;

/// Returns key and operand with a four-byte offset, regardless of the API version. Operations
/// without a stamp pass unchanged.
pub fn with_offset_suffix(
    kind: MutationKind,
    key: Key,
    operand: Bytes,
    api_version: i32,
) -> (Key, Bytes) {
    match kind {
        MutationKind::SetVersionstampedKey if api_version < 520 => {
            ([&key[..], &[0; 2]].concat().into(), operand)
        }
        MutationKind::SetVersionstampedValue if api_version < 520 => {
            (key, [&operand[..], &[0; SUFFIX]].concat().into())
        }
        _ => (key, operand),
    }
}

/// Refuses an offset that is missing or points outside, with `client_invalid_operation`. This is
/// all that a versionstamped value needs; for a key, [`unreadable_range`] and [`placeholder_key`]
/// check it too.
pub fn validate(stamped: &[u8]) -> Result<(), Error> {
    position(stamped)
        .map(|_| ())
        .ok_or(Error::CLIENT_INVALID_OPERATION)
}

/// The keys that a versionstamped key may become: from the lowest stamp that its commit can get to
/// the highest. A transaction that has its read version commits at a later version.
pub fn unreadable_range(
    stamped: &[u8],
    read_version: Option<Version>,
    max_read_key: &Key,
) -> Result<KeyRange, Error> {
    let begin = placeholder_key(stamped, read_version)?;
    let begin = begin.slice(..begin.len() - SUFFIX);
    let mut end = stamped[..stamped.len() - SUFFIX].to_vec();
    let at = position(stamped).ok_or(Error::CLIENT_INVALID_OPERATION)?;
    end[at..at + STAMP].fill(0xff);
    end.push(0);
    Ok(KeyRange {
        begin,
        end: Bytes::from(end).min(max_read_key.clone()),
    })
}

/// The key under which the client stores a versionstamped key in its overlay: the lowest stamp in
/// place, the suffix still there.
pub fn placeholder_key(stamped: &[u8], read_version: Option<Version>) -> Result<Key, Error> {
    let at = position(stamped).ok_or(Error::CLIENT_INVALID_OPERATION)?;
    let lowest = Versionstamp {
        version: read_version.map_or(0, |v| v + 1),
        batch_index: 0,
    };
    let mut key = stamped.to_vec();
    key[at..at + STAMP].copy_from_slice(&lowest.to_bytes());
    Ok(key.into())
}

/// Returns the mutation that is stored once the stamp is known: a plain set without the suffix.
/// Mutations that carry no stamp pass unchanged.
///
/// The client refuses bad offsets; if one arrives nevertheless, the suffix is removed and nothing
/// is filled in.
pub fn resolve(mutation: Mutation, stamp: Versionstamp) -> Mutation {
    let Mutation {
        kind,
        param1,
        param2,
    } = mutation;
    let (param1, param2) = match kind {
        MutationKind::SetVersionstampedKey => (filled(param1, stamp), param2),
        MutationKind::SetVersionstampedValue => (param1, filled(param2, stamp)),
        _ => {
            return Mutation {
                kind,
                param1,
                param2,
            };
        }
    };
    Mutation {
        kind: MutationKind::SetValue,
        param1,
        param2,
    }
}

fn filled(stamped: Bytes, stamp: Versionstamp) -> Bytes {
    let Some(body) = stamped.len().checked_sub(SUFFIX) else {
        return stamped;
    };
    let Some(at) = position(&stamped) else {
        return stamped.slice(..body);
    };
    let mut bytes = stamped[..body].to_vec();
    bytes[at..at + STAMP].copy_from_slice(&stamp.to_bytes());
    bytes.into()
}

/// Where the stamp goes, if there is an offset and room for ten bytes there.
fn position(stamped: &[u8]) -> Option<usize> {
    let (body, suffix) = stamped.split_last_chunk::<SUFFIX>()?;
    let at = usize::try_from(i32::from_le_bytes(*suffix)).ok()?;
    (at + STAMP <= body.len()).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STAMPED: Versionstamp = Versionstamp {
        version: 0x0102_0304,
        batch_index: 7,
    };

    fn stamped(body: &[u8], offset: i32) -> Bytes {
        [body, &offset.to_le_bytes()].concat().into()
    }

    fn set_key(key: Bytes) -> Mutation {
        Mutation {
            kind: MutationKind::SetVersionstampedKey,
            param1: key,
            param2: Bytes::new(),
        }
    }

    #[test]
    fn an_offset_that_leaves_no_room_is_refused() {
        assert_eq!(validate(&stamped(&[0; 12], 2)), Ok(()));
        for bad in [
            stamped(&[0; 12], 3),
            stamped(&[0; 12], -1),
            stamped(&[0; 9], 0),
            stamped(&[0; 12], i32::MAX),
            Bytes::from_static(b"abc"),
            Bytes::new(),
        ] {
            assert_eq!(validate(&bad), Err(Error::CLIENT_INVALID_OPERATION));
            assert!(unreadable_range(&bad, None, &Bytes::from_static(b"\xff")).is_err());
            assert!(placeholder_key(&bad, None).is_err());
        }
    }

    #[test]
    fn old_api_versions_have_short_offsets_in_keys_and_none_in_values() {
        let old: Bytes = [&[b'k'; 12][..], &[1, 0]].concat().into();
        let empty = Bytes::new();
        let kind = MutationKind::SetVersionstampedKey;
        assert_eq!(
            with_offset_suffix(kind, old.clone(), empty.clone(), 510).0,
            stamped(&[b'k'; 12], 1)
        );
        assert_eq!(
            with_offset_suffix(kind, old.clone(), empty.clone(), 520).0,
            old
        );
        let kind = MutationKind::SetVersionstampedValue;
        assert_eq!(
            with_offset_suffix(kind, empty.clone(), old.clone(), 510).1,
            stamped(&old, 0)
        );
        assert_eq!(
            with_offset_suffix(kind, empty.clone(), old.clone(), 520).1,
            old
        );
    }

    #[test]
    fn a_known_read_version_narrows_what_is_unreadable() {
        let key = stamped(b"k0123456789z", 1);
        let max = Bytes::from_static(b"\xff");
        let all = unreadable_range(&key, None, &max).unwrap();
        assert_eq!(all.begin, [b"k", &[0; 10][..], b"z"].concat());
        assert_eq!(all.end, [b"k", &[0xff; 10][..], b"z\0"].concat());
        let later = unreadable_range(&key, Some(0xfe), &max).unwrap();
        assert_eq!(
            later.begin,
            [b"k", &[0, 0, 0, 0, 0, 0, 0, 0xff, 0, 0][..], b"z"].concat()
        );
        assert_eq!(later.end, all.end);
    }

    #[test]
    fn what_is_unreadable_ends_where_reading_ends() {
        let max = Bytes::from_static(b"\xff");
        let range = unreadable_range(&stamped(&[0; 10], 0), None, &max).unwrap();
        assert_eq!(
            range,
            KeyRange {
                begin: Bytes::from_static(&[0; 10]),
                end: max
            }
        );
    }

    #[test]
    fn a_mutation_without_a_stamp_passes_unchanged() {
        let plain = Mutation {
            kind: MutationKind::Add,
            param1: Bytes::from_static(b"0123456789\0\0\0\0"),
            param2: Bytes::from_static(b"0123456789\0\0\0\0"),
        };
        assert_eq!(resolve(plain.clone(), STAMPED), plain);
    }

    #[test]
    fn a_stamped_value_loses_its_suffix_and_keeps_its_key() {
        let mutation = Mutation {
            kind: MutationKind::SetVersionstampedValue,
            param1: Bytes::from_static(b"key"),
            param2: stamped(b"<0123456789>", 1),
        };
        let set = resolve(mutation, STAMPED);
        assert_eq!(
            (set.kind, &set.param1[..]),
            (MutationKind::SetValue, &b"key"[..])
        );
        assert_eq!(set.param2, [b"<", &STAMPED.to_bytes()[..], b">"].concat());
    }

    proptest! {
        #[test]
        fn the_final_key_lies_in_the_range_that_was_unreadable(
            body in prop::collection::vec(any::<u8>(), 10..20),
            offset in 0..12i32,
            read_version in prop::option::of(0..1_000_000i64),
            later in 1..1_000_000i64,
            batch_index: u16,
        ) {
            let key = stamped(&body, offset);
            let unbounded = Bytes::from(vec![0xff; 40]);
            let Ok(range) = unreadable_range(&key, read_version, &unbounded) else {
                prop_assert!(offset as usize + 10 > body.len());
                return Ok(());
            };
            let stamp = Versionstamp { version: read_version.unwrap_or(0) + later, batch_index };
            let set = resolve(set_key(key), stamp);
            prop_assert_eq!(set.param1.len(), body.len());
            prop_assert!(range.begin <= set.param1 && set.param1 < range.end);
        }
    }
}
