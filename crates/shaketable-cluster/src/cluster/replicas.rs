//! Whether all replicas hold the same rows.
//!
//! Every shard is on several storage servers, and whichever answers, a client must read the same.
//! FoundationDB's tester proves it at the end of a run: it waits until the database is quiet, and
//! reads every shard from every replica. Here the servers are looked at from outside, at whatever
//! moment: two of them are compared at a version that both have, that both can still read, and that
//! no recovery will undo. So nothing has to be quiet, no time passes, and a run that is checked is
//! the same run. A server that is dead or far behind may have no version in common with the others,
//! and is left out; so are the last commits, as long as the servers do not know that they will
//! stay.

use super::Cluster;
use crate::proto::Version;
use crate::server::storage::{self, StorageDisk};
use shaketable_kernel::ProcessId;
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

/// What a comparison of all replicas has shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replicas {
    /// How many rows were found twice, once for each pair of servers.
    pub rows_compared: u64,
    /// The first row in which two servers differ.
    pub difference: Option<Difference>,
}

/// A row in which two servers differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The key.
    pub key: Vec<u8>,
    /// At which version.
    pub version: Version,
    /// What each has: the address of its process, and the value.
    pub found: [(String, Option<Vec<u8>>); 2],
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, version) = (self.key.escape_ascii(), self.version);
        write!(f, "the replicas of \"{key}\" differ at version {version}: ")?;
        for (number, (address, value)) in self.found.iter().enumerate() {
            let comma = if number == 0 { "" } else { ", " };
            match value {
                Some(value) => write!(f, "{comma}{address} has \"{}\"", value.escape_ascii())?,
                None => write!(f, "{comma}{address} has nothing")?,
            }
        }
        Ok(())
    }
}

impl Cluster {
    /// Compares the rows of all replicas.
    pub fn compare_replicas(&self) -> Replicas {
        let disks: Vec<(ProcessId, Rc<RefCell<StorageDisk>>)> = self
            .servers()
            .iter()
            .filter_map(|process| {
                let disk = self.kernel().disk(*process);
                Some((*process, disk.get(storage::DISK_NAME)?))
            })
            .collect();
        compare_all(&disks, |process| {
            self.kernel().process(*process).address.to_string()
        })
    }
}

/// Compares every server with every other one, up to the first difference.
fn compare_all<P>(
    disks: &[(P, Rc<RefCell<StorageDisk>>)],
    address: impl Fn(&P) -> String,
) -> Replicas {
    let mut replicas = Replicas::default();
    for (index, (process, disk)) in disks.iter().enumerate() {
        for (other_process, other) in &disks[index + 1..] {
            let (disk, other) = (disk.borrow(), other.borrow());
            let difference = compare(&disk, &other, &mut replicas.rows_compared);
            if let Some((key, version)) = difference {
                let found = [(process, &disk), (other_process, &other)].map(|(at, disk)| {
                    let value = disk.rows.get(&key, version);
                    (address(at), value.map(<[u8]>::to_vec))
                });
                replicas.difference = Some(Difference {
                    key,
                    version,
                    found,
                });
                return replicas;
            }
        }
    }
    replicas
}

/// Compares what two servers both hold, and returns the first key in which they differ.
fn compare(one: &StorageDisk, two: &StorageDisk, rows: &mut u64) -> Option<(Vec<u8>, Version)> {
    let newest = |disk: &StorageDisk| disk.version.min(disk.known_committed);
    let version = newest(one).min(newest(two));
    if version < one.rows.oldest().max(two.rows.oldest()) {
        return None;
    }
    // Both lists are in order: of two shards, the one that ends first meets nothing more.
    let (mut shards, mut others) = (one.served().peekable(), two.served().peekable());
    while let (Some((range, since)), Some((other, other_since))) = (shards.peek(), others.peek()) {
        let begin = (&range.begin).max(&other.begin);
        let end = (&range.end).min(&other.end);
        if begin < end && version >= *since.max(other_since) {
            let mut ours = one.rows.range(begin, end, version);
            let mut theirs = two.rows.range(begin, end, version);
            loop {
                match (ours.next(), theirs.next()) {
                    (None, None) => break,
                    (Some(ours), Some(theirs)) if ours == theirs => *rows += 1,
                    // The smaller key is the one that the other server does not have.
                    (ours, theirs) => {
                        let keys = [ours, theirs].into_iter().flatten().map(|(key, _)| key);
                        return Some((keys.min()?.to_vec(), version));
                    }
                }
            }
        }
        if range.end <= other.end {
            shards.next();
        } else {
            others.next();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::key::ALL_END;
    use crate::proto::{Key, KeyRange, Mutation, MutationKind};
    use crate::server::messages::ShardChange;
    use crate::server::storage::FIRST_VERSION;

    const VERSION: Version = 1_000_000;

    /// Servers that hold the same hundred rows, which every one knows to be committed.
    fn servers_with_rows(count: usize) -> Vec<(usize, Rc<RefCell<StorageDisk>>)> {
        let tags: Rc<[_]> = (1..=count as u64).collect();
        let everything = ShardChange {
            range: KeyRange {
                begin: Key::new(),
                end: ALL_END,
            },
            serving: tags.clone(),
            fetching: Rc::from([]),
        };
        let server = |(index, tag)| {
            let mut disk = StorageDisk::new(tag);
            disk.change_shard(FIRST_VERSION, &everything);
            for number in 0..100 {
                let row = Mutation {
                    kind: MutationKind::SetValue,
                    param1: format!("row/{number:03}").into(),
                    param2: Key::from_static(b"as written"),
                };
                disk.apply(VERSION, &row);
            }
            disk.version = VERSION;
            disk.known_committed = VERSION;
            (index, Rc::new(RefCell::new(disk)))
        };
        tags.iter().copied().enumerate().map(server).collect()
    }

    fn compare_servers(servers: &[(usize, Rc<RefCell<StorageDisk>>)]) -> Replicas {
        compare_all(servers, |index| format!("server {index}"))
    }

    #[test]
    fn each_pair_of_replicas_is_compared() {
        for count in 1..=5 {
            let compared = compare_servers(&servers_with_rows(count));
            assert_eq!(compared.difference, None);
            assert_eq!(
                compared.rows_compared,
                (100 * count * (count - 1) / 2) as u64
            );
        }
    }

    #[test]
    fn a_replica_that_was_broken_on_purpose_is_found() {
        let broken = b"broken".to_vec();
        for count in 2..=5 {
            for (index, value) in
                (0..count).flat_map(|index| [(index, Some(&broken)), (index, None)])
            {
                let servers = servers_with_rows(count);
                let mut disk = servers[index].1.borrow_mut();
                match value {
                    Some(value) => disk.rows.set(VERSION, &b"row/050"[..], value),
                    None => disk.rows.clear(VERSION, &b"row/050"[..]),
                }
                drop(disk);
                let difference = compare_servers(&servers).difference.expect("it was broken");
                assert_eq!(
                    (&difference.key[..], difference.version),
                    (&b"row/050"[..], VERSION)
                );
                let server = format!("server {index}");
                let expected = (&server, value);
                let mut found = difference
                    .found
                    .iter()
                    .map(|(at, value)| (at, value.as_ref()));
                assert!(found.any(|found| found == expected), "{difference}");
                let told = difference.to_string();
                assert!(told.starts_with("the replicas of \"row/050\" differ at version "));
                assert!(told.contains("has \"as written\""), "{told}");
            }
        }
    }
}
