//! A process for each seed, and what is known of it when it dies.
//!
//! Code under test may crash, loop for ever or call `exit`. So a seed is simulated in a fork: the parent has loaded the
//! library already, and the child starts with everything in place. The child reports through a pipe. When it dies without a report, the parent reads
//! where it was from the [`Beacon`]: a page of memory both share, into which the child writes which phase of which client it has entered.

#![expect(
    clippy::disallowed_methods,
    reason = "the limit of a process is one of real time, and measured outside of it"
)]

use crate::verdict::Phase;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid};
use std::fs::File;
use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Where a simulation is. Written by the process that simulates, read by its parent.
#[repr(C)]
pub struct Beacon {
    test: AtomicU32,
    workload: AtomicU32,
    client: AtomicI32,
    phase: AtomicU8,
    time_bits: AtomicU64,
    message_length: AtomicU32,
    message: [AtomicU8; MESSAGE_BYTES],
}

/// Room for the last words of a process.
const MESSAGE_BYTES: usize = 512;
/// The exit status of a process that stopped itself with a message.
const REFUSED: i32 = 113;

static LOCAL: Beacon = Beacon::dark();
static SHARED: AtomicPtr<Beacon> = AtomicPtr::new(std::ptr::null_mut());

/// A copy of what the beacon said.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Position {
    /// The number of the test in the file.
    pub test: usize,
    /// The number of the workload in the test.
    pub workload: usize,
    /// The client.
    pub client: Option<u32>,
    /// The phase.
    pub phase: Phase,
    /// Simulated seconds.
    pub time: f64,
}

impl Beacon {
    const fn dark() -> Beacon {
        Beacon {
            test: AtomicU32::new(0),
            workload: AtomicU32::new(0),
            client: AtomicI32::new(-1),
            phase: AtomicU8::new(0),
            time_bits: AtomicU64::new(0),
            message_length: AtomicU32::new(0),
            message: [const { AtomicU8::new(0) }; MESSAGE_BYTES],
        }
    }

    fn current() -> &'static Beacon {
        let shared = SHARED.load(Ordering::Acquire);
        if shared.is_null() {
            return &LOCAL;
        }
        // SAFETY: the pointer is null or a page that `share` mapped and initialised, and that is never unmapped.
        unsafe { &*shared }
    }

    /// Puts the beacon where processes forked from now on share it with this one.
    pub fn share() -> io::Result<()> {
        if !SHARED.load(Ordering::Acquire).is_null() {
            return Ok(());
        }
        let size = NonZeroUsize::new(size_of::<Beacon>()).expect("a beacon has a size");
        // SAFETY: a new anonymous mapping at an address of the kernel's choice cannot overlap anything.
        let page = unsafe {
            nix::sys::mman::mmap_anonymous(
                None,
                size,
                nix::sys::mman::ProtFlags::PROT_READ | nix::sys::mman::ProtFlags::PROT_WRITE,
                nix::sys::mman::MapFlags::MAP_SHARED,
            )
        }?;
        let page = page.cast::<Beacon>();
        // SAFETY: the mapping is large enough, aligned to a page, and nobody else knows it yet.
        unsafe { page.as_ptr().write(Beacon::dark()) };
        SHARED.store(page.as_ptr(), Ordering::Release);
        Ok(())
    }

    /// Says what runs now.
    pub fn enter(test: usize, workload: usize, client: Option<u32>, phase: Phase) {
        let beacon = Beacon::current();
        beacon.test.store(test as u32, Ordering::Relaxed);
        beacon.workload.store(workload as u32, Ordering::Relaxed);
        let client = client.map_or(-1, |client| client as i32);
        beacon.client.store(client, Ordering::Relaxed);
        beacon.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// Says what simulated time it is.
    pub fn set_time(seconds: f64) {
        let beacon = Beacon::current();
        beacon.time_bits.store(seconds.to_bits(), Ordering::Relaxed);
    }

    /// What was said last.
    pub fn position() -> Position {
        let beacon = Beacon::current();
        let phase = beacon.phase.load(Ordering::Relaxed) as usize;
        Position {
            test: beacon.test.load(Ordering::Relaxed) as usize,
            workload: beacon.workload.load(Ordering::Relaxed) as usize,
            client: u32::try_from(beacon.client.load(Ordering::Relaxed)).ok(),
            phase: Phase::ALL.get(phase).copied().unwrap_or_default(),
            time: f64::from_bits(beacon.time_bits.load(Ordering::Relaxed)),
        }
    }

    fn reset() {
        Beacon::enter(0, 0, None, Phase::Boot);
        Beacon::set_time(0.0);
        Beacon::current().message_length.store(0, Ordering::Relaxed);
    }

    fn leave_message(&self, text: &str) {
        let bytes = &text.as_bytes()[..text.len().min(MESSAGE_BYTES)];
        for (cell, byte) in self.message.iter().zip(bytes) {
            cell.store(*byte, Ordering::Relaxed);
        }
        self.message_length
            .store(bytes.len() as u32, Ordering::Release);
    }

    fn last_message(&self) -> String {
        let length = (self.message_length.load(Ordering::Acquire) as usize).min(MESSAGE_BYTES);
        let bytes: Vec<u8> = self.message[..length]
            .iter()
            .map(|cell| cell.load(Ordering::Relaxed))
            .collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Stops the process because the code under test did something that cannot be survived, and says what.
pub(super) fn refuse(message: &str) -> ! {
    if SHARED.load(Ordering::Acquire).is_null() {
        eprintln!("shaketable: {message}");
        std::process::abort();
    }
    Beacon::current().leave_message(message);
    // SAFETY: ends the process at once, without running anything of it.
    unsafe { libc::_exit(REFUSED) }
}

/// Sees to it that a process which is crashing, exiting or being stopped says on which client that happens. `probe` finds out; it runs
/// wherever the process was interrupted, so it may only look.
pub fn install_last_words(probe: fn() -> Option<u32>) -> io::Result<()> {
    use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, sigaction};
    PROBE.store(probe as *mut (), Ordering::Release);
    // A stack of its own, because the reason may be that there is none left.
    let stack: &'static mut [u8] = vec![0; LAST_WORDS_STACK_BYTES].leak();
    let stack = libc::stack_t {
        ss_sp: stack.as_mut_ptr().cast(),
        ss_flags: 0,
        ss_size: stack.len(),
    };
    // SAFETY: the memory is leaked, hence valid for ever and nobody else's.
    if unsafe { libc::sigaltstack(&raw const stack, std::ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let action = SigAction::new(
        SigHandler::Handler(on_signal),
        SaFlags::SA_ONSTACK | SaFlags::SA_RESETHAND,
        SigSet::empty(),
    );
    for signal in [
        Signal::SIGSEGV,
        Signal::SIGBUS,
        Signal::SIGILL,
        Signal::SIGFPE,
        Signal::SIGABRT,
        Signal::SIGTERM,
    ] {
        // SAFETY: the handler stores numbers and raises the signal again, which is allowed in one.
        unsafe { sigaction(signal, &action) }?;
    }
    // SAFETY: the function only stores a number.
    unsafe { libc::atexit(on_exit) };
    Ok(())
}

static PROBE: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
const LAST_WORDS_STACK_BYTES: usize = 64 * 1024;

fn say_last_words() {
    let probe = PROBE.load(Ordering::Acquire);
    if probe.is_null() {
        return;
    }
    // SAFETY: not null, hence the function that `install_last_words` stored.
    let probe: fn() -> Option<u32> = unsafe { std::mem::transmute(probe) };
    if let Some(client) = probe() {
        Beacon::current()
            .client
            .store(client as i32, Ordering::Relaxed);
    }
}

extern "C" fn on_signal(signal: i32) {
    say_last_words();
    // SAFETY: the handler was reset when it was entered: this ends the process as the signal would have.
    unsafe { libc::raise(signal) };
}

extern "C" fn on_exit() {
    say_last_words();
}

/// How a child ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It reported.
    Reported(Vec<u8>),
    /// A signal killed it: its number and name.
    Signal(i32, &'static str),
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
}

/// The last byte of a report, which tells a whole one from one cut short.
const END_OF_REPORT: u8 = b'\n';

impl Child {
    /// Forks; the child runs `work`, reports what it returns and ends. The beacon must be shared, and the process must have
    /// one thread: of others the child would inherit the locks they hold, and never see them released.
    pub fn fork(work: impl FnOnce() -> Vec<u8>) -> io::Result<Child> {
        Beacon::reset();
        let (reader, writer) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)?;
        // SAFETY: this process has one thread (the worker of the program keeps to that), so that the child finds no lock taken
        // and may do anything.
        match unsafe { nix::unistd::fork() }? {
            ForkResult::Parent { child } => Ok(Child {
                pid: child,
                pipe: File::from(reader),
            }),
            ForkResult::Child => {
                drop(reader);
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
        Ok(match status {
            _ if hung => End::Hung,
            WaitStatus::Exited(_, 0) if report.last() == Some(&END_OF_REPORT) => {
                report.pop();
                End::Reported(report)
            }
            WaitStatus::Exited(_, REFUSED)
                if Beacon::current().message_length.load(Ordering::Acquire) > 0 =>
            {
                End::Refused(Beacon::current().last_message())
            }
            WaitStatus::Exited(_, code) => End::Exited(code),
            WaitStatus::Signaled(_, signal, _) => End::Signal(signal as i32, signal.as_str()),
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
