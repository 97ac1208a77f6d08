//! The command line: the program and its subcommands.
//!
//! Here is what `--help` says first: what there is to do, with an example of each. What each
//! subcommand is told is in `subcommands` and `cases`; the options that several share are in
//! `groups` and `output`; how the text of a value is read, and why it may be refused, is in
//! `values`. A test compares all of the help with what was reviewed.

mod cases;
mod explore;
mod groups;
mod host;
mod output;
mod subcommands;
mod values;

pub use cases::{BugsArgs, DecisionsArgs, MinimiseArgs, WhenArgs};
pub use explore::ExploreArgs;
pub use groups::{BuildArgs, OnOff, SimulationArgs, SweepArgs};
pub use host::{HostArgs, HostName};
pub use output::{LogFormat, MessageFormat, Minimising, OutputArgs, TraceFormat, ValuesShown};
pub(crate) use output::{results_dir, workspace_root};
pub use subcommands::{
    CheckArgs, CompareArgs, CompletionsArgs, DoctorArgs, ExplainArgs, FilterArgs, InitArgs,
    JoshuaArgs, JoshuaTestArgs, LintArgs, ListArgs, LogArgs, ManArgs, NewArgs, PageArgs,
    ReplayArgs, ReportArgs, RunArgs, ServeArgs, StatsArgs,
};
pub use values::Shard;

use clap::{Parser, Subcommand};

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

Exit status: 0 passed, 100 a seed failed, 103 not deterministic, 104 hosts differ,
101 does not build, 96 cannot be set up, 4 nothing to run, 2 wrong usage, 130 interrupted.";

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
    /// Try every outcome of every operation of a run: unknown results, conflicts, old versions,
    /// short ranges, and so on.
    #[command(after_help = "\
Examples:
  shaketable explore tests/atomic.toml
  shaketable explore tests/atomic.toml --seed 42 --clients 2 --budget 2m")]
    Explore(ExploreArgs),
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
    /// Compare a real fdbserver with the embedded host: the same library, many seeds of each.
    #[command(after_help = "\
Examples:
  shaketable compare tests/atomic.toml --seeds 20
  shaketable compare tests/atomic.toml --seeds 50 --fdbserver /opt/fdb/bin/fdbserver")]
    Compare(CompareArgs),
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
    /// Write simulations for a layer into the workspace that it is in.
    ///
    /// Finds the package that depends on the crate `foundationdb`, writes a crate with a workload,
    /// a test and a test file beside it, and adds what they need to the workspace's manifest.
    #[command(after_help = "\
Examples:
  cargo shaketable init
  cargo shaketable init -p my-layer --source ../shaketable")]
    Init(InitArgs),
    /// Write a page to look at a recorded run: every transaction, every fault, and why it failed.
    #[command(after_help = "\
Examples:
  shaketable page target/shaketable/failures/queue-42 --open
  shaketable page record.jsonl.gz -o queue.html --perfetto queue.perfetto")]
    Page(PageArgs),
    /// Write a page of history: what the sweeps of many commits ran, found and covered.
    ///
    /// Reads the output of `run --message-format json`, one file or more for each commit.
    #[command(after_help = "\
Examples:
  shaketable run tests/atomic.toml --seeds 1000 --message-format json > history/$COMMIT.jsonl
  shaketable report history/*.jsonl -o history.html")]
    Report(ReportArgs),
    /// Print the reference of test files, knobs and workloads, in Markdown.
    #[command(after_help = "\
Examples:
  shaketable reference | less")]
    Reference,
    /// Serve one embedded database to several processes, until it is interrupted.
    ///
    /// Programs that load Shaketable's libfdb_c.so and find the cluster file share the database:
    /// through FDB_CLUSTER_FILE, through the path they open, or because it is `fdb.cluster` in
    /// their folder. They need no change.
    #[command(after_help = "\
Examples:
  shaketable serve
  shaketable serve --cluster-file /tmp/app/fdb.cluster --durable /tmp/app/data")]
    Serve(ServeArgs),
    /// Look whether this machine has what each host needs, and say what to do where it has not.
    #[command(after_help = "\
Examples:
  shaketable doctor
  shaketable doctor target/release/libatomic.so --fdbserver /opt/fdb/bin/fdbserver")]
    Doctor(DoctorArgs),
    /// Print a script that completes this program's commands and options in a shell.
    #[command(after_help = "\
Examples:
  shaketable completions bash > ~/.local/share/bash-completion/completions/shaketable
  shaketable completions zsh > ~/.zfunc/_shaketable
  shaketable completions fish > ~/.config/fish/completions/shaketable.fish")]
    Completions(CompletionsArgs),
    /// Print the manual page, or write one for each subcommand.
    #[command(after_help = "\
Examples:
  shaketable man | man -l -
  shaketable man ~/.local/share/man/man1")]
    Man(ManArgs),
    /// Write a package that the agents of Joshua run, FoundationDB's own test fleet.
    #[command(after_help = "\
Examples:
  shaketable joshua tests/atomic.toml -o atomic.tar.gz
  shaketable joshua tests --host fdbserver -o nightly.tar.gz")]
    Joshua(JoshuaArgs),
    /// Run what an agent of Joshua asks for.
    #[command(hide = true, name = "__joshua-test")]
    JoshuaTest(JoshuaTestArgs),
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

#[cfg(test)]
mod tests;
