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
//!   use `fdb_*`, so that the loader finds the real library wherever there is one. Cargo, however,
//!   has the loader look into the folder of the stub first; there its functions hand every call to
//!   the installed client, and where there is none they print what to do, and abort.

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
    if os == "linux" {
        // A part of the C library since glibc 2.34.
        command.arg("-ldl");
    }
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

/// The C source of a library that has every symbol of the table. Each function jumps through a slot
/// of a table, which leads to the function of the same name in an installed client, or, if there is
/// none, to one that prints what to do. It must be a jump: the stub knows no signatures.
fn stub_source(symbols: &str) -> String {
    let names: Vec<&str> = symbols
        .lines()
        .skip(1)
        .map(|line| {
            let mut fields = line.split(',');
            fields.next().expect("split gives at least one part")
        })
        .collect();
    let mut source = format!("#define COUNT {}\n", names.len());
    source.push_str(STUB);
    for (slot, name) in names.iter().enumerate() {
        writeln!(source, "STUB({slot}, {name})").expect("a string takes any text");
    }
    source.push_str("static const char *const names[COUNT] = {\n");
    for name in &names {
        writeln!(source, "    \"{name}\",").expect("a string takes any text");
    }
    source.push_str("};\nvoid *shaketable_slots[COUNT] = {\n");
    for name in &names {
        writeln!(source, "    (void *)refuse_{name},").expect("a string takes any text");
    }
    source.push_str("};\n");
    source.push_str(HAND_OVER);
    source
}

/// What comes before the functions.
const STUB: &str = r#"#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern void *shaketable_slots[COUNT] __attribute__((visibility("hidden")));

static void refuse(const char *function) {
    fprintf(stderr,
            "%s: this program was linked against Shaketable's stub of libfdb_c, which does nothing, and no FoundationDB "
            "client is installed: install one, or link shaketable-fdbc, or run under `shaketable`\n",
            function);
    abort();
}

#if defined(__linux__) && defined(__x86_64__)
#define JUMPS 1
#define JUMP(slot, function)                                                                   \
    __asm__(".text\n.globl " #function "\n.type " #function ", @function\n" #function ":\n"    \
            "    jmp *shaketable_slots+8*" #slot "(%rip)\n.size " #function ", .-" #function);
#elif defined(__linux__) && defined(__aarch64__)
#define JUMPS 1
#define JUMP(slot, function)                                                                   \
    __asm__(".text\n.globl " #function "\n.type " #function ", %function\n" #function ":\n"    \
            "    adrp x16, shaketable_slots+8*" #slot "\n"                                     \
            "    ldr x16, [x16, :lo12:shaketable_slots+8*" #slot "]\n"                         \
            "    br x16\n.size " #function ", .-" #function);
#else
#define JUMP(slot, function) void function(void) { refuse(#function); }
#endif

#define STUB(slot, function)                                                                   \
    static void refuse_##function(void) { refuse(#function); }                                 \
    JUMP(slot, function)

"#;

/// What comes after them: the search for an installed client, when the stub is loaded.
const HAND_OVER: &str = r#"
#ifdef JUMPS
/* The client in a folder, unless that is a stub too, which has its source beside it. */
static void *client_in(const char *folder, size_t length) {
    char path[4096];
    if (length == 0 || length > sizeof path - 32) {
        return NULL;
    }
    memcpy(path, folder, length);
    strcpy(path + length, "/stub.c");
    if (access(path, F_OK) == 0) {
        return NULL;
    }
    strcpy(path + length, "/libfdb_c.so");
    return access(path, R_OK) == 0 ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

/* Where the loader would have looked if cargo had not put the folder of the stub first. */
static void *installed_client(void) {
    static const char *const folders[] = {
        "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
        "/usr/lib", "/usr/local/lib64", "/usr/local/lib",
    };
    const char *path = getenv("LD_LIBRARY_PATH");
    while (path != NULL && *path != '\0') {
        size_t length = strcspn(path, ":");
        void *client = client_in(path, length);
        if (client != NULL) {
            return client;
        }
        path += length + (path[length] == ':');
    }
    for (size_t at = 0; at < sizeof folders / sizeof *folders; at++) {
        void *client = client_in(folders[at], strlen(folders[at]));
        if (client != NULL) {
            return client;
        }
    }
    return NULL;
}

__attribute__((constructor)) static void hand_over(void) {
    void *client = installed_client();
    for (size_t slot = 0; client != NULL && slot < COUNT; slot++) {
        void *function = dlsym(client, names[slot]);
        if (function != NULL) {
            shaketable_slots[slot] = function;
        }
    }
}
#else
static void unused(void) __attribute__((unused));
static void unused(void) { (void)names; (void)shaketable_slots; }
#endif
"#;
