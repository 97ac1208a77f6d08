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
        let mut replicas = Replicas::default();
        for (index, (process, disk)) in disks.iter().enumerate() {
            for (other_process, other) in &disks[index + 1..] {
                let (disk, other) = (disk.borrow(), other.borrow());
                let difference = compare(&disk, &other, &mut replicas.rows_compared);
                if let Some((key, version)) = difference {
                    let found = [(process, &disk), (other_process, &other)].map(|(at, disk)| {
                        let address = self.kernel().process(*at).address.to_string();
                        let value = disk.rows.get(&key, version);
                        (address, value.map(<[u8]>::to_vec))
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
    use crate::cluster::ClusterConfig;
    use crate::server::layout::LayoutOptions;
    use bytes::Bytes;
    use shaketable_kernel::{Address, Kernel, ProcessSpec};

    /// A cluster with a hundred rows, which every server knows to be committed.
    fn cluster_with_rows(seed: u64) -> (Kernel, Cluster) {
        let kernel = Kernel::simulation(seed);
        let config = ClusterConfig::simulation(&kernel, &LayoutOptions::default(), false).unwrap();
        let cluster = Cluster::start(&kernel, config);
        let client = kernel.add_process(ProcessSpec {
            name: "client".into(),
            address: Address::v4(3, 4, 3, 1, 1),
            ..ProcessSpec::default()
        });
        let database = cluster.open_database(client, 740);
        let commit = async |keys: &[String]| {
            let transaction = database.create_transaction();
            loop {
                for key in keys {
                    let key = Bytes::from(key.clone());
                    transaction.set(key, Bytes::from_static(b"as written"));
                }
                match transaction.commit().await {
                    Ok(()) => break,
                    Err(error) => transaction.on_error(error).await.unwrap(),
                }
            }
        };
        let rows: Vec<String> = (0..100).map(|number| format!("row/{number:03}")).collect();
        let write = async {
            commit(&rows).await;
            // Servers learn with the next commits that no recovery will undo this one.
            for _ in 0..3 {
                kernel.sleep(1.0).await;
                commit(&["later".to_owned()]).await;
            }
            kernel.sleep(1.0).await;
        };
        kernel.block_on(write).unwrap();
        (kernel, cluster)
    }

    /// The disks that hold a key.
    fn holders(cluster: &Cluster, key: &[u8]) -> Vec<Rc<RefCell<StorageDisk>>> {
        let disks = cluster.servers().iter().filter_map(|process| {
            let disk = cluster.kernel().disk(*process);
            disk.get::<RefCell<StorageDisk>>(storage::DISK_NAME)
        });
        let holds = |disk: &Rc<RefCell<StorageDisk>>| disk.borrow().rows.latest(key).is_some();
        disks.filter(holds).collect()
    }

    #[test]
    fn replicas_that_nothing_has_broken_are_the_same() {
        for seed in 0..10 {
            let (kernel, cluster) = cluster_with_rows(seed);
            let replicas = holders(&cluster, b"row/050").len() as u64;
            let compared = cluster.compare_replicas();
            assert_eq!(compared.difference, None, "seed {seed}");
            // Each pair of servers has all of them.
            let pairs = replicas * (replicas - 1) / 2;
            assert!(compared.rows_compared >= 100 * pairs, "seed {seed}");
            kernel.shutdown();
        }
    }

    #[test]
    fn a_replica_that_was_broken_on_purpose_is_found() {
        let mut found = 0;
        for seed in 0..10 {
            let (kernel, cluster) = cluster_with_rows(seed);
            let holders = holders(&cluster, b"row/050");
            if let [first, _, ..] = &holders[..] {
                let mut disk = first.borrow_mut();
                let version = disk.version;
                // What a server may do to a row that is newer than everything it has.
                match seed % 2 {
                    0 => disk.rows.set(version, &b"row/050"[..], b"broken"),
                    _ => disk.rows.clear(version, &b"row/050"[..]),
                }
                disk.known_committed = version;
                drop(disk);
                for other in &holders[1..] {
                    let mut other = other.borrow_mut();
                    other.version = other.version.max(version);
                    other.known_committed = other.version;
                }
                let difference = cluster
                    .compare_replicas()
                    .difference
                    .expect("it was broken");
                assert_eq!(difference.key, b"row/050");
                let values: Vec<_> = difference.found.iter().map(|(_, value)| value).collect();
                let broken = [b"broken".to_vec()];
                let expected = match seed % 2 {
                    0 => Some(&broken[0]),
                    _ => None,
                };
                assert!(values.iter().any(|value| value.as_ref() == expected));
                let told = difference.to_string();
                assert!(told.starts_with("the replicas of \"row/050\" differ at version "));
                assert!(told.contains("has \"as written\""), "{told}");
                found += 1;
            }
            kernel.shutdown();
        }
        assert!(found >= 5, "most layouts have replicas: {found}");
    }
}
