//! The workloads of one client: created together, called together, judged one by one.

use super::client_host::ClientHost;
use super::cycle::{self, Cycle, CycleOptions};
use super::run::{Run, Waits, pack_owner};
use super::testbed::{Client, Stage};
use crate::library::instance::{Reported, Workload};
use crate::library::promise::Resolution;
use crate::options::Options;
use crate::testfile::EXTERNAL;
use crate::trace::Severity;
use crate::verdict::{FailureKind, Phase};
use shaketable_cluster::faults::Options as TextOptions;
use shaketable_kernel::Priority;
use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;

/// The workloads of one client.
pub(super) struct Cast {
    pub(super) client: Rc<Client>,
    /// Each with its number in the test. Fault workloads are not among them.
    pub(super) actors: Vec<(usize, Actor)>,
}

/// A workload on one client.
pub(super) enum Actor {
    /// One from a library.
    External(Rc<RefCell<Workload>>),
    /// The one that needs none.
    Cycle(Rc<Cycle>),
}

impl Actor {
    /// Its numbers, under the names they have in traces.
    pub(super) fn metrics(&self) -> Vec<Reported> {
        let (name, mut metrics) = match self {
            Actor::External(external) => (EXTERNAL, external.borrow().metrics()),
            Actor::Cycle(cycle) => (cycle::NAME, cycle.metrics()),
        };
        for metric in &mut metrics {
            metric.name.insert_str(0, &format!("{name}."));
        }
        metrics
    }

    /// Ends its life.
    pub(super) fn free(&self) {
        if let Actor::External(external) = self {
            external.borrow_mut().free();
        }
    }
}

/// Creates the workloads of one client, in the order of the file.
pub(super) fn create_on(
    run: &Rc<Run>,
    stage: &Stage,
    test: usize,
    client: &Rc<Client>,
    shared_random_number: i64,
) -> Option<Rc<Cast>> {
    let spec = run.spec(test);
    let mut actors = Vec::new();
    for (number, workload) in spec.workloads.iter().enumerate() {
        if workload.name == cycle::NAME {
            let cycle = create_cycle(run, stage, test, client, number)?;
            actors.push((number, Actor::Cycle(Rc::new(cycle))));
            continue;
        }
        if workload.name != EXTERNAL {
            continue;
        }
        let host = Rc::new(ClientHost {
            run: run.clone(),
            stage: stage.clone(),
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
        let library = run.libraries[test][number]
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
                actors.push((number, Actor::External(instance)));
            }
            Err(error) => {
                run.fail(
                    FailureKind::NotCreated,
                    Some(client.number),
                    Some(number),
                    error.to_string(),
                );
                return None;
            }
        }
        let unread = host.options.unread();
        if !unread.is_empty() {
            let names: Vec<String> = unread
                .iter()
                .map(|option| format!("`{}` (line {})", option.key, option.line))
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
            return None;
        }
    }
    Some(Rc::new(Cast {
        client: client.clone(),
        actors,
    }))
}

fn create_cycle(
    run: &Rc<Run>,
    stage: &Stage,
    test: usize,
    client: &Rc<Client>,
    number: usize,
) -> Option<Cycle> {
    let spec = run.spec(test);
    let mut take = |name: &str| spec.workloads[number].option(name).map(str::to_owned);
    let fail = |message: String| {
        let kind = FailureKind::NotCreated;
        run.fail(kind, Some(client.number), Some(number), message);
    };
    let options = CycleOptions::read(&mut TextOptions(&mut take), run.client_count);
    let options = options.map_err(|bad| fail(bad.to_string())).ok()?;
    let name = format!("{} {test} {number} {}", cycle::NAME, client.number);
    let cluster = stage.cluster.as_ref().filter(|_| spec.use_db);
    let cluster = cluster.map(|(cluster, _)| cluster);
    let random = run.kernel.stream(&name);
    let cycle = Cycle::new(run, client, number, cluster, options, random);
    if cycle.is_none() {
        fail("it needs a database, and the test says `useDB = false`".to_owned());
    }
    cycle
}

/// The end of a workload's phase.
type Ended = Pin<Box<dyn Future<Output = Resolution>>>;

/// How a phase ended on a client.
pub(super) enum End {
    Passed,
    Failed,
    Broken,
}

/// Runs a phase of all workloads of a client.
pub(super) async fn perform(
    run: Rc<Run>,
    stage: Stage,
    test: usize,
    phase: Phase,
    cast: Rc<Cast>,
) -> End {
    let client = &cast.client;
    let (title, use_db) = (&run.spec(test).title, run.spec(test).use_db);
    let on_client = |kind: &str| {
        run.event(Severity::Info, kind)
            .on(&*client.address, "TS")
            .detail("Workload", title)
    };
    if phase == Phase::Start {
        run.trace(on_client("TestStarting"));
    }
    let mut waiting: Vec<(usize, Ended)> = Vec::new();
    let mut timeout_seconds = 0.0_f64;
    for (workload, actor) in &cast.actors {
        let timeout = match actor {
            Actor::External(external) => {
                let (promise, resolved) = run.promises.make(pack_owner(client.number, *workload));
                run.begin(client.number, *workload, Waits::OnTheBorder);
                run.call(client.number, *workload);
                let external = external.borrow();
                let database = stage.lend(client, *workload, phase, use_db);
                external.begin(phase, database, promise);
                let stage = stage.clone();
                let ended = async move {
                    let resolution = resolved.await;
                    stage.take_back(database);
                    resolution
                };
                waiting.push((*workload, Box::pin(ended)));
                (phase == Phase::Check).then(|| external.check_timeout())
            }
            Actor::Cycle(cycle) => {
                run.begin(client.number, *workload, Waits::Elsewhere);
                let performed = cycle.clone().perform(phase);
                let kernel = &run.kernel;
                let task = kernel.spawn(client.process, Priority::DefaultDelay, performed);
                let ended = async move { Resolution::Sent(task.await) };
                waiting.push((*workload, Box::pin(ended)));
                Some(cycle::CHECK_TIMEOUT_SECONDS)
            }
        };
        timeout_seconds = timeout_seconds.max(timeout.unwrap_or(0.0));
    }
    let all = async {
        let mut end = End::Passed;
        for (workload, resolved) in waiting {
            let resolution = resolved.await;
            run.end(client.number, workload);
            match judge(&run, phase, client, workload, resolution) {
                End::Passed => {}
                End::Failed if matches!(end, End::Broken) => {}
                other => end = other,
            }
        }
        end
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
                    FailureKind::CheckTimedOut,
                    &format!("no answer within {timeout_seconds} simulated seconds, which is what the workload allows itself"),
                );
                return End::Broken;
            }
        }
    } else {
        all.await
    };
    let finished = match phase {
        Phase::Setup => Some(on_client("TestSetupComplete")),
        Phase::Start => {
            Some(on_client("TestComplete").detail("OK", u8::from(matches!(end, End::Passed))))
        }
        _ => None,
    };
    if let Some(finished) = finished {
        run.trace(finished);
    }
    end
}

/// What the end of a promise means in a phase.
fn judge(run: &Run, phase: Phase, client: &Client, workload: usize, resolution: Resolution) -> End {
    match (resolution, phase) {
        (Resolution::Sent(true), _) => End::Passed,
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
            End::Failed
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
            End::Failed
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
            End::Broken
        }
    }
}
