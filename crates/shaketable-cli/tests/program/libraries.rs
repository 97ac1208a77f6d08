//! Which library is loaded, how it is built, and the message about one that cannot be used.

use crate::bench::{Bench, libraries, text};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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
fn a_workload_in_cpp_runs_through_the_c_interface_with_and_without_the_file_saying_so() {
    let run = |what: &str, use_capi: &str| {
        let name = format!("cpp-{what}-{}", use_capi.len());
        let options =
            format!("libraryName = 'classy'\nworkloadName = 'W'\nwhat = '{what}'\n{use_capi}");
        let bench = Bench::new(&name, &options);
        let arguments = "replay bench.toml --seed 5 --no-build --clients 1 --trace-dir . -v";
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
fn a_relative_library_path_is_one_from_here_or_from_the_file() {
    let bench = Bench::misbehaving("relative", "nothing", "start");
    let tests = bench.folder.join("tests");
    for folder in [bench.folder.join("here"), tests.join("there")] {
        fs::create_dir_all(&folder).unwrap();
        fs::copy(
            libraries().join("libmisbehave.so"),
            folder.join("libmisbehave.so"),
        )
        .unwrap();
    }
    let file = fs::read_to_string(bench.folder.join("bench.toml")).unwrap();
    for folder in ["here", "there", "./here/"] {
        let file = file.replace(&libraries().display().to_string(), folder);
        fs::write(tests.join("relative.toml"), file).unwrap();
        let output = bench.run(&["run", "tests/relative.toml", "--seed", "1", "--no-build"]);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{folder}: {}",
            text(&output.stderr)
        );
    }
}

/// A package of its own with two libraries, neither of which depends on anything.
fn package(name: &str, source: &str) -> Bench {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(folder.join("tests")).unwrap();
    let manifest = format!(
        "[package]\nname = '{name}'\nversion = '0.0.0'\nedition = '2024'\n\n[workspace]\n\n\
         [lib]\nname = 'outer'\ncrate-type = ['cdylib']\npath = '{source}'\n\n\
         [[example]]\nname = 'tiny'\ncrate-type = ['cdylib']\npath = '{source}'\n"
    );
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    for library in ["outer", "tiny"] {
        let file = format!(
            "[[test]]\ntestTitle = '{library}'\nuseDB = false\n[[test.workload]]\ntestName = 'External'\nlibraryName = '{library}'\n"
        );
        fs::write(folder.join(format!("tests/{library}.toml")), file).unwrap();
    }
    Bench { folder }
}

#[test]
fn the_library_of_a_package_or_of_its_example_is_built_first() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workloads/stray.rs");
    let bench = package("two-libraries", source.to_str().unwrap());
    let cargo = |arguments: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_cargo-shaketable"))
            .arg("shaketable")
            .args(arguments.split(' '))
            .current_dir(&bench.folder)
            .env("NO_COLOR", "1")
            .env_remove("GITHUB_STEP_SUMMARY")
            .env_remove("CARGO_TARGET_DIR")
            .output()
            .unwrap();
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };
    let (code, report, errors) = cargo("run -p two-libraries --seed 1 --seeds 2");
    assert_eq!(code, Some(0), "{errors}");
    assert!(report.starts_with("4 runs: passed"), "{report}");
    let (_, report, errors) = cargo("run -p two-libraries --example tiny --seed 1 --seeds 3");
    assert!(report.starts_with("3 runs: passed"), "{report}{errors}");
    let (_, report, errors) = cargo("run tests/outer.toml --seed 1 --seeds 2 --profile dev");
    assert!(report.starts_with("2 runs: passed"), "{report}{errors}");
    let (code, _, errors) = cargo("run -p nobody --seed 1");
    assert_eq!(code, Some(96), "{errors}");
    assert!(errors.contains("nobody"), "{errors}");
}

#[test]
fn a_library_that_does_not_build_has_its_exit_status() {
    let bench = package("does-not-build", "broken.rs");
    fs::write(bench.folder.join("broken.rs"), "this is no Rust").unwrap();
    let output = bench.run(&["run", "tests/outer.toml", "--seed", "1"]);
    assert_eq!(output.status.code(), Some(101), "{}", text(&output.stderr));
}
