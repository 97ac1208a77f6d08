//! Commits whose replies are lost because servers die under them.
//!
//! What a client is told must hold: a commit that succeeded has happened once; a commit that failed
//! with anything but 1021 has not happened; and after 1021 it either has happened already or never
//! will. With automatic idempotency there is no 1021 at all.

use bytes::Bytes;
use shaketable_cluster::client::Database;
use shaketable_cluster::cluster::{Cluster, ClusterConfig};
use shaketable_cluster::error::Error;
use shaketable_cluster::server::layout::LayoutOptions;
use shaketable_kernel::{Address, Kernel, KillKind, Priority, ProcessSpec};
use std::cell::Cell;
use std::rc::Rc;

const SEEDS: u64 = 20;
const INCREMENTS: u64 = 60;
const KILLS: u64 = 12;

/// What the increments of one counter came to.
#[derive(Default)]
struct Tally {
    succeeded: Cell<u64>,
    unknown: Cell<u64>,
}

#[test]
fn an_unknown_result_is_settled_and_idempotency_knows_it() {
    let mut unknown = 0;
    for seed in 0..SEEDS {
        for idempotent in [false, true] {
            unknown += run(seed, idempotent);
        }
    }
    assert!(unknown > 0, "no commit was ever lost: nothing was tested");
}

#[test]
fn a_commit_that_timed_out_may_still_land() {
    let kernel = Kernel::simulation(1);
    let cluster = Cluster::start(&kernel, ClusterConfig::single_process(false));
    let open = |last| {
        let process = kernel.add_process(ProcessSpec {
            name: format!("client {last}"),
            address: Address::v4(9, 9, 9, last, 1),
            ..ProcessSpec::default()
        });
        cluster.open_database(process, 740)
    };
    let (database, other) = (open(1), open(2));
    kernel.set_faults_enabled(true);
    let story = async {
        assert_eq!(read_counter(&database).await, 0);
        let transaction = database.create_transaction();
        let timeout = Bytes::copy_from_slice(&200_i64.to_le_bytes());
        transaction.set_option(500, Some(&timeout));
        let read = transaction.get(Bytes::from_static(b"counter"), false).await;
        assert_eq!(read, Ok(None));
        let one = Bytes::copy_from_slice(&1_u64.to_le_bytes());
        transaction.set(Bytes::from_static(b"counter"), one);
        let ip = |process| kernel.process(process).address.ip;
        for server in cluster.servers() {
            kernel.clog_pair(ip(database.process().id()), ip(*server), 1.0);
        }
        let told = transaction.commit().await;
        assert_eq!(told, Err(Error::TRANSACTION_TIMED_OUT));
        assert_eq!(read_counter(&other).await, 0, "it is still on its way");
        kernel.sleep(2.0).await;
        assert_eq!(read_counter(&other).await, 1, "it has landed");
    };
    kernel.block_on(story).unwrap();
    kernel.shutdown();
}

fn run(seed: u64, idempotent: bool) -> u64 {
    let kernel = Kernel::simulation(seed);
    let config = ClusterConfig::simulation(&kernel, &LayoutOptions::default(), false).unwrap();
    let cluster = Cluster::start(&kernel, config);
    let process = kernel.add_process(ProcessSpec {
        name: "client".into(),
        address: Address::v4(9, 9, 9, 9, 1),
        ..ProcessSpec::default()
    });
    let database = cluster.open_database(process, 740);
    let tally = Rc::new(Tally::default());
    let work = kernel.spawn(process, Priority::DefaultEndpoint, {
        let (database, tally) = (database.clone(), tally.clone());
        async move {
            for _ in 0..INCREMENTS {
                increment(&database, idempotent, &tally).await;
            }
        }
    });
    let killer = {
        let (kernel, random) = (kernel.clone(), kernel.stream("killer"));
        let servers = cluster.servers().to_vec();
        async move {
            for _ in 0..KILLS {
                kernel.sleep(random.range(0.2, 2.0)).await;
                let victim = *random.pick(&servers);
                kernel.reboot(victim, KillKind::RebootProcess, random.range(0.1, 3.0));
            }
        }
    };
    kernel
        .block_on(async {
            killer.await;
            work.await;
        })
        .unwrap();
    let counter = kernel.block_on(read_counter(&database)).unwrap();
    let (succeeded, unknown) = (tally.succeeded.get(), tally.unknown.get());
    let context = format!("seed {seed}, idempotent {idempotent}");
    assert!(
        counter >= succeeded,
        "{context}: {counter} of {succeeded} were kept"
    );
    assert!(
        counter <= succeeded + unknown,
        "{context}: {counter} instead of {succeeded}"
    );
    if idempotent {
        assert_eq!(unknown, 0, "{context}");
    }
    unknown
}

/// Adds one to the counter. After an unknown result it checks twice whether the addition happened:
/// what it sees must not change any more.
async fn increment(database: &Database, idempotent: bool, tally: &Tally) {
    let transaction = database.create_transaction();
    loop {
        if idempotent {
            transaction.set_option(505, None);
        }
        let attempt = async {
            let old = number(
                transaction
                    .get(Bytes::from_static(b"counter"), false)
                    .await?,
            );
            transaction.set(
                Bytes::from_static(b"counter"),
                Bytes::copy_from_slice(&(old + 1).to_le_bytes()),
            );
            transaction.commit().await
        };
        match attempt.await {
            Ok(()) => return tally.succeeded.set(tally.succeeded.get() + 1),
            Err(Error::COMMIT_UNKNOWN_RESULT) => {
                tally.unknown.set(tally.unknown.get() + 1);
                let seen = read_counter(database).await;
                database.process().sleep(3.0).await;
                assert_eq!(
                    read_counter(database).await,
                    seen,
                    "a settled fate has changed"
                );
                return;
            }
            Err(error) => transaction
                .on_error(error)
                .await
                .expect("it can be tried again"),
        }
    }
}

async fn read_counter(database: &Database) -> u64 {
    let transaction = database.create_transaction();
    loop {
        match transaction.get(Bytes::from_static(b"counter"), false).await {
            Ok(value) => return number(value),
            Err(error) => transaction
                .on_error(error)
                .await
                .expect("it can be tried again"),
        }
    }
}

fn number(value: Option<Bytes>) -> u64 {
    value.map_or(0, |bytes| u64::from_le_bytes(bytes[..].try_into().unwrap()))
}
