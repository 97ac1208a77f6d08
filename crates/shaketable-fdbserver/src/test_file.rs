//! The test file, as a server understands it.
//!
//! A user writes one file for both hosts. A server gets the same text, with what must differ there:
//! libraries are named by the folder of the run, keys that only the embedded host knows are left
//! out, and engines that the server's build does not have cannot be drawn. Keys come and go with
//! FoundationDB's releases: one that the server does not know is left out if that changes nothing,
//! and refused if it does. What a server cannot do at all, such as a given number of clients, is
//! refused here: fdbserver would ignore it, or hang.

use crate::server::{Server, Version};
use shaketable_host::options::text_of;
use shaketable_host::plan::{Settings, library_path};
use shaketable_host::testfile::{EXTERNAL, TestFile};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml_edit::{Array, DocumentMut, Item, Table, Value, value};

/// What a run of a test file needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// The text of the file.
    pub text: String,
    /// The libraries that it names, with where they lie.
    pub libraries: BTreeMap<String, PathBuf>,
    /// What the file says about buggify, which beats the command line.
    pub buggify: Option<bool>,
    /// What the file says about faults of machines and disks.
    pub fault_injection: Option<bool>,
    /// The workload, if all of them are the same, for messages.
    pub workload: String,
}

/// Why a server cannot run a file.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum Unsupported {
    #[error(
        "{} is a case: fdbserver cannot drop or force single decisions. Run the test file that it names",
        .0.display()
    )]
    Case(PathBuf),
    #[error(
        "fdbserver draws the number of clients from the seed: leave out --clients, or use the embedded host"
    )]
    Clients,
    #[error("--stress is for the embedded host: fdbserver has only --buggify")]
    Stress,
    #[error("--swarm is for the embedded host: fdbserver draws faults by itself")]
    Swarm,
    #[error(
        "{}: fdbserver {version} does not know `{key}` in [configuration], and hangs on such a key",
        .file.display()
    )]
    Key {
        file: PathBuf,
        key: &'static str,
        version: Version,
    },
    #[error("{}: the library {} is not there{}", .file.display(), .library.display(), "; build it, or leave out --no-build")]
    NoLibrary { file: PathBuf, library: PathBuf },
    #[error("cannot read {}", .0.display())]
    Read(PathBuf, #[source] std::io::Error),
    #[error("cannot change {}", .0.display())]
    Parse(PathBuf, #[source] toml_edit::TomlError),
}

/// The folder with the libraries, in that of the run.
pub(crate) const LIBRARIES: &str = "lib";

/// Keys of `[configuration]` that 8.0 no longer knows, with the value that is as good as none.
const REMOVED_IN_8_0: [(&str, &str); 9] = [
    ("tenantModes", "disabled"),
    ("encryptModes", "disabled"),
    ("configDB", "disabled"),
    ("blobGranulesEnabled", "false"),
    ("allowDefaultTenant", "false"),
    ("allowCreatingTenants", "false"),
    ("allowDisablingTenants", "false"),
    ("defaultTenant", ""),
    ("disableRemoteKVS", "true"),
];

/// Keys of `[[test]]` that steer checks of FoundationDB's own storage: with the first release that
/// has them, and the first that does not.
const TEST_KEYS: [(&str, u32, u32); 2] = [
    ("runConsistencyCheckOnCache", 0, 8),
    ("maxDDRunTime", 8, u32::MAX),
];

/// Engines that need RocksDB.
const ROCKSDB_ENGINES: [i64; 2] = [4, 5];

impl Server {
    /// Makes a test file ready for this server. `built` holds the libraries that were built for it.
    pub fn prepare(
        &self,
        path: &Path,
        built: &BTreeMap<String, PathBuf>,
        settings: &Settings,
    ) -> Result<Prepared, Unsupported> {
        refuse_settings(settings)?;
        let read = |error| Unsupported::Read(path.to_owned(), error);
        let source = std::fs::read_to_string(path).map_err(read)?;
        if shaketable_host::case::is_case(&source) {
            return Err(Unsupported::Case(path.to_owned()));
        }
        let unreadable = |error| Unsupported::Parse(path.to_owned(), error);
        let mut document: DocumentMut = source.parse().map_err(unreadable)?;
        // It has been read before, with better messages than these.
        let file =
            TestFile::parse(path, &source).map_err(|_| Unsupported::Case(path.to_owned()))?;
        self.change_configuration(path, &mut document)?;
        let mut libraries = BTreeMap::new();
        let mut names = Vec::new();
        let workloads = file.tests.iter().flat_map(|test| &test.workloads);
        for workload in workloads.filter(|workload| workload.name == EXTERNAL) {
            let name = workload.option("libraryName").unwrap_or_default();
            names.push(workload.option("workloadName").unwrap_or_default());
            let Some(library) = library_path(path, workload, built) else {
                continue;
            };
            let missing = || Unsupported::NoLibrary {
                file: path.to_owned(),
                library: library.clone(),
            };
            let found = std::fs::canonicalize(&library).map_err(|_| missing())?;
            libraries.insert(name.to_owned(), found);
        }
        names.dedup();
        self.change_tests(&mut document);
        for_each_workload(&mut document, |workload| {
            let is_external = workload.get("testName").and_then(Item::as_str) == Some(EXTERNAL);
            if is_external {
                let name = workload.get("libraryName").and_then(Item::as_str);
                let folder = name.and_then(|name| folder_of(name, libraries.get(name)?));
                let folder = folder.unwrap_or_else(|| LIBRARIES.to_owned());
                // The key keeps its place.
                *workload.entry("libraryPath").or_insert(Item::None) = value(folder);
            }
        });
        Ok(Prepared {
            text: document.to_string(),
            libraries,
            buggify: file.configuration.buggify,
            fault_injection: file.configuration.fault_injection,
            workload: match names[..] {
                [name] => name.to_owned(),
                _ => String::new(),
            },
        })
    }

    /// Changes `[configuration]` into what this server accepts.
    fn change_configuration(
        &self,
        path: &Path,
        document: &mut DocumentMut,
    ) -> Result<(), Unsupported> {
        let is_given = |document: &DocumentMut, key: &str| {
            let configuration = document.get("configuration").and_then(Item::as_table_like);
            configuration.is_some_and(|configuration| configuration.contains_key(key))
        };
        // On the command line instead: 7.4 does not know the key.
        for ours in ["swarm", "liveness", "faultInjection"] {
            if is_given(document, ours) {
                document["configuration"][ours] = Item::None;
            }
        }
        let refuse = |key| Unsupported::Key {
            file: path.to_owned(),
            key,
            version: self.version,
        };
        if self.version.major < 8 && is_given(document, "singleRegion") {
            return Err(refuse("singleRegion"));
        }
        let removed = REMOVED_IN_8_0.iter().filter(|_| self.version.major >= 8);
        for (key, nothing) in removed {
            let configuration = document.get_mut("configuration");
            let configuration = configuration.and_then(Item::as_table_like_mut);
            let removed = configuration.and_then(|configuration| configuration.remove(key));
            let value = removed.as_ref().and_then(Item::as_value).map(text_of);
            if value.is_some_and(|value| value != *nothing) {
                return Err(refuse(key));
            }
        }
        let chooses = ["storageEngineType", "storageEngineExcludeTypes", "config"];
        if !self.has_rocksdb && !chooses.iter().any(|key| is_given(document, key)) {
            let configuration = document
                .entry("configuration")
                .or_insert(Item::Table(Table::new()));
            configuration["storageEngineExcludeTypes"] =
                value(ROCKSDB_ENGINES.into_iter().collect::<Array>());
        }
        Ok(())
    }
}

impl Server {
    /// Changes the tests into what this server reads as we do.
    fn change_tests(&self, document: &mut DocumentMut) {
        let major = self.version.major;
        let tests = document.get_mut("test");
        let tests = tests.and_then(Item::as_array_of_tables_mut);
        for test in tests.into_iter().flat_map(|tests| tests.iter_mut()) {
            for (key, first, gone) in TEST_KEYS {
                if !(first..gone).contains(&major) {
                    test.remove(key);
                }
            }
        }
        if major < 8 {
            // It would hand a workload an array with its brackets and quotes.
            for_each_workload(document, |workload| {
                for (_, item) in workload.iter_mut() {
                    if let Some(array @ Value::Array(_)) = item.as_value() {
                        *item = value(text_of(array));
                    }
                }
            });
        }
    }
}

/// Refuses what only the embedded host can do.
fn refuse_settings(settings: &Settings) -> Result<(), Unsupported> {
    match settings {
        Settings {
            clients: Some(_), ..
        } => Err(Unsupported::Clients),
        Settings {
            stress: Some(true), ..
        } => Err(Unsupported::Stress),
        Settings {
            swarm: Some(true), ..
        } => Err(Unsupported::Swarm),
        _ => Ok(()),
    }
}

/// The folder of a library, if it has the name there by which a server looks for it: what the
/// library traces about itself then holds when the run is over.
fn folder_of(name: &str, library: &Path) -> Option<String> {
    let is_named_so = library.file_name()?.to_str()? == format!("lib{name}.so");
    let folder = library.parent()?.to_str()?;
    is_named_so.then(|| folder.to_owned())
}

fn for_each_workload(document: &mut DocumentMut, mut change: impl FnMut(&mut Table)) {
    let Some(tests) = document
        .get_mut("test")
        .and_then(Item::as_array_of_tables_mut)
    else {
        return;
    };
    for test in tests.iter_mut() {
        let workloads = test.get_mut("workload");
        let Some(workloads) = workloads.and_then(Item::as_array_of_tables_mut) else {
            continue;
        };
        workloads.iter_mut().for_each(&mut change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(has_rocksdb: bool) -> Server {
        Server {
            program: "fdbserver".into(),
            client_library: "libfdb_c.so".into(),
            version: Version {
                major: 7,
                minor: 4,
                patch: 7,
            },
            source: String::new(),
            has_rocksdb,
        }
    }

    const FILE: &str = "\
# Kept as it is.
[configuration]
swarm = false
faultInjection = false
buggify = true

[[test]]
testTitle = 'Walk'

  [[test.workload]]
  testName = 'External'
  useCAPI = true
  libraryName = 'walk'
  libraryPath = 'target/release'
  workloadName = 'Walk'

  [[test.workload]]
  testName = 'Attrition'
";

    fn prepare(server: &Server, text: &str, settings: &Settings) -> Result<Prepared, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("walk.toml");
        let library = folder.path().join("libwalk.so");
        std::fs::write(&path, text).unwrap();
        std::fs::write(&library, "").unwrap();
        let built = BTreeMap::from([("walk".to_owned(), library)]);
        let told = |error: Unsupported| {
            let folder = folder.path().display().to_string();
            error.to_string().replace(&folder, "DIR")
        };
        let mut prepared = server.prepare(&path, &built, settings).map_err(told)?;
        let real = std::fs::canonicalize(folder.path()).unwrap();
        prepared.text = prepared.text.replace(&real.display().to_string(), "DIR");
        Ok(prepared)
    }

    #[test]
    fn what_a_server_does_not_know_is_left_out() {
        let prepared = prepare(&server(false), FILE, &Settings::default()).unwrap();
        insta::assert_snapshot!(prepared.text, @r#"
        # Kept as it is.
        [configuration]
        buggify = true
        storageEngineExcludeTypes = [4, 5]

        [[test]]
        testTitle = 'Walk'

          [[test.workload]]
          testName = 'External'
          useCAPI = true
          libraryName = 'walk'
          libraryPath = "DIR"
          workloadName = 'Walk'

          [[test.workload]]
          testName = 'Attrition'
        "#);
        assert_eq!(prepared.workload, "Walk");
        assert_eq!(
            (prepared.buggify, prepared.fault_injection),
            (Some(true), Some(false))
        );
        let whole = prepare(&server(true), FILE, &Settings::default()).unwrap();
        assert!(!whole.text.contains("Exclude"));
    }

    /// The configuration and the tests of a file as another server gets them.
    fn for_version(major: u32, text: &str) -> Result<String, String> {
        let mut server = server(true);
        server.version = Version {
            major,
            minor: 0,
            patch: 0,
        };
        let prepared = prepare(&server, text, &Settings::default())?;
        Ok(prepared.text)
    }

    #[test]
    fn a_key_that_changes_nothing_is_left_out_for_a_server_that_does_not_know_it() {
        let text = FILE
            .replace(
                "swarm = false",
                "tenantModes = ['disabled']\ndisableRemoteKVS = true",
            )
            .replace(
                "testTitle = 'Walk'",
                "testTitle = 'Walk'\nmaxDDRunTime = 5.0\nrunConsistencyCheckOnCache = false",
            );
        let is_in = |text: &str| {
            let keys = ["tenantModes", "RemoteKVS", "maxDDRunTime", "OnCache"];
            keys.map(|key| text.contains(key))
        };
        let (old, new) = (for_version(7, &text), for_version(8, &text));
        assert_eq!(is_in(&old.unwrap()), [true, true, false, true]);
        assert_eq!(is_in(&new.unwrap()), [false, false, true, false]);
        let text = FILE.replace("swarm = false", "tenantModes = ['disabled', 'optional']");
        assert!(for_version(7, &text).is_ok());
        insta::assert_snapshot!(for_version(8, &text).unwrap_err(), @"DIR/walk.toml: fdbserver 8.0.0 does not know `tenantModes` in [configuration], and hangs on such a key");
        let text = FILE.replace("swarm = false", "singleRegion = true");
        assert!(for_version(8, &text).is_ok());
    }

    #[test]
    fn an_array_means_the_same_to_a_server_that_would_print_it_as_toml() {
        let text = FILE.replace("useCAPI = true", "useCAPI = true\n  names = ['a', 'b']");
        assert!(for_version(7, &text).unwrap().contains("names = \"a,b\""));
        assert!(
            for_version(8, &text)
                .unwrap()
                .contains("names = ['a', 'b']")
        );
    }

    #[test]
    fn what_a_server_cannot_do_is_refused() {
        let refused = |settings: Settings| prepare(&server(true), FILE, &settings).unwrap_err();
        let clients = Settings {
            clients: Some(2),
            ..Settings::default()
        };
        insta::assert_snapshot!(refused(clients), @"fdbserver draws the number of clients from the seed: leave out --clients, or use the embedded host");
        let text = FILE.replace("swarm = false", "singleRegion = true");
        insta::assert_snapshot!(prepare(&server(true), &text, &Settings::default()).unwrap_err(), @"DIR/walk.toml: fdbserver 7.4.7 does not know `singleRegion` in [configuration], and hangs on such a key");
    }
}
