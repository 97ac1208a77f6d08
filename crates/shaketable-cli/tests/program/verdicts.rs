//! The verdicts about runs: passes, failures with their phase and client, crashes with their stack.

use crate::bench::{Bench, PLAIN, counting, first_failure, hung, libraries, probe, text};
use std::fs;
use std::process::Command;

#[test]
fn a_workload_that_behaves_passes() {
    let bench = Bench::misbehaving("behaves", "nothing", "start");
    let run = |further: &str| {
        let arguments = format!("run bench.toml --seed 7 --no-build --clients 3{further}");
        let output = bench.run(&arguments.split(' ').collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    // How long it took varies.
    let stable = |report: &str| {
        let lines = report.lines().map(|line| match line.split_once(" in 0.") {
            Some((before, after)) => {
                format!("{before} in … s{}", &after[after.find(',').unwrap()..])
            }
            None => line.to_owned(),
        });
        let lines: Vec<String> = lines.filter(|line| !line.starts_with("Elapsed")).collect();
        lines.join("\n")
    };
    insta::assert_snapshot!("one_run", stable(&run("")));
    insta::assert_snapshot!("one_run_verbose", stable(&run(" -v")));
    insta::assert_snapshot!("one_run_quiet", stable(&run(" -q")));
}

#[test]
fn a_report_that_cannot_be_written_is_refused_before_anything_runs() {
    let bench = Bench::misbehaving("no-junit", "nothing", "start");
    let arguments = "run bench.toml --seeds 3 --no-build --junit nowhere/report.xml";
    let output = bench.run(&arguments.split(' ').collect::<Vec<_>>());
    assert_eq!(output.status.code(), Some(96));
    assert_eq!(text(&output.stdout), "");
    let complaint = text(&output.stderr);
    assert!(
        complaint.starts_with("error: cannot write nowhere/report.xml"),
        "{complaint}"
    );
}

#[test]
fn a_sweep_counts_the_errors_and_faults_that_happened() {
    let bench = counting("counted", "");
    let arguments = "run bench.toml --seed 1 --seeds 3 --no-build --message-format json";
    let output = bench.run(&arguments.split(' ').collect::<Vec<_>>());
    let lines = text(&output.stdout);
    let summary: serde_json::Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert!(
        summary["faults"]["CloggingPair"].as_u64() > Some(0),
        "{lines}"
    );
    assert!(
        !summary["errors"].as_object().unwrap().is_empty(),
        "{lines}"
    );
}

#[test]
fn a_test_that_logged_an_error_is_not_counted_as_passed() {
    let bench = Bench::misbehaving("logged", "error", "check");
    let arguments = "run bench.toml --seed 1 --no-build --clients 3 --message-format json";
    let output = bench.run(&arguments.split(' ').collect::<Vec<_>>());
    let lines = text(&output.stdout);
    assert!(
        lines.contains(r#""tests_passed":0,"tests_failed":1"#),
        "{lines}"
    );
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
        let (line, code) = match what {
            "spin" => first_failure(&hung().1),
            _ => Bench::misbehaving(&format!("wrong-{what}-{place}"), what, place).failure("3"),
        };
        assert_eq!(code, Some(100), "{what} in {place}: {line}");
        verdicts.push_str(&format!("{what} in {place}\n    {line}\n"));
    }
    insta::assert_snapshot!(verdicts);
}

#[test]
fn every_way_in_which_rust_goes_wrong_has_a_verdict_with_phase_and_client() {
    let mut verdicts = String::new();
    for workload in [
        "FailSetup",
        "FailStart",
        "FailCheck",
        "PanicSetup",
        "PanicStart",
        "PanicInDetachedTask",
        "PanicMetrics",
        "Spin",
        "Stuck",
        "DeadLock",
        "WatchInVain",
        "KeepDatabase",
        "BadCheckTimeout",
        "BadMetrics",
        "Unknown",
        "PanicFactory",
    ] {
        let bench = Bench::new(&format!("rust-{workload}"), "libraryName = 'probe'\n");
        let file = probe_file(workload);
        fs::write(bench.folder.join("bench.toml"), file).unwrap();
        let (line, code) = bench.failure("2");
        assert_eq!(code, Some(100), "{workload}: {line}");
        // The place is right if the file is; its lines move.
        let line = match line.split_once("probe/src/lib.rs:") {
            Some((before, _)) => format!("{before}probe/src/lib.rs:…)"),
            None => line,
        };
        verdicts.push_str(&format!("{workload}\n    {line}\n"));
    }
    insta::assert_snapshot!(verdicts);
}

#[test]
fn whatever_a_workload_calls_the_host_survives() {
    let bench = Bench::new("rust-random", "libraryName = 'probe'\n");
    for seed in 0..5 {
        let file = format!("{}seed = {seed}\n", probe_file("Random"));
        fs::write(bench.folder.join("bench.toml"), file).unwrap();
        let line = "run bench.toml --seed 1 --seeds 8 --no-build --message-format json";
        let told = text(&bench.run(&line.split(' ').collect::<Vec<_>>()).stdout);
        assert!(told.contains(r#""type":"summary""#), "{told}");
        // It traces errors, and has metrics that are none; but nothing worse.
        let failures: Vec<&str> = told
            .lines()
            .filter(|line| line.contains(r#""type":"failure""#))
            .collect();
        assert!(!failures.is_empty(), "{told}");
        for worse in [
            "crashed",
            "exited",
            "hung",
            "host_fault",
            "host_panicked",
            "misuse",
        ] {
            let kind = format!(r#""kind":"{worse}""#);
            assert!(!told.contains(&kind), "{kind} in {told}");
        }
    }
}

#[test]
fn a_run_that_does_not_end_says_who_waits_for_what_and_in_which_line() {
    let bench = Bench::new("who-waits", "libraryName = 'probe'\n");
    fs::write(bench.folder.join("bench.toml"), probe_file("WatchInVain")).unwrap();
    let run = |arguments: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_shaketable"))
            .args(arguments.split(' '))
            .current_dir(&bench.folder)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(100));
        text(&output.stdout)
    };
    let report = run("run bench.toml --seed 2 --seeds 1 --clients 2 --no-build");
    let waits: Vec<&str> = report
        .lines()
        .filter(|line| line.contains("waits for"))
        .collect();
    assert_eq!(waits.len(), 2, "{report}");
    for (client, line) in waits.iter().enumerate() {
        let start = format!("client {client} waits for a watch of (\"probe\", 7) since ");
        assert!(line.contains(&start), "{line}");
        // The address of the server, and the line of the call.
        assert!(
            line.contains(" s at 2.") && line.contains("probe/src/lib.rs:"),
            "{line}"
        );
    }
    let json = run("run bench.toml --seed 2 --clients 2 --no-build --message-format json");
    assert!(json.contains(r#""kind":"stalled""#), "{json}");
    assert!(
        json.contains(r#""what":"a watch of","key":"(\"probe\", 7)""#),
        "{json}"
    );
    // Soon: not when the time of the run is up.
    let seconds = json.split(r#""simulated_seconds":"#).nth(1).unwrap();
    let seconds: f64 = seconds.split([',', '}']).next().unwrap().parse().unwrap();
    assert!(seconds < 120.0, "after {seconds} s");
    // A test that wants to wait may.
    let report = run("run bench.toml --seed 2 --clients 2 --no-build --stalled-after off");
    assert!(report.contains("run timed out"), "{report}");
}

#[test]
fn a_run_that_hangs_or_is_interrupted_says_who_waits_for_what() {
    let bench = Bench::new("who-waits-on", "libraryName = 'probe'\n");
    // Without any limit of simulated time.
    let file = probe_file("WatchInVain").replace(
        "testTitle = 'Probe'\n",
        "testTitle = 'Probe'\ntimeout = 1000000000000\n",
    );
    let file = file.replace(PLAIN, &format!("{PLAIN}longRunningTest = true\n"));
    fs::write(bench.folder.join("bench.toml"), file).unwrap();
    let program = |arguments: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shaketable"));
        command
            .args("run bench.toml --seed 2 --clients 1 --no-build --stalled-after off".split(' '))
            .args(arguments.split(' '))
            .current_dir(&bench.folder)
            .stdout(std::process::Stdio::piped());
        command
    };
    let wait = "client 0 waits for a watch of (\"probe\", 7) since ";

    let output = program("--hang-limit 1s").output().unwrap();
    let report = text(&output.stdout);
    assert_eq!(output.status.code(), Some(100), "{report}");
    assert!(report.contains("hung in start of WatchInVain"), "{report}");
    assert!(report.contains("the simulation continues"), "{report}");
    assert!(report.contains(wait), "{report}");

    let child = program("--hang-limit 600s").spawn().unwrap();
    await_simulation(child.id());
    let interrupt = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(interrupt.unwrap().success());
    let output = child.wait_with_output().unwrap();
    let report = text(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{report}");
    assert!(report.contains("seed 2 was interrupted after"), "{report}");
    assert!(
        report.contains(wait) && report.contains("probe/src/lib.rs:"),
        "{report}"
    );
}

/// Waits until a seed's process, the program's grandchild, has used a second of processor time: on
/// a busy machine that may take a while.
fn await_simulation(program: u32) {
    let children = |process: &str| {
        let path = format!("/proc/{process}/task/{process}/children");
        let text = fs::read_to_string(path).unwrap_or_default();
        let children: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        children
    };
    let ticks = |process: &str| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let fields = stat.rsplit(") ").next().unwrap_or_default();
        let used = fields.split(' ').nth(11).and_then(|text| text.parse().ok());
        used.unwrap_or(0_u64)
    };
    const TICKS_PER_SECOND: u64 = 100;
    loop {
        let workers = children(&program.to_string());
        let mut seeds = workers.iter().flat_map(|worker| children(worker));
        if seeds.any(|seed| ticks(&seed) >= TICKS_PER_SECOND) {
            return;
        }
        let paused = Command::new("sleep").arg("0.05").status();
        assert!(paused.unwrap().success());
    }
}

#[test]
fn a_panic_opens_no_file_and_its_words_are_shown() {
    let bench = Bench::new("rust-backtrace", "libraryName = 'probe'\n");
    fs::write(bench.folder.join("bench.toml"), probe_file("PanicStart")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_shaketable"))
        .args("run bench.toml --seed 1 --seeds 2 --no-build".split(' '))
        .current_dir(&bench.folder)
        .env("RUST_BACKTRACE", "full")
        .output()
        .unwrap();
    let report = text(&output.stdout);
    assert!(!report.contains("not controlled"), "{report}");
    assert!(report.contains("panicked at crates/shaketable"), "{report}");
}

/// A test file with one workload of the library `probe`.
fn probe_file(workload: &str) -> String {
    format!(
        "{PLAIN}[[test]]\ntestTitle = 'Probe'\nrunFailureWorkloads = false\n[[test.workload]]\ntestName = 'External'\nlibraryPath = '{}'\nlibraryName = 'probe'\nworkloadName = '{workload}'\n",
        probe().display()
    )
}

#[test]
fn a_crash_is_told_with_the_stack_of_the_code_under_test() {
    let bench = Bench::misbehaving("stack-segfault", "segfault", "start");
    let arguments = "run bench.toml --seed 1 --no-build --clients 3";
    let crashed = bench.run(&arguments.split(' ').collect::<Vec<_>>());
    for output in [&crashed, &hung().1] {
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
    let second = first.replace(PLAIN, "");
    let second = second.replace("late", "log").replace("Bench", "Second");
    fs::write(&file, format!("{first}\n{second}")).unwrap();
    let arguments = "replay bench.toml --seed 1 --no-build --clients 3 --trace-dir . -v";
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
fn a_delay_takes_its_time_a_negative_one_is_refused_and_buggify_prolongs_it() {
    let bench = Bench::new(
        "delay",
        "libraryName = 'misbehave'\nworkloadName = 'W'\nwhat = 'delay'\n",
    );
    let file = bench.folder.join("bench.toml");
    let with_database = fs::read_to_string(&file)
        .unwrap()
        .replace("useDB = false", "runFailureWorkloads = false");
    fs::write(file, with_database).unwrap();
    let prolonged = |knob: &str| {
        let arguments = "replay bench.toml --seed 5 --no-build --clients 240 --trace-dir . --knob";
        let output = bench.run(&arguments.split(' ').chain([knob]).collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
        let trace = fs::read_to_string(bench.folder.join("bench-5.json")).unwrap();
        let delayed = trace.lines().filter(|line| line.contains("\"Delayed\""));
        let answers: Vec<&str> = delayed
            .filter_map(|line| line.split("\"Answer\": \"4100 ").nth(1))
            .collect();
        assert_eq!(answers.len(), 240, "{trace}");
        let seconds = answers.iter().map(|answer| {
            let number = answer.split('"').next().unwrap();
            number.parse::<f64>().unwrap()
        });
        assert!(seconds.clone().all(|seconds| seconds >= 1.0), "{answers:?}");
        seconds.filter(|seconds| *seconds > 1.0).count()
    };
    assert_eq!(prolonged("max_buggified_delay=0"), 0);
    // Of the quarter that is lengthened, very few grow by more than the clock can show.
    let some = prolonged("max_buggified_delay=50");
    assert!((1..20).contains(&some), "{some}");
}

#[test]
fn a_metric_that_is_no_number_harms_nobody() {
    let bench = Bench::misbehaving("no-number", "no-number", "start");
    let arguments = "run bench.toml --seed 1 --no-build --clients 2 -v";
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
        "-v",
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
