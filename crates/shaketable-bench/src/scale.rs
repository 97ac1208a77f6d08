//! Clusters and runs of any size, by what one event of theirs costs.
//!
//! A simulation that is a hundred times as large has more events, which nobody can help. What it
//! must not have is dearer ones: an event that looks at every machine, every client or every key,
//! or at all that has happened so far.

use crate::gauge;
use bytes::Bytes;
use shaketable_cluster::client::{Database, Transaction};
use shaketable_cluster::cluster::{Cluster, ClusterConfig};
use shaketable_cluster::error::Error;
use shaketable_cluster::server::layout::LayoutOptions;
use shaketable_kernel::{Address, Kernel, Priority, ProcessSpec, Stream};
use std::cell::Cell;
use std::rc::Rc;

/// How large a simulation is.
#[derive(Clone, Copy)]
pub struct Size {
    /// Machines, each with one server process.
    pub machines: usize,
    /// Clients, each on a process of its own.
    pub clients: u64,
    /// Keys that exist before anything is measured.
    pub keys: u64,
    /// How long the clients work, in simulated seconds.
    pub seconds: f64,
    /// How many transactions they make in that time, about.
    pub transactions: u64,
}

/// What a run took, from some time after the moment at which all keys exist.
pub struct Cost {
    /// CPU time, in seconds.
    pub cpu: f64,
    /// Events of the kernel.
    pub events: u64,
    /// Transactions that were committed.
    pub transactions: u64,
}

/// Runs a cluster of that size. Each client reads a random key, sets it and commits, and pauses.
pub fn run(size: Size) -> Cost {
    let kernel = Kernel::simulation(1);
    let options = LayoutOptions {
        machine_count: Some(size.machines),
        datacenters: Some(1),
        processes_per_machine: Some(1),
        generate_fearless: Some(false),
        config: Some("double logs=3 commit_proxies=2 grv_proxies=1 resolvers=1".to_owned()),
        ..LayoutOptions::default()
    };
    let config = ClusterConfig::simulation(&kernel, &options, false).expect("a layout");
    let cluster = Cluster::start(&kernel, config);
    let clients: Vec<_> = (0..size.clients)
        .map(|number| {
            let [high, low] = (number as u16 + 1).to_be_bytes();
            let process = kernel.add_process(ProcessSpec {
                name: format!("client {number}"),
                address: Address::v4(3, 0, high, low, 1),
                ..ProcessSpec::default()
            });
            (process, cluster.open_database(process, 740))
        })
        .collect();
    fill(&kernel, &clients[0].1, size.keys);

    let committed = Rc::new(Cell::new(0));
    let pause = size.clients as f64 * size.seconds / size.transactions as f64;
    for (process, database) in clients {
        let work = work(
            kernel.clone(),
            database,
            size.keys,
            pause,
            committed.clone(),
        );
        kernel.spawn(process, Priority::DefaultDelay, work).detach();
    }
    // The servers first forget the versions in which the keys were written.
    let begin = kernel.now().after(SETTLES_SECONDS);
    kernel.run_until(begin).expect("time moves");
    let (before, committed_before) = (kernel.events(), committed.get());
    let end = kernel.now().after(size.seconds);
    let (cpu, run) = gauge::cpu_seconds(|| kernel.run_until(end));
    run.expect("time moves");
    let cost = Cost {
        cpu,
        events: kernel.events() - before,
        transactions: committed.get() - committed_before,
    };
    kernel.shutdown();
    cost
}

/// How long clients work before anything is measured: longer than versions are kept.
const SETTLES_SECONDS: f64 = 20.0;

/// How many keys one transaction writes at the beginning.
const FILL_AT_ONCE: u64 = 1000;

fn fill(kernel: &Kernel, database: &Database, keys: u64) {
    let filled = kernel.block_on(async {
        for first in (0..keys).step_by(FILL_AT_ONCE as usize) {
            commit(database, async |transaction| {
                for number in first..keys.min(first + FILL_AT_ONCE) {
                    transaction.set(key(number), key(number));
                }
                Ok(())
            })
            .await;
        }
    });
    filled.expect("a cluster serves");
}

async fn work(kernel: Kernel, database: Database, keys: u64, pause: f64, committed: Rc<Cell<u64>>) {
    let random: Stream = kernel.stream("scale");
    loop {
        kernel.sleep(2.0 * pause * random.uniform()).await;
        let key = key(random.below(keys));
        commit(&database, async |transaction| {
            transaction.get(key.clone(), false).await?;
            transaction.set(key.clone(), key.clone());
            Ok(())
        })
        .await;
        committed.set(committed.get() + 1);
    }
}

/// Makes a transaction until it is committed.
async fn commit(database: &Database, body: impl AsyncFn(&Transaction) -> Result<(), Error>) {
    let transaction = database.create_transaction();
    loop {
        let outcome = match body(&transaction).await {
            Ok(()) => transaction.commit().await,
            failed => failed,
        };
        let Err(error) = outcome else { return };
        let again = transaction.on_error(error).await;
        again.expect("an error that passes");
    }
}

/// Sixteen bytes.
fn key(number: u64) -> Bytes {
    // Neighbours by number are not neighbours in order, and none is a key of the system.
    let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1;
    [spread.to_be_bytes(), number.to_be_bytes()].concat().into()
}
