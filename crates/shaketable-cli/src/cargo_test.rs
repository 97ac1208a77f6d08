//! Runs a case of a test of `cargo test`, as a person would: with `cargo test`.
//!
//! The simulation of such a test is described in Rust, so only the test program can run it. It is
//! told by its environment which case to run, whether to make it small, and where to write what
//! became of it.

use shaketable_host::case::{
    CASE_VARIABLE, Case, MINIMISE_VARIABLE, MINIMISED_VARIABLE, OUTCOME_VARIABLE,
};
use shaketable_host::minimise::told::Told;
use shaketable_host::verdict::Outcome;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The last lines of what cargo prints are shown if there is no outcome.
const LINES_SHOWN: usize = 8;

/// What a test program told of a case.
pub struct Ran {
    pub outcome: Outcome,
    /// How small the case became, if it became smaller.
    pub minimised: Option<Told>,
}

/// Runs the case in this file, and makes it small within a budget, if there is one. Returns what
/// became of it, or why the test did not run.
pub fn run(case: &Case, path: &Path, budget: Option<Duration>) -> Result<Ran, String> {
    let path = std::path::absolute(path).map_err(|error| error.to_string())?;
    let outcome = std::env::temp_dir().join(format!("shaketable-outcome-{}", std::process::id()));
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.arg("test");
    if let Some(package) = &case.package {
        cargo.args(["--package", package]);
    }
    cargo.args(&case.cargo_test);
    cargo.args(["--", "--exact", "--include-ignored"]);
    cargo.env(CASE_VARIABLE, &path);
    cargo.env(OUTCOME_VARIABLE, &outcome);
    let minimised = outcome.with_extension("minimised");
    cargo.env(MINIMISED_VARIABLE, &minimised);
    let budget = budget.map_or("off".to_owned(), |budget| {
        humantime::format_duration(budget)
            .to_string()
            .replace(' ', "")
    });
    cargo.env(MINIMISE_VARIABLE, budget);
    let output = cargo.output().map_err(|error| error.to_string())?;
    let found = std::fs::read(&outcome).ok();
    let told = Told::read(&minimised).ok();
    for file in [&outcome, &minimised] {
        let _ = std::fs::remove_file(file);
    }
    let found = found.and_then(|json| serde_json::from_slice(&json).ok());
    let ran = found.map(|outcome| Ran {
        outcome,
        minimised: told,
    });
    ran.ok_or_else(|| {
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        let lines: Vec<&str> = printed.lines().collect();
        let last = &lines[lines.len().saturating_sub(LINES_SHOWN)..];
        format!("`cargo test` did not run it:\n{}", last.join("\n"))
    })
}
