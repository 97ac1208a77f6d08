//! `page`: a page, and a Perfetto trace, of a run that was recorded.
//!
//! What a page shows is the business of `shaketable-page`; this finds the record, writes the files
//! and opens the browser.

use crate::args::PageArgs;
use crate::exit_codes;
use shaketable_host::failure_folder::{PAGE, RECORD};
use shaketable_record::{Record, file};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
enum PageError {
    #[error("there is no record in {}: it would be {}", .0.display(), .0.join(RECORD).display())]
    NoRecord(PathBuf),
    #[error("cannot open {}", .0.display())]
    Open(PathBuf, #[source] std::io::Error),
    #[error("cannot use {}", .0.display())]
    Read(PathBuf, #[source] file::ReadError),
    #[error("cannot write {}", .0.display())]
    Write(PathBuf, #[source] std::io::Error),
}

/// Writes the page.
pub fn page(args: &PageArgs) -> u8 {
    match write_page(args) {
        Ok(()) => exit_codes::PASSED,
        Err(error) => {
            eprintln!("error: {}", crate::with_causes(&error));
            exit_codes::SETUP_FAILED
        }
    }
}

fn write_page(args: &PageArgs) -> Result<(), PageError> {
    let (path, record) = read(&args.record)?;
    let explanation = shaketable_explain::explain(&record);
    let output = args
        .output
        .clone()
        .unwrap_or_else(|| path.with_file_name(PAGE));
    write(
        &output,
        shaketable_page::html(&record, &explanation).as_bytes(),
    )?;
    println!("page      {}", output.display());
    if let Some(trace) = &args.perfetto {
        write(trace, &shaketable_page::perfetto(&record, &explanation))?;
        println!("perfetto  {}", trace.display());
    }
    if args.open && !open(&output) {
        eprintln!("note: no program was found that opens {}", output.display());
    }
    Ok(())
}

/// The record at a path, or in the folder at it.
fn read(path: &Path) -> Result<(PathBuf, Record), PageError> {
    let mut path = path.to_owned();
    if path.is_dir() {
        let inside = path.join(RECORD);
        if !inside.is_file() {
            return Err(PageError::NoRecord(path));
        }
        path = inside;
    }
    let input = fs::File::open(&path).map_err(|error| PageError::Open(path.clone(), error))?;
    let record = file::read(input).map_err(|error| PageError::Read(path.clone(), error))?;
    Ok((path, record))
}

fn write(path: &Path, content: &[u8]) -> Result<(), PageError> {
    fs::write(path, content).map_err(|error| PageError::Write(path.to_owned(), error))
}

/// Opens a file with the program that the desktop has for it. Returns whether one was started.
fn open(path: &Path) -> bool {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    // Both return when they have handed the file over; the first knows of $BROWSER.
    ["xdg-open", "open"].into_iter().any(|program| {
        Command::new(program)
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    })
}
