//! Options that several subcommands share: which seeds, how they are simulated, how the workload
//! library is built, and how long a search takes.
//!
//! Each group is a heading of its own in the help, except the last, which is what a search is
//! about.

use super::output::MessageFormat;
use super::values::{
    Shard, parse_knob, parse_liveness, parse_shard, parse_stalled_after, parse_time,
};
use crate::seed::Seed;
use clap::{Args, ValueEnum};
use shaketable_host::plan::{Liveness, StalledAfter};
use std::path::PathBuf;
use std::time::Duration;

/// Which seeds, and with how many processes.
#[derive(Debug, Args, Clone)]
#[command(next_help_heading = "Seeds")]
pub struct SweepArgs {
    /// The first seed: decimal, 0x hexadecimal, or a git commit hash [default: random].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub seed: Option<Seed>,
    /// How many seeds to run.
    #[arg(long, value_name = "N", conflicts_with = "duration")]
    pub seeds: Option<u64>,
    /// Keep running seeds for this long: 30s, 10m, 2h.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
    pub duration: Option<Duration>,
    /// How many processes simulate at once [default: the number of cores].
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
    /// Split the seeds into N parts and run only part I.
    #[arg(long, value_name = "I/N", value_parser = parse_shard)]
    pub shard: Option<Shard>,
}

/// One run that is looked into by many others, and for how long.
#[derive(Debug, Args, Clone)]
pub struct SearchArgs {
    /// The test file, or a case, which has its own seed.
    pub file: PathBuf,
    /// The seed, for a test file.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub seed: Option<Seed>,
    /// How long to search.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_time)]
    pub budget: Duration,
    /// How many processes simulate at once [default: the number of cores].
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
    /// The form of the report.
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub message_format: MessageFormat,
}

/// What is the same for every seed.
#[derive(Debug, Args, Clone)]
#[command(next_help_heading = "Simulation")]
pub struct SimulationArgs {
    /// Whether each seed draws how it is run: buggify, stress, which of the faults that the file
    /// allows and how strong, how many clients [default: the test file's setting, else on].
    #[arg(long, value_name = "on|off")]
    pub swarm: Option<OnOff>,
    /// Whether the cluster misbehaves in rare but legal ways [default: the test file's setting,
    /// else drawn from the seed].
    #[arg(long, value_name = "on|off")]
    pub buggify: Option<OnOff>,
    /// Whether `Attrition` may kill machines and break disks; clogging is not affected, as in
    /// fdbserver [default: the test file's setting, else on].
    #[arg(long, value_name = "on|off")]
    pub fault_injection: Option<OnOff>,
    /// Make rare but legal outcomes frequent: commits of unknown fate, old versions, short ranges,
    /// late watches [default: drawn from the seed].
    #[arg(long, value_name = "on|off", num_args = 0..=1, require_equals = true, default_missing_value = "on")]
    pub stress: Option<OnOff>,
    /// Set a knob; may be repeated.
    #[arg(long = "knob", value_name = "NAME=VALUE", value_parser = parse_knob)]
    pub knobs: Vec<(String, String)>,
    /// The number of clients [default: drawn from the seed, mostly 4 to 8].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=250))]
    pub clients: Option<u32>,
    /// Fail a run if a client makes no progress for this long in simulated time after all fault
    /// workloads have ended; `off` sets no limit.
    #[arg(long, value_name = "TIME|off", default_value = "300s", value_parser = parse_stalled_after)]
    pub stalled_after: StalledAfter,
    /// From a moment on, leave a minority of the machines dead or cut off for good, stop all other
    /// faults, and fail a run if a phase has not ended this long afterwards, in simulated time;
    /// 300s if no time is given [default: the test file's setting, else off].
    #[arg(long, value_name = "TIME|off", num_args = 0..=1, require_equals = true, default_missing_value = "300s", value_parser = parse_liveness)]
    pub liveness: Option<Liveness>,
    /// Kill a seed that takes longer than this in real time [default: 60s, under fdbserver 15m].
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub hang_limit: Option<Duration>,
}

/// A switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs)]
pub enum OnOff {
    On,
    Off,
}

impl OnOff {
    /// As a boolean.
    pub fn is_on(self) -> bool {
        self == OnOff::On
    }

    /// As it is written on the command line.
    pub fn text(on: bool) -> &'static str {
        if on { "on" } else { "off" }
    }
}

/// How the workload library is built.
#[derive(Debug, Args, Clone, Default)]
#[command(next_help_heading = "Build")]
pub struct BuildArgs {
    /// The package that builds the library [default: the one that contains the test file].
    #[arg(long, short, value_name = "NAME")]
    pub package: Option<String>,
    /// The example of the package that builds the library.
    #[arg(long, value_name = "NAME")]
    pub example: Option<String>,
    /// Features to build it with.
    #[arg(long, value_name = "LIST")]
    pub features: Vec<String>,
    /// The cargo profile to build it with.
    #[arg(long, value_name = "NAME", default_value = "release")]
    pub profile: String,
    /// The manifest of the package or its workspace.
    #[arg(long, value_name = "FILE")]
    pub manifest_path: Option<PathBuf>,
    /// Use the library that is already at the test file's libraryPath.
    #[arg(long)]
    pub no_build: bool,
}
