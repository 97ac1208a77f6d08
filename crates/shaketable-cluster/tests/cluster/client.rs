//! The client on a whole cluster: what an application sees of it.

use bytes::Bytes;
use shaketable_cluster::client::{ConflictRangeKind, Database, RangeLimits, Transaction};
use shaketable_cluster::cluster::{Cluster, ClusterConfig};
use shaketable_cluster::error::Error;
use shaketable_cluster::proto::{KeyRange, KeySelector};
use shaketable_cluster::time_keeper;
use shaketable_kernel::{Address, Kernel, ProcessSpec};
use std::future::Future;

/// A cluster and one client of it.
struct World {
    kernel: Kernel,
    cluster: Cluster,
    database: Database,
}

fn world_at(api_version: i32) -> World {
    World::start(ClusterConfig::single_process(false), api_version)
}

fn world() -> World {
    world_at(740)
}

impl World {
    fn start(config: ClusterConfig, api_version: i32) -> World {
        let kernel = Kernel::simulation(7);
        let cluster = Cluster::start(&kernel, config);
        let spec = ProcessSpec {
            address: Address {
                ip: [2, 0, 0, 1].into(),
                port: 1,
            },
            ..(*kernel.process(cluster.servers()[0])).clone()
        };
        let process = kernel.add_process(spec);
        kernel.boot(process);
        let database = cluster.open_database(process, api_version);
        World {
            kernel,
            cluster,
            database,
        }
    }

    fn run<F: Future>(&self, future: F) -> F::Output {
        self.kernel.block_on(future).expect("the test goes on")
    }

    fn transaction(&self) -> Transaction {
        self.database.create_transaction()
    }

    fn put(&self, rows: &[(&'static str, &'static str)]) {
        let transaction = self.transaction();
        for (key, value) in rows {
            transaction.set(key.as_bytes().into(), value.as_bytes().into());
        }
        self.run(transaction.commit()).unwrap();
    }

    fn get(&self, transaction: &Transaction, key: &'static str) -> Result<Option<Bytes>, Error> {
        self.run(transaction.get(Bytes::from_static(key.as_bytes()), false))
    }
}

fn key(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn at(text: &'static str) -> KeySelector {
    KeySelector::first_greater_or_equal(key(text))
}

fn range(begin: &'static str, end: &'static str) -> KeyRange {
    KeyRange {
        begin: key(begin),
        end: key(end),
    }
}

#[test]
fn what_is_committed_is_read_by_the_next_transaction() {
    let world = world();
    world.put(&[("a", "1"), ("b", "2")]);
    let transaction = world.transaction();
    assert_eq!(world.get(&transaction, "a"), Ok(Some(key("1"))));
    assert_eq!(world.get(&transaction, "c"), Ok(None));
    let rows = world
        .run(transaction.get_range(at(""), at("z"), RangeLimits::rows(10), false, false))
        .unwrap();
    assert_eq!(rows.rows.len(), 2);
    assert!(!rows.more);
}

#[test]
fn a_transaction_reads_its_own_writes() {
    let world = world();
    world.put(&[("a", "1"), ("b", "2"), ("c", "3")]);
    let transaction = world.transaction();
    transaction.set(key("b"), key("mine"));
    transaction.clear(key("c"));
    transaction.atomic_op(key("d"), key("x"), 9);
    let rows = world
        .run(transaction.get_range(at(""), at("z"), RangeLimits::rows(10), false, true))
        .unwrap();
    let keys: Vec<_> = rows
        .rows
        .iter()
        .map(|row| (&row.key[..], &row.value[..]))
        .collect();
    let expected: [(&[u8], &[u8]); 3] = [(b"d", b"x"), (b"b", b"mine"), (b"a", b"1")];
    assert_eq!(keys, expected);
}

#[test]
fn a_read_that_was_overtaken_conflicts() {
    let world = world();
    world.put(&[("a", "1")]);
    let (first, second) = (world.transaction(), world.transaction());
    world.get(&first, "a").unwrap();
    world.get(&second, "a").unwrap();
    first.set(key("a"), key("2"));
    second.set(key("b"), key("2"));
    assert_eq!(world.run(first.commit()), Ok(()));
    assert_eq!(world.run(second.commit()), Err(Error::NOT_COMMITTED));
    assert_eq!(world.run(second.on_error(Error::NOT_COMMITTED)), Ok(()));
    assert_eq!(world.get(&second, "a"), Ok(Some(key("2"))));
}

#[test]
fn a_watch_fires_when_its_value_changes_and_not_before() {
    let world = world();
    world.put(&[("a", "1")]);
    let transaction = world.transaction();
    let watch = transaction.watch(key("a"));
    world.run(transaction.commit()).unwrap();
    world.run(world.kernel.sleep(5.0));
    assert!(!watch.is_ready());
    world.put(&[("a", "2")]);
    assert_eq!(world.run(watch), Ok(()));
}

#[test]
fn cancelling_ends_a_watch_that_has_not_got_its_value_yet_or_would_not_have_elsewhere() {
    let ends = |instant: bool, seconds: f64, own: bool| {
        let kernel = Kernel::simulation(7);
        let cluster = Cluster::start(&kernel, ClusterConfig::single_process(instant));
        let process = cluster.servers()[0];
        let transaction = cluster.open_database(process, 740).create_transaction();
        if own {
            transaction.set(key("a"), key("1"));
        }
        let watch = transaction.watch(key("a"));
        kernel.block_on(kernel.sleep(seconds)).unwrap();
        transaction.cancel();
        kernel.block_on(kernel.timeout(1.0, watch)).unwrap()
    };
    let cancelled = Some(Err(Error::TRANSACTION_CANCELLED));
    assert_eq!(ends(false, 0.0, false), cancelled);
    assert_eq!(ends(false, 1.0, false), None, "its value is there");
    assert_eq!(
        ends(true, 1.0, false),
        cancelled,
        "elsewhere it would not be"
    );
    assert_eq!(
        ends(true, 0.0, true),
        None,
        "its value is the transaction's own"
    );
}

#[test]
fn a_watch_of_a_transaction_that_never_commits_ends_with_it() {
    let world = world();
    let transaction = world.transaction();
    let watch = transaction.watch(key("a"));
    world.run(world.kernel.sleep(1.0));
    drop(transaction);
    assert_eq!(world.run(watch), Err(Error::TRANSACTION_CANCELLED));
}

#[test]
fn the_first_deferred_error_sticks_until_reset() {
    let world = world();
    let transaction = world.transaction();
    transaction.clear_range(key("b"), key("a"));
    transaction.set(key("a"), key("1"));
    assert_eq!(world.get(&transaction, "a"), Err(Error::INVERTED_RANGE));
    assert_eq!(world.run(transaction.commit()), Err(Error::INVERTED_RANGE));
    transaction.reset();
    assert_eq!(world.get(&transaction, "a"), Ok(None));
}

#[test]
fn using_a_transaction_ends_its_commit() {
    let world = world();
    let transaction = world.transaction();
    transaction.set(key("a"), key("1"));
    let commit = transaction.commit();
    let read = transaction.get(key("a"), false);
    assert_eq!(world.run(read), Err(Error::USED_DURING_COMMIT));
    assert_eq!(world.run(commit), Err(Error::USED_DURING_COMMIT));
}

#[test]
fn a_read_only_commit_has_no_version() {
    let world = world();
    let transaction = world.transaction();
    world.get(&transaction, "a").unwrap();
    let stamp = transaction.get_versionstamp();
    transaction.add_conflict_range(range("a", "b"), ConflictRangeKind::Read);
    assert_eq!(world.run(transaction.commit()), Ok(()));
    assert_eq!(transaction.get_committed_version(), -1);
    assert_eq!(world.run(stamp).unwrap_err(), Error::NO_COMMIT_VERSION);
}

#[test]
fn a_versionstamp_is_that_of_the_commit() {
    let world = world();
    let transaction = world.transaction();
    let operand = [&b"at "[..], &[0; 10], &3u32.to_le_bytes()].concat();
    transaction.atomic_op(key("a"), operand.into(), 15);
    assert_eq!(
        world.get(&transaction, "a"),
        Err(Error::ACCESSED_UNREADABLE)
    );
    transaction.reset();
    let operand = [&b"at "[..], &[0; 10], &3u32.to_le_bytes()].concat();
    transaction.atomic_op(key("a"), operand.into(), 15);
    let stamp = transaction.get_versionstamp();
    world.run(transaction.commit()).unwrap();
    let stamp = world.run(stamp).unwrap();
    assert_eq!(stamp.version, transaction.get_committed_version());
    let value = world.get(&world.transaction(), "a").unwrap().unwrap();
    assert_eq!(&value[3..], &stamp.to_bytes());
}

#[test]
fn a_time_limit_ends_everything_until_reset() {
    let world = world();
    let transaction = world.transaction();
    transaction.set_option(500, Some(&100i64.to_le_bytes()));
    world.run(world.kernel.sleep(0.2));
    assert_eq!(
        world.get(&transaction, "a"),
        Err(Error::TRANSACTION_TIMED_OUT)
    );
    assert_eq!(
        world.run(transaction.on_error(Error::NOT_COMMITTED)),
        Err(Error::TRANSACTION_TIMED_OUT)
    );
    transaction.reset();
    assert_eq!(world.get(&transaction, "a"), Ok(None));
}

#[test]
fn a_version_that_is_not_reached_within_a_second_is_in_the_future() {
    let world = world();
    world.put(&[("a", "1")]);
    let transaction = world.transaction();
    transaction.set_read_version(1 << 62);
    assert_eq!(world.get(&transaction, "a"), Err(Error::FUTURE_VERSION));
    transaction.reset();
    transaction.set_read_version(1);
    assert_eq!(
        world.get(&transaction, "a"),
        Err(Error::TRANSACTION_TOO_OLD)
    );
}

#[test]
fn many_rows_come_in_batches() {
    let world = world();
    let transaction = world.transaction();
    for n in 0..5_000 {
        transaction.set(format!("k{n:05}").into(), vec![b'v'; 40].into());
    }
    world.run(transaction.commit()).unwrap();
    let transaction = world.transaction();
    let limits = RangeLimits::from_parameters(0, 0, -2, 1).unwrap();
    let (mut begin, mut rows, mut calls) = (at(""), 0, 0);
    loop {
        let batch = world
            .run(transaction.get_range(begin, at("z"), limits, false, false))
            .unwrap();
        rows += batch.rows.len();
        calls += 1;
        if !batch.more {
            break;
        }
        let last = batch.rows.last().unwrap().key.clone();
        begin = KeySelector {
            key: last,
            or_equal: true,
            offset: 1,
        };
    }
    assert_eq!((rows, calls), (5_000, 5));
    assert!(world.cluster.servers().len() == 1);
}

#[test]
fn system_rows_that_a_selector_runs_over_take_room_in_a_reply() {
    let world = world();
    world.put(&[
        ("k24", "a"),
        ("k25", "bbb"),
        ("k26", ""),
        ("k27", "ccc"),
        ("k28", "dddddddd"),
        ("k29", "e"),
    ]);
    // 256 bytes: filled by two system rows of 83 bytes and five of ours, each with 24 bytes on top.
    let small = RangeLimits::from_parameters(0, 0, 1, 1).unwrap();
    let read = |transaction: &Transaction, end| {
        let answer = world
            .run(transaction.get_range(at("k"), end, small, false, true))
            .unwrap();
        (answer.rows.len(), answer.more)
    };
    let two_rows_too_far = || KeySelector {
        key: key("k27"),
        or_equal: true,
        offset: 5,
    };
    assert_eq!(read(&world.transaction(), at("z")), (6, false));
    assert_eq!(read(&world.transaction(), two_rows_too_far()), (5, true));

    // The reply was full, so what lies before its last row is unknown, although nothing is there:
    // the read does not continue to the row that is known.
    let transaction = world.transaction();
    world.get(&transaction, "k24").unwrap();
    assert_eq!(read(&transaction, two_rows_too_far()), (5, true));
}

/// Buggify may shorten the window in which a transaction can commit to a second, and lengthen the
/// rest after 1007 to almost as much. Nobody else commits meanwhile.
#[test]
fn a_lone_client_that_rests_before_each_attempt_commits_within_a_short_window() {
    for rest in (0..=20).map(|tenths| f64::from(tenths) * 0.1 + 0.05) {
        let mut config = ClusterConfig::single_process(false);
        config.knobs.max_write_transaction_life_versions = 1_000_000;
        config.knobs.future_version_retry_delay = rest;
        config.knobs.default_max_backoff = 10.0;
        let world = World::start(config, 740);
        let late = world.run(async {
            world.kernel.sleep(1.95).await;
            let transaction = world.transaction();
            let mut late = 0;
            loop {
                transaction.set(key("k"), key("v"));
                match transaction.commit().await {
                    Ok(()) => return late,
                    Err(error) => transaction
                        .on_error(error)
                        .await
                        .expect("it can be retried"),
                }
                late += 1;
                assert!(late < 10, "rests of {rest} s: never in time");
            }
        });
        assert_eq!(late, 0, "rests of {rest} s");
    }
}

/// The only client of a cluster with rivals: `transact` is made anew until it commits. Returns how
/// many attempts ended with 1020, of how many commits.
fn conflicts_among_rivals(transact: impl AsyncFn(&Transaction) -> Result<(), Error>) -> (u32, u32) {
    const COMMITS: u32 = 2000;
    let config = ClusterConfig::single_process(true).among_rivals();
    let world = World::start(config, 740);
    world.cluster.set_faults_enabled(true);
    let conflicts = world.run(async {
        let mut conflicts = 0;
        for _ in 0..COMMITS {
            let transaction = world.transaction();
            loop {
                let attempt = async {
                    transact(&transaction).await?;
                    transaction.commit().await
                };
                let Err(error) = attempt.await else { break };
                conflicts += u32::from(error == Error::NOT_COMMITTED);
                transaction.on_error(error).await.expect("it passes");
            }
        }
        conflicts
    });
    (conflicts, COMMITS)
}

#[test]
fn a_client_among_rivals_conflicts_where_it_depends_on_what_it_read() {
    let (conflicts, commits) = conflicts_among_rivals(async |transaction| {
        transaction.get(key("row"), false).await?;
        transaction.set(key("row"), key("v"));
        Ok(())
    });
    // Three in a hundred attempts: within five standard deviations.
    let share = f64::from(conflicts) / f64::from(commits + conflicts);
    assert!((0.011..0.049).contains(&share), "{conflicts} of {commits}");
}

#[test]
fn a_client_among_rivals_that_reads_nothing_never_conflicts() {
    let (conflicts, _) = conflicts_among_rivals(async |transaction| {
        transaction.set(key("row"), key("v"));
        Ok(())
    });
    assert_eq!(conflicts, 0);
}

#[test]
fn the_time_keeper_maps_the_second_to_a_version_every_ten_seconds() {
    const PREFIX: &[u8] = b"\xff\x02/timeKeeper/map/";
    const READ_SYSTEM_KEYS: i32 = 302;

    let kernel = Kernel::simulation(1);
    let cluster = Cluster::start(&kernel, ClusterConfig::single_process(false));
    let client = kernel.add_process(ProcessSpec::default());
    kernel.boot(client);
    let database = cluster.open_database(client, 740);
    time_keeper::start(database.clone(), 1_000_000);
    let rows = kernel
        .block_on(async {
            kernel.sleep(35.0).await;
            let transaction = database.create_transaction();
            transaction.set_option(READ_SYSTEM_KEYS, None);
            let at = |key: &[u8]| KeySelector {
                key: Bytes::copy_from_slice(key),
                or_equal: false,
                offset: 1,
            };
            let (begin, end) = (at(PREFIX), at(b"\xff\x02/timeKeeper/map0"));
            transaction
                .get_range(begin, end, RangeLimits::rows(100), false, false)
                .await
        })
        .expect("the cluster answers")
        .expect("the map can be read")
        .rows;
    let keys: Vec<_> = rows.iter().map(|row| row.key.clone()).collect();
    assert_eq!(keys.len(), 4, "{keys:?}");
    assert_eq!(keys[0], [PREFIX, &[0x17, 0x0f, 0x42, 0x40]].concat());
    assert!(keys.is_sorted());
    assert!(rows.is_sorted_by_key(|row| (row.value.len(), row.value.clone())));
}
