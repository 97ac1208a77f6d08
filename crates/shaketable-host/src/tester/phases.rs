//! The orchestrator: walks all clients through the phases of each test, with a barrier after each.
//!
//! The order is fdbserver's: every workload of a test is created on every client, and all of their options must be read by then;
//! all clients are set up; all are started; when the last has finished, three seconds pass; all are checked; metrics are fetched;
//! all are freed. Within a client the workloads of a test are called in the order of the file, in one go, and then run side by side.

use super::client_workloads::{Cast, End, create_on, perform};
use super::metrics;
use super::run::Run;
use super::testbed::{Client, Stage};
use crate::library::instance::Reported;
use crate::printf;
use crate::trace::Severity;
use crate::verdict::{FailureKind, Phase};
use shaketable_cluster::faults::{Context, FaultWorkload, Options as FaultOptions, inject};
use shaketable_kernel::{Priority, Stream, Task};
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;

/// What a tester waits after it was asked for its workloads.
const CREATE_DELAY_SECONDS: f64 = 1.0;
/// What passes between the last start and the first check.
const CHECK_DELAY_SECONDS: f64 = 3.0;

/// For how long after the first test began faults are allowed.
const FAULTS_SECONDS: f64 = 450.0;
/// How long clearing the database may take.
const CLEAR_LIMIT_SECONDS: f64 = 1000.0;
/// What passes after the database was cleared.
const CLEARED_DELAY_SECONDS: f64 = 1.0;

/// Runs all tests of the file.
pub(super) async fn play(run: Rc<Run>, stage: Stage) {
    run.print(format!("Random seed is {}...", run.seed));
    run.trace(
        run.event(Severity::Info, "ProgramStart")
            .detail("RandomSeed", run.seed)
            .detail("Version", env!("CARGO_PKG_VERSION"))
            .detail("PackageName", "shaketable")
            .detail("BuggifyEnabled", u8::from(run.buggify))
            .detail("FaultInjectionEnabled", u8::from(run.fault_injection)),
    );
    run.trace(
        run.event(Severity::Info, "Simulation")
            .detail("TestFile", run.file.path.display()),
    );
    {
        let mut drawn = run.drawn.borrow_mut();
        drawn.clients = run.client_count;
        drawn.buggify = run.buggify;
    }
    run.trace(
        run.event(Severity::Info, "TestsExpectedToPass")
            .detail("Count", run.file.tests.len()),
    );
    stage.await_cluster().await;
    enable_faults(&run, &stage);
    for test in 0..run.file.tests.len() {
        if Test::new(&run, &stage, test).play().await.is_none() {
            // As in fdbserver a broken promise, or a check that takes too long, ends the run: nothing after it would mean anything.
            run.stop();
            return;
        }
    }
    let (passed, failed) = run.tests();
    run.print(String::new());
    run.print(format!("{passed} tests passed; {failed} tests failed."));
}

/// Lets faults happen, for as long as FoundationDB's simulator does: then the cluster must have a chance to settle.
fn enable_faults(run: &Run, stage: &Stage) {
    let Some((cluster, _)) = &stage.cluster else {
        return;
    };
    let kernel = &run.kernel;
    cluster.set_faults_enabled(true);
    let first = run.file.tests.first();
    if first.is_some_and(|test| test.connection_failures_disable_seconds > 0.0) {
        kernel.set_connection_failures(false);
    }
    let cluster = cluster.clone();
    kernel.call_at(kernel.now().after(FAULTS_SECONDS), move |_| {
        cluster.set_faults_enabled(false)
    });
}

/// One `[[test]]` being played.
struct Test<'a> {
    run: &'a Rc<Run>,
    stage: &'a Stage,
    number: usize,
    title: String,
    cast: RefCell<Vec<Rc<Cast>>>,
    faults: RefCell<Vec<FaultWorkload>>,
}

impl<'a> Test<'a> {
    fn new(run: &'a Rc<Run>, stage: &'a Stage, number: usize) -> Self {
        Test {
            run,
            stage,
            number,
            title: run.spec(number).title.clone(),
            cast: RefCell::default(),
            faults: RefCell::default(),
        }
    }

    /// Plays the test. `None` if the run must end here.
    async fn play(&self) -> Option<()> {
        let run = self.run;
        let spec = run.spec(self.number);
        run.print(format!("Run test:{} start", self.title));
        run.trace(
            run.event(Severity::Info, "TestRunning")
                .detail("WorkloadTitle", &self.title)
                .detail("TesterCount", run.client_count)
                .detail("Phases", if spec.check_only { 4 } else { 15 })
                .detail("TestTimeout", printf::g(spec.timeout_seconds)),
        );
        let knobs = match self.stage.set_test_knobs(run, self.number) {
            Ok(knobs) => knobs,
            Err(bad) => {
                run.fail_host(bad.to_string());
                return None;
            }
        };
        let played = run.kernel.timeout(spec.timeout_seconds, self.phases());
        let ping = self.start_ping();
        let played = played.await;
        drop((ping, knobs));
        let (succeeded, failed) = match played {
            Some(played) => played?,
            None => self.time_out()?,
        };
        run.print("Test complete");
        run.print(format!(
            "{succeeded} test clients passed; {failed} test clients failed"
        ));
        let passed = failed == 0 && succeeded > 0;
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
        run.count_test(passed);
        if spec.use_db && spec.clear_after_test {
            let cleared = run
                .kernel
                .timeout(CLEAR_LIMIT_SECONDS, self.stage.clear_database());
            if cleared.await.is_none() {
                run.trace(run.event(Severity::Error, "ErrorClearingDatabaseAfterTest"));
                run.fail(
                    FailureKind::DatabaseUnavailable,
                    None,
                    None,
                    "the database could not be cleared after the test",
                );
                return None;
            }
            run.kernel.sleep(CLEARED_DELAY_SECONDS).await;
        }
        run.print(format!("Run test:{} Done.", self.title));
        Some(())
    }

    /// The test takes too long: all of its clients have failed. `None` if it was the last one; before another the workloads
    /// are taken away, whatever they are doing.
    fn time_out(&self) -> Option<(u32, u32)> {
        let run = self.run;
        let seconds = run.spec(self.number).timeout_seconds;
        run.trace(
            run.event(Severity::Error, "TestFailure")
                .detail("Reason", "Test timed out")
                .detail("Timeout", printf::g(seconds)),
        );
        run.print(format!("ERROR: Test timed out after {seconds} seconds."));
        let message = format!("the test took more than {seconds} simulated seconds");
        run.fail_pending(FailureKind::TestTimedOut, &message);
        run.forget_pending();
        if self.number + 1 == run.file.tests.len() {
            return None;
        }
        self.free();
        Some((0, run.client_count))
    }

    /// Watches that the database answers, if the test asks for it.
    fn start_ping(&self) -> Option<Task<()>> {
        let seconds = self.run.spec(self.number).database_ping_delay_seconds;
        let (run, stage) = (self.run.clone(), self.stage.clone());
        (seconds > 0.0).then(|| {
            self.run.kernel.spawn(self.stage.test_system, Priority::DefaultDelay, async move {
                stage.ping(seconds).await;
                let message = format!("no transaction got through within {seconds} simulated seconds (databasePingDelay)");
                run.fail(FailureKind::DatabaseUnavailable, None, None, message);
                run.stop();
            })
        })
    }

    /// The phases, up to the numbers of clients that passed and failed. `None` if the run must end.
    async fn phases(&self) -> Option<(u32, u32)> {
        let run = self.run;
        let spec = run.spec(self.number);
        self.create().await?;
        self.read_faults()?;
        if spec.run_setup && !spec.check_only {
            self.announce(Phase::Setup, "setting up test", "TestSetupStart");
            for _ in self.stage.clients.iter() {
                run.print("Test received trigger for setup...");
            }
            self.phase(Phase::Setup).await?;
        }
        if !spec.check_only {
            self.announce(Phase::Start, "running test", "TestStarting");
            let faults = self.start_faults();
            self.phase(Phase::Start).await?;
            for fault in faults {
                fault.await;
            }
            let names: Vec<&str> = spec
                .workloads
                .iter()
                .map(|workload| workload.name.as_str())
                .collect();
            for _ in self.stage.clients.iter() {
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
        Some((run.client_count - failed, failed))
    }

    /// Takes the workloads away.
    fn free(&self) {
        let run = self.run;
        run.enter(self.number, Phase::Free);
        for cast in self.cast.borrow().iter() {
            for (workload, actor) in &cast.actors {
                run.call(cast.client.number, *workload);
                actor.free();
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

    /// Creates all workloads on all clients. `None` if one cannot be created or left an option unread.
    async fn create(&self) -> Option<()> {
        let run = self.run;
        run.enter(self.number, Phase::Factory);
        let shared_random_number = run.kernel.stream("shared").below(10_000_000) as i64;
        let created = self.on_every_client(|client| {
            let (run, stage, number) = (run.clone(), self.stage.clone(), self.number);
            async move {
                run.kernel.sleep(CREATE_DELAY_SECONDS).await;
                create_on(&run, &stage, number, &client, shared_random_number)
            }
        });
        let mut complete = true;
        for cast in created.await {
            match cast {
                Some(cast) => self.cast.borrow_mut().push(cast),
                None => complete = false,
            }
        }
        complete.then_some(())
    }

    /// Reads the fault workloads of the file, and draws those that the seed adds.
    fn read_faults(&self) -> Option<()> {
        let run = self.run;
        let spec = run.spec(self.number);
        let mut faults = Vec::new();
        for (number, workload) in spec.workloads.iter().enumerate() {
            let mut take = |name: &str| workload.option(name).map(str::to_owned);
            let random = self.stream_of("fault options", &workload.name, &faults);
            match FaultWorkload::read(&workload.name, &mut FaultOptions(&mut take), &random) {
                None => {}
                Some(Ok(fault)) => faults.push(fault),
                Some(Err(bad)) => {
                    run.fail(FailureKind::NotCreated, None, Some(number), bad.to_string());
                    return None;
                }
            }
        }
        let mut drawn = run.drawn.borrow_mut();
        drawn
            .faults
            .extend(faults.iter().map(|fault| fault.name().to_owned()));
        if spec.run_failure_workloads && spec.use_db {
            let disabled: Vec<&str> = spec
                .disabled_failure_workloads
                .iter()
                .map(String::as_str)
                .collect();
            let added = inject(&run.kernel.stream("fault injection"), &faults, &disabled);
            for fault in &added {
                run.trace(
                    run.event(Severity::Info, "AddFailureInjectionWorkload")
                        .detail("Name", fault.name()),
                );
                drawn.faults.push(format!("{} (added)", fault.name()));
            }
            faults.extend(added);
        }
        if !run.fault_injection {
            // What fdbserver's switch switches off; clogs, rollbacks and kills of single roles are no "faults" in its sense.
            faults.retain(|fault| !matches!(fault, FaultWorkload::Attrition(_)));
            for name in &mut drawn.faults {
                if name.starts_with("Attrition") {
                    name.push_str(" (switched off)");
                }
            }
        }
        self.faults.replace(faults);
        Some(())
    }

    /// The random stream of a fault workload. It is numbered among those of its own name alone: leaving out
    /// another one changes nothing about it.
    fn stream_of(&self, purpose: &str, name: &str, before: &[FaultWorkload]) -> Stream {
        let same = before.iter().filter(|fault| fault.name() == name).count();
        let kernel = &self.run.kernel;
        kernel.stream(&format!("{purpose} {} {name} {same}", self.number))
    }

    /// Starts the fault workloads, on client 0.
    fn start_faults(&self) -> Vec<Task<()>> {
        let run = self.run;
        let client = &self.stage.clients[0];
        let (Some((cluster, _)), Some(database)) = (&self.stage.cluster, &client.database) else {
            return Vec::new();
        };
        let faults = self.faults.take();
        faults
            .iter()
            .enumerate()
            .map(|(number, fault)| {
                let context = Context {
                    cluster: cluster.clone(),
                    database: database.clone(),
                    random: self.stream_of("fault", fault.name(), &faults[..number]),
                };
                let fault = fault.clone();
                let start = async move { fault.start(&context).await };
                run.kernel
                    .spawn(client.process, Priority::DefaultDelay, start)
            })
            .collect()
    }

    /// Runs one phase on all clients and answers on how many it failed. `None` if a promise was broken.
    async fn phase(&self, phase: Phase) -> Option<usize> {
        let run = self.run;
        let ends = self.on_every_client(|client| {
            let cast = self.cast_of(&client);
            perform(run.clone(), self.stage.clone(), self.number, phase, cast)
        });
        let ends = ends.await;
        self.stage.collect_breaches(run);
        let mut failed = 0;
        let mut broken = false;
        for end in ends {
            match end {
                End::Passed => {}
                End::Failed => failed += 1,
                End::Broken => broken = true,
            }
        }
        (!broken).then_some(failed)
    }

    fn cast_of(&self, client: &Client) -> Rc<Cast> {
        let cast = self.cast.borrow();
        let found = cast.iter().find(|cast| cast.client.number == client.number);
        found.expect("every client has its workloads").clone()
    }

    /// Does something on every client, each after the time a message takes to reach it, and waits for all.
    async fn on_every_client<T: 'static, F: Future<Output = T> + 'static>(
        &self,
        action: impl Fn(Rc<Client>) -> F,
    ) -> Vec<T> {
        let kernel = &self.run.kernel;
        let latency = kernel.stream("tester");
        let tasks: Vec<Task<T>> = self
            .stage
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
        for cast in self.cast.borrow().iter() {
            let mut of_client = Vec::new();
            for (workload, actor) in &cast.actors {
                run.call(cast.client.number, *workload);
                of_client.extend(actor.metrics());
            }
            for (index, metric) in of_client.iter().enumerate() {
                run.print(format!(
                    "Metric ({}, {index}): {}, {:.6}, {}",
                    cast.client.number,
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
            run.metrics.borrow_mut().push(metric);
        }
    }
}
