//! What `explore` is told.

use super::groups::{BuildArgs, SimulationArgs};
use super::output::MessageFormat;
use super::values::parse_time;
use crate::seed::Seed;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// `explore`.
#[derive(Debug, Args)]
pub struct ExploreArgs {
    /// The test file, or a case, which has its own seed.
    pub file: PathBuf,
    /// The seed, for a test file.
    #[arg(
        long,
        value_name = "N",
        default_value = "1",
        allow_negative_numbers = true
    )]
    pub seed: Seed,
    /// How long to search.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_time)]
    pub budget: Duration,
    /// How many processes simulate at once [default: the number of cores].
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
    /// The form of the report.
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub message_format: MessageFormat,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub simulation: SimulationArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub build: BuildArgs,
}
