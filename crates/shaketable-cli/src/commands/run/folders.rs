//! Where the traces and records of a campaign go.
//!
//! A recorded seed has a folder of its own, below `failures`, or below `runs` once it has passed.
//! Workers write side by side, so no two files of a campaign share the name of their traces.

use super::Campaign;
use crate::seed::Seed;
use crate::session::SessionError;
use shaketable_host::case::Case;
use shaketable_host::failure_folder;
use shaketable_host::plan::{RecordTo, Recording};
use shaketable_host::verdict::Outcome;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

impl Campaign<'_> {
    pub(super) fn make_trace_folder(&self) -> Result<(), SessionError> {
        let folder = self.output.trace_dir();
        fs::create_dir_all(&folder).map_err(|error| SessionError::Write(folder, error))
    }

    /// A trace of a file's run with a seed.
    pub(super) fn trace_of(&self, file: usize, seed: Seed) -> Recording {
        let format: shaketable_host::trace::Format = self.output.trace_format.into();
        let name = format!("{}-{seed}.{}", self.trace_names[file], format.extension());
        Recording::Trace {
            path: self.output.trace_dir().join(name),
            format,
            record: None,
        }
    }

    /// The trace of a run that a server makes: in the folder of the seed, which is made only if
    /// there is something to keep.
    pub(super) fn trace_in_folder(&self, file: usize, seed: Seed) -> Recording {
        Recording::Trace {
            path: self.path_in(&folder_of(&self.trace_names[file], seed)),
            format: self.output.trace_format.into(),
            record: None,
        }
    }

    /// Where the trace of a run with this folder goes: there, unless another was asked for.
    fn path_in(&self, folder: &Path) -> PathBuf {
        let format: shaketable_host::trace::Format = self.output.trace_format.into();
        match &self.output.trace_dir {
            Some(asked) => {
                let name = folder.file_name().unwrap_or_default().to_string_lossy();
                asked.join(format!("{name}.{}", format.extension()))
            }
            None => folder.join(format!("trace.{}", format.extension())),
        }
    }

    /// The folder of a failing run. A future in a guided search has the number of its last draw.
    pub(super) fn folder_of(&self, file: usize, seed: Seed, case: Option<&Case>) -> PathBuf {
        let name = &self.trace_names[file];
        match case.and_then(|case| case.reseed.last()) {
            Some(turn) => folder_of(&format!("{name}-{seed}-future"), Seed(turn.seed)),
            None => folder_of(name, seed),
        }
    }

    /// A trace and a record of a file's run with a seed, in the folder of that seed unless another
    /// was asked for.
    pub(super) fn record_of(&self, file: usize, seed: Seed) -> Recording {
        let folder = folder_of(&self.trace_names[file], seed);
        let reproduce = self.session.repro.line(&self.session.files[file], seed.0);
        self.record_in(&folder, reproduce)
    }

    /// The same in this folder, of a run that this line repeats.
    pub(super) fn record_in(&self, folder: &Path, reproduce: String) -> Recording {
        // If it cannot be made, neither can what is in it, and that is reported.
        let _ = fs::create_dir_all(folder);
        let format: shaketable_host::trace::Format = self.output.trace_format.into();
        if let Some(asked) = &self.output.trace_dir {
            let _ = fs::create_dir_all(asked);
        }
        let path = self.path_in(folder);
        let record = folder.join(failure_folder::RECORD);
        Recording::Trace {
            path,
            format,
            record: Some(RecordTo::new(record, self.values, Some(reproduce))),
        }
    }
}

/// The folder of a failing seed.
pub(in crate::commands) fn folder_of(name: &str, seed: Seed) -> PathBuf {
    crate::args::results_dir()
        .join("failures")
        .join(failure_folder::name(name, seed.0))
}

/// Moves the folder of a seed that passed: it is no failure. Returns the new one.
pub(super) fn move_passed(outcome: &Outcome) -> Option<PathBuf> {
    let from = outcome.folder()?;
    let runs = crate::args::results_dir().join("runs");
    let to = runs.join(from.file_name()?);
    let _ = fs::remove_dir_all(&to);
    fs::create_dir_all(&runs).ok()?;
    fs::rename(from, &to).ok()?;
    Some(to)
}

/// What the traces of each file are called: as the file, with its folder's name where two have the
/// same, and with a number where that is not enough. Workers write side by side, each to a file of
/// its own.
pub(in crate::commands) fn trace_names(files: &[PathBuf]) -> Vec<String> {
    let text = |part: Option<&OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let stems: Vec<String> = files.iter().map(|file| text(file.file_stem())).collect();
    let is_shared = |names: &[String], name: &String| {
        let same = names.iter().filter(|other| *other == name);
        same.count() > 1
    };
    let in_folders: Vec<String> = files
        .iter()
        .zip(&stems)
        .map(
            |(file, stem)| match file.parent().and_then(Path::file_name) {
                Some(folder) if is_shared(&stems, stem) => format!("{}-{stem}", text(Some(folder))),
                _ => stem.clone(),
            },
        )
        .collect();
    let numbered = in_folders.iter().enumerate().map(|(number, name)| {
        if is_shared(&in_folders, name) {
            format!("{name}-{}", number + 1)
        } else {
            name.clone()
        }
    });
    numbered.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_files_share_the_name_of_their_traces() {
        let names = |files: &[&str]| {
            let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
            trace_names(&files)
        };
        assert_eq!(names(&["tests/a.toml", "tests/b.toml"]), ["a", "b"]);
        assert_eq!(
            names(&["x/a.toml", "y/a.toml", "b.toml"]),
            ["x-a", "y-a", "b"]
        );
        assert_eq!(names(&["1/x/a.toml", "2/x/a.toml"]), ["x-a-1", "x-a-2"]);
    }
}
