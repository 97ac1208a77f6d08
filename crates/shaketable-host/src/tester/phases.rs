//! Walks all clients through the phases of each test, with a barrier after each.
//!
//! The order is fdbserver's: every workload of a test is created on every client, and all of their
//! options must be read by then; all clients are set up; all are started; when the last has
//! finished, three seconds pass; all are checked; metrics are fetched; all are freed. Within a
//! client the workloads of a test are called in the order of the file, in one go, and then run side
//! by side.

use super::client_workloads::{self, ClientWorkloads, PhaseEnd};
use super::liveness::Moment;
use super::metrics;
use super::run::{EndRun, Run};
use super::testbed::{Client, Testbed};
use crate::library::instance::Reported;
use crate::printf;
use crate::trace::Severity;
use crate::verdict::{FailureKind, Phase};
use shaketable_cluster::faults::{Context, FaultWorkload, Options as FaultOptions, inject};
use shaketable_cluster::saboteur::Saboteur;
use shaketable_kernel::{Priority, Stream, Task};
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;

/// How long a tester waits after it was asked for its workloads.
const CREATE_DELAY_SECONDS: f64 = 1.0;
/// The time between the last start and the first check.
const CHECK_DELAY_SECONDS: f64 = 3.0;

/// For how long after the first test began faults are allowed.
const FAULTS_SECONDS: f64 = 450.0;
/// How long clearing the database may take.
const CLEAR_LIMIT_SECONDS: f64 = 1000.0;
/// The time that passes after the database was cleared.
const CLEARED_DELAY_SECONDS: f64 = 1.0;

/// Runs all tests of the file.
pub(super) async fn run_tests(run: Rc<Run>, testbed: Testbed) {
    run.print(format!("Random seed is {}...", run.given.seed));
    run.trace(
        run.event(Severity::Info, "ProgramStart")
            .detail("RandomSeed", run.given.seed)
            .detail("Version", env!("CARGO_PKG_VERSION"))
            .detail("PackageName", "shaketable")
            .detail("BuggifyEnabled", u8::from(run.given.buggify))
            .detail("FaultInjectionEnabled", u8::from(run.given.fault_injection)),
    );
    run.trace(
        run.event(Severity::Info, "Simulation")
            .detail("TestFile", run.given.file.path.display()),
    );
    {
        let mut drawn = run.findings.drawn.borrow_mut();
        drawn.clients = run.given.client_count;
        drawn.swarm = run.given.swarm.swarm;
        drawn.buggify = run.given.buggify;
        drawn.stress = run.given.stress;
    }
    run.trace(
        run.event(Severity::Info, "TestsExpectedToPass")
            .detail("Count", run.given.file.tests.len()),
    );
    testbed.await_cluster().await;
    enable_faults(&run, &testbed);
    for test in 0..run.given.file.tests.len() {
        if Test::new(&run, &testbed, test).run().await.is_err() {
            run.stop();
            return;
        }
    }
    let passed = run.progress.tests_passed.get();
    let failed = run.progress.tests_failed.get();
    run.print(String::new());
    run.print(format!("{passed} tests passed; {failed} tests failed."));
    run.stop();
}

/// Lets faults happen, for as long as FoundationDB's simulator does: then the cluster must have a
/// chance to settle.
fn enable_faults(run: &Rc<Run>, testbed: &Testbed) {
    let Some((cluster, _)) = &testbed.cluster else {
        return;
    };
    let kernel = &run.kernel;
    cluster.set_faults_enabled(true);
    let first = run.given.file.tests.first();
    let lasting = first.is_some_and(|test| test.connection_failures_disable_seconds > 0.0);
    if !lasting && !run.given.swarm.connections_break {
        let faults = &mut run.findings.drawn.borrow_mut().faults;
        faults.push("broken connections (left out)".to_owned());
    }
    if lasting || !run.given.swarm.connections_break {
        kernel.set_connection_failures(false);
    }
    // A latency of each pair of addresses is a fault too, which lasts as long as faults are
    // allowed.
    let is_slow = cluster.knobs().max_clogging_latency > 0.0;
    if is_slow {
        run.progress.begin_fault();
    }
    let (cluster, run) = (cluster.clone(), Rc::downgrade(run));
    kernel.call_at(kernel.now().after(FAULTS_SECONDS), move |_| {
        cluster.set_faults_enabled(false);
        if let Some(run) = run.upgrade().filter(|_| is_slow) {
            run.progress.end_fault(run.kernel.now());
        }
    });
}

/// On how many clients a test passed and failed.
struct ClientCounts {
    passed: u32,
    failed: u32,
}

/// One `[[test]]` being run.
struct Test<'a> {
    run: &'a Rc<Run>,
    testbed: &'a Testbed,
    number: usize,
    title: String,
    workloads: RefCell<Vec<Rc<ClientWorkloads>>>,
    faults: RefCell<Vec<Fault>>,
}

/// A fault workload that runs.
struct Fault {
    workload: FaultWorkload,
    /// How many of its kind stand before it, also of those that do not run.
    same_before: usize,
    /// Its name among the fault workloads of the run.
    name: String,
}

/// How many of these fault workloads have this name.
fn same_before(name: &str, before: &[FaultWorkload]) -> usize {
    before.iter().filter(|fault| fault.name() == name).count()
}

impl<'a> Test<'a> {
    fn new(run: &'a Rc<Run>, testbed: &'a Testbed, number: usize) -> Self {
        Test {
            run,
            testbed,
            number,
            title: run.spec(number).title.clone(),
            workloads: RefCell::default(),
            faults: RefCell::default(),
        }
    }

    /// Runs the test.
    async fn run(&self) -> Result<(), EndRun> {
        let run = self.run;
        let spec = run.spec(self.number);
        run.print(format!("Run test:{} start", self.title));
        run.trace(
            run.event(Severity::Info, "TestRunning")
                .detail("WorkloadTitle", &self.title)
                .detail("TesterCount", run.given.client_count)
                .detail("Phases", if spec.check_only { 4 } else { 15 })
                .detail("TestTimeout", printf::g(spec.timeout_seconds)),
        );
        let knobs = match self.testbed.set_test_knobs(run, self.number) {
            Ok(knobs) => knobs,
            Err(bad) => {
                run.fail_host(bad.to_string());
                return Err(EndRun);
            }
        };
        let phases = run.kernel.timeout(spec.timeout_seconds, self.phases());
        let ping = self.start_ping();
        let ended = phases.await;
        drop((ping, knobs));
        let ClientCounts { passed, failed } = match ended {
            Some(counts) => counts?,
            None => self.time_out()?,
        };
        run.print("Test complete");
        run.print(format!(
            "{passed} test clients passed; {failed} test clients failed"
        ));
        let passed = failed == 0 && passed > 0;
        let severity = if passed {
            Severity::Info
        } else {
            Severity::WarnAlways
        };
        run.trace(
            run.event(severity, "TestResults")
                .detail("Workload", &self.title)
                .detail("Passed", u8::from(passed)),
        );
        run.progress.count_test(passed);
        if spec.use_db && spec.clear_after_test {
            let cleared = run
                .kernel
                .timeout(CLEAR_LIMIT_SECONDS, self.testbed.clear_database());
            if cleared.await.is_none() {
                run.trace(run.event(Severity::Error, "ErrorClearingDatabaseAfterTest"));
                run.fail(
                    FailureKind::DatabaseUnavailable,
                    None,
                    None,
                    "the database could not be cleared after the test",
                );
                return Err(EndRun);
            }
            run.kernel.sleep(CLEARED_DELAY_SECONDS).await;
        }
        run.print(format!("Run test:{} Done.", self.title));
        Ok(())
    }

    /// The test takes too long: all of its clients have failed. If it was the last one the run
    /// ends; before another the workloads are taken away, whatever they are doing.
    fn time_out(&self) -> Result<ClientCounts, EndRun> {
        let run = self.run;
        let seconds = run.spec(self.number).timeout_seconds;
        run.trace(
            run.event(Severity::Error, "TestFailure")
                .detail("Reason", "Test timed out")
                .detail("Timeout", printf::g(seconds)),
        );
        run.print(format!("ERROR: Test timed out after {seconds} seconds."));
        let message = format!("the test took more than {seconds} simulated seconds");
        run.fail_pending(self.testbed, FailureKind::TestTimedOut, &message);
        run.progress.forget_pending();
        if self.number + 1 == run.given.file.tests.len() {
            return Err(EndRun);
        }
        self.free();
        Ok(ClientCounts {
            passed: 0,
            failed: run.given.client_count,
        })
    }

    /// Watches that transactions get through, if the test asks for it.
    fn start_ping(&self) -> Option<Task<()>> {
        let seconds = self.run.spec(self.number).database_ping_delay_seconds;
        let (run, testbed) = (self.run.clone(), self.testbed.clone());
        (seconds > 0.0).then(|| {
            self.run.kernel.spawn(self.testbed.test_system, Priority::DefaultDelay, async move {
                testbed.ping(seconds).await;
                let message = format!("no transaction got through within {seconds} simulated seconds (databasePingDelay)");
                run.fail(FailureKind::DatabaseUnavailable, None, None, message);
                run.stop();
            })
        })
    }

    /// Runs the phases.
    async fn phases(&self) -> Result<ClientCounts, EndRun> {
        let run = self.run;
        let spec = run.spec(self.number);
        self.create().await?;
        self.read_faults()?;
        if spec.run_setup && !spec.check_only {
            self.announce(Phase::Setup, "setting up test", "TestSetupStart");
            for _ in self.testbed.clients.iter() {
                run.print("Test received trigger for setup...");
            }
            self.phase(Phase::Setup).await?;
        }
        if !spec.check_only {
            self.announce(Phase::Start, "running test", "TestStarting");
            let faults = self.start_faults();
            let moment = Moment::draw(run, self.testbed);
            self.phase(Phase::Start).await?;
            if let Some(moment) = moment {
                moment.come().await;
            }
            for fault in faults {
                fault.await;
            }
            let names: Vec<&str> = spec
                .workloads
                .iter()
                .map(|workload| workload.name.as_str())
                .collect();
            for _ in self.testbed.clients.iter() {
                run.print(format!("{} complete", names.join(";")));
            }
            run.print(format!("{} complete", self.title));
            if spec.use_db {
                run.kernel.sleep(CHECK_DELAY_SECONDS).await;
            }
        }
        self.announce(Phase::Check, "checking test", "TestCheckingResults");
        let failed = self.phase(Phase::Check).await?;
        if !spec.check_only {
            self.announce(Phase::Metrics, "fetching metrics", "TestFetchingMetrics");
            self.fetch_metrics();
        }
        self.free();
        let failed = failed as u32;
        Ok(ClientCounts {
            passed: run.given.client_count - failed,
            failed,
        })
    }

    /// Takes the workloads away.
    fn free(&self) {
        let run = self.run;
        run.enter(self.number, Phase::Free);
        for of_client in self.workloads.borrow().iter() {
            for (number, workload) in &of_client.each {
                run.call(of_client.client.number, *number);
                workload.free();
            }
        }
    }

    fn announce(&self, phase: Phase, line: &str, event: &str) {
        let run = self.run;
        run.enter(self.number, phase);
        run.print(format!("{line} ({})...", self.title));
        run.trace(
            run.event(Severity::Info, event)
                .detail("WorkloadTitle", &self.title),
        );
    }

    /// Creates all workloads on all clients; each of them must have read its options by then.
    async fn create(&self) -> Result<(), EndRun> {
        let run = self.run;
        run.enter(self.number, Phase::Factory);
        let shared_random_number = run.kernel.stream("shared").below(10_000_000) as i64;
        let created = self.on_every_client(|client| {
            let (run, testbed, number) = (run.clone(), self.testbed.clone(), self.number);
            async move {
                run.kernel.sleep(CREATE_DELAY_SECONDS).await;
                client_workloads::create(&run, &testbed, number, &client, shared_random_number)
            }
        });
        let created: Result<_, EndRun> = created.await.into_iter().collect();
        self.workloads.replace(created?);
        Ok(())
    }

    /// Reads the fault workloads of the file, draws those that the seed adds, and lets the swarm
    /// and the case have their say about all of them.
    fn read_faults(&self) -> Result<(), EndRun> {
        let run = self.run;
        let spec = run.spec(self.number);
        let mut faults = Vec::new();
        for (number, workload) in spec.workloads.iter().enumerate() {
            let mut take = |name: &str| workload.option(name).map(str::to_owned);
            let same_before = same_before(&workload.name, &faults);
            let random = self.stream_of("fault options", &workload.name, same_before);
            match FaultWorkload::read(&workload.name, &mut FaultOptions(&mut take), &random) {
                None => {}
                Some(Ok(fault)) => faults.push(fault),
                Some(Err(bad)) => {
                    run.fail(FailureKind::NotCreated, None, Some(number), bad.to_string());
                    return Err(EndRun);
                }
            }
        }
        let named = faults.len();
        if spec.run_failure_workloads && spec.use_db {
            let disabled: Vec<&str> = spec
                .disabled_failure_workloads
                .iter()
                .map(String::as_str)
                .collect();
            let random = run.kernel.stream("fault injection");
            faults.extend(inject(&random, &faults, &disabled));
        }
        let mut drawn = run.findings.drawn.borrow_mut();
        for (number, workload) in faults.iter().enumerate() {
            let same_before = same_before(workload.name(), &faults[..number]);
            let name = Context::name_of(workload.name(), same_before, self.number);
            let mut known = run.findings.fault_workloads.borrow_mut();
            known.insert(name.clone());
            let mut shown = workload.name().to_owned();
            if number >= named {
                shown.push_str(" (added)");
            }
            let strength = run.given.swarm.strength(&name);
            let strength = strength.filter(|_| run.given.has_fault(&name));
            let weakened = strength.map(|strength| workload.clone().at_strength(strength));
            if number >= named && weakened.is_some() {
                run.trace(
                    run.event(Severity::Info, "AddFailureInjectionWorkload")
                        .detail("Name", workload.name()),
                );
            }
            let is_attrition = matches!(workload, FaultWorkload::Attrition(_));
            match (weakened, strength) {
                // What fdbserver's switch turns off; clogs, rollbacks and kills of single roles
                // are not "faults" in its sense.
                _ if is_attrition && !run.given.fault_injection => {
                    shown.push_str(" (switched off)");
                }
                (Some(weakened), Some(strength)) => {
                    if weakened != *workload {
                        shown.push_str(&format!(" (at {:.0} %)", strength * 100.0));
                    }
                    self.faults.borrow_mut().push(Fault {
                        workload: weakened,
                        same_before,
                        name,
                    });
                }
                _ => shown.push_str(" (left out)"),
            }
            drawn.faults.push(shown);
        }
        Ok(())
    }

    /// The random stream of a fault workload. It is numbered only among those of its own name:
    /// leaving out another one does not change it.
    fn stream_of(&self, purpose: &str, name: &str, same_before: usize) -> Stream {
        let kernel = &self.run.kernel;
        kernel.stream(&format!("{purpose} {} {name} {same_before}", self.number))
    }

    /// Starts the fault workloads, on client 0.
    fn start_faults(&self) -> Vec<Task<()>> {
        let run = self.run;
        let client = &self.testbed.clients[0];
        let (Some((cluster, _)), Some(database)) = (&self.testbed.cluster, &client.database) else {
            return Vec::new();
        };
        let faults = self.faults.take().into_iter();
        faults
            .filter(|fault| run.kernel.can_happen(&fault.name))
            .map(|fault| {
                let context = Context {
                    saboteur: Saboteur::new(cluster),
                    name: fault.name,
                    database: database.clone(),
                    random: self.stream_of("fault", fault.workload.name(), fault.same_before),
                };
                let run = run.clone();
                run.progress.begin_fault();
                let start = async move {
                    fault.workload.start(&context).await;
                    run.progress.end_fault(run.kernel.now());
                };
                let kernel = &self.run.kernel;
                kernel.spawn(client.process, Priority::DefaultDelay, start)
            })
            .collect()
    }

    /// Runs one phase on all clients; returns on how many of them it failed.
    async fn phase(&self, phase: Phase) -> Result<usize, EndRun> {
        let run = self.run;
        let ends = self.on_every_client(|client| {
            let workloads = self.workloads_of(&client);
            let (run, testbed) = (run.clone(), self.testbed.clone());
            client_workloads::run_phase(run, testbed, self.number, phase, workloads)
        });
        let ends = ends.await;
        self.testbed.collect_breaches(run);
        if ends.contains(&PhaseEnd::Broken) {
            return Err(EndRun);
        }
        Ok(ends.iter().filter(|end| **end == PhaseEnd::Failed).count())
    }

    fn workloads_of(&self, client: &Client) -> Rc<ClientWorkloads> {
        let all = self.workloads.borrow();
        let mut all = all.iter();
        let found = all.find(|workloads| workloads.client.number == client.number);
        found.expect("every client has its workloads").clone()
    }

    /// Does something on every client, each after the time a message takes to reach it, and waits
    /// for all.
    async fn on_every_client<T: 'static, F: Future<Output = T> + 'static>(
        &self,
        action: impl Fn(Rc<Client>) -> F,
    ) -> Vec<T> {
        let kernel = &self.run.kernel;
        let latency = kernel.stream("tester");
        let tasks: Vec<Task<T>> = self
            .testbed
            .clients
            .iter()
            .map(|client| {
                let trip = kernel.sleep(latency.range(0.0005, 0.004));
                let action = action(client.clone());
                kernel.spawn(client.process, Priority::DefaultEndpoint, async move {
                    trip.await;
                    action.await
                })
            })
            .collect();
        let mut results = Vec::with_capacity(tasks.len());
        for task in tasks {
            // A tester is never killed, so its task comes to an end.
            results.push(task.await);
        }
        kernel.sleep(latency.range(0.0005, 0.004)).await;
        results
    }

    fn fetch_metrics(&self) {
        let run = self.run;
        let mut reports: Vec<Vec<Reported>> = Vec::new();
        for workloads in self.workloads.borrow().iter() {
            let client = workloads.client.number;
            let mut of_client = Vec::new();
            for (number, workload) in &workloads.each {
                run.call(client, *number);
                of_client.extend(workload.metrics());
            }
            for (index, metric) in of_client.iter().enumerate() {
                run.print(format!(
                    "Metric ({client}, {index}): {}, {:.6}, {}",
                    metric.name,
                    metric.value,
                    metrics::formatted(metric, metric.value)
                ));
            }
            reports.push(of_client);
        }
        run.trace(
            run.event(Severity::Info, "Metric")
                .detail("Name", "Reporting Clients")
                .detail("Value", reports.len())
                .detail("Formatted", reports.len()),
        );
        for metric in metrics::combine(reports.iter().map(Vec::as_slice)) {
            run.trace(
                run.event(Severity::Info, "Metric")
                    .detail("Name", &metric.name)
                    .detail("Value", printf::g(metric.value))
                    .detail("Formatted", &metric.formatted),
            );
            run.findings.metrics.borrow_mut().push(metric);
        }
    }
}
