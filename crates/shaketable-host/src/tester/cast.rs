//! The workloads of one client: created together, called together, judged one by one.

use super::client::ClientHost;
use super::run::{Run, pack_owner, workload_name};
use super::stage::{Client, Stage};
use crate::library::instance::Workload;
use crate::library::promise::{Resolution, Resolved};
use crate::options::Options;
use crate::testfile::EXTERNAL;
use crate::trace::Severity;
use crate::verdict::{FailureKind, Phase};
use std::cell::RefCell;
use std::rc::Rc;

/// The workloads of one client.
pub(super) struct Cast {
    pub(super) client: Rc<Client>,
    pub(super) externals: Vec<(usize, Rc<RefCell<Workload>>)>,
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
    let mut externals = Vec::new();
    for (number, workload) in spec.workloads.iter().enumerate() {
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
                externals.push((number, instance));
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
                    workload_name(spec, number),
                    names.join(", ")
                ),
            );
            return None;
        }
    }
    Some(Rc::new(Cast {
        client: client.clone(),
        externals,
    }))
}

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
    let mut waiting: Vec<(usize, Resolved)> = Vec::new();
    let mut timeout_seconds = 0.0_f64;
    for (workload, external) in &cast.externals {
        let (promise, resolved) = run.promises.make(pack_owner(client.number, *workload));
        run.begin(client.number, *workload);
        run.call(client.number, *workload);
        let external = external.borrow();
        external.begin(phase, stage.lend(client, use_db), promise);
        if phase == Phase::Check {
            timeout_seconds = timeout_seconds.max(external.check_timeout());
        }
        waiting.push((*workload, resolved));
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
