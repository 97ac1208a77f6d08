//! Random clients on a cluster that is left alone, and the proof that what they saw was strictly
//! serializable.
//!
//! `proof/` does the same to clusters that break. Here nothing breaks, so that the clients conflict
//! with one another as much as they can, also on the clusters of one process that an ordinary
//! program uses. `SHAKETABLE_SEEDS=5000` checks that many seeds.

use shaketable_cluster::checker::{History, Notebook, Proof, RandomClient, verify};
use shaketable_cluster::cluster::{Cluster, ClusterConfig};
use shaketable_cluster::error::Error;
use shaketable_cluster::server::layout::LayoutOptions;
use shaketable_kernel::{Address, Kernel, Priority, ProcessSpec};

const SEEDS: u64 = 60;
const API_VERSION: i32 = 740;
const CLIENTS: u8 = 4;
const TRANSACTIONS_PER_CLIENT: usize = 40;
/// Simulated seconds after which a run has certainly come to a standstill.
const PATIENCE: f64 = 1_000.0;

#[test]
fn random_transactions_are_strictly_serializable() {
    let seeds = std::env::var("SHAKETABLE_SEEDS").ok();
    let seeds = seeds.map_or(SEEDS, |text| text.parse().expect("a number of seeds"));
    let mut proof = Proof::default();
    for seed in 0..seeds {
        proof.add(run(seed));
    }
    println!("{proof:?}");
    // A proof over runs in which clients never conflict would prove nothing.
    assert!(proof.committed * 4 > proof.attempts, "{proof:?}");
    let conflicts = proof.errors.get(&Error::NOT_COMMITTED.0).copied();
    assert!(conflicts.unwrap_or(0) * 20 > proof.attempts, "{proof:?}");
}

fn run(seed: u64) -> Proof {
    let kernel = Kernel::simulation(seed);
    let random = kernel.stream("serializability");
    let (small, flag) = (random.chance(0.5), random.chance(0.5));
    let mut config = if small {
        ClusterConfig::single_process(flag)
    } else {
        ClusterConfig::simulation(&kernel, &LayoutOptions::default(), flag).expect("a layout")
    };
    let (history, notebook) = (History::default(), Notebook::default());
    config.history = Some(history.clone());
    let cluster = Cluster::start(&kernel, config);
    let keys = *random.pick(&[4, 10, 30]);
    let clients: Vec<_> = (1..=CLIENTS)
        .map(|index| {
            let name = format!("client {index}");
            let random = kernel.stream(&name);
            let process = kernel.add_process(ProcessSpec {
                name,
                address: Address::v4(10, 0, 0, index, 4500),
                ..ProcessSpec::default()
            });
            let database = cluster.open_database(process, API_VERSION);
            let client = RandomClient::new(database, API_VERSION, random, &notebook, keys);
            kernel.spawn(process, Priority::DefaultEndpoint, async move {
                for _ in 0..TRANSACTIONS_PER_CLIENT {
                    client.transact().await;
                }
            })
        })
        .collect();
    let all = async {
        for client in clients {
            client.await;
        }
    };
    let done = kernel.block_on(kernel.timeout(PATIENCE, all));
    let done = done.unwrap_or_else(|deadlock| panic!("seed {seed}: {deadlock:?}"));
    assert!(
        done.is_some(),
        "seed {seed}: not done after {PATIENCE} simulated seconds"
    );
    let proof = verify(&history, &notebook.take());
    kernel.shutdown();
    proof.unwrap_or_else(|violation| panic!("seed {seed}: {violation}"))
}
