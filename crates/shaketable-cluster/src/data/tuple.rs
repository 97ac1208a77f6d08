//! The tuple encoding, as far as the database itself needs it.
//!
//! FoundationDB's servers know tuples for one purpose: a mapped range takes elements out of keys
//! and values and puts them into other keys. For that, a tuple only needs to be cut into its
//! elements, and the elements stay encoded. An element ends where FoundationDB ends it, which is
//! lenient: a string that never ends and a number that is cut short both count as the last element.
//! Bytes with a type code that FoundationDB's servers do not know (nested tuples among them) are
//! not a tuple at all.

/// Returns the encoded elements of a packed tuple, or `None` if `packed` is not a tuple.
pub fn elements(packed: &[u8]) -> Option<Vec<&[u8]>> {
    let mut elements = Vec::new();
    let mut rest = packed;
    while let Some(code) = rest.first() {
        let length = match *code {
            BYTES | TEXT => string_length(rest),
            0x0c..=0x1c => usize::from(code.abs_diff(INTEGER_ZERO)) + 1,
            0x20 => 5,
            0x21 => 9,
            0x00 | 0x26 | 0x27 => 1,
            0x33 => 13,
            _ => return None,
        };
        let (element, after) = rest.split_at(length.min(rest.len()));
        elements.push(element);
        rest = after;
    }
    Some(elements)
}

/// The content of an encoded string, bytes or text; `None` for an element of another type.
pub fn string(element: &[u8]) -> Option<Vec<u8>> {
    let (&(BYTES | TEXT), mut rest) = element.split_first()? else {
        return None;
    };
    let mut content = Vec::new();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match (byte, after.split_first()) {
            (0, None) => break,
            // An escaped zero: the byte behind it marks it as one and is dropped.
            (0, Some((_, after))) => {
                content.push(0);
                rest = after;
            }
            _ => content.push(*byte),
        }
    }
    Some(content)
}

/// A byte string as a tuple element.
pub fn encode_bytes(content: &[u8]) -> Vec<u8> {
    let mut element = vec![BYTES];
    for byte in content {
        element.push(*byte);
        if *byte == 0 {
            element.push(ESCAPE);
        }
    }
    element.push(0);
    element
}

/// A number as a tuple element.
pub fn encode_integer(number: u64) -> Vec<u8> {
    let digits = number.to_be_bytes();
    let zeros = number.leading_zeros() as usize / 8;
    let digits = &digits[zeros..];
    [&[INTEGER_ZERO + digits.len() as u8], digits].concat()
}

const BYTES: u8 = 0x01;
const TEXT: u8 = 0x02;
const INTEGER_ZERO: u8 = 0x14;
const ESCAPE: u8 = 0xff;

/// The length of the encoded string at the beginning, including its code and its final zero.
fn string_length(element: &[u8]) -> usize {
    let mut at = 1;
    while at + 1 < element.len() {
        match (element[at], element[at + 1]) {
            (0, ESCAPE) => at += 2,
            (0, _) => break,
            _ => at += 1,
        }
    }
    at + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn elements_of_every_type_are_told_apart() {
        let parts: [&[u8]; 9] = [
            b"\x00",
            b"\x01a\x00\xffb\x00",
            b"\x02text\x00",
            b"\x14",
            b"\x16\x01\x02",
            b"\x13\xfe",
            b"\x21\x80\x00\x00\x00\x00\x00\x00\x00",
            b"\x27",
            b"\x33abcdefghijkl",
        ];
        assert_eq!(elements(&parts.concat()).unwrap(), parts);
        assert_eq!(elements(b"").unwrap(), [] as [&[u8]; 0]);
    }

    #[test]
    fn an_unknown_type_makes_it_no_tuple() {
        assert_eq!(elements(b"\xff\xfe"), None);
        assert_eq!(elements(b"no tuple"), None);
        assert_eq!(elements(b"\x05\x14\x00"), None);
    }

    #[test]
    fn an_element_that_is_cut_short_is_the_last_one() {
        assert_eq!(
            elements(b"\x14\x02abc").unwrap(),
            [&b"\x14"[..], b"\x02abc"]
        );
        assert_eq!(elements(b"\x16\x01").unwrap(), [b"\x16\x01"]);
        assert_eq!(elements(b"\x01").unwrap(), [b"\x01"]);
        assert_eq!(string(b"\x02abc").unwrap(), b"abc");
    }

    #[test]
    fn numbers_take_as_many_bytes_as_they_need() {
        assert_eq!(encode_integer(0), [0x14]);
        assert_eq!(encode_integer(255), [0x15, 255]);
        assert_eq!(encode_integer(256), [0x16, 1, 0]);
        assert_eq!(encode_integer(u64::MAX), [&[0x1c][..], &[255; 8]].concat());
    }

    proptest! {
        #[test]
        fn strings_survive_a_round_trip(
            strings in prop::collection::vec(prop::collection::vec(prop_oneof![Just(0), Just(255), any::<u8>()], 0..6), 0..5)
        ) {
            let packed: Vec<u8> = strings.iter().flat_map(|s| encode_bytes(s)).collect();
            let unpacked: Vec<_> = elements(&packed).unwrap().into_iter().map(|e| string(e).unwrap()).collect();
            prop_assert_eq!(unpacked, strings);
        }
    }
}
