//! What atomic operations do to a value, and which of them may be made twice.

use shaketable_record::Bytes;

/// The operation whose key is completed by the commit.
pub const VERSIONSTAMPED_KEY: &str = "set_versionstamped_key";

/// Whether making it twice is more than making it once.
pub fn accumulates(name: &str) -> bool {
    matches!(name, "add" | "xor" | "bit_xor" | "append_if_fits")
}

/// The value after an atomic operation. A value of which the record holds only the beginning stays
/// as it is.
pub fn result(name: &str, before: Option<&Bytes>, operand: &Bytes) -> Option<Bytes> {
    let old = before.map_or(&[][..], Bytes::kept);
    let new = operand.kept();
    if before.is_some_and(|before| !before.is_whole()) || !operand.is_whole() {
        return Some(before.unwrap_or(operand).clone());
    }
    let padded = |index: usize| old.get(index).copied().unwrap_or(0);
    let zip = |op: fn(u8, u8) -> u8| -> Vec<u8> {
        (0..)
            .zip(new)
            .map(|(index, byte)| op(padded(index), *byte))
            .collect()
    };
    let bytes = match name {
        "add" => {
            let mut carry = 0_u16;
            let sum = (0..).zip(new).map(|(index, byte)| {
                let sum = u16::from(padded(index)) + u16::from(*byte) + carry;
                carry = sum >> 8;
                sum as u8
            });
            sum.collect()
        }
        "and" | "bit_and" | "and_v2" if before.is_some() => zip(|old, new| old & new),
        "or" | "bit_or" => zip(|old, new| old | new),
        "xor" | "bit_xor" => zip(|old, new| old ^ new),
        "append_if_fits" => [old, new].concat(),
        "max" if before.is_some() => {
            let old: Vec<u8> = (0..new.len()).map(padded).collect();
            let newer = new.iter().rev().cmp(old.iter().rev()).is_gt();
            if newer { new.to_vec() } else { old }
        }
        "min" | "min_v2" if before.is_some() => {
            let old: Vec<u8> = (0..new.len()).map(padded).collect();
            let newer = new.iter().rev().cmp(old.iter().rev()).is_lt();
            if newer { new.to_vec() } else { old }
        }
        "byte_max" if before.is_some() => old.max(new).to_vec(),
        "byte_min" if before.is_some() => old.min(new).to_vec(),
        "compare_and_clear" => {
            return before.filter(|before| *before != operand).cloned();
        }
        _ => new.to_vec(),
    };
    Some(Bytes::whole(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result_of(name: &str, before: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
        let before = before.map(Bytes::whole);
        result(name, before.as_ref(), &Bytes::whole(operand)).map(|value| value.kept().to_vec())
    }

    #[test]
    fn operations_do_what_the_storage_server_does() {
        assert_eq!(
            result_of("add", Some(b"\xff\x00"), b"\x01\x00"),
            Some(b"\x00\x01".to_vec())
        );
        assert_eq!(
            result_of("add", None, b"\x01\x00"),
            Some(b"\x01\x00".to_vec())
        );
        assert_eq!(
            result_of("max", Some(b"\x00\x02"), b"\xff\x01"),
            Some(b"\x00\x02".to_vec())
        );
        assert_eq!(
            result_of("min", Some(b"\x00\x02"), b"\xff\x01"),
            Some(b"\xff\x01".to_vec())
        );
        assert_eq!(
            result_of("append_if_fits", Some(b"a"), b"b"),
            Some(b"ab".to_vec())
        );
        assert_eq!(result_of("compare_and_clear", Some(b"a"), b"a"), None);
        assert_eq!(
            result_of("compare_and_clear", Some(b"b"), b"a"),
            Some(b"b".to_vec())
        );
        assert_eq!(
            result_of("set_versionstamped_value", None, b"v"),
            Some(b"v".to_vec())
        );
    }
}
