//! Decisions, cases, and what is made of them: `decisions`, `minimise`, `when`, `bugs`.

use crate::bench::{Bench, PLAIN, counting, text};
use std::fs;

/// A bench whose results are in its own folder: the program takes that for a workspace. Its seeds
/// draw how they are run.
fn alone(name: &str, options: &str) -> Bench {
    let bench = counting(name, options);
    let path = bench.folder.join("bench.toml");
    let file = fs::read_to_string(&path).unwrap().replace(PLAIN, "");
    fs::write(&path, file).unwrap();
    fs::write(bench.folder.join("Cargo.lock"), "").unwrap();
    for folder in ["target", "bugs", ".shaketable"] {
        let _ = fs::remove_dir_all(bench.folder.join(folder));
    }
    bench
}

/// Runs the program; returns what it printed and its exit status.
fn run(bench: &Bench, arguments: &str) -> (String, Option<i32>) {
    let output = bench.run(&arguments.split(' ').collect::<Vec<_>>());
    let printed = text(&output.stdout) + &text(&output.stderr);
    (printed, output.status.code())
}

/// A counter that makes an increment again when it does not know whether it was made.
fn careless(name: &str) -> Bench {
    alone(name, "careless = 1\n")
}

/// The same with few increments, for what does not look at how small a run was made: of a short run
/// that takes half as long.
fn briefly_careless(name: &str) -> Bench {
    let bench = careless(name);
    let path = bench.folder.join("bench.toml");
    let file = fs::read_to_string(&path).unwrap();
    fs::write(&path, file.replace("count = 30", "count = 8")).unwrap();
    bench
}

#[test]
fn a_failure_is_made_small_and_the_case_fails_every_time_in_every_command() {
    let bench = careless("minimise");
    let sweep = "run bench.toml --seed 1 --seeds 10 --stress --no-build --minimise";
    let (printed, code) = run(&bench, sweep);
    assert_eq!(code, Some(100), "{printed}");
    // Nothing is remembered where there is no memory.
    assert!(!bench.folder.join(".shaketable/bugs").exists());
    let needs = "is lost; without it the run passes";
    assert!(printed.contains(needs), "{printed}");
    let line = printed.lines().find(|line| line.starts_with("  case "));
    let line = line.unwrap_or_else(|| panic!("{printed}"));
    let case = line.split_whitespace().nth(1).unwrap();
    let source = fs::read_to_string(bench.folder.join(case)).unwrap();
    // One lost reply, one client, one increment.
    for expected in ["clients = 1\n", "is lost/tester 0 1\"", "count = 1\n"] {
        assert!(source.contains(expected), "no {expected:?} in {source}");
    }
    for _ in 0..3 {
        let (printed, code) = run(&bench, &format!("run {case} --no-build"));
        assert_eq!(code, Some(100), "{printed}");
        assert!(printed.contains("Sum=2 of 1"), "{printed}");
    }
    let (printed, code) = run(&bench, &format!("replay {case} --no-build"));
    assert_eq!(code, Some(100), "{printed}");
    let folder = printed
        .lines()
        .find_map(|line| line.strip_prefix("  folder "));
    let folder = folder.unwrap_or_else(|| panic!("{printed}")).trim();
    for file in [
        "record.jsonl.gz",
        "trace.json",
        "report.txt",
        "timeline.html",
    ] {
        assert!(bench.folder.join(folder).join(file).is_file(), "no {file}");
    }
    let (printed, code) = run(&bench, &format!("page {folder} --output case.html"));
    assert_eq!(code, Some(0), "{printed}");
    for of in [case, folder] {
        let (printed, code) = run(&bench, &format!("log {of} --no-build --last 3"));
        assert_eq!(code, Some(0), "{printed}");
        assert!(printed.contains("client 0, "), "{printed}");
    }
    let (printed, code) = run(&bench, &format!("explain {folder}"));
    assert_eq!(code, Some(100), "{printed}");
    assert!(printed.contains("retry-after-unknown-result"), "{printed}");
    let (printed, code) = run(&bench, &format!("explain {case} --no-build"));
    assert_eq!(code, Some(100), "{printed}");
    assert!(printed.contains("retry-after-unknown-result"), "{printed}");
    let (printed, code) = run(&bench, &format!("check-determinism {case} --no-build"));
    assert_eq!(code, Some(0), "{printed}");
    let (printed, code) = run(&bench, &format!("decisions {case} --no-build"));
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains("(forced)"), "{printed}");
    let (printed, code) = run(&bench, &format!("when {case} --no-build --futures 5"));
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains("the largest step"), "{printed}");
}

#[test]
fn failures_are_made_small_unasked_only_for_a_person_who_waits() {
    let bench = briefly_careless("unasked");
    let sweep = "run bench.toml --seed 1 --seeds 10 --stress --no-build";
    let (printed, code) = run(&bench, sweep);
    assert_eq!(code, Some(100), "{printed}");
    assert!(!printed.contains("  needs "), "{printed}");
    let program = env!("CARGO_BIN_EXE_shaketable");
    let on_a_terminal = |arguments: &str| {
        let output = std::process::Command::new("script")
            .args([
                "-qec",
                &format!("{program} {sweep}{arguments}"),
                "/dev/null",
            ])
            .current_dir(&bench.folder)
            .env_remove("CI")
            .output();
        text(&output.expect("util-linux is there").stdout)
    };
    let printed = on_a_terminal("");
    assert!(printed.contains("making the failure small"), "{printed}");
    assert!(printed.contains("  needs "), "{printed}");
    let printed = on_a_terminal(" --minimise=never");
    assert!(printed.contains("FAIL"), "{printed}");
    assert!(!printed.contains("  needs "), "{printed}");
}

#[test]
fn a_bug_is_remembered_until_it_is_gone() {
    let bench = briefly_careless("remember");
    let sweep = "run bench.toml --seed 1 --seeds 10 --stress --no-build --remember=bugs";
    for _ in 0..2 {
        let (printed, code) = run(&bench, sweep);
        assert_eq!(code, Some(100), "{printed}");
    }
    let cases: Vec<_> = fs::read_dir(bench.folder.join("bugs")).unwrap().collect();
    assert_eq!(cases.len(), 1, "{cases:?}");
    let (printed, code) = run(&bench, "bugs bugs --no-build");
    assert_eq!(code, Some(100), "{printed}");
    assert!(printed.starts_with("still there  "), "{printed}");
    assert!(printed.contains("retry-after-unknown-result"), "{printed}");
    let path = bench.folder.join("bench.toml");
    let fixed = fs::read_to_string(&path)
        .unwrap()
        .replace("careless = 1", "careless = 0");
    fs::write(&path, fixed).unwrap();
    let case = cases[0].as_ref().unwrap().path();
    let source = fs::read_to_string(&case)
        .unwrap()
        .replace("careless = 1", "careless = 0");
    fs::write(&case, source).unwrap();
    let (printed, code) = run(&bench, "bugs bugs --no-build");
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.starts_with("gone  "), "{printed}");
}

#[test]
fn bugs_are_remembered_unasked_where_there_is_a_memory() {
    let bench = briefly_careless("memory");
    let folder = bench.folder.join(".shaketable/bugs");
    let sweep = "run bench.toml --seed 1 --seeds 10 --stress --no-build";
    // Without this folder nothing is remembered: see the test of what is made small.
    fs::create_dir_all(&folder).unwrap();
    let (printed, _) = run(&bench, &format!("{sweep} --minimise"));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "{printed}");
    assert!(!printed.contains("  known "), "{printed}");
    // A bug that is known is named, also if nothing is made small.
    let (printed, _) = run(&bench, sweep);
    let known = printed.lines().find(|line| line.starts_with("  known "));
    let known = known.unwrap_or_else(|| panic!("{printed}"));
    assert!(known.contains(".shaketable/bugs/"), "{printed}");
    assert!(!printed.contains("  needs "), "{printed}");
}

#[test]
fn a_case_that_no_longer_applies_fails() {
    let bench = alone("outdated", "");
    let case = "[case]\ntest = \"bench.toml\"\nseed = 3\nonly = [\"Attrition/kill 999\"]\n";
    fs::write(bench.folder.join("case.toml"), case).unwrap();
    let (printed, code) = run(&bench, "run case.toml --no-build");
    assert_eq!(code, Some(100), "{printed}");
    let expected = "the case no longer applies: `Attrition/kill 999` never came up";
    assert!(printed.contains(expected), "{printed}");
}

#[test]
fn a_wrong_case_is_refused_with_its_place() {
    let bench = alone("wrong-case", "");
    let case = "[case]\ntest = \"bench.toml\"\nsed = 3\n";
    fs::write(bench.folder.join("case.toml"), case).unwrap();
    let (printed, code) = run(&bench, "run case.toml --no-build");
    assert_eq!(code, Some(96), "{printed}");
    insta::assert_snapshot!(printed.trim_end());
}

#[test]
fn one_run_needs_one_file_with_one_seed() {
    let bench = alone("one-run", "");
    let folder = bench.folder.join("cases");
    fs::create_dir_all(&folder).unwrap();
    for (name, test) in [("one", "../bench.toml"), ("itself", "itself.toml")] {
        let case = format!("[case]\ntest = \"{test}\"\nseed = 3\n");
        fs::write(folder.join(format!("{name}.toml")), case).unwrap();
    }
    let refused = |arguments: &str, expected: &str| {
        let (printed, code) = run(&bench, arguments);
        assert!(printed.contains(expected), "{arguments}: {printed}");
        assert_ne!(code, Some(0), "{arguments}");
    };
    refused(
        "replay cases/one.toml --seed 4 --no-build",
        "cases/one.toml is a case with seed 3: leave --seed 4 out",
    );
    refused(
        "decisions cases/itself.toml --no-build",
        "`test` names a case, cases/itself.toml",
    );
    fs::remove_file(folder.join("itself.toml")).unwrap();
    fs::copy(folder.join("one.toml"), folder.join("two.toml")).unwrap();
    refused(
        "minimise cases --no-build",
        "expected one test file or case, found 2: name one of them, such as cases/one.toml",
    );
}

#[test]
fn what_passes_cannot_be_made_small() {
    let bench = alone("passes", "");
    let (printed, code) = run(&bench, "minimise bench.toml --seed 3 --no-build");
    assert_eq!(code, Some(4), "{printed}");
    insta::assert_snapshot!(printed.trim_end());
}

#[test]
fn a_seed_is_run_in_its_own_way_and_in_the_same_way_by_every_command() {
    let bench = careless("swarm");
    let sweep = "run bench.toml --seed 1 --seeds 30 --no-build --message-format json";
    let (printed, code) = run(&bench, sweep);
    assert_eq!(code, Some(100), "{printed}");
    let messages = printed.lines().map(serde_json::from_str);
    let messages: Vec<serde_json::Value> = messages.filter_map(Result::ok).collect();
    let failure = messages.iter().find(|message| message["type"] == "failure");
    let failure = failure.unwrap_or_else(|| panic!("{printed}"));
    let (outcome, seed) = (&failure["outcome"], &failure["outcome"]["seed"]);
    let drawn = &outcome["drawn"];
    assert_ne!(drawn["swarm"], "off", "{drawn}");
    // The seed says it all.
    let again = format!("shaketable replay bench.toml --seed {seed} --no-build");
    assert_eq!(failure["reproduce"], again);
    let message = outcome["failures"][0]["message"].as_str().unwrap();
    for command in ["replay", "explain", "decisions"] {
        let (printed, _) = run(
            &bench,
            &format!("{command} bench.toml --seed {seed} --no-build"),
        );
        // Long lines are broken between words.
        let printed = printed.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(printed.contains(message), "{command}: {printed}");
        if command == "explain" {
            let clients = &drawn["clients"];
            let expected = format!("drawn: {clients} clients, buggify ");
            assert!(printed.contains(&expected), "no {expected:?} in {printed}");
        }
    }
    // Without a swarm it is another run, and its line says so.
    let (printed, _) = run(&bench, &format!("{sweep} --swarm off"));
    assert!(printed.contains(" --swarm off "), "{printed}");
    assert!(!printed.contains("\"swarm\":\"varied\""), "{printed}");
}
