//! What each subcommand is told.
//!
//! A subcommand has its own arguments here and takes the groups of options that it shares with
//! others whole, so an option means the same wherever it is accepted.

use super::groups::{BuildArgs, SimulationArgs, SweepArgs};
use super::host::HostArgs;
use super::output::{LogFormat, MessageFormat, Minimising, OutputArgs, ValuesShown};
use super::values::parse_time;
use crate::seed::Seed;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Test files, or folders to search for them [default: those of the package].
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub sweep: SweepArgs,
    /// Stop at the first failure.
    #[arg(long)]
    pub fail_fast: bool,
    /// Keep the moments at which a run met something for the first time, and spend runs on other
    /// futures from there; `--seeds` is the number of all runs [default: 1000].
    #[arg(long, conflicts_with_all = ["trace", "lint", "shard"])]
    pub guided: bool,
    /// With `--guided`: go on from the moments in this folder, and save them there [default:
    /// target/shaketable/corpus, if `--for` says how long].
    #[arg(long, value_name = "DIR", requires = "guided")]
    pub corpus: Option<PathBuf>,
    /// Stop when every `sometimes!` and `reachable!` has held and, for as many runs again as that
    /// took, no line has met an outcome that was new to it.
    #[arg(long)]
    pub until_stable: bool,
    /// Fail if a `sometimes!` or `reachable!` in the code under test never held, in any seed.
    #[arg(long)]
    pub require_sometimes: bool,
    /// Fail if a line that calls the database has never met an outcome that its calls can have.
    #[arg(long)]
    pub require_coverage: bool,
    /// Make the first failure of each kind small: say what it needs, and keep a case of it. `auto`
    /// does so on a terminal.
    #[arg(
        long,
        value_name = "WHEN",
        num_args = 0..=1,
        require_equals = true,
        default_value = "auto",
        default_missing_value = "always"
    )]
    pub minimise: Minimising,
    /// How long to make failures small, all of them together.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_time)]
    pub minimise_budget: Duration,
    /// Make failures small and remember one case of each kind in this folder [default:
    /// .shaketable/bugs of the cargo workspace]. Where that folder exists, what is made small is
    /// remembered anyway.
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true)]
    pub remember: Option<Option<PathBuf>>,
    /// Write a trace for passing seeds as well.
    #[arg(long)]
    pub trace: bool,
    /// If every seed passed, look for hazards in what they did, and fail if there is one.
    #[arg(long, conflicts_with = "trace")]
    pub lint: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub simulation: SimulationArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub host: HostArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub output: OutputArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub build: BuildArgs,
}

/// `replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The test file, or a case, which has its own seed.
    pub file: PathBuf,
    /// The seed, for a test file.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub seed: Option<Seed>,
    /// How much of values the record shows.
    #[arg(long, value_name = "HOW MUCH", default_value = "short")]
    pub values: ValuesShown,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub simulation: SimulationArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub host: HostArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub output: OutputArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub build: BuildArgs,
}

/// `explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// A test file, or what an earlier run left: its folder, or its record.
    #[arg(required_unless_present = "trace")]
    pub file: Option<PathBuf>,
    /// The seed, for a test file.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub seed: Option<Seed>,
    /// Explain a run under fdbserver from its trace: files, or the folder. The workload's library
    /// must be built with the feature `record` of the crate `shaketable`.
    #[arg(long, value_name = "PATH", num_args = 1.., conflicts_with_all = ["file", "seed"])]
    pub trace: Vec<PathBuf>,
    /// How much of values is looked at and shown. Without values some mistakes cannot be proved.
    #[arg(long, value_name = "HOW MUCH", default_value = "full")]
    pub values: ValuesShown,
    /// The form of the explanation.
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub message_format: MessageFormat,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub simulation: SimulationArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub build: BuildArgs,
}

/// `lint`.
#[derive(Debug, Args)]
pub struct LintArgs {
    /// Test files, or folders to search for them [default: those of the package].
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub sweep: SweepArgs,
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

/// `log`.
#[derive(Debug, Args)]
pub struct LogArgs {
    /// A test file, or what an earlier run left: its folder, or its record.
    pub file: PathBuf,
    /// The seed, for a test file.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub seed: Option<Seed>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub filter: FilterArgs,
    /// The form of the log.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: LogFormat,
    /// How much of values is shown.
    #[arg(long, value_name = "HOW MUCH", default_value = "short")]
    pub values: ValuesShown,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub simulation: SimulationArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub build: BuildArgs,
}

/// Which operations a log shows.
#[derive(Debug, Args, Clone, Default)]
#[command(next_help_heading = "Operations")]
pub struct FilterArgs {
    /// Only those of this client.
    #[arg(long, value_name = "N")]
    pub client: Option<u32>,
    /// Only those about keys whose text has this in it, as `counter` or `("counter",)`.
    #[arg(long, value_name = "TEXT")]
    pub key: Option<String>,
    /// Only those of this transaction.
    #[arg(long, value_name = "N")]
    pub transaction: Option<u32>,
    /// Only those that were answered with an error, or never.
    #[arg(long)]
    pub errors: bool,
    /// Only the last ones.
    #[arg(long, value_name = "N")]
    pub last: Option<usize>,
}

/// `list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Files, or folders to search.
    #[arg(default_value = ".")]
    pub paths: Vec<PathBuf>,
    /// The format of the list.
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub message_format: MessageFormat,
}

/// `check-determinism`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The test file.
    pub file: PathBuf,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub sweep: SweepArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub simulation: SimulationArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub host: HostArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub output: OutputArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub build: BuildArgs,
}

/// `compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The test file.
    pub file: PathBuf,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub sweep: SweepArgs,
    /// How many seeds the embedded host runs [default: ten times as many, and at least 200].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub embedded_seeds: Option<u64>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub simulation: SimulationArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub host: HostArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub output: OutputArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub build: BuildArgs,
}

/// `joshua`.
#[derive(Debug, Args)]
pub struct JoshuaArgs {
    /// Test files, or folders to search for them [default: those of the package].
    pub files: Vec<PathBuf>,
    /// Where the package is written.
    #[arg(long, short, value_name = "FILE", default_value = "package.tar.gz")]
    pub output: PathBuf,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub simulation: SimulationArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub host: HostArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub build: BuildArgs,
}

/// `__joshua-test`.
#[derive(Debug, Args)]
pub struct JoshuaTestArgs {
    /// Test files.
    pub files: Vec<PathBuf>,
    /// What each of them was called where the package was made.
    #[arg(long)]
    pub name: Vec<PathBuf>,
    /// The line that replays each of them there, with `{seed}` for a seed.
    #[arg(long)]
    pub replay: Vec<String>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub simulation: SimulationArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub host: HostArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub build: BuildArgs,
}

/// `stats`.
#[derive(Debug, Args)]
pub struct StatsArgs {
    /// Test files.
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub sweep: SweepArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub simulation: SimulationArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub host: HostArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub output: OutputArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub build: BuildArgs,
}

/// `new`.
#[derive(Debug, Args)]
pub struct NewArgs {
    /// The name of the crate, and of the folder it is written to.
    pub name: String,
    /// Write a workload on tokio, which runs in simulated time.
    #[arg(long)]
    pub tokio: bool,
    /// A clone of Shaketable, or its address, for the dependency lines [default: a clone beside the
    /// crate].
    #[arg(long, value_name = "DIR OR URL")]
    pub source: Option<String>,
}

/// `init`.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// The layer to test [default: the package here that depends on the crate `foundationdb`].
    #[arg(long, short, value_name = "NAME")]
    pub package: Option<String>,
    /// A clone of Shaketable, or its address, for the dependency lines [default: a clone beside the
    /// workspace].
    #[arg(long, value_name = "DIR OR URL")]
    pub source: Option<String>,
    /// The Cargo.toml of the layer or its workspace [default: the nearest one].
    #[arg(long, value_name = "PATH")]
    pub manifest_path: Option<PathBuf>,
}

/// `serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// The cluster file to write.
    #[arg(long, value_name = "FILE", default_value = "fdb.cluster")]
    pub cluster_file: PathBuf,
    /// The socket to listen at, in a folder that only you can enter [default: one in your runtime
    /// folder that stands for the cluster file].
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Keep the database in this folder; a commit is on disk before it is answered [default: the
    /// database is gone with the server].
    #[arg(long, value_name = "FOLDER")]
    pub durable: Option<PathBuf>,
}

/// `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Libraries of workloads to look at.
    pub libraries: Vec<PathBuf>,
    /// The fdbserver to look at [default: FDBSERVER, else the one in the PATH].
    #[arg(long, value_name = "PATH")]
    pub fdbserver: Option<PathBuf>,
    /// The libfdb_c.so to look at [default: FDB_LIBRARY, else the one beside the server].
    #[arg(long, value_name = "PATH")]
    pub fdb_library: Option<PathBuf>,
    /// The format of the findings.
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub message_format: MessageFormat,
}

/// `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell.
    pub shell: clap_complete::Shell,
}

/// `man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Where pages for the program and each subcommand are written.
    pub folder: Option<PathBuf>,
}

/// `report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Files with the JSON messages of sweeps.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Where the page is written.
    #[arg(long, short, value_name = "FILE", default_value = "report.html")]
    pub output: PathBuf,
    /// What the page is about, such as the name of the layer.
    #[arg(long, value_name = "TEXT", default_value = "Simulations")]
    pub title: String,
}

/// `page`.
#[derive(Debug, Args)]
pub struct PageArgs {
    /// A record, or the folder of a failure that has one.
    pub record: PathBuf,
    /// Where the page is written [default: timeline.html beside the record].
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Open the page in a browser.
    #[arg(long)]
    pub open: bool,
    /// Also write a trace for Perfetto (ui.perfetto.dev).
    #[arg(long, value_name = "FILE")]
    pub perfetto: Option<PathBuf>,
}
