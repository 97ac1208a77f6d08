//! The folder that a failing seed leaves: everything that is known about it, in one place.
//!
//! | file | what it is |
//! |---|---|
//! | `record.jsonl.gz` | every transaction, and what became of it (docs/record.md) |
//! | `timeline.html` | the same to look at, with what explains it |
//! | `trace.json` or `trace.xml` | every event, as fdbserver writes them |
//! | `report.txt` | what the terminal showed |
//! | `when.json` | how likely the failure was over time, once `when` has found it |
//! | `future.toml` | the run, if it has no seed of its own: a future in a guided search |
//! | `case.toml` | the smallest case that fails in the same way, once `minimise` has found it |
//!
//! The record and what is made of it are written by the process that simulated the seed, the report
//! by the program that shows it. The program names the folder; [`name`] keeps names plain.

use shaketable_explain::Explanation;
use shaketable_record::Record;
use std::fs::File;
use std::io;
use std::path::Path;

/// The name of the record.
pub const RECORD: &str = "record.jsonl.gz";
/// The name of the page.
pub const PAGE: &str = "timeline.html";
/// The name of the case that is left when the failure has been made small.
pub const CASE: &str = "case.toml";
/// The name of the case that is the run itself, if a seed does not say it all.
pub const FUTURE: &str = "future.toml";
/// The name of what `when` has found, for the page.
pub const WHEN: &str = "when.json";
/// The name of the report.
pub const REPORT: &str = "report.txt";

/// The name of the folder of a seed.
pub fn name(of: &str, seed: u64) -> String {
    let plain = |c: char| match c {
        c if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') => c,
        _ => '-',
    };
    let name: String = of.chars().map(plain).collect();
    format!("{name}-{seed}")
}

/// Writes a record, and the files that are made of it, to its folder. What else a reader should
/// find beside a record is written here.
pub(crate) fn write(record: &Record, explanation: &Explanation, path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    whole(path, |file| shaketable_record::file::write(record, file))?;
    whole(&path.with_file_name(PAGE), |file| {
        shaketable_page::write_html(record, explanation, None, file)
    })
}

/// Writes a file that has its name only when it is whole: a process that is ended meanwhile leaves
/// none.
fn whole(path: &Path, write: impl FnOnce(File) -> io::Result<()>) -> io::Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".unfinished");
    write(File::create(&unfinished)?)?;
    std::fs::rename(&unfinished, path)
}
