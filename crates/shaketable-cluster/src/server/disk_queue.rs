//! The disk queue: where a transaction log writes, and why one commit in a hundred takes more than
//! a second.
//!
//! FoundationDB's log writes pages to two files in turn. When a file is full, the log switches to
//! the other file if that one has been popped; otherwise the file grows. In a simulation a file
//! that changes its length delays the next write by up to two seconds, as a file system may, and
//! with it every commit. Queues grow by their own size, so this happens whenever the load of a log
//! rises, and stops once the files are large enough.
//!
//! Nothing is stored here: what a log holds is in [`LogDisk`](crate::server::log::LogDisk). This
//! file tracks only the length of the files and the time they cost. One queue serves all
//! generations of logs on a process, and survives its reboots.

use crate::proto::Version;
use crate::server::env::Env;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// What fits on a page, in bytes.
const PAGE_BYTES: usize = 4084;
/// What a push costs on top of its mutations, in bytes.
const PUSH_BYTES: usize = 100;
/// The most a file grows by, in pages.
const EXTENSION: u64 = 2560;
/// What an idle cluster has pushed, and how much of that it keeps, in pages: a test begins when its
/// cluster has been up for a minute, committing three times a second and keeping seven seconds.
const IDLE: (u64, u64) = (180, 21);

#[derive(Clone, Copy, Debug, Default)]
struct File {
    pages: u64,
    popped: u64,
}

/// The two files of a queue. Pushes go to the second.
#[derive(Debug)]
pub struct DiskQueue {
    files: [File; 2],
    /// Pages written to the second file.
    written: u64,
    extension: u64,
    /// What has been pushed and not popped: the newest version, and how many pages.
    pushed: VecDeque<(Version, u64)>,
}

/// What a push did to the length of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It left the length unchanged.
    Within,
    /// It switched to the other file.
    Swapped,
    /// It grew.
    Extended,
}

impl DiskQueue {
    /// The queue of a process.
    pub fn of(env: &Env) -> Rc<RefCell<DiskQueue>> {
        let disk = env.process().disk();
        disk.open("disk queue", || {
            let mut queue = DiskQueue::new(EXTENSION);
            if env.buggify("disk queue grows by little") {
                let part = env.process().stream("disk queue").uniform();
                queue.extension = (10_240_f64.powf(part)) as u64;
            }
            if !env.faults_enabled() {
                queue.idle();
            }
            RefCell::new(queue)
        })
    }

    fn new(extension: u64) -> DiskQueue {
        DiskQueue {
            files: [File::default(); 2],
            written: 0,
            extension,
            pushed: VecDeque::new(),
        }
    }

    fn idle(&mut self) {
        let (pushes, kept) = IDLE;
        for number in 0..pushes {
            self.push_pages(0, 1);
            if number >= kept {
                self.pop_pages(1);
            }
        }
    }

    /// Writes this many bytes, ending with a version. Returns the seconds this takes on top of the
    /// sync.
    pub fn push(&mut self, env: &Env, version: Version, bytes: usize) -> f64 {
        let knobs = env.knobs();
        let pages = (bytes + PUSH_BYTES).div_ceil(PAGE_BYTES) as u64;
        let pushed = self.push_pages(version, pages);
        let shrinks = pushed == Pushed::Swapped
            && env.buggify_with_chance("disk queue shortens its file", 0.1);
        let mut longest = 0.0;
        if pushed == Pushed::Extended || shrinks {
            longest = knobs.non_durable_max_write_delay;
        } else if env.buggify_with_chance("disk holds a write back", 0.001) {
            longest = knobs.max_prior_modification_delay;
        }
        if longest == 0.0 || !env.faults_enabled() {
            return 0.0;
        }
        longest * env.process().stream("disk queue").uniform()
    }

    fn push_pages(&mut self, version: Version, pages: u64) -> Pushed {
        self.pushed.push_back((version, pages));
        let mut pushed = Pushed::Within;
        let mut pages = pages;
        if self.written + pages > self.files[1].pages {
            if self.files[0].popped == self.files[0].pages {
                pages -= self.files[1].pages - self.written;
                self.files.swap(0, 1);
                self.files[1].popped = 0;
                self.written = 0;
                pushed = Pushed::Swapped;
            } else {
                let least = self.written + pages - self.files[1].pages;
                let all = self.files[0].pages + self.files[1].pages;
                self.files[1].pages += self.extension.max(least).min(all + least);
                pushed = Pushed::Extended;
            }
        }
        self.written += pages;
        self.files[1].pages = self.files[1].pages.max(self.written);
        pushed
    }

    /// Frees everything up to a version, which no storage server needs any more.
    pub fn pop(&mut self, upto: Version) {
        while let Some((version, pages)) = self.pushed.front().copied()
            && version <= upto
        {
            self.pop_pages(pages);
        }
    }

    fn pop_pages(&mut self, pages: u64) {
        self.pushed.pop_front();
        let first = pages.min(self.files[0].pages - self.files[0].popped);
        self.files[0].popped += first;
        self.files[1].popped += pages - first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes `pushes` pushes of one page, of which `kept` stay; returns the numbers of those that
    /// made a file grow.
    fn growth(queue: &mut DiskQueue, pushes: u64, kept: usize) -> Vec<u64> {
        let grows = |number: &u64| {
            let pushed = queue.push_pages(*number as Version, 1);
            while queue.pushed.len() > kept {
                queue.pop(queue.pushed[0].0);
            }
            pushed == Pushed::Extended
        };
        (1..=pushes).filter(grows).collect()
    }

    #[test]
    fn a_new_queue_grows_by_its_own_size_until_its_load_fits() {
        let mut queue = DiskQueue::new(EXTENSION);
        let grown = growth(&mut queue, 10_000, 100);
        assert!((3..12).contains(&grown.len()), "{grown:?}");
        assert!(*grown.last().unwrap() < 1000, "{grown:?}");
    }

    #[test]
    fn a_queue_that_fits_grows_again_when_its_load_rises() {
        let mut queue = DiskQueue::new(EXTENSION);
        queue.idle();
        assert!(growth(&mut queue, 1000, 21).is_empty());
        let grown = growth(&mut queue, 10_000, 200);
        assert!((1..6).contains(&grown.len()), "{grown:?}");
    }

    #[test]
    fn a_queue_that_grows_by_little_grows_often() {
        let mut queue = DiskQueue::new(2);
        assert!(growth(&mut queue, 10_000, 200).len() > 50);
    }
}
