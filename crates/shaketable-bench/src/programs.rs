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

/// The program as cargo builds it.
pub fn program() -> PathBuf {
    root().join("target/release/shaketable")
}

/// The program that `.ci/archive` has packed for this machine, if it has.
pub fn packed() -> Option<PathBuf> {
    let folders = std::fs::read_dir(root().join("target/archive")).ok()?;
    let programs = folders
        .flatten()
        .map(|entry| entry.path().join("shaketable"));
    { programs }.find(|program| program.is_file())
}

/// Sweeps seeds from 1 on over an example's test file, with more arguments if need be. Panics if a
/// seed fails.
pub fn sweep(example: &str, seeds: u64, jobs: u64, more: &[&str]) -> Sweep {
    sweep_with(&program(), example, seeds, jobs, more)
}

/// The same with another build of the program.
pub fn sweep_with(program: &Path, example: &str, seeds: u64, jobs: u64, more: &[&str]) -> Sweep {
    let mut command = Command::new(program);
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
    let numbers = python("sequential.py", &[&transactions.to_string()]);
    let [wall_rate, cpu_rate, tests_rate, waiting] = numbers[..] else {
        panic!("expected four numbers from sequential.py, found {numbers:?}");
    };
    Sequential {
        wall_rate,
        cpu_rate,
        tests_rate,
        waiting,
    }
}

/// Runs a script of `benches/` on `libfdb_c.so` and returns the numbers that it prints.
fn python(script: &str, arguments: &[&str]) -> Vec<f64> {
    let (output, _) = gauge::run(
        Command::new("python3")
            .arg(root().join("crates/shaketable-bench/benches").join(script))
            .arg(root().join("target/release/libfdb_c.so"))
            .args(arguments),
    );
    let words = output.split_whitespace();
    words.filter_map(|word| word.parse().ok()).collect()
}

/// What else Python measured.
pub struct Ordinary {
    /// Milliseconds from loading the library to the end of the first transaction, on the wall.
    pub first_wall: f64,
    /// The same in CPU time of all threads.
    pub first_cpu: f64,
    /// What an empty database adds to the memory of the process, in MiB.
    pub memory: f64,
    /// Transactions of 64 threads together, a second of time on the wall.
    pub threads_wall_rate: f64,
    /// The same for a second of CPU time.
    pub threads_cpu_rate: f64,
}

/// Loads `libfdb_c.so` in a Python program, makes its first transaction, and then many from 64
/// threads.
pub fn ordinary(transactions: u64) -> Ordinary {
    let numbers = python("ordinary.py", &["64", &transactions.to_string()]);
    // Those without a name are the memory that belongs to no file, and the number of threads.
    let [
        first_wall,
        first_cpu,
        memory,
        _,
        threads_wall_rate,
        _,
        threads_cpu_rate,
    ] = numbers[..]
    else {
        panic!("expected seven numbers from ordinary.py, found {numbers:?}");
    };
    Ordinary {
        first_wall,
        first_cpu,
        memory,
        threads_wall_rate,
        threads_cpu_rate,
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

/// How long cargo takes to build a user's crate with a simulation in its tests from nothing, and
/// its tests again after a change: CPU time and time on the wall.
pub fn user_builds() -> [Usage; 2] {
    let home = root().join("target/bench-user");
    std::fs::remove_dir_all(&home).ok();
    let write = |path: &str, text: &str| {
        let path = home.join(path);
        let folder = path.parent().expect("a folder");
        std::fs::create_dir_all(folder).expect("a folder for a crate");
        std::fs::write(path, text).expect("a file of a crate");
    };
    let repository = root().canonicalize().expect("the workspace's folder");
    let repository = repository.display();
    // As the README has it.
    let manifest = format!(
        r#"[package]
name = "user"
version = "0.0.0"
edition = "2024"

[workspace]

[dependencies]
foundationdb = {{ version = "0.11", default-features = false, features = ["fdb-7_4", "embedded-fdb-include"] }}

[dev-dependencies]
shaketable = {{ path = "{repository}/crates/shaketable", features = ["embedded", "fdb-7_4"] }}

[patch.crates-io]
foundationdb-sys = {{ path = "{repository}/sys" }}

[profile.dev.package]
shaketable-cluster = {{ opt-level = 2, codegen-units = 4, debug = "line-tables-only", incremental = false }}
shaketable-fdbc = {{ opt-level = 2, codegen-units = 4, debug = "line-tables-only", incremental = false }}
shaketable-host = {{ opt-level = 2, codegen-units = 4, debug = "line-tables-only", incremental = false }}
shaketable-kernel = {{ opt-level = 2, codegen-units = 4, debug = "line-tables-only", incremental = false }}
"#
    );
    write("Cargo.toml", &manifest);
    write("src/lib.rs", "");
    let test = "use shaketable::{PhaseResult, SimDatabase, WorkloadContext};

#[shaketable::sim_test(seeds = 0..1)]
async fn it_runs(db: SimDatabase, _context: WorkloadContext) -> PhaseResult {
    db.run(|trx, _| async move {
        trx.set(b\"a\", b\"b\");
        Ok(())
    })
    .await?;
    Ok(())
}
";
    write("tests/it.rs", test);
    let build = || {
        let mut command = cargo(&["test", "--quiet", "--no-run"]);
        command.current_dir(&home);
        command.env("CARGO_TARGET_DIR", home.join("target"));
        gauge::run(&mut command).1
    };
    let first = build();
    write("tests/it.rs", &format!("{test}\n"));
    let again = build();
    std::fs::remove_dir_all(&home).ok();
    [first, again]
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
