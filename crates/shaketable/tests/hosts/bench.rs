//! Builds hosts and libraries, runs them, and reads what they wrote.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{LazyLock, Mutex, OnceLock};

/// What a run wrote, and how it ended.
pub struct Run {
    pub stdout: String,
    pub stderr: String,
    pub code: Option<i32>,
}

impl Run {
    /// The lines of stdout that contain `text`.
    pub fn lines(&self, text: &str) -> Vec<&str> {
        self.stdout
            .lines()
            .filter(|line| line.contains(text))
            .collect()
    }

    /// Fails unless stdout has this line.
    #[track_caller]
    pub fn expect_line(&self, line: &str) -> &Self {
        assert!(
            self.stdout.lines().any(|l| l == line),
            "no line `{line}` in\n{self}"
        );
        self
    }

    /// Fails unless stdout has this line so many times.
    #[track_caller]
    pub fn expect_lines(&self, line: &str, count: usize) -> &Self {
        let found = self.stdout.lines().filter(|l| *l == line).count();
        assert_eq!(found, count, "lines `{line}` in\n{self}");
        self
    }

    /// Fails unless some line of stdout has all these texts.
    #[track_caller]
    pub fn expect_line_with(&self, texts: &[&str]) -> &Self {
        let found = self
            .stdout
            .lines()
            .any(|line| texts.iter().all(|text| line.contains(text)));
        assert!(found, "no line with {texts:?} in\n{self}");
        self
    }

    /// Fails unless stderr contains this text.
    #[track_caller]
    pub fn expect_stderr(&self, text: &str) -> &Self {
        assert!(
            self.stderr.contains(text),
            "no `{text}` on stderr of\n{self}"
        );
        self
    }

    /// Fails unless stdout has no line with this text.
    #[track_caller]
    pub fn refuse(&self, text: &str) -> &Self {
        assert!(
            self.lines(text).is_empty(),
            "unexpected `{text}` in\n{self}"
        );
        self
    }

    /// Fails unless the host came to its end and saw nothing that a library must not do.
    #[track_caller]
    pub fn expect_sound(&self) -> &Self {
        assert_eq!(self.code, Some(0), "{self}");
        self.expect_line("end").refuse("BUG")
    }
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Run {
            stdout,
            stderr,
            code,
        } = self;
        write!(
            f,
            "stdout:\n{stdout}\nstderr:\n{stderr}\nexit code: {code:?}"
        )
    }
}

/// A host program, ready to run.
pub struct Host(PathBuf);

impl Host {
    /// Compiles one of the programs in this folder.
    pub fn compile(source: &str, name: &str, flags: &[&str]) -> Host {
        let _turn = turn("lock-hosts");
        static LIBFDB_C: OnceLock<()> = OnceLock::new();
        LIBFDB_C.get_or_init(compile_libfdb_c);
        let program = bench().join(name);
        let fresh = program.with_extension("new");
        let compiler = if source.ends_with(".cpp") {
            "c++"
        } else {
            "cc"
        };
        let mut command = Command::new(compiler);
        command
            .args(["-g", "-Wall", "-Wextra", "-o"])
            .arg(&fresh)
            .args(flags)
            .arg(folder().join(source))
            .arg("-L")
            .arg(bench())
            .arg("-lfdb_c")
            .arg("-ldl")
            .arg(format!("-Wl,-rpath,{}", bench().display()));
        succeed(command);
        put_in_place(&fresh, &program);
        Host(program)
    }

    /// Runs the host on a library.
    pub fn run<A: AsRef<OsStr>>(&self, library: &Path, arguments: &[A]) -> Run {
        self.run_with_stderr(library, arguments, Stdio::piped())
    }

    /// Runs the host with a stderr to which nothing can be written.
    pub fn run_with_full_stderr<A: AsRef<OsStr>>(&self, library: &Path, arguments: &[A]) -> Run {
        let full = fs::OpenOptions::new().write(true).open("/dev/full");
        self.run_with_stderr(library, arguments, full.expect("/dev/full").into())
    }

    fn run_with_stderr<A: AsRef<OsStr>>(
        &self,
        library: &Path,
        arguments: &[A],
        stderr: Stdio,
    ) -> Run {
        let mut command = if is_under_valgrind() {
            let mut command = Command::new("valgrind");
            command.args([
                "--quiet",
                "--error-exitcode=99",
                "--leak-check=full",
                "--show-leak-kinds=definite",
                "--errors-for-leak-kinds=definite",
            ]);
            command.arg(&self.0);
            command
        } else {
            Command::new(&self.0)
        };
        let output = command
            .arg(library)
            .args(arguments)
            .env("LD_LIBRARY_PATH", bench())
            .stderr(stderr)
            .output()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Run {
            stdout: without_tags(&text(&output.stdout)),
            stderr: text(&output.stderr),
            code: output.status.code(),
        }
    }
}

/// Whether hosts run under valgrind.
pub fn is_under_valgrind() -> bool {
    env::var_os("SHAKETABLE_VALGRIND").is_some()
}

/// What a host printed, without the tags that end every event of a workload.
fn without_tags(stdout: &str) -> String {
    const EVERY_EVENT: &str = " | RustWorkload=1";
    const EVERY_ERROR: &str = " | RustFailure=1";
    let count = |text: &str| stdout.matches(text).count();
    assert_eq!(count(" trace "), count(EVERY_EVENT), "{stdout}");
    assert_eq!(count(" trace error "), count(EVERY_ERROR), "{stdout}");
    stdout.replace(EVERY_ERROR, "").replace(EVERY_EVENT, "")
}

/// Builds `tests/workloads/probe` with these features, and returns the path of the library.
pub fn probe(features: &str) -> PathBuf {
    build_probe(features, features, None)
}

/// The library with its workloads on tokio.
pub fn probe_on_tokio() -> PathBuf {
    build_probe("tokio", "fdb-7_4,tokio", None)
}

/// The library that answers for time and randomness itself.
pub fn probe_that_is_hermetic() -> PathBuf {
    build_probe("hermetic", "fdb-7_4,hermetic", None)
}

/// The library that records what its clients see.
pub fn probe_that_records() -> PathBuf {
    build_probe("record", "fdb-7_4,record", None)
}

/// The library as a profile with `panic = "abort"` builds it. The crates of other people stay as
/// they are: with that profile all of them would be compiled for this one library.
pub fn probe_that_aborts() -> PathBuf {
    build_probe("abort", "fdb-7_4", Some("rustc-that-aborts"))
}

/// Builds one of the libraries in `examples/`.
pub fn example(name: &str) -> PathBuf {
    let mut command = Command::new(env!("CARGO"));
    command
        .args(["build", "--quiet", "--manifest-path"])
        .arg(
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../examples/{name}/Cargo.toml")),
        )
        .arg("--target-dir")
        .arg(target());
    succeed(command);
    target().join(format!("debug/lib{name}.so"))
}

fn build_probe(variant: &str, features: &str, compiler: Option<&str>) -> PathBuf {
    // All variants are built in the target folder of this test, where most dependencies are built
    // already, and under one name; so each is put aside before the next one is built.
    let _turn = turn("lock");
    static BUILT: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let library = bench().join(format!("libprobe-{variant}.so"));
    if BUILT.lock().unwrap().contains(variant) {
        return library;
    }
    let mut command = Command::new(env!("CARGO"));
    command
        .args(["build", "--quiet", "--package", "shaketable-test-probe"])
        .args(["--package", "shaketable-alike"])
        .args(["--no-default-features", "--features", features])
        .arg("--target-dir")
        .arg(target())
        .arg("--manifest-path")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workloads/probe/Cargo.toml"));
    if let Some(compiler) = compiler {
        command.env("RUSTC_WORKSPACE_WRAPPER", folder().join(compiler));
    }
    succeed(command);
    let fresh = library.with_extension("new");
    fs::copy(target().join("debug/libprobe.so"), &fresh).expect("the library");
    put_in_place(&fresh, &library);
    BUILT.lock().unwrap().insert(variant.to_owned());
    library
}

/// Another test may be running or linking the old one.
fn put_in_place(fresh: &Path, place: &Path) {
    fs::rename(fresh, place).expect("what was just built");
}

/// Waits until no other test builds what this file stands for, also not in another process: under
/// nextest each test is one. Hosts and libraries have nothing in common, and are built at once.
fn turn(lock: &str) -> fs::File {
    let file = fs::File::create(bench().join(lock)).expect("a file to lock");
    file.lock().expect("a lock");
    file
}

/// The fake client library: our few functions, and a stub for each of the others.
fn compile_libfdb_c() {
    let implemented = fs::read_to_string(folder().join("fake_fdb.c")).expect("fake_fdb.c");
    let symbols = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sys/symbols.csv");
    let symbols = fs::read_to_string(symbols).expect("the list of functions");
    let stubs: String = symbols
        .lines()
        .filter_map(|line| line.split(',').next())
        .filter(|name| name.starts_with("fdb_") && !implemented.contains(&format!("{name}(")))
        .map(|name| format!("void {name}(void) {{ abort(); }}\n"))
        .collect();
    let stubs_file = bench().join("stubs.c");
    fs::write(&stubs_file, format!("#include <stdlib.h>\n{stubs}")).expect("stubs.c");
    let mut command = Command::new("cc");
    command
        .args(["-g", "-shared", "-fPIC", "-Wl,-soname,libfdb_c.so", "-o"])
        .arg(bench().join("libfdb_c.so.new"))
        .arg(folder().join("fake_fdb.c"))
        .arg(stubs_file);
    succeed(command);
    put_in_place(
        &bench().join("libfdb_c.so.new"),
        &bench().join("libfdb_c.so"),
    );
}

#[track_caller]
fn succeed(mut command: Command) -> Output {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?} failed:\n{}",
        text(&output.stderr)
    );
    output
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hosts")
}

/// Where what these tests build is put.
fn bench() -> &'static Path {
    static BENCH: LazyLock<PathBuf> = LazyLock::new(|| {
        let bench = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hosts");
        fs::create_dir_all(&bench).expect("a folder for the hosts");
        bench
    });
    &BENCH
}

/// The target folder of this build.
fn target() -> PathBuf {
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    temporary
        .parent()
        .expect("target/tmp has a parent")
        .to_owned()
}
