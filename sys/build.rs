//! Selects the API version and makes sure that `-lfdb_c` finds something.
//!
//! The version is passed to the sources as `since_<version>`, for the selected version and every
//! one before it.
//!
//! What `-lfdb_c` finds is, in this order:
//! * the library in the directory `FDB_CLIENT_LIB_PATH`, when that is set: the real client, or
//!   Shaketable's;
//! * a stub that is compiled here from the names in `symbols.csv`. It lets programs and workload
//!   libraries link on a machine without FoundationDB, and it records `libfdb_c.so` in those that
//!   use `fdb_*`, so that the loader finds the real library wherever there is one. Its functions
//!   only print what to do, and abort.

use std::env;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Every feature that selects an API version, with that version, oldest first.
const VERSIONS: [(&str, u32); 10] = [
    ("5_1", 510),
    ("5_2", 520),
    ("6_0", 600),
    ("6_1", 610),
    ("6_2", 620),
    ("6_3", 630),
    ("7_0", 700),
    ("7_1", 710),
    ("7_3", 730),
    ("7_4", 740),
];

const SYMBOLS: &str = "symbols.csv";

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    println!("cargo::rerun-if-changed=build.rs");
    select_version(&out);
    link(&out);
}

/// Sets the `since_…` flags and writes the constant for `versions.rs`.
fn select_version(out: &Path) {
    let (_, version) = VERSIONS
        .into_iter()
        .rfind(|(feature, _)| env::var_os(format!("CARGO_FEATURE_FDB_{feature}")).is_some())
        .unwrap_or(VERSIONS[VERSIONS.len() - 1]);
    for (_, each) in VERSIONS {
        println!("cargo::rustc-check-cfg=cfg(since_{each})");
        if each <= version {
            println!("cargo::rustc-cfg=since_{each}");
        }
    }
    let constant =
        format!("/// The selected API version.\npub const FDB_API_VERSION: u32 = {version};\n");
    fs::write(out.join("api_version.rs"), constant).expect("OUT_DIR can be written");
}

/// Tells rustc to link `fdb_c`, and where it is.
fn link(out: &Path) {
    println!("cargo::rerun-if-env-changed=FDB_CLIENT_LIB_PATH");
    println!("cargo::rerun-if-changed={SYMBOLS}");
    println!("cargo::rustc-link-lib=dylib=fdb_c");
    let directory = match env::var_os("FDB_CLIENT_LIB_PATH").filter(|path| !path.is_empty()) {
        Some(path) => PathBuf::from(path),
        None => match make_stub(out) {
            Ok(()) => out.to_owned(),
            Err(reason) => {
                println!("cargo::error={reason}");
                return;
            }
        },
    };
    println!("cargo::rustc-link-search=native={}", directory.display());
}

/// Compiles the stub into `out`. A missing compiler is for the user to install, so it is reported
/// and not a panic.
fn make_stub(out: &Path) -> Result<(), String> {
    let os = env::var("CARGO_CFG_TARGET_OS").expect("cargo sets CARGO_CFG_TARGET_OS");
    let (file, arguments): (&str, &[&str]) = match os.as_str() {
        "linux" => (
            "libfdb_c.so",
            &["-shared", "-fPIC", "-Wl,-soname,libfdb_c.so"],
        ),
        "macos" => (
            "libfdb_c.dylib",
            &["-dynamiclib", "-install_name", "@rpath/libfdb_c.dylib"],
        ),
        other => {
            return Err(format!(
                "expected to build for linux or macos, for which a stub of libfdb_c can be made, found {other}: install \
                 FoundationDB's client and set FDB_CLIENT_LIB_PATH to the directory of its library"
            ));
        }
    };
    let source = out.join("stub.c");
    let symbols = fs::read_to_string(SYMBOLS).expect("symbols.csv is beside build.rs");
    fs::write(&source, stub_source(&symbols)).expect("OUT_DIR can be written");

    let compiler = cc::Build::new()
        .cargo_metadata(false)
        .opt_level(1)
        .debug(false)
        .try_get_compiler()
        .map_err(|error| {
            format!("expected a C compiler, to make a stub of libfdb_c: {error}: install one, or set FDB_CLIENT_LIB_PATH")
        })?;
    let mut command: Command = compiler.to_command();
    command
        .args(arguments)
        .arg("-o")
        .arg(out.join(file))
        .arg(&source);
    let output = command.output().map_err(|error| {
        format!("expected to run {command:?}, to make a stub of libfdb_c: {error}")
    })?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "expected {command:?} to make a stub of libfdb_c, found: {}",
        String::from_utf8_lossy(&output.stderr).replace('\n', " ")
    ))
}

/// The C source of a library that has every symbol of the table and no function that does anything.
fn stub_source(symbols: &str) -> String {
    let mut source = String::from(
        r#"#include <stdio.h>
#include <stdlib.h>

static void refuse(const char *function) {
    fprintf(stderr,
            "%s: this program was linked against Shaketable's stub of libfdb_c, which does nothing: install FoundationDB's "
            "client (and build with FDB_CLIENT_LIB_PATH set to its directory), or link shaketable-fdbc, or run under "
            "`shaketable`\n",
            function);
    abort();
}

#define STUB(function) void function(void) { refuse(#function); }
"#,
    );
    for line in symbols.lines().skip(1) {
        let symbol = line
            .split(',')
            .next()
            .expect("split gives at least one part");
        writeln!(source, "STUB({symbol})").expect("a string takes any text");
    }
    source
}
