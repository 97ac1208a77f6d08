//! `list`: test files with their tests, workloads and libraries.

use crate::args::{ListArgs, MessageFormat};
use crate::exit_codes;
use serde::Serialize;
use shaketable_host::testfile::{EXTERNAL, TestFile};
use std::path::{Path, PathBuf};

/// Lists.
pub fn list(args: &ListArgs) -> u8 {
    let files = find_test_files(&args.paths);
    if files.is_empty() {
        eprintln!(
            "no test file found below {}: a test file is TOML with `[[test]]` tables",
            show(&args.paths)
        );
        return exit_codes::NOTHING_RUN;
    }
    let mut wrong = false;
    for path in files {
        match TestFile::read(&path) {
            Ok(file) => match args.message_format {
                MessageFormat::Human => anstream::print!("{}", describe(&file)),
                MessageFormat::Json => println!("{}", json(&file)),
            },
            Err(error) => {
                wrong = true;
                anstream::eprintln!("{error}");
            }
        }
    }
    if wrong {
        exit_codes::SETUP_FAILED
    } else {
        exit_codes::PASSED
    }
}

/// Test files among the paths: files as they are, folders searched.
pub fn find_test_files(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            search(path, &mut found);
        } else {
            found.push(path.clone());
        }
    }
    found.sort();
    found.dedup();
    found
}

fn search(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                search(&path, found);
            }
        } else if name.ends_with(".toml") && has_tests(&path) {
            found.push(path.strip_prefix("./").map(Path::to_owned).unwrap_or(path));
        }
    }
}

/// Whether a TOML file is a test file: a manifest has `[[test]]` tables too, but no workloads.
fn has_tests(path: &Path) -> bool {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .any(|line| line.trim_start().starts_with("[[test.workload]]"))
        || shaketable_host::case::is_case(&text)
}

/// Paths as a list.
pub fn show(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    paths.join(", ")
}

fn describe(file: &TestFile) -> String {
    let mut out = format!("{}\n", file.path.display());
    for test in &file.tests {
        out.push_str(&format!("  {}\n", test.name()));
        for workload in &test.workloads {
            let library = workload.option("libraryName").unwrap_or_default();
            let name = workload.option("workloadName").unwrap_or_default();
            if workload.name == EXTERNAL {
                out.push_str(&format!("    {name} of lib{library}.so\n"));
            } else {
                out.push_str(&format!("    {}\n", workload.name));
            }
        }
    }
    out
}

#[derive(Serialize)]
struct Listed<'a> {
    r#type: &'static str,
    file: &'a Path,
    tests: Vec<ListedTest<'a>>,
}

#[derive(Serialize)]
struct ListedTest<'a> {
    title: &'a str,
    workloads: Vec<ListedWorkload<'a>>,
}

#[derive(Serialize)]
struct ListedWorkload<'a> {
    test_name: &'a str,
    workload_name: Option<&'a str>,
    library_name: Option<&'a str>,
}

fn json(file: &TestFile) -> String {
    let tests = file.tests.iter().map(|test| ListedTest {
        title: &test.title,
        workloads: test
            .workloads
            .iter()
            .map(|workload| ListedWorkload {
                test_name: &workload.name,
                workload_name: workload.option("workloadName"),
                library_name: workload.option("libraryName"),
            })
            .collect(),
    });
    let listed = Listed {
        r#type: "test_file",
        file: &file.path,
        tests: tests.collect(),
    };
    serde_json::to_string(&listed).expect("a list can be written")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "[[test]]\ntestTitle = 'Atomic'\n[[test.workload]]\ntestName = 'External'\nlibraryName = 'atomic'\nworkloadName = 'Atomic'\n[[test.workload]]\ntestName = 'Attrition'\n";

    #[test]
    fn a_file_is_listed_with_its_workloads() {
        let file = TestFile::parse(Path::new("tests/atomic.toml"), FILE).unwrap();
        insta::assert_snapshot!(describe(&file), @r"
        tests/atomic.toml
          Atomic
            Atomic of libatomic.so
            Attrition
        ");
        insta::assert_snapshot!(json(&file), @r#"{"type":"test_file","file":"tests/atomic.toml","tests":[{"title":"Atomic","workloads":[{"test_name":"External","workload_name":"Atomic","library_name":"atomic"},{"test_name":"Attrition","workload_name":null,"library_name":null}]}]}"#);
    }
}
