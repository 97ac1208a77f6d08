//! `page`: a page, and a Perfetto trace, of a run that was recorded.
//!
//! What a page shows is the business of `shaketable-page`; this finds the record, writes the files
//! and opens the browser.

use crate::args::PageArgs;
use crate::exit_codes;
use shaketable_host::failure_folder::{PAGE, RECORD, WHEN};
use shaketable_page::Curve;
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
    // What `when` has left beside the record.
    let curve = fs::read(path.with_file_name(WHEN)).ok();
    let curve: Option<Curve> = curve.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    fs::File::create(&output)
        .and_then(|file| shaketable_page::write_html(&record, &explanation, curve.as_ref(), file))
        .map_err(|error| PageError::Write(output.clone(), error))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of its own, which is removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let name = format!("shaketable-page-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn with_record(name: &str) -> Folder {
            let folder = Folder::new(name);
            let to = fs::File::create(folder.0.join(RECORD)).unwrap();
            file::write(&Record::default(), to).unwrap();
            folder
        }

        fn error(&self, record: &Path) -> String {
            let error = write_page(&args(record)).expect_err("there is no record");
            let text = crate::with_causes(&error);
            text.replace(&self.0.display().to_string(), "FOLDER")
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn args(record: &Path) -> PageArgs {
        PageArgs {
            record: record.to_owned(),
            output: None,
            open: false,
            perfetto: None,
        }
    }

    #[test]
    fn the_page_lies_beside_its_record() {
        let folder = Folder::with_record("beside");
        write_page(&args(&folder.0)).unwrap();
        let page = fs::read_to_string(folder.0.join(PAGE)).unwrap();
        assert!(page.starts_with("<!doctype html>"), "{page}");
    }

    #[test]
    fn page_and_trace_go_where_they_are_wanted() {
        let folder = Folder::with_record("where");
        let [page, trace] = ["a.html", "a.perfetto"].map(|name| folder.0.join(name));
        let args = PageArgs {
            output: Some(page.clone()),
            perfetto: Some(trace.clone()),
            ..args(&folder.0.join(RECORD))
        };
        write_page(&args).unwrap();
        assert!(page.is_file() && trace.is_file());
        assert!(!folder.0.join(PAGE).exists());
    }

    #[test]
    fn what_is_no_record_is_named_with_the_reason() {
        let folder = Folder::new("none");
        assert_eq!(
            folder.error(&folder.0),
            "there is no record in FOLDER: it would be FOLDER/record.jsonl.gz"
        );
        let missing = folder.error(&folder.0.join("missing"));
        assert!(
            missing.starts_with("cannot open FOLDER/missing: "),
            "{missing}"
        );
        let other = folder.0.join("other.toml");
        fs::write(&other, "[[test]]").unwrap();
        let error = folder.error(&other);
        assert!(
            error.starts_with("cannot use FOLDER/other.toml: this is not a record"),
            "{error}"
        );
        let folder = Folder::with_record("cut");
        let whole = fs::read(folder.0.join(RECORD)).unwrap();
        fs::write(folder.0.join(RECORD), &whole[..whole.len() - 6]).unwrap();
        let error = folder.error(&folder.0);
        assert!(error.contains("is cut off"), "{error}");
    }
}
