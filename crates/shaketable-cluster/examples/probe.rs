//! Measures what a client sees: the probe by which the embedded cluster is calibrated against FoundationDB's own
//! simulator.
//!
//! Each client, 150 times: a pause (uniform, 0.2 s in the mean), a read version, a `get` of one of 20 keys, a
//! `set`, a `commit`, with retries. Prints latencies, errors, events and the time the simulation took.
//!
//! `cargo run --release --example probe -- [seeds] [faults]`: with `faults` under RandomClogging, Attrition, Rollback and
//! ChangeConfig, and with buggify.

use bytes::Bytes;
use shaketable_cluster::client::Database;
use shaketable_cluster::cluster::{Cluster, ClusterConfig};
use shaketable_cluster::error::Error;
use shaketable_cluster::faults::start_together;
use shaketable_cluster::server::layout::LayoutOptions;
use shaketable_kernel::{Address, Kernel, Priority, ProcessSpec};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

#[derive(Default)]
struct Measured {
    latencies: [Vec<f64>; 3],
    errors: BTreeMap<(&'static str, i32), u64>,
    commits: u64,
}

// It measures the machine on purpose.
#[allow(clippy::disallowed_methods)]
fn main() {
    let mut arguments = std::env::args().skip(1);
    let seeds: u64 = arguments
        .next()
        .map_or(20, |text| text.parse().expect("a number of seeds"));
    let faults = arguments.next().as_deref() == Some("faults");
    let measured = Rc::new(RefCell::new(Measured::default()));
    let started = Instant::now();
    let (mut events, mut simulated) = (0, 0.0);
    for seed in 0..seeds {
        let kernel = Kernel::simulation(seed);
        let config = ClusterConfig::simulation(&kernel, &LayoutOptions::default(), faults)
            .expect("nothing is configured");
        let cluster = Cluster::start(&kernel, config);
        cluster.set_faults_enabled(true);
        if faults {
            start_faults(&kernel, &cluster);
        }
        let clients = kernel.stream("clients").range(4, 9_usize);
        let tasks: Vec<_> = (0..clients)
            .map(|number| {
                let process = kernel.add_process(ProcessSpec {
                    name: format!("client {number}"),
                    address: Address::v4(3, 4, 3, number as u8, 1),
                    ..ProcessSpec::default()
                });
                let database = cluster.open_database(process, 740);
                let measured = measured.clone();
                let body = probe(kernel.clone(), database, measured);
                kernel.spawn(process, Priority::DefaultEndpoint, body)
            })
            .collect();
        kernel
            .block_on(async {
                for task in tasks {
                    task.join().await;
                }
            })
            .expect("every client ends");
        events += kernel.events();
        simulated += kernel.now().as_secs();
        kernel.shutdown();
    }
    let wall = started.elapsed().as_secs_f64();
    let mut measured = measured.borrow_mut();
    for (name, index) in [("read version", 0), ("get", 1), ("commit", 2)] {
        let values = &mut measured.latencies[index];
        values.sort_by(f64::total_cmp);
        let at = |part: f64| values[((values.len() - 1) as f64 * part) as usize] * 1e3;
        println!(
            "{name:14} ms: min {:.1}  p50 {:.1}  p90 {:.1}  p99 {:.1}  max {:.1}",
            at(0.0),
            at(0.5),
            at(0.9),
            at(0.99),
            at(1.0)
        );
    }
    println!("errors: {:?}", measured.errors);
    let seeds = seeds as f64;
    println!(
        "{} commits, {:.0} events a seed, {:.1} simulated s a seed, {:.2} ms a seed, {:.0} ns an event",
        measured.commits,
        events as f64 / seeds,
        simulated / seeds,
        wall * 1e3 / seeds,
        wall * 1e9 / events as f64
    );
}

/// The fault workloads of the golden run, for thirty seconds.
fn start_faults(kernel: &Kernel, cluster: &Cluster) {
    let tester = kernel.add_process(ProcessSpec {
        name: "tester".into(),
        address: Address::v4(3, 4, 3, 99, 1),
        ..ProcessSpec::default()
    });
    let names = ["RandomClogging", "Attrition", "Rollback", "ChangeConfig"];
    let options = [
        ("testDuration", "30"),
        ("swizzle", "1"),
        ("machinesToKill", "10"),
        ("machinesToLeave", "3"),
        ("reboot", "true"),
        ("coordinators", "auto"),
        ("maxDelayBeforeChange", "30"),
    ];
    start_together(cluster, tester, &names, &options).detach();
    let healing = cluster.clone();
    kernel.call_at(kernel.now().after(450.0), move |_| {
        healing.set_faults_enabled(false)
    });
}

async fn probe(kernel: Kernel, database: Database, measured: Rc<RefCell<Measured>>) {
    let random = kernel.stream("probe");
    for _ in 0..150 {
        kernel.sleep(random.uniform() * 0.4).await;
        let transaction = database.create_transaction();
        loop {
            let error = match attempt(&kernel, &transaction, &random, &measured).await {
                Ok(()) => break,
                Err((step, error)) => {
                    *measured
                        .borrow_mut()
                        .errors
                        .entry((step, error.0))
                        .or_default() += 1;
                    error
                }
            };
            if transaction.on_error(error).await.is_err() {
                break;
            }
        }
        measured.borrow_mut().commits += 1;
    }
}

async fn attempt(
    kernel: &Kernel,
    transaction: &shaketable_cluster::client::Transaction,
    random: &shaketable_kernel::Stream,
    measured: &Rc<RefCell<Measured>>,
) -> Result<(), (&'static str, Error)> {
    let key = Bytes::from(format!("key {}", random.below(20)));
    let timed = |index: usize, began: shaketable_kernel::Time| {
        measured.borrow_mut().latencies[index].push(kernel.now().since(began));
    };
    let began = kernel.now();
    transaction
        .get_read_version()
        .await
        .map_err(|error| ("grv", error))?;
    timed(0, began);
    let began = kernel.now();
    transaction
        .get(key.clone(), false)
        .await
        .map_err(|error| ("get", error))?;
    timed(1, began);
    transaction.set(key, Bytes::from_static(b"value"));
    let began = kernel.now();
    transaction
        .commit()
        .await
        .map_err(|error| ("commit", error))?;
    timed(2, began);
    Ok(())
}
