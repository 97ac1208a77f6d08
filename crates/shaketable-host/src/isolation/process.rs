//! A process for each seed, and what is known of it when it dies.
//!
//! Code under test may crash, loop for ever or call `exit`. So a seed is simulated in a fork: the parent has loaded the
//! library already, and the child starts with everything in place. The child reports through a pipe. When it dies without a report, the parent reads
//! where it was from the [`Beacon`]: a page of memory both share, into which the child writes which phase of which client it has entered.

#![expect(
    clippy::disallowed_methods,
    reason = "the limit of a process is one of real time, and measured outside of it"
)]

use super::beacon::{Beacon, REFUSED};
use crate::heap::{self, Ground};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How a child ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It reported.
    Reported(Vec<u8>),
    /// A signal killed it: its number, its name, and what is known about the reason.
    Signal(i32, &'static str, String),
    /// Somebody called `exit`.
    Exited(i32),
    /// It stopped itself, for this reason.
    Refused(String),
    /// It took longer than allowed and was killed.
    Hung,
}

/// A child that simulates a seed.
pub struct Child {
    pid: Pid,
    pipe: File,
    ground: Option<Ground>,
}

/// The last byte of a report, which tells a whole one from one cut short.
const END_OF_REPORT: u8 = b'\n';

impl Child {
    /// Forks; the child runs `work`, reports what it returns and ends. The beacon must be shared, and the process must have
    /// one thread: of others the child would inherit the locks they hold, and never see them released.
    pub fn fork(work: impl FnOnce() -> Vec<u8>) -> io::Result<Child> {
        Beacon::reset();
        let (reader, writer) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)?;
        let ground = Ground::take();
        // SAFETY: this process has one thread (the worker of the program keeps to that), so that the child finds no lock taken
        // and may do anything.
        match unsafe { nix::unistd::fork() }? {
            ForkResult::Parent { child } => Ok(Child {
                pid: child,
                pipe: File::from(reader),
                ground,
            }),
            ForkResult::Child => {
                drop(reader);
                heap::begin(ground.as_ref());
                // Nobody would read the report of an orphan.
                let _ = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL);
                let mut report = work();
                report.push(END_OF_REPORT);
                let _ = io::Write::write_all(&mut File::from(writer), &report);
                // SAFETY: ends the process at once: destructors and exit handlers belong to the parent, or to the code under test, whose
                // life in this process is over.
                unsafe { libc::_exit(0) }
            }
        }
    }

    /// Waits for the end, but not longer than `limit` of real time.
    pub fn wait(mut self, limit: Duration) -> io::Result<End> {
        let deadline = Instant::now() + limit;
        let mut report = Vec::new();
        let mut hung = false;
        loop {
            let rest = deadline.saturating_duration_since(Instant::now());
            let millis = u16::try_from(rest.as_millis()).unwrap_or(u16::MAX);
            let mut events = [nix::poll::PollFd::new(
                self.pipe.as_fd(),
                nix::poll::PollFlags::POLLIN,
            )];
            match nix::poll::poll(&mut events, millis) {
                Ok(0) if rest.is_zero() => {
                    self.stop();
                    hung = true;
                    break;
                }
                Ok(0) | Err(nix::errno::Errno::EINTR) => {}
                Ok(_) => {
                    let mut buffer = [0; 16 * 1024];
                    match self.pipe.read(&mut buffer)? {
                        0 => break,
                        count => report.extend_from_slice(&buffer[..count]),
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        let status = loop {
            match waitpid(self.pid, None) {
                Err(nix::errno::Errno::EINTR) => {}
                status => break status?,
            }
        };
        if let Some(ground) = self.ground.take() {
            // SAFETY: the child has been waited for; it is gone, with all of its threads.
            unsafe { ground.give_back() };
        }
        Ok(match status {
            _ if hung => End::Hung,
            WaitStatus::Exited(_, 0) if report.last() == Some(&END_OF_REPORT) => {
                report.pop();
                End::Reported(report)
            }
            WaitStatus::Exited(_, REFUSED) if !Beacon::current().last_message().is_empty() => {
                End::Refused(Beacon::current().last_message())
            }
            WaitStatus::Exited(_, code) => End::Exited(code),
            WaitStatus::Signaled(_, signal, _) => {
                let reason = Beacon::current().last_message();
                End::Signal(signal as i32, signal.as_str(), reason)
            }
            other => {
                return Err(io::Error::other(format!(
                    "unexpected state of a child: {other:?}"
                )));
            }
        })
    }
}

impl Child {
    /// Ends the child: first with a signal that lets it say where it is, then for good.
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

/// Leaves it to the parent when to end: an interrupt from the terminal is ignored, the parent's death is not survived.
pub fn live_under_parent() -> io::Result<()> {
    // SAFETY: ignoring a signal runs nothing.
    unsafe { nix::sys::signal::signal(Signal::SIGINT, nix::sys::signal::SigHandler::SigIgn) }?;
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    Ok(())
}

/// Keeps crashes of code under test from writing core files, and its memory from taking the machine's.
pub fn limit_resources(memory_bytes: u64) -> io::Result<()> {
    use nix::sys::resource::{Resource, setrlimit};
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    setrlimit(Resource::RLIMIT_AS, memory_bytes, memory_bytes)?;
    Ok(())
}
