//! Running one seed, and many.
//!
//! A run is a cluster of a shape that the seed draws, with a few clients of one workload and with
//! trouble for some simulated seconds. Clients work until the trouble is over and then once more,
//! and that must finish soon. Then the workload checks what it has left behind, everything is read
//! once more, and all observations are compared with the true order of commits.

use crate::trouble;
use bytes::Bytes;
use shaketable_cluster::checker::{History, Notebook, ObservedTransaction, Proof, verify};
use shaketable_cluster::client::Database;
use shaketable_cluster::cluster::Cluster;
use shaketable_cluster::error::Error;
use shaketable_kernel::{Address, Kernel, Priority, ProcessId, ProcessSpec, Stream, Time};
use std::cell::RefCell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// The API version of the clients.
pub const API_VERSION: i32 = 740;
/// The shortest and longest time the trouble lasts, in simulated seconds.
const TROUBLE_SECONDS: Range<f64> = 5.0..20.0;
/// The longest pause between two transactions of a client, in simulated seconds.
const PAUSE_SECONDS_MAX: f64 = 0.1;
/// How long a client may take to make progress once the faults have stopped, in simulated seconds.
const PATIENCE_SECONDS: f64 = 120.0;
/// This many failures are enough to see what they have in common.
const FAILURES_MAX: usize = 10;

/// What clients do with a database.
pub trait Workload: Sized + 'static {
    /// Its name, for reports.
    const NAME: &str;
    /// Whether everything its clients do is recorded, so that a sweep that is too quiet can be
    /// detected.
    const IS_OBSERVED: bool = true;

    /// Creates a workload for some clients. Draws everything that differs from seed to seed.
    fn new(random: &Stream, clients: usize) -> Self;

    /// Fills the database, before there is trouble.
    async fn set_up(&self, client: &Client);

    /// Works until `end`, and a little longer.
    async fn work(&self, client: &Client, end: Time);

    /// Checks that all is well, when the trouble is over and all clients have stopped.
    async fn check(&self, client: &Client);
}

/// A client of a workload.
pub struct Client {
    /// Its number.
    pub index: usize,
    process: ProcessId,
    /// The kernel it runs in.
    pub kernel: Kernel,
    /// Its database.
    pub database: Database,
    /// Its own random draws.
    pub random: Stream,
    /// Where all clients record what they see.
    pub notebook: Notebook,
}

impl Client {
    /// A transaction of which everything is recorded.
    pub fn transaction(&self) -> ObservedTransaction {
        ObservedTransaction::new(&self.database, API_VERSION, &self.notebook)
    }

    /// Repeats something, with short pauses, until `end` and once more.
    pub async fn until(&self, end: Time, body: impl AsyncFn()) {
        while self.kernel.now() < end {
            body().await;
            let pause = self.random.uniform() * PAUSE_SECONDS_MAX;
            self.kernel.sleep(pause).await;
        }
        body().await;
    }

    /// Runs a transaction until it commits.
    pub async fn transact<T>(
        &self,
        body: impl AsyncFn(&ObservedTransaction) -> Result<T, Error>,
    ) -> T {
        self.transaction().run(body).await
    }
}

/// The figures of a run, or of a whole sweep.
#[derive(Debug, Default)]
struct Tally {
    seeds: u64,
    generations: u64,
    proof: Proof,
    /// The longest time it took until all clients made progress, in simulated seconds.
    healing_seconds_max: f64,
}

/// Proves a workload: for this many seeds, or those that the environment asks for.
pub fn prove<W: Workload>(seeds: u64) {
    let mut tally = Tally::default();
    let mut failed = Vec::new();
    for seed in wanted(seeds) {
        // A panic has already been printed when it arrives here, with its location.
        match catch_unwind(AssertUnwindSafe(|| run::<W>(seed))) {
            Ok((one, _)) => {
                tally.seeds += 1;
                tally.generations += one.generations;
                tally.proof.add(one.proof);
                tally.healing_seconds_max = tally.healing_seconds_max.max(one.healing_seconds_max);
            }
            Err(_) => {
                failed.push(seed);
                if failed.len() == FAILURES_MAX {
                    break;
                }
            }
        }
    }
    println!("{}: {tally:?}", W::NAME);
    let repeat = |seed| {
        let test = std::thread::current().name().unwrap_or_default().to_owned();
        format!("  SHAKETABLE_SEED={seed} cargo test -p shaketable-cluster --test proof {test}")
    };
    assert!(
        failed.is_empty(),
        "{}: seeds {failed:?} failed, see above. To repeat the first:\n{}",
        W::NAME,
        repeat(failed[0])
    );
    if tally.seeds >= 100 && W::IS_OBSERVED {
        tally.assert_worth(W::NAME);
    }
}

impl Tally {
    /// A proof over runs in which nothing happens would prove nothing.
    fn assert_worth(&self, name: &str) {
        let count = |code: Error| self.proof.errors.get(&code.0).copied().unwrap_or(0);
        let floors = [
            ("commits", self.proof.committed, 10 * self.seeds),
            ("generations", self.generations, 2 * self.seeds),
            (
                "1021 that had committed",
                self.proof.unknown_committed,
                self.seeds / 50,
            ),
            (
                "1021 that had not",
                self.proof.unknown_vanished,
                self.seeds / 50,
            ),
            ("1007", count(Error::TRANSACTION_TOO_OLD), self.seeds / 50),
            ("1020", count(Error::NOT_COMMITTED), self.seeds / 100),
        ];
        for (what, found, floor) in floors {
            assert!(
                found >= floor.max(1),
                "{name}: expected at least {floor} {what}, found {found}: {self:?}"
            );
        }
    }
}

/// A digest of everything that happens in a run.
pub fn fingerprint<W: Workload>(seed: u64) -> u64 {
    run::<W>(seed).1
}

/// The seeds that the environment asks for, or the first `seeds` ones.
fn wanted(seeds: u64) -> Range<u64> {
    let number = |text: &str| {
        let parsed = text.parse::<u64>();
        parsed.unwrap_or_else(|_| panic!("expected a number of seeds, found {text:?}"))
    };
    if let Ok(text) = std::env::var("SHAKETABLE_SEED") {
        let seed = number(&text);
        return seed..seed + 1;
    }
    match std::env::var("SHAKETABLE_SEEDS") {
        Err(_) => 0..seeds,
        Ok(text) => match text.split_once("..") {
            Some((first, end)) => number(first)..number(end),
            None => 0..number(&text),
        },
    }
}

/// Plays one seed and proves it.
fn run<W: Workload>(seed: u64) -> (Tally, u64) {
    let kernel = Kernel::simulation(seed);
    let random = kernel.stream("proof");
    let history = History::default();
    let mut config = trouble::cluster(&kernel, &random);
    config.history = Some(history.clone());
    let knobs = config.knobs.changed();
    let cluster = Cluster::start(&kernel, config);
    let notebook = Notebook::default();
    let count = random.range(3, 6_usize);
    let workload = Rc::new(W::new(&random, count));
    let clients: Vec<Rc<Client>> = (0..count)
        .map(|index| Rc::new(client(&kernel, &cluster, index, &notebook)))
        .collect();
    let made = RefCell::default();
    // Usually a cluster has begun to answer before it breaks.
    let early = random.chance(0.1);
    let seconds = random.range(TROUBLE_SECONDS.start, TROUBLE_SECONDS.end);
    let all = async {
        workload.set_up(&clients[0]).await;
        if !early {
            let answer = async |transaction: &ObservedTransaction| {
                transaction.get(Bytes::new(), false).await.map(drop)
            };
            clients[0].transact(answer).await;
        }
        cluster.set_faults_enabled(true);
        let end = kernel.now().after(seconds);
        let (trouble, names) = trouble::start(&cluster, seconds);
        made.replace(names);
        let working: Vec<_> = clients
            .iter()
            .map(|client| {
                let (workload, client) = (workload.clone(), client.clone());
                let process = client.process;
                let body = async move { workload.work(&client, end).await };
                kernel.spawn(process, Priority::DefaultEndpoint, body)
            })
            .collect();
        kernel.sleep_until(end).await;
        drop(trouble);
        cluster.set_faults_enabled(false);
        let patience = async {
            for client in working {
                client.await;
            }
            workload.check(&clients[0]).await;
            // If something is wrong in a part of the database that no client read, the checkers see
            // it here.
            let everything = async |transaction: &ObservedTransaction| {
                let end = Bytes::from_static(b"\xff");
                transaction.get_all(Bytes::new(), end).await.map(drop)
            };
            clients[1].transact(everything).await;
        };
        let healed = kernel.timeout(PATIENCE_SECONDS, patience).await;
        let seconds = kernel.now().since(end);
        healed.map(|()| seconds)
    };
    let healing = kernel
        .block_on(all)
        .unwrap_or_else(|deadlock| panic!("{} {seed}: {deadlock:?}", W::NAME))
        .unwrap_or_else(|| {
            panic!(
                "{} {seed} ({}; {}; {}): faults have stopped, but {PATIENCE_SECONDS} simulated seconds later a client still waits",
                W::NAME,
                cluster.layout(),
                knobs.join(" "),
                made.take().join(", ")
            )
        });
    let observations = notebook.take();
    let proof = verify(&history, &observations)
        .unwrap_or_else(|violation| panic!("{} {seed}: {violation}", W::NAME));
    let tally = Tally {
        seeds: 1,
        generations: history.generations() as u64,
        proof,
        healing_seconds_max: healing,
    };
    let fingerprint = kernel.fingerprint();
    kernel.shutdown();
    (tally, fingerprint)
}

fn client(kernel: &Kernel, cluster: &Cluster, index: usize, notebook: &Notebook) -> Client {
    let name = format!("client {index}");
    let random = kernel.stream(&name);
    let process = kernel.add_process(ProcessSpec {
        name,
        address: Address::v4(3, 4, 3, index as u8, 1),
        ..ProcessSpec::default()
    });
    Client {
        index,
        process,
        kernel: kernel.clone(),
        database: cluster.open_database(process, API_VERSION),
        random,
        notebook: notebook.clone(),
    }
}
