//! What is measured from outside: the program `shaketable` with the examples, `libfdb_c.so` in a
//! Python program, and cargo itself.

use crate::gauge::{self, Usage};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Cargo, in the workspace's folder.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(arguments);
    command
}

/// Builds the program, `libfdb_c.so` and the examples that are measured.
pub fn build() {
    let packages = [
        "shaketable-cli",
        "fdb_c",
        "shaketable-example-atomic",
        "shaketable-example-cycle",
        "shaketable-example-bank",
    ];
    let mut arguments = vec!["build", "--quiet", "--release"];
    arguments.extend(packages.iter().flat_map(|package| ["--package", *package]));
    gauge::run(&mut cargo(&arguments));
}

/// A sweep that has run.
pub struct Sweep {
    /// How many seeds passed.
    pub passed: f64,
    /// How much time passed inside the simulations, in seconds.
    pub simulated: f64,
    /// What it used.
    pub usage: Usage,
}

/// Sweeps seeds from 1 on over an example's test file, with more arguments if need be. Panics if a
/// seed fails.
pub fn sweep(example: &str, seeds: u64, jobs: u64, more: &[&str]) -> Sweep {
    let mut command = Command::new(root().join("target/release/shaketable"));
    command
        .current_dir(root())
        .args(["run", "--no-build", "--message-format", "json"])
        .args(["--seed", "1", "--seeds", &seeds.to_string()])
        .args(["--jobs", &jobs.to_string()])
        .args(more)
        .arg(format!("examples/{example}/{example}.toml"));
    let (output, usage) = gauge::run(&mut command);
    let summary = output.lines().last().unwrap_or_default();
    let summary: serde_json::Value =
        serde_json::from_str(summary).expect("a sweep ends with a summary");
    let field = |name: &str| summary[name].as_f64().expect("a number");
    Sweep {
        passed: field("passed"),
        simulated: field("simulated_seconds"),
        usage,
    }
}

/// What Python measured.
pub struct Sequential {
    /// Transactions a second of time on the wall.
    pub wall_rate: f64,
    /// Transactions a second of CPU time of all threads.
    pub cpu_rate: f64,
    /// Unit tests a second.
    pub tests_rate: f64,
    /// The part of their time in which they wait for the library, in per cent.
    pub waiting: f64,
}

/// Makes get + set + commit transactions one after another in a Python program on `libfdb_c.so`,
/// and runs unit tests.
pub fn sequential(transactions: u64) -> Sequential {
    let (output, _) = gauge::run(
        Command::new("python3")
            .arg(root().join("crates/shaketable-bench/benches/sequential.py"))
            .arg(root().join("target/release/libfdb_c.so"))
            .arg(transactions.to_string()),
    );
    let numbers: Vec<f64> = output
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let [wall_rate, cpu_rate, tests_rate, waiting] = numbers[..] else {
        panic!("expected four numbers from sequential.py, found: {output}");
    };
    Sequential {
        wall_rate,
        cpu_rate,
        tests_rate,
        waiting,
    }
}

/// The executor's instructions and those of the published one: for a task that is ready at once,
/// and for a wake-up with its poll. `None` where there is no valgrind.
pub fn executor_cost() -> Option<[(f64, f64); 2]> {
    Command::new("valgrind").arg("--version").output().ok()?;
    let (output, _) = gauge::run(&mut Command::new(
        root().join("conformance/executor-cost/run"),
    ));
    let pair = |line: &str| {
        let mut numbers = line.split([' ', ',']).filter_map(|word| word.parse().ok());
        Some((numbers.next()?, numbers.next()?))
    };
    let mut lines = output.lines().filter_map(pair);
    Some([lines.next()?, lines.next()?])
}

/// How long cargo takes to build the program from nothing, and a workload crate again after a
/// change: CPU time and time on the wall.
pub fn builds() -> [Usage; 2] {
    let scratch = root().join("target/bench-build");
    let build = |package: &str| {
        let arguments = ["build", "--quiet", "--release", "--package", package];
        let mut command = cargo(&arguments);
        command.env("CARGO_TARGET_DIR", &scratch);
        gauge::run(&mut command).1
    };
    std::fs::remove_dir_all(&scratch).ok();
    let program = build("shaketable-cli");
    build("shaketable-example-bank");
    let source = root().join("examples/bank/src/lib.rs");
    let file = std::fs::File::options()
        .append(true)
        .open(&source)
        .expect("the example's source");
    file.set_modified(now()).expect("its time can be set");
    let again = build("shaketable-example-bank");
    std::fs::remove_dir_all(&scratch).ok();
    [program, again]
}

#[expect(
    clippy::disallowed_methods,
    reason = "cargo compares times of files with the machine's"
)]
fn now() -> std::time::SystemTime {
    std::time::SystemTime::now()
}
