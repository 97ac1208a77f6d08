//! The failures that a test remembers: one case for each, in a folder.
//!
//! The folder is the one in which `shaketable run --remember` keeps its bugs, and the cases have
//! the same form, so that `shaketable bugs` lists and runs them all. A case of a test names the
//! package and the test instead of a test file. It is first written as it is found, with nothing
//! but its seed, and then made small while there is time.
//!
//! Before there were cases, a file kept one failing seed on each line. Such a file is still read:
//! `17 tests::no_transfer_loses_money # check failed: …`.
//!
//! A folder that cannot be written is mentioned in the failure's message, and is never a failure of
//! its own.

use super::report::Kept;
use shaketable_host::bugs;
use shaketable_host::case::Case;
use shaketable_host::verdict::{Failure, Outcome};
use std::fs;
use std::path::{Path, PathBuf};

/// The name of the old file, beside the `Cargo.toml` of the tests.
const OLD_FILE: &str = "shaketable-regressions.txt";

/// Where failures are kept by default: with the bugs of the workspace.
pub(super) fn default_path() -> Option<PathBuf> {
    std::env::var_os("CARGO_MANIFEST_DIR")?;
    Some(workspace_root().join(bugs::FOLDER))
}

/// The root of the workspace whose test this is.
pub(super) fn workspace_root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let here = package.unwrap_or_default();
    let root = here
        .ancestors()
        .find(|folder| folder.join("Cargo.lock").is_file());
    root.unwrap_or(&here).to_owned()
}

/// What one simulation remembers.
pub(super) struct Regressions {
    folder: PathBuf,
    /// The file of the old form, if there is one.
    old: Option<PathBuf>,
    /// Whose failures these are; the rest is empty.
    owner: Case,
}

impl Regressions {
    /// Those of a test of `cargo test`, if it is one, with a simulation of this name.
    pub(super) fn new(path: &Path, test: Option<&str>, name: &str) -> Self {
        let owner = Case {
            package: std::env::var("CARGO_PKG_NAME").ok(),
            cargo_test: test.map(str::to_owned),
            simulation: (test != Some(name)).then(|| name.to_owned()),
            ..Case::default()
        };
        let usual = default_path();
        let beside = std::env::var_os("CARGO_MANIFEST_DIR");
        let beside = beside.map(|folder| Path::new(&folder).join(OLD_FILE));
        let (folder, old) = if path.is_file() {
            // The file of the old form: what is new is kept where it would be without it.
            let usual = usual.unwrap_or_else(|| path.with_extension("bugs"));
            (usual, Some(path.to_owned()))
        } else if usual.as_deref() == Some(path) {
            (path.to_owned(), beside.filter(|file| file.is_file()))
        } else {
            (path.to_owned(), None)
        };
        Regressions { folder, old, owner }
    }

    /// The seeds of the file of the old form, oldest first, each once.
    pub(super) fn seeds(&self) -> Vec<u64> {
        let mut seeds = Vec::new();
        let Some(old) = &self.old else {
            return seeds;
        };
        for line in fs::read_to_string(old).unwrap_or_default().lines() {
            let line = line.split(" # ").next().unwrap_or_default();
            if let Some((seed, name)) = line.split_once(' ')
                && Some(name.trim()) == self.owner.of_simulation()
                && let Ok(seed) = seed.parse()
                && !seeds.contains(&seed)
            {
                seeds.push(seed);
            }
        }
        seeds
    }

    /// The file of the old form.
    pub(super) fn old_file(&self) -> &Path {
        self.old.as_deref().unwrap_or(&self.folder)
    }

    /// The cases of this simulation, by name.
    pub(super) fn cases(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten();
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let toml = paths.filter(|path| path.extension().is_some_and(|end| end == "toml"));
        // What is no case belongs to someone else.
        let mut own: Vec<PathBuf> = toml
            .filter(|path| Case::read(path).is_ok_and(|case| self.owns(&case)))
            .collect();
        own.sort();
        own
    }

    fn owns(&self, case: &Case) -> bool {
        let same = |one: &Option<String>, other: &Option<String>| {
            one.is_none() || other.is_none() || one == other
        };
        case.of_simulation().is_some()
            && case.of_simulation() == self.owner.of_simulation()
            && same(&case.package, &self.owner.package)
    }

    /// A case of this simulation, with nothing but its seed.
    pub(super) fn plain(&self, seed: u64) -> Case {
        Case {
            seed,
            ..self.owner.clone()
        }
    }

    /// The file for a seed that ends the process, and what is written to it.
    pub(super) fn of_death(&self, seed: u64) -> (PathBuf, String) {
        let name = self.owner.of_simulation().unwrap_or_default();
        let words = format!("{name}: the process died");
        let (path, _) = bugs::place_of(&self.folder, &words, &format!("{words}|{seed}"));
        let case = Case {
            note: Some("the process died".to_owned()),
            ..self.plain(seed)
        };
        (path, case.to_toml())
    }

    /// Keeps a case of a failure.
    pub(super) fn keep(&self, case: &Case, outcome: &Outcome, failure: &Failure) -> Kept {
        let case = Case {
            note: Some(format!("{}: {}", failure.kind.describe(), failure.message)),
            finding: outcome.cause.as_ref().map(|cause| cause.name.clone()),
            package: self.owner.package.clone(),
            cargo_test: self.owner.cargo_test.clone(),
            simulation: self.owner.simulation.clone(),
            ..case.clone()
        };
        let kept = bugs::remember(&self.folder, &failure.words(), &failure.signature(), case);
        match kept {
            Ok((path, false)) => Kept::New(path, Vec::new()),
            Ok((path, true)) => Kept::Known(path),
            Err(error) => Kept::Not(self.folder.clone(), error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shaketable_host::verdict::{FailureKind, Phase};

    fn temporary(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("{name}-{}", std::process::id()))
    }

    fn failure(message: &str) -> Failure {
        Failure {
            kind: FailureKind::CheckFailed,
            test: "a::test".to_owned(),
            workload: "test".to_owned(),
            phase: Phase::Check,
            client: None,
            time: 1.0,
            message: message.to_owned(),
        }
    }

    #[test]
    fn each_failure_has_one_case_which_its_own_simulation_finds_again() {
        let folder = temporary("regressions");
        let own = Regressions::new(&folder, Some("a::test"), "a::test");
        assert!(own.cases().is_empty());
        let keep = |seed, message: &str| {
            own.keep(&own.plain(seed), &Outcome::default(), &failure(message))
        };
        assert!(matches!(keep(7, "20 of 21"), Kept::New(..)));
        assert!(matches!(keep(9, "30 of 33"), Kept::Known(_)));
        assert!(matches!(keep(9, "out of eggs"), Kept::New(..)));
        assert_eq!(own.cases().len(), 2);
        let first = Case::read(&own.cases()[0]).unwrap();
        assert_eq!(
            (first.seed, first.cargo_test.as_deref()),
            (7, Some("a::test"))
        );
        let other = Regressions::new(&folder, Some("a::test"), "another");
        assert!(other.cases().is_empty());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_file_of_the_old_form_is_still_read() {
        let file = temporary("regressions.txt");
        let text = "# Seeds\n7 a::test # check failed\n9 another # panicked\n3 a::test\n7 a::test # again\n";
        fs::write(&file, text).unwrap();
        let own = Regressions::new(&file, Some("a::test"), "a::test");
        assert_eq!(own.seeds(), [7, 3]);
        assert_eq!(own.old_file(), file);
        fs::remove_file(&file).unwrap();
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_mentioned() {
        let own = Regressions::new(Path::new("/dev/null/nowhere"), Some("a"), "a");
        let kept = own.keep(&own.plain(1), &Outcome::default(), &failure("b"));
        assert!(matches!(kept, Kept::Not(..)), "{kept:?}");
    }
}
