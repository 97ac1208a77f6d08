//! A key for the ordered maps of servers: a short key is stored in the map itself.
//!
//! Storage servers and resolvers spend most of their time searching, and the cost of a search is
//! reaching the bytes of each key that it passes. So a key of up to 30 bytes, as nearly all are,
//! lies next to its neighbours, and two of them are compared as numbers, eight bytes at a time,
//! without a call. Longer keys are boxed. Either way the order is that of the bytes.

use bytes::Bytes;
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;

const SHORT_MAX: usize = 30;

/// An immutable key of any length.
#[derive(Clone)]
pub struct SmallKey(Form);

#[derive(Clone)]
enum Form {
    /// The bytes, zeros, and last the length, which orders keys that differ only in zeros at the
    /// end.
    Short([u8; SHORT_MAX + 1]),
    Long(Box<[u8]>),
}

impl SmallKey {
    /// The empty key.
    pub const EMPTY: SmallKey = SmallKey(Form::Short([0; SHORT_MAX + 1]));

    /// What both keys begin with, as far as it is a [`Beginning`].
    pub fn common_beginning(&self, other: &SmallKey) -> Beginning {
        let [this, that] = [self.as_ref(), other.as_ref()];
        let pairs = this.iter().zip(that).take(BEGINNING_MAX);
        let len = pairs.take_while(|(this, that)| this == that).count();
        let mut bytes = [0; BEGINNING_MAX + 1];
        bytes[..len].copy_from_slice(&this[..len]);
        Beginning {
            bytes,
            len: len as u8,
        }
    }

    /// Two bytes from there on as a number that sorts in the same order as the bytes, those behind
    /// the end being zero. `at` is the length of a [`Beginning`].
    #[inline]
    pub fn number_at(&self, at: usize) -> i16 {
        let bytes = match &self.0 {
            Form::Short(short) => &short[at..at + 2],
            Form::Long(long) => &long[at..at + 2],
        };
        let number = u16::from_be_bytes(bytes.try_into().expect("two bytes"));
        // Smaller numbers are the ones with the sign.
        (number ^ 1 << 15) as i16
    }
}

/// The longest beginning that a group of keys is known to share: with the two bytes behind it, it
/// is shorter than any key that is boxed.
const BEGINNING_MAX: usize = 23;

/// What all keys of a group begin with.
#[derive(Clone, Copy, Debug)]
pub struct Beginning {
    /// Zeros behind the length; one more than needed, so that eight can be read at a time.
    bytes: [u8; BEGINNING_MAX + 1],
    len: u8,
}

impl Beginning {
    /// The number of its bytes.
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Whether a key begins like this.
    pub fn begins(&self, key: &SmallKey) -> bool {
        key.as_ref().starts_with(&self.bytes[..self.len()])
    }

    /// Where a key stands that is to be found among keys that begin like this: before all of them,
    /// behind all of them, or somewhere among them or before them.
    #[inline]
    pub fn place_of(&self, key: &SmallKey) -> Ordering {
        let len = self.len();
        let Form::Short(short) = &key.0 else {
            return key.as_ref()[..len].cmp(&self.bytes[..len]);
        };
        let mut at = 0;
        while at + 8 <= len {
            let (this, that) = (word(short, at), word(&self.bytes, at));
            if this != that {
                return this.cmp(&that);
            }
            at += 8;
        }
        if at == len {
            return Ordering::Equal;
        }
        // At most seven bytes are left, and the last of eight is the length.
        let behind = 64 - 8 * (len - at) as u32;
        (word(short, at) >> behind).cmp(&(word(&self.bytes, at) >> behind))
    }
}

impl From<&[u8]> for SmallKey {
    #[inline]
    fn from(key: &[u8]) -> SmallKey {
        if key.len() > SHORT_MAX {
            return SmallKey(Form::Long(key.into()));
        }
        let mut short = [0; SHORT_MAX + 1];
        short[..key.len()].copy_from_slice(key);
        short[SHORT_MAX] = key.len() as u8;
        SmallKey(Form::Short(short))
    }
}

impl From<&Bytes> for SmallKey {
    #[inline]
    fn from(key: &Bytes) -> SmallKey {
        SmallKey::from(&**key)
    }
}

impl AsRef<[u8]> for SmallKey {
    fn as_ref(&self) -> &[u8] {
        match &self.0 {
            Form::Short(short) => &short[..usize::from(short[SHORT_MAX])],
            Form::Long(long) => long,
        }
    }
}

impl Borrow<[u8]> for SmallKey {
    fn borrow(&self) -> &[u8] {
        self.as_ref()
    }
}

impl Ord for SmallKey {
    #[inline]
    fn cmp(&self, other: &SmallKey) -> Ordering {
        let (Form::Short(this), Form::Short(that)) = (&self.0, &other.0) else {
            return self.as_ref().cmp(other.as_ref());
        };
        // The last word begins with a byte of the word before it, which is known to be equal by
        // then.
        for at in [0, 8, 16, SHORT_MAX + 1 - 8] {
            let (this, that) = (word(this, at), word(that, at));
            if this != that {
                return this.cmp(&that);
            }
        }
        Ordering::Equal
    }
}

impl PartialOrd for SmallKey {
    #[inline]
    fn partial_cmp(&self, other: &SmallKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for SmallKey {
    #[inline]
    fn eq(&self, other: &SmallKey) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for SmallKey {}

impl fmt::Debug for SmallKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "\"{}\"", self.as_ref().escape_ascii())
    }
}

/// Eight bytes as a number that sorts in the same order as the bytes.
#[inline]
fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Bytes of few kinds and lengths around the longest short key, so that many keys share a
        /// long prefix.
        #[test]
        fn keys_are_in_the_order_of_their_bytes(
            first in prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255)], 0..40),
            second in prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255)], 0..40),
            common in prop::collection::vec(any::<u8>(), 0..34),
        ) {
            let first = [&common[..], &first].concat();
            let second = [&common[..], &second].concat();
            let keys = [SmallKey::from(&first[..]), SmallKey::from(&second[..])];
            prop_assert_eq!(keys[0].as_ref(), &first[..]);
            prop_assert_eq!(keys[0].cmp(&keys[1]), first.cmp(&second));
            prop_assert_eq!(keys[0] == keys[1], first == second);
        }
    }

    #[test]
    fn zeros_at_the_end_count() {
        for length in 0..40 {
            let [shorter, longer] = [vec![0; length], vec![0; length + 1]];
            assert!(SmallKey::from(&shorter[..]) < SmallKey::from(&longer[..]));
        }
    }
}
