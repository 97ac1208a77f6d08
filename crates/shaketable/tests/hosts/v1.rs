//! The C ABI version 1, phase by phase, in good times and bad.

use crate::bench::{Host, Run, example, is_under_valgrind, probe, probe_that_aborts};
use std::path::PathBuf;
use std::sync::LazyLock;

static HOST: LazyLock<Host> = LazyLock::new(|| Host::compile("host_v1.c", "host_v1", &[]));
static PROBE: LazyLock<PathBuf> = LazyLock::new(|| probe("fdb-7_4"));

fn run(arguments: &[&str]) -> Run {
    HOST.run(&PROBE, arguments)
}

#[test]
fn a_workload_walks_through_all_phases_on_every_client() {
    let run = run(&["Walk", "--clients", "3"]);
    run.expect_sound().refuse("trace error").refuse("deadlock");
    for client in 0..3 {
        for phase in ["setup", "start", "check"] {
            run.expect_line(&format!("client {client} {phase} -> true"));
        }
        run.expect_line(&format!("client {client} created, api version 1"))
            .expect_line(&format!(
                "client {client} trace info Note | Client={client} | Clients=3 | Shared=4711 | \
                 Process=true | Version=1 | Random=true"
            ))
            .expect_line(&format!("client {client} trace info Note | Slept=2"))
            .expect_line(&format!(
                "client {client} trace info Note | Late=true | At=3"
            ))
            .expect_line(&format!("client {client} trace info Note | Early=42"))
            .expect_line(&format!(
                "client {client} trace info Note | Joined=[1, 2, 3]"
            ))
            .expect_line(&format!("client {client} trace info Note | Selected=quick"))
            .expect_line(&format!(
                "client {client} trace info Note | Current=Some({client})"
            ))
            .expect_line(&format!("client {client} reserve 2"))
            .expect_line(&format!("client {client} metric sum phases %.3g 3"))
            .expect_line(&format!("client {client} metric avg client %.3g {client}"))
            .expect_line(&format!("client {client} trace info Dropped | Phases=3"))
            .expect_line(&format!("client {client} freed"));
    }
    // What the phases of the three clients return is in their order: none waits for a callback
    // that will not come.
    let starts = run.lines("start ->");
    assert_eq!(starts.len(), 3, "{run}");
}

#[test]
fn assertions_are_told_by_any_library_to_any_host() {
    let run = run(&["Assert", "--option", "shaketableBuggify=on"]);
    run.expect_sound()
        .refuse("left option")
        .expect_line_with(&[
            "trace error WorkloadAssertionFailed",
            "Kind=always",
            "Message=small",
            "Number=2",
        ])
        .expect_line_with(&[
            "trace info WorkloadAssertion |",
            "Message=small",
            "Held=2 | Broken=1",
        ])
        .expect_line_with(&["Kind=sometimes | Message=seven", "Held=0 | Broken=3"])
        .expect_line_with(&["Kind=reachable | Message=nobody", "Held=0 | Broken=0"])
        .expect_line("client 0 trace info Note | Decided=true");
}

#[test]
fn a_client_dies_and_lives_again_in_any_host() {
    let run = run(&[
        "Walk",
        "--clients",
        "2",
        "--option",
        "shaketableCrashAt=1:1",
    ]);
    run.expect_sound()
        .refuse("left option")
        .refuse("trace error")
        .refuse("client 0 trace info WorkloadCrashed")
        .expect_line_with(&[
            "client 1 trace info WorkloadCrashed",
            "Phase=start",
            "At=1:1",
        ])
        .expect_line("client 1 start -> true")
        .expect_line("client 1 check -> true");
}

#[test]
fn the_example_noop_runs_in_any_host() {
    let run = HOST.run(
        &example("noop"),
        &["Noop", "--clients", "2", "--option", "greeting=hello"],
    );
    run.expect_sound()
        .refuse("trace error")
        .refuse("left option")
        .expect_line(
            "client 1 trace info NoopPhase | Stage=check | Greeting=hello | Client=1 | Clients=2",
        )
        .expect_line("client 1 check -> true")
        .expect_line("client 1 metric sum phases %.3g 3");
}

#[test]
fn a_library_with_one_workload_needs_no_name() {
    let run = HOST.run(&example("shared"), &["", "--option", "readers=2"]);
    // This host has no transactions, and returns an error that the phase passes on.
    run.expect_sound()
        .refuse("left option")
        .expect_line("client 0 setup -> true")
        .expect_line("transaction on a live database")
        .expect_line_with(&["trace error WorkloadPhaseFailed", "Phase=start"])
        .expect_line("client 0 start -> false");
}

#[test]
fn the_check_timeout_is_known_while_the_check_runs() {
    let run = run(&["SlowCheck"]);
    run.expect_sound().expect_line("client 0 check timeout 602");
    let position = |text: &str| run.stdout.lines().position(|line| line == text);
    assert!(
        position("client 0 check timeout 602") < position("client 0 check -> true"),
        "{run}"
    );
}

#[test]
fn a_check_timeout_that_is_no_number_is_an_error_and_the_default() {
    run(&["BadCheckTimeout"])
        .expect_sound()
        .expect_line("client 0 check timeout 3000")
        .expect_line_with(&["trace error WorkloadCheckTimeoutInvalid", "Seconds=NaN"]);
}

#[test]
fn the_library_stays_mapped_after_dlclose() {
    run(&["Walk"]).expect_line("library mapped after dlclose");
}

#[test]
fn options_are_typed_consumed_and_named_when_they_are_wrong() {
    let options = [
        "number=42",
        "invalid=many",
        "tried=1.5",
        "text=hello world",
        "unread=1",
    ];
    let mut arguments = vec!["Options"];
    for option in options {
        arguments.extend(["--option", option]);
    }
    let run = run(&arguments);
    run.expect_sound()
        .expect_line(
            "client 0 trace error WorkloadOptionInvalid | Option=invalid | Value=many | Expected=u32",
        )
        .expect_line(
            "client 0 trace info Options | Number=Some(42) | Absent=None | Invalid=None | Again=None \
             | Text=Some(\"hello world\") | Tried=option `tried` of the test file: expected u32, \
             found `1.5`: invalid digit found in string",
        )
        .expect_line("client 0 left option unread=1");
}

#[test]
fn hostile_events_reach_the_host_in_a_form_it_can_write() {
    let run = run(&["Trace"]);
    run.expect_sound()
        .expect_line("client 0 trace info UnnamedWorkloadEvent | Key=value")
        .expect_line("client 0 trace info Nul\\x00Name | Nul\\x00key=nul\\x00value")
        .expect_line("client 0 trace info Empty")
        .expect_line("client 0 trace debug NoDetails");
    let many = run.lines("warn-always Many");
    assert!(many.len() > 1, "{run}");
    assert!(
        many[0].ends_with(&format!("Part=1 of {}", many.len())),
        "{run}"
    );
}

#[test]
fn an_error_in_setup_or_start_fails_the_phase_with_its_causes() {
    for (workload, phase) in [
        ("FailSetup", "setup"),
        ("FailStart", "start"),
        ("FailCheck", "check"),
    ] {
        run(&[workload])
            .expect_sound()
            .expect_line(&format!("client 0 {phase} -> false"))
            .expect_line(&format!(
                "client 0 trace error WorkloadPhaseFailed | Phase={phase} | Client=0 | Error=the \
                 balance is no number | Cause1=invalid digit found in string"
            ));
    }
}

#[test]
fn after_an_error_the_later_phases_still_run() {
    run(&["FailSetup"])
        .expect_line("client 0 setup -> false")
        .expect_line("client 0 start -> true")
        .expect_line("client 0 check -> true");
}

#[test]
fn a_panic_is_an_event_with_message_place_and_frames_and_ends_the_phase() {
    let run = run(&["PanicStart"]);
    run.expect_sound()
        .expect_line_with(&[
            "trace error WorkloadPanic | Phase=start | Client=0 | Message=index out of bounds",
            "Place=",
            "probe/src/lib.rs:",
            "Frame0=",
            "probe::Probe",
        ])
        .expect_line("client 0 start -> false")
        .expect_line_with(&["trace error WorkloadPhaseSkipped", "Phase=check"])
        .expect_line("client 0 check -> false");
    assert_eq!(run.lines("WorkloadPanic").len(), 1, "{run}");
    run.refuse("WorkloadPhaseStuck");
    let position = |text: &str| run.stdout.lines().position(|line| line.contains(text));
    assert!(
        position("WorkloadPanic") < position("start -> false"),
        "{run}"
    );
}

#[test]
fn a_panic_before_the_first_wait_is_the_same() {
    run(&["PanicSetup"])
        .expect_sound()
        .expect_line_with(&[
            "trace error WorkloadPanic",
            "Phase=setup",
            "setup is broken",
        ])
        .refuse("WorkloadPhaseStuck")
        .expect_line("client 0 setup -> false");
}

#[test]
fn a_panic_in_a_detached_task_ends_the_phase_at_once() {
    let run = run(&["PanicInDetachedTask"]);
    run.expect_sound()
        .expect_line_with(&["trace error WorkloadPanic", "nobody is watching"])
        .expect_line("client 0 start -> false")
        .refuse("deadlock")
        .refuse("WorkloadPhaseStuck");
}

#[test]
fn a_panic_in_a_joined_task_is_an_event_and_an_error_for_the_joiner() {
    run(&["PanicInJoinedTask"])
        .expect_sound()
        .expect_line_with(&["trace error WorkloadPanic", "somebody is watching"])
        .expect_line_with(&["trace info Note", "Join=the task panicked", "Panic=true"])
        .expect_line("client 0 start -> true");
}

#[test]
fn a_panic_in_a_library_that_aborts_is_an_event_before_the_end() {
    let run = HOST.run(&probe_that_aborts(), &["PanicStart"]);
    assert_ne!(run.code, Some(0), "{run}");
    run.expect_line_with(&[
        "trace error WorkloadPanic | Phase=start | Client=0 | Message=index out of bounds",
        "probe/src/lib.rs:",
    ])
    .refuse("start ->");
}

#[test]
fn panics_outside_the_phases_do_not_reach_the_host() {
    run(&["PanicFactory"])
        .expect_sound()
        .expect_line_with(&[
            "trace error WorkloadPanic",
            "Phase=factory",
            "no such workload",
        ])
        .expect_line("client 0 setup -> false");
    run(&["PanicMetrics"])
        .expect_sound()
        .expect_line_with(&["trace error WorkloadPanic", "Phase=get_metrics"]);
    run(&["PanicDrop"]).expect_sound().expect_line_with(&[
        "trace error WorkloadPanic",
        "Phase=free",
        "a bad end",
    ]);
}

#[test]
fn a_task_that_spins_ends_the_phase_with_an_error() {
    run(&["Spin"])
        .expect_sound()
        .expect_line_with(&[
            "trace error WorkloadTaskSpinning",
            "Phase=start",
            "polled 1000 times",
        ])
        .expect_line("client 0 start -> false");
}

#[test]
fn a_phase_that_nothing_can_wake_ends_with_an_error_instead_of_hanging() {
    run(&["Stuck"])
        .expect_sound()
        .expect_line_with(&["trace error WorkloadPhaseStuck", "Phase=start"])
        .expect_line("client 0 start -> false")
        .refuse("deadlock");
}

#[test]
fn a_phase_that_waits_for_itself_is_seen_by_the_host_and_can_be_freed() {
    run(&["DeadLock"])
        .expect_sound()
        .expect_line("deadlock: 1 clients never finished start")
        .expect_line_with(&["trace error WorkloadFreedInPhase", "Phase=start"])
        .expect_line("client 0 start -> false");
}

#[test]
fn tasks_left_at_the_end_of_a_phase_are_dropped_with_what_they_hold() {
    run(&["LeaveTask"])
        .expect_sound()
        .expect_line_with(&["trace warn WorkloadTasksDropped", "Phase=start", "Tasks=1"])
        .expect_line("client 0 start -> true")
        .expect_line("client 0 check -> true");
}

#[test]
fn a_database_kept_across_phases_is_an_error_and_is_never_used() {
    run(&["KeepDatabase", "--clients", "2"])
        .expect_sound()
        .expect_line_with(&[
            "client 1 trace error WorkloadDatabaseKept",
            "Phase=setup",
            "Handles=1",
        ])
        .expect_line("client 1 setup -> false")
        .expect_line_with(&["trace error WorkloadPhaseSkipped", "Phase=start"])
        .expect_line("client 1 start -> false")
        .refuse("transaction on");
}

#[test]
fn a_weak_handle_on_a_database_does_no_harm() {
    run(&["KeepWeakDatabase"]).expect_sound().refuse("Kept");
}

#[test]
fn a_wake_up_from_another_thread_is_an_error_and_still_arrives() {
    run(&["ForeignWake"])
        .expect_sound()
        .expect_line_with(&["trace error WorkloadForeignWake", "from thread `stranger`"])
        .expect_line("client 0 trace info Note | Answer=7")
        .expect_line("client 0 start -> true")
        .expect_stderr("was woken from thread `stranger`");
}

#[test]
fn a_context_on_another_thread_refuses_and_says_so() {
    run(&["ContextElsewhere", "--clients", "2"])
        .expect_sound()
        .expect_line("client 1 trace info Note | Random=0 | Clients=2")
        .expect_stderr("WorkloadContext::rnd of workload `ContextElsewhere`, client 1, was called from another thread")
        .expect_stderr("WorkloadContext::set_process_id of workload `ContextElsewhere`, client 1, was given another process than its own");
}

#[test]
fn a_context_that_outlives_its_workload_is_dead_and_says_so() {
    run(&["KeepContext", "--option", "text=hello"])
        .expect_sound()
        .expect_line(
            "after free: alive false, client 0 of 1, now 0, rnd 0, process ProcessId(0), option None, delay \
             Some(Err(1101))",
        )
        .expect_stderr("WorkloadContext::now of workload `KeepContext`, client 0, was called after the host had freed");
}

#[test]
fn a_stderr_that_takes_nothing_does_not_end_the_run() {
    for workload in ["KeepContext", "KeepMetrics", "ForeignWake"] {
        HOST.run_with_full_stderr(&PROBE, &[workload])
            .expect_sound();
    }
}

#[test]
fn metrics_that_outlive_get_metrics_do_nothing() {
    run(&["KeepMetrics"])
        .expect_sound()
        .expect_stderr("Metrics::push was called after get_metrics had returned");
}

#[test]
fn a_metric_cannot_make_the_host_print_something_else() {
    run(&["BadMetrics"])
        .expect_sound()
        .expect_line("client 0 metric sum unnamed %.3g 1")
        .expect_line("client 0 metric sum a\\x00b %.3g 1")
        .expect_line("client 0 metric sum string %.3g 1")
        .expect_line("client 0 metric sum two %.3g 1")
        .expect_line("client 0 metric sum good %.1f ms 1.0 ms")
        .expect_line("client 0 metric sum wide %.3g 1")
        .expect_line("client 0 reserve 1000")
        .expect_line_with(&[
            "trace error WorkloadMetricFormatInvalid",
            "Metric=string",
            "Format=%s",
        ]);
}

#[test]
fn a_name_the_factory_does_not_know_is_an_error_with_the_name() {
    run(&["Unknown", "--clients", "2"])
        .expect_sound()
        .expect_line_with(&[
            "client 1 trace error WorkloadUnknown",
            "WorkloadName=`Unknown`",
        ])
        .expect_line("client 0 setup -> false")
        .expect_line("client 1 check -> false");
}

#[test]
fn null_pointers_of_the_host_are_errors_and_not_crashes() {
    run(&["Walk", "--break", "null-name"])
        .expect_sound()
        .expect_line_with(&["trace error WorkloadHostError", "null workload name"])
        .expect_line("client 0 setup -> false");
    run(&["Walk", "--break", "null-database"])
        .expect_sound()
        .expect_line_with(&[
            "trace error WorkloadHostError",
            "Phase=setup",
            "null database",
        ])
        .expect_line("client 0 start -> false");
    run(&["Walk", "--break", "null-promise"])
        .expect_sound()
        .expect_line_with(&[
            "trace error WorkloadHostError",
            "broken promise: its table is null",
        ]);
    run(&["Walk", "--break", "null-metrics"])
        .expect_sound()
        .expect_line_with(&[
            "trace error WorkloadHostError",
            "list of metrics: its table is null",
        ]);
    run(&["Walk", "--break", "null-context-table"])
        .expect_sound()
        .expect_stderr("the host passed a broken context: its table is null")
        .expect_line("client 0 setup -> false");
    run(&["Walk", "--break", "null-now"])
        .expect_sound()
        .expect_stderr("the host passed a broken context: its table has no `now`");
    run(&["Delay", "--break", "null-delay"])
        .expect_sound()
        .expect_line("client 0 trace info Note | Outcome=Err(2108)");
}

#[test]
fn a_host_that_mixes_up_the_order_is_told() {
    run(&["Sleep", "--break", "twice"])
        .expect_sound()
        .expect_line_with(&[
            "trace error WorkloadHostError",
            "before the last one had ended",
        ])
        .expect_line("client 0 again -> false")
        .expect_line("client 0 start -> true");
    run(&["Sleep", "--break", "metrics-during-phase"])
        .expect_sound()
        .expect_line_with(&[
            "trace error WorkloadHostError",
            "Phase=get_metrics",
            "while a phase was running",
        ])
        .expect_line("client 0 start -> true");
}

#[test]
fn a_workload_freed_in_the_middle_of_a_phase_is_dropped_after_the_phase() {
    let run = run(&["Sleep", "--break", "free-in-phase"]);
    run.expect_sound().expect_line("client 0 start -> false");
    let position = |text: &str| run.stdout.lines().position(|line| line.contains(text));
    assert!(
        position("start -> false") < position("trace info Dropped"),
        "{run}"
    );
    assert!(position("trace info Dropped").is_some(), "{run}");
}

#[test]
fn whatever_a_workload_calls_its_host_survives() {
    if is_under_valgrind() {
        // In one process: valgrind takes longer to start than a host lives.
        let run = run(&["Random", "--clients", "2", "--seeds", "100"]);
        run.expect_sound()
            .refuse("deadlock")
            .expect_lines("end", 100);
        for client in 0..2 {
            run.expect_lines(&format!("client {client} start -> true"), 100)
                .expect_lines(&format!("client {client} freed"), 100);
        }
        return;
    }
    for seed in 0..100 {
        let seed = format!("seed={seed}");
        let run = run(&["Random", "--clients", "2", "--option", &seed]);
        run.expect_sound().refuse("deadlock");
        for client in 0..2 {
            run.expect_line(&format!("client {client} start -> true"))
                .expect_line(&format!("client {client} freed"));
        }
    }
}
