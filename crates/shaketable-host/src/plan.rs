//! Everything that can be prepared before the first seed: the test file, its libraries, and what
//! was asked for on top.

use crate::case::Case;
use crate::library::{Library, LoadError};
use crate::testfile::{EXTERNAL, TestFile, WorkloadSpec};
use crate::trace::Format;
use crate::verdict::Failure;
use serde::{Deserialize, Serialize};
use shaketable_kernel::Time;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A test file with its libraries loaded.
#[derive(Clone)]
pub struct Plan {
    /// The file.
    pub file: TestFile,
    libraries: BTreeMap<PathBuf, Library>,
    /// For each test, for each workload: the path of its library.
    paths: Vec<Vec<Option<PathBuf>>>,
}

/// What is the same for every seed; `None` leaves it to the file or the seed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Settings {
    /// Whether each seed draws how it is run.
    #[serde(default)]
    pub swarm: Option<bool>,
    /// Whether the cluster misbehaves in rare but legal ways.
    pub buggify: Option<bool>,
    /// Whether machines and disks may fail.
    pub fault_injection: Option<bool>,
    /// Whether rare but legal outcomes are frequent.
    #[serde(default)]
    pub stress: Option<bool>,
    /// Knobs, which override those of the file.
    pub knobs: Vec<(String, String)>,
    /// The number of clients.
    pub clients: Option<u32>,
    /// Whether it is counted what becomes of the calls of each line.
    #[serde(default)]
    pub coverage: bool,
    /// Whether the workload's library counts what the database answers, as it does under fdbserver.
    #[serde(default)]
    pub measure: bool,
    /// Whether it is kept when something was met for the first time; with `coverage`, also of the
    /// calls of each line.
    #[serde(default)]
    pub moments: bool,
    /// After how many simulated seconds without progress a client has stalled.
    #[serde(default)]
    pub stalled_after: StalledAfter,
    /// Whether a minority is left broken for good, and the rest must get on.
    #[serde(default)]
    pub liveness: Option<Liveness>,
}

/// Whether from a moment on a minority of the machines is broken for good, every other fault has
/// stopped, and each phase must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Liveness {
    /// No: faults come and go as the test file says.
    Off,
    /// Yes, and each phase has this many simulated seconds.
    Seconds(u64),
}

impl Liveness {
    /// How many simulated seconds a phase has unless something else is said: long enough for a
    /// recovery, and for copying the data of a lost machine.
    pub const SECONDS_USUAL: u64 = 300;

    /// As a file says it, where 0 means no.
    pub fn of_seconds(seconds: u64) -> Liveness {
        match seconds {
            0 => Liveness::Off,
            seconds => Liveness::Seconds(seconds),
        }
    }

    /// The opposite.
    pub fn seconds(self) -> u64 {
        match self {
            Liveness::Off => 0,
            Liveness::Seconds(seconds) => seconds,
        }
    }
}

/// After how many simulated seconds without progress of a client, with the fault workloads over, a
/// run has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StalledAfter {
    /// This many.
    Seconds(u64),
    /// A client may wait as long as the run may take.
    Never,
}

impl Default for StalledAfter {
    fn default() -> StalledAfter {
        StalledAfter::Seconds(STALLED_AFTER_SECONDS)
    }
}

/// Longer than anything takes in a healthy cluster.
const STALLED_AFTER_SECONDS: u64 = 300;

/// How much of a run is kept.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recording {
    /// Only what the verdict needs.
    #[default]
    Nothing,
    /// The faults shortly before a failure.
    Faults,
    /// Every decision of chance, by name.
    Decisions,
    /// The faults, and where in the code under test each call was made that has not ended.
    Places,
    /// What becomes of other futures; see [`Futures`].
    Futures(Futures),
    /// What becomes of copies that meet other outcomes; see [`Fates`].
    Fates(Fates),
    /// Every transaction, which is searched for hazards when the run is over; nothing is written.
    Hazards,
    /// Every event, to a file.
    Trace {
        /// The file.
        path: PathBuf,
        /// Its form.
        format: Format,
        /// Where the record of every transaction goes, if it is wanted.
        #[serde(default)]
        record: Option<RecordTo>,
    },
}

/// Moments at which a run is copied, and the seeds from which each copy draws what comes after. The
/// run itself ends at the last moment.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Futures {
    /// In simulated seconds, in order.
    pub moments: Vec<f64>,
    /// One copy for each, at each moment.
    pub seeds: Vec<u64>,
}

/// Outcomes of single operations. The run is copied at each of these operations, and the copy meets
/// the outcome; the run itself ends at the last.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Fates {
    /// The name of an operation, and its outcome, as a case would list them.
    pub tries: Vec<(String, String)>,
}

/// A record that is wanted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordTo {
    /// The file. Its folder is made if it is not there.
    pub path: PathBuf,
    /// How much of values it shows.
    pub values: Values,
    /// The line that runs the seed again.
    pub reproduce: Option<String>,
    /// How the run will end, if that is known and cannot be recorded when it happens: its process
    /// dies.
    #[serde(default)]
    pub(crate) death: Option<KnownDeath>,
}

impl RecordTo {
    /// A record in this file.
    pub fn new(path: PathBuf, values: Values, reproduce: Option<String>) -> RecordTo {
        RecordTo {
            path,
            values,
            reproduce,
            death: None,
        }
    }
}

/// The death of a process that simulated the same seed before: a record ends just before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct KnownDeath {
    /// The simulated time, in nanoseconds.
    pub(crate) nanos: u64,
    /// The verdict.
    pub(crate) verdict: Vec<Failure>,
}

/// How much of values a record shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Values {
    /// Only their sizes.
    None,
    /// Their beginnings.
    #[default]
    Short,
    /// Everything.
    Full,
}

impl Recording {
    /// The record that is wanted.
    pub(crate) fn record(&self) -> Option<&RecordTo> {
        match self {
            Recording::Trace { record, .. } => record.as_ref(),
            Recording::Nothing
            | Recording::Faults
            | Recording::Decisions
            | Recording::Places
            | Recording::Futures(_)
            | Recording::Fates(_)
            | Recording::Hazards => None,
        }
    }

    /// Whether every transaction is recorded.
    pub fn is_of_transactions(&self) -> bool {
        self.record().is_some() || *self == Recording::Hazards
    }

    /// The same record, of a run that is ended before the moment at which its process died. The
    /// trace of the dead process stays.
    pub(crate) fn until_death(&self, time: Time, verdict: &[Failure]) -> Option<Recording> {
        let Recording::Trace { format, record, .. } = self else {
            return None;
        };
        let record = record.as_ref()?;
        Some(Recording::Trace {
            path: "/dev/null".into(),
            format: *format,
            record: Some(RecordTo {
                death: Some(KnownDeath {
                    nanos: time.as_nanos(),
                    verdict: verdict.to_vec(),
                }),
                ..record.clone()
            }),
        })
    }

    /// The file the trace goes to, as outcomes name it.
    pub(crate) fn trace_path(&self) -> Option<String> {
        match self {
            Recording::Trace { path, .. } => Some(path.display().to_string()),
            Recording::Nothing
            | Recording::Faults
            | Recording::Decisions
            | Recording::Places
            | Recording::Futures(_)
            | Recording::Fates(_)
            | Recording::Hazards => None,
        }
    }
}

impl Plan {
    /// Loads the libraries a file names. `built` holds the paths of libraries that were built for
    /// this run, by name.
    pub fn load(file: TestFile, built: &BTreeMap<String, PathBuf>) -> Result<Plan, LoadError> {
        let paths: Vec<Vec<Option<PathBuf>>> = file
            .tests
            .iter()
            .map(|test| {
                let workloads = test.workloads.iter();
                workloads
                    .map(|workload| library_path(&file.path, workload, built))
                    .collect()
            })
            .collect();
        let mut libraries = BTreeMap::new();
        for path in paths.iter().flatten().flatten() {
            if !libraries.contains_key(path) {
                libraries.insert(path.clone(), Library::load(path)?);
            }
        }
        Ok(Plan {
            file,
            libraries,
            paths,
        })
    }

    /// A plan for a factory in this program itself, used for every library that the file names.
    pub fn in_process(file: TestFile, library: Library) -> Plan {
        let path = library.path.clone();
        let paths = file
            .tests
            .iter()
            .map(|test| {
                let workloads = test.workloads.iter();
                workloads
                    .map(|workload| (workload.name == EXTERNAL).then(|| path.clone()))
                    .collect()
            })
            .collect();
        Plan {
            file,
            libraries: BTreeMap::from([(path, library)]),
            paths,
        }
    }

    /// The same plan for another case of its file.
    #[must_use]
    pub fn with_case(&self, case: Case) -> Plan {
        let mut file = self.file.clone();
        case.apply(&mut file);
        Plan {
            file,
            libraries: self.libraries.clone(),
            paths: self.paths.clone(),
        }
    }

    /// The library of a workload block, if it is an External one.
    pub(crate) fn library(&self, test: usize, workload: usize) -> Option<&Library> {
        self.libraries.get(self.paths[test][workload].as_ref()?)
    }
}

/// Where the library of an External block is expected: built for this run, or from the current
/// folder as in fdbserver, or from the folder of the test file.
pub fn library_path(
    file: &Path,
    workload: &WorkloadSpec,
    built: &BTreeMap<String, PathBuf>,
) -> Option<PathBuf> {
    if workload.name != EXTERNAL {
        return None;
    }
    let name = workload.option("libraryName").unwrap_or_default();
    if let Some(path) = built.get(name) {
        return Some(path.clone());
    }
    let folder = workload.option("libraryPath").unwrap_or(".");
    let file_name = format!("lib{name}{}", std::env::consts::DLL_SUFFIX);
    let from_here = Path::new(folder).join(&file_name);
    let from_file = file
        .parent()
        .unwrap_or(Path::new(""))
        .join(folder)
        .join(&file_name);
    if !from_here.is_file() && from_file.is_file() {
        return Some(from_file);
    }
    Some(from_here)
}
