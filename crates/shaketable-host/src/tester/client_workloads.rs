//! The workloads of one client: created together, called together, judged one by one.

use super::client_host::ClientHost;
use super::cycle::{self, Cycle, CycleOptions};
use super::progress::{Pending, WaitsFor};
use super::run::{EndRun, Run};
use super::testbed::{Client, Testbed};
use crate::library::instance::{Reported, Workload};
use crate::library::promise::{Owner, Resolution};
use crate::options::Options;
use crate::testfile::EXTERNAL;
use crate::trace::Severity;
use crate::verdict::{FailureKind, Phase};
use shaketable_cluster::faults::Options as TextOptions;
use shaketable_kernel::Priority;
use shaketable_record::PhaseId;
use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;

/// The workloads of one client.
pub(super) struct ClientWorkloads {
    pub(super) client: Rc<Client>,
    /// Each with its number in the test. Fault workloads are not among them.
    pub(super) each: Vec<(usize, ClientWorkload)>,
}

/// A workload on one client.
pub(super) enum ClientWorkload {
    /// One from a library.
    External(Rc<RefCell<Workload>>),
    /// The built-in one, which needs no library.
    Cycle(Rc<Cycle>),
}

impl ClientWorkload {
    /// Its numbers, under the names they have in traces.
    pub(super) fn metrics(&self) -> Vec<Reported> {
        let (name, mut metrics) = match self {
            ClientWorkload::External(external) => (EXTERNAL, external.borrow().metrics()),
            ClientWorkload::Cycle(cycle) => (cycle::NAME, cycle.metrics()),
        };
        for metric in &mut metrics {
            metric.name.insert_str(0, &format!("{name}."));
        }
        metrics
    }

    /// Ends its life.
    pub(super) fn free(&self) {
        if let ClientWorkload::External(external) = self {
            external.borrow_mut().free();
        }
    }
}

/// Creates the workloads of one client, in the order of the file.
pub(super) fn create(
    run: &Rc<Run>,
    testbed: &Testbed,
    test: usize,
    client: &Rc<Client>,
    shared_random_number: i64,
) -> Result<Rc<ClientWorkloads>, EndRun> {
    let spec = run.spec(test);
    let mut each = Vec::new();
    for (number, workload) in spec.workloads.iter().enumerate() {
        if workload.name == cycle::NAME {
            let cycle = create_cycle(run, testbed, test, client, number)?;
            each.push((number, ClientWorkload::Cycle(Rc::new(cycle))));
            continue;
        }
        if workload.name != EXTERNAL {
            continue;
        }
        let host = Rc::new(ClientHost {
            run: run.clone(),
            testbed: testbed.clone(),
            client: client.clone(),
            workload: number,
            options: Options::new(&workload.options),
            shared_random_number,
            random: run.kernel.stream(&format!("workload {}", client.number)),
        });
        for read_by_the_host in ["runSetup", "useCAPI", "libraryName", "libraryPath"] {
            host.options.take(read_by_the_host, "");
        }
        if number == 0 {
            host.options.take("enableDD", "");
        }
        let name = host.options.take("workloadName", "");
        let library = run.given.libraries[test][number]
            .as_ref()
            .expect("an External workload has a library");
        run.trace(
            run.event(Severity::Info, "ExternalWorkloadLoad")
                .on(&*client.address, "TS")
                .detail(
                    "LibraryName",
                    workload.option("libraryName").unwrap_or_default(),
                )
                .detail("LibraryPath", library.path.display())
                .detail("WorkloadName", &name),
        );
        run.call(client.number, number);
        match Workload::create(library, &name, host.clone()) {
            Ok(instance) => {
                let instance = Rc::new(RefCell::new(instance));
                run.instances.borrow_mut().push(instance.clone());
                each.push((number, ClientWorkload::External(instance)));
            }
            Err(error) => {
                run.fail(
                    FailureKind::NotCreated,
                    Some(client.number),
                    Some(number),
                    error.to_string(),
                );
                return Err(EndRun);
            }
        }
        let unread = host.options.unread();
        if !unread.is_empty() {
            let names: Vec<String> = unread
                .iter()
                .map(|option| match option.line {
                    0 => format!("`{}`", option.key),
                    line => format!("`{}` (line {line})", option.key),
                })
                .collect();
            for option in &unread {
                run.trace(
                    run.event(Severity::Error, "OptionNotConsumed")
                        .on(&*client.address, "TS")
                        .detail("Key", &option.key)
                        .detail("Value", &option.text),
                );
            }
            run.fail(
                FailureKind::OptionsNotRead,
                Some(client.number),
                Some(number),
                format!(
                    "the workload {} did not read {}: options must be read while the workload is created",
                    workload.display_name(),
                    names.join(", ")
                ),
            );
            return Err(EndRun);
        }
    }
    Ok(Rc::new(ClientWorkloads {
        client: client.clone(),
        each,
    }))
}

fn create_cycle(
    run: &Rc<Run>,
    testbed: &Testbed,
    test: usize,
    client: &Rc<Client>,
    number: usize,
) -> Result<Cycle, EndRun> {
    let spec = run.spec(test);
    let mut take = |name: &str| spec.workloads[number].option(name).map(str::to_owned);
    let fail = |message: String| {
        let kind = FailureKind::NotCreated;
        run.fail(kind, Some(client.number), Some(number), message);
        EndRun
    };
    let options = CycleOptions::read(&mut TextOptions(&mut take), run.given.client_count);
    let options = options.map_err(|bad| fail(bad.to_string()))?;
    let name = format!("{} {test} {number} {}", cycle::NAME, client.number);
    let cluster = testbed.cluster.as_ref().filter(|_| spec.use_db);
    let cluster = cluster.map(|(cluster, _)| cluster);
    let random = run.kernel.stream(&name);
    Cycle::new(run, client, number, cluster, options, random)
        .ok_or_else(|| fail("it needs a database, and the test sets `useDB = false`".to_owned()))
}

/// The end of a workload's phase.
type Ended = Pin<Box<dyn Future<Output = Resolution>>>;

/// How a phase ended on a client, from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PhaseEnd {
    /// Every workload sent `true`.
    Passed,
    /// A workload sent `false`.
    Failed,
    /// A workload has sent nothing and never will: nothing after it would mean anything.
    Broken,
}

/// Runs a phase of all workloads of a client.
pub(super) async fn run_phase(
    run: Rc<Run>,
    testbed: Testbed,
    test: usize,
    phase: Phase,
    workloads: Rc<ClientWorkloads>,
) -> PhaseEnd {
    let client = &workloads.client;
    let (title, use_db) = (&run.spec(test).title, run.spec(test).use_db);
    let on_client = |kind: &str| {
        run.event(Severity::Info, kind)
            .on(&*client.address, "TS")
            .detail("Workload", title)
    };
    if phase == Phase::Start {
        run.trace(on_client("TestStarting"));
    }
    let mut waiting: Vec<(usize, Option<PhaseId>, Ended)> = Vec::new();
    let mut timeout_seconds = 0.0_f64;
    for (workload, instance) in &workloads.each {
        let recorded = run.notes.as_ref().map(|notes| {
            let name = run.spec(test).workloads[*workload].display_name();
            notes.begin_phase(client.number, title, name, phase, run.now())
        });
        let timeout = match instance {
            ClientWorkload::External(external) => {
                let owner = Owner {
                    client: client.number,
                    workload: *workload,
                };
                let (promise, resolved) = run.promises.make(owner);
                run.progress.begin(Pending {
                    client: client.number,
                    workload: *workload,
                    waits_for: WaitsFor::LentFutures,
                });
                run.call(client.number, *workload);
                let external = external.borrow();
                let database = testbed.lend(client, *workload, phase, use_db, recorded);
                external.begin(phase, database, promise);
                let testbed = testbed.clone();
                let ended = async move {
                    let resolution = resolved.await;
                    testbed.take_back(database);
                    resolution
                };
                waiting.push((*workload, recorded, Box::pin(ended)));
                (phase == Phase::Check).then(|| external.check_timeout())
            }
            ClientWorkload::Cycle(cycle) => {
                run.progress.begin(Pending {
                    client: client.number,
                    workload: *workload,
                    waits_for: WaitsFor::Anything,
                });
                let performed = cycle.clone().perform(phase);
                let kernel = &run.kernel;
                let task = kernel.spawn(client.process, Priority::DefaultDelay, performed);
                let ended = async move { Resolution::Sent(task.await) };
                waiting.push((*workload, recorded, Box::pin(ended)));
                Some(cycle::CHECK_TIMEOUT_SECONDS)
            }
        };
        timeout_seconds = timeout_seconds.max(timeout.unwrap_or(0.0));
    }
    let all = async {
        let mut worst = PhaseEnd::Passed;
        for (workload, recorded, resolved) in waiting {
            let resolution = resolved.await;
            run.progress.end(client.number, workload);
            let end = judge(&run, phase, client, workload, resolution);
            if let (Some(notes), Some(recorded)) = (&run.notes, recorded) {
                let failed = end != PhaseEnd::Passed;
                let error = failed.then(|| run.last_failure(client.number)).flatten();
                notes.end_phase(recorded, run.now(), error);
            }
            worst = worst.max(end);
        }
        worst
    };
    let end = if phase == Phase::Check {
        let checked = run.kernel.timeout(timeout_seconds, all).await;
        match checked {
            Some(end) => end,
            None => {
                run.trace(
                    run.event(Severity::Error, "TestFailure")
                        .on(&*client.address, "TS")
                        .detail("Reason", "Error checking workload")
                        .detail("Workload", title),
                );
                run.fail_pending(
                    &testbed,
                    FailureKind::CheckTimedOut,
                    &format!("no answer within {timeout_seconds} simulated seconds, which is what the workload allows itself"),
                );
                return PhaseEnd::Broken;
            }
        }
    } else {
        all.await
    };
    let finished = match phase {
        Phase::Setup => Some(on_client("TestSetupComplete")),
        Phase::Start => {
            Some(on_client("TestComplete").detail("OK", u8::from(end == PhaseEnd::Passed)))
        }
        _ => None,
    };
    if let Some(finished) = finished {
        run.trace(finished);
    }
    end
}

/// What the end of a promise means in a phase.
fn judge(
    run: &Run,
    phase: Phase,
    client: &Client,
    workload: usize,
    resolution: Resolution,
) -> PhaseEnd {
    match (resolution, phase) {
        (Resolution::Sent(true), _) => PhaseEnd::Passed,
        (Resolution::Sent(false), Phase::Check) => {
            // The error that explains it was traced before, if the workload traced one.
            if !run.has_failed() {
                run.fail(
                    FailureKind::CheckFailed,
                    Some(client.number),
                    Some(workload),
                    "the workload answered false",
                );
            }
            PhaseEnd::Failed
        }
        (Resolution::Sent(false), _) => {
            run.trace(
                run.event(Severity::Error, "ExternalWorkloadFailure")
                    .on(&*client.address, "TS")
                    .detail("Stage", phase.name()),
            );
            if !run.has_failed() {
                run.fail(
                    FailureKind::PhaseFailed,
                    Some(client.number),
                    Some(workload),
                    "the workload answered false",
                );
            }
            PhaseEnd::Failed
        }
        (Resolution::Broken, _) => {
            run.trace(
                run.event(Severity::Error, "TestFailure")
                    .on(&*client.address, "TS")
                    .detail("Reason", format!("Error in {phase}: broken_promise")),
            );
            run.fail(
                FailureKind::BrokenPromise,
                Some(client.number),
                Some(workload),
                "the workload gave its promise up without an answer",
            );
            PhaseEnd::Broken
        }
    }
}
