//! The command line.

use crate::report::human::Detail;
use crate::seed::Seed;
use clap::{Args, Parser, Subcommand, ValueEnum};
use shaketable_host::plan::StalledAfter;
use shaketable_host::testfile::{KnobError, check_knob, check_knob_value};
use std::path::PathBuf;
use std::time::Duration;

/// Deterministic simulation testing for everything built on FoundationDB.
///
/// Runs the test files of FoundationDB's simulator: a workload library against a simulated cluster
/// that fails in every way a real one can. A seed decides everything in a run, so any run can be
/// repeated exactly.
#[derive(Debug, Parser)]
#[command(name = "shaketable", version, after_help = EXAMPLES, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  shaketable run tests/atomic.toml                 one seed, a readable verdict
  shaketable run tests/atomic.toml --seeds 1000    a thousand seeds on all cores
  shaketable replay tests/atomic.toml --seed 42    the same run again, with its record
  cargo shaketable run -p my-workloads --for 10m   build the library, then run for ten minutes

Exit status: 0 passed, 100 a seed failed, 103 not deterministic, 101 does not build,
96 cannot be set up, 4 nothing to run, 2 wrong usage, 130 interrupted.";

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run test files with one seed or many.
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Run one seed again and write its full trace and its record.
    #[command(after_help = "\
Examples:
  shaketable replay tests/atomic.toml --seed 42
  shaketable replay tests/atomic.toml --seed 42 --trace-dir /tmp --trace-format xml")]
    Replay(ReplayArgs),
    /// Say why a run failed: the mistake, the operations that prove it, and what to do about it.
    #[command(after_help = "\
Examples:
  shaketable explain tests/atomic.toml --seed 42
  shaketable explain target/shaketable/failures/atomic-42
  shaketable explain --trace simfdb/          a run under fdbserver, from its trace")]
    Explain(ExplainArgs),
    /// Look for hazards in runs that may well pass: what would go wrong with less luck.
    #[command(after_help = "\
Examples:
  shaketable lint tests/atomic.toml --seeds 200")]
    Lint(LintArgs),
    /// Print every operation of a run: what was asked, answered, and what became of commits.
    #[command(after_help = "\
Examples:
  shaketable log tests/atomic.toml --seed 42 --client 2 --last 20
  shaketable log target/shaketable/failures/atomic-42 --key counter --format csv")]
    Log(LogArgs),
    /// Find the smallest case that fails in the same way as a run.
    #[command(after_help = "\
Examples:
  shaketable minimise tests/atomic.toml --seed 42
  shaketable minimise tests/atomic.toml --seed 42 -o tests/cases/lost-reply.toml")]
    Minimise(MinimiseArgs),
    /// Find the moment at which a failure became inevitable.
    #[command(after_help = "\
Examples:
  shaketable when tests/atomic.toml --seed 42
  shaketable when tests/atomic.toml --seed 42 --futures 200")]
    When(WhenArgs),
    /// List the bugs that are remembered, and run each again.
    #[command(after_help = "\
Examples:
  shaketable run tests/atomic.toml --seeds 1000 --remember
  shaketable bugs
  shaketable bugs tests/cases")]
    Bugs(BugsArgs),
    /// List what chance decided in a run, by the names that a case can drop or force.
    #[command(after_help = "\
Examples:
  shaketable decisions tests/atomic.toml --seed 42")]
    Decisions(DecisionsArgs),
    /// List test files with their tests, workloads and libraries.
    #[command(after_help = "\
Examples:
  shaketable list                  every test file below the current folder
  shaketable list tests examples")]
    List(ListArgs),
    /// Run each seed twice, compare, and name the first event that differs.
    #[command(after_help = "\
Examples:
  shaketable check-determinism tests/atomic.toml
  shaketable check-determinism tests/atomic.toml --seed 42 --seeds 20")]
    CheckDeterminism(CheckArgs),
    /// Count, over many seeds, the errors that clients saw and the faults that were injected.
    #[command(after_help = "\
Examples:
  shaketable stats tests/atomic.toml --seeds 500")]
    Stats(StatsArgs),
    /// Write a new crate with a workload, a test and a test file.
    #[command(after_help = "\
Examples:
  cargo shaketable new my-workloads
  cargo shaketable new --tokio my-service
  cd my-workloads && cargo shaketable run")]
    New(NewArgs),
    /// Write a page to look at a recorded run: every transaction, every fault, and why it failed.
    #[command(after_help = "\
Examples:
  shaketable page target/shaketable/failures/queue-42 --open
  shaketable page record.jsonl.gz -o queue.html --perfetto queue.perfetto")]
    Page(PageArgs),
    /// Simulate seeds for another process of this program.
    #[command(hide = true, name = "__worker")]
    Worker,
}

const RUN_EXAMPLES: &str = "\
Examples:
  shaketable run tests/atomic.toml
  shaketable run tests/atomic.toml --seed 42 --buggify on
  shaketable run tests/*.toml --seeds 1000 --fail-fast
  shaketable run tests/atomic.toml --for 10m --jobs 4 --junit junit.xml
  shaketable run tests/atomic.toml --seed $(git rev-parse HEAD) --seeds 200 --shard 2/4
  cargo shaketable run -p my-workloads --seeds 1000

Without --seed the first seed is random and printed. A failing seed is run once more to write its trace.";

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
    /// Fail if a `sometimes!` or `reachable!` in the code under test never held, in any seed.
    #[arg(long)]
    pub require_sometimes: bool,
    /// Make the first failure of each kind small: say what it needs, and keep a case of it.
    #[arg(long)]
    pub minimise: bool,
    /// Make failures small and remember one case of each kind in this folder [default:
    /// .shaketable/bugs of the cargo workspace].
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
    pub output: OutputArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub build: BuildArgs,
}

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

/// Why the text of an argument is refused.
#[derive(Debug, thiserror::Error)]
enum ArgumentError {
    #[error("expected a time with its unit, such as 30s, 10m or 2h")]
    Time(#[source] humantime::DurationError),
    #[error("expected I/N with 1 <= I <= N, such as 2/4")]
    Shard,
    #[error("expected NAME=VALUE, such as max_write_transaction_life_versions=1000000")]
    KnobWithoutValue,
    #[error("unknown knob `{name}`{}", .nearest.map_or(String::new(), |nearest| format!(": did you mean `{nearest}`?")))]
    UnknownKnob {
        name: String,
        nearest: Option<&'static str>,
    },
    #[error(transparent)]
    KnobValue(#[from] KnobError),
}

fn parse_time(text: &str) -> Result<Duration, ArgumentError> {
    humantime::parse_duration(text).map_err(ArgumentError::Time)
}

fn parse_stalled_after(text: &str) -> Result<StalledAfter, ArgumentError> {
    if text == "off" {
        return Ok(StalledAfter::Never);
    }
    parse_time(text).map(|time| StalledAfter::Seconds(time.as_secs()))
}

/// One part of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Which, from 1.
    pub index: u64,
    /// Of how many.
    pub count: u64,
}

fn parse_shard(text: &str) -> Result<Shard, ArgumentError> {
    let parsed = text
        .split_once('/')
        .and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
    match parsed {
        Some((index, count)) if index >= 1 && index <= count => Ok(Shard { index, count }),
        _ => Err(ArgumentError::Shard),
    }
}

/// What is the same for every seed.
#[derive(Debug, Args, Clone)]
#[command(next_help_heading = "Simulation")]
pub struct SimulationArgs {
    /// Whether the cluster misbehaves in rare but legal ways [default: the test file's setting,
    /// else off].
    #[arg(long, value_name = "on|off")]
    pub buggify: Option<OnOff>,
    /// Whether `Attrition` may kill machines and break disks; clogging is not affected, as in
    /// fdbserver [default: the test file's setting, else on].
    #[arg(long, value_name = "on|off")]
    pub fault_injection: Option<OnOff>,
    /// Make rare but legal outcomes frequent: commits of unknown fate, old versions, short ranges,
    /// late watches.
    #[arg(long)]
    pub stress: bool,
    /// Set a knob; may be repeated.
    #[arg(long = "knob", value_name = "NAME=VALUE", value_parser = parse_knob)]
    pub knobs: Vec<(String, String)>,
    /// The number of clients [default: 4 to 8, drawn from the seed].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=250))]
    pub clients: Option<u32>,
    /// Fail a run if a client makes no progress for this long in simulated time after all fault
    /// workloads have ended; `off` sets no limit.
    #[arg(long, value_name = "TIME|off", default_value = "300s", value_parser = parse_stalled_after)]
    pub stalled_after: StalledAfter,
    /// Kill a seed that takes longer than this in real time.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_time)]
    pub hang_limit: Duration,
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

fn parse_knob(text: &str) -> Result<(String, String), ArgumentError> {
    let (name, value) = text
        .split_once('=')
        .ok_or(ArgumentError::KnobWithoutValue)?;
    let name = name.trim_start_matches("knob_").to_lowercase();
    if let Err(nearest) = check_knob(&name) {
        return Err(ArgumentError::UnknownKnob { name, nearest });
    }
    check_knob_value(&name, value)?;
    Ok((name, value.to_owned()))
}

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

/// `minimise`.
#[derive(Debug, Args)]
pub struct MinimiseArgs {
    /// The test file, or a case, which has its own seed.
    pub file: PathBuf,
    /// The seed, for a test file.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub seed: Option<Seed>,
    /// Write the case to this file too.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// How long to search.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_time)]
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

/// `when`.
#[derive(Debug, Args)]
pub struct WhenArgs {
    /// The test file, or a case, which has its own seed.
    pub file: PathBuf,
    /// The seed, for a test file.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub seed: Option<Seed>,
    /// How many futures are run from each moment on.
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u64).range(1..))]
    pub futures: u64,
    /// How long to search.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_time)]
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
    pub output: OutputArgs,
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
    /// Write a workload on tokio, which runs in simulated time
    #[arg(long)]
    pub tokio: bool,
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_shows_examples_for_every_subcommand() {
        for subcommand in Cli::command().get_subcommands_mut() {
            if !subcommand.is_hide_set() {
                let help = subcommand.render_long_help().to_string();
                assert!(help.contains("Examples:\n"), "{}", subcommand.get_name());
            }
        }
    }

    #[test]
    fn the_help_is_as_reviewed() {
        let mut cli = Cli::command().term_width(100);
        let mut help = cli.render_long_help().to_string();
        for subcommand in cli.get_subcommands_mut() {
            if !subcommand.is_hide_set() {
                let text = subcommand.clone().term_width(100).render_help();
                help.push_str(&format!("\n==== {} ====\n{text}", subcommand.get_name()));
            }
        }
        insta::assert_snapshot!(help);
    }

    #[test]
    fn shards_are_counted_from_one() {
        assert_eq!(parse_shard("2/4").unwrap(), Shard { index: 2, count: 4 });
        for text in ["0/4", "5/4", "4", "a/b", "1/0"] {
            assert!(parse_shard(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_misspelt_knob_is_refused_with_the_nearest_name() {
        assert_eq!(
            parse_knob("default_backof=1").unwrap_err().to_string(),
            "unknown knob `default_backof`: did you mean `default_backoff`?"
        );
        assert_eq!(
            parse_knob("knob_DEFAULT_BACKOFF=0.5").unwrap(),
            ("default_backoff".into(), "0.5".into())
        );
    }
}
