//! A library that records what its clients see, in a host that knows nothing of it: as fdbserver
//! would run it.
//!
//! This host has no transactions; what becomes of those is tested where there are some, with
//! `examples/bugs`. Here the library's own functions must find those of another libfdb_c, and what it
//! writes must be lines of a record.

use crate::bench::{Host, probe_that_records};
use shaketable_record::seen::{Seen, from_text};

#[test]
fn phases_are_traced_and_the_run_is_the_same() {
    let host = Host::compile("host_v1.c", "host_record", &[]);
    let run = host.run(&probe_that_records(), &["Walk", "--clients", "2"]);
    // Its delays are futures, whose errors are asked for and which are destroyed.
    run.expect_sound()
        .refuse("trace error")
        .refuse("deadlock")
        .expect_line("client 1 trace info Note | Slept=2")
        .expect_line("client 1 check -> true");
    let texts = run.stdout.lines().filter_map(|line| {
        let (_, event) = line.split_once("trace info WorkloadRecord | ")?;
        Some(event.split_once("Text0=")?.1.to_owned())
    });
    let lines: Vec<_> = texts
        .map(|text| from_text(&text).unwrap_or_else(|| panic!("{text} is no line")))
        .collect();
    for client in 0..2 {
        let own = lines.iter().filter(|line| line.client == client);
        let phases: Vec<String> = own
            .map(|line| match &line.seen {
                Seen::Begun { phase, .. } => format!("{phase} begins"),
                Seen::Ended { phase, passed, .. } => format!("{phase} ends: {passed}"),
                other => panic!("{other:?} in a host without transactions"),
            })
            .collect();
        let expected = ["setup", "start", "check"]
            .map(|phase| [format!("{phase} begins"), format!("{phase} ends: true")]);
        assert_eq!(phases, expected.concat());
    }
}
