//! Big things stay possible: no cost here may grow with the square of the size.
//!
//! There is no clock in these tests. Linear work takes seconds in a debug build; quadratic work
//! would take days.

use bytes::Bytes;
use shaketable_cluster::client::{Database, RangeLimits, Transaction};
use shaketable_cluster::cluster::{Cluster, ClusterConfig};
use shaketable_cluster::proto::KeySelector;
use shaketable_kernel::{Kernel, ProcessSpec};

const KEYS: u32 = 1_000_000;
const KEYS_PER_TRANSACTION: u32 = 50_000;
const WATCHES: u32 = 10_000;

fn database(kernel: &Kernel) -> Database {
    let cluster = Cluster::start(kernel, ClusterConfig::single_process(true));
    let client = kernel.add_process(ProcessSpec::default());
    kernel.boot(client);
    cluster.open_database(client, 740)
}

fn key(number: u32) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

fn first_at(key: Bytes) -> KeySelector {
    KeySelector {
        key,
        or_equal: false,
        offset: 1,
    }
}

/// The beginning and end of the key space.
fn everything() -> (Bytes, Bytes) {
    (Bytes::new(), Bytes::from_static(b"\xff"))
}

async fn commit(transaction: &Transaction) {
    transaction.commit().await.expect("nobody else is there");
}

#[test]
fn a_million_keys_are_written_read_in_one_range_and_cleared() {
    let kernel = Kernel::simulation(1);
    let database = database(&kernel);
    kernel
        .block_on(async {
            for begin in (0..KEYS).step_by(KEYS_PER_TRANSACTION as usize) {
                let transaction = database.create_transaction();
                for number in begin..begin + KEYS_PER_TRANSACTION {
                    transaction.set(key(number), Bytes::from_static(b"value"));
                }
                commit(&transaction).await;
            }
            for reverse in [false, true] {
                let transaction = database.create_transaction();
                let (begin, end) = everything();
                let (begin, end) = (first_at(begin), first_at(end));
                let limits = RangeLimits::rows(i32::MAX);
                let rows = transaction
                    .get_range(begin, end, limits, false, reverse)
                    .await
                    .expect("a read")
                    .rows;
                assert_eq!(rows.len(), KEYS as usize);
                let first = if reverse { KEYS - 1 } else { 0 };
                assert_eq!(rows[0].key, key(first));
            }
            let transaction = database.create_transaction();
            let (begin, end) = everything();
            transaction.clear_range(begin, end);
            commit(&transaction).await;
            let transaction = database.create_transaction();
            assert_eq!(transaction.get(key(7), false).await, Ok(None));
        })
        .expect("no deadlock");
}

#[test]
fn ten_thousand_watches_are_set_and_all_fire() {
    let kernel = Kernel::simulation(1);
    let database = database(&kernel);
    kernel
        .block_on(async {
            let transaction = database.create_transaction();
            let watches: Vec<_> = (0..WATCHES)
                .map(|number| transaction.watch(key(number)))
                .collect();
            commit(&transaction).await;
            let transaction = database.create_transaction();
            for number in 0..WATCHES {
                transaction.set(key(number), Bytes::from_static(b"changed"));
            }
            commit(&transaction).await;
            for watch in watches {
                assert_eq!(watch.await, Ok(()));
            }
        })
        .expect("no deadlock");
}
