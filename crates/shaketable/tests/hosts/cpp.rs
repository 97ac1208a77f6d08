//! The C++ ABI: the layout of 7.1 to 7.3, and that of 7.4.

use crate::bench::{Host, is_under_valgrind, probe};

#[test]
fn a_host_with_the_layout_of_7_3_drives_all_phases() {
    let host = Host::compile(
        "host_cpp.cpp",
        "host_cpp_730",
        &["-std=c++14", "-DLAYOUT=730"],
    );
    let library = probe("fdb-7_3");
    let run = host.run(&library, &["Options", "number=42", "text=hello"]);
    run.expect_sound()
        .expect_line("description Options")
        .expect_line_with(&[
            "trace info Options",
            "Number=Some(42)",
            "Text=Some(\"hello\")",
        ])
        .expect_line("client 0 setup -> true")
        .expect_line("client 0 start -> true")
        .expect_line("client 0 check -> true")
        .expect_line("client 0 check timeout 603")
        .expect_line("client 0 metric sum phases %.3g 3")
        .expect_line("client 0 metric avg client %.3g 0")
        .expect_line("client 0 trace info Dropped | Phases=3");

    let run = host.run(&library, &["Delay"]);
    run.expect_sound()
        .expect_line("client 0 trace info Note | Outcome=Err(2108)")
        .expect_line("client 0 start -> true");

    let run = host.run(&library, &["Sleep"]);
    run.expect_sound()
        .expect_line_with(&["trace error WorkloadPanic", "Phase=start", "7.4.6 or later"])
        .expect_line("client 0 start -> false");

    let run = host.run(&library, &["Unknown"]);
    run.expect_sound()
        .expect_line_with(&["trace error WorkloadUnknown", "`Unknown`"])
        .expect_line("client 0 setup -> false");
}

#[test]
fn a_host_with_the_layout_of_7_4_drives_all_phases_and_delays() {
    let host = Host::compile(
        "host_cpp.cpp",
        "host_cpp_740",
        &["-std=c++14", "-DLAYOUT=740"],
    );
    let run = host.run(&probe("fdb-7_4,cpp-abi"), &["Walk"]);
    run.expect_sound()
        .expect_line("client 0 delay 2")
        .expect_line("client 0 trace info Note | Slept=2")
        .expect_line("client 0 trace info Note | Joined=[1, 2, 3]")
        .expect_line("client 0 check -> true")
        .expect_line("client 0 metric sum phases %.3g 3");
}

#[test]
fn a_library_without_the_cpp_abi_says_so_to_a_host_that_asks_for_it() {
    let host = Host::compile(
        "host_cpp.cpp",
        "host_cpp_none",
        &["-std=c++14", "-DLAYOUT=740"],
    );
    let run = host.run(&probe("fdb-7_4"), &["Walk"]);
    assert_eq!(run.code, Some(1), "{run}");
    run.expect_stderr("say `useCAPI = true` in the test file");
}

#[test]
fn whatever_a_workload_calls_its_host_survives() {
    let host = Host::compile(
        "host_cpp.cpp",
        "host_cpp_random",
        &["-std=c++14", "-DLAYOUT=740"],
    );
    let library = probe("fdb-7_4,cpp-abi");
    if is_under_valgrind() {
        // In one process: valgrind takes longer to start than a host lives.
        host.run(&library, &["Random", "--seeds", "100"])
            .expect_sound()
            .expect_lines("end", 100)
            .expect_lines("client 0 start -> true", 100);
        return;
    }
    for seed in 0..100 {
        let run = host.run(&library, &["Random", &format!("seed={seed}")]);
        run.expect_sound().expect_line("client 0 start -> true");
    }
}
