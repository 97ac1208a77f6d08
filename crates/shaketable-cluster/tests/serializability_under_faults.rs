//! Random clients on a cluster that breaks, and the proof that what they saw was strictly serializable all the same.
//!
//! `SHAKETABLE_SEEDS=5000` checks as many seeds, `SHAKETABLE_SEED=7` only that one.

use shaketable_cluster::checker::{History, Outcome, RandomClient, verify};
use shaketable_cluster::cluster::{Cluster, ClusterConfig};
use shaketable_cluster::error::Error;
use shaketable_cluster::faults::start_together;
use shaketable_cluster::server::layout::LayoutOptions;
use shaketable_kernel::{Address, Kernel, Priority, ProcessId, ProcessSpec};
use std::cell::Cell;
use std::rc::Rc;

const SEEDS: u64 = 25;
const API_VERSION: i32 = 740;
const CLIENTS: u8 = 4;
const TRANSACTIONS_PER_CLIENT: usize = 60;
/// Simulated seconds after which faults end.
const FAULTS_END: f64 = 60.0;
/// Simulated seconds after which a run has certainly come to a standstill.
const PATIENCE: f64 = 10_000.0;

const FAULTS: &[&str] = &[
    "RandomClogging",
    "Attrition",
    "Rollback",
    "RandomMoveKeys",
    "TargetedKill",
    "TriggerRecoveryLoop",
];

#[test]
fn random_transactions_are_strictly_serializable_while_the_cluster_breaks() {
    let (mut committed, mut unknown) = (0, 0);
    for seed in seeds() {
        for outcome in run(seed) {
            match outcome {
                Outcome::Committed(_) => committed += 1,
                Outcome::Failed(Error::COMMIT_UNKNOWN_RESULT) => unknown += 1,
                Outcome::ReadOnly | Outcome::Failed(_) => {}
            }
        }
    }
    println!("{committed} committed, {unknown} with an unknown result");
    assert!(
        committed > 1000 || seeds().count() < 10,
        "only {committed} transactions committed"
    );
}

#[test]
fn the_same_seed_breaks_the_same_way() {
    let [first, second] = [run(3), run(3)].map(|outcomes| format!("{outcomes:?}"));
    assert!(first == second);
}

/// Plays one seed and proves it.
fn run(seed: u64) -> Vec<Outcome> {
    let kernel = Kernel::simulation(seed);
    let history = History::default();
    let random = kernel.stream("serializability");
    let buggify = random.chance(0.5);
    let mut config =
        ClusterConfig::simulation(&kernel, &LayoutOptions::default(), buggify).expect("a layout");
    config.history = Some(history.clone());
    let cluster = Cluster::start(&kernel, config);
    cluster.set_faults_enabled(true);
    let attempts = Rc::new(Cell::new(0));
    let keys = *random.pick(&[4, 10, 30]);
    let add = |index: u8, name: &str| -> ProcessId {
        kernel.add_process(ProcessSpec {
            name: name.to_owned(),
            address: Address::v4(10, 0, 0, index, 4500),
            ..ProcessSpec::default()
        })
    };
    let clients: Vec<_> = (0..CLIENTS)
        .map(|index| {
            let name = format!("client {index}");
            let process = add(index, &name);
            let database = cluster.open_database(process, API_VERSION);
            let client = RandomClient::new(
                &kernel,
                database,
                API_VERSION,
                &name,
                attempts.clone(),
                keys,
            );
            let body = client.run(TRANSACTIONS_PER_CLIENT);
            kernel.spawn(process, Priority::DefaultEndpoint, body)
        })
        .collect();
    let tester = add(99, "tester");
    let options = [
        ("testDuration", "30"),
        ("machinesToKill", "6"),
        ("meanDelay", "1"),
        ("reboot", "true"),
    ];
    let faults = FAULTS.iter().copied().filter(|_| random.chance(0.5));
    let faults: Vec<&str> = faults.collect();
    start_together(&cluster, tester, &faults, &options).detach();
    let healing = cluster.clone();
    kernel.call_at(kernel.now().after(FAULTS_END), move |_| {
        healing.set_faults_enabled(false)
    });
    let all = async {
        let mut observations = Vec::new();
        for client in clients {
            observations.extend(client.await);
        }
        observations
    };
    let observations = kernel
        .block_on(kernel.timeout(PATIENCE, all))
        .unwrap_or_else(|deadlock| panic!("seed {seed}: {deadlock:?}"))
        .unwrap_or_else(|| panic!("seed {seed}: not done after {PATIENCE} simulated seconds"));
    if let Err(violation) = verify(&history, &observations) {
        panic!("seed {seed}: {violation}\nagain with: SHAKETABLE_SEED={seed}");
    }
    kernel.shutdown();
    observations
        .into_iter()
        .map(|observation| observation.outcome)
        .collect()
}

fn seeds() -> std::ops::Range<u64> {
    let number = |name| {
        let text = std::env::var(name).ok();
        text.map(|text| text.parse::<u64>().expect("a number"))
    };
    match number("SHAKETABLE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SHAKETABLE_SEEDS").unwrap_or(SEEDS),
    }
}
