//! A library that answers for time and randomness itself, in a host that does not: as in fdbserver.

use crate::bench::{Host, Run, probe_that_is_hermetic};
use std::path::PathBuf;
use std::sync::LazyLock;

static HOST: LazyLock<Host> = LazyLock::new(|| Host::compile("host_v1.c", "host_hermetic", &[]));
static PROBE: LazyLock<PathBuf> = LazyLock::new(probe_that_is_hermetic);

fn run(arguments: &[&str]) -> Run {
    HOST.run(&PROBE, arguments)
}

#[test]
fn clocks_show_simulated_time() {
    let run = run(&["Machine", "--clients", "2"]);
    run.expect_sound().refuse("trace error");
    for client in 0..2 {
        run.expect_line(&format!(
            "client {client} trace info Note | Instant=3600 | Calendar=3600"
        ));
    }
}

#[test]
fn the_order_of_a_hash_map_and_the_process_id_are_the_same_in_every_run() {
    let first = run(&["Machine", "--clients", "2"]);
    first.expect_line_with(&["Note", "Order={", "Pid=1"]);
    assert_eq!(first.stdout, run(&["Machine", "--clients", "2"]).stdout);
}

#[test]
fn what_no_seed_controls_is_done_and_noted() {
    let run = run(&["Machine"]);
    run.expect_line_with(&["Note", "Joined=true", "Bound=true"])
        .expect_line_with(&["WorkloadUncontrolled", "Act=started a thread"])
        .expect_line_with(&["WorkloadUncontrolled", "Act=opened a socket"]);
}
