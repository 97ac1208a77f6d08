//! What is written: in which form, how much of it, and to which folder.
//!
//! Unless another folder is asked for, everything that runs leave is below `target/shaketable` of
//! the cargo workspace, wherever in the workspace the program was started.

use crate::report::human::Detail;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Where results, reports and traces are written.
#[derive(Debug, Args, Clone)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// The format of results on standard output; json is one object per line (see docs/running.md).
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub message_format: MessageFormat,
    /// Say more: for a single run, fdbserver's console.
    #[arg(short, long, conflicts_with = "quiet")]
    pub verbose: bool,
    /// Say less: verdicts, causes, and lines to paste.
    #[arg(short, long)]
    pub quiet: bool,
    /// Write a JUnit report to this file.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// The folder for traces [default: that of the failing seed, below target/shaketable/failures
    /// of the cargo workspace].
    #[arg(long, value_name = "DIR")]
    pub trace_dir: Option<PathBuf>,
    /// The form of traces.
    #[arg(long, value_name = "FORMAT", default_value = "json")]
    pub trace_format: TraceFormat,
}

impl OutputArgs {
    /// How much is told.
    pub fn detail(&self) -> Detail {
        match (self.quiet, self.verbose) {
            (true, _) => Detail::Quiet,
            (false, true) => Detail::Verbose,
            (false, false) => Detail::Usual,
        }
    }

    /// The folder for traces: the one that was asked for, or one below the `target` of the
    /// workspace that contains the current folder. Without a workspace, the current folder is used
    /// instead.
    pub fn trace_dir(&self) -> PathBuf {
        self.trace_dir
            .clone()
            .unwrap_or_else(|| results_dir().join("traces"))
    }
}

/// The folder for what runs leave.
pub(crate) fn results_dir() -> PathBuf {
    workspace_root().join("target/shaketable")
}

/// The relative path from the current folder up to the first that holds a `Cargo.lock`; empty if
/// none does.
pub(crate) fn workspace_root() -> PathBuf {
    let Ok(current) = std::env::current_dir() else {
        return PathBuf::new();
    };
    let up = current
        .ancestors()
        .position(|folder| folder.join("Cargo.lock").is_file());
    (0..up.unwrap_or(0)).map(|_| "..").collect()
}

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs)]
pub enum MessageFormat {
    Human,
    Json,
}

/// Whether a sweep makes its failures small: `auto` is if a person waits for the result, on a
/// terminal and outside of CI, and not for cases, which are small.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs)]
pub enum Minimising {
    Auto,
    Always,
    Never,
}

/// The form of traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs)]
pub enum TraceFormat {
    Json,
    Xml,
}

impl From<TraceFormat> for shaketable_host::trace::Format {
    fn from(format: TraceFormat) -> Self {
        match format {
            TraceFormat::Json => shaketable_host::trace::Format::Json,
            TraceFormat::Xml => shaketable_host::trace::Format::Xml,
        }
    }
}

/// The form of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs)]
pub enum LogFormat {
    Text,
    Json,
    Csv,
}

/// How much of values is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ValuesShown {
    /// Only their sizes.
    None,
    /// The first 256 bytes.
    #[default]
    Short,
    /// Everything.
    Full,
}

impl From<ValuesShown> for shaketable_host::plan::Values {
    fn from(values: ValuesShown) -> shaketable_host::plan::Values {
        match values {
            ValuesShown::None => shaketable_host::plan::Values::None,
            ValuesShown::Short => shaketable_host::plan::Values::Short,
            ValuesShown::Full => shaketable_host::plan::Values::Full,
        }
    }
}
