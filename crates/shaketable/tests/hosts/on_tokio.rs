//! Workloads on tokio, in a host that knows nothing of it: as fdbserver would run them.

use crate::bench::{Host, Run, probe_on_tokio};
use std::path::PathBuf;
use std::sync::LazyLock;

static HOST: LazyLock<Host> = LazyLock::new(|| Host::compile("host_v1.c", "host_tokio", &[]));
static PROBE: LazyLock<PathBuf> = LazyLock::new(probe_on_tokio);

fn run(arguments: &[&str]) -> Run {
    HOST.run(&PROBE, arguments)
}

#[test]
fn what_tokio_offers_works_on_every_client_in_simulated_time() {
    let run = run(&["TokioWalk", "--clients", "3"]);
    run.expect_sound().refuse("trace error").refuse("deadlock");
    for client in 0..3 {
        for line in [
            "Slept=3600 | Instant=3600 | Calendar=3600",
            "Late=true",
            "Joined=[3, 2, 1]",
            "Local=7",
            "Echo=through a pipe",
            "Selected=quick",
        ] {
            run.expect_line(&format!("client {client} trace info Note | {line}"));
        }
        run.expect_line(&format!("client {client} start -> true"));
    }
}

#[test]
fn tasks_of_both_kinds_mix() {
    let run = run(&["TokioMix", "--clients", "2"]);
    run.expect_sound().refuse("trace error").refuse("deadlock");
    for client in 0..2 {
        for line in [
            "Shared=(7, 7, 7)",
            &format!("Inside=(Some({client}), true)"),
            "Outside=true",
        ] {
            run.expect_line(&format!("client {client} trace info Note | {line}"));
        }
    }
}

#[test]
fn chance_comes_from_the_seed() {
    let first = run(&["TokioChance", "--clients", "2"]);
    first.expect_sound();
    assert_eq!(first.stdout, run(&["TokioChance", "--clients", "2"]).stdout);
}

#[test]
fn a_panic_of_a_task_is_reported_even_if_its_handle_is_gone() {
    let run = run(&["TokioPanic"]);
    run.expect_sound()
        .expect_line_with(&[
            "trace error WorkloadPanic",
            "Phase=start",
            "Client=0",
            "Message=a task is broken",
            "on_tokio.rs",
        ])
        .expect_line("client 0 trace info Note | After=panic");
    assert_eq!(run.lines("WorkloadPanic").len(), 1, "{run}");
}

#[test]
fn a_panic_that_the_code_handles_is_not_reported() {
    let run = run(&["TokioCaughtPanic"]);
    run.expect_sound()
        .refuse("trace error")
        .expect_line("client 0 trace info Note | Caught=true");
}

#[test]
fn a_panic_of_our_task_inside_a_task_of_tokio_is_reported_once() {
    let run = run(&["TokioOwnPanic"]);
    run.expect_sound();
    assert_eq!(run.lines("WorkloadPanic").len(), 1, "{run}");
}

#[test]
fn tasks_that_outlive_the_phase_are_dropped_and_counted() {
    let run = run(&["TokioLeftOver"]);
    run.expect_sound()
        .refuse("trace error")
        .expect_line_with(&["trace warn WorkloadTasksDropped", "Tasks=4"])
        .expect_line("client 0 start -> true");
}

#[test]
fn an_aborted_task_is_cancelled() {
    let run = run(&["TokioAbort"]);
    run.expect_sound()
        .refuse("trace error")
        .expect_line("client 0 trace info Note | Cancelled=true");
}

#[test]
fn tasks_that_spin_are_stopped() {
    for workload in ["TokioYields", "TokioWakes", "TokioPingPong"] {
        let run = run(&[workload]);
        run.expect_sound()
            .expect_line_with(&["trace error WorkloadTaskSpinning", "Phase=start"])
            .expect_line("client 0 start -> false")
            .expect_line_with(&["trace error WorkloadPhaseSkipped", "Phase=check"]);
    }
}

#[test]
fn a_task_that_waits_for_nothing_is_the_hosts_deadlock() {
    let run = run(&["TokioDeadlock"]);
    run.expect_sound()
        .expect_line("deadlock: 1 clients never finished start")
        .expect_line_with(&["trace error WorkloadFreedInPhase"]);
}

#[test]
fn what_needs_a_thread_panics_and_says_what_to_do() {
    for workload in ["TokioSpawnBlocking", "TokioFile"] {
        let run = run(&[workload]);
        run.expect_sound().expect_line_with(&[
            "trace error WorkloadPanic",
            "Message=spawn_blocking, tokio::fs and look-ups of host names start a thread",
            "call the function itself",
            "Place=./tests/workloads/probe/src/on_tokio.rs:",
        ]);
    }
    let run = run(&["TokioBlockInPlace"]);
    run.expect_sound()
        .expect_line_with(&["trace error WorkloadPanic", "a simulation has one thread"]);
}

#[test]
fn a_runtime_of_its_own_is_refused() {
    let run = run(&["TokioRuntime"]);
    run.expect_sound().expect_line_with(&[
        "trace error WorkloadPanic",
        "Cannot start a runtime from within a runtime",
        "Message=a phase runs inside a tokio runtime, so await the future",
    ]);
}

#[test]
fn what_is_asked_of_the_machine_is_refused_with_the_place() {
    for (workload, what, instead) in [
        ("TokioSocket", "sockets and pipes", "tokio::io::duplex"),
        ("TokioSignal", "signals", "the receiver of a channel"),
        ("TokioProcess", "other programs", "behind a trait"),
        ("TokioThreads", "a runtime of its own", "await the future"),
    ] {
        let run = run(&[workload]);
        run.expect_sound()
            .expect_line_with(&[
                "trace error WorkloadNotSimulated",
                what,
                instead,
                "(at ./tests/workloads/probe/src/on_tokio.rs:",
            ])
            .expect_line("client 0 trace info Note | Refused=true");
    }
}

#[test]
fn a_handle_that_outlives_its_phase_runs_nothing() {
    let run = run(&["TokioLeak"]);
    run.expect_sound()
        .refuse("trace error")
        .expect_line("client 0 trace info Note | Cancelled=true");
}

#[test]
fn outside_a_phase_there_is_no_runtime() {
    let run = run(&["TokioFactory"]);
    run.expect_sound().expect_line_with(&[
        "trace error WorkloadPanic",
        "Message=only setup, start and check have a tokio runtime: there is no reactor",
    ]);
}
