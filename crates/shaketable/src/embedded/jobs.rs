//! Seeds side by side: every processor works, and what is reported is as if there were one.
//!
//! Seeds are handed out in their order, results are taken in their order, and of several failures
//! the first in that order is the one that counts. So a test says the same with one processor and
//! with sixteen; only how long it takes differs.
//!
//! A test program runs several tests at once, and nextest starts a process for each. All of them
//! together must not run many more seeds at once than there are processors. So each seed wants to
//! hold a *slot*, a lock on one of a few files that all test programs of a user share. The
//! thread of the test itself goes on without one, because a test must never wait for others; the
//! threads that help it wait until one is free.

#![expect(
    clippy::disallowed_methods,
    reason = "what happens outside of all seeds, and decides nothing in any of them"
)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

const VARIABLE: &str = "SHAKETABLE_JOBS";
/// How long a thread that found no slot waits before it looks again.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(10);

/// How many seeds run at once: as the environment says, or one for each processor.
pub(super) fn from_environment() -> usize {
    let text = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty());
    let Some(text) = text else {
        return thread::available_parallelism().map_or(1, usize::from);
    };
    match text.parse() {
        Ok(jobs) if jobs > 0 => jobs,
        _ => panic!("{VARIABLE}: expected how many seeds may run at once, found `{text}`"),
    }
}

/// What became of the work on one index.
pub(super) enum Step<T, E> {
    /// It succeeded.
    Done(T),
    /// It failed: what comes after it need not be done.
    Failed(E),
    /// There is nothing to do, here and at every later index.
    End,
}

/// Works on 0, 1, 2… until the end or the first failure, on this thread and on `jobs - 1` others.
/// What succeeds is taken in order, all of it before the first failure and nothing after.
pub(super) fn in_order<T: Send, E: Send>(
    jobs: usize,
    work: impl Fn(usize) -> Step<T, E> + Sync,
    take: impl FnMut(T) + Send,
) -> Option<E> {
    let course = Mutex::new(Course {
        next: 0,
        is_over: false,
        early: BTreeMap::new(),
        taken: 0,
        failed: None,
        take,
    });
    let helper = || {
        while !lock(&course).is_over {
            match Slot::find(jobs) {
                Some(slot) => {
                    one(&course, &work);
                    drop(slot);
                }
                None => thread::sleep(LOOK_AGAIN_AFTER),
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..jobs {
            scope.spawn(helper);
        }
        while !lock(&course).is_over {
            let _slot = Slot::find(jobs);
            one(&course, &work);
        }
    });
    let course = course.into_inner().unwrap_or_else(PoisonError::into_inner);
    course.failed.map(|(_, failure)| failure)
}

struct Course<T, E, F> {
    /// The index that is handed out next.
    next: usize,
    /// Whether no more are handed out.
    is_over: bool,
    /// What succeeded while something before it was not done.
    early: BTreeMap<usize, T>,
    taken: usize,
    /// The first failure, and where.
    failed: Option<(usize, E)>,
    take: F,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does the work on the next index.
fn one<T, E, F: FnMut(T)>(course: &Mutex<Course<T, E, F>>, work: &impl Fn(usize) -> Step<T, E>) {
    let index = {
        let mut course = lock(course);
        if course.is_over {
            return;
        }
        course.next += 1;
        course.next - 1
    };
    let over = EndsWithAPanic(course);
    let step = work(index);
    std::mem::forget(over);
    let mut course = lock(course);
    match step {
        Step::Done(result) => {
            course.early.insert(index, result);
            let mut at = course.taken;
            while let Some(result) = course.early.remove(&at) {
                (course.take)(result);
                at += 1;
            }
            course.taken = at;
        }
        Step::Failed(failure) => {
            course.is_over = true;
            if course
                .failed
                .as_ref()
                .is_none_or(|(first, _)| index < *first)
            {
                course.failed = Some((index, failure));
            }
        }
        Step::End => course.is_over = true,
    }
}

/// A panic of the simulator itself ends the work of the other threads too.
struct EndsWithAPanic<'a, T, E, F>(&'a Mutex<Course<T, E, F>>);

impl<T, E, F> Drop for EndsWithAPanic<'_, T, E, F> {
    fn drop(&mut self) {
        lock(self.0).is_over = true;
    }
}

/// The right to run a seed, shared by all test programs of a user. It ends with its drop, and
/// with its process.
struct Slot(#[expect(dead_code, reason = "it is locked while it is open")] File);

impl Slot {
    /// One that is free, if there is one.
    fn find(count: usize) -> Option<Slot> {
        let folder = folder();
        (0..count).find_map(|number| {
            let path = folder.join(number.to_string());
            let open = || File::options().create(true).append(true).open(&path);
            let file = open().or_else(|_| fs::create_dir_all(&folder).and_then(|()| open()));
            let file = file.ok()?;
            file.try_lock().is_ok().then_some(Slot(file))
        })
    }
}

/// The processors are the machine's, and so are the slots; of each user, because files have owners.
fn folder() -> PathBuf {
    let user = fs::metadata("/proc/self").map_or(0, |process| process.uid());
    std::env::temp_dir().join(format!("shaketable-jobs-{user}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(jobs: usize, end: usize, fails: &[usize]) -> (Vec<usize>, Option<usize>) {
        let mut taken = Vec::new();
        let failed = in_order(
            jobs,
            |index| match index {
                index if index >= end => Step::End,
                index if fails.contains(&index) => Step::Failed(index),
                // Later ones are done earlier.
                index => {
                    thread::sleep(Duration::from_micros(300 * (7 - index as u64 % 8)));
                    Step::Done(index)
                }
            },
            |index| taken.push(index),
        );
        (taken, failed)
    }

    #[test]
    fn results_come_in_order_with_any_number_of_threads() {
        for jobs in [1, 2, 8] {
            assert_eq!(run(jobs, 40, &[]), ((0..40).collect(), None));
        }
    }

    #[test]
    fn the_first_failure_is_the_one_that_counts() {
        for jobs in [1, 2, 8] {
            let (taken, failed) = run(jobs, 40, &[17, 18, 19, 30]);
            assert_eq!(failed, Some(17));
            assert_eq!(taken[..17], (0..17).collect::<Vec<_>>());
        }
    }

    #[test]
    fn nothing_to_do_is_done_at_once() {
        assert_eq!(run(4, 0, &[]), (Vec::new(), None));
    }
}
