//! The beacon: a page of memory in which a simulating process records where it is, for its parent
//! to read.
//!
//! A crash leaves no time to report. So the simulation records which phase of which client it is
//! about to enter, before it enters, and each failure as soon as it is known. Code that must stop
//! the process leaves the reason here.

use crate::shared_text::SharedText;
use crate::verdict::{Failure, Phase};
use shaketable_kernel::Time;
use std::cell::Cell;
use std::ffi::c_void;
use std::io;
use std::num::NonZeroUsize;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};

/// Where a simulation is. Written by the process that simulates, read by its parent.
#[repr(C)]
pub(crate) struct Beacon {
    test: AtomicU32,
    workload: AtomicU32,
    client: AtomicI32,
    phase: AtomicU8,
    time_nanos: AtomicU64,
    reporting: AtomicBool,
    message: SharedText<MESSAGE_BYTES>,
    frames: [AtomicUsize; FRAMES_MAX],
    failures: SharedText<FAILURES_BYTES>,
}

/// Room for the last words of a process.
const MESSAGE_BYTES: usize = 512;
/// A deeper stack helps no reader.
pub(super) const FRAMES_MAX: usize = 64;
/// Room for what had failed before.
const FAILURES_BYTES: usize = 16 * 1024;
/// The exit status of a process that stopped itself with a message.
pub(super) const REFUSED: i32 = 113;
/// The exit status of a process in which the simulator itself panicked.
pub(super) const PANICKED: i32 = 114;

static LOCAL: Beacon = Beacon::dark();
static SHARED: AtomicPtr<Beacon> = AtomicPtr::new(std::ptr::null_mut());

thread_local! {
    /// The beacon of the seed on this thread, where seeds share a process.
    static OWN: Cell<Option<&'static Beacon>> = const { Cell::new(None) };
}

/// A copy of what the beacon held.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Position {
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

/// What the beacon says while a simulation goes on.
pub(super) struct Saved {
    position: Position,
    time: Time,
    failures: Vec<u8>,
}

impl Beacon {
    pub(super) const fn dark() -> Beacon {
        Beacon {
            test: AtomicU32::new(0),
            workload: AtomicU32::new(0),
            client: AtomicI32::new(-1),
            phase: AtomicU8::new(0),
            time_nanos: AtomicU64::new(0),
            reporting: AtomicBool::new(false),
            message: SharedText::empty(),
            frames: [const { AtomicUsize::new(0) }; FRAMES_MAX],
            failures: SharedText::empty(),
        }
    }

    pub(super) fn current() -> &'static Beacon {
        let shared = SHARED.load(Ordering::Acquire);
        if shared.is_null() {
            return OWN.get().unwrap_or(&LOCAL);
        }
        // SAFETY: the pointer is null or a page that `share` mapped and initialised, and that is
        // never unmapped.
        unsafe { &*shared }
    }

    /// Gives this thread a beacon of its own, or takes it away.
    pub(super) fn set_own(beacon: Option<&'static Beacon>) {
        OWN.set(beacon);
    }

    /// Whether processes that were forked share the beacon with this one.
    pub(super) fn is_shared() -> bool {
        !SHARED.load(Ordering::Acquire).is_null()
    }

    /// Puts the beacon where processes forked from now on share it with this one.
    pub(super) fn share() -> io::Result<()> {
        if Beacon::is_shared() {
            return Ok(());
        }
        let size = NonZeroUsize::new(size_of::<Beacon>()).expect("a beacon has a size");
        // SAFETY: a new anonymous mapping at an address of the kernel's choice cannot overlap
        // anything.
        let page = unsafe {
            nix::sys::mman::mmap_anonymous(
                None,
                size,
                nix::sys::mman::ProtFlags::PROT_READ | nix::sys::mman::ProtFlags::PROT_WRITE,
                nix::sys::mman::MapFlags::MAP_SHARED,
            )
        }?;
        let page = page.cast::<Beacon>();
        // SAFETY: the mapping is large enough, aligned to a page, and not known anywhere else yet.
        unsafe { page.as_ptr().write(Beacon::dark()) };
        SHARED.store(page.as_ptr(), Ordering::Release);
        Ok(())
    }

    /// The simulation is over, and a report is being made of it.
    pub(crate) fn note_end() {
        Beacon::current().reporting.store(true, Ordering::Release);
    }

    /// Whether the simulation is over.
    pub(super) fn is_reporting(&self) -> bool {
        self.reporting.load(Ordering::Acquire)
    }

    /// The simulated time that was recorded last.
    pub(super) fn time(&self) -> Time {
        Time::from_nanos(self.time_nanos.load(Ordering::Relaxed))
    }

    /// Records what runs now.
    pub(crate) fn enter(test: usize, workload: usize, client: Option<u32>, phase: Phase) {
        let beacon = Beacon::current();
        beacon.test.store(test as u32, Ordering::Relaxed);
        beacon.workload.store(workload as u32, Ordering::Relaxed);
        let client = client.map_or(-1, |client| client as i32);
        beacon.client.store(client, Ordering::Relaxed);
        beacon.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// Records which client it runs on, if on one.
    pub(super) fn set_client(&self, client: Option<u32>) {
        let client = client.map_or(-1, |client| client as i32);
        self.client.store(client, Ordering::Relaxed);
    }

    /// Records the simulated time. Called at every step, so it leaves arithmetic to the reader.
    pub(crate) fn set_time(now: Time) {
        let beacon = Beacon::current();
        beacon.time_nanos.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// What was recorded last.
    pub(super) fn position(&self) -> Position {
        let phase = self.phase.load(Ordering::Relaxed) as usize;
        Position {
            test: self.test.load(Ordering::Relaxed) as usize,
            workload: self.workload.load(Ordering::Relaxed) as usize,
            client: u32::try_from(self.client.load(Ordering::Relaxed)).ok(),
            phase: Phase::ALL.get(phase).copied().unwrap_or_default(),
            time: self.time().as_secs(),
        }
    }

    /// What a copy of this process must find, however an earlier copy has left the beacon.
    pub(super) fn save(&self) -> Saved {
        Saved {
            position: self.position(),
            time: self.time(),
            failures: self.failures.read(),
        }
    }

    /// Puts that back.
    pub(super) fn restore(saved: &Saved) {
        let Position {
            test,
            workload,
            client,
            phase,
            ..
        } = saved.position;
        Beacon::reset();
        Beacon::enter(test, workload, client, phase);
        Beacon::set_time(saved.time);
        Beacon::current().failures.append(&saved.failures);
    }

    /// Begins a seed on the beacon of this thread.
    pub(super) fn reset() {
        Beacon::enter(0, 0, None, Phase::Boot);
        Beacon::set_time(Time::ZERO);
        let beacon = Beacon::current();
        beacon.reporting.store(false, Ordering::Relaxed);
        beacon.message.clear();
        beacon.leave_frames(&[]);
        beacon.failures.clear();
    }

    /// Leaves the addresses on the stack.
    pub(super) fn leave_frames(&self, frames: &[*mut c_void]) {
        let addresses = frames.iter().map(|frame| frame.expose_provenance());
        for (cell, address) in self
            .frames
            .iter()
            .zip(addresses.chain(std::iter::repeat(0)))
        {
            cell.store(address, Ordering::Relaxed);
        }
    }

    /// The addresses that were left, innermost first.
    pub(super) fn frames(&self) -> Vec<usize> {
        let frames = self.frames.iter().map(|cell| cell.load(Ordering::Relaxed));
        frames.take_while(|address| *address != 0).collect()
    }

    /// Leaves a reason; the last one counts.
    pub(super) fn leave_message(&self, text: &str) {
        self.message.clear();
        self.message
            .append(&text.as_bytes()[..text.len().min(MESSAGE_BYTES)]);
    }

    /// The reason that was left, if one was.
    pub(super) fn last_message(&self) -> String {
        String::from_utf8_lossy(&self.message.read()).into_owned()
    }

    /// Records what has failed, in case the process does not live to report it. What does not fit
    /// is left out.
    pub(crate) fn note_failure(failure: &Failure) {
        if let Ok(mut line) = serde_json::to_vec(failure) {
            line.push(b'\n');
            Beacon::current().failures.append(&line);
        }
    }

    /// What had failed.
    pub(super) fn failures(&self) -> Vec<Failure> {
        let text = self.failures.read();
        let lines = text.split(|byte| *byte == b'\n');
        lines
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect()
    }
}

/// Stops the process because the code under test did something fatal, and records what it was.
pub(crate) fn refuse(message: &str) -> ! {
    if !Beacon::is_shared() {
        Beacon::current().leave_message(message);
        eprintln!("shaketable: {message}");
        std::process::abort();
    }
    Beacon::current().leave_message(message);
    // SAFETY: ends the process at once, without running anything of it.
    unsafe { libc::_exit(REFUSED) }
}
