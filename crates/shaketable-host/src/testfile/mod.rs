//! FoundationDB's test files, read as they are.
//!
//! A test file is TOML: an optional `[configuration]`, optional `[[knobs]]`, and one or more
//! `[[test]]` tables, each with `[[test.knobs]]` and `[[test.workload]]` tables of its own.
//! [`TestFile::read`] accepts what FoundationDB's tester accepts and turns it into plain data.
//! Where that tester ignores a mistake (a key at the root of the file), hangs on it (an unknown key
//! of `[configuration]`) or only complains afterwards (an unknown knob), the mistake is an error
//! here, found before anything runs.

mod diagnostic;
mod known;
mod limits;
mod parse;
mod reference;

pub use diagnostic::{Finding, TestFileError};
pub use known::EXTERNAL;
pub use shaketable_cluster::knobs::KnobError;

use crate::case::{self, Case};
use crate::options::{WorkloadOption, text_of};
use crate::plan::Liveness;
pub(crate) use parse::set as set_configuration;
pub(crate) use parse::{check_configuration, check_size};
use shaketable_cluster::knobs::Knobs;
use std::path::{Path, PathBuf};

/// A test file.
#[derive(Debug, Clone, PartialEq)]
pub struct TestFile {
    /// Where it was read from, as the user named it.
    pub path: PathBuf,
    /// The table `[configuration]`.
    pub configuration: Configuration,
    /// Knobs for the whole run.
    pub knobs: Vec<Knob>,
    /// The tests, in order; never empty.
    pub tests: Vec<TestSpec>,
    /// The case that named this file and changed it, if one did.
    pub case: Option<Box<Case>>,
}

/// What `[configuration]` can force about the cluster and the run. `None` leaves it to the seed.
#[derive(Debug, Clone, Default, PartialEq)]
#[allow(
    missing_docs,
    reason = "the names are FoundationDB's keys, `swarm` and `liveness`"
)]
pub struct Configuration {
    pub buggify: Option<bool>,
    pub swarm: Option<bool>,
    pub liveness: Option<Liveness>,
    pub fault_injection: Option<bool>,
    pub simple_config: bool,
    pub generate_fearless: Option<bool>,
    pub minimum_replication: Option<i64>,
    pub datacenters: Option<i64>,
    pub machine_count: Option<i64>,
    pub processes_per_machine: Option<i64>,
    pub coordinators: Option<i64>,
    pub desired_tlog_count: Option<i64>,
    pub commit_proxy_count: Option<i64>,
    pub grv_proxy_count: Option<i64>,
    pub resolver_count: Option<i64>,
    pub config: Option<String>,
    pub long_running_test: bool,
    pub normal_timeout_seconds: Option<i64>,
    pub buggify_timeout_seconds: Option<i64>,
}

/// A knob and the text it is set to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Knob {
    /// Its name, in lower case.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// One `[[test]]`.
#[derive(Debug, Clone, PartialEq)]
pub struct TestSpec {
    /// `testTitle`.
    pub title: String,
    /// The line the table starts on; 0 if it stands in no file.
    pub line: usize,
    /// Simulated seconds the whole test may take.
    pub timeout_seconds: f64,
    /// Whether the test has a database.
    pub use_db: bool,
    /// Whether the setup phase runs.
    pub run_setup: bool,
    /// Whether only the check phase runs.
    pub check_only: bool,
    /// Whether the database is emptied after the test.
    pub clear_after_test: bool,
    /// Whether failure workloads may be added that the file does not name.
    pub run_failure_workloads: bool,
    /// Failure workloads that must not be added.
    pub disabled_failure_workloads: Vec<String>,
    /// How often a transaction must get through, in simulated seconds; 0 is never.
    pub database_ping_delay_seconds: f64,
    /// Seconds without random connection failures.
    pub connection_failures_disable_seconds: f64,
    /// Knobs for this test.
    pub knobs: Vec<Knob>,
    /// The workloads, in order; never empty.
    pub workloads: Vec<WorkloadSpec>,
}

/// One `[[test.workload]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadSpec {
    /// `testName`.
    pub name: String,
    /// The line the table starts on; 0 if it stands in no file.
    pub line: usize,
    /// Its options, without `testName`.
    pub options: Vec<WorkloadOption>,
}

impl TestFile {
    /// Reads and checks a file. Of a [`case`], the test file that it names is returned,
    /// changed as the case says.
    pub fn read(path: &Path) -> Result<TestFile, TestFileError> {
        let refuse = |finding| TestFileError::new(path, "", vec![finding]);
        let extension = path.extension().and_then(|extension| extension.to_str());
        if extension == Some("txt") {
            return Err(refuse(
                Finding::at(None, "expected a test file in TOML, found the older `.txt` form")
                    .help("write it as `.toml`: `[[test]]` for each testTitle, `[[test.workload]]` for each testName"),
            ));
        }
        let source = std::fs::read_to_string(path).map_err(|error| {
            refuse(
                Finding::at(None, format!("cannot read the test file: {error}"))
                    .help("give the path of a FoundationDB test file such as `examples/atomic/atomic.toml`"),
            )
        })?;
        if case::is_case(&source) {
            return case::parse(path, &source);
        }
        TestFile::parse(path, &source)
    }

    /// Checks a file that has been read already.
    pub fn parse(path: &Path, source: &str) -> Result<TestFile, TestFileError> {
        parse::parse(path, source)
    }
}

/// A `[[test]]` without any settings.
impl Default for TestSpec {
    fn default() -> Self {
        TestSpec {
            title: String::new(),
            line: 0,
            timeout_seconds: 15_000.0,
            use_db: true,
            run_setup: true,
            check_only: false,
            clear_after_test: true,
            run_failure_workloads: true,
            disabled_failure_workloads: Vec::new(),
            database_ping_delay_seconds: 0.0,
            connection_failures_disable_seconds: 0.0,
            knobs: Vec::new(),
            workloads: Vec::new(),
        }
    }
}

impl TestSpec {
    /// A test's title, or a name for one without.
    pub fn name(&self) -> &str {
        if self.title.is_empty() {
            "(untitled)"
        } else {
            &self.title
        }
    }
}

impl WorkloadSpec {
    /// A workload without options, which stands in no file.
    pub fn new(name: &str) -> WorkloadSpec {
        WorkloadSpec {
            name: name.to_owned(),
            line: 0,
            options: Vec::new(),
        }
    }

    /// Adds an option, with the text that its value has in a file.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<toml_edit::Value>) -> WorkloadSpec {
        self.options.push(WorkloadOption {
            key: key.to_owned(),
            text: text_of(&value.into()),
            line: 0,
        });
        self
    }

    /// Whether the options that a case sets are meant for it: it is the code under test.
    pub(crate) fn takes_options_of_cases(&self) -> bool {
        self.name == EXTERNAL
    }

    /// The workload's name for messages: of an External one the name it has in its library.
    pub fn display_name(&self) -> &str {
        match self.option("workloadName") {
            Some(name) if !name.is_empty() => name,
            _ => &self.name,
        }
    }

    /// The text of an option, unread.
    pub fn option(&self, key: &str) -> Option<&str> {
        self.options
            .iter()
            .find(|option| option.key == key)
            .map(|option| option.text.as_str())
    }
}

/// The reference of test files, as a page in Markdown.
pub fn reference() -> String {
    reference::markdown()
}

/// Checks that a text is a value of a knob, and returns what is wrong otherwise. A knob that does
/// nothing here accepts every text.
pub fn check_knob_value(name: &str, value: &str) -> Result<(), KnobError> {
    match Knobs::default().set(name, value) {
        Ok(()) | Err(KnobError::Unknown { .. }) => Ok(()),
        Err(bad) => Err(bad),
    }
}

/// Whether FoundationDB has a knob of that name; else the nearest one, if any is near.
pub fn check_knob(name: &str) -> Result<(), Option<&'static str>> {
    let name = name.to_lowercase();
    if known::knobs().any(|knob| knob == name) {
        Ok(())
    } else {
        Err(diagnostic::nearest(&name, known::knobs()))
    }
}
