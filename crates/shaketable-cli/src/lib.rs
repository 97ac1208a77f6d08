//! The program `shaketable`, also `cargo shaketable`: runs test files of FoundationDB's simulator
//! and reports the results.
//!
//! It knows arguments ([`args`]), processes ([`pool`], [`worker`]), seeds ([`seed`], [`sweep`]) and
//! reports ([`report`]); what a seed *does* is the business of `shaketable-host`. Results go to
//! standard output, progress and complaints to standard error, and the verdict is the exit status
//! ([`exit_codes`]).

#![expect(
    clippy::disallowed_methods,
    reason = "the program lives in the machine's time; simulations run in its workers' forks"
)]

pub mod args;
pub mod cargo;
mod cargo_test;
pub mod chance;
pub mod commands;
pub mod compare;
pub mod exit_codes;
pub mod explore;
pub mod guided;
pub mod list;
pub mod minimise;
pub mod pool;
pub mod progress;
pub mod protocol;
pub mod report;
pub mod seed;
pub mod session;
pub mod sweep;
mod unread;
pub mod when;
pub mod worker;

use args::{Cli, Command};
use clap::Parser;
use std::ffi::OsString;
use std::process::ExitCode;

/// An error in one line, with the causes that it does not name itself.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| {
        let cause = cause.to_string();
        if text.ends_with(&cause) {
            text
        } else {
            format!("{text}: {cause}")
        }
    })
}

/// Runs the program with these arguments, the first of which is its name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = Cli::parse_from(arguments);
    unread::end_quietly();
    let code = match &cli.command {
        Command::Worker => return worker::main(),
        Command::List(args) => Ok(list::list(args)),
        Command::New(args) => Ok(commands::new::new(args)),
        Command::Init(args) => Ok(commands::init::init(args)),
        Command::Serve(args) => Ok(commands::serve::serve(args)),
        Command::Doctor(args) => Ok(commands::doctor::doctor(args)),
        Command::Completions(args) => Ok(commands::shell::completions(args)),
        Command::Man(args) => Ok(commands::shell::man(args)),
        Command::Page(args) => Ok(commands::page::page(args)),
        Command::Report(args) => Ok(commands::report::report(args)),
        Command::Reference => {
            print!("{}", shaketable_host::testfile::reference());
            Ok(exit_codes::PASSED)
        }
        Command::Run(args) => commands::run::run(args),
        Command::Replay(args) => commands::run::replay(args),
        Command::Explain(args) => commands::explain::explain(args),
        Command::Lint(args) => commands::lint::lint(args),
        Command::Log(args) => commands::log::log(args),
        Command::Stats(args) => commands::run::stats(args),
        Command::Decisions(args) => commands::decisions::decisions(args),
        Command::Minimise(args) => commands::minimise::minimise(args),
        Command::Explore(args) => commands::explore::explore(args),
        Command::When(args) => commands::when::when(args),
        Command::Bugs(args) => commands::bugs::bugs(args),
        Command::Joshua(args) => commands::joshua::joshua(args),
        Command::JoshuaTest(args) => commands::joshua::joshua_test(args),
        Command::Compare(args) => commands::compare::compare(args),
        Command::CheckDeterminism(args) => commands::check_determinism::check_determinism(args),
    };
    let code = code.unwrap_or_else(|error| {
        anstream::eprintln!("{}", error.report());
        error.exit_code()
    });
    ExitCode::from(code)
}
