//! The program, run as a user runs it, on workloads in C that behave and misbehave.
//!
//! The workloads use no database, so that what is tested here is the border between host and code under test and nothing else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// A folder with the compiled libraries, made once for all tests.
fn libraries() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("workloads");
        fs::create_dir_all(&folder).unwrap();
        // What a library that needs libfdb_c.so is linked against, and does not find when it is loaded.
        let absent = folder.join("absent");
        fs::create_dir_all(&absent).unwrap();
        let status = Command::new("cc")
            .args([
                "-shared",
                "-nostdlib",
                "-x",
                "c",
                "/dev/null",
                "-Wl,-soname,libfdb_c.so",
                "-o",
            ])
            .arg(absent.join("libfdb_c.so"))
            .status()
            .unwrap();
        assert!(status.success());
        for source in [
            "misbehave.c",
            "older_abi.c",
            "counter.c",
            "classy.cpp",
            "cpp_only.cpp",
        ] {
            let (name, language) = source.split_once('.').unwrap();
            let compiler = if language == "c" { "cc" } else { "c++" };
            let workloads = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workloads");
            let source = workloads.join(source);
            let library = folder.join(format!("lib{name}.so"));
            // Written beside and moved: another test program may be loading the old one.
            let fresh = folder.join(format!("lib{name}.{}.so", std::process::id()));
            let status = Command::new(compiler)
                .args(["-shared", "-fPIC", "-O0", "-w", "-pthread", "-o"])
                .arg(&fresh)
                .arg(source)
                .arg("-Wl,--no-as-needed")
                .arg(format!("-L{}", absent.display()))
                .arg("-lfdb_c")
                .status()
                .unwrap();
            assert!(status.success());
            fs::rename(fresh, library).unwrap();
        }
        let fresh = folder.join(format!("libstray.{}.so", std::process::id()));
        let status = Command::new("rustc")
            .args([
                "--edition",
                "2024",
                "--crate-type",
                "cdylib",
                "--crate-name",
                "stray",
                "-o",
            ])
            .arg(&fresh)
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workloads/stray.rs"))
            .status()
            .unwrap();
        assert!(status.success());
        fs::rename(fresh, folder.join("libstray.so")).unwrap();
        fs::write(folder.join("libtext.so"), "this is no library\n").unwrap();
        fs::copy(absent.join("libfdb_c.so"), folder.join("libno_factory.so")).unwrap();
        folder
    })
}

/// A test file in a folder of its own.
struct Bench {
    folder: PathBuf,
}

impl Bench {
    fn new(name: &str, options: &str) -> Bench {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join("benches")
            .join(name);
        fs::create_dir_all(&folder).unwrap();
        let text = format!(
            "[[test]]\ntestTitle = 'Bench'\nuseDB = false\ntimeout = 100\n\n[[test.workload]]\ntestName = 'External'\nlibraryPath = '{}'\n{options}",
            libraries().display()
        );
        fs::write(folder.join("bench.toml"), text).unwrap();
        Bench { folder }
    }

    fn misbehaving(name: &str, what: &str, place: &str) -> Bench {
        Bench::new(
            name,
            &format!(
                "libraryName = 'misbehave'\nworkloadName = 'W'\nwhat = '{what}'\nwhere = '{place}'\nonClient = 2\n"
            ),
        )
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_shaketable"))
            .args(arguments)
            .current_dir(&self.folder)
            .env("NO_COLOR", "1")
            .env_remove("GITHUB_STEP_SUMMARY")
            .env_remove("CARGO_PKG_NAME")
            .output()
            .unwrap()
    }

    /// The first failure of seed 1 without its time, and the exit status.
    fn failure(&self, clients: &str) -> (String, Option<i32>) {
        let arguments = "run bench.toml --seed 1 --seeds 2 --no-build --hang-limit 2s --clients";
        let output = self.run(&arguments.split(' ').chain([clients]).collect::<Vec<_>>());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().nth(1).unwrap_or_default().trim().to_owned();
        let line = match (line.find(", at "), line.find(" s: ")) {
            (Some(from), Some(to)) if from < to => format!("{}{}", &line[..from], &line[to + 2..]),
            _ => line,
        };
        if line.is_empty() {
            let complaint = String::from_utf8_lossy(&output.stderr);
            return (
                format!("{text}{complaint}").replace(&libraries().display().to_string(), "…"),
                output.status.code(),
            );
        }
        (line, output.status.code())
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_workload_that_behaves_passes() {
    let bench = Bench::misbehaving("behaves", "nothing", "start");
    let output = bench.run(&[
        "run",
        "bench.toml",
        "--seed",
        "7",
        "--no-build",
        "--clients",
        "3",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let lines = text(&output.stdout);
    let varies = |line: &&str| line.starts_with("Elapsed") || line.starts_with("Unseed");
    let stable: Vec<&str> = lines.lines().filter(|line| !varies(line)).collect();
    insta::assert_snapshot!(stable.join("\n"));
}

#[test]
fn every_way_to_go_wrong_has_a_verdict_with_phase_and_client() {
    let mut verdicts = String::new();
    for (what, place) in [
        ("segfault", "start"),
        ("segfault", "factory"),
        ("abort", "setup"),
        ("overflow", "check"),
        ("exit", "start"),
        ("exit0", "start"),
        ("spin", "start"),
        ("false", "setup"),
        ("false", "check"),
        ("break", "start"),
        ("break", "check"),
        ("twice", "start"),
        ("free-twice", "start"),
        ("never", "setup"),
        ("never", "start"),
        ("never", "check"),
        ("late", "start"),
        ("late", "check"),
        ("pretend", "start"),
        ("error-abort", "start"),
        ("error", "check"),
        ("severity", "start"),
        ("unnamed", "start"),
        ("large", "start"),
        ("foreign", "start"),
    ] {
        let bench = Bench::misbehaving(&format!("wrong-{what}-{place}"), what, place);
        let (line, code) = bench.failure("3");
        assert_eq!(code, Some(100), "{what} in {place}: {line}");
        verdicts.push_str(&format!("{what} in {place}\n    {line}\n"));
    }
    insta::assert_snapshot!(verdicts);
}

#[test]
fn a_crash_is_told_with_the_stack_of_the_code_under_test() {
    for what in ["segfault", "spin"] {
        let bench = Bench::misbehaving(&format!("stack-{what}"), what, "start");
        let arguments = "run bench.toml --seed 1 --no-build --clients 3 --hang-limit 2s";
        let output = bench.run(&arguments.split(' ').collect::<Vec<_>>());
        let report = text(&output.stdout);
        let stack: Vec<&str> = report
            .lines()
            .filter_map(|line| line.strip_suffix(" in libmisbehave.so"))
            .map(|line| line.rsplit(' ').next().unwrap())
            .collect();
        assert_eq!(stack, ["misbehave", "phase", "start"], "{report}");
        assert!(!report.contains("shaketable_host"), "{report}");
    }
}

#[test]
fn folders_are_searched_for_test_files() {
    let bench = Bench::misbehaving("folder", "nothing", "start");
    fs::create_dir_all(bench.folder.join("below/empty")).unwrap();
    fs::copy(
        bench.folder.join("bench.toml"),
        bench.folder.join("below/bench.toml"),
    )
    .unwrap();
    let run = |arguments: &str| bench.run(&arguments.split(' ').collect::<Vec<_>>());
    let output = run("run . --seed 1 --seeds 2 --no-build");
    let report = text(&output.stdout);
    assert!(report.starts_with("4 runs: passed"), "{report}");
    let output = run("run below/empty --seed 1");
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
}

#[test]
fn what_failed_before_a_crash_is_told_with_it() {
    let bench = Bench::misbehaving("before-the-crash", "error-abort", "start");
    let arguments =
        "run bench.toml --seed 1 --seeds 1 --no-build --clients 3 --message-format json";
    let output = bench.run(&arguments.split(' ').collect::<Vec<_>>());
    let lines = text(&output.stdout);
    let failure = lines
        .lines()
        .find(|line| line.contains("\"failure\""))
        .unwrap();
    let failure: serde_json::Value = serde_json::from_str(failure).unwrap();
    let failures = failure["outcome"]["failures"].as_array().unwrap();
    let kinds: Vec<&str> = failures
        .iter()
        .map(|failure| failure["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["error_traced", "crashed"], "{failure}");
}

#[test]
fn a_test_that_takes_too_long_has_failed_and_the_next_one_runs() {
    let bench = Bench::misbehaving("timed-out-first", "late", "start");
    let file = bench.folder.join("bench.toml");
    let first = fs::read_to_string(&file).unwrap();
    let second = first.replace("late", "log").replace("Bench", "Second");
    fs::write(&file, format!("{first}\n{second}")).unwrap();
    let arguments = "replay bench.toml --seed 1 --no-build --clients 3 --trace-dir .";
    let output = bench.run(&arguments.split(' ').collect::<Vec<_>>());
    let report = text(&output.stdout);
    assert_eq!(output.status.code(), Some(100), "{report}");
    assert!(
        report.contains("test timed out in start of W, client 2"),
        "{report}"
    );
    assert!(
        report.contains("1 tests passed; 1 tests failed."),
        "{report}"
    );
    let trace = fs::read_to_string(bench.folder.join("bench-1.json")).unwrap();
    assert_eq!(
        trace.matches("\"What\": \"check client").count(),
        3,
        "{trace}"
    );
}

#[test]
fn a_metric_that_is_no_number_harms_nobody() {
    let bench = Bench::misbehaving("no-number", "no-number", "start");
    let arguments = "run bench.toml --seed 1 --no-build --clients 2";
    let output = bench.run(&arguments.split(' ').collect::<Vec<_>>());
    let report = text(&output.stdout);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{report}{}",
        text(&output.stderr)
    );
    assert!(report.contains("Metric (0, 1): External.nan, "), "{report}");
}

#[test]
fn an_assertion_that_never_held_is_named_and_fails_where_it_must_not() {
    let bench = Bench::misbehaving("assertion", "assertion", "start");
    let sweep = "run bench.toml --seed 1 --seeds 3 --no-build --clients 3";
    let words: Vec<&str> = sweep.split(' ').collect();
    let output = bench.run(&words);
    let report = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{report}");
    assert!(
        report.contains("0          6  sometimes \"a retry\" w.c:7  never held"),
        "{report}"
    );
    let output = bench.run(&[&words[..], &["--require-sometimes"]].concat());
    let report = text(&output.stdout);
    assert_eq!(output.status.code(), Some(100), "{report}");
    assert!(
        report.ends_with("--require-sometimes: 1 assertion never held\n"),
        "{report}"
    );
}

#[test]
fn what_no_seed_controls_is_named() {
    for (what, words) in [
        ("thread", "started a thread"),
        ("socket", "opened a socket"),
        ("file", "opened a file: notes.txt"),
        ("folder", "opened a file: ."),
        ("child", "started a program: true"),
        ("sleep", "slept in real time"),
    ] {
        let bench = Bench::misbehaving(&format!("uncontrolled-{what}"), what, "start");
        let output = bench.run(&["run", "bench.toml", "--seed", "1", "--no-build"]);
        assert_eq!(output.status.code(), Some(0), "{what}");
        assert!(
            text(&output.stdout).contains(words),
            "{what}: {}",
            text(&output.stdout)
        );
    }
}

#[test]
fn libraries_that_cannot_be_used_are_refused_with_advice() {
    let mut complaints = String::new();
    for (name, options) in [
        ("missing", "libraryName = 'nowhere'\n"),
        ("text", "libraryName = 'text'\n"),
        ("no-factory", "libraryName = 'no_factory'\n"),
        ("cpp-only", "libraryName = 'cpp_only'\n"),
        (
            "older-returns",
            "libraryName = 'older_abi'\nworkloadName = 'B'\n",
        ),
        (
            "older-asks",
            "libraryName = 'older_abi'\nworkloadName = 'A'\n",
        ),
        (
            "no-workload",
            "libraryName = 'misbehave'\nworkloadName = 'Nothing'\n",
        ),
        (
            "unread",
            "libraryName = 'misbehave'\nworkloadName = 'W'\nwaht = 'error'\n",
        ),
    ] {
        let (line, code) = Bench::new(&format!("unusable-{name}"), options).failure("1");
        complaints.push_str(&format!("{name} ({})\n    {line}\n", code.unwrap_or(-1)));
    }
    insta::assert_snapshot!(complaints);
}

#[test]
fn time_and_chance_inside_a_workload_come_from_the_seed() {
    let bench = Bench::new(
        "ask",
        "libraryName = 'misbehave'\nworkloadName = 'W'\nwhat = 'ask'\n",
    );
    let ask = |folder: &str, seed: &str| {
        let output = bench.run(&[
            "replay",
            "bench.toml",
            "--seed",
            seed,
            "--no-build",
            "--trace-dir",
            folder,
        ]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        fs::read_to_string(bench.folder.join(folder).join(format!("bench-{seed}.json"))).unwrap()
    };
    let first = ask("first", "5");
    assert!(first.contains("\"Asked\""), "{first}");
    assert_eq!(
        first,
        ask("second", "5"),
        "one seed, one trace, to the last byte"
    );
    assert_ne!(first, ask("third", "6"));
}

#[test]
fn hash_order_and_clocks_of_rust_come_from_the_seed() {
    let bench = Bench::new("stray", "libraryName = 'stray'\nworkloadName = 'W'\n");
    let trace = |folder: &str, seed: &str| {
        let output = bench.run(&[
            "replay",
            "bench.toml",
            "--seed",
            seed,
            "--no-build",
            "--trace-dir",
            folder,
        ]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let trace =
            fs::read_to_string(bench.folder.join(folder).join(format!("bench-{seed}.json")))
                .unwrap();
        let stray: Vec<String> = trace
            .lines()
            .filter(|line| line.contains("\"Stray\""))
            .map(str::to_owned)
            .collect();
        stray
    };
    let first = trace("first", "5");
    assert!(
        first
            .iter()
            .any(|line| line.contains("\"Calendar\": \"1767225601.")),
        "{first:?}"
    );
    assert!(
        first
            .iter()
            .any(|line| line.contains("\"Elapsed\": \"0ns\"")),
        "{first:?}"
    );
    assert_eq!(first, trace("second", "5"));
    let order = |lines: &[String]| {
        lines
            .iter()
            .find(|line| line.contains("\"Order\""))
            .cloned()
    };
    assert_ne!(
        order(&first),
        order(&trace("third", "6")),
        "another seed, another order"
    );
}

/// The published crates `rand`, `uuid`, `fastrand` and two generations of `getrandom`, as a layer depends on them.
#[test]
fn crates_that_ask_the_machine_are_answered_from_the_seed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let bench = Bench {
        folder: root.canonicalize().unwrap(),
    };
    let traces = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("stray-traces");
    let answers = |folder: &str, seed: &str| {
        let folder = traces.join(folder);
        let output = bench.run(&[
            "replay",
            "examples/stray/stray.toml",
            "--profile",
            "dev",
            "--seed",
            seed,
            "--clients",
            "2",
            "--trace-dir",
            folder.to_str().unwrap(),
        ]);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{}{}",
            text(&output.stdout),
            text(&output.stderr)
        );
        let trace = fs::read_to_string(folder.join(format!("stray-{seed}.json"))).unwrap();
        let events = trace.lines().map(|line| {
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            event
        });
        let asked: Vec<serde_json::Value> = events
            .filter(|event| event["Type"] == "StrayAnswers")
            .collect();
        assert_eq!(asked.len(), 2, "{trace}");
        asked
    };
    let first = answers("first", "5");
    assert_eq!(first, answers("second", "5"));
    let other = answers("third", "6");
    for question in ["First", "Bytes", "Fast", "Later", "Calendar", "Elapsed"] {
        assert_ne!(first[0][question], other[0][question], "{question}");
        if question != "Calendar" && question != "Elapsed" {
            assert_ne!(first[0][question], first[1][question], "{question}");
        }
    }
}

#[test]
fn a_run_that_depends_on_addresses_is_found_out() {
    let bench = Bench::new(
        "address",
        "libraryName = 'misbehave'\nworkloadName = 'W'\nwhat = 'address'\n",
    );
    let output = bench.run(&[
        "check-determinism",
        "bench.toml",
        "--seed",
        "3",
        "--seeds",
        "2",
        "--no-build",
    ]);
    let report = text(&output.stdout);
    assert_eq!(
        output.status.code(),
        Some(103),
        "{report}{}",
        text(&output.stderr)
    );
    assert!(report.contains(": Address Self="), "{report}");
    let bench = Bench::new(
        "no-address",
        "libraryName = 'misbehave'\nworkloadName = 'W'\nwhat = 'ask'\n",
    );
    let output = bench.run(&[
        "check-determinism",
        "bench.toml",
        "--seed",
        "3",
        "--seeds",
        "2",
        "--no-build",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
}

#[test]
fn phases_are_barriers_for_all_clients_and_workloads_of_a_test() {
    let workload = format!(
        "[[test.workload]]\ntestName = 'External'\nlibraryPath = '{}'\nlibraryName = 'misbehave'\nworkloadName = 'W'\nwhat = 'log'\n",
        libraries().display()
    );
    let bench = Bench::misbehaving("phases", "nothing", "start");
    let test = |title: &str| format!("[[test]]\ntestTitle = '{title}'\nuseDB = false\n{workload}");
    let text_of_file = format!("{}{workload}{}", test("Two workloads"), test("Second"));
    fs::write(bench.folder.join("bench.toml"), text_of_file).unwrap();
    let output = bench.run(&[
        "replay",
        "bench.toml",
        "--seed",
        "5",
        "--no-build",
        "--clients",
        "3",
        "--trace-dir",
        ".",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert!(
        text(&output.stdout).contains("2 tests passed; 0 tests failed."),
        "{}",
        text(&output.stdout)
    );

    let trace = fs::read_to_string(bench.folder.join("bench-5.json")).unwrap();
    let calls: Vec<String> = trace
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter(|event| event["Type"] == "Called")
        .map(|event| event["What"].as_str().unwrap().to_owned())
        .collect();
    let phases: Vec<&str> = calls
        .iter()
        .map(|call| call.split(' ').next().unwrap())
        .collect();
    let expected: Vec<&str> = [
        ("setup", 6),
        ("start", 6),
        ("check", 6),
        ("setup", 3),
        ("start", 3),
        ("check", 3),
    ]
    .into_iter()
    .flat_map(|(phase, count)| std::iter::repeat_n(phase, count))
    .collect();
    assert_eq!(phases, expected, "{calls:?}");
    let shared = |call: &String| call.rsplit(' ').next().unwrap().to_owned();
    let (first, second) = (shared(&calls[0]), shared(&calls[18]));
    assert!(
        calls[..18].iter().all(|call| shared(call) == first),
        "one number for a test: {calls:?}"
    );
    assert!(
        calls[18..].iter().all(|call| shared(call) == second),
        "one number for a test: {calls:?}"
    );
    assert_ne!(first, second, "another number for another test");
}

const FAULTS: &str = "
[[test.workload]]
testName = 'RandomClogging'
testDuration = 30.0
swizzle = 1
[[test.workload]]
testName = 'Attrition'
testDuration = 30.0
machinesToKill = 10
machinesToLeave = 3
reboot = true
[[test.workload]]
testName = 'Rollback'
testDuration = 30.0
";

/// A test file for the workload that counts, with faults.
fn counting(name: &str, options: &str) -> Bench {
    let bench = Bench::new(name, "libraryName = 'counter'\n");
    let text = format!(
        "[[test]]\ntestTitle = 'Counting'\n[[test.workload]]\ntestName = 'External'\nlibraryPath = '{}'\nlibraryName = 'counter'\ncount = 30\n{options}{FAULTS}",
        libraries().display()
    );
    fs::write(bench.folder.join("bench.toml"), text).unwrap();
    bench
}

#[test]
fn a_careful_workload_survives_what_breaks_a_careless_one() {
    let sweep = [
        "run",
        "bench.toml",
        "--seed",
        "1",
        "--seeds",
        "12",
        "--no-build",
        "--hang-limit",
        "300s",
    ];
    let careful = counting("careful", "").run(&sweep);
    assert_eq!(
        careful.status.code(),
        Some(0),
        "{}{}",
        text(&careful.stdout),
        text(&careful.stderr)
    );
    let careless = counting("careless", "careless = 1\n").run(&sweep);
    assert_eq!(
        careless.status.code(),
        Some(100),
        "{}",
        text(&careless.stdout)
    );
    let report = text(&careless.stdout);
    assert!(report.contains("WrongSum Sum="), "{report}");
    assert!(report.contains("faults before it"), "{report}");
}

#[test]
fn a_database_that_is_kept_or_destroyed_has_a_verdict() {
    for (option, kind, words) in [
        (
            "keep = 1\n",
            "database_kept",
            "the database of setup after that phase had ended",
        ),
        (
            "destroy = 1\n",
            "misuse",
            "destroyed the database that it was lent for start",
        ),
    ] {
        let bench = counting(&format!("lease-{}", &option[..4]), option);
        let arguments = "run bench.toml --seed 1 --no-build --clients 2 --message-format json";
        let output = bench.run(&arguments.split(' ').collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(100), "{}", text(&output.stderr));
        let lines = text(&output.stdout);
        let failure = lines
            .lines()
            .find(|line| line.contains("\"failure\""))
            .unwrap();
        let failure: serde_json::Value = serde_json::from_str(failure).unwrap();
        let first = &failure["outcome"]["failures"][0];
        assert_eq!(first["kind"], kind, "{first}");
        assert_eq!(first["phase"], "start", "{first}");
        assert!(first["client"].is_u64(), "{first}");
        assert!(
            first["message"].as_str().unwrap().contains(words),
            "{first}"
        );
    }
}

#[test]
fn a_workload_in_cpp_runs_through_the_c_interface_with_and_without_the_file_saying_so() {
    let run = |what: &str, use_capi: &str| {
        let name = format!("cpp-{what}-{}", use_capi.len());
        let options =
            format!("libraryName = 'classy'\nworkloadName = 'W'\nwhat = '{what}'\n{use_capi}");
        let bench = Bench::new(&name, &options);
        let arguments = "replay bench.toml --seed 5 --no-build --clients 1 --trace-dir .";
        let output = bench.run(&arguments.split(' ').collect::<Vec<_>>());
        let trace = fs::read_to_string(bench.folder.join("bench-5.json")).unwrap();
        (output.status.code(), text(&output.stdout), trace)
    };
    for use_capi in ["", "useCAPI = true\n", "useCAPI = false\n"] {
        let (code, report, _) = run("nothing", use_capi);
        assert_eq!(code, Some(0), "{report}");
        assert!(
            report.contains("Metric (0, 0): External.answer, 42.000000, 42"),
            "{report}"
        );
    }
    let (code, report, trace) = run("caught", "");
    assert_eq!(code, Some(0), "{report}");
    assert!(trace.contains("caught where it was thrown"), "{trace}");
    let (code, report, _) = run("thrown", "");
    assert_eq!(code, Some(100), "{report}");
    assert!(
        report.contains("crashed in start of W, client "),
        "{report}"
    );
    assert!(report.contains("SIGABRT"), "{report}");
    let (_, report, _) = run("thread", "");
    assert!(report.contains("the workload started a thread"), "{report}");
    let (_, report, _) = run("file", "");
    assert!(
        report.contains("the workload opened a file: notes.txt"),
        "{report}"
    );
    let (_, _, first) = run("ask", "");
    assert!(first.contains("\"Answer\": \"1767225601"), "{first}");
    assert_eq!(first, run("ask", "").2, "clocks of C++ are simulated");
}

#[test]
fn runs_with_faults_are_deterministic() {
    let bench = counting("deterministic", "");
    let output = bench.run(&[
        "check-determinism",
        "bench.toml",
        "--seed",
        "1",
        "--seeds",
        "3",
        "--no-build",
        "--buggify",
        "on",
    ]);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
}

#[test]
fn errors_and_faults_are_counted() {
    let bench = counting("stats", "");
    let output = bench.run(&[
        "stats",
        "bench.toml",
        "--seed",
        "1",
        "--seeds",
        "4",
        "--no-build",
        "--message-format",
        "json",
    ]);
    let lines = text(&output.stdout);
    let summary: serde_json::Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert!(summary["errors"]["1021"].as_u64() > Some(0), "{summary}");
    assert!(
        summary["faults"]["RebootingProcess"].as_u64() > Some(0),
        "{summary}"
    );
}

#[test]
fn json_messages_tell_every_run_and_the_summary() {
    let bench = Bench::misbehaving("json", "error", "check");
    let output = bench.run(&[
        "run",
        "bench.toml",
        "--seed",
        "1",
        "--seeds",
        "5",
        "--no-build",
        "--message-format",
        "json",
    ]);
    let lines = text(&output.stdout);
    let kinds: Vec<String> = lines
        .lines()
        .map(|line| {
            let message: serde_json::Value = serde_json::from_str(line).unwrap();
            message["type"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "start", "run", "run", "run", "run", "run", "failure", "summary"
        ]
    );
}

#[test]
fn the_line_to_paste_shows_the_failure_again() {
    let bench = Bench::misbehaving("paste", "error", "check");
    let output = bench.run(&[
        "run",
        "bench.toml",
        "--seed",
        "1",
        "--seeds",
        "3",
        "--no-build",
        "--buggify",
        "on",
    ]);
    let lines = text(&output.stdout);
    let line = lines.lines().last().unwrap();
    let words: Vec<&str> = line.split(' ').collect();
    assert_eq!(words[0], "shaketable", "{lines}");
    let again = bench.run(&words[1..]);
    assert_eq!(again.status.code(), Some(100));
    assert!(
        text(&again.stdout).contains("InvariantBroken"),
        "{}",
        text(&again.stdout)
    );
}

#[test]
fn what_cannot_run_has_its_exit_status() {
    let bench = Bench::misbehaving("status", "nothing", "start");
    let status = |arguments: &[&str]| bench.run(arguments).status.code();
    assert_eq!(status(&["run", "absent.toml"]), Some(96));
    assert_eq!(
        status(&["run", "bench.toml", "--seed", "99999999999"]),
        Some(2)
    );
    assert_eq!(
        status(&[
            "run",
            "bench.toml",
            "--no-build",
            "--seeds",
            "1",
            "--shard",
            "2/2"
        ]),
        Some(4)
    );
    assert_eq!(status(&["list", "."]), Some(0));
}
