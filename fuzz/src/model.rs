//! What a database is, without a cluster: a sorted map, and what each write does to it.
//!
//! Short enough to be seen right at a glance, and written from FoundationDB's documentation of
//! the operations, not from our client, which it judges.

use arbitrary::{Arbitrary, Result, Unstructured};
use std::collections::BTreeMap;
use std::ops::Range;

/// Keys and their values.
pub type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// The end of what an ordinary transaction may see.
pub const END: &[u8] = b"\xff";

/// A short key of few letters, so that keys meet.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(pub Vec<u8>);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl<'a> Arbitrary<'a> for Key {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Key> {
        let length = *u.choose(&[0, 1, 1, 1, 1, 2, 2, 3])?;
        let letters = (0..length).map(|_| u.choose(b"\0ab\xfe").copied());
        Ok(Key(letters.collect::<Result<_>>()?))
    }
}

/// A change of the database.
#[derive(Clone, Debug, Arbitrary)]
pub enum Write {
    /// Gives a key a value.
    Set(Key, Key),
    /// Removes a key.
    Clear(Key),
    /// Removes all keys from the first to before the second.
    ClearRange(Key, Key),
    /// Changes a value by an operand.
    Atomic(Atomic, Key, Key),
}

/// An atomic operation.
#[derive(Clone, Copy, Debug, Arbitrary)]
#[repr(i32)]
#[allow(missing_docs, reason = "the names and numbers are FoundationDB's")]
pub enum Atomic {
    Add = 2,
    BitAnd = 6,
    BitOr = 7,
    BitXor = 8,
    AppendIfFits = 9,
    Max = 12,
    Min = 13,
    ByteMin = 16,
    ByteMax = 17,
    CompareAndClear = 20,
}

impl Write {
    /// Does it.
    pub fn apply(&self, map: &mut Map) {
        match self {
            Write::Set(key, value) => {
                map.insert(key.0.clone(), value.0.clone());
            }
            Write::Clear(key) => {
                map.remove(&key.0);
            }
            Write::ClearRange(begin, end) => {
                map.retain(|key, _| !(&begin.0..&end.0).contains(&key));
            }
            Write::Atomic(operation, key, operand) => {
                match operation.result(map.get(&key.0).map(Vec::as_slice), &operand.0) {
                    Some(value) => map.insert(key.0.clone(), value),
                    None => map.remove(&key.0),
                };
            }
        }
    }

    /// Whether a transaction that read this key conflicts with this write.
    pub fn touches(&self, key: &[u8]) -> bool {
        match self {
            Write::Set(written, _) | Write::Clear(written) | Write::Atomic(_, written, _) => {
                written.0 == key
            }
            Write::ClearRange(begin, end) => (&*begin.0..&*end.0).contains(&key),
        }
    }
}

impl Atomic {
    /// The value afterwards, if there is one.
    fn result(self, before: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
        let Some(before) = before else {
            return match self {
                Atomic::CompareAndClear => None,
                _ => Some(operand.to_vec()),
            };
        };
        // Numbers are little-endian and as long as the operand.
        let number: Vec<u8> = (0..operand.len())
            .map(|index| before.get(index).copied().unwrap_or(0))
            .collect();
        let bytewise = |operation: fn(u8, u8) -> u8| {
            let pairs = number.iter().zip(operand);
            pairs.map(|(one, other)| operation(*one, *other)).collect()
        };
        let is_less = number.iter().rev().lt(operand.iter().rev());
        Some(match self {
            Atomic::Add => {
                let mut carry = 0;
                let sums = number.iter().zip(operand).map(|(one, other)| {
                    let sum = u16::from(*one) + u16::from(*other) + carry;
                    carry = sum >> 8;
                    sum as u8
                });
                sums.collect()
            }
            Atomic::BitAnd => bytewise(|one, other| one & other),
            Atomic::BitOr => bytewise(|one, other| one | other),
            Atomic::BitXor => bytewise(|one, other| one ^ other),
            Atomic::AppendIfFits => [before, operand].concat(),
            Atomic::Max if is_less => operand.to_vec(),
            Atomic::Min if !is_less => operand.to_vec(),
            Atomic::Max | Atomic::Min => number,
            Atomic::ByteMin => before.min(operand).to_vec(),
            Atomic::ByteMax => before.max(operand).to_vec(),
            Atomic::CompareAndClear if before == operand => return None,
            Atomic::CompareAndClear => before.to_vec(),
        })
    }
}

/// A key, counted from another one.
#[derive(Clone, Debug)]
pub struct Selector {
    /// Where counting begins.
    pub key: Key,
    /// Whether that key itself is before the beginning.
    pub or_equal: bool,
    /// How many keys to go.
    pub offset: i32,
}

impl<'a> Arbitrary<'a> for Selector {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Selector> {
        Ok(Selector {
            key: u.arbitrary()?,
            or_equal: u.arbitrary()?,
            offset: *u.choose(&[0, 1, 1, 1, -3, -1, 2, 4, 1000, -1000])?,
        })
    }
}

impl Selector {
    /// The key it stands for; one outside the database is its beginning or its end.
    pub fn resolve(&self, map: &Map) -> Vec<u8> {
        match usize::try_from(self.index(map)) {
            Ok(index) => map.keys().nth(index).map_or(END.to_vec(), Vec::clone),
            Err(_) => Vec::new(),
        }
    }

    /// Whether it walks off the beginning.
    pub fn is_before_all(&self, map: &Map) -> bool {
        self.index(map) < 0
    }

    fn index(&self, map: &Map) -> i64 {
        let before = |key: &&Vec<u8>| **key < self.key.0 || self.or_equal && **key == self.key.0;
        map.keys().filter(before).count() as i64 - 1 + i64::from(self.offset)
    }
}

/// The rows of a range.
pub fn rows(map: &Map, range: Range<Vec<u8>>, reverse: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
    let inside = map.iter().filter(|(key, _)| range.contains(*key));
    let mut rows: Vec<_> = inside
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if reverse {
        rows.reverse();
    }
    rows
}
