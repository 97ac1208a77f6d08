//! Forks: a child simulates a seed and reports through a pipe, the parent waits for one or the
//! other.
//!
//! A report that lies in the ground of the heap (`heap.rs`), as that of nearly every seed does, is
//! left there, and the pipe says where: both processes have the ground, so that nothing is copied,
//! and the parent writes to none of the pages that the fork has made read-only.

#![expect(
    clippy::disallowed_methods,
    reason = "the limit of a process is one of real time, and measured outside of it"
)]

use super::beacon::{Beacon, PANICKED, REFUSED};
use super::death::Death;
use super::last_words;
use crate::heap::{self, Ground, Left};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid};
use std::fs::File;
use std::io::{self, Read};
use std::ops::{Deref, Range};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How a child ended.
#[derive(Debug)]
pub(super) enum ChildEnd {
    /// It reported, and this is the report.
    Reported(Words),
    /// It took longer than allowed, and reported when it was asked to end.
    ReportedLate(Words),
    /// It did not.
    Died(Death),
}

/// What a child reported.
#[derive(Debug)]
pub(super) enum Words {
    Sent(Vec<u8>),
    /// It is in the ground that the child has left, at that place.
    Left(Left, Range<usize>),
}

impl Deref for Words {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Words::Sent(bytes) => bytes,
            Words::Left(ground, place) => ground.bytes(place.clone()),
        }
    }
}

/// What came through a child's pipe.
enum Collected {
    /// Everything: the child has closed its end.
    All(Vec<u8>),
    /// Not everything before the limit.
    TooLate,
}

/// A child that simulates a seed.
pub(super) struct Child {
    pid: Pid,
    pipe: File,
    /// What has come through the pipe.
    received: Vec<u8>,
    ground: Option<Ground>,
}

/// How much processor time a child may use to notice that it was asked to end. A busy machine gives
/// it little, and that must not change the verdict.
const PROCESSOR_TIME_TO_REACT: Duration = Duration::from_secs(1);
/// How long it may take altogether: a child that sleeps uses no processor time.
pub(super) const TIME_TO_REACT: Duration = Duration::from_secs(4);
/// How long it may then take to report: lines must be found, and a record written.
pub(super) const TIME_TO_REPORT: Duration = Duration::from_secs(60);
/// How often that is looked at.
pub(super) const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// How much is read from a pipe at first; later as much again as has come.
const READ_BYTES_MIN: usize = 64;

/// Whether this process is a fork, which ends with its report.
static IS_FORK: AtomicBool = AtomicBool::new(false);

/// Whether this process ends as soon as its seed has: then nothing needs to be freed.
pub(crate) fn ends_with_its_seed() -> bool {
    IS_FORK.load(Ordering::Relaxed)
}

/// The last byte of a report, which distinguishes a complete one from a truncated one.
const END_OF_REPORT: u8 = b'\n';
/// The last byte of what is sent instead of a report that is left in the ground: where it begins
/// and where it ends.
const END_OF_PLACE: u8 = b'@';

/// Where a child sends what it has to say.
pub(super) struct Report(File);

impl Report {
    /// Reports, and ends this process.
    pub(super) fn send(mut self, mut report: Vec<u8>) -> ! {
        let mut place = [END_OF_PLACE; 2 * size_of::<usize>() + 1];
        let sent = match heap::place_in_ground(&report) {
            Some(Range { start, end }) => {
                let (numbers, _) = place.as_chunks_mut();
                numbers.copy_from_slice(&[start.to_ne_bytes(), end.to_ne_bytes()]);
                &place[..]
            }
            None => {
                report.push(END_OF_REPORT);
                &report
            }
        };
        let _ = io::Write::write_all(&mut self.0, sent);
        // SAFETY: ends the process at once: destructors and exit handlers belong to the parent, or
        // to the code under test, whose life in this process is over.
        unsafe { libc::_exit(0) }
    }
}

/// The two processes after a fork.
pub(super) enum Fork {
    Parent(Child),
    Child(Report),
}

impl Child {
    /// Forks; the child runs `work`, reports what it returns and ends. The beacon must be shared,
    /// and the process must have one thread.
    pub(super) fn fork(work: impl FnOnce() -> Vec<u8>) -> io::Result<Child> {
        Beacon::reset();
        match Child::split(Ground::take())? {
            Fork::Parent(child) => Ok(child),
            Fork::Child(report) => report.send(work()),
        }
    }

    /// Forks a child that may be copied in its turn: it has none of the memory that children lend
    /// to one another, because its copies use that.
    pub(super) fn fork_trunk(work: impl FnOnce(Report)) -> io::Result<Child> {
        Beacon::reset();
        match Child::split(None)? {
            Fork::Parent(child) => Ok(child),
            Fork::Child(report) => {
                work(report);
                // SAFETY: as in `Report::send`.
                unsafe { libc::_exit(0) }
            }
        }
    }

    /// Copies this process, in the middle of its simulation.
    pub(super) fn branch() -> io::Result<Fork> {
        Child::split(Ground::take())
    }

    fn split(ground: Option<Ground>) -> io::Result<Fork> {
        last_words::forget_being_asked();
        let (reader, writer) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)?;
        // SAFETY: this process has one thread (the worker of the program keeps to that), so that
        // the child finds no lock taken and may do anything.
        match unsafe { nix::unistd::fork() }? {
            ForkResult::Parent { child } => Ok(Fork::Parent(Child {
                pid: child,
                pipe: File::from(reader),
                received: Vec::new(),
                ground,
            })),
            ForkResult::Child => {
                drop(reader);
                IS_FORK.store(true, Ordering::Relaxed);
                heap::begin(ground.as_ref());
                last_words::end_on_panic();
                // The report of an orphan would have no reader.
                let _ = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL);
                Ok(Fork::Child(Report(File::from(writer))))
            }
        }
    }

    /// Waits for the end, but not longer than `limit` of real time. The child is gone afterwards,
    /// even when it is unknown how it ended.
    pub(super) fn wait(mut self, limit: Duration) -> io::Result<ChildEnd> {
        let mut collected = self.collect(limit);
        let late = matches!(collected, Ok(Collected::TooLate));
        if late {
            collected = self.ask_to_end();
        }
        if !matches!(collected, Ok(Collected::All(_))) {
            self.stop();
        }
        let status = loop {
            match waitpid(self.pid, None) {
                Err(nix::errno::Errno::EINTR) => {}
                status => break status?,
            }
        };
        // SAFETY: the child has been waited for; it is gone, with all of its threads.
        let left = self.ground.take().map(|ground| unsafe { ground.left() });
        let report = match collected? {
            Collected::All(sent) => words(sent, left),
            Collected::TooLate => return Ok(ChildEnd::Died(Death::Hung)),
        };
        let last_message = || Beacon::current().last_message();
        if let (WaitStatus::Exited(_, 0), Some(report)) = (status, report) {
            return Ok(match late {
                true => ChildEnd::ReportedLate(report),
                false => ChildEnd::Reported(report),
            });
        }
        Ok(ChildEnd::Died(match status {
            WaitStatus::Exited(_, REFUSED) if !last_message().is_empty() => {
                Death::Refused(last_message())
            }
            WaitStatus::Exited(_, PANICKED) if !last_message().is_empty() => {
                Death::Panicked(last_message())
            }
            WaitStatus::Exited(_, code) => Death::Exited(code),
            WaitStatus::Signaled(_, signal, _) => Death::Signal {
                number: signal as i32,
                name: signal.as_str(),
                reason: last_message(),
            },
            other => {
                return Err(io::Error::other(format!(
                    "unexpected state of a child: {other:?}"
                )));
            }
        }))
    }

    /// Asks the child to end, and waits for its report for as long as it can be expected.
    fn ask_to_end(&mut self) -> io::Result<Collected> {
        let (asked, used) = (Instant::now(), self.processor_time());
        let _ = kill(self.pid, last_words::ASK_TO_END);
        loop {
            let collected = self.collect(LOOK_AGAIN_AFTER);
            if !matches!(collected, Ok(Collected::TooLate)) {
                return collected;
            }
            let waited = asked.elapsed();
            let enough = if Beacon::current().is_reporting() {
                waited >= TIME_TO_REPORT
            } else {
                waited >= TIME_TO_REACT
                    || self.processor_time().saturating_sub(used) >= PROCESSOR_TIME_TO_REACT
            };
            if enough {
                return collected;
            }
        }
    }

    /// How much processor time the child has used; none if that cannot be found out.
    fn processor_time(&self) -> Duration {
        let used = nix::time::ClockId::pid_cpu_clock_id(self.pid).and_then(|clock| clock.now());
        used.map_or(Duration::ZERO, Duration::from)
    }

    /// Reads what the child writes, until it hangs up or `limit` has passed.
    fn collect(&mut self, limit: Duration) -> io::Result<Collected> {
        let deadline = Instant::now() + limit;
        loop {
            let rest = deadline.saturating_duration_since(Instant::now());
            let millis = u16::try_from(rest.as_millis()).unwrap_or(u16::MAX);
            let mut events = [nix::poll::PollFd::new(
                self.pipe.as_fd(),
                nix::poll::PollFlags::POLLIN,
            )];
            match nix::poll::poll(&mut events, millis) {
                Ok(0) if rest.is_zero() => return Ok(Collected::TooLate),
                Ok(0) => {}
                Err(nix::errno::Errno::EINTR) => {
                    if last_words::is_asked_to_end() {
                        let _ = kill(self.pid, last_words::ASK_TO_END);
                    }
                }
                Ok(_) => {
                    let start = self.received.len();
                    self.received.resize(start + start.max(READ_BYTES_MIN), 0);
                    let count = self.pipe.read(&mut self.received[start..])?;
                    self.received.truncate(start + count);
                    if count == 0 {
                        return Ok(Collected::All(std::mem::take(&mut self.received)));
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Ends the child: first with a signal that lets it report where it is, then for good.
    fn stop(&self) {
        const GRACE_MILLIS: u16 = 200;
        let _ = kill(self.pid, Signal::SIGTERM);
        let mut events = [nix::poll::PollFd::new(
            self.pipe.as_fd(),
            nix::poll::PollFlags::empty(),
        )];
        // The pipe hangs up when the child is gone.
        let _ = nix::poll::poll(&mut events, GRACE_MILLIS);
        let _ = kill(self.pid, Signal::SIGKILL);
    }
}

/// What a child has reported, of which `sent` came through its pipe; nothing if that is not whole.
fn words(mut sent: Vec<u8>, left: Option<Left>) -> Option<Words> {
    match sent.pop()? {
        END_OF_REPORT => Some(Words::Sent(sent)),
        END_OF_PLACE => {
            let (start, end) = sent.split_first_chunk()?;
            let place = usize::from_ne_bytes(*start)..usize::from_ne_bytes(end.try_into().ok()?);
            Some(Words::Left(left?, place))
        }
        _ => None,
    }
}
