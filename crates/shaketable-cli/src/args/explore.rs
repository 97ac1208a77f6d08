//! What `explore` is told.

use super::groups::{BuildArgs, SearchArgs, SimulationArgs};
use clap::Args;

/// `explore`.
#[derive(Debug, Args)]
#[command(mut_arg("seed", |seed| seed.default_value("1")))]
#[command(mut_arg("budget", |budget| budget.default_value("30s")))]
pub struct ExploreArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub search: SearchArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub simulation: SimulationArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub build: BuildArgs,
}
