//! The probe that calibrates the embedded cluster against FoundationDB's own simulator.
//!
//! Each client, 150 times: a pause (uniform, 0.2 s on average), a read version, a `get` of one of
//! 20 keys, a `set`, a `commit`, with retries. The same workload, as a library that any host loads,
//! is `examples/probe`. Latencies are summarised as the recorded ones are: a quantile is that of
//! the median client.

use bytes::Bytes;
use shaketable_cluster::client::{Database, Transaction};
use shaketable_cluster::cluster::{Cluster, ClusterConfig};
use shaketable_cluster::error::Error;
use shaketable_cluster::faults::start_together;
use shaketable_cluster::saboteur::Saboteur;
use shaketable_cluster::server::layout::LayoutOptions;
use shaketable_kernel::{Address, Kernel, Priority, ProcessSpec, Stream, Time};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The steps of an attempt, in the order of [`Client::latencies`].
pub const STEPS: [&str; 3] = ["read version", "get", "commit"];

/// What happens while the probe runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Nothing.
    Quiet,
    /// The four fault workloads, and buggify.
    Faults,
    /// Stress alone.
    Stress,
}

/// What the clients of all runs saw.
#[derive(Default)]
pub struct Measured {
    /// One entry per client.
    pub clients: Vec<Client>,
    /// How often a step ended in an error.
    pub errors: BTreeMap<(&'static str, i32), u64>,
    /// Transactions that committed in the end.
    pub commits: u64,
    /// Commits answered with 1021 that had landed.
    pub landed: u64,
    /// Events and simulated seconds, of all runs.
    pub events: u64,
    pub simulated: f64,
}

/// What one client saw: the seconds each successful step took.
#[derive(Default)]
pub struct Client {
    latencies: [Vec<f64>; 3],
}

impl Measured {
    /// Runs one seed.
    pub fn run(&mut self, seed: u64, way: Way) {
        let faults = way == Way::Faults;
        let kernel = Kernel::simulation(seed);
        let config = ClusterConfig::simulation(&kernel, &LayoutOptions::default(), faults);
        let mut config = config.expect("nothing is configured");
        if way == Way::Stress {
            config = config.under_stress();
        }
        let cluster = Cluster::start(&kernel, config);
        wait_until_ready(&kernel, &cluster);
        cluster.set_faults_enabled(true);
        if faults {
            start_faults(&kernel, &cluster);
        }
        let clients = kernel.stream("clients").range(4, 9_usize);
        let shared = Rc::new(RefCell::new(std::mem::take(self)));
        let tasks: Vec<_> = (0..clients)
            .map(|number| {
                let process = kernel.add_process(ProcessSpec {
                    name: format!("client {number}"),
                    address: Address::v4(3, 4, 3, number as u8, 1),
                    ..ProcessSpec::default()
                });
                let probe = Probe {
                    number,
                    kernel: kernel.clone(),
                    database: cluster.open_database(process, 740),
                    random: kernel.stream(&format!("probe {number}")),
                    client: RefCell::default(),
                    shared: shared.clone(),
                };
                kernel.spawn(process, Priority::DefaultEndpoint, probe.start())
            })
            .collect();
        let all = async {
            for task in tasks {
                task.join().await;
            }
        };
        kernel.block_on(all).expect("every client ends");
        *self = shared.take();
        self.events += kernel.events();
        self.simulated += kernel.now().as_secs();
        kernel.shutdown();
    }

    /// The median over all clients of a quantile of a step, in milliseconds.
    pub fn quantile(&self, step: usize, part: f64) -> f64 {
        let quantiles = self.clients.iter().map(|client| {
            let mut values = client.latencies[step].clone();
            values.sort_by(f64::total_cmp);
            values[((values.len() - 1) as f64 * part) as usize] * 1e3
        });
        let mut quantiles: Vec<f64> = quantiles.collect();
        quantiles.sort_by(f64::total_cmp);
        quantiles[quantiles.len() / 2]
    }

    /// How often a step ended in an error, as a percentage of the commits.
    pub fn rate(&self, step: usize, code: i32) -> f64 {
        let count = self.errors.get(&(STEPS[step], code)).copied();
        count.unwrap_or(0) as f64 / self.commits as f64 * 100.0
    }
}

/// Runs until the cluster answers, which is when a test begins.
fn wait_until_ready(kernel: &Kernel, cluster: &Cluster) {
    let process = kernel.add_process(ProcessSpec {
        name: "first client".into(),
        address: Address::v4(3, 4, 3, 98, 1),
        ..ProcessSpec::default()
    });
    let transaction = cluster.open_database(process, 740).create_transaction();
    let answer = kernel.block_on(transaction.get_read_version());
    answer.expect("it comes up").expect("nothing is wrong yet");
}

/// The fault workloads of the recorded runs, for thirty seconds.
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
    let (saboteur, database) = (Saboteur::new(cluster), cluster.open_database(tester, 740));
    start_together(&saboteur, &database, &names, &options).detach();
    let healing = cluster.clone();
    kernel.call_at(kernel.now().after(450.0), move |_| {
        healing.set_faults_enabled(false)
    });
}

struct Probe {
    number: usize,
    kernel: Kernel,
    database: Database,
    random: Stream,
    client: RefCell<Client>,
    shared: Rc<RefCell<Measured>>,
}

impl Probe {
    async fn start(self) {
        for number in 0..150_u32 {
            self.kernel.sleep(self.random.uniform() * 0.4).await;
            let transaction = self.database.create_transaction();
            let mut doubted: Option<(Bytes, Bytes)> = None;
            for attempt in 0_u32.. {
                let key = Bytes::from(format!("key {}", self.random.below(20)));
                let value = Bytes::from(format!("{} {number} {attempt}", self.number));
                let result = self.attempt(&transaction, &key, &value, &mut doubted).await;
                let Err((step, error)) = result else { break };
                let count = (STEPS[step], error.0);
                *self.shared.borrow_mut().errors.entry(count).or_default() += 1;
                if step == 2 && error == Error::COMMIT_UNKNOWN_RESULT {
                    doubted = Some((key, value));
                }
                if transaction.on_error(error).await.is_err() {
                    break;
                }
            }
            self.shared.borrow_mut().commits += 1;
        }
        let client = self.client.take();
        self.shared.borrow_mut().clients.push(client);
    }

    async fn attempt(
        &self,
        transaction: &Transaction,
        key: &Bytes,
        value: &Bytes,
        doubted: &mut Option<(Bytes, Bytes)>,
    ) -> Result<(), (usize, Error)> {
        let timed = |step: usize, began: Time| {
            let taken = self.kernel.now().since(began);
            self.client.borrow_mut().latencies[step].push(taken);
        };
        let began = self.kernel.now();
        let version = transaction.get_read_version().await;
        version.map_err(|error| (0, error))?;
        timed(0, began);
        let began = self.kernel.now();
        let read = transaction.get(key.clone(), false).await;
        read.map_err(|error| (1, error))?;
        timed(1, began);
        if let Some((key, value)) = doubted.take() {
            // Another client may have overwritten it since; then it is not counted as landed.
            let read = transaction.get(key, true).await;
            let landed = read.map_err(|error| (1, error))? == Some(value);
            self.shared.borrow_mut().landed += u64::from(landed);
        }
        transaction.set(key.clone(), value.clone());
        let began = self.kernel.now();
        transaction.commit().await.map_err(|error| (2, error))?;
        timed(2, began);
        Ok(())
    }
}
