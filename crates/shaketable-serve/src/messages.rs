//! The messages between the client in one program and the servers in another.
//!
//! They are the requests of [`shaketable_cluster::proto`], which is the one border between client
//! and servers, and nothing else. An endpoint cannot travel; the server gives it a number, and the
//! client addresses its requests to numbers. What an override of a decision makes of a request does
//! not travel either: that is the business of simulations.

use crate::wire::{Input, Malformed, Wire, wire_struct};
use bytes::Bytes;
use shaketable_cluster::proto::{
    Commit, CommitOutcome, CommitTransaction, GetKey, GetKeyLocations, GetKeyValues,
    GetMappedKeyValues, GetReadVersion, GetSplitPoints, GetStorageMetrics, GetValue, KeyRange,
    KeyValues, MappedKeyValue, MappedKeyValues, OpenDatabase, ReadVersion, WatchValue,
};
use shaketable_kernel::{Address, Request};

/// Both sides must have the same number, or they do not understand each other. It grows with every
/// change of what follows.
pub const PROTOCOL: u32 = 1;

/// What each side says first.
pub const GREETING_BYTES: usize = 16;
const MAGIC: &[u8; 12] = b"shaketable/s";

/// What to say first.
pub fn greeting(protocol: u32) -> [u8; GREETING_BYTES] {
    let mut greeting = [0; GREETING_BYTES];
    greeting[..MAGIC.len()].copy_from_slice(MAGIC);
    greeting[MAGIC.len()..].copy_from_slice(&protocol.to_le_bytes());
    greeting
}

/// The protocol that the other side has said it speaks.
pub fn read_greeting(greeting: &[u8; GREETING_BYTES]) -> Result<u32, Malformed> {
    match greeting.split_last_chunk::<4>() {
        Some((magic, protocol)) if magic == MAGIC => Ok(u32::from_le_bytes(*protocol)),
        _ => Err(Malformed("it does not begin with a greeting")),
    }
}

/// A request that travels: which one, and what its reply looks like on the way.
pub trait Question: Request + Wire {
    /// The number of its kind.
    const KIND: u8;
    /// The reply as it travels.
    type Answer: Wire;
}

/// A question whose reply travels as it is: nothing in it means something on one side only.
pub trait Plain: Question<Answer = <Self as Request>::Reply> {}

macro_rules! questions {
    ({ $($name:ident = $kind:literal -> $answer:ty,)* }
     plain { $($plain:ident = $number:literal,)* }) => {
        $(impl Question for $name {
            const KIND: u8 = $kind;
            type Answer = $answer;
        })*
        $(impl Question for $plain {
            const KIND: u8 = $number;
            type Answer = <$plain as Request>::Reply;
        }
        impl Plain for $plain {})*
    };
}

questions! {
    {
        OpenDatabase = 1 -> Proxies,
        GetKeyLocations = 4 -> Result<Vec<Location>, shaketable_cluster::error::Error>,
    }
    plain {
        GetReadVersion = 2,
        Commit = 3,
        GetValue = 5,
        GetKey = 6,
        GetKeyValues = 7,
        GetMappedKeyValues = 8,
        WatchValue = 9,
        GetStorageMetrics = 10,
        GetSplitPoints = 11,
        Reboot = 12,
    }
}

/// Ends the generation of the server, if one of its processes has this address.
#[derive(Debug)]
pub struct Reboot {
    /// As the status shows it.
    pub address: Bytes,
}
impl Request for Reboot {
    type Reply = bool;
}

/// What precedes every question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Chosen by the client; the answer carries it again.
    pub id: u32,
    /// [`Question::KIND`].
    pub kind: u8,
    /// The number of the endpoint, where there are several.
    pub endpoint: u32,
}

/// What precedes every answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned {
    /// The question's.
    pub id: u32,
    /// Whether an answer follows. If not, the server it was for is gone.
    pub answered: bool,
}

/// The proxies of a generation, and who plays which role in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxies {
    /// Its number.
    pub generation: u64,
    /// The numbers of the GRV proxies.
    pub grv_proxies: Vec<u32>,
    /// The numbers of the commit proxies.
    pub commit_proxies: Vec<u32>,
    /// Names of roles, and the processes that play them.
    pub roles: Vec<(String, Place)>,
    /// How many there are of each kind.
    pub configuration: Vec<(String, usize)>,
}

/// A process, as a status describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: Address,
    /// Its machine.
    pub machine: String,
    /// Its zone.
    pub zone: String,
    /// Its datacenter.
    pub datacenter: String,
    /// Its class.
    pub class: String,
}

/// A shard and the servers that hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The keys of the shard.
    pub range: KeyRange,
    /// The servers.
    pub servers: Vec<Server>,
}

/// A storage server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// The number of its endpoints.
    pub number: u32,
    /// Its identity.
    pub id: u64,
    /// Its address.
    pub address: Address,
}

wire_struct!(Envelope { id, kind, endpoint });
wire_struct!(Returned { id, answered });
wire_struct!(Proxies {
    generation,
    grv_proxies,
    commit_proxies,
    roles,
    configuration
});
wire_struct!(Place {
    name,
    address,
    machine,
    zone,
    datacenter,
    class
});
wire_struct!(Location { range, servers });
wire_struct!(Server {
    number,
    id,
    address
});
wire_struct!(Reboot { address });
wire_struct!(OpenDatabase { known_generation });
wire_struct!(GetReadVersion {
    transaction_count,
    priority,
    causal_read_risky,
    tags
});
wire_struct!(ReadVersion {
    version,
    locked,
    metadata_version
});
wire_struct!(Commit {
    transaction,
    first_in_batch,
    idempotency_id
});
wire_struct!(CommitTransaction {
    read_snapshot,
    read_conflict_ranges,
    write_conflict_ranges,
    mutations,
    report_conflicting_keys,
    lock_aware,
} unsent { tag: None, fate: None, truth: None });
wire_struct!(GetKeyLocations {
    range,
    limit,
    reverse
});
wire_struct!(GetValue { key, version } unsent { is_early: false });
wire_struct!(GetKey { selector, version } unsent { is_early: false });
wire_struct!(GetKeyValues { begin, end, limit, limit_bytes, reverse, version }
    unsent { is_early: false });
wire_struct!(KeyValues { rows, more });
wire_struct!(GetMappedKeyValues { primary, mapper });
wire_struct!(MappedKeyValue { row, range, rows });
wire_struct!(MappedKeyValues { rows, more });
wire_struct!(WatchValue { key, value, version } unsent { fate: None });
wire_struct!(GetStorageMetrics { range });
wire_struct!(GetSplitPoints { range, chunk_bytes });

impl Wire for CommitOutcome {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            CommitOutcome::Committed {
                stamp,
                metadata_version,
            } => {
                true.put(out);
                stamp.put(out);
                metadata_version.put(out);
            }
            CommitOutcome::Conflict { conflicting_ranges } => {
                false.put(out);
                conflicting_ranges.put(out);
            }
        }
    }
    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(match bool::take(input)? {
            true => CommitOutcome::Committed {
                stamp: Wire::take(input)?,
                metadata_version: Wire::take(input)?,
            },
            false => CommitOutcome::Conflict {
                conflicting_ranges: Wire::take(input)?,
            },
        })
    }
}
