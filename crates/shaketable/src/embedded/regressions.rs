//! The file that keeps failing seeds.
//!
//! One line is one seed: `17 tests::no_transfer_loses_money # check failed: …`. Lines are only ever
//! appended, each by one write, so that tests in parallel threads and processes do not disturb one
//! another. A file that cannot be written is mentioned in the failure's message, and is never a
//! failure of its own.

use super::report::Kept;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

const HEADER: &str = "\
# Seeds that failed once, tried first by every later run of their test. Commit this file; delete a line that is of
# no use any more. A line: seed, test, and what went wrong.
";

/// Where failing seeds are kept by default: beside the `Cargo.toml` of the tests.
pub(super) fn default_path() -> Option<PathBuf> {
    let folder = std::env::var_os("CARGO_MANIFEST_DIR")?;
    Some(Path::new(&folder).join("shaketable-regressions.txt"))
}

pub(super) struct Regressions {
    path: PathBuf,
}

impl Regressions {
    pub(super) fn new(path: &Path) -> Self {
        Regressions {
            path: path.to_owned(),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The seeds that failed in the test of this name, oldest first, each once.
    pub(super) fn seeds(&self, test: &str) -> Vec<u32> {
        let mut seeds = Vec::new();
        for line in fs::read_to_string(&self.path).unwrap_or_default().lines() {
            let line = line.split(" # ").next().unwrap_or_default();
            if let Some((seed, name)) = line.split_once(' ')
                && name.trim() == test
                && let Ok(seed) = seed.parse()
                && !seeds.contains(&seed)
            {
                seeds.push(seed);
            }
        }
        seeds
    }

    /// What is appended to add a seed.
    pub(super) fn line(&self, seed: u32, test: &str, reason: &str) -> String {
        let reason = reason.replace(['\n', '\r'], " ");
        let header = if self.path.exists() { "" } else { HEADER };
        format!("{header}{seed} {test} # {reason}\n")
    }

    /// Adds a seed.
    pub(super) fn keep(&self, seed: u32, test: &str, reason: &str) -> Kept {
        let line = self.line(seed, test, reason);
        let written = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.path)
            .and_then(|mut file| file.write_all(line.as_bytes()));
        match written {
            Ok(()) => Kept::New(self.path.clone()),
            Err(error) => Kept::Not(self.path.clone(), error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_seeds_are_found_again_by_their_own_test_alone() {
        let path = std::env::temp_dir().join(format!("regressions-{}.txt", std::process::id()));
        let file = Regressions::new(&path);
        assert!(file.seeds("a::test").is_empty());
        file.keep(7, "a::test", "check failed\nbadly");
        file.keep(9, "another", "panicked: # 1");
        file.keep(3, "a::test", "panicked");
        file.keep(7, "a::test", "again");
        let text = fs::read_to_string(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let after = Regressions::new(&path).seeds("a::test");
        assert!(after.is_empty());
        assert!(text.starts_with("# Seeds that failed once"), "{text}");
        assert_eq!(text.matches("# Seeds").count(), 1);
        assert!(text.contains("7 a::test # check failed badly\n"), "{text}");
        fs::write(&path, &text).unwrap();
        assert_eq!(file.seeds("a::test"), [7, 3]);
        assert_eq!(file.seeds("another"), [9]);
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_written_is_told() {
        let kept = Regressions::new(Path::new("/nowhere/at/all")).keep(1, "a", "b");
        assert!(matches!(kept, Kept::Not(..)), "{kept:?}");
    }
}
