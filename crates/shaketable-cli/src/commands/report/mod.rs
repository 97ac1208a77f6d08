//! `report`: a page of history for a team, from what sweeps printed as JSON.
//!
//! A CI job keeps the output of `run --message-format json` in a file for each commit. This reads
//! any number of such files (`read`) and writes one page (`page`) that answers what a team asks
//! about its simulations: how much was run, what failed and whether it still does, how much of the
//! code's handling of failures was met, and how fast it was. The page is a plain file without
//! scripts that can be put anywhere.

mod page;
mod read;

use crate::args::ReportArgs;
use crate::exit_codes;
use read::{History, ReadError};
use std::fs;
use std::path::PathBuf;

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
enum ReportError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("cannot write {}", .0.display())]
    Write(PathBuf, #[source] std::io::Error),
}

/// Writes the page.
pub fn report(args: &ReportArgs) -> u8 {
    match write(args) {
        Ok(()) => exit_codes::PASSED,
        Err(error) => {
            eprintln!("error: {}", crate::with_causes(&error));
            exit_codes::SETUP_FAILED
        }
    }
}

fn write(args: &ReportArgs) -> Result<(), ReportError> {
    let history = History::read(&args.files)?;
    let page = page::html(&history, &args.title);
    fs::write(&args.output, page)
        .map_err(|error| ReportError::Write(args.output.clone(), error))?;
    println!("report  {}: {}", args.output.display(), history.sentence());
    Ok(())
}
