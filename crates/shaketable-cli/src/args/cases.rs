//! What the subcommands about decisions and cases are told.

use super::groups::{BuildArgs, SearchArgs, SimulationArgs};
use super::output::MessageFormat;
use crate::seed::Seed;
use clap::Args;
use std::path::PathBuf;

/// `minimise`.
#[derive(Debug, Args)]
pub struct MinimiseArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub search: SearchArgs,
    /// Write the case to this file too.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub simulation: SimulationArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub build: BuildArgs,
}

/// `when`.
#[derive(Debug, Args)]
pub struct WhenArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub search: SearchArgs,
    /// How many futures are run from each moment on.
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u64).range(1..))]
    pub futures: u64,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub simulation: SimulationArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub build: BuildArgs,
}

/// `bugs`.
#[derive(Debug, Args)]
pub struct BugsArgs {
    /// The folder with their cases [default: .shaketable/bugs of the cargo workspace].
    pub folder: Option<PathBuf>,
    /// The form of the list; json is one object per line.
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub message_format: MessageFormat,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub simulation: SimulationArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub build: BuildArgs,
}

/// `decisions`.
#[derive(Debug, Args)]
pub struct DecisionsArgs {
    /// The test file, or a case, which has its own seed.
    pub file: PathBuf,
    /// The seed, for a test file.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub seed: Option<Seed>,
    /// The form of the list; json is one object per line.
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub message_format: MessageFormat,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub simulation: SimulationArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub build: BuildArgs,
}
