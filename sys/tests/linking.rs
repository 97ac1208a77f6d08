//! What the linker records when there is no libfdb_c on the machine: a library or program that uses
//! FoundationDB asks the loader for `libfdb_c.so`, one that brings an engine does not, and the stub
//! never passes for a client: it hands calls to the one that is installed, or says that there is
//! none.
//!
//! Real programs and libraries are the examples of this package, which cargo builds before its
//! tests. What depends on the order in which a program names its crates is tried with rustc alone,
//! on crates of a few lines.

// It is about ELF files and GNU's rules for them.
#![cfg(target_os = "linux")]

use object::read::elf::{Dyn, ElfFile64, ProgramHeader};
use object::{Endianness, elf};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const STUB_DIRECTORY: &str = env!("OUT_DIR");

#[test]
fn a_workload_library_asks_the_loader_for_libfdb_c() {
    assert_eq!(needed(&example("libworkload.so")), ["libfdb_c.so"]);
}

#[test]
fn a_program_without_an_engine_asks_the_loader_for_libfdb_c() {
    assert_eq!(needed(&example("program")), ["libfdb_c.so"]);
}

#[test]
fn a_program_that_links_shaketable_fdbc_asks_for_no_libfdb_c_and_runs_without_one() {
    let program = example("embedded");
    assert_eq!(needed(&program), [""; 0]);
    let mut command = Command::new(&program);
    command.env_remove("LD_LIBRARY_PATH");
    let version: u32 = String::from_utf8_lossy(&run(command).stdout)
        .trim()
        .parse()
        .unwrap();
    assert!(
        version >= 740,
        "expected the engine to answer, found {version}"
    );
}

#[test]
fn a_program_that_brings_an_engine_asks_for_no_libfdb_c_in_whatever_order_it_names_its_crates() {
    let fixtures = Fixtures::compile("engine");
    for (name, crates) in [
        ("engine_first", "extern crate engine; extern crate binding;"),
        ("engine_last", "extern crate binding; extern crate engine;"),
    ] {
        let program = fixtures.program(name, crates);
        assert_eq!(needed(&program), [""; 0], "{name}");
        let output = run(Command::new(&program));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "4242\n", "{name}");
    }
}

#[test]
fn the_same_program_without_the_engine_asks_for_libfdb_c() {
    let fixtures = Fixtures::compile("no_engine");
    let program = fixtures.program("no_engine", "extern crate binding;");
    assert_eq!(needed(&program), ["libfdb_c.so"]);
}

#[test]
fn a_function_of_the_stub_says_what_to_do_and_aborts() {
    let output = Command::new(example("program"))
        .env("LD_LIBRARY_PATH", STUB_DIRECTORY)
        .output()
        .expect("the example can be run");
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        output.status.signal(),
        Some(6),
        "expected an abort, found {output:?}"
    );
    assert_eq!(output.stdout, b"");
    assert_eq!(
        message,
        "fdb_get_max_api_version: this program was linked against Shaketable's stub of libfdb_c, which does nothing, \
         and no FoundationDB client is installed: install one, or link shaketable-fdbc, or run under `shaketable`\n"
    );
}

#[test]
fn where_a_client_is_installed_the_stub_hands_every_call_to_it() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("installed");
    fs::create_dir_all(&folder).expect("cargo's folder for tests can be written");
    let source = folder.join("client.rs");
    let text =
        "#[unsafe(no_mangle)]\npub extern \"C\" fn fdb_get_max_api_version() -> i32 { 7777 }\n";
    fs::write(&source, text).expect("the folder can be written");
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--crate-type=cdylib", "--edition=2024", "-o"]);
    run({
        rustc.arg(folder.join("libfdb_c.so")).arg(&source);
        rustc
    });
    let mut program = Command::new(example("program"));
    // As under `cargo run`: the folder of the stub comes first.
    let path = format!("{STUB_DIRECTORY}:{}", folder.display());
    program.env("LD_LIBRARY_PATH", path);
    assert_eq!(String::from_utf8_lossy(&run(program).stdout), "7777\n");
}

#[test]
fn a_test_program_that_names_functions_of_the_api_starts_under_cargo() {
    let itself = std::env::current_exe().expect("a test knows its own file");
    let function: unsafe extern "C" fn() -> i32 = foundationdb_sys::fdb_get_max_api_version;
    assert_ne!(std::hint::black_box(function) as usize, 0);
    assert_eq!(needed(&itself), ["libfdb_c.so"]);
}

/// An example of this package, which `cargo test` has built.
fn example(name: &str) -> PathBuf {
    let itself = std::env::current_exe().expect("a test knows its own file");
    let profile = itself
        .parent()
        .and_then(Path::parent)
        .expect("tests are built in <profile>/deps");
    let path = profile.join("examples").join(name);
    assert!(
        path.exists(),
        "expected {}: run `cargo build -p foundationdb-sys --examples` first, or all tests of the package",
        path.display()
    );
    path
}

/// The libraries whose name contains `fdb_c` among those that a file asks the loader for.
fn needed(path: &Path) -> Vec<String> {
    let data = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file = ElfFile64::<Endianness>::parse(&*data).expect("an ELF file");
    let endian = file.endian();
    let strings = |offset: u64| {
        let table = dynamic(&file, elf::DT_STRTAB)[0];
        let segment = file
            .elf_program_headers()
            .iter()
            .find(|segment| {
                let start = segment.p_vaddr(endian);
                segment.p_type(endian) == elf::PT_LOAD
                    && (start..start + segment.p_memsz(endian)).contains(&table)
            })
            .expect("a segment holds the string table");
        let start = (table - segment.p_vaddr(endian) + segment.p_offset(endian) + offset) as usize;
        let end = start
            + data[start..]
                .iter()
                .position(|byte| *byte == 0)
                .expect("strings end");
        String::from_utf8(data[start..end].to_vec()).expect("names of libraries are UTF-8")
    };
    dynamic(&file, elf::DT_NEEDED)
        .into_iter()
        .map(strings)
        .filter(|name| name.contains("fdb_c"))
        .collect()
}

/// The values under a tag of the dynamic section.
fn dynamic(file: &ElfFile64<Endianness>, tag: elf::DynamicTag) -> Vec<u64> {
    let endian = file.endian();
    let mut values = Vec::new();
    for segment in file.elf_program_headers() {
        if let Some(entries) = segment
            .dynamic(endian, file.data())
            .expect("a readable segment")
        {
            let matching = entries.iter().filter(|entry| entry.tag(endian) == tag);
            values.extend(matching.map(|entry| entry.d_val(endian)));
        }
    }
    values
}

/// The small crates of `tests/fixtures`, compiled into a folder of their own.
struct Fixtures {
    folder: PathBuf,
}

impl Fixtures {
    fn compile(name: &str) -> Fixtures {
        let fixtures = Fixtures {
            folder: Path::new(env!("CARGO_TARGET_TMPDIR")).join(name),
        };
        fs::create_dir_all(&fixtures.folder).expect("cargo's folder for tests can be written");
        for name in ["engine", "declarations", "binding"] {
            let source =
                Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/{name}.rs"));
            fixtures.rustc([
                OsStr::new("--crate-type=rlib"),
                "--crate-name".as_ref(),
                name.as_ref(),
                source.as_ref(),
            ]);
        }
        fixtures
    }

    fn program(&self, name: &str, crates: &str) -> PathBuf {
        let source = self.folder.join(format!("{name}.rs"));
        let text = format!("{crates}\nfn main() {{ println!(\"{{}}\", binding::ask()); }}\n");
        fs::write(&source, text).expect("the folder can be written");
        self.rustc([OsStr::new("--crate-type=bin"), source.as_ref()]);
        self.folder.join(name)
    }

    fn rustc<'a>(&self, arguments: impl IntoIterator<Item = &'a OsStr>) {
        let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        command
            .args(arguments)
            .arg("--edition=2024")
            .arg("--out-dir")
            .arg(&self.folder);
        command
            .arg("-L")
            .arg(&self.folder)
            .arg("-L")
            .arg(format!("native={STUB_DIRECTORY}"));
        for name in ["engine", "declarations", "binding"] {
            let library = self.folder.join(format!("lib{name}.rlib"));
            if library.exists() {
                command
                    .arg("--extern")
                    .arg(format!("{name}={}", library.display()));
            }
        }
        run(command);
    }
}

fn run(mut command: Command) -> Output {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
    output
}
