//! Atomic operations: what a mutation does to the existing value.
//!
//! The same function runs in two places, in the client's overlay (a transaction reads the outcome
//! of its own operations) and in the storage server (the operation meets the committed value). It
//! promises FoundationDB's result for every pair of lengths, including the distinctions that are
//! easy to lose:
//!
//! * an existing value is cut or zero-extended to the length of the operand, so a longer value
//!   loses its tail;
//! * for `ADD`, `OR`, `XOR`, `MAX` and `APPEND_IF_FITS` an empty value counts as an absent one; for
//!   the second versions of `AND` and `MIN`, introduced by API version 510, it does not;
//! * `BYTE_MIN` and `BYTE_MAX` compare whole strings, and `COMPARE_AND_CLEAR` may remove the key.
//!
//! Ranges are out of scope: clearing is not an operation on one value.

use super::key::VALUE_BYTES_MAX;
use crate::error::Error;
use crate::proto::MutationKind;
use bytes::Bytes;

/// What a mutation does to a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The value stays as it is, even if it is absent.
    Unchanged,
    /// The key is absent afterwards.
    Absent,
    /// This is the value afterwards.
    Value(Bytes),
    /// So are these bytes: a sum is nearly always this long, and needs no memory of its own before
    /// it is where it stays.
    Number([u8; 8]),
}

/// Returns the value after the mutation; `None` if the key is then absent.
///
/// # Panics
///
/// If `kind` is `ClearRange`, which is not a mutation of one value.
pub fn apply(kind: MutationKind, existing: Option<&Bytes>, operand: &Bytes) -> Option<Bytes> {
    match outcome(kind, existing.map(|value| &**value), operand) {
        Outcome::Unchanged => existing.cloned(),
        Outcome::Absent => None,
        Outcome::Value(value) => Some(value),
        Outcome::Number(bytes) => Some(crate::short::copy(&bytes)),
    }
}

/// Returns what the mutation does to a value.
///
/// A plain set and the two versionstamped operations store their operand: the commit proxy has
/// turned the latter into sets before a storage server sees them, and the overlay shows the operand
/// only to a reader that asked to bypass unreadability.
///
/// # Panics
///
/// If `kind` is `ClearRange`, which is not a mutation of one value.
pub fn outcome(kind: MutationKind, existing: Option<&[u8]>, operand: &Bytes) -> Outcome {
    use MutationKind as M;
    let bytes = existing.unwrap_or(&[]);
    let vacant = bytes.is_empty();
    let absent = existing.is_none();
    Outcome::Value(match kind {
        M::SetValue | M::SetVersionstampedKey | M::SetVersionstampedValue => operand.clone(),
        M::Add | M::Or | M::Xor | M::Max if vacant || operand.is_empty() => operand.clone(),
        M::Add => return add(bytes, operand),
        M::Or => zip(bytes, operand, |a, b| a | b),
        M::Xor => zip(bytes, operand, |a, b| a ^ b),
        M::AndV2 | M::MinV2 | M::ByteMin | M::ByteMax if absent => operand.clone(),
        M::And | M::AndV2 => zip(bytes, operand, |a, b| a & b),
        M::Max => pick(bytes, operand, std::cmp::Ordering::Greater),
        M::Min | M::MinV2 => pick(bytes, operand, std::cmp::Ordering::Less),
        M::ByteMin if bytes < &operand[..] => return Outcome::Unchanged,
        M::ByteMax if bytes > &operand[..] => return Outcome::Unchanged,
        M::ByteMin | M::ByteMax => operand.clone(),
        M::AppendIfFits if vacant => operand.clone(),
        M::AppendIfFits if bytes.len() + operand.len() > VALUE_BYTES_MAX => {
            return Outcome::Unchanged;
        }
        M::AppendIfFits => [bytes, operand].concat().into(),
        M::CompareAndClear if bytes == &operand[..] => return Outcome::Absent,
        M::CompareAndClear => return Outcome::Unchanged,
        M::ClearRange => panic!("a range cannot be cleared by a mutation of one value"),
    })
}

/// Returns the mutation that an application's operation code stands for, or
/// `invalid_mutation_type`.
///
/// `MIN` and `AND` got a second meaning for absent keys in API version 510. The codes of these
/// second versions are internal, yet FoundationDB accepts them from applications, so they are
/// accepted here.
pub fn kind_of_code(code: i32, api_version: i32) -> Result<MutationKind, Error> {
    use MutationKind as M;
    Ok(match code {
        2 => M::Add,
        6 if api_version < 510 => M::And,
        6 | 19 => M::AndV2,
        7 => M::Or,
        8 => M::Xor,
        9 => M::AppendIfFits,
        12 => M::Max,
        13 if api_version < 510 => M::Min,
        13 | 18 => M::MinV2,
        14 => M::SetVersionstampedKey,
        15 => M::SetVersionstampedValue,
        16 => M::ByteMin,
        17 => M::ByteMax,
        20 => M::CompareAndClear,
        _ => return Err(Error::INVALID_MUTATION_TYPE),
    })
}

/// The sum of two little-endian numbers, as wide as the operand; overflow is discarded.
fn add(existing: &[u8], operand: &[u8]) -> Outcome {
    // Counters nearly always have the width of a machine integer.
    if let (Ok(existing), Ok(operand)) = (existing.try_into(), operand.try_into()) {
        let sum = u64::from_le_bytes(existing).wrapping_add(u64::from_le_bytes(operand));
        return Outcome::Number(sum.to_le_bytes());
    }
    let mut carry = 0;
    let sum = extended(existing, operand.len())
        .zip(operand)
        .map(|(a, b)| {
            let sum = u16::from(a) + u16::from(*b) + carry;
            carry = sum >> 8;
            sum as u8
        });
    Outcome::Value(sum.collect())
}

/// Combines the values byte by byte, for as many bytes as the operand has.
fn zip(existing: &[u8], operand: &[u8], combine: impl Fn(u8, u8) -> u8) -> Bytes {
    extended(existing, operand.len())
        .zip(operand)
        .map(|(a, b)| combine(a, *b))
        .collect()
}

/// The existing number if it compares to the operand as `wanted`, otherwise the operand.
/// Little-endian, as wide as the operand.
fn pick(existing: &[u8], operand: &Bytes, wanted: std::cmp::Ordering) -> Bytes {
    let existing: Bytes = extended(existing, operand.len()).collect();
    if existing.iter().rev().cmp(operand.iter().rev()) == wanted {
        existing
    } else {
        operand.clone()
    }
}

/// The value cut or zero-extended to `length` bytes.
fn extended(value: &[u8], length: usize) -> impl Iterator<Item = u8> {
    value
        .iter()
        .copied()
        .chain(std::iter::repeat(0))
        .take(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(value: &[u8]) -> Bytes {
        Bytes::copy_from_slice(value)
    }

    fn after(kind: MutationKind, existing: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
        let existing = existing.map(bytes);
        apply(kind, existing.as_ref(), &bytes(operand)).map(Vec::from)
    }

    /// A value of up to 16 bytes as a number.
    fn number(value: &[u8]) -> u128 {
        value
            .iter()
            .rev()
            .fold(0, |number, byte| number << 8 | u128::from(*byte))
    }

    /// The number in as many bytes as `like` has; what does not fit is cut off.
    fn encoded(number: u128, like: &[u8]) -> Vec<u8> {
        number.to_le_bytes()[..like.len()].to_vec()
    }

    #[test]
    fn an_empty_value_counts_as_absent_for_some_operations_and_not_for_others() {
        use MutationKind as M;
        for kind in [M::Add, M::Or, M::Xor, M::Max, M::AppendIfFits] {
            assert_eq!(
                after(kind, Some(b""), b"ab").as_deref(),
                Some(&b"ab"[..]),
                "{kind:?}"
            );
            assert_eq!(
                after(kind, None, b"ab").as_deref(),
                Some(&b"ab"[..]),
                "{kind:?}"
            );
        }
        for kind in [M::AndV2, M::MinV2] {
            assert_eq!(
                after(kind, Some(b""), b"ab").as_deref(),
                Some(&[0, 0][..]),
                "{kind:?}"
            );
            assert_eq!(
                after(kind, None, b"ab").as_deref(),
                Some(&b"ab"[..]),
                "{kind:?}"
            );
        }
        for kind in [M::And, M::Min] {
            assert_eq!(
                after(kind, None, b"ab").as_deref(),
                Some(&[0, 0][..]),
                "{kind:?}"
            );
        }
        assert_eq!(
            after(M::ByteMin, Some(b""), b"ab").as_deref(),
            Some(&b""[..])
        );
        assert_eq!(
            after(M::ByteMax, Some(b""), b"ab").as_deref(),
            Some(&b"ab"[..])
        );
    }

    #[test]
    fn an_empty_operand_empties_the_value_unless_the_operation_compares_or_appends() {
        use MutationKind as M;
        for kind in [
            M::Add,
            M::And,
            M::AndV2,
            M::Or,
            M::Xor,
            M::Max,
            M::Min,
            M::MinV2,
        ] {
            for existing in [None, Some(&b""[..]), Some(b"ab")] {
                assert_eq!(
                    after(kind, existing, b"").as_deref(),
                    Some(&b""[..]),
                    "{kind:?}"
                );
            }
        }
        assert_eq!(
            after(M::AppendIfFits, Some(b"ab"), b"").as_deref(),
            Some(&b"ab"[..])
        );
        assert_eq!(after(M::AppendIfFits, None, b"").as_deref(), Some(&b""[..]));
        assert_eq!(
            after(M::ByteMax, Some(b"ab"), b"").as_deref(),
            Some(&b"ab"[..])
        );
    }

    #[test]
    fn appending_stops_at_the_size_limit_of_a_value() {
        let almost = vec![1; VALUE_BYTES_MAX - 1];
        let grown = after(MutationKind::AppendIfFits, Some(&almost), b"x").unwrap();
        assert_eq!(grown.len(), VALUE_BYTES_MAX);
        assert_eq!(
            after(MutationKind::AppendIfFits, Some(&grown), b"x").unwrap(),
            grown
        );
    }

    #[test]
    fn comparing_and_clearing_needs_the_whole_value_and_leaves_an_absent_key_absent() {
        let kind = MutationKind::CompareAndClear;
        assert_eq!(after(kind, Some(b"ab"), b"ab"), None);
        assert_eq!(after(kind, Some(b"ab"), b"a").as_deref(), Some(&b"ab"[..]));
        assert_eq!(after(kind, None, b"a"), None);
        assert_eq!(after(kind, Some(b""), b""), None);
    }

    #[test]
    fn codes_that_are_no_atomic_operation_are_refused() {
        for code in [-1, 0, 1, 3, 4, 5, 10, 11, 21, 99, 255, 256 + 2] {
            assert_eq!(
                kind_of_code(code, 740),
                Err(Error::INVALID_MUTATION_TYPE),
                "{code}"
            );
        }
        assert_eq!(kind_of_code(6, 500), Ok(MutationKind::And));
        assert_eq!(kind_of_code(6, 510), Ok(MutationKind::AndV2));
        assert_eq!(kind_of_code(13, 500), Ok(MutationKind::Min));
        assert_eq!(kind_of_code(13, 510), Ok(MutationKind::MinV2));
        assert_eq!(kind_of_code(18, 740), Ok(MutationKind::MinV2));
    }

    fn value() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop_oneof![Just(0), Just(1), Just(255), any::<u8>()], 0..12)
    }

    proptest! {
        #[test]
        fn arithmetic_is_that_of_unsigned_numbers_as_wide_as_the_operand(existing in value(), operand in value()) {
            let width = 1u128 << (8 * operand.len());
            let (e, p) = (number(&existing) % width, number(&operand));
            let vacant = existing.is_empty();
            let check = |kind, expected: u128| {
                prop_assert_eq!(after(kind, Some(&existing), &operand), Some(encoded(expected, &operand)));
                Ok(())
            };
            check(MutationKind::Add, (e + p) % width)?;
            check(MutationKind::Or, e | p)?;
            check(MutationKind::Xor, e ^ p)?;
            check(MutationKind::Max, if vacant { p } else { e.max(p) })?;
            for kind in [MutationKind::And, MutationKind::AndV2] {
                check(kind, e & p)?;
            }
            for kind in [MutationKind::Min, MutationKind::MinV2] {
                check(kind, e.min(p))?;
            }
        }

        #[test]
        fn byte_comparisons_are_those_of_whole_strings(existing in value(), operand in value()) {
            prop_assert_eq!(after(MutationKind::ByteMin, Some(&existing), &operand), Some(existing.clone().min(operand.clone())));
            prop_assert_eq!(after(MutationKind::ByteMax, Some(&existing), &operand), Some(existing.clone().max(operand.clone())));
            prop_assert_eq!(after(MutationKind::ByteMin, None, &operand), Some(operand.clone()));
            prop_assert_eq!(after(MutationKind::ByteMax, None, &operand), Some(operand));
        }

        #[test]
        fn appending_concatenates(existing in value(), operand in value()) {
            prop_assert_eq!(
                after(MutationKind::AppendIfFits, Some(&existing), &operand),
                Some([&existing[..], &operand].concat())
            );
        }
    }
}
