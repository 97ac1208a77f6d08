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

/// Whether `second` is the key just after `first`.
pub(crate) fn is_key_after(first: &[u8], second: &[u8]) -> bool {
    second.len() == first.len() + 1 && second.last() == Some(&0) && second.starts_with(first)
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
        // The bytes of an empty key have no address. Loading zero bytes from there under a mask, as
        // the C library does, takes longer on a processor with AVX-512 than everything else here,
        // and every overlay begins with the empty key.
        let start = match common {
            0 => Ordering::Equal,
            _ => self.base[..common].cmp(&other.base[..common]),
        };
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
    fn long_keys_are_cut_one_byte_beyond_the_limit() {
        let key = Bytes::from(vec![b'k'; 20_000]);
        assert_eq!(cut_to_limit(key).len(), 10_009);
        let system = Bytes::from(vec![0xff; 20_000]);
        assert_eq!(cut_to_limit(system).len(), 20_000);
    }
}
