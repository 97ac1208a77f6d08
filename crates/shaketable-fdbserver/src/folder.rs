//! The folder of a run, and whether the machine has room for one more.
//!
//! A server writes its databases and its trace into the folder it is started in. Each run has one
//! of its own in the folder for temporary files, with the test file, the trace, and links to the
//! libraries under the names by which they are looked for.

use crate::server::Server;
use crate::test_file::{LIBRARIES, Prepared};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// What a seed may need: up to 550 MB were seen.
const RUN_MEMORY_BYTES: u64 = 600 << 20;
/// What a seed may write: trace and databases.
const RUN_DISK_BYTES: u64 = 400 << 20;

/// How many runs the machine's free memory allows at once; at least one.
pub fn memory_for() -> usize {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    available_bytes(&text).map_or(usize::MAX, |bytes| {
        usize::try_from(bytes / RUN_MEMORY_BYTES)
            .unwrap_or(usize::MAX)
            .max(1)
    })
}

fn available_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find(|line| line.starts_with("MemAvailable:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// The folder of one run; it is gone when this is dropped.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn make(server: &Server, prepared: &Prepared) -> io::Result<Folder> {
        let folder = Folder(tempfile::Builder::new().prefix("shaketable-").tempdir()?);
        if let Some(free) = folder.free_bytes()
            && free < RUN_DISK_BYTES
        {
            return Err(io::Error::other(format!(
                "{} has {} MB left, and a run of fdbserver needs up to {} MB: make room, or name another folder with TMPDIR",
                std::env::temp_dir().display(),
                free >> 20,
                RUN_DISK_BYTES >> 20
            )));
        }
        let libraries = folder.path().join(LIBRARIES);
        std::fs::create_dir(&libraries)?;
        std::fs::create_dir(folder.traces())?;
        symlink(&server.client_library, libraries.join("libfdb_c.so"))?;
        for (name, path) in &prepared.libraries {
            symlink(path, libraries.join(format!("lib{name}.so")))?;
        }
        std::fs::write(folder.test_file(), &prepared.text)?;
        Ok(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn libraries(&self) -> PathBuf {
        self.path().join(LIBRARIES)
    }

    pub(crate) fn traces(&self) -> PathBuf {
        self.path().join("traces")
    }

    pub(crate) fn test_file(&self) -> PathBuf {
        self.path().join("test.toml")
    }

    pub(crate) fn stdout(&self) -> PathBuf {
        self.path().join("stdout")
    }

    pub(crate) fn stderr(&self) -> PathBuf {
        self.path().join("stderr")
    }

    /// What is left on its disk.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        let disk = nix::sys::statvfs::statvfs(self.path()).ok()?;
        Some(disk.blocks_available() * disk.fragment_size())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_as_linux_tells_it() {
        let told = "MemTotal:        8000000 kB\nMemAvailable:    4000000 kB\n";
        assert_eq!(available_bytes(told), Some(4_096_000_000));
        assert_eq!(available_bytes("MemTotal: 1 kB\n"), None);
        assert!(memory_for() >= 1);
    }
}
