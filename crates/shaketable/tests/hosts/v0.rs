//! A host of FoundationDB 7.4.0 to 7.4.5 gets a message and an exit code, not a crash.

use crate::bench::{Host, probe};

#[test]
fn a_host_of_the_older_abi_is_refused_with_one_sentence() {
    let host = Host::compile("host_v0.c", "host_v0", &[]);
    let run = host.run(&probe("fdb-7_4"), &["Walk"]);
    assert_eq!(run.code, Some(1), "{run}");
    assert_eq!(run.stdout, "", "{run}");
    assert_eq!(run.stderr.lines().count(), 1, "{run}");
    run.expect_stderr("speaks the C ABI of FoundationDB 7.4.6 and later")
        .expect_stderr("FoundationDB 7.4.0 to 7.4.5");
}
