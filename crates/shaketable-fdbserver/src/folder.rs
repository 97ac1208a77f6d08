//! The folder of a run, and whether the machine has room for one more.
//!
//! A server writes its databases and its trace into the folder it is started in. Each run has one
//! of its own in the folder for temporary files, with the test file, the trace, and links to the
//! libraries under the names by which they are looked for.

use crate::server::Server;
use crate::test_file::{LIBRARIES, Prepared};
use nix::errno::Errno;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// What a seed may need: up to 550 MB were seen.
const RUN_MEMORY_BYTES: u64 = 600 << 20;
/// What a seed may write: trace and databases.
const RUN_DISK_BYTES: u64 = 400 << 20;
/// A disk with less than this left is full: a server writes that much in a second.
const FULL_DISK_BYTES: u64 = 8 << 20;
/// How much of what a server printed last is searched for complaints.
const COMPLAINT_BYTES: i64 = 4 << 10;

/// How many runs the free memory allows at once; at least one.
pub fn memory_for() -> usize {
    let machine = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let container = available_to_groups(Path::new("/sys/fs/cgroup"), &groups);
    let available = [available_bytes(&machine), container];
    let least = available.into_iter().flatten().min();
    least.map_or(usize::MAX, |bytes| {
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

/// What the control groups of this process leave it: a container sees the memory of the whole
/// machine, and is killed for using more than its own. `groups` is `/proc/self/cgroup`.
fn available_to_groups(root: &Path, groups: &str) -> Option<u64> {
    let available = groups.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, group) = rest.split_once(':')?;
        let (root, files) = match controllers {
            "" => (root.to_owned(), ["memory.max", "memory.current"]),
            "memory" => (
                root.join("memory"),
                ["memory.limit_in_bytes", "memory.usage_in_bytes"],
            ),
            _ => return None,
        };
        // The group is named as the machine names it; within a container it is the root.
        let group = root.join(group.trim_start_matches('/'));
        let folders = group.ancestors().chain([root.as_path()]);
        let folders = folders.filter(|folder| folder.starts_with(&root));
        folders
            .filter_map(|folder| available_to_group(folder, files))
            .min()
    });
    available.min()
}

/// What is left of a group's limit; nothing if it has none.
fn available_to_group(folder: &Path, [limit, used]: [&str; 2]) -> Option<u64> {
    let read = |name| std::fs::read_to_string(folder.join(name)).ok();
    let number = |name| read(name)?.trim().parse::<u64>().ok();
    let (limit, used) = (number(limit)?, number(used)?);
    // Files in memory count as used, and are given up when memory is wanted.
    let statistics = read("memory.stat").unwrap_or_default();
    let mut lines = statistics.lines();
    let files = lines.find_map(|line| line.strip_prefix("inactive_file ")?.parse().ok());
    Some(limit.saturating_sub(used.saturating_sub(files.unwrap_or(0))))
}

/// The folder of one run; it is gone when this is dropped.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn make(server: &Server, prepared: &Prepared) -> io::Result<Folder> {
        let folder = Folder(tempfile::Builder::new().prefix("shaketable-").tempdir()?);
        if let Some(short) = folder.free_bytes().and_then(too_little_room) {
            return Err(io::Error::other(short));
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
    fn free_bytes(&self) -> Option<u64> {
        let disk = nix::sys::statvfs::statvfs(self.path()).ok()?;
        Some(disk.blocks_available() * disk.fragment_size())
    }

    /// Whether nothing is left on its disk.
    pub(crate) fn is_full(&self) -> bool {
        self.free_bytes().is_some_and(|free| free < FULL_DISK_BYTES) || self.waits_for_room()
    }

    /// Whether the server finds no room for its trace. It says so on its standard error, and then
    /// tries again for ever.
    pub(crate) fn waits_for_room(&self) -> bool {
        let last_words = || -> io::Result<Vec<u8>> {
            let mut file = File::open(self.stderr())?;
            let length = file.metadata()?.len();
            if length > COMPLAINT_BYTES.unsigned_abs() {
                file.seek(SeekFrom::End(-COMPLAINT_BYTES))?;
            }
            let mut bytes = Vec::new();
            file.take(COMPLAINT_BYTES.unsigned_abs())
                .read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let said = last_words().unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        [Errno::ENOSPC, Errno::EDQUOT].into_iter().any(|error| {
            let number = error as i32;
            said.contains(&format!("error [{number}] when flushing trace log"))
                || said.contains("could not create trace log file")
                    && said.contains(&format!("({number}: "))
        })
    }
}

/// What to tell if so little is left on the disk that a run may not fit.
fn too_little_room(free: u64) -> Option<String> {
    let short = || {
        format!(
            "{} has {} MB left, and a run of fdbserver needs up to {} MB: make room, or name another folder with TMPDIR",
            std::env::temp_dir().display(),
            free >> 20,
            RUN_DISK_BYTES >> 20
        )
    };
    (free < RUN_DISK_BYTES).then(short)
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

    /// Writes what Linux shows of a control group.
    fn group(folder: &Path, files: &[(&str, &str)]) {
        std::fs::create_dir_all(folder).unwrap();
        for (name, text) in files {
            std::fs::write(folder.join(name), format!("{text}\n")).unwrap();
        }
    }

    #[test]
    fn a_container_has_the_memory_of_its_group() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        // Of this version of groups there is one tree; the narrowest limit holds.
        group(root, &[("memory.stat", "inactive_file 7")]);
        group(
            &root.join("pod"),
            &[("memory.max", "900"), ("memory.current", "500")],
        );
        group(
            &root.join("pod/box"),
            &[("memory.max", "max"), ("memory.current", "300")],
        );
        assert_eq!(available_to_groups(root, "0::/pod/box\n"), Some(400));
        group(
            &root.join("pod/box"),
            &[
                ("memory.max", "310"),
                ("memory.stat", "anon 1\ninactive_file 60\nfile 90"),
            ],
        );
        assert_eq!(available_to_groups(root, "0::/pod/box\n"), Some(70));
        assert_eq!(available_to_groups(root, "0::/elsewhere\n"), None);
        // Of the first version each controller has a tree of its own, which a container sees as
        // its root.
        group(
            &root.join("memory"),
            &[
                ("memory.limit_in_bytes", "1000"),
                ("memory.usage_in_bytes", "1200"),
            ],
        );
        let groups = "9:cpu:/docker/1\n4:memory:/docker/1\n0::/\n";
        assert_eq!(available_to_groups(root, groups), Some(0));
        assert_eq!(available_to_groups(root, "1:cpu:/\nnonsense\n"), None);
    }

    #[test]
    fn a_disk_with_too_little_room_is_told() {
        let told = too_little_room(399 << 20).unwrap();
        let folder = std::env::temp_dir().display().to_string();
        insta::assert_snapshot!(told.replace(&folder, "TMPDIR"), @"TMPDIR has 399 MB left, and a run of fdbserver needs up to 400 MB: make room, or name another folder with TMPDIR");
        assert_eq!(too_little_room(400 << 20), None);
    }
}
