//! Seeds under a real server, played by a stand-in: a script that is started, prints, traces and
//! ends as fdbserver does.

use crate::bench::{Bench, text};
use std::fs;
use std::path::Path;
use std::process::Command;

/// What the stand-in does with each seed: those that leave 2 when divided by 3 fail, seed 99 hangs.
const SIMULATE: &str = r#"
while [ $# -gt 0 ]; do case "$1" in -s) seed=$2;; -b) buggify=$2;; esac; shift; done
trace=traces/trace.0.0.0.0.1.1.abcdef.0.1.json
event() { echo "{  \"Severity\": \"$1\", \"Time\": \"$2\", \"DateTime\": \"$(date)\", \"Type\": \"$3\", $4 }" >> $trace; }
event 10 1.0 TestRunning '"Machine": "0.0.0.0:0", "WorkloadTitle": "Bench", "TesterCount": "4"'
event 10 2.0 ClogInterface '"Machine": "3.4.3.1:1", "Roles": "TS"'
event 10 3.0 WorkloadAssertion '"Machine": "3.4.3.1:1", "Kind": "sometimes", "Message": "a retry", "Site": "src/lib.rs:7", "Held": "2", "Broken": "1", "Roles": "TS"'
[ $seed = 99 ] && exec sleep 600
failed=0
if [ $((seed % 3)) = 2 ]; then
    failed=1
    event 40 5.0 WorkloadPhaseFailed '"Machine": "3.4.3.1:1", "Phase": "check", "Client": "1", "Error": "3 rows are missing", "Roles": "TS"'
fi
echo "$((1 - failed)) tests passed; $failed tests failed."
echo "Unseed: ${UNSEED:-$((seed * 10))}"
echo "Elapsed: 12.500000 simsec, 0.100000 real seconds"
exit $failed
"#;

/// Writes a program. Another process does it: a test that starts a process meanwhile would inherit
/// the open file, and what is open for writing cannot be started.
fn install(script: &str, program: &Path) {
    let text = program.with_extension("sh");
    fs::write(&text, script).unwrap();
    let mut install = Command::new("install");
    let installed = install.args(["-m", "755"]).arg(&text).arg(program).status();
    assert!(installed.unwrap().success());
}

/// A test file, and a server in the same folder.
fn bench(name: &str) -> Bench {
    let bench = Bench::misbehaving(name, "nothing", "start");
    let program = bench.folder.join("fdbserver");
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'FoundationDB 7.4 (v7.4.7)'; echo 'source version abcdef12'; exit; fi\n{SIMULATE}"
    );
    install(&script, &program);
    fs::write(bench.folder.join("libfdb_c.so"), "abcdef12").unwrap();
    // What runs leave goes below the nearest workspace.
    fs::write(bench.folder.join("Cargo.lock"), "").unwrap();
    bench
}

fn run(bench: &Bench, arguments: &str) -> (Option<i32>, String, String) {
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let output = bench.run(&arguments);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    (output.status.code(), stdout.to_owned(), stderr.to_owned())
}

#[test]
fn seeds_are_run_by_a_server() {
    let bench = bench("by-a-server");
    let (code, stdout, stderr) = run(
        &bench,
        "run bench.toml --seed 1 --seeds 6 --no-build --fdbserver ./fdbserver",
    );
    assert_eq!(code, Some(100), "{stdout}{stderr}");
    assert!(stderr.contains("6 runs from seed 1"), "{stderr}");
    assert!(stderr.contains("by fdbserver 7.4.7"), "{stderr}");
    assert!(stdout.contains("3 rows are missing"), "{stdout}");
    assert!(stdout.contains("2 of 6"), "{stdout}");
    let again = "replay bench.toml --seed 2 --fdbserver ./fdbserver --no-build";
    assert!(stdout.contains(again), "{stdout}");
    let folder = bench.folder.join("target/shaketable/failures");
    assert!(folder.join("bench-2/trace.json").is_file(), "{stdout}");
    assert!(folder.join("bench-2/report.txt").is_file(), "{stdout}");
    assert!(!folder.join("bench-1").exists());
}

#[test]
fn a_seed_is_replayed_by_a_server() {
    let bench = bench("replayed-by-a-server");
    let (code, stdout, stderr) = run(
        &bench,
        "replay bench.toml --seed 1 --no-build --fdbserver ./fdbserver",
    );
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    let trace = bench
        .folder
        .join("target/shaketable/runs/bench-1/trace.json");
    assert!(trace.is_file(), "{stdout}{stderr}");
}

#[test]
fn a_seed_of_64_bits_is_refused_for_a_server_that_would_cut_it() {
    let bench = bench("wide-seeds");
    let wide = 9_007_199_254_740_993_u64;
    for command in ["run", "replay", "stats", "check-determinism"] {
        let line = format!("{command} bench.toml --seed {wide} --no-build --fdbserver ./fdbserver");
        let (code, stdout, stderr) = run(&bench, &line);
        assert_eq!(code, Some(96), "{command}: {stdout}{stderr}");
        let sentence = "seed 9007199254740993 has more than 32 bits, and fdbserver 7.4.7 takes no more: choose one up to 4294967295";
        assert!(stderr.contains(sentence), "{command}: {stderr}");
    }
    // A sweep that begins before the end goes on at 0, as the server would.
    let narrow = "run bench.toml --seed 4294967295 --seeds 2 --no-build --fdbserver ./fdbserver --message-format json";
    let (_, stdout, stderr) = run(&bench, narrow);
    for seed in [4_294_967_295_u64, 0] {
        let own = format!("\"seed\":{seed},");
        assert!(stdout.contains(&own), "{stdout}{stderr}");
    }
    let program = bench.folder.join("fdbserver");
    let script = fs::read_to_string(&program).unwrap();
    let script = script.replace("7.4 (v7.4.7)", "8.0 (v8.0.0)");
    install(&script.replace("seed * 10", "seed % 100000"), &program);
    let line = format!(
        "run bench.toml --seed {wide} --no-build --fdbserver ./fdbserver --message-format json"
    );
    let (code, stdout, stderr) = run(&bench, &line);
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert!(stdout.contains("\"seed\":\"9007199254740993\""), "{stdout}");
    // What the server was told.
    assert!(stdout.contains("\"unseed\":40993"), "{stdout}");
}

#[test]
fn a_server_that_hangs_is_killed() {
    let bench = bench("a-server-hangs");
    let (code, stdout, stderr) = run(
        &bench,
        "run bench.toml --seed 99 --no-build --fdbserver ./fdbserver --hang-limit 1s",
    );
    assert_eq!(code, Some(100), "{stdout}{stderr}");
    assert!(stdout.contains("did not end within 1 s"), "{stdout}");
}

#[test]
fn a_server_is_checked_for_determinism() {
    let bench = bench("determinism-of-a-server");
    let (code, stdout, stderr) = run(
        &bench,
        "check-determinism bench.toml --seed 1 --seeds 2 --no-build --fdbserver ./fdbserver",
    );
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    let program = bench.folder.join("fdbserver");
    let script = fs::read_to_string(&program).unwrap();
    install(&script.replace("${UNSEED:-", "${UNSEED:-$$"), &program);
    let (code, stdout, stderr) = run(
        &bench,
        "check-determinism bench.toml --seed 1 --seeds 2 --no-build --fdbserver ./fdbserver",
    );
    assert_eq!(code, Some(103), "{stdout}{stderr}");
}

#[test]
fn hosts_are_compared() {
    let bench = bench("compared-with-a-server");
    let (code, stdout, stderr) = run(
        &bench,
        "compare bench.toml --seed 1 --seeds 12 --embedded-seeds 40 --no-build --fdbserver ./fdbserver",
    );
    assert_eq!(code, Some(104), "{stdout}{stderr}");
    assert!(stdout.contains("| fdbserver 7.4.7"), "{stdout}");
    assert!(stdout.contains("67 % (39–86) of 12"), "{stdout}");
}

#[test]
fn what_only_the_embedded_host_can_do_is_refused() {
    let bench = bench("refused-by-a-server");
    let refused = |options: &str| {
        let line = format!("run bench.toml --no-build --fdbserver ./fdbserver {options}");
        let (code, stdout, stderr) = run(&bench, &line);
        assert_eq!(code, Some(96), "{stdout}{stderr}");
        stderr
    };
    let told = refused("--clients 3");
    assert!(
        told.contains("draws the number of clients from the seed"),
        "{told}"
    );
    let told = refused("--lint");
    assert!(told.contains("--lint needs the embedded host"), "{told}");
    let (code, _, told) = run(&bench, "run bench.toml --no-build --fdbserver ./none");
    assert_eq!(code, Some(96));
    assert!(told.starts_with("error: cannot run "), "{told}");
    assert!(told.contains("No such file or directory"), "{told}");
}

/// Runs the program where no server is installed.
fn run_without_server(bench: &Bench, arguments: &str) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_shaketable"))
        .args(arguments.split(' '))
        .current_dir(&bench.folder)
        .env("NO_COLOR", "1")
        .env("PATH", "/nowhere")
        .env_remove("FDBSERVER")
        .env_remove("FDB_LIBRARY")
        .output()
        .unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    (output.status.code(), stdout.to_owned(), stderr.to_owned())
}

#[test]
fn a_machine_without_a_server_is_told_how_to_name_one() {
    let bench = bench("no-server");
    for command in ["run", "stats", "check-determinism", "compare"] {
        let host = if command == "compare" {
            ""
        } else {
            " --host fdbserver"
        };
        let line = format!("{command} bench.toml --no-build{host}");
        let (code, stdout, stderr) = run_without_server(&bench, &line);
        assert_eq!(code, Some(96), "{line}: {stdout}{stderr}");
        assert_eq!(
            stderr.lines().last(),
            Some(
                "error: no fdbserver found: name one with --fdbserver PATH or FDBSERVER=PATH, or put it in the PATH"
            ),
            "{line}"
        );
    }
}

#[test]
fn a_server_without_its_client_library_is_refused() {
    let bench = bench("no-client-library");
    fs::remove_file(bench.folder.join("libfdb_c.so")).unwrap();
    let (code, _, told) = run(&bench, "run bench.toml --no-build --fdbserver ./fdbserver");
    assert_eq!(code, Some(96), "{told}");
    // A machine may have a client installed, which is of another build.
    let is_told = told.contains("no libfdb_c.so found for ") || told.contains("of the same build");
    assert!(is_told && told.contains("--fdb-library PATH"), "{told}");
    let line = "run bench.toml --no-build --fdbserver ./fdbserver --fdb-library ./none.so";
    let (code, _, told) = run(&bench, line);
    assert_eq!(code, Some(96), "{told}");
    assert!(told.contains("none.so: No such file"), "{told}");
}

#[test]
fn a_doctor_tells_what_is_there_and_what_to_do() {
    let bench = bench("doctor");
    let folder = fs::canonicalize(&bench.folder).unwrap();
    let diagnose = |arguments: &str| {
        let line = format!("doctor {arguments}");
        let (code, stdout, stderr) = run(&bench, line.trim());
        assert_eq!(stderr, "", "{line}");
        let stdout = stdout.replace(&bench.folder.display().to_string(), "DIR");
        (code, stdout.replace(&folder.display().to_string(), "DIR"))
    };
    let (code, told) = diagnose("--fdbserver ./fdbserver");
    assert_eq!(code, Some(0), "{told}");
    for line in [
        "good  fdbserver: DIR/fdbserver is version 7.4.7, without RocksDB, so simulations do not draw that engine",
        "good  workloads: it loads them through the C interface with tables of functions, as libraries of this version of Shaketable have it",
        "good  libfdb_c.so: DIR/libfdb_c.so is of the same build",
    ] {
        assert!(told.contains(line), "{line} is not in\n{told}");
    }
    // Neither hermetic nor able to be loaded without libfdb_c.so.
    let stray = crate::bench::libraries().join("libstray.so");
    let (code, told) = diagnose(&format!("--fdbserver ./fdbserver {}", stray.display()));
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("note  "), "{told}");
    assert!(told.contains("asks the machine for "), "{told}");
    assert!(told.contains("the feature `hermetic`"), "{told}");
    let none = crate::bench::libraries().join("libno_factory.so");
    let (code, told) = diagnose(&none.display().to_string());
    assert_eq!(code, Some(96), "{told}");
    assert!(
        told.contains("does not export `workloadCFactory`"),
        "{told}"
    );
    // A server that is too old is bad news, with what to do.
    let program = bench.folder.join("fdbserver");
    let script = fs::read_to_string(&program).unwrap();
    install(&script.replace("7.4.7", "7.3.69"), &program);
    let (code, told) = diagnose("--fdbserver ./fdbserver");
    assert_eq!(code, Some(96), "{told}");
    assert!(told.contains("bad   fdbserver: "), "{told}");
    assert!(told.contains("through C++ classes"), "{told}");
    assert!(
        told.contains("a build of FoundationDB 7.4.6 or later has one"),
        "{told}"
    );
    let (code, stdout, stderr) = run_without_server(&bench, "doctor");
    // Without a PATH there is no compiler either.
    assert_eq!(code, Some(96), "{stdout}{stderr}");
    assert!(
        stdout.contains("none  fdbserver: no fdbserver found"),
        "{stdout}"
    );
    assert!(stdout.contains("bad   Rust: there is no rustc"), "{stdout}");
}

#[test]
fn a_package_for_joshua_runs_by_itself() {
    let bench = bench("joshua");
    let (code, stdout, stderr) = run(
        &bench,
        "joshua bench.toml -o package.tar.gz --no-build --fdbserver ./fdbserver --buggify on",
    );
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    let unpacked = bench.folder.join("unpacked");
    let _ = fs::remove_dir_all(&unpacked);
    fs::create_dir(&unpacked).unwrap();
    let tar = Command::new("tar")
        .args(["xzf", "../package.tar.gz"])
        .current_dir(&unpacked)
        .status();
    assert!(tar.unwrap().success());
    let test = |seed: &str| {
        let output = Command::new(unpacked.join("joshua_test"))
            .env("JOSHUA_SEED", seed)
            .output()
            .unwrap();
        (output.status.code(), text(&output.stdout).to_owned())
    };
    let (code, told) = test("4294967299");
    assert_eq!(code, Some(100), "{told}");
    assert!(
        told.contains(r#"RandomSeed="2" JoshuaSeed="4294967299""#),
        "{told}"
    );
    assert!(told.contains(r#"Message="3 rows are missing""#), "{told}");
    // As they are called where the package was made.
    assert!(told.contains(r#"<Test TestFile="bench.toml""#), "{told}");
    assert!(told.contains(" replay bench.toml --seed 2 "), "{told}");
    let (code, told) = test("1");
    assert_eq!(code, Some(0), "{told}");
    assert!(
        told.starts_with("<Test ") && told.contains(r#"Ok="1""#),
        "{told}"
    );
}
