//! The tester: one run of a test file with one seed.
//!
//! [`simulate`] builds a universe from the seed, boots a cluster in it, walks the clients through
//! the phases of each test ([`phases`]), and drives time until that is done, or until it is clear
//! that it never will be. The order of calls, the barriers between phases and the waits are those
//! of fdbserver.
//!
//! * [`run`]: what the parts of one run share: its log, its failures, where it is.
//! * [`conditions`]: what holds for a run from beginning to end, and [`swarm`], what the seed draws
//!   about it; [`progress`]: where it is.
//! * [`phases`]: the order of calls; [`client_workloads`]: the workloads of one client.
//! * [`cycle`]: the one workload that needs no library.
//! * [`client_host`]: what the host does for one workload on one client.
//! * [`testbed`]: the cluster, and the databases that are lent to workloads.
//! * [`deaths`]: the deaths of clients.
//! * [`liveness`]: the moment from which on only a minority is broken, and the rest must get on.
//! * [`metrics`]: numbers of all clients become one.
//! * [`sites`]: what the assertions in the code under test have counted.
//! * [`waits`]: what each client waits for, and whether the clients make progress.
//! * [`record`]: the record of every transaction.
//! * [`recorder`]: what happens in the kernel becomes trace events.

mod client_host;
mod client_workloads;
mod conditions;
mod cycle;
mod deaths;
mod liveness;
mod metrics;
mod phases;
mod progress;
mod record;
mod recorder;
mod run;
mod swarm;
mod testbed;
mod waits;

use crate::hermetic;
use crate::isolation;
use crate::isolation::beacon::Beacon;
use crate::plan::{Plan, Recording, Settings};
use crate::trace::{Event, Severity};
use crate::verdict::{FailureKind, Outcome};
pub(crate) use cycle::{CycleOptions, NAME as CYCLE};
use run::Run;
pub(crate) use run::current_client;
use shaketable_kernel::{Kernel, Priority, Time};
use std::rc::Rc;

/// Simulates one seed.
// Never inlined: conformance/instructions.py counts what happens between its call and its return.
#[inline(never)]
pub fn simulate(plan: &Plan, settings: &Settings, seed: u64, recording: &Recording) -> Outcome {
    play(plan, settings, seed, recording, |_| {})
}

/// The same; `begin` is called before anything is drawn.
pub(crate) fn play(
    plan: &Plan,
    settings: &Settings,
    seed: u64,
    recording: &Recording,
    begin: impl FnOnce(&Kernel),
) -> Outcome {
    let hermetic = hermetic::Guard::enter(seed);
    let kernel = Kernel::simulation(seed);
    if let Some(case) = &plan.file.case {
        kernel.set_overrides(&case.overrides());
    }
    if *recording == Recording::Decisions || recording.record().is_some() {
        kernel.list_decisions();
    }
    begin(&kernel);
    let run = Run::new(plan, settings, seed, &kernel, recording);
    let recorder = recorder::install(&run, recording);
    if let Recording::Trace { path, format, .. } = recording
        && let Err(error) = hermetic.pause(|| run.log.record_to(path, *format))
    {
        run.fail_host(format!(
            "cannot write the trace {}: {error}",
            path.display()
        ));
    }
    run::set_current(Some(&run));

    let (mut recorded, mut counts) = (None, None);
    match testbed::Testbed::boot(&run) {
        Ok(testbed) => {
            if matches!(recording, Recording::Trace { .. }) {
                testbed.observe_errors(&run, &recorder);
            }
            match &run.notes {
                Some(notes) => testbed.record(notes),
                None if matches!(recording, Recording::Trace { .. } | Recording::Places) => {
                    testbed.note_call_sites();
                }
                None => {}
            }
            if settings.coverage {
                testbed.count_outcomes();
            }
            if settings.moments {
                testbed.keep_milestones();
            }
            let tests = phases::run_tests(run.clone(), testbed.clone());
            let tests = kernel.spawn(testbed.test_system, Priority::DefaultDelay, tests);
            drive(&run, &testbed);
            Beacon::note_end();
            testbed.collect_breaches(&run);
            testbed.compare_replicas(&run);
            run.note_buggified(testbed.cluster.as_ref().map(|(cluster, _)| cluster));
            run.add_errors(testbed.errors());
            recorded = testbed.take_record();
            counts = settings.coverage.then(|| testbed.take_counts());
            // The order matters: the code under test may still be called while tasks and futures
            // are dropped.
            drop(tests);
            testbed.close();
        }
        Err(error) => run.fail_host(error.to_string()),
    }
    run.check_case();
    run.note_end();
    if let Err(error) = run.log.finish() {
        run.fail_host(format!("cannot write the trace: {error}"));
    }
    let mut outcome = run.outcome(&recorder, recording);
    outcome.counts = counts.map(Box::new);
    // Looking up lines opens files, which must not count as done by the code under test.
    if let Some(notes) = &run.notes {
        let file = plan.file.path.display().to_string();
        let chances = (run.decisions(true), run.streams());
        let recorded = recorded.unwrap_or_default();
        hermetic.pause(|| notes.conclude(recorded, chances, &mut outcome, file));
    }
    outcome.waits = hermetic.pause(|| waits::with_lines(run.findings.waits.take()));
    // The code under test was cut off above: all that is left is the simulator's memory.
    if !isolation::ends_with_its_seed() {
        kernel.shutdown();
    }
    let instances = run.instances.take();
    drop(instances);
    run::set_current(None);
    drop(hermetic);
    outcome
}

/// After how many moments in which no task ran a run looks again whether it was asked to end.
const MOMENTS_MAX: u32 = 16;

/// Runs what is ready, then lets time pass, until the tests have ended or never will.
fn drive(run: &Rc<Run>, testbed: &testbed::Testbed) {
    let kernel = &run.kernel;
    let limit = Time::from_secs(run.given.limit_seconds);
    let stalls = waits::StallWatch::default();
    // A record wants to look at every moment.
    let moments = if run.notes.is_some() { 1 } else { MOMENTS_MAX };
    let note_time = |now: Time| {
        hermetic::set_now(now.as_nanos());
        Beacon::set_time(now);
    };
    loop {
        let before = kernel.events();
        if let Err(spinning) = kernel.run_ready() {
            run.fail_spinning(&spinning);
            return;
        }
        let tasks_ran = kernel.events() != before;
        if let Some(notes) = &run.notes {
            let cluster = testbed.cluster.as_ref();
            notes.look_at_roles(kernel, cluster.map(|(cluster, _)| cluster));
        }
        if tasks_ran {
            run.collect_misuse();
            if run.is_over() {
                return;
            }
        }
        if tasks_ran && run.progress.waits_for_libraries() && testbed.pending_operations() == 0 {
            run.fail_pending(
                testbed,
                FailureKind::Deadlock,
                "the phase is pending, and no future of the database and no delay is: nothing can wake the workload",
            );
            return;
        }
        if stalls.look(run, testbed) {
            return;
        }
        if isolation::is_asked_to_end() {
            run.fail_pending(testbed, FailureKind::Interrupted, "the run was interrupted");
            return;
        }
        if let Some(death) = run.notes.as_ref().and_then(record::Notes::death)
            && kernel
                .next_timer()
                .is_none_or(|next| next.as_nanos() >= death.nanos)
        {
            return;
        }
        if kernel.now() > limit {
            let message = format!(
                "the run took more than {} simulated seconds",
                run.given.limit_seconds
            );
            run.trace(
                Event::new(Severity::Error, kernel.now().as_secs(), "SetupAndRunError")
                    .detail("Error", "timed_out")
                    .detail("ErrorCode", 1004),
            );
            run.fail_pending(testbed, FailureKind::RunTimedOut, &message);
            return;
        }
        // While no task runs nothing changes for workloads.
        let until = limit.min(stalls.next_look());
        if !kernel.advance_until_ready(until, moments, note_time) {
            run.fail_pending(
                testbed,
                FailureKind::Deadlock,
                "nothing is left that could ever happen",
            );
            return;
        }
    }
}
