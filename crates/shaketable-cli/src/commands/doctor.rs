//! `doctor`: whether this machine has what each host needs, and what to do where it has not.
//!
//! The embedded host needs a Rust toolchain and a linker, nothing else. A real server is optional,
//! and comes with conditions: its version, a client library of the very same build. A workload's
//! library is looked at without being loaded: what it exports, what it needs, and whether it asks
//! the machine for time or randomness, which a seed does not control under fdbserver.

use crate::args::{DoctorArgs, MessageFormat};
use crate::exit_codes;
use crate::report::json;
use anstyle::{AnsiColor, Style};
use object::{Object, ObjectSymbol};
use serde::Serialize;
use shaketable_fdbserver::{Find, Server};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// What was looked at, and found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What it is about.
    pub what: String,
    /// How it is.
    pub state: State,
    /// What was found.
    pub found: String,
    /// What to do about it; nothing if all is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// How something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// As it should be.
    Good,
    /// Not there, and only needed for some things.
    Optional,
    /// It will do, with a drawback.
    Warning,
    /// It must be mended.
    Bad,
}

impl State {
    fn word(self) -> (&'static str, Style) {
        let colour = |colour: AnsiColor| Style::new().fg_color(Some(colour.into())).bold();
        match self {
            State::Good => ("good", colour(AnsiColor::Green)),
            State::Optional => ("none", Style::new().dimmed()),
            State::Warning => ("note", colour(AnsiColor::Yellow)),
            State::Bad => ("bad ", colour(AnsiColor::Red)),
        }
    }
}

/// `doctor`.
pub fn doctor(args: &DoctorArgs) -> u8 {
    let find = Find {
        program: args.fdbserver.clone(),
        client_library: args.fdb_library.clone(),
    };
    let is_asked = args.fdbserver.is_some() || std::env::var_os("FDBSERVER").is_some();
    let server = Server::find(&find);
    let mut checks = vec![rust(), linker(), addresses()];
    checks.extend(of_server(&server, is_asked));
    for library in &args.libraries {
        checks.extend(of_library(library, server.as_ref().ok()));
    }
    for check in &checks {
        match args.message_format {
            MessageFormat::Json => println!("{}", json::Message::Check(check).line()),
            MessageFormat::Human => anstream::print!("{}", told(check)),
        }
    }
    match checks.iter().any(|check| check.state == State::Bad) {
        true => exit_codes::SETUP_FAILED,
        false => exit_codes::PASSED,
    }
}

fn told(check: &Check) -> String {
    let (word, style) = check.state.word();
    let mut text = format!("{style}{word}{style:#}  {}: {}\n", check.what, check.found);
    if let Some(fix) = &check.fix {
        text.push_str(&format!("      {fix}\n"));
    }
    text
}

fn check(
    what: impl Into<String>,
    state: State,
    found: impl Into<String>,
    fix: Option<&str>,
) -> Check {
    Check {
        what: what.into(),
        state,
        found: found.into(),
        fix: fix.map(str::to_owned),
    }
}

/// The compiler that builds workloads.
fn rust() -> Check {
    let least = env!("CARGO_PKG_RUST_VERSION");
    let install = format!("install Rust {least} or later: https://rustup.rs");
    let Some(printed) = first_line("rustc", "--version") else {
        return check(
            "Rust",
            State::Bad,
            "there is no rustc in the PATH",
            Some(&install),
        );
    };
    let version = printed.split_whitespace().nth(1).unwrap_or_default();
    match numbers(version) >= numbers(least) {
        true => check("Rust", State::Good, printed, None),
        false => check("Rust", State::Bad, printed, Some(&install)),
    }
}

fn numbers(version: &str) -> Vec<u32> {
    let parts = version.split(['.', '-']);
    parts.map_while(|part| part.parse().ok()).collect()
}

/// What links workloads.
fn linker() -> Check {
    match first_line("cc", "--version") {
        Some(printed) => check("C compiler", State::Good, printed, None),
        None => check(
            "C compiler",
            State::Bad,
            "there is no cc in the PATH, and Rust links with it",
            Some("install one: `apt install gcc`, or what your system calls it"),
        ),
    }
}

fn first_line(program: &str, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).output().ok()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    printed.lines().next().map(str::to_owned)
}

/// Whether workers can all have their memory at the same addresses.
fn addresses() -> Check {
    use nix::sys::personality::{self, Persona};
    let before = personality::get();
    let can = before.is_ok_and(|before| {
        let switched = personality::set(before | Persona::ADDR_NO_RANDOMIZE).is_ok();
        let _ = personality::set(before);
        switched
    });
    match can {
        true => check(
            "embedded host",
            State::Good,
            "needs nothing more; address-space randomisation can be switched off",
            None,
        ),
        false => check(
            "embedded host",
            State::Warning,
            "this system does not allow address-space randomisation to be switched off, so code that depends on addresses may differ between runs",
            Some("in a container: allow the system call `personality`"),
        ),
    }
}

/// A server and its client library.
fn of_server(
    server: &Result<Server, shaketable_fdbserver::ServerError>,
    is_asked: bool,
) -> Vec<Check> {
    match server {
        Ok(server) => {
            let rocksdb = match server.has_rocksdb {
                true => "with RocksDB",
                false => "without RocksDB, so simulations do not draw that engine",
            };
            let found = format!(
                "{} is version {}, {rocksdb}",
                server.program.display(),
                server.version
            );
            let library = format!("{} is of the same build", server.client_library.display());
            vec![
                check("fdbserver", State::Good, found, None),
                check(
                    "workloads",
                    State::Good,
                    "it loads them through the C interface with tables of functions, as libraries of this version of Shaketable have it",
                    None,
                ),
                memory(),
                check("libfdb_c.so", State::Good, library, None),
            ]
        }
        Err(error) => {
            let state = match (error, is_asked) {
                (shaketable_fdbserver::ServerError::NotFound, false) => State::Optional,
                _ => State::Bad,
            };
            let told = crate::with_causes(error);
            let (found, fix) = match told.split_once(": name ") {
                Some((found, fix)) => (found.to_owned(), Some(format!("name {fix}"))),
                None => (told, None),
            };
            let needed = "only needed for --host fdbserver and compare";
            let fix =
                fix.unwrap_or_else(|| "a build of FoundationDB 7.4.6 or later has one".to_owned());
            vec![check(
                "fdbserver",
                state,
                found,
                Some(&format!("{fix}; {needed}")),
            )]
        }
    }
}

/// Whether the machine, or the container, has memory for servers.
fn memory() -> Check {
    let runs = shaketable_fdbserver::memory_for();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    match runs >= cores {
        true => check(
            "memory",
            State::Good,
            "there is enough for a server on each core",
            None,
        ),
        false => check(
            "memory",
            State::Warning,
            match runs {
                1 => format!("there is enough for one server at a time, and {cores} cores"),
                runs => format!("there is enough for {runs} servers at once, and {cores} cores"),
            },
            Some(
                "so many seeds run at once, unless --jobs says otherwise; each takes up to 600 MB",
            ),
        ),
    }
}

/// Functions that ask the machine for what differs between runs.
const UNCONTROLLED: [&str; 9] = [
    "clock_gettime",
    "gettimeofday",
    "time",
    "getpid",
    "getrandom",
    "getentropy",
    "arc4random",
    "arc4random_buf",
    "arc4random_uniform",
];

/// A workload's library.
fn of_library(path: &Path, server: Option<&Server>) -> Vec<Check> {
    let name = path.display().to_string();
    let symbols = match Symbols::read(path) {
        Ok(symbols) => symbols,
        Err(reason) => {
            let fix = "build the workload as a `cdylib` on this machine, and name the file below target/release";
            return vec![check(name, State::Bad, reason, Some(fix))];
        }
    };
    let mut checks = Vec::new();
    checks.push(match symbols.exports("workloadCFactory") {
        true => check(
            &*name,
            State::Good,
            "exports `workloadCFactory`, which both hosts call",
            None,
        ),
        false => check(
            &*name,
            State::Bad,
            "does not export `workloadCFactory`, which both hosts call",
            Some("write `register_workload!` once in the crate, with `crate-type = [\"cdylib\"]`"),
        ),
    });
    if symbols
        .imports
        .iter()
        .any(|symbol| symbol.starts_with("fdb_"))
        && !symbols.needs_client
    {
        checks.push(check(
            &*name,
            State::Warning,
            "calls functions of libfdb_c.so but does not need that library, so fdbserver cannot load it; the embedded host can",
            Some("link it with -lfdb_c, as crates on `foundationdb-sys` do"),
        ));
    }
    if let Some(server) = server
        && let Ok(client) = Symbols::read(&server.client_library)
    {
        let missing: Vec<&str> = symbols
            .imports
            .iter()
            .filter(|symbol| symbol.starts_with("fdb_") && !client.exports(symbol))
            .map(String::as_str)
            .collect();
        if !missing.is_empty() {
            checks.push(check(
                &*name,
                State::Bad,
                format!("calls {}, which {server} does not have", missing.join(", ")),
                Some("use the API version of that server"),
            ));
        }
    }
    let asks: Vec<&str> = UNCONTROLLED
        .into_iter()
        .filter(|symbol| symbols.imports.contains(*symbol))
        .collect();
    checks.push(match asks.is_empty() {
        true => check(&*name, State::Good, "is hermetic: it answers for time and randomness itself", None),
        false => check(
            &*name,
            State::Warning,
            format!(
                "asks the machine for {}: the embedded host answers from the seed, fdbserver does not",
                asks.join(", ")
            ),
            Some("build it with the feature `hermetic` of the crate shaketable, and it answers itself"),
        ),
    });
    checks
}

/// The names that a library exports and imports.
struct Symbols {
    exported: BTreeSet<String>,
    imports: BTreeSet<String>,
    needs_client: bool,
}

impl Symbols {
    fn read(path: &Path) -> Result<Symbols, String> {
        let bytes = std::fs::read(path).map_err(|error| format!("cannot be read: {error}"))?;
        let file = object::File::parse(&*bytes)
            .map_err(|error| format!("is no shared library: {error}"))?;
        let (mut exported, mut imports) = (BTreeSet::new(), BTreeSet::new());
        for symbol in file.dynamic_symbols() {
            let Ok(name) = symbol.name() else {
                continue;
            };
            // `clock_gettime@GLIBC_2.17` is how some tools write it, not how it is stored.
            match symbol.is_undefined() {
                true => imports.insert(name.to_owned()),
                false => exported.insert(name.to_owned()),
            };
        }
        // The name stands in the table of names if the library is needed.
        let needs_client = memchr::memmem::find(&bytes, b"\0libfdb_c.so\0").is_some();
        Ok(Symbols {
            exported,
            imports,
            needs_client,
        })
    }

    fn exports(&self, name: &str) -> bool {
        self.exported.contains(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert!(numbers("1.95.0") > numbers("1.90"));
        assert!(numbers("1.90.0-nightly") >= numbers("1.90"));
        assert!(numbers("1.9.0") < numbers("1.90"));
    }

    #[test]
    fn what_is_no_library_is_told() {
        let checks = of_library(Path::new("Cargo.toml"), None);
        assert_eq!(checks[0].state, State::Bad);
        assert!(
            checks[0].found.starts_with("is no shared library"),
            "{checks:?}"
        );
        let checks = of_library(Path::new("does/not/exist.so"), None);
        assert!(checks[0].found.starts_with("cannot be read"), "{checks:?}");
    }
}
