//! The stand-in for `foundationdb-sys`, for packages that have not replaced it themselves.
//!
//! Its source is embedded in this program. It is written below the target folder and passed to
//! cargo as a patch on the command line; since cargo would record that in the package's lock file,
//! the lock file is restored afterwards.

use super::BuildError;
use cargo_metadata::Metadata;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The files of the crate, with their paths in it.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/sys_files.rs"));

/// A patched build under way; dropping it restores the lock file.
pub(super) struct StandIn {
    patch: Option<PathBuf>,
    lock: Option<(PathBuf, Option<Vec<u8>>)>,
}

impl StandIn {
    /// Writes the stand-in, unless the workspace brings its own.
    pub(super) fn prepare(metadata: &Metadata) -> Result<StandIn, BuildError> {
        let root = metadata.workspace_root.as_std_path();
        let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap_or_default();
        if is_replaced(&manifest) {
            return Ok(StandIn {
                patch: None,
                lock: None,
            });
        }
        let folder = metadata
            .target_directory
            .as_std_path()
            .join("shaketable/foundationdb-sys");
        write(&folder).map_err(|error| BuildError::StandIn(folder.clone(), error))?;
        let lock = root.join("Cargo.lock");
        let before = fs::read(&lock).ok();
        Ok(StandIn {
            patch: Some(folder),
            lock: Some((lock, before)),
        })
    }

    /// Adds the patch to a cargo command.
    pub(super) fn apply(&self, command: &mut Command) {
        if let Some(folder) = &self.patch {
            let path = toml_string(folder);
            command.arg("--config");
            command.arg(format!("patch.crates-io.foundationdb-sys.path={path}"));
        }
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        match self.lock.take() {
            Some((path, Some(before))) => {
                // A lock file that stays changed is a nuisance, not an error.
                let _ = fs::write(path, before);
            }
            Some((path, None)) => {
                let _ = fs::remove_file(path);
            }
            None => {}
        }
    }
}

/// Whether a workspace manifest replaces the crate, or is where the stand-in lives.
fn is_replaced(manifest: &str) -> bool {
    let table: toml_edit::DocumentMut = match manifest.parse() {
        Ok(table) => table,
        Err(_) => return true,
    };
    let patches = table.get("patch").and_then(|patch| patch.get("crates-io"));
    patches
        .and_then(|patches| patches.get("foundationdb-sys"))
        .is_some()
}

/// Writes the files that differ, so that cargo does not build again what has not changed.
fn write(folder: &Path) -> std::io::Result<()> {
    for (name, text) in FILES {
        let path = folder.join(name);
        if fs::read_to_string(&path).is_ok_and(|old| old == *text) {
            continue;
        }
        fs::create_dir_all(path.parent().expect("a file lies in a folder"))?;
        fs::write(path, text)?;
    }
    Ok(())
}

fn toml_string(path: &Path) -> String {
    toml_edit::Value::from(path.display().to_string()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_carries_the_whole_crate() {
        let names: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
        for expected in ["Cargo.toml", "build.rs", "symbols.csv", "src/lib.rs"] {
            assert!(names.contains(&expected), "{expected} of {names:?}");
        }
        let (_, manifest) = FILES
            .iter()
            .find(|(name, _)| *name == "Cargo.toml")
            .unwrap();
        assert!(
            !manifest.contains("workspace = true"),
            "it must stand alone:\n{manifest}"
        );
    }

    #[test]
    fn a_workspace_that_replaces_the_crate_is_left_alone() {
        assert!(is_replaced(
            "[patch.crates-io]\nfoundationdb-sys = { path = \"sys\" }"
        ));
        assert!(!is_replaced("[package]\nname = \"x\""));
    }
}
