//! Random clients on a simulated cluster, and the proof that what they saw was strictly serializable.
//!
//! Every seed is a cluster, some clients and some dozen transactions of every kind; the checkers of
//! `shaketable_cluster::checker` hold what the clients were told against the order in which the engine committed. An ordinary run
//! checks more than ten thousand attempts. `SHAKETABLE_SEEDS=5000` checks as many seeds, `SHAKETABLE_SEED=7` only that one.

use shaketable_cluster::checker::{History, Observation, Outcome, RandomClient, verify};
use shaketable_cluster::cluster::{Cluster, ClusterConfig};
use shaketable_cluster::error::Error;
use shaketable_cluster::server::layout::LayoutOptions;
use shaketable_kernel::{Address, Kernel, Priority, ProcessSpec};
use std::cell::Cell;
use std::rc::Rc;

const SEEDS: u64 = 60;
const API_VERSION: i32 = 740;
const CLIENTS: u8 = 4;
const TRANSACTIONS_PER_CLIENT: usize = 40;
/// Simulated seconds after which a run has certainly come to a standstill.
const PATIENCE: f64 = 10_000.0;

#[test]
fn random_transactions_are_strictly_serializable() {
    let mut committed = 0;
    let mut conflicts = 0;
    let mut attempts = 0;
    for seed in seeds() {
        let observations = run(seed);
        attempts += observations.len();
        for observation in &observations {
            match observation.outcome {
                Outcome::Committed(_) => committed += 1,
                Outcome::Failed(Error::NOT_COMMITTED) => conflicts += 1,
                Outcome::ReadOnly | Outcome::Failed(_) => {}
            }
        }
    }
    println!("{attempts} attempts: {committed} committed, {conflicts} conflicted");
    // A proof over runs in which nobody gets in anybody's way would prove nothing.
    assert!(
        committed * 4 > attempts && conflicts * 20 > attempts,
        "{committed}, {conflicts} of {attempts}"
    );
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in [1, 2] {
        let [first, second] =
            [run(seed), run(seed)].map(|observations| format!("{observations:?}"));
        assert!(first == second, "seed {seed}");
    }
    assert!(format!("{:?}", run(1)) != format!("{:?}", run(2)));
}

/// Plays one seed and proves it.
fn run(seed: u64) -> Vec<Observation> {
    let kernel = Kernel::simulation(seed);
    let history = History::default();
    let random = kernel.stream("serializability");
    let mut config = if random.chance(0.5) {
        ClusterConfig::single_process(random.chance(0.5))
    } else {
        ClusterConfig::simulation(&kernel, &LayoutOptions::default(), random.chance(0.5))
            .expect("a layout")
    };
    config.history = Some(history.clone());
    let cluster = Cluster::start(&kernel, config);
    let attempts = Rc::new(Cell::new(0));
    let keys = *random.pick(&[4, 10, 30]);
    let clients: Vec<_> = (0..CLIENTS)
        .map(|index| {
            let name = format!("client {index}");
            let process = kernel.add_process(ProcessSpec {
                name: name.clone(),
                address: Address::v4(10, 0, 0, index, 4500),
                ..ProcessSpec::default()
            });
            let database = cluster.open_database(process, API_VERSION);
            let client = RandomClient::new(
                &kernel,
                database,
                API_VERSION,
                &name,
                attempts.clone(),
                keys,
            );
            kernel.spawn(
                process,
                Priority::DefaultEndpoint,
                client.run(TRANSACTIONS_PER_CLIENT),
            )
        })
        .collect();
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
    observations
}

fn seeds() -> std::ops::Range<u64> {
    let number = |name| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().expect("a number"))
    };
    match number("SHAKETABLE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SHAKETABLE_SEEDS").unwrap_or(SEEDS),
    }
}
