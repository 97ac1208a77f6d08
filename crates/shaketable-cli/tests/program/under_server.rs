//! From a library that records under a server to the explanation of what went wrong.
//!
//! The server is a C program that knows nothing of records: `host_v1.c` of the tests of
//! `shaketable`, with a libfdb_c whose third commit lands and is answered with 1021. It loads
//! `tests/workloads/probe`, built with the feature `record`, and writes a trace in fdbserver's
//! form.

use crate::bench::{text, turn};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The folder with the tests of `shaketable`.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../shaketable/tests")
}

#[track_caller]
fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let complaint = text(&output.stderr);
    assert!(output.status.success(), "{command:?} failed:\n{complaint}");
    output
}

/// The library, with its own copy: other tests build it with other features.
fn library(folder: &Path) -> PathBuf {
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let target = temporary.parent().unwrap();
    let _turn = turn();
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "--quiet", "--package", "shaketable-test-probe"])
        .args(["--package", "shaketable-alike"])
        .args(["--no-default-features", "--features", "fdb-7_4,record"])
        .arg("--target-dir")
        .arg(target)
        .arg("--manifest-path")
        .arg(sources().join("workloads/probe/Cargo.toml"));
    succeed(&mut cargo);
    let library = folder.join("libprobe.so");
    fs::copy(target.join("debug/libprobe.so"), &library).unwrap();
    library
}

/// The server, and beside it the library that it has its database from.
fn server(folder: &Path) -> PathBuf {
    let hosts = sources().join("hosts");
    let implemented = fs::read_to_string(hosts.join("fake_fdb.c")).unwrap();
    let symbols = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sys/symbols.csv");
    let symbols = fs::read_to_string(symbols).unwrap();
    let names = symbols.lines().filter_map(|line| line.split(',').next());
    let stubs: String = names
        .filter(|name| name.starts_with("fdb_") && !implemented.contains(&format!("{name}(")))
        .map(|name| format!("void {name}(void) {{ abort(); }}\n"))
        .collect();
    let stubs_file = folder.join("stubs.c");
    fs::write(&stubs_file, format!("#include <stdlib.h>\n{stubs}")).unwrap();
    let mut client = Command::new("cc");
    client
        .args(["-shared", "-fPIC", "-Wl,-soname,libfdb_c.so", "-o"])
        .arg(folder.join("libfdb_c.so"))
        .arg(hosts.join("fake_fdb.c"))
        .arg(stubs_file);
    succeed(&mut client);
    let program = folder.join("server");
    let mut host = Command::new("cc");
    host.arg("-o")
        .arg(&program)
        .arg(hosts.join("host_v1.c"))
        .arg(format!("-L{}", folder.display()))
        .args(["-lfdb_c", "-ldl"])
        .arg(format!("-Wl,-rpath,{}", folder.display()));
    succeed(&mut host);
    program
}

/// The number of the line of the probe that contains a text.
fn line_of(part: &str) -> usize {
    let source = fs::read_to_string(sources().join("workloads/probe/src/lib.rs")).unwrap();
    let index = source.lines().position(|line| line.contains(part));
    index.expect("the probe counts") + 1
}

#[test]
fn a_trace_of_a_library_that_records_is_explained_with_lines() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("under-server");
    fs::create_dir_all(&folder).unwrap();
    let (library, server) = (library(&folder), server(&folder));
    let trace = folder.join("trace.json");
    let mut server = Command::new(server);
    server.arg(library).args(["Count", "--trace"]).arg(&trace);
    // Cargo names the folders of other libraries of that name.
    let run = succeed(server.env("LD_LIBRARY_PATH", &folder));
    let told = text(&run.stdout);
    assert!(told.contains("client 0 check -> false"), "{told}");
    assert!(!told.contains("BUG"), "{told}");

    let calls = told.lines().find(|line| line.contains("WorkloadCalls"));
    let calls = calls.expect("the library counts what it is answered");
    assert!(calls.contains("Commit=0=5 1021=2"), "{calls}");

    let explain = |options: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_shaketable"))
            .arg("explain")
            .arg("--trace")
            .arg(&trace)
            .args(options)
            .env("NO_COLOR", "1")
            .output()
            .unwrap()
    };
    let explained = explain(&["--message-format", "json"]);
    let shown = text(&explained.stdout);
    assert_eq!(
        explained.status.code(),
        Some(100),
        "{shown}{}",
        text(&explained.stderr)
    );
    let explained: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(explained["header"]["seed"], 4);
    assert_eq!(
        explained["findings"][0]["name"],
        "retry-after-unknown-result"
    );

    let shown = text(&explain(&[]).stdout);
    let commit = format!("probe/src/lib.rs:{}", line_of("trx.set(b\"counter\""));
    assert!(shown.contains(&commit), "no {commit} in\n{shown}");
    assert!(shown.contains("counted 7, expected 5"), "{shown}");
}
