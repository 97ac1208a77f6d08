//! The messages between a program and `shaketable serve`: whatever bytes come over the socket,
//! reading them ends, and what can be read is written as the same bytes again.

use arbitrary::Unstructured;
use shaketable_cluster::proto::{
    Commit, GetKey, GetKeyLocations, GetKeyValues, GetMappedKeyValues, GetReadVersion,
    GetSplitPoints, GetStorageMetrics, GetValue, OpenDatabase, WatchValue,
};
use shaketable_serve::messages::{Envelope, Question, Reboot, Returned};
use shaketable_serve::wire::{Input, Wire};

/// Reads random bytes as every kind of message.
pub fn run(random: &mut Unstructured) -> arbitrary::Result<()> {
    let length = random.arbitrary_len::<u8>()?;
    let mut bytes = random.bytes(length)?.to_vec();
    // Counts that are small get further than random ones.
    for byte in &mut bytes {
        if random.ratio(2, 3)? {
            *byte &= 3;
        }
    }
    round_trip::<Envelope>(&bytes);
    round_trip::<Returned>(&bytes);
    check::<OpenDatabase>(&bytes);
    check::<GetReadVersion>(&bytes);
    check::<Commit>(&bytes);
    check::<GetKeyLocations>(&bytes);
    check::<GetValue>(&bytes);
    check::<GetKey>(&bytes);
    check::<GetKeyValues>(&bytes);
    check::<GetMappedKeyValues>(&bytes);
    check::<WatchValue>(&bytes);
    check::<GetStorageMetrics>(&bytes);
    check::<GetSplitPoints>(&bytes);
    check::<Reboot>(&bytes);
    Ok(())
}

/// A question, and the answer to it.
fn check<Q: Question>(bytes: &[u8]) {
    round_trip::<Q>(bytes);
    round_trip::<Q::Answer>(bytes);
}

fn round_trip<T: Wire>(bytes: &[u8]) {
    let Ok(value) = T::take(&mut Input::new(bytes)) else {
        return;
    };
    let mut written = Vec::new();
    value.put(&mut written);
    assert!(bytes.starts_with(&written), "it is written as it was read");
}
