//! What the clients of the proof do, one file per workload.

mod anything;
mod baton;
mod claims;
mod queue;
mod ring;
mod signals;
mod transfers;
mod waits;

pub use anything::Anything;
pub use baton::Baton;
pub use claims::Claims;
pub use queue::Queue;
pub use ring::Ring;
pub use signals::Signals;
pub use transfers::Transfers;
pub use waits::Waits;

use bytes::Bytes;

/// A number as a value.
fn value(number: u64) -> Bytes {
    Bytes::copy_from_slice(&number.to_le_bytes())
}

/// A value as a number; a missing value is 0.
fn number(value: Option<&Bytes>) -> u64 {
    value.map_or(0, |bytes| {
        u64::from_le_bytes(bytes[..].try_into().expect("eight bytes"))
    })
}
