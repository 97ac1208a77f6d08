//! Keys and values, copied once.
//!
//! [`Bytes`] keeps its reference count apart from the bytes: what is copied and then cloned is
//! allocated twice. Nearly every key and most values are short, and each is cloned into a conflict
//! range, a cache and a message; so short ones are stored next to their count, in one allocation.

use bytes::Bytes;

/// Together with its length and the reference count, this fills one cache line of the processor.
const SHORT_MAX: usize = 47;

struct Short {
    bytes: [u8; SHORT_MAX],
    length: u8,
}

impl AsRef<[u8]> for Short {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// Returns a copy that is cheap to clone.
pub fn copy(bytes: &[u8]) -> Bytes {
    copy_both(bytes, &[])
}

/// Returns a copy of two parts, one after the other.
pub(crate) fn copy_both(first: &[u8], second: &[u8]) -> Bytes {
    let length = first.len() + second.len();
    if length == 0 {
        return Bytes::new();
    }
    if length > SHORT_MAX {
        return Bytes::from([first, second].concat());
    }
    let mut short = Short {
        bytes: [0; SHORT_MAX],
        length: length as u8,
    };
    short.bytes[..first.len()].copy_from_slice(first);
    short.bytes[first.len()..length].copy_from_slice(second);
    Bytes::from_owner(short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_any_length_holds_the_same_bytes() {
        let bytes: Vec<u8> = (0..100).collect();
        for length in 0..bytes.len() {
            assert_eq!(copy(&bytes[..length]), bytes[..length]);
            let both = copy_both(&bytes[..length / 2], &bytes[length / 2..length]);
            assert_eq!(both, bytes[..length]);
            assert_eq!(both.clone().slice(length / 3..), bytes[length / 3..length]);
        }
    }
}
