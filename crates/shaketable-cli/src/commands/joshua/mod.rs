//! `joshua`: a package for FoundationDB's own test fleet.
//!
//! An agent of Joshua unpacks a `tar.gz`, calls `./joshua_test` in it with a number in
//! `JOSHUA_SEED`, and counts exit status 0 as success; what was printed is kept, and its tools read
//! it as XML, a `<Test>` for each run. A package has everything a run needs: this program, the test
//! files, their libraries, and under fdbserver the server with its client library. So an agent needs
//! nothing but Linux of the same kind.

mod xml;

use crate::args::{JoshuaArgs, JoshuaTestArgs};
use crate::exit_codes;
use crate::pool::Addresses;
use crate::protocol::Request;
use crate::seed::Seed;
use crate::session::{Session, SessionError};
use crate::sweep::run_one;
use flate2::Compression;
use flate2::write::GzEncoder;
use shaketable_host::plan::{Recording, library_path};
use shaketable_host::testfile::{EXTERNAL, TestFile};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The folder of the libraries in a package.
const LIBRARIES: &str = "lib";

/// `joshua`.
pub fn joshua(args: &JoshuaArgs) -> Result<u8, SessionError> {
    let session = Session::prepare(&args.files, &args.simulation, &args.build, true)?;
    let session = session.on(&args.host, &args.simulation, false)?;
    let path = &args.output;
    let written = Package::create(path).and_then(|mut package| {
        package.fill(&session)?;
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
    let session = session.on(&args.host, &args.simulation, false)?;
    let joshua_seed = std::env::var("JOSHUA_SEED").unwrap_or_default();
    let seed = seed_of(&joshua_seed);
    let mut pool = session.pool(1, Addresses::Fixed)?;
    let mut code = exit_codes::PASSED;
    for (file, path) in session.files.iter().enumerate() {
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
        let again = session.repro.line(path, seed.0);
        println!("{}", xml::test(path, &joshua_seed, &response, &again));
    }
    Ok(code)
}

/// An agent's seeds have 63 bits, ours 32; consecutive numbers give different seeds. Without one the
/// seed is random.
fn seed_of(joshua_seed: &str) -> Seed {
    let number: Option<u64> = joshua_seed.parse().ok();
    number.map_or_else(Seed::random, |number| {
        Seed((number ^ (number >> 32)) as u32)
    })
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

    fn fill(&mut self, session: &Session) -> io::Result<()> {
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
        }
        for (name, path) in &libraries {
            self.program(path, &format!("{LIBRARIES}/lib{name}.so"))?;
        }
        for words in session.repro.setting_words() {
            options.push(' ');
            options.push_str(&words);
        }
        let files = names.join(" ");
        let line = format!("./shaketable __joshua-test {files} --no-build{options}");
        let script = format!("#!/bin/sh\ncd \"$(dirname \"$0\")\" || exit 1\nexec {line}\n");
        self.text("joshua_test", &script, 0o755)?;
        self.text("joshua_timeout", TIMEOUT, 0o755)
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

/// What an agent calls when a run has taken too long.
const TIMEOUT: &str = r#"#!/bin/sh
echo "<Test TestFile=\"UNKNOWN\" RandomSeed=\"UNKNOWN\" JoshuaSeed=\"$JOSHUA_SEED\" Ok=\"0\"><ShaketableFailure Severity=\"40\" Kind=\"hung\" Message=\"the run took longer than the ensemble allows\"/></Test>"
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
        assert_eq!(seed_of("7"), Seed(7));
        assert_eq!(seed_of("8"), Seed(8));
        assert_eq!(seed_of("4294967296"), Seed(1));
        assert_eq!(seed_of("9223372036854775807"), Seed(0x8000_0000));
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
