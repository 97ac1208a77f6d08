//! The messages between the program and its workers: JSON, one message per line, over a socket.
//!
//! A worker receives one [`Job`] and replies with [`Ready`]; then it receives [`Request`]s and
//! replies to each, in order, with a [`Response`]. It ends when the socket closes.
//!
//! A response is two lines: a [`Heading`], and the outcome. Of a seed that passed, the second is
//! what the process of the seed has written; its worker does not read it.

use serde::{Deserialize, Serialize};
use shaketable_fdbserver::Server;
use shaketable_host::case::Case;
use shaketable_host::plan::{Recording, Settings};
use shaketable_host::verdict::Outcome;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What a worker prepares.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// The test files.
    pub files: Vec<FileJob>,
    /// What is the same for every seed.
    pub settings: Settings,
    /// Real seconds after which a seed is killed.
    pub hang_limit_seconds: f64,
    /// Whether what the code under test prints is kept, rather than shown.
    pub capture: bool,
    /// Where seeds are run.
    #[serde(default)]
    pub host: Host,
}

/// Where seeds are run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Host {
    /// In a fork of the worker.
    #[default]
    Embedded,
    /// By a real server.
    Fdbserver {
        /// The server.
        server: Box<Server>,
        /// Whether a trace that is asked for is kept of a run that passes, too.
        keeps_passing: bool,
    },
}

impl Host {
    /// The server, if there is one.
    pub fn server(&self) -> Option<&Server> {
        match self {
            Host::Embedded => None,
            Host::Fdbserver { server, .. } => Some(server),
        }
    }
}

/// One test file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FileJob {
    /// The file.
    pub path: PathBuf,
    /// Libraries that were built for it, by name.
    pub built: BTreeMap<String, PathBuf>,
}

/// Whether the worker is ready.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ready {
    /// Why it is not.
    pub error: Option<String>,
}

/// A seed to simulate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The number of the file in the job.
    pub file: usize,
    /// The seed.
    pub seed: u64,
    /// How much of it to keep.
    pub recording: Recording,
    /// Another case of the file, if it is to be changed. Then the settings of the job do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case: Option<Box<Case>>,
}

/// What a worker says about a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Heading {
    /// The number of the file in the job.
    pub file: usize,
    /// Real seconds it took.
    pub real_seconds: f64,
    /// What the code under test printed, if it failed.
    pub printed: String,
}

/// The outcome of a request.
#[derive(Debug, Clone)]
pub struct Response {
    /// The number of the file in the job.
    pub file: usize,
    /// Real seconds it took.
    pub real_seconds: f64,
    /// What the code under test printed, if it failed.
    pub printed: String,
    /// The result.
    pub outcome: Outcome,
    /// The case that was run, if it was not the file with a seed.
    pub case: Option<Box<Case>>,
}

impl Response {
    /// Reads the two lines of a response.
    pub fn read(heading: &str, outcome: &str) -> serde_json::Result<Response> {
        let Heading {
            file,
            real_seconds,
            printed,
        } = serde_json::from_str(heading)?;
        Ok(Response {
            file,
            real_seconds,
            printed,
            outcome: serde_json::from_str(outcome)?,
            case: None,
        })
    }

    /// The same, as that of a case.
    #[must_use]
    pub fn of_case(self, case: Box<Case>) -> Response {
        Response {
            case: Some(case),
            ..self
        }
    }
}
