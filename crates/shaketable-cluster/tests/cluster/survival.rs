//! What survives when parts of a cluster die: everything that was acknowledged, exactly once.

use bytes::Bytes;
use shaketable_cluster::client::{Database, RangeLimits};
use shaketable_cluster::cluster::{Cluster, ClusterConfig};
use shaketable_cluster::faults::start_together;
use shaketable_cluster::kill::Target;
use shaketable_cluster::proto::KeySelector;
use shaketable_cluster::saboteur::Saboteur;
use shaketable_cluster::server::layout::LayoutOptions;
use shaketable_kernel::{Address, Kernel, KillKind, Priority, ProcessSpec};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

const ADD: i32 = 2;

/// A client that numbers its transactions. Each writes its own key and counts itself; a transaction
/// whose fate is unknown looks for its key before it tries again.
async fn count(
    kernel: Kernel,
    database: Database,
    client: usize,
    until: f64,
    acknowledged: Rc<RefCell<BTreeSet<String>>>,
) {
    let random = kernel.stream("workload");
    for number in 0.. {
        if kernel.now().as_secs() > until {
            return;
        }
        kernel.sleep(random.uniform() * 0.3).await;
        let id = format!("id/{client}/{number:06}");
        let transaction = database.create_transaction();
        loop {
            let result = async {
                let done = transaction.get(Bytes::from(id.clone()), false).await?;
                if done.is_none() {
                    transaction.set(Bytes::from(id.clone()), Bytes::from_static(b"x"));
                    let one = Bytes::copy_from_slice(&1_u64.to_le_bytes());
                    transaction.atomic_op(Bytes::from_static(b"counter"), one, ADD);
                    transaction.commit().await?;
                }
                Ok(())
            };
            match result.await {
                Ok(()) => break,
                Err(error) => transaction
                    .on_error(error)
                    .await
                    .expect("only retryable errors"),
            }
        }
        acknowledged.borrow_mut().insert(id);
    }
}

async fn read_all(database: &Database) -> (BTreeSet<String>, u64) {
    let transaction = database.create_transaction();
    loop {
        let at = |text: &'static str| KeySelector {
            key: Bytes::from_static(text.as_bytes()),
            or_equal: false,
            offset: 1,
        };
        let result = async {
            let counter = transaction
                .get(Bytes::from_static(b"counter"), false)
                .await?;
            let counter =
                counter.map_or(0, |value| u64::from_le_bytes((*value).try_into().unwrap()));
            let mut ids = BTreeSet::new();
            let mut begin = at("id/");
            loop {
                let part = transaction
                    .get_range(begin, at("id0"), RangeLimits::rows(1000), false, false)
                    .await?;
                let name = |key: &Bytes| String::from_utf8(key.to_vec()).unwrap();
                ids.extend(part.rows.iter().map(|row| name(&row.key)));
                let Some(last) = part.rows.last().filter(|_| part.more) else {
                    return Ok((ids, counter));
                };
                begin = KeySelector {
                    key: last.key.clone(),
                    or_equal: true,
                    offset: 1,
                };
            }
        };
        match result.await {
            Ok(result) => return result,
            Err(error) => transaction
                .on_error(error)
                .await
                .expect("only retryable errors"),
        }
    }
}

/// Runs clients for a minute while `trouble` does its work, then lets the cluster heal and checks
/// the result.
fn survive<F: Future<Output = ()> + 'static>(
    seed: u64,
    buggify: bool,
    trouble: impl FnOnce(Kernel, Cluster) -> F,
) -> u64 {
    let kernel = Kernel::simulation(seed);
    let config = ClusterConfig::simulation(&kernel, &LayoutOptions::default(), buggify).unwrap();
    let cluster = Cluster::start(&kernel, config);
    cluster.set_faults_enabled(true);
    let acknowledged = Rc::new(RefCell::new(BTreeSet::new()));
    let mut databases = Vec::new();
    let tasks: Vec<_> = (0..4)
        .map(|client| {
            let process = kernel.add_process(ProcessSpec {
                name: format!("client {client}"),
                address: Address::v4(3, 4, 3, client as u8, 1),
                ..ProcessSpec::default()
            });
            let database = cluster.open_database(process, 740);
            databases.push(database.clone());
            let body = count(kernel.clone(), database, client, 60.0, acknowledged.clone());
            kernel.spawn(process, Priority::DefaultEndpoint, body)
        })
        .collect();
    let trouble = trouble(kernel.clone(), cluster.clone());
    let run = async {
        trouble.await;
        kernel.sleep((60.0 - kernel.now().as_secs()).max(0.0)).await;
        cluster.set_faults_enabled(false);
        for task in tasks {
            task.join().await;
        }
        let (ids, counter) = read_all(&databases[0]).await;
        let lost: Vec<_> = acknowledged.borrow().difference(&ids).cloned().collect();
        assert!(
            lost.is_empty(),
            "seed {seed} ({}): lost {lost:?}",
            cluster.layout()
        );
        assert_eq!(
            counter,
            ids.len() as u64,
            "seed {seed} ({})",
            cluster.layout()
        );
        let replicas = cluster.compare_replicas();
        assert_eq!(replicas.difference, None, "seed {seed}");
        assert!(
            // Few where buggify makes disks slow: all clients write the same key.
            ids.len() > 15,
            "seed {seed}: only {} transactions in a minute",
            ids.len()
        );
    };
    let limited = kernel.timeout(2000.0, run);
    let done = kernel.block_on(limited).unwrap();
    assert!(
        done.is_some(),
        "seed {seed} ({}): no progress",
        cluster.layout()
    );
    let fingerprint = kernel.fingerprint();
    kernel.shutdown();
    fingerprint
}

/// Kills a zone or a process every few seconds, in all ways the cluster allows.
async fn kill_at_random(kernel: Kernel, cluster: Cluster) {
    let random = kernel.stream("test trouble");
    kernel.sleep(5.0).await;
    while kernel.now().as_secs() < 55.0 {
        kernel.sleep(random.uniform() * 10.0).await;
        let kinds = [
            KillKind::Reboot,
            KillKind::RebootProcess,
            KillKind::KillInstantly,
            KillKind::RebootAndDelete,
        ];
        let kind = *random.pick(&kinds);
        let target = if kind == KillKind::RebootProcess {
            Target::Process(*random.pick(cluster.servers()))
        } else {
            Target::Zone(random.pick(&cluster.zones()).clone())
        };
        cluster.kill(&target, kind);
    }
}

#[test]
fn acknowledged_writes_survive_reboots_of_everything() {
    for seed in 0..10 {
        survive(seed, false, |kernel, cluster| async move {
            let random = kernel.stream("test trouble");
            kernel.sleep(5.0).await;
            for _ in 0..6 {
                kernel.sleep(random.uniform() * 10.0).await;
                cluster.kill(
                    &Target::Process(*random.pick(cluster.servers())),
                    KillKind::RebootProcess,
                );
            }
        });
    }
}

#[test]
fn acknowledged_writes_survive_every_kind_of_kill() {
    for seed in 0..10 {
        survive(seed, seed % 2 == 1, kill_at_random);
    }
}

#[test]
fn the_same_seed_dies_the_same_way() {
    let run = |seed| survive(seed, true, kill_at_random);
    assert_eq!(run(5), run(5));
}

/// Runs the named fault workloads concurrently, with these options.
async fn run_faults(
    kernel: Kernel,
    cluster: Cluster,
    names: &'static [&'static str],
    options: &'static [(&'static str, &'static str)],
) {
    let process = kernel.add_process(ProcessSpec {
        name: "tester".into(),
        address: Address::v4(3, 4, 3, 99, 1),
        ..ProcessSpec::default()
    });
    kernel.sleep(5.0).await;
    let (saboteur, database) = (Saboteur::new(&cluster), cluster.open_database(process, 740));
    start_together(&saboteur, &database, names, options).await;
}

fn survives(
    seeds: std::ops::Range<u64>,
    names: &'static [&'static str],
    options: &'static [(&'static str, &'static str)],
) {
    for seed in seeds {
        survive(seed, seed % 2 == 1, |kernel, cluster| {
            run_faults(kernel, cluster, names, options)
        });
    }
}

#[test]
fn acknowledged_writes_survive_clogs() {
    survives(
        0..3,
        &["RandomClogging"],
        &[("testDuration", "30"), ("swizzle", "1")],
    );
    survives(
        6..9,
        &["RandomClogging", "ClogSingleConnection"],
        &[("testDuration", "30")],
    );
    survives(12..14, &["ClogTlog"], &[("testDuration", "30")]);
}

#[test]
fn acknowledged_writes_survive_attrition() {
    survives(
        0..3,
        &["Attrition"],
        &[("testDuration", "30"), ("machinesToKill", "10")],
    );
    let reboot = &[
        ("testDuration", "30"),
        ("machinesToKill", "10"),
        ("reboot", "true"),
    ];
    survives(6..9, &["Attrition"], reboot);
}

#[test]
fn acknowledged_writes_survive_rollbacks() {
    survives(
        0..5,
        &["Rollback"],
        &[("testDuration", "30"), ("meanDelay", "5")],
    );
}

#[test]
fn acknowledged_writes_survive_moves() {
    survives(
        0..4,
        &["RandomMoveKeys"],
        &[("testDuration", "30"), ("meanDelay", "0.5")],
    );
    let options = &[
        ("testDuration", "30"),
        ("machinesToKill", "6"),
        ("meanDelay", "0.5"),
    ];
    survives(8..13, &["RandomMoveKeys", "Attrition"], options);
}

const EVERYTHING: &[&str] = &[
    "RandomClogging",
    "Attrition",
    "Rollback",
    "ChangeConfig",
    "RandomMoveKeys",
    "TargetedKill",
    "TriggerRecoveryLoop",
    "DiskFailureInjection",
];
const EVERYTHING_OPTIONS: &[(&str, &str)] = &[
    ("testDuration", "30"),
    ("machinesToKill", "10"),
    ("configMode", "logs=4 resolvers=2"),
    ("coordinators", "auto"),
    ("maxDelayBeforeChange", "20"),
    ("machineToKill", "tlog"),
    ("throttleDisk", "true"),
];

#[test]
fn acknowledged_writes_survive_everything_at_once() {
    survives(0..8, EVERYTHING, EVERYTHING_OPTIONS);
}

#[test]
#[ignore = "a thousand seeds take minutes"]
fn acknowledged_writes_survive_everything_at_once_a_thousand_times() {
    survives(1000..2000, EVERYTHING, EVERYTHING_OPTIONS);
}
