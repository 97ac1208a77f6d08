//! The testbed: the machines of the testers, the cluster, and the databases that are lent to
//! workloads.

use super::liveness::REPLICAS_MIN;
use super::record::Notes;
use super::recorder::Recorded as RecordedFaults;
use super::run::Run;
use crate::call_site;
use crate::coverage::{self, Counts};
use crate::library::instance::LentDatabase;
use crate::testfile::{Configuration, Knob};
use crate::verdict::{FailureKind, Phase};
use shaketable_abi::FDBFuture;
use shaketable_cluster::client::{Database, Question, Transaction};
use shaketable_cluster::cluster::{Cluster, ClusterConfig};
use shaketable_cluster::error::Error;
use shaketable_cluster::knobs::{KnobError, Knobs};
use shaketable_cluster::server::layout::LayoutOptions;
use shaketable_fdbc::{Ask, CApi, LeaseBreach, Outstanding, Recorded};
use shaketable_kernel::{Address, Kernel, ProcessId, ProcessSpec, Stream};
use shaketable_record::PhaseId;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The API version of every database, whatever a library selects: fdbserver opens them with its
/// latest, too.
const API_VERSION: i32 = shaketable_fdbc::API_VERSION_SIMULATED;

/// Everything around the workloads. Cheap to clone.
#[derive(Clone)]
pub(super) struct Testbed {
    kernel: Kernel,
    /// The process of the tester, which runs no workloads.
    pub(super) test_system: ProcessId,
    pub(super) clients: Rc<[Rc<Client>]>,
    /// The C API as the workloads see it, until they are cut off from it.
    c_api: Rc<RefCell<Option<CApi>>>,
    lent: Rc<RefCell<Vec<Lent>>>,
    delays: Stream,
    /// The cluster, and the tester's own way to it.
    pub(super) cluster: Option<(Cluster, Database)>,
}

/// Why there is no cluster: the file asks for something impossible.
#[derive(Debug, thiserror::Error)]
pub(super) enum BootError {
    /// `config` of `[configuration]` is not understood.
    #[error("`config` of `[configuration]` has the word `{0}`, which is not known")]
    UnknownWord(String),
    /// A knob cannot have its value.
    #[error(transparent)]
    Knob(#[from] KnobError),
}

/// While this lives the knobs of a test hold.
pub(super) struct TestKnobs {
    cluster: Cluster,
    before: Rc<Knobs>,
}

impl Drop for TestKnobs {
    fn drop(&mut self) {
        self.cluster.set_knobs(Knobs::clone(&self.before));
    }
}

/// A database that was lent, to which workload, and for which phase.
struct Lent {
    handle: LentDatabase,
    client: u32,
    workload: usize,
    phase: Phase,
    /// The phase in the record.
    recorded: Option<PhaseId>,
}

/// A tester: the machine a client runs on.
pub(super) struct Client {
    pub(super) number: u32,
    pub(super) process: ProcessId,
    pub(super) address: Rc<str>,
    pub(super) database: Option<Database>,
}

impl Client {
    /// What the storage servers have not answered yet.
    pub(super) fn questions(&self) -> Vec<Question> {
        let database = self.database.as_ref();
        database.map_or(Vec::new(), Database::questions)
    }
}

impl Testbed {
    /// Adds the testers and starts the cluster, if any test needs one.
    pub(super) fn boot(run: &Rc<Run>) -> Result<Testbed, BootError> {
        let kernel = run.kernel.clone();
        let needed = run.given.file.tests.iter().any(|test| test.use_db);
        let cluster = if needed {
            Some(start_cluster(run)?)
        } else {
            None
        };
        let tester = |name: String, address: Address| ProcessSpec {
            machine: name.clone(),
            zone: name.clone(),
            name,
            address,
            class: "test".into(),
            ..ProcessSpec::default()
        };
        let test_system =
            kernel.add_process(tester("TestSystem".into(), Address::v4(1, 1, 1, 1, 1)));
        let open = |process| {
            let cluster = cluster.as_ref();
            cluster.map(|cluster| cluster.open_database(process, API_VERSION))
        };
        let clients = (0..run.given.client_count)
            .map(|number| {
                let address = Address::v4(3, 4, 3, number as u8 + 1, 1);
                let process = kernel.add_process(tester(format!("tester {number}"), address));
                run.add_client(process, number);
                Rc::new(Client {
                    number,
                    process,
                    address: address.to_string().into(),
                    database: open(process),
                })
            })
            .collect();
        let c_api = CApi::new(&kernel);
        let delays = kernel.stream("delays");
        let own = open(test_system);
        Ok(Testbed {
            kernel,
            test_system,
            clients,
            c_api: Rc::new(RefCell::new(Some(c_api))),
            lent: Rc::default(),
            delays,
            cluster: cluster.zip(own),
        })
    }

    /// Gives the cluster the knobs of a test, which hold as long as what is returned lives.
    pub(super) fn set_test_knobs(
        &self,
        run: &Run,
        test: usize,
    ) -> Result<Option<TestKnobs>, KnobError> {
        let wished = &run.spec(test).knobs;
        let Some((cluster, _)) = self.cluster.as_ref().filter(|_| !wished.is_empty()) else {
            return Ok(None);
        };
        let before = cluster.knobs();
        let mut knobs = Knobs::clone(&before);
        set_knobs(&mut knobs, wished.iter().chain(&run.given.asked_knobs))?;
        cluster.set_knobs(knobs);
        Ok(Some(TestKnobs {
            cluster: cluster.clone(),
            before,
        }))
    }

    /// Waits until the cluster has begun to serve.
    pub(super) async fn await_cluster(&self) {
        self.transact(|transaction| async move { transaction.get_read_version().await.map(drop) })
            .await;
    }

    /// Runs a transaction every `seconds` seconds; ends when one does not get through within that
    /// time.
    pub(super) async fn ping(&self, seconds: f64) {
        loop {
            let pinged = self.transact(|transaction| async move {
                transaction
                    .get(b"\xff".as_slice().into(), false)
                    .await
                    .map(drop)
            });
            if self.kernel.timeout(seconds, pinged).await.is_none() {
                return;
            }
            self.kernel.sleep(seconds).await;
        }
    }

    /// Removes everything the workloads wrote.
    pub(super) async fn clear_database(&self) {
        self.transact(|transaction| async move {
            transaction.clear_range(b"".as_slice().into(), b"\xff".as_slice().into());
            transaction.commit().await
        })
        .await;
    }

    /// Runs a transaction of the tester until it succeeds.
    async fn transact<F: Future<Output = Result<(), Error>>>(
        &self,
        body: impl Fn(Transaction) -> F,
    ) {
        let Some((_, database)) = &self.cluster else {
            return;
        };
        let transaction = database.create_transaction();
        while let Err(error) = body(transaction.clone()).await {
            if transaction.on_error(error).await.is_err() {
                transaction.reset();
            }
        }
    }

    /// A fresh handle of a client's database, for a phase of a workload; none if the test has no
    /// database.
    pub(super) fn lend(
        &self,
        client: &Client,
        workload: usize,
        phase: Phase,
        use_db: bool,
        recorded: Option<PhaseId>,
    ) -> LentDatabase {
        let mut c_api = self.c_api.borrow_mut();
        let (Some(c_api), Some(database), true) = (c_api.as_mut(), &client.database, use_db) else {
            return LentDatabase::none();
        };
        let handle = LentDatabase::new(c_api, database.clone());
        self.lent.borrow_mut().push(Lent {
            handle,
            client: client.number,
            workload,
            phase,
            recorded,
        });
        handle
    }

    /// A phase is over, and with it the use of its database.
    pub(super) fn take_back(&self, handle: LentDatabase) {
        if let Some(c_api) = self.c_api.borrow().as_ref() {
            handle.take_back(c_api);
        }
    }

    /// Fails the run if replicas of the same rows differ: then the simulator has lost or invented
    /// something, and what the workload has seen is worth nothing.
    pub(super) fn compare_replicas(&self, run: &Run) {
        if let Some((cluster, _)) = &self.cluster
            && let Some(difference) = cluster.compare_replicas().difference
        {
            let message = difference.to_string();
            run.fail(FailureKind::ReplicasDiffer, None, None, message);
        }
    }

    /// Turns forbidden uses of lent databases into failures.
    pub(super) fn collect_breaches(&self, run: &Run) {
        let breaches = match self.c_api.borrow().as_ref() {
            Some(c_api) => c_api.take_breaches(),
            None => return,
        };
        for (handle, breach) in breaches {
            let lent = self.lent.borrow();
            let Some(lent) = lent.iter().find(|lent| lent.handle.is(handle)) else {
                continue;
            };
            let phase = lent.phase;
            let (kind, message) = match breach {
                LeaseBreach::UsedAfterwards => (
                    FailureKind::DatabaseKept,
                    format!(
                        "began a transaction on the database of {phase} after that phase had ended: fdbserver has freed it by then"
                    ),
                ),
                LeaseBreach::Destroyed => (
                    FailureKind::Misuse,
                    format!(
                        "destroyed the database that it was lent for {phase}: fdbserver frees it a second time, and crashes"
                    ),
                ),
            };
            run.fail(kind, Some(lent.client), Some(lent.workload), message);
        }
    }

    /// The future of `delay`.
    pub(super) fn delay(&self, process: ProcessId, seconds: f64) -> *mut FDBFuture {
        /// FoundationDB forgives this much, for sums of floating-point numbers.
        const FORGIVEN_SECONDS: f64 = -0.0001;
        let c_api = self.c_api.borrow();
        let Some(c_api) = c_api.as_ref() else {
            return std::ptr::null_mut();
        };
        let sleep = self.kernel.sleep(seconds + self.buggified_delay(seconds));
        let future = c_api.future(process, Ask::Delay(seconds), async move {
            if seconds.is_nan() || seconds < FORGIVEN_SECONDS {
                return Err(Error::INTERNAL_ERROR);
            }
            sleep.await;
            Ok(())
        });
        future.cast()
    }

    /// By how much a delay is too long: with buggify, in some runs, a quarter of them, by next to
    /// nothing or by a lot.
    fn buggified_delay(&self, seconds: f64) -> f64 {
        /// FoundationDB's odds that a delay is lengthened, and the exponent that makes a long
        /// one rare.
        const CHANCE: f64 = 0.25;
        const EXPONENT: f64 = 1000.0;
        let most = match &self.cluster {
            Some((cluster, _)) => cluster.knobs().max_buggified_delay,
            None => 0.0,
        };
        if seconds > 0.0 && most > 0.0 && self.delays.chance(CHANCE) {
            most * self.delays.uniform().powf(EXPONENT)
        } else {
            0.0
        }
    }

    /// How many futures of the database and delays a workload could be waiting for.
    pub(super) fn pending_operations(&self) -> usize {
        let c_api = self.c_api.borrow();
        c_api.as_ref().map_or(0, CApi::pending_operations)
    }

    /// The futures that a client waits for.
    pub(super) fn outstanding(&self, client: &Client) -> Vec<Outstanding> {
        let c_api = self.c_api.borrow();
        c_api
            .as_ref()
            .map_or(Vec::new(), |c_api| c_api.outstanding(client.process))
    }

    /// Shows the same, without a copy.
    pub(super) fn look_at_outstanding(&self, client: &Client, look: impl FnMut(&Outstanding)) {
        if let Some(c_api) = &*self.c_api.borrow() {
            c_api.look_at_outstanding(client.process, look);
        }
    }

    /// How many operations of a client have succeeded so far.
    pub(super) fn operations_done(&self, client: &Client) -> u64 {
        let c_api = self.c_api.borrow();
        c_api
            .as_ref()
            .map_or(0, |c_api| c_api.operations_done(client.process))
    }

    /// From now on it is known where calls of the C API were made, should it be asked.
    pub(super) fn note_call_sites(&self) {
        if let Some(c_api) = self.c_api.borrow().as_ref() {
            c_api.note_places(call_site::stack);
        }
    }

    /// From now on every transaction of the workloads is recorded.
    pub(super) fn record(&self, notes: &Notes) {
        if let Some(c_api) = self.c_api.borrow().as_ref() {
            c_api.note_places(call_site::place);
            c_api.record(notes.settings());
        }
    }

    /// What was recorded.
    pub(super) fn take_record(&self) -> Option<Recorded> {
        let lent = self.lent.borrow();
        let client_of = |process| {
            let mut clients = self.clients.iter();
            let client = clients.find(|client| client.process == process)?;
            Some(client.number)
        };
        let phase_of = |handle| lent.iter().find(|lent| lent.handle.is(handle))?.recorded;
        self.c_api
            .borrow()
            .as_ref()?
            .take_record(client_of, phase_of)
    }

    /// Counts what becomes of the calls of each line.
    pub(super) fn count_outcomes(&self) {
        if let Some(c_api) = self.c_api.borrow().as_ref() {
            c_api.count_outcomes(coverage::site);
        }
    }

    /// Keeps when something was met for the first time.
    pub(super) fn keep_milestones(&self) {
        if let Some(c_api) = self.c_api.borrow().as_ref() {
            c_api.keep_milestones();
        }
    }

    /// What was counted.
    pub(super) fn take_counts(&self) -> Counts {
        let c_api = self.c_api.borrow();
        let reached = c_api.as_ref().map(CApi::take_coverage);
        let milestones = c_api.as_ref().map(CApi::take_milestones);
        Counts::new(
            &reached.unwrap_or_default(),
            &milestones.unwrap_or_default(),
        )
    }

    /// Traces each error that reaches a workload.
    pub(super) fn observe_errors(&self, run: &Rc<Run>, recorder: &RecordedFaults) {
        let (run, recorder) = (Rc::downgrade(run), recorder.clone());
        if let Some(c_api) = self.c_api.borrow().as_ref() {
            c_api.observe_errors(move |error| {
                if let Some(run) = run.upgrade() {
                    recorder.error(&run, error);
                }
            });
        }
    }

    /// How often each error reached a workload.
    pub(super) fn errors(&self) -> BTreeMap<i32, u64> {
        let c_api = self.c_api.borrow();
        c_api.as_ref().map(CApi::errors).unwrap_or_default()
    }

    /// Cuts the code under test off from everything it still holds.
    pub(super) fn close(&self) {
        let c_api = self.c_api.borrow_mut().take();
        drop(c_api);
    }
}

/// Draws a cluster and starts it.
fn start_cluster(run: &Run) -> Result<Cluster, BootError> {
    let mut options = layout_options(&run.given.file.configuration);
    if run.given.liveness_seconds.is_some() {
        options.minimum_replication = options.minimum_replication.max(REPLICAS_MIN);
    }
    let mut config = ClusterConfig::simulation(&run.kernel, &options, run.given.buggify)
        .map_err(BootError::UnknownWord)?;
    if run.given.stress {
        config = config.under_stress();
    }
    set_knobs(
        &mut config.knobs,
        run.given.file.knobs.iter().chain(&run.given.asked_knobs),
    )?;
    let mut drawn = run.findings.drawn.borrow_mut();
    drawn.cluster = config.layout.to_string();
    drawn.knobs = config
        .knobs
        .changed()
        .iter()
        .filter_map(|text| text.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    config.history = run.notes.as_ref().map(|notes| notes.history.clone());
    let cluster = Cluster::start(&run.kernel, config);
    // Nothing fails before the first test begins.
    cluster.set_faults_enabled(false);
    Ok(cluster)
}

/// Sets knobs, the later of two for one name to win.
fn set_knobs<'a>(
    knobs: &mut Knobs,
    wished: impl Iterator<Item = &'a Knob>,
) -> Result<(), KnobError> {
    for Knob { name, value } in wished {
        match knobs.set(name, value) {
            // FoundationDB has many more knobs that make no difference to a client here.
            Ok(()) | Err(KnobError::Unknown { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn layout_options(configuration: &Configuration) -> LayoutOptions {
    let count = |number: Option<i64>| number.and_then(|number| usize::try_from(number).ok());
    LayoutOptions {
        simple_config: configuration.simple_config,
        datacenters: count(configuration.datacenters),
        machine_count: count(configuration.machine_count),
        processes_per_machine: count(configuration.processes_per_machine),
        coordinators: count(configuration.coordinators),
        desired_tlog_count: count(configuration.desired_tlog_count),
        commit_proxy_count: count(configuration.commit_proxy_count),
        grv_proxy_count: count(configuration.grv_proxy_count),
        resolver_count: count(configuration.resolver_count),
        generate_fearless: configuration.generate_fearless,
        minimum_replication: count(configuration.minimum_replication).unwrap_or(0),
        config: configuration.config.clone(),
    }
}
