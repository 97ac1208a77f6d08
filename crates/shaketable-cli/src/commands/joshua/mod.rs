//! `joshua`: a package for FoundationDB's own test fleet.
//!
//! An agent of Joshua unpacks a `tar.gz`, calls `./joshua_test` in it with a number in
//! `JOSHUA_SEED`, and counts exit status 0 as success; what was printed is kept, and its tools read
//! it as XML, a `<Test>` for each run. A package has everything a run needs: this program, the test
//! files, their libraries, and under fdbserver the server with its client library. So an agent
//! needs nothing but Linux of the same kind.
//!
//! A failure is read on another machine than the agent's, long after its package is gone. So
//! results name the test file as it was called where the package was made, and the line that
//! replays a seed is one to paste there.
//!
//! An agent that has to end a run which takes too long cannot say which seed it was, leaves its
//! processes to themselves, and then ends. So a run ends itself before its agent does: a seed may
//! take its share of the time that the ensemble allows, and if the agent's shell is killed all the
//! same, the run goes with it.

mod xml;

use crate::args::{JoshuaArgs, JoshuaTestArgs, SimulationArgs};
use crate::exit_codes;
use crate::pool::Addresses;
use crate::protocol::Request;
use crate::report::repro::quoted;
use crate::seed::{self, Seed};
use crate::session::{Session, SessionError};
use crate::sweep::run_one;
use flate2::Compression;
use flate2::write::GzEncoder;
use nix::sys::signal::Signal;
use shaketable_host::plan::{Recording, library_path};
use shaketable_host::testfile::{EXTERNAL, TestFile};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The folder of the libraries in a package.
const LIBRARIES: &str = "lib";

/// What stands for a seed in the line that replays one.
const SEED: &str = "{seed}";

/// `joshua`.
pub fn joshua(args: &JoshuaArgs) -> Result<u8, SessionError> {
    let session = Session::prepare(&args.files, &args.simulation, &args.build, true)?;
    let session = session.on(&args.host, &args.simulation, false)?;
    let path = &args.output;
    let written = Package::create(path).and_then(|mut package| {
        package.fill(&session, &args.simulation)?;
        package.finish()
    });
    let files = written.map_err(|error| SessionError::Write(path.clone(), error))?;
    eprintln!("{}: {files} files", path.display());
    println!(
        "python3 -m joshua.joshua start --tarball {} --max-runs 1000",
        path.display()
    );
    Ok(exit_codes::PASSED)
}

/// `__joshua-test`: one run of each file of a package, with the agent's seed, told in XML.
pub fn joshua_test(args: &JoshuaTestArgs) -> Result<u8, SessionError> {
    let session = Session::prepare(&args.files, &args.simulation, &args.build, true)?;
    let mut session = session.on(&args.host, &args.simulation, false)?;
    // Without this, the run goes on when its shell is killed; that is bounded by the limit below.
    let _ = nix::sys::prctl::set_pdeathsig(Signal::SIGTERM);
    let variable = |name| std::env::var(name).unwrap_or_default();
    let joshua_seed = variable("JOSHUA_SEED");
    let seed = seed_of(&joshua_seed, session.last_seed());
    let limit = &mut session.job.hang_limit_seconds;
    *limit = seconds_for_a_file(&variable("JOSHUA_TIMEOUT"), session.files.len(), *limit);
    let mut pool = session.pool(1, Addresses::Fixed)?;
    let mut code = exit_codes::PASSED;
    for (file, path) in session.files.iter().enumerate() {
        let seed = session.case_seeds[file].unwrap_or(seed);
        let request = Request {
            file,
            seed: seed.0,
            recording: Recording::Nothing,
            case: None,
        };
        let Some(response) = run_one(&mut pool, request, &session.interrupted) else {
            return Ok(exit_codes::INTERRUPTED);
        };
        if !response.outcome.passed() {
            code = exit_codes::TESTS_FAILED;
        }
        let name = args.name.get(file).unwrap_or(path);
        let again = args.replay.get(file).map_or_else(
            || session.repro.line(path, seed.0),
            |line| line.replace(SEED, &seed.0.to_string()),
        );
        println!("{}", xml::test(name, &joshua_seed, &response, &again));
    }
    Ok(code)
}

/// An agent's seeds have 63 bits. A host that takes fewer gets both halves as one, so that
/// consecutive numbers give different seeds. Without one the seed is random.
fn seed_of(joshua_seed: &str, last: Seed) -> Seed {
    match joshua_seed.parse() {
        Ok(number) if number <= last.0 => Seed(number),
        Ok(number) => Seed((number ^ (number >> 32)) & last.0),
        Err(_) => seed::random(),
    }
}

/// How long a seed of one file may take: what the program allows, but no more than its share of
/// what the ensemble does, with a tenth to spare.
fn seconds_for_a_file(joshua_timeout: &str, files: usize, usual: f64) -> f64 {
    let timeout: Option<f64> = joshua_timeout.parse().ok();
    timeout
        .filter(|seconds| *seconds > 0.0)
        .map_or(usual, |seconds| usual.min(0.9 * seconds / files as f64))
}

/// A package that is being written.
struct Package {
    tar: tar::Builder<GzEncoder<File>>,
    files: usize,
}

impl Package {
    fn create(path: &Path) -> io::Result<Package> {
        let compressed = GzEncoder::new(File::create(path)?, Compression::fast());
        let mut tar = tar::Builder::new(compressed);
        tar.follow_symlinks(true);
        Ok(Package { tar, files: 0 })
    }

    fn fill(&mut self, session: &Session, simulation: &SimulationArgs) -> io::Result<()> {
        self.program(&std::env::current_exe()?, "shaketable")?;
        let mut options = String::new();
        if let Some(server) = session.job.host.server() {
            self.program(&server.program, "fdbserver")?;
            self.program(&server.client_library, &format!("{LIBRARIES}/libfdb_c.so"))?;
            options.push_str(" --fdbserver ./fdbserver --fdb-library lib/libfdb_c.so");
        }
        let mut libraries: BTreeMap<String, PathBuf> = BTreeMap::new();
        let mut names = Vec::new();
        for (number, file) in session.job.files.iter().enumerate() {
            let parsed = TestFile::read(&file.path).map_err(io::Error::other)?;
            for workload in parsed.tests.iter().flat_map(|test| &test.workloads) {
                let name = workload.option("libraryName").unwrap_or_default();
                if workload.name == EXTERNAL
                    && let Some(path) = library_path(&parsed.path, workload, &file.built)
                {
                    libraries.insert(name.to_owned(), path);
                }
            }
            // Two files of different folders may have the same name.
            let stem = file.path.file_stem().unwrap_or_default().to_string_lossy();
            let name = format!("tests/{number}-{stem}.toml");
            let source = std::fs::read_to_string(&file.path)?;
            self.text(
                &name,
                &in_package(&source).map_err(io::Error::other)?,
                0o644,
            )?;
            names.push(name);
            let replay = session.repro.line(&file.path, SEED);
            let origin = quoted(&file.path.display().to_string());
            options.push_str(&format!(" --name {origin} --replay {}", quoted(&replay)));
        }
        for (name, path) in &libraries {
            self.program(path, &format!("{LIBRARIES}/lib{name}.so"))?;
        }
        for words in session.repro.setting_words() {
            options.push(' ');
            options.push_str(&words);
        }
        if let Some(limit) = simulation.hang_limit {
            options.push_str(&format!(" --hang-limit {}ms", limit.as_millis()));
        }
        let files = names.join(" ");
        let line = format!("./shaketable __joshua-test {files} --no-build{options}");
        let script = format!("#!/bin/sh\ncd \"$(dirname \"$0\")\" || exit 1\nexec {line}\n");
        self.text("joshua_test", &script, 0o755)?;
        self.text("joshua_timeout", &timeout(session.last_seed()), 0o755)
    }

    fn program(&mut self, from: &Path, name: &str) -> io::Result<()> {
        self.files += 1;
        self.tar.append_path_with_name(from, name)
    }

    fn text(&mut self, name: &str, text: &str, mode: u32) -> io::Result<()> {
        self.files += 1;
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(mode);
        header.set_cksum();
        self.tar.append_data(&mut header, name, text.as_bytes())
    }

    fn finish(self) -> io::Result<usize> {
        let mut compressed = self.tar.into_inner()?;
        compressed.flush()?;
        compressed.finish()?;
        Ok(self.files)
    }
}

/// What an agent calls when a run has taken too long all the same. The seed is that of `seed_of`.
fn timeout(last: Seed) -> String {
    let seed = match last {
        Seed(u64::MAX) => "JOSHUA_SEED".to_owned(),
        last => format!("(JOSHUA_SEED ^ (JOSHUA_SEED >> 32)) & {last}"),
    };
    format!("#!/bin/sh\nseed=$(({seed}))\n{TOO_LONG}")
}

const TOO_LONG: &str = r#"echo "<Test TestFile=\"UNKNOWN\" RandomSeed=\"$seed\" JoshuaSeed=\"$JOSHUA_SEED\" Ok=\"0\"><ShaketableFailure Severity=\"40\" Kind=\"hung\" Message=\"the run took longer than the ensemble allows\"/></Test>"
"#;

/// A test file that finds its libraries in the package.
fn in_package(source: &str) -> Result<String, toml_edit::TomlError> {
    use toml_edit::{DocumentMut, Item, value};
    let mut document: DocumentMut = source.parse()?;
    let tests = document
        .get_mut("test")
        .and_then(Item::as_array_of_tables_mut);
    for test in tests.into_iter().flat_map(|tests| tests.iter_mut()) {
        let workloads = test
            .get_mut("workload")
            .and_then(Item::as_array_of_tables_mut);
        for workload in workloads
            .into_iter()
            .flat_map(|workloads| workloads.iter_mut())
        {
            if workload.get("testName").and_then(Item::as_str) == Some(EXTERNAL) {
                *workload.entry("libraryPath").or_insert(Item::None) = value(LIBRARIES);
            }
        }
    }
    Ok(document.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_of_an_agent_is_one_of_ours() {
        let (narrow, wide) = (Seed(u32::MAX.into()), Seed(u64::MAX));
        for last in [narrow, wide] {
            assert_eq!(seed_of("7", last), Seed(7));
            assert_eq!(seed_of("8", last), Seed(8));
        }
        assert_eq!(seed_of("4294967296", wide), Seed(1 << 32));
        assert_eq!(seed_of("4294967296", narrow), Seed(1));
        assert_eq!(seed_of("9223372036854775807", wide), Seed((1 << 63) - 1));
        assert_eq!(seed_of("9223372036854775807", narrow), Seed(0x8000_0000));
    }

    #[test]
    fn a_seed_ends_before_its_agent_does() {
        assert_eq!(seconds_for_a_file("", 2, 60.0), 60.0);
        assert_eq!(seconds_for_a_file("5400", 2, 60.0), 60.0);
        assert_eq!(seconds_for_a_file("600", 1, 900.0), 540.0);
        assert_eq!(seconds_for_a_file("100", 3, 60.0), 30.0);
        assert_eq!(seconds_for_a_file("0", 3, 60.0), 60.0);
    }

    #[test]
    fn libraries_are_found_in_the_package() {
        let source =
            "[[test]]\n[[test.workload]]\ntestName = 'External'\nlibraryPath = 'target/release'\n";
        assert!(
            in_package(source)
                .unwrap()
                .contains("libraryPath = \"lib\"")
        );
    }
}
