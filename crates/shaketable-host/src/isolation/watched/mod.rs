//! A seed on a thread of a process that it shares: what is said when the process dies of it.
//!
//! A test program cannot fork for each seed: it has threads, and a debugger attached perhaps. So
//! everything that must be said at the end of the process is prepared before the seed begins, in
//! memory that a signal handler may read ([`Watched`]): which seed it is, the line that runs it
//! again, where it is kept. The handlers only call what a handler may call. They
//!
//! 1. write which seed ends the process, and why;
//! 2. write the seed to a case of its own;
//! 3. start this program again, for this one test, and give it the [`Watched`] as its standard
//!    input: that process simulates the seed once more, up to just before this moment, and writes
//!    the folder and the report (`in_process.rs`);
//! 4. let the signal take the course that it would have taken without them.
//!
//! A crash on a thread that is no simulation's, and a signal from outside, such as Ctrl-C or the
//! one with which nextest ends a slow test, lists the seeds that were running. What cannot be
//! noticed at all is `_exit` and `SIGKILL`.
//!
//! This file has that memory, and the threads that run seeds with it; `handlers.rs` says which
//! signals are listened to and what they mean, `dying.rs` does what is left to do, and `words.rs`
//! writes what is said.

mod dying;
mod handlers;
mod words;

pub(super) use handlers::install;

use super::beacon::Beacon;
use crate::hermetic::output;
use crate::shared_text::{SharedTail, SharedText};
use handlers::LOOK;
use libc::{c_int, c_void};
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
use std::sync::{Mutex, PoisonError};

/// What is known about a seed while it runs. Another process of the same program reads it as plain
/// memory.
#[repr(C)]
pub(super) struct Watched {
    /// Which layout this is.
    layout: AtomicU64,
    pub(super) beacon: Beacon,
    /// Where this program's code is; another process has it elsewhere.
    anchor: AtomicUsize,
    is_running: AtomicBool,
    asked_to_end: AtomicBool,
    /// The thread.
    thread: AtomicI32,
    /// Where its stack ends.
    stack_end: AtomicUsize,
    /// Where handlers have theirs.
    handler_stack: AtomicPtr<c_void>,
    pub(super) seed: AtomicU64,
    pub(super) passed: AtomicU32,
    pub(super) simulation: AtomicU32,
    /// The signal that ends the process; 0 for a call of `exit`.
    pub(super) signal: AtomicI32,
    /// The status that `exit` was given.
    pub(super) status: AtomicI32,
    /// What became of the case of the seed: an error of the operating system, or 0.
    pub(super) kept: AtomicI32,
    pub(super) name: SharedText<TEXT_BYTES>,
    /// The name by which the test program runs the test alone; empty if it has none.
    test: SharedText<TEXT_BYTES>,
    replay: SharedText<TEXT_BYTES>,
    folder: SharedText<PATH_BYTES>,
    pub(super) regressions: SharedText<PATH_BYTES>,
    regression: SharedText<TEXT_BYTES>,
    /// The last of what it printed, if that is held back.
    printed: SharedTail<{ output::KEPT_BYTES }>,
}

const TEXT_BYTES: usize = 1024;
const PATH_BYTES: usize = 4096;
/// The stack of the handlers.
const HANDLER_STACK_BYTES: usize = 128 * 1024;
/// The exit status of a process that recorded a death.
pub(super) const RECORDED: c_int = 117;

/// The variable that tells a process to read a [`Watched`] from its standard input.
pub(super) const DEATH_VARIABLE: &str = "SHAKETABLE_DEATH_ON_STDIN";

/// What becomes of what a seed prints.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Printed {
    /// It is printed.
    Shown,
    /// It is shown if the seed ends the process.
    Held,
}

/// What a seed leaves if it ends the process.
pub(super) struct Texts<'a> {
    pub(super) name: &'a str,
    pub(super) test: &'a str,
    pub(super) replay: &'a str,
    pub(super) folder: &'a [u8],
    /// The file for the case of the seed; empty if none is kept, or the seed is known.
    pub(super) regressions: &'a [u8],
    /// What is written to it.
    pub(super) regression: &'a str,
}

thread_local! {
    static OWN: Cell<Option<&'static Watched>> = const { Cell::new(None) };
}

/// Those that were ever needed at the same time. They are used again and never freed: a handler may
/// look at them at any moment.
static ALL: [AtomicPtr<Watched>; WATCHED_MAX] =
    [const { AtomicPtr::new(ptr::null_mut()) }; WATCHED_MAX];
/// More threads than tests run on.
const WATCHED_MAX: usize = 1024;
static IDLE: Mutex<Vec<&'static Watched>> = Mutex::new(Vec::new());
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Whether the simulation on this thread was asked to end.
pub(super) fn is_asked_to_end() -> bool {
    OWN.get()
        .is_some_and(|own| own.asked_to_end.load(Ordering::Relaxed))
}

impl Watched {
    fn new() -> Watched {
        Watched {
            layout: AtomicU64::new(LAYOUT),
            beacon: Beacon::dark(),
            anchor: AtomicUsize::new(anchor()),
            is_running: AtomicBool::new(false),
            asked_to_end: AtomicBool::new(false),
            thread: AtomicI32::new(0),
            stack_end: AtomicUsize::new(0),
            handler_stack: AtomicPtr::new(ptr::null_mut()),
            seed: AtomicU64::new(0),
            passed: AtomicU32::new(0),
            simulation: AtomicU32::new(0),
            signal: AtomicI32::new(0),
            status: AtomicI32::new(0),
            kept: AtomicI32::new(0),
            name: SharedText::empty(),
            test: SharedText::empty(),
            replay: SharedText::empty(),
            folder: SharedText::empty(),
            regressions: SharedText::empty(),
            regression: SharedText::empty(),
            printed: SharedTail::empty(),
        }
    }

    /// One that is not in use.
    pub(super) fn take() -> &'static Watched {
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(watched) = idle.pop() {
            return watched;
        }
        let watched: &'static Watched = Box::leak(Box::new(Watched::new()));
        let stack = vec![0_u8; HANDLER_STACK_BYTES].leak().as_mut_ptr();
        watched.handler_stack.store(stack.cast(), Ordering::Release);
        // One that finds no room is not listed when another thread's crash ends the process.
        if let Some(cell) = ALL.get(COUNT.fetch_add(1, Ordering::Relaxed)) {
            cell.store(ptr::from_ref(watched).cast_mut(), Ordering::Release);
        }
        watched
    }

    /// Lets another seed use it. One whose thread never ends is not given back.
    pub(super) fn give_back(&'static self) {
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(self);
    }

    /// Prepares what would be said.
    pub(super) fn prepare(&self, texts: &Texts<'_>, seed: u64, passed: u32, simulation: u32) {
        let set = |text: &SharedText<TEXT_BYTES>, bytes: &[u8]| {
            text.clear();
            text.append(bytes);
        };
        set(&self.name, texts.name.as_bytes());
        set(&self.replay, texts.replay.as_bytes());
        set(&self.test, &terminated(texts.test.as_bytes()));
        set(&self.regression, texts.regression.as_bytes());
        for (text, path) in [
            (&self.folder, texts.folder),
            (&self.regressions, texts.regressions),
        ] {
            text.clear();
            text.append(&terminated(path));
        }
        self.seed.store(seed, Ordering::Relaxed);
        self.passed.store(passed, Ordering::Relaxed);
        self.simulation.store(simulation, Ordering::Relaxed);
        self.printed.clear();
        self.kept.store(0, Ordering::Relaxed);
        self.asked_to_end.store(false, Ordering::Relaxed);
    }

    /// Runs a seed on this thread, which is fresh and has a stack of this size.
    pub(super) fn run<T>(
        &'static self,
        stack_bytes: usize,
        printed: Printed,
        work: impl FnOnce() -> T,
    ) -> T {
        /// Ends it also when the simulator panics.
        struct Running {
            watched: &'static Watched,
            handler_stack_before: libc::stack_t,
        }
        impl Drop for Running {
            fn drop(&mut self) {
                self.watched.is_running.store(false, Ordering::Release);
                Beacon::set_own(None);
                OWN.set(None);
                // SAFETY: the stack that the thread had before.
                unsafe { libc::sigaltstack(&raw const self.handler_stack_before, ptr::null_mut()) };
            }
        }
        let here = 0_u8;
        let end = (&raw const here).addr().wrapping_sub(stack_bytes);
        self.stack_end.store(end, Ordering::Relaxed);
        // SAFETY: asks for a number.
        let thread = unsafe { libc::gettid() };
        self.thread.store(thread, Ordering::Relaxed);
        let stack = libc::stack_t {
            ss_sp: self.handler_stack.load(Ordering::Acquire),
            ss_flags: 0,
            ss_size: HANDLER_STACK_BYTES,
        };
        let mut before = libc::stack_t {
            ss_sp: ptr::null_mut(),
            ss_flags: libc::SS_DISABLE,
            ss_size: 0,
        };
        // SAFETY: the memory is leaked, and used by no other thread while this runs.
        unsafe { libc::sigaltstack(&raw const stack, &raw mut before) };
        Beacon::set_own(Some(&self.beacon));
        Beacon::reset();
        OWN.set(Some(self));
        self.is_running.store(true, Ordering::Release);
        let _running = Running {
            watched: self,
            handler_stack_before: before,
        };
        let _held = match printed {
            Printed::Shown => None,
            Printed::Held => Some(output::hold(&self.printed)),
        };
        work()
    }

    /// Asks the simulation to end by itself.
    pub(super) fn ask_to_end(&self) {
        self.asked_to_end.store(true, Ordering::Relaxed);
    }

    /// Asks a thread that does not come back where it is. The answer appears in the beacon.
    pub(super) fn ask_where(&self) {
        let thread = self.thread.load(Ordering::Relaxed);
        // SAFETY: the signal's handler only looks and writes; without a handler it is ignored.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, LOOK) };
    }

    /// Leaves the processor to others, if a thread that does not end wants all of it.
    pub(super) fn step_back(&self) {
        let thread = self.thread.load(Ordering::Relaxed).cast_unsigned();
        // SAFETY: changes the priority of one thread.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, thread, 19) };
    }

    /// What another process of this program left on its way to its end, given as standard input.
    pub(super) fn read(bytes: &[u8]) -> Option<Box<Watched>> {
        let watched = Box::new(Watched::new());
        let layout: [u8; 8] = bytes.get(..8)?.try_into().ok()?;
        if bytes.len() != size_of::<Watched>() || layout != LAYOUT.to_ne_bytes() {
            return None;
        }
        let target = Box::into_raw(watched);
        // SAFETY: as many bytes as the target has, and what wrote them is the same program: they
        // are a `Watched`, whose pointers are never followed here.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), target.cast::<u8>(), bytes.len());
            Some(Box::from_raw(target))
        }
    }

    /// Whether the seed was to be added to a file.
    pub(super) fn is_new(&self) -> bool {
        self.regressions.len() > 1
    }

    /// The addresses on the stack, as they are in this process.
    pub(super) fn frames(&self) -> Vec<usize> {
        let there = self.anchor.load(Ordering::Relaxed);
        let frames = self.beacon.frames().into_iter();
        let here = frames.map(|address| address.wrapping_sub(there).wrapping_add(anchor()));
        here.collect()
    }
}

/// Tells a [`Watched`] from anything else, and from one of another version of this program.
const LAYOUT: u64 = 0x7368_616b_6501_0000 | size_of::<Watched>() as u64;

/// An address of this program.
fn anchor() -> usize {
    (anchor as fn() -> usize) as usize
}

fn terminated(text: &[u8]) -> Vec<u8> {
    let mut bytes = text.to_vec();
    bytes.push(0);
    bytes
}
