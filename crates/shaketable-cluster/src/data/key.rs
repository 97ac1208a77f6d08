//! The edges of the key space, how long a key may be, and keys with a zero byte that is not stored.
//!
//! Half of the keys that the read-your-writes layer compares are "the key just after this one".
//! [`KeyBound`] stands for such a key without allocating it.

use crate::proto::{Key, KeySelector};
use crate::short::copy_both;
use bytes::Bytes;
use std::cmp::Ordering;

/// First key beyond those of an application: where the system keys begin.
pub(crate) const NORMAL_END: Bytes = Bytes::from_static(b"\xff");
/// First key beyond all that is stored: where the special keys begin.
pub(crate) const ALL_END: Bytes = Bytes::from_static(b"\xff\xff");
/// The key just after [`ALL_END`].
pub(crate) const AFTER_ALL: Bytes = Bytes::from_static(b"\xff\xff\x00");
/// The one system key that any transaction may read, and write in one way.
pub(crate) const METADATA_VERSION: Bytes = Bytes::from_static(b"\xff/metadataVersion");

const KEY_BYTES_MAX: usize = 10_000;
const SYSTEM_KEY_BYTES_MAX: usize = 30_000;
/// Room for the prefix of a tenant, granted to everything but an ordinary write.
const RAW_ACCESS_BYTES: usize = 8;
/// The longest possible value.
pub(crate) const VALUE_BYTES_MAX: usize = 100_000;

/// The longest key that can exist where this key would be.
pub(crate) fn max_key_bytes(key: &[u8]) -> usize {
    max_write_key_bytes(key, true)
}

/// The longest key that may be written where this key would be.
pub(crate) fn max_write_key_bytes(key: &[u8], raw_access: bool) -> usize {
    if key.starts_with(&NORMAL_END) {
        SYSTEM_KEY_BYTES_MAX
    } else {
        KEY_BYTES_MAX + if raw_access { RAW_ACCESS_BYTES } else { 0 }
    }
}

/// Returns an equivalent bound for a range: keys longer than the limit do not exist, so a longer
/// bound can be cut.
pub(crate) fn cut_to_limit(key: Key) -> Key {
    let max = max_key_bytes(&key);
    if key.len() > max {
        key.slice(..max + 1)
    } else {
        key
    }
}

/// Returns the key just after `key`. There is none after the end of the key space.
pub(crate) fn key_after(key: &[u8]) -> Key {
    if *key == ALL_END {
        return ALL_END;
    }
    KeyBound::after(key).to_key()
}

/// Returns the key of two parts, one after the other.
pub(crate) fn joined(first: &[u8], second: &[u8]) -> Key {
    copy_both(first, second)
}

/// Whether `second` is the key just after `first`.
pub(crate) fn is_key_after(first: &[u8], second: &[u8]) -> bool {
    second.len() == first.len() + 1 && second.last() == Some(&0) && second.starts_with(first)
}

/// Compares two keys as slices are compared, without a call of the C library for keys that are
/// short.
///
/// The C library loads a short key under a mask, as a whole. Bytes that were written a moment ago
/// in pieces, as those of a key in a transaction usually were, arrive there late; and zero bytes at
/// the address that an empty slice has take longer than everything else in a comparison. Here each
/// load lies within what was written at once.
#[inline]
pub(crate) fn compare(left: &[u8], right: &[u8]) -> Ordering {
    let common = left.len().min(right.len());
    compare_common(left, right, common).then(left.len().cmp(&right.len()))
}

/// Whether two keys are the same; see [`compare`].
#[inline]
pub(crate) fn same(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len() && compare_common(left, right, left.len()).is_eq()
}

/// Compares what two keys both have: their first `common` bytes.
#[inline]
fn compare_common(left: &[u8], right: &[u8], common: usize) -> Ordering {
    let (left, right) = (&left[..common], &right[..common]);
    match common {
        0 => Ordering::Equal,
        // Each number holds all bytes in their order, some of them twice, which changes nothing.
        1..4 => {
            let number = |key: &[u8]| {
                let [first, middle, last] = [key[0], key[common / 2], key[common - 1]];
                u32::from_be_bytes([0, first, middle, last])
            };
            number(left).cmp(&number(right))
        }
        4..8 => {
            let number = |key: &[u8]| match (key.first_chunk(), key.last_chunk()) {
                (Some(first), Some(last)) => {
                    u64::from(u32::from_be_bytes(*first)) << 32
                        | u64::from(u32::from_be_bytes(*last))
                }
                _ => unreachable!("there are at least four bytes"),
            };
            number(left).cmp(&number(right))
        }
        8..=64 => {
            let number = |bytes: &[u8; 8]| u64::from_be_bytes(*bytes);
            let pieces = left.as_chunks().0.iter().zip(right.as_chunks().0);
            for (left, right) in pieces {
                if left != right {
                    return number(left).cmp(&number(right));
                }
            }
            match (left.last_chunk(), right.last_chunk()) {
                (Some(left), Some(right)) => number(left).cmp(&number(right)),
                _ => unreachable!("there are at least eight bytes"),
            }
        }
        _ => left.cmp(right),
    }
}

/// A key, possibly with a zero byte added to what is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyBound<'a> {
    base: &'a [u8],
    zero: bool,
}

impl<'a> KeyBound<'a> {
    pub(crate) fn new(key: &'a [u8]) -> Self {
        KeyBound {
            base: key,
            zero: false,
        }
    }

    pub(crate) fn after(key: &'a [u8]) -> Self {
        KeyBound {
            base: key,
            zero: true,
        }
    }

    pub(crate) fn len(self) -> usize {
        self.base.len() + usize::from(self.zero)
    }

    pub(crate) fn to_key(self) -> Key {
        copy_both(self.base, if self.zero { &[0] } else { &[] })
    }

    /// Whether this is the key just after `other`.
    pub(crate) fn is_after(self, other: KeyBound<'_>) -> bool {
        self.len() == other.len() + 1
            && self.byte(self.len() - 1) == 0
            && (0..other.len())
                .rev()
                .all(|i| self.byte(i) == other.byte(i))
    }

    fn byte(self, index: usize) -> u8 {
        self.base.get(index).copied().unwrap_or(0)
    }
}

impl Ord for KeyBound<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let common = self.base.len().min(other.base.len());
        let start = compare_common(self.base, other.base, common);
        start.then_with(|| {
            // At most one side has stored bytes left; the other continues with at most one zero.
            let (left, right) = (&self.base[common..], &other.base[common..]);
            let tail = |rest: &[u8], zero: bool| match rest.first() {
                Some(byte) => Some(*byte),
                None => zero.then_some(0),
            };
            tail(left, self.zero)
                .cmp(&tail(right, other.zero))
                .then_with(|| self.len().cmp(&other.len()))
        })
    }
}

impl PartialOrd for KeyBound<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for KeyBound<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.cmp(other) == Ordering::Equal
    }
}

impl Eq for KeyBound<'_> {}

/// The selectors that the client makes itself, and the properties it needs.
impl KeySelector {
    /// The first key `>= key`.
    pub fn first_greater_or_equal(key: Key) -> KeySelector {
        KeySelector {
            key,
            or_equal: false,
            offset: 1,
        }
    }

    pub(crate) fn is_first_greater_or_equal(&self) -> bool {
        !self.or_equal && self.offset == 1
    }

    /// Whether only keys before the reference key matter.
    pub(crate) fn is_backward(&self) -> bool {
        !self.or_equal && self.offset <= 0
    }

    /// Returns an equivalent selector without `or_equal`, whose key is no longer than a key can be.
    pub(crate) fn normalised(mut self) -> KeySelector {
        if self.or_equal {
            self.key = key_after(&self.key);
            self.or_equal = false;
        }
        self.key = cut_to_limit(self.key);
        self
    }

    /// Whether it resolves to a key beyond `key`, regardless of what the database holds.
    pub(crate) fn is_definitely_greater(&self, key: &[u8]) -> bool {
        self.offset >= 1
            && if self.is_first_greater_or_equal() {
                self.key > *key
            } else {
                self.key >= *key
            }
    }

    /// Whether it resolves to a key before `key`, regardless of what the database holds.
    pub(crate) fn is_definitely_less(&self, key: &[u8]) -> bool {
        let last_less_or_equal = self.or_equal && self.offset == 0;
        self.offset <= 0
            && if last_less_or_equal {
                self.key < *key
            } else {
                self.key <= *key
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_compare_as_the_keys_they_stand_for() {
        let bytes = [0u8, 1, 255];
        let mut keys: Vec<Vec<u8>> = vec![vec![]];
        for length in 0..3 {
            let longest: Vec<_> = keys.iter().filter(|k| k.len() == length).cloned().collect();
            keys.extend(
                longest
                    .iter()
                    .flat_map(|k| bytes.map(|b| [&k[..], &[b]].concat())),
            );
        }
        let bounds: Vec<_> = keys
            .iter()
            .flat_map(|k| [KeyBound::new(k), KeyBound::after(k)])
            .collect();
        for a in &bounds {
            for b in &bounds {
                let (left, right) = (a.to_key(), b.to_key());
                assert_eq!(a.cmp(b), left.cmp(&right), "{left:?} {right:?}");
                assert_eq!(a == b, left == right);
                assert_eq!(
                    a.is_after(*b),
                    is_key_after(&right, &left),
                    "{left:?} {right:?}"
                );
            }
        }
    }

    #[test]
    fn keys_compare_as_slices_do_whatever_their_length_and_wherever_they_differ() {
        for length in 0..80 {
            let key: Vec<u8> = (0..length).map(|at| at as u8 | 0x80).collect();
            let longer = [&key[..], &[0]].concat();
            let mut others = vec![key.clone(), longer];
            for at in 0..length {
                others.push(key[..at].to_vec());
                for byte in [0, key[at] - 1, key[at] + 1] {
                    let mut other = key.clone();
                    other[at] = byte;
                    others.push(other);
                }
            }
            for other in &others {
                assert_eq!(compare(&key, other), key.cmp(other), "{key:?} {other:?}");
                assert_eq!(compare(other, &key), other.cmp(&key), "{other:?} {key:?}");
                assert_eq!(same(&key, other), key == *other, "{key:?} {other:?}");
            }
        }
    }

    #[test]
    fn long_keys_are_cut_one_byte_beyond_the_limit() {
        let key = Bytes::from(vec![b'k'; 20_000]);
        assert_eq!(cut_to_limit(key).len(), 10_009);
        let system = Bytes::from(vec![0xff; 20_000]);
        assert_eq!(cut_to_limit(system).len(), 20_000);
    }
}
