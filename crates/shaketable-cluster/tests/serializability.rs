//! Random clients on a simulated cluster, and the proof that what they saw was strictly serializable.
//!
//! Once on clusters that are left alone, and once while their processes and machines are killed in every way that a cluster must
//! survive: then generations end, commits get lost on the way, and the clients are told that nobody knows.
//!
//! Every seed is a cluster, some clients and some dozen transactions of every kind; the checkers of
//! `shaketable_cluster::checker` hold what the clients were told against the order in which the engine committed. An ordinary run
//! checks more than ten thousand attempts. `SHAKETABLE_SEEDS=5000` checks as many seeds, `SHAKETABLE_SEED=7` only that one.

use shaketable_cluster::checker::{History, Observation, Outcome, RandomClient, verify};
use shaketable_cluster::cluster::{Cluster, ClusterConfig};
use shaketable_cluster::error::Error;
use shaketable_cluster::kill::Target;
use shaketable_cluster::server::layout::LayoutOptions;
use shaketable_kernel::{Address, Kernel, KillKind, Priority, ProcessSpec};
use std::cell::Cell;
use std::rc::Rc;

const SEEDS: u64 = 60;
/// Recoveries take their time.
const SEEDS_WITH_KILLS: u64 = 25;
/// How many kills there are in a run, and how many seconds pass between two at most.
const KILLS: usize = 8;
const SECONDS_BETWEEN_KILLS: f64 = 0.8;
const API_VERSION: i32 = 740;
const CLIENTS: u8 = 4;
const TRANSACTIONS_PER_CLIENT: usize = 40;
/// Simulated seconds after which a run has certainly come to a standstill.
const PATIENCE: f64 = 10_000.0;

#[test]
fn random_transactions_are_strictly_serializable() {
    let tally = prove(SEEDS, run);
    // A proof over runs in which nobody gets in anybody's way would prove nothing.
    assert!(tally.committed * 4 > tally.attempts, "{tally:?}");
    assert!(tally.conflicts * 20 > tally.attempts, "{tally:?}");
}

#[test]
fn random_transactions_are_strictly_serializable_while_processes_and_machines_die() {
    let tally = prove(SEEDS_WITH_KILLS, run_with_kills);
    assert!(tally.committed * 4 > tally.attempts, "{tally:?}");
    assert!(tally.unknown > 0, "no commit was interrupted: {tally:?}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for run in [run, run_with_kills] {
        let seen = |seed| format!("{:?}", run(seed));
        assert!(seen(1) == seen(1));
        assert!(seen(1) != seen(2));
    }
}

/// What became of the attempts.
#[derive(Debug, Default)]
struct Tally {
    attempts: usize,
    committed: usize,
    conflicts: usize,
    unknown: usize,
}

/// Plays and proves as many seeds as are wanted.
fn prove(seeds: u64, run: fn(u64) -> Vec<Observation>) -> Tally {
    let number = |name| {
        let text = std::env::var(name).ok();
        text.map(|text| text.parse::<u64>().expect("a number"))
    };
    let seeds = match number("SHAKETABLE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SHAKETABLE_SEEDS").unwrap_or(seeds),
    };
    let mut tally = Tally::default();
    for observation in seeds.flat_map(run) {
        tally.attempts += 1;
        match observation.outcome {
            Outcome::Committed(_) => tally.committed += 1,
            Outcome::Failed(Error::NOT_COMMITTED) => tally.conflicts += 1,
            Outcome::Failed(Error::COMMIT_UNKNOWN_RESULT) => tally.unknown += 1,
            Outcome::ReadOnly | Outcome::Failed(_) => {}
        }
    }
    println!("{tally:?}");
    tally
}

/// A cluster of any shape that is left alone.
fn run(seed: u64) -> Vec<Observation> {
    let kernel = Kernel::simulation(seed);
    let random = kernel.stream("serializability");
    let config = if random.chance(0.5) {
        ClusterConfig::single_process(random.chance(0.5))
    } else {
        any_layout(&kernel, random.chance(0.5))
    };
    play(kernel, config, |_| async {})
}

/// A cluster of many processes in which something dies every now and then.
fn run_with_kills(seed: u64) -> Vec<Observation> {
    let kernel = Kernel::simulation(seed);
    let random = kernel.stream("serializability");
    let config = any_layout(&kernel, random.chance(0.5));
    play(kernel, config, |cluster| async move {
        cluster.set_faults_enabled(true);
        for _ in 0..KILLS {
            let pause = random.uniform() * SECONDS_BETWEEN_KILLS;
            cluster.kernel().sleep(pause).await;
            let kinds = [
                KillKind::RebootProcess,
                KillKind::Reboot,
                KillKind::KillInstantly,
                KillKind::RebootAndDelete,
            ];
            let kind = *random.pick(&kinds);
            let target = match kind {
                KillKind::RebootProcess => Target::Process(*random.pick(cluster.servers())),
                _ => Target::Zone(random.pick(&cluster.zones()).clone()),
            };
            cluster.kill(&target, kind);
        }
        cluster.set_faults_enabled(false);
    })
}

fn any_layout(kernel: &Kernel, buggify: bool) -> ClusterConfig {
    ClusterConfig::simulation(kernel, &LayoutOptions::default(), buggify).expect("a layout")
}

/// Lets random clients loose on a cluster while trouble is made for it, and proves what they saw.
fn play<T: Future<Output = ()> + 'static>(
    kernel: Kernel,
    mut config: ClusterConfig,
    trouble: impl FnOnce(Cluster) -> T,
) -> Vec<Observation> {
    let seed = kernel.seed();
    let history = History::default();
    config.history = Some(history.clone());
    let cluster = Cluster::start(&kernel, config);
    let attempts = Rc::new(Cell::new(0));
    let keys = *kernel.stream("keys").pick(&[4, 10, 30]);
    let process = |index: u8| {
        kernel.add_process(ProcessSpec {
            name: format!("client {index}"),
            address: Address::v4(10, 0, 0, index, 4500),
            ..ProcessSpec::default()
        })
    };
    let priority = Priority::DefaultEndpoint;
    let trouble = kernel.spawn(process(0), priority, trouble(cluster.clone()));
    let clients: Vec<_> = (1..=CLIENTS)
        .map(|index| {
            let process = process(index);
            let client = RandomClient::new(
                &kernel,
                cluster.open_database(process, API_VERSION),
                API_VERSION,
                &format!("client {index}"),
                attempts.clone(),
                keys,
            );
            kernel.spawn(process, priority, client.run(TRANSACTIONS_PER_CLIENT))
        })
        .collect();
    let all = async {
        let mut observations = Vec::new();
        for client in clients {
            observations.extend(client.await);
        }
        trouble.await;
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
}
