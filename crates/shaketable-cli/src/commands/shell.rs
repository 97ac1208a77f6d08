//! `completions` and `man`: what a shell and `man` know about the program, generated from the same
//! definition that reads the command line.

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::exit_codes;
use clap::CommandFactory;
use std::io::{self, Write};

/// Prints a completion script.
pub fn completions(args: &CompletionsArgs) -> u8 {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "shaketable", &mut script);
    finish(io::stdout().write_all(&script), "the standard output")
}

/// Prints the manual page, or writes one for each subcommand.
pub fn man(args: &ManArgs) -> u8 {
    match &args.folder {
        Some(folder) => {
            let written = std::fs::create_dir_all(folder)
                .and_then(|()| clap_mangen::generate_to(Cli::command(), folder));
            finish(written, &folder.display().to_string())
        }
        None => finish(
            clap_mangen::Man::new(Cli::command()).render(&mut io::stdout()),
            "the standard output",
        ),
    }
}

fn finish(written: io::Result<()>, place: &str) -> u8 {
    match written {
        Ok(()) => exit_codes::PASSED,
        // The reader has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => exit_codes::PASSED,
        Err(error) => {
            eprintln!("error: cannot write to {place}: {error}");
            exit_codes::SETUP_FAILED
        }
    }
}
