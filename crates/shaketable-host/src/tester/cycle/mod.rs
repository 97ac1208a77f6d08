//! Cycle: FoundationDB's classic workload, which needs no library.
//!
//! The nodes of a ring are keys, and the value of each names the next. A transaction reads three
//! neighbours and lets the second and the third change places. Whichever transactions conflict, are
//! retried or die half-way, the ring stays one ring; a write that is lost, applied in half, or
//! applied to what another transaction has changed meanwhile tears it, and `check` walks all of it.
//! Options, rates, metrics and events are FoundationDB's; the transactions go through the same
//! client that the C functions lead to.

mod options;
mod ring;

pub(crate) use options::CycleOptions;

use super::run::Run;
use super::testbed::Client;
use crate::library::instance::Reported;
use crate::trace::{Event, Severity};
use crate::verdict::events::message_of;
use crate::verdict::{FailureKind, Phase};
use shaketable_cluster::client::{ConflictRangeKind, Database, RangeLimits, Transaction};
use shaketable_cluster::cluster::Cluster;
use shaketable_cluster::error::Error;
use shaketable_cluster::proto::{KeyRange, KeySelector, KeyValue};
use shaketable_kernel::{Priority, Stream, Task};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Its name in a test file.
pub(crate) const NAME: &str = "Cycle";
/// How long its check may take, in simulated seconds.
pub(super) const CHECK_TIMEOUT_SECONDS: f64 = 3000.0;

/// How many transactions fill the database at once, how many bytes each writes, and over how many
/// seconds they begin.
const SETUP_WORKERS: usize = 40;
const SETUP_BYTES: usize = 10_000;
const SETUP_SECONDS: f64 = 0.25;
/// How many failed attempts to read the ring are worth a warning, and after how many the faults
/// stop.
const CHECKS_WARNED: u32 = 20;
const CHECKS_BEFORE_PEACE: u32 = 50;
/// The option with which the next write adds no conflict range.
const NEXT_WRITE_NO_WRITE_CONFLICT_RANGE: i32 = 30;

/// Cycle on one client.
pub(super) struct Cycle {
    run: Rc<Run>,
    client: Rc<Client>,
    /// Its number among the workloads of the test.
    workload: usize,
    cluster: Cluster,
    database: Database,
    options: CycleOptions,
    random: Stream,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    transactions: Cell<u64>,
    retries: Cell<u64>,
    too_old: Cell<u64>,
    commit_failed: Cell<u64>,
    latency_seconds: Cell<f64>,
    errors: Cell<u64>,
}

impl Cycle {
    /// On a client of a test; `None` if the test has no database.
    pub(super) fn new(
        run: &Rc<Run>,
        client: &Rc<Client>,
        workload: usize,
        cluster: Option<&Cluster>,
        options: CycleOptions,
        random: Stream,
    ) -> Option<Cycle> {
        Some(Cycle {
            run: run.clone(),
            client: client.clone(),
            workload,
            cluster: cluster?.clone(),
            database: client.database.clone()?,
            options,
            random,
            counts: Counts::default(),
        })
    }

    /// Runs a phase; whether it succeeded.
    pub(super) async fn perform(self: Rc<Self>, phase: Phase) -> bool {
        match phase {
            Phase::Setup => self.set_up().await,
            Phase::Start => self.start().await,
            Phase::Check => return self.check().await,
            _ => {}
        }
        true
    }

    /// What it counted.
    pub(super) fn metrics(&self) -> Vec<Reported> {
        let counts = &self.counts;
        let transactions = counts.transactions.get() as f64;
        let metric = |name: &str, format: Option<&str>, value: f64, averaged: bool| Reported {
            name: name.to_owned(),
            format: format.map(str::to_owned),
            value,
            averaged,
        };
        let count = |name, cell: &Cell<u64>| metric(name, Some("%.0lf"), cell.get() as f64, false);
        let rate = |name, rows: f64| {
            let rows = transactions * rows / self.options.test_duration;
            metric(name, None, rows, false)
        };
        let latency = 1000.0 * counts.latency_seconds.get() / transactions;
        vec![
            count("Transactions", &counts.transactions),
            count("Retries", &counts.retries),
            count("Retries.too_old", &counts.too_old),
            count("Retries.commit_failed", &counts.commit_failed),
            metric("Avg Latency (ms)", None, latency, true),
            // FoundationDB has it twice, so that it counts twice in the sum of all clients.
            rate("Read rows/simsec (approx)", 3.0),
            rate("Read rows/simsec (approx)", 3.0),
            rate("Write rows/simsec (approx)", 4.0),
        ]
    }

    /// Writes this client's part of the ring.
    async fn set_up(self: &Rc<Self>) {
        if self.options.skip_setup {
            return;
        }
        let (kernel, ring) = (&self.run.kernel, &self.options.ring);
        let smeared = kernel.sleep(self.random.uniform() * SETUP_SECONDS);
        smeared.await;
        let of = |client: u32| ring.nodes * client as usize / self.run.given.client_count as usize;
        let (first, last) = (of(self.client.number), of(self.client.number + 1));
        let each = (SETUP_BYTES / (ring.key(0).len() + ring.value(0).len())).max(1);
        let mut jobs: Vec<(usize, usize)> = (first..last)
            .step_by(each)
            .map(|begin| (begin, last.min(begin + each)))
            .collect();
        self.random.shuffle(&mut jobs);
        let jobs = Rc::new(RefCell::new(jobs));
        let workers: Vec<Task<()>> = (0..SETUP_WORKERS)
            .map(|_| {
                let (this, jobs) = (self.clone(), jobs.clone());
                self.spawn(async move {
                    loop {
                        let Some(job) = jobs.borrow_mut().pop() else {
                            return;
                        };
                        this.write_part(job).await;
                    }
                })
            })
            .collect();
        for worker in workers {
            worker.await;
        }
    }

    async fn write_part(&self, (begin, end): (usize, usize)) {
        let transaction = self.database.create_transaction();
        loop {
            let error = match self.try_write_part(&transaction, begin, end).await {
                Ok(()) => return,
                Err(error) => error,
            };
            self.run.count_error(error.0);
            if let Err(error) = transaction.on_error(error).await {
                return self.give_up(error);
            }
        }
    }

    async fn try_write_part(
        &self,
        transaction: &Transaction,
        begin: usize,
        end: usize,
    ) -> Result<(), Error> {
        let ring = &self.options.ring;
        if transaction.get(ring.key(begin), false).await?.is_some() {
            // An earlier attempt of unknown fate did commit.
            return Ok(());
        }
        let mut after = ring.key(end).to_vec();
        after.push(0);
        let whole = KeyRange {
            begin: ring.key(begin),
            end: after.into(),
        };
        transaction.add_conflict_range(whole, ConflictRangeKind::Write);
        for node in begin..end {
            transaction.set_option(NEXT_WRITE_NO_WRITE_CONFLICT_RANGE, None);
            transaction.set(ring.key(node), ring.value((node + 1) % ring.nodes));
        }
        transaction.commit().await
    }

    /// Lets neighbours change places until the time is over.
    async fn start(self: &Rc<Self>) {
        let mean = self.options.actors as f64 / self.options.transactions_per_second;
        let actors: Vec<Task<()>> = (0..self.options.actors)
            .map(|_| {
                let this = self.clone();
                self.spawn(async move { this.change_places(mean).await })
            })
            .collect();
        let over = self.run.kernel.sleep(self.options.test_duration);
        over.await;
        drop(actors);
    }

    async fn change_places(&self, mean_seconds: f64) {
        let kernel = &self.run.kernel;
        let add = |counter: &Cell<u64>| counter.set(counter.get() + 1);
        let mut next = kernel.now();
        loop {
            let wait = mean_seconds * -self.random.uniform().max(f64::MIN_POSITIVE).ln();
            next = next.after(wait);
            kernel.sleep_until(next).await;
            let began = kernel.now();
            let node = self.random.index(self.options.ring.nodes);
            let transaction = self.database.create_transaction();
            while let Err(error) = self.try_change_places(&transaction, node).await {
                self.run.count_error(error.0);
                match error {
                    Error::TRANSACTION_TOO_OLD => add(&self.counts.too_old),
                    Error::NOT_COMMITTED => add(&self.counts.commit_failed),
                    _ => {}
                }
                if let Err(error) = transaction.on_error(error).await {
                    return self.give_up(error);
                }
                add(&self.counts.retries);
            }
            add(&self.counts.transactions);
            let latency = &self.counts.latency_seconds;
            latency.set(latency.get() + kernel.now().since(began));
        }
    }

    async fn try_change_places(&self, transaction: &Transaction, node: usize) -> Result<(), Error> {
        let ring = &self.options.ring;
        let second = self.next_of(transaction, "KeyR", node).await?;
        let third = self.next_of(transaction, "KeyR2", second).await?;
        let fourth = self.next_of(transaction, "KeyR3", third).await?;
        // Has no effect if the cluster keeps the order of a transaction's writes.
        let mut end = ring.key(node).to_vec();
        end.extend_from_slice(b" end");
        transaction.clear_range(ring.key(node), end.into());
        transaction.set(ring.key(node), ring.value(third));
        transaction.set(ring.key(second), ring.value(fourth));
        transaction.set(ring.key(third), ring.value(second));
        transaction.commit().await
    }

    /// The node after a node; a node without one is an error.
    async fn next_of(
        &self,
        transaction: &Transaction,
        detail: &str,
        node: usize,
    ) -> Result<usize, Error> {
        let ring = &self.options.ring;
        let value = transaction.get(ring.key(node), false).await?;
        let next = value.as_ref().and_then(|value| ring.node(value));
        if let Some(next) = next {
            return Ok(next);
        }
        let version = transaction.get_read_version().await?;
        let key = ring.key(node).escape_ascii().to_string();
        let event = self
            .event(Severity::Error, "CycleBadRead")
            .detail(detail, node);
        self.fail(event.detail("Key", key).detail("Version", version));
        Err(Error::INTERNAL_ERROR)
    }

    /// Looks whether all clients came to their end and did as much as the file expects and, on the
    /// first client, whether the ring is still one.
    async fn check(&self) -> bool {
        let options = &self.options;
        let mut fine = self.counts.errors.get() == 0;
        if !fine {
            let event = self.event(Severity::Error, "TestFailure");
            self.fail(event.detail("Reason", "There were client errors."));
        }
        let wished = options.transactions_per_second * options.test_duration;
        let (made, expected) = (
            self.counts.transactions.get(),
            wished * options.expected_rate,
        );
        if (made as f64) < expected {
            let event = self.event(Severity::WarnAlways, "TestFailure");
            self.fail(
                event
                    .detail("Reason", "Rate below desired rate")
                    .detail("Details", format!("{:.2}", made as f64 / wished))
                    .detail("TransactionsAchieved", made)
                    .detail("MinTransactionsExpected", expected)
                    .detail("TransactionGoal", wished),
            );
            fine = false;
        }
        if self.client.number > 0 {
            return fine;
        }
        let Some(rows) = self.read_ring().await else {
            return false;
        };
        let Err(torn) = options.ring.check(&rows) else {
            return fine;
        };
        let event = self.event(Severity::Error, "TestFailure");
        self.fail(
            event
                .detail("Reason", torn.reason())
                .detail("Before", options.ring.nodes)
                .detail("After", torn.found())
                .detail("KeyPrefix", options.ring.prefix.escape_ascii()),
        );
        false
    }

    /// All nodes there are, and one more if there are too many.
    async fn read_ring(&self) -> Option<Vec<KeyValue>> {
        let transaction = self.database.create_transaction();
        let mut attempts = 0;
        loop {
            let error = match self.try_read_ring(&transaction).await {
                Ok(rows) => return Some(rows),
                Err(error) => error,
            };
            self.run.count_error(error.0);
            attempts += 1;
            let severity = if attempts > CHECKS_WARNED {
                Severity::WarnAlways
            } else {
                Severity::Warn
            };
            let event = self.event(severity, "CycleCheckError");
            self.run.trace(
                event
                    .detail("Error", error.name())
                    .detail("ErrorCode", error.0),
            );
            if attempts > CHECKS_BEFORE_PEACE {
                self.cluster.set_faults_enabled(false);
            }
            if let Err(error) = transaction.on_error(error).await {
                self.give_up(error);
                return None;
            }
        }
    }

    async fn try_read_ring(&self, transaction: &Transaction) -> Result<Vec<KeyValue>, Error> {
        let ring = &self.options.ring;
        let mut rows: Vec<KeyValue> = Vec::new();
        let mut begin = KeySelector::first_greater_or_equal(ring.key(0));
        loop {
            let limits = RangeLimits {
                rows: i32::try_from(ring.nodes + 1 - rows.len()).ok(),
                min_rows: 1,
                bytes: None,
            };
            let end = KeySelector::first_greater_or_equal(ring.end());
            let part = transaction
                .get_range(begin, end, limits, false, false)
                .await?;
            rows.extend(part.rows.iter().cloned());
            match rows.last() {
                Some(last) if part.more && rows.len() <= ring.nodes => {
                    begin = KeySelector {
                        key: last.key.clone(),
                        or_equal: true,
                        offset: 1,
                    };
                }
                _ => return Ok(rows),
            }
        }
    }

    /// An error that cannot be retried.
    fn give_up(&self, error: Error) {
        self.counts.errors.set(self.counts.errors.get() + 1);
        let event = self.event(Severity::Error, "CycleClient");
        self.fail(
            event
                .detail("Error", error.name())
                .detail("ErrorCode", error.0),
        );
    }

    fn fail(&self, event: Event) {
        let kind = match self.run.phase() {
            Phase::Check => FailureKind::CheckFailed,
            _ => FailureKind::ErrorTraced,
        };
        let (client, workload) = (Some(self.client.number), Some(self.workload));
        self.run.fail(kind, client, workload, message_of(&event));
        self.run.trace(event);
    }

    fn event(&self, severity: Severity, kind: &str) -> Event {
        self.run
            .event(severity, kind)
            .on(&*self.client.address, "TS")
    }

    fn spawn(&self, work: impl Future<Output = ()> + 'static) -> Task<()> {
        let kernel = &self.run.kernel;
        kernel.spawn(self.client.process, Priority::DefaultDelay, work)
    }
}
