//! A server, and the client library that belongs to it.
//!
//! fdbserver exports no function of the client: a workload's library finds them in the
//! `libfdb_c.so` that it needs, which must come from the very same build, or messages and objects
//! that both share have different layouts. So the library is checked for the server's source
//! version before any seed is wasted on a pair that cannot work. Servers before 7.4.6 speak another
//! interface to workloads, and are refused.

use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A server that can run workloads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// The program.
    pub program: PathBuf,
    /// The client library of the same build.
    pub client_library: PathBuf,
    /// Its version.
    pub version: Version,
    /// The commit it was built from; empty if the build does not say.
    pub source: String,
    /// Whether it has the storage engine RocksDB, which simulations may draw.
    pub has_rocksdb: bool,
}

/// A version of FoundationDB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Version {
    /// 7 of 7.4.6.
    pub major: u32,
    /// 4 of 7.4.6.
    pub minor: u32,
    /// 6 of 7.4.6.
    pub patch: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// The first version whose C interface for workloads has tables of functions.
const FIRST_WITH_TABLES: Version = Version {
    major: 7,
    minor: 4,
    patch: 6,
};
/// The first version with a C interface for workloads at all.
const FIRST_WITH_C: Version = Version {
    major: 7,
    minor: 4,
    patch: 0,
};

/// The first version whose seeds have 64 bits.
const FIRST_WITH_WIDE_SEEDS: Version = Version {
    major: 8,
    minor: 0,
    patch: 0,
};

/// A seed that a server would cut, and so run another one in its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "seed {seed} has more than 32 bits, and fdbserver {version} takes no more: choose one up to {}, or run it in the embedded host or under fdbserver 8.0",
    u32::MAX
)]
pub struct SeedTooWide {
    /// The seed.
    pub seed: u64,
    /// The version of the server.
    pub version: Version,
}

/// Where to look; what is `None` is looked for.
#[derive(Debug, Clone, Default)]
pub struct Find {
    /// The server.
    pub program: Option<PathBuf>,
    /// The client library.
    pub client_library: Option<PathBuf>,
}

/// Why there is no server to use.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum ServerError {
    #[error(
        "no fdbserver found: name one with --fdbserver PATH or FDBSERVER=PATH, or put it in the PATH"
    )]
    NotFound,
    #[error("cannot run {}", .0.display())]
    CannotRun(PathBuf, #[source] io::Error),
    #[error("{} is no fdbserver: `--version` printed {printed:?}", .program.display())]
    NotAServer { program: PathBuf, printed: String },
    #[error(
        "{} is fdbserver {version}, which loads workloads through {speaks}; this crate's libraries need 7.4.6 or later",
        .program.display()
    )]
    TooOld {
        program: PathBuf,
        version: Version,
        speaks: &'static str,
    },
    #[error(
        "no libfdb_c.so found for {}: looked in {}; name it with --fdb-library PATH or FDB_LIBRARY=PATH",
        .program.display(),
        show(.looked)
    )]
    NoClientLibrary {
        program: PathBuf,
        looked: Vec<PathBuf>,
    },
    #[error(
        "{} is not of the same build as {} (source version {source_version}), and both must be: name the right one with --fdb-library PATH",
        .library.display(),
        .program.display()
    )]
    OtherClientLibrary {
        program: PathBuf,
        library: PathBuf,
        source_version: String,
    },
    #[error("cannot read {}", .0.display())]
    CannotRead(PathBuf, #[source] io::Error),
}

fn show(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    paths.join(", ")
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fdbserver {}", self.version)
    }
}

impl Server {
    /// Finds a server and its client library: as asked, else `FDBSERVER` and `FDB_LIBRARY`, else in
    /// the `PATH` and beside the server.
    pub fn find(find: &Find) -> Result<Server, ServerError> {
        let from_environment = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let program = find.program.clone();
        let program = program.or_else(|| from_environment("FDBSERVER"));
        let program = match program {
            Some(program) => program,
            None => in_path(OsStr::new("fdbserver")).ok_or(ServerError::NotFound)?,
        };
        // A seed runs in a folder of its own.
        let program = std::path::absolute(&program)
            .map_err(|error| ServerError::CannotRun(program.clone(), error))?;
        let (version, source) = version_of(&program)?;
        let speaks = if version < FIRST_WITH_C {
            Some("C++ classes")
        } else if version < FIRST_WITH_TABLES {
            Some("an earlier form of the C interface")
        } else {
            None
        };
        if let Some(speaks) = speaks {
            return Err(ServerError::TooOld {
                program,
                version,
                speaks,
            });
        }
        let asked = find.client_library.clone();
        let asked = asked.or_else(|| from_environment("FDB_LIBRARY"));
        let client_library = client_library(&program, &source, asked)?;
        let read = |error| ServerError::CannotRead(program.clone(), error);
        // A property's name, which only the engine itself holds.
        let has_rocksdb = contains(&program, b"rocksdb.estimate-num-keys").map_err(read)?;
        Ok(Server {
            program,
            client_library,
            version,
            source,
            has_rocksdb,
        })
    }

    /// The last seed that it takes: before 8.0 it cuts off what is above 32 bits, and says nothing.
    pub fn last_seed(&self) -> u64 {
        match self.version < FIRST_WITH_WIDE_SEEDS {
            true => u32::MAX.into(),
            false => u64::MAX,
        }
    }

    /// Refuses a seed that it would run as another.
    pub fn takes(&self, seed: u64) -> Result<(), SeedTooWide> {
        match seed <= self.last_seed() {
            true => Ok(()),
            false => Err(SeedTooWide {
                seed,
                version: self.version,
            }),
        }
    }
}

fn in_path(name: &OsStr) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let mut files = std::env::split_paths(&folders).map(|folder| folder.join(name));
    files.find(|file| file.is_file())
}

/// Asks a program which version of FoundationDB it is.
fn version_of(program: &Path) -> Result<(Version, String), ServerError> {
    let output = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| ServerError::CannotRun(program.to_owned(), error))?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    parse_version(&printed).ok_or_else(|| ServerError::NotAServer {
        program: program.to_owned(),
        printed: printed
            .lines()
            .next()
            .unwrap_or_default()
            .chars()
            .take(200)
            .collect(),
    })
}

/// `FoundationDB 7.4 (v7.4.7)`, then `source version 9977…`.
fn parse_version(printed: &str) -> Option<(Version, String)> {
    let mut lines = printed.lines();
    let first = lines.next()?.strip_prefix("FoundationDB ")?;
    let (_, version) = first.split_once("(v")?;
    let mut numbers = version
        .strip_suffix(')')?
        .split(['.', '-'])
        .map(|number| number.parse().ok());
    let mut number = || numbers.next().flatten();
    let version = Version {
        major: number()?,
        minor: number()?,
        patch: number()?,
    };
    let source = lines.find_map(|line| line.strip_prefix("source version "));
    Some((version, source.unwrap_or_default().trim().to_owned()))
}

/// The client library of the same build as a server.
fn client_library(
    program: &Path,
    source: &str,
    asked: Option<PathBuf>,
) -> Result<PathBuf, ServerError> {
    let belongs = |library: &Path| {
        let read = |error| ServerError::CannotRead(library.to_owned(), error);
        Ok(source.is_empty() || contains(library, source.as_bytes()).map_err(read)?)
    };
    let other = |library: PathBuf| ServerError::OtherClientLibrary {
        program: program.to_owned(),
        library,
        source_version: source.to_owned(),
    };
    if let Some(asked) = asked {
        let library = match asked.is_dir() {
            true => asked.join(CLIENT_LIBRARY),
            false => asked,
        };
        let library = std::path::absolute(&library)
            .map_err(|error| ServerError::CannotRead(library.clone(), error))?;
        return match belongs(&library)? {
            true => Ok(library),
            false => Err(other(library)),
        };
    }
    let mut wrong = None;
    let looked = folders_beside(program);
    for library in looked.iter().map(|folder| folder.join(CLIENT_LIBRARY)) {
        if !library.is_file() {
            continue;
        }
        if belongs(&library)? {
            return Ok(library);
        }
        wrong.get_or_insert(library);
    }
    Err(match wrong {
        Some(library) => other(library),
        None => ServerError::NoClientLibrary {
            program: program.to_owned(),
            looked,
        },
    })
}

const CLIENT_LIBRARY: &str = "libfdb_c.so";

/// Where a client library may lie: beside the server, where packages put it, and where the dynamic
/// loader looks first.
fn folders_beside(program: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    let real = std::fs::canonicalize(program).unwrap_or_else(|_| program.to_owned());
    for program in [program, &real] {
        let Some(folder) = program.parent() else {
            continue;
        };
        folders.push(folder.to_owned());
        if let Some(above) = folder.parent() {
            folders.push(above.join("lib"));
            folders.push(above.join("lib64"));
        }
    }
    if let Some(listed) = std::env::var_os("LD_LIBRARY_PATH") {
        folders.extend(std::env::split_paths(&listed));
    }
    folders.extend(["/usr/lib", "/usr/lib64", "/usr/local/lib"].map(PathBuf::from));
    let mut seen = std::collections::BTreeSet::new();
    folders.retain(|folder| seen.insert(folder.clone()));
    folders
}

/// Whether a file contains these bytes.
fn contains(path: &Path, wanted: &[u8]) -> io::Result<bool> {
    const BLOCK: usize = 1 << 20;
    let finder = memchr::memmem::Finder::new(wanted);
    let mut file = File::open(path)?;
    // What is searched: the end of the last block, so that nothing is missed between two, and then
    // the next.
    let mut buffer = vec![0; wanted.len() + BLOCK];
    let mut kept = 0;
    loop {
        let read = file.read(&mut buffer[kept..])?;
        if read == 0 {
            return Ok(false);
        }
        let filled = kept + read;
        if finder.find(&buffer[..filled]).is_some() {
            return Ok(true);
        }
        kept = filled.min(wanted.len());
        buffer.copy_within(filled - kept..filled, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        let printed =
            "FoundationDB 7.4 (v7.4.7)\nsource version 997780b0\nprotocol fdb00b074000000\n";
        let (version, source) = parse_version(printed).unwrap();
        assert_eq!(
            (version.to_string(), &*source),
            ("7.4.7".to_owned(), "997780b0")
        );
        for other in [
            "",
            "sqlite 3",
            "FoundationDB 7.4",
            "FoundationDB 7.4 (v7.x.1)",
        ] {
            assert_eq!(parse_version(other), None, "{other}");
        }
    }

    #[test]
    fn bytes_are_found_wherever_they_lie() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        for at in [0, 1, (1 << 20) - 3, (1 << 20) + 1, (2 << 20) + 5] {
            let mut bytes = vec![b'x'; 3 << 20];
            bytes[at..at + 6].copy_from_slice(b"wanted");
            std::fs::write(&path, &bytes).unwrap();
            assert!(contains(&path, b"wanted").unwrap(), "at {at}");
            assert!(!contains(&path, b"missing").unwrap());
        }
    }

    /// Writes a program. Another process does it: a test that starts a process meanwhile would
    /// inherit the open file, and what is open for writing cannot be started.
    fn install(script: &str, program: &Path) {
        let text = program.with_extension("sh");
        std::fs::write(&text, script).unwrap();
        let mut install = Command::new("install");
        let installed = install.args(["-m", "755"]).arg(&text).arg(program).status();
        assert!(installed.unwrap().success());
    }

    /// A program that prints what a server of this version prints, and a library beside it.
    fn pretend(folder: &Path, version: &str, library_of: &str) -> PathBuf {
        let program = folder.join("fdbserver");
        let script = format!(
            "#!/bin/sh\necho 'FoundationDB 7 (v{version})'\necho 'source version abcdef12'\n"
        );
        install(&script, &program);
        std::fs::write(folder.join(CLIENT_LIBRARY), library_of).unwrap();
        program
    }

    fn find(program: PathBuf, client_library: Option<PathBuf>) -> Result<Server, String> {
        let find = Find {
            program: Some(program),
            client_library,
        };
        Server::find(&find).map_err(|error| error.to_string())
    }

    #[test]
    fn a_server_is_found_with_its_library() {
        let folder = tempfile::tempdir().unwrap();
        let program = pretend(folder.path(), "7.4.7", "built from abcdef12");
        let server = find(program, None).unwrap();
        assert_eq!(server.client_library, folder.path().join(CLIENT_LIBRARY));
        assert!(!server.has_rocksdb);
    }

    #[test]
    fn a_seed_of_64_bits_needs_a_server_of_8_0() {
        let folder = tempfile::tempdir().unwrap();
        let library = "built from abcdef12";
        let narrow = find(pretend(folder.path(), "7.4.7", library), None).unwrap();
        assert_eq!(narrow.takes(4_294_967_295), Ok(()));
        let refused = narrow.takes(4_294_967_296).unwrap_err().to_string();
        insta::assert_snapshot!(refused, @"seed 4294967296 has more than 32 bits, and fdbserver 7.4.7 takes no more: choose one up to 4294967295, or run it in the embedded host or under fdbserver 8.0");
        let wide = find(pretend(folder.path(), "8.0.0", library), None).unwrap();
        assert_eq!(wide.takes(u64::MAX), Ok(()));
    }

    #[test]
    fn what_does_not_fit_is_refused_in_a_sentence() {
        let folder = tempfile::tempdir().unwrap();
        let told = |error: Result<Server, String>| {
            error
                .unwrap_err()
                .replace(&folder.path().display().to_string(), "DIR")
        };
        let program = pretend(folder.path(), "7.4.3", "built from abcdef12");
        insta::assert_snapshot!(told(find(program, None)), @"DIR/fdbserver is fdbserver 7.4.3, which loads workloads through an earlier form of the C interface; this crate's libraries need 7.4.6 or later");
        let program = pretend(folder.path(), "7.3.69", "built from abcdef12");
        insta::assert_snapshot!(told(find(program, None)), @"DIR/fdbserver is fdbserver 7.3.69, which loads workloads through C++ classes; this crate's libraries need 7.4.6 or later");
        let program = pretend(folder.path(), "7.4.7", "built from something else");
        let library = folder.path().join(CLIENT_LIBRARY);
        insta::assert_snapshot!(told(find(program, Some(library))), @"DIR/libfdb_c.so is not of the same build as DIR/fdbserver (source version abcdef12), and both must be: name the right one with --fdb-library PATH");
        install("#!/bin/sh\necho hello\n", &folder.path().join("fdbserver"));
        insta::assert_snapshot!(told(find(folder.path().join("fdbserver"), None)), @r#"DIR/fdbserver is no fdbserver: `--version` printed "hello""#);
        insta::assert_snapshot!(told(find(folder.path().join("missing"), None)), @"cannot run DIR/missing");
    }
}
