//! A test file in a folder of its own, and the libraries it may name: workloads in C, C++ and Rust,
//! compiled once for all tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// A folder with the compiled libraries, made once for all tests.
pub fn libraries() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("workloads");
        fs::create_dir_all(&folder).unwrap();
        // What a library that needs libfdb_c.so is linked against, and does not find when it is
        // loaded.
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
pub struct Bench {
    pub folder: PathBuf,
}

impl Bench {
    pub fn new(name: &str, options: &str) -> Bench {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join("benches")
            .join(name);
        fs::create_dir_all(&folder).unwrap();
        let text = format!(
            "{PLAIN}[[test]]\ntestTitle = 'Bench'\nuseDB = false\ntimeout = 100\n\n[[test.workload]]\ntestName = 'External'\nlibraryPath = '{}'\n{options}",
            libraries().display()
        );
        fs::write(folder.join("bench.toml"), text).unwrap();
        Bench { folder }
    }

    pub fn misbehaving(name: &str, what: &str, place: &str) -> Bench {
        Bench::new(
            name,
            &format!(
                "libraryName = 'misbehave'\nworkloadName = 'W'\nwhat = '{what}'\nwhere = '{place}'\nonClient = 2\n"
            ),
        )
    }

    /// The same with its results in its own folder, and none yet: the program takes that for a
    /// workspace.
    pub fn alone(self) -> Bench {
        fs::write(self.folder.join("Cargo.lock"), "").unwrap();
        let _ = fs::remove_dir_all(self.folder.join("target"));
        self
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_shaketable"))
            .args(arguments)
            .current_dir(&self.folder)
            .env("NO_COLOR", "1")
            .env_remove("GITHUB_STEP_SUMMARY")
            .env_remove("CARGO_PKG_NAME")
            .output()
            .unwrap()
    }

    /// Runs each seed twice, with these further options.
    pub fn check_determinism(&self, options: &str) -> Output {
        let arguments = format!("check-determinism bench.toml --no-build {options}");
        self.run(&arguments.split(' ').collect::<Vec<_>>())
    }

    /// The first failure of seed 1 without its time, and the exit status.
    pub fn failure(&self, clients: &str) -> (String, Option<i32>) {
        let arguments = "run bench.toml --seed 1 --seeds 2 --no-build --hang-limit 2s --clients";
        first_failure(&self.run(&arguments.split(' ').chain([clients]).collect::<Vec<_>>()))
    }
}

/// The first failure that a run told, without its time, and the exit status.
pub fn first_failure(output: &Output) -> (String, Option<i32>) {
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

/// A run that hung, made once for all tests that look at it: with its record it keeps a processor
/// busy for twelve seconds.
pub fn hung() -> &'static (Bench, Output) {
    static HUNG: OnceLock<(Bench, Output)> = OnceLock::new();
    HUNG.get_or_init(|| {
        let bench = Bench::misbehaving("hung", "spin", "start").alone();
        let arguments = "run bench.toml --seed 1 --no-build --hang-limit 2s --clients 3";
        let output = bench.run(&arguments.split(' ').collect::<Vec<_>>());
        (bench, output)
    })
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a seed draws about the way it is run is the business of tests of its own.
pub const PLAIN: &str = "[configuration]\nswarm = false\n";

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
pub fn counting(name: &str, options: &str) -> Bench {
    let bench = Bench::new(name, "libraryName = 'counter'\n");
    let text = format!(
        "{PLAIN}[[test]]\ntestTitle = 'Counting'\n[[test.workload]]\ntestName = 'External'\nlibraryPath = '{}'\nlibraryName = 'counter'\ncount = 30\n{options}{FAULTS}",
        libraries().display()
    );
    fs::write(bench.folder.join("bench.toml"), text).unwrap();
    bench
}

/// The library with which the crate `shaketable` is tested, one workload for each behaviour; built
/// beside everything else.
pub fn probe() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("probe");
        fs::create_dir_all(&folder).unwrap();
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let _turn = turn();
        let status = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--package", "shaketable-test-probe"])
            .args(["--package", "shaketable-alike"])
            .arg("--target-dir")
            .arg(target)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .unwrap();
        assert!(status.success());
        let fresh = folder.join(format!("libprobe.{}.so", std::process::id()));
        fs::copy(target.join("debug/libprobe.so"), &fresh).unwrap();
        fs::rename(fresh, folder.join("libprobe.so")).unwrap();
        folder
    })
}

/// Waits until no other test builds that library, which has one name whatever its features.
pub fn turn() -> fs::File {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hosts");
    fs::create_dir_all(&folder).unwrap();
    let turn = fs::File::create(folder.join("lock")).unwrap();
    turn.lock().unwrap();
    turn
}
