//! How values travel over the socket: little-endian numbers, counted lists, tagged choices.
//!
//! The bytes come from another process, so nothing in them is trusted. Reading never panics, never
//! allocates more than a small multiple of what has arrived, and checks what the servers rely on:
//! ranges do not run backwards, and a place for a versionstamp lies inside its operand.

use bytes::Bytes;
use shaketable_cluster::error::Error;
use shaketable_cluster::proto::{
    KeyRange, KeySelector, KeyValue, Mutation, MutationKind, StorageError, TransactionPriority,
    Versionstamp,
};
use shaketable_kernel::Address;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The other side has sent something that means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes on the socket are no message: {0}")]
pub struct Malformed(pub &'static str);

/// What is left to read of a message.
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// A message that has arrived.
    pub fn new(message: &'a [u8]) -> Input<'a> {
        Input(message)
    }

    /// Fails if anything is left.
    pub fn end(self) -> Result<(), Malformed> {
        match self.0 {
            [] => Ok(()),
            _ => Err(Malformed("it goes on after its end")),
        }
    }

    fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self
            .0
            .split_at_checked(count)
            .ok_or(Malformed("it ends in the middle"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }
}

/// A value that travels over the socket.
pub trait Wire: Sized {
    /// Appends it to a message.
    fn put(&self, out: &mut Vec<u8>);
    /// Reads it from a message.
    fn take(input: &mut Input<'_>) -> Result<Self, Malformed>;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Wire for $number {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
                Ok(<$number>::from_le_bytes(input.array()?))
            }
        }
    )*};
}
numbers!(u8, u16, u32, u64, i32, i64);

impl Wire for usize {
    fn put(&self, out: &mut Vec<u8>) {
        (*self as u64).put(out);
    }
    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        usize::try_from(u64::take(input)?).map_err(|_| Malformed("a number is too large"))
    }
}

impl Wire for bool {
    fn put(&self, out: &mut Vec<u8>) {
        u8::from(*self).put(out);
    }
    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        match u8::take(input)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed("a yes or no is neither")),
        }
    }
}

impl Wire for () {
    fn put(&self, _: &mut Vec<u8>) {}
    fn take(_: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(())
    }
}

fn put_count(count: usize, out: &mut Vec<u8>) {
    // A message is smaller than this, and so are all lists in it.
    (count as u32).put(out);
}

impl Wire for Bytes {
    fn put(&self, out: &mut Vec<u8>) {
        put_count(self.len(), out);
        out.extend_from_slice(self);
    }
    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        let count = u32::take(input)? as usize;
        Ok(Bytes::copy_from_slice(input.bytes(count)?))
    }
}

impl Wire for String {
    fn put(&self, out: &mut Vec<u8>) {
        put_count(self.len(), out);
        out.extend_from_slice(self.as_bytes());
    }
    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        let count = u32::take(input)? as usize;
        let text = std::str::from_utf8(input.bytes(count)?);
        Ok(text
            .map_err(|_| Malformed("a text is not UTF-8"))?
            .to_owned())
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        put_count(self.len(), out);
        self.iter().for_each(|item| item.put(out));
    }
    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        let count = u32::take(input)? as usize;
        // Nothing is set aside for items that have not arrived: each of them is a byte at least.
        if count > input.0.len() {
            return Err(Malformed("a list is longer than its message"));
        }
        (0..count).map(|_| T::take(input)).collect()
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }
    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        bool::take(input)?.then(|| T::take(input)).transpose()
    }
}

impl<T: Wire, E: Wire> Wire for Result<T, E> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_ok().put(out);
        match self {
            Ok(value) => value.put(out),
            Err(error) => error.put(out),
        }
    }
    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(match bool::take(input)? {
            true => Ok(T::take(input)?),
            false => Err(E::take(input)?),
        })
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }
    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok((A::take(input)?, B::take(input)?))
    }
}

/// Declares that a struct travels as its fields, one after another.
macro_rules! wire_struct {
    ($name:ident { $($field:ident),* $(,)? } $(unsent { $($unsent:ident: $default:expr),* })?) => {
        impl $crate::wire::Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $($crate::wire::Wire::put(&self.$field, out);)*
            }
            fn take(
                input: &mut $crate::wire::Input<'_>,
            ) -> Result<Self, $crate::wire::Malformed> {
                Ok($name {
                    $($field: $crate::wire::Wire::take(input)?,)*
                    $($($unsent: $default,)*)?
                })
            }
        }
    };
}
pub(crate) use wire_struct;

wire_struct!(KeySelector {
    key,
    or_equal,
    offset
});
wire_struct!(KeyValue { key, value });
wire_struct!(Versionstamp {
    version,
    batch_index
});

impl Wire for KeyRange {
    fn put(&self, out: &mut Vec<u8>) {
        self.begin.put(out);
        self.end.put(out);
    }
    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        let (begin, end) = (Bytes::take(input)?, Bytes::take(input)?);
        if begin > end {
            return Err(Malformed("a range runs backwards"));
        }
        Ok(KeyRange { begin, end })
    }
}

impl Wire for Error {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        match i32::take(input)? {
            0 => Err(Malformed("an error has no code")),
            code => Ok(Error(code)),
        }
    }
}

impl Wire for StorageError {
    fn put(&self, out: &mut Vec<u8>) {
        let code = match self {
            StorageError::WrongShardServer => None,
            StorageError::Code(error) => Some(*error),
        };
        code.put(out);
    }
    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        let code: Option<Error> = Wire::take(input)?;
        Ok(code.map_or(StorageError::WrongShardServer, StorageError::Code))
    }
}

impl Wire for TransactionPriority {
    fn put(&self, out: &mut Vec<u8>) {
        let number: u8 = match self {
            TransactionPriority::Batch => 0,
            TransactionPriority::Default => 1,
            TransactionPriority::Immediate => 2,
        };
        number.put(out);
    }
    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        match u8::take(input)? {
            0 => Ok(TransactionPriority::Batch),
            1 => Ok(TransactionPriority::Default),
            2 => Ok(TransactionPriority::Immediate),
            _ => Err(Malformed("a priority is unknown")),
        }
    }
}

impl Wire for Address {
    fn put(&self, out: &mut Vec<u8>) {
        match self.ip {
            IpAddr::V4(ip) => {
                4u8.put(out);
                out.extend_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                6u8.put(out);
                out.extend_from_slice(&ip.octets());
            }
        }
        self.port.put(out);
    }
    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        let ip = match u8::take(input)? {
            4 => IpAddr::V4(Ipv4Addr::from(input.array::<4>()?)),
            6 => IpAddr::V6(Ipv6Addr::from(input.array::<16>()?)),
            _ => return Err(Malformed("an address has an unknown form")),
        };
        let port = u16::take(input)?;
        Ok(Address { ip, port })
    }
}

/// Every kind of mutation, by the number that FoundationDB gives it.
const KINDS: [MutationKind; 16] = [
    MutationKind::SetValue,
    MutationKind::ClearRange,
    MutationKind::Add,
    MutationKind::And,
    MutationKind::Or,
    MutationKind::Xor,
    MutationKind::AppendIfFits,
    MutationKind::Max,
    MutationKind::Min,
    MutationKind::SetVersionstampedKey,
    MutationKind::SetVersionstampedValue,
    MutationKind::ByteMin,
    MutationKind::ByteMax,
    MutationKind::MinV2,
    MutationKind::AndV2,
    MutationKind::CompareAndClear,
];

impl Wire for Mutation {
    fn put(&self, out: &mut Vec<u8>) {
        (self.kind as u8).put(out);
        self.param1.put(out);
        self.param2.put(out);
    }
    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        let number = u8::take(input)?;
        let kind = KINDS.into_iter().find(|kind| *kind as u8 == number);
        let mutation = Mutation {
            kind: kind.ok_or(Malformed("a mutation is unknown"))?,
            param1: Bytes::take(input)?,
            param2: Bytes::take(input)?,
        };
        let stamped = match mutation.kind {
            MutationKind::ClearRange if mutation.param1 > mutation.param2 => {
                return Err(Malformed("a range runs backwards"));
            }
            MutationKind::SetVersionstampedKey => &mutation.param1,
            MutationKind::SetVersionstampedValue => &mutation.param2,
            _ => return Ok(mutation),
        };
        let has_room = stamped
            .split_last_chunk::<4>()
            .is_some_and(|(text, place)| {
                u32::from_le_bytes(*place) as usize + STAMP_BYTES <= text.len()
            });
        match has_room {
            true => Ok(mutation),
            false => Err(Malformed("a versionstamp has no place")),
        }
    }
}

/// The bytes of a versionstamp as servers write it.
const STAMP_BYTES: usize = 10;
