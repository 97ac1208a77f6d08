//! A seed on a thread of a process that it shares: what is said when the process dies of it.
//!
//! A test program cannot fork for each seed: it has threads, and a debugger attached perhaps. So
//! everything that must be said at the end of the process is prepared before the seed begins, in
//! memory that a signal handler may read ([`Watched`]): which seed it is, the line that runs it
//! again, where it is kept. The handlers only call what a handler may call. They
//!
//! 1. write which seed ends the process, and why;
//! 2. append the seed to the regression file;
//! 3. start this program again, for this one test, and give it the [`Watched`] as its standard
//!    input: that process simulates the seed once more, up to just before this moment, and writes
//!    the folder and the report (`in_process.rs`);
//! 4. let the signal take the course that it would have taken without them.
//!
//! A crash on a thread that is no simulation's, and a signal from outside, such as Ctrl-C or the
//! one with which nextest ends a slow test, lists the seeds that were running. What cannot be
//! noticed at all is `_exit` and `SIGKILL`.

use super::beacon::{Beacon, FRAMES_MAX};
use crate::hermetic;
use crate::shared_text::SharedText;
use libc::{c_char, c_int, c_void};
use std::cell::Cell;
use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;
use std::ptr;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
use std::sync::{Mutex, OnceLock, PoisonError};

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
    pub(super) seed: AtomicU32,
    pub(super) passed: AtomicU32,
    pub(super) simulation: AtomicU32,
    /// The signal that ends the process; 0 for a call of `exit`.
    pub(super) signal: AtomicI32,
    /// The status that `exit` was given.
    pub(super) status: AtomicI32,
    /// What became of the seed in the regression file: an error of the operating system, or 0.
    pub(super) kept: AtomicI32,
    pub(super) name: SharedText<TEXT_BYTES>,
    /// The name by which the test program runs the test alone; empty if it has none.
    test: SharedText<TEXT_BYTES>,
    replay: SharedText<TEXT_BYTES>,
    folder: SharedText<PATH_BYTES>,
    regressions: SharedText<PATH_BYTES>,
    regression: SharedText<TEXT_BYTES>,
}

const TEXT_BYTES: usize = 1024;
const PATH_BYTES: usize = 4096;
/// The stack of the handlers.
const HANDLER_STACK_BYTES: usize = 128 * 1024;
/// Around the end of a stack, what counts as running over it.
const NEAR_BYTES: usize = 1 << 20;
/// How long the record of a crash may take.
const RECORD_MILLIS_MAX: u32 = 120_000;
/// The exit status of a process that recorded a death.
pub(super) const RECORDED: c_int = 117;
/// The exit status of a process whose code under test ended it as if all were well: the one of a
/// test program with a failing test.
const TESTS_FAILED: c_int = 101;

/// The variable that tells a process to read a [`Watched`] from its standard input.
pub(super) const DEATH_VARIABLE: &str = "SHAKETABLE_DEATH_ON_STDIN";

/// What a seed leaves if it ends the process.
pub(super) struct Texts<'a> {
    pub(super) name: &'a str,
    pub(super) test: &'a str,
    pub(super) replay: &'a str,
    pub(super) folder: &'a [u8],
    /// The file that keeps failing seeds; empty if there is none, or the seed is in it.
    pub(super) regressions: &'a [u8],
    /// What is appended to it.
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
            seed: AtomicU32::new(0),
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
    pub(super) fn prepare(&self, texts: &Texts<'_>, seed: u32, passed: u32, simulation: u32) {
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
        self.kept.store(0, Ordering::Relaxed);
        self.asked_to_end.store(false, Ordering::Relaxed);
    }

    /// Runs a seed on this thread, which is fresh and has a stack of this size.
    pub(super) fn run<T>(&'static self, stack_bytes: usize, work: impl FnOnce() -> T) -> T {
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

/// The signals that end a process because of what it does.
const FATAL: [c_int; 5] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGABRT,
];
/// Those with which it is ended from outside.
const FROM_OUTSIDE: [c_int; 2] = [libc::SIGINT, libc::SIGTERM];
/// Asks a thread where it is. Ignored by default, so it does no harm where it is not expected.
const LOOK: c_int = libc::SIGURG;

/// What a handler needs and cannot make.
struct Prepared {
    /// What was installed before, by signal.
    before: Vec<(c_int, libc::sigaction)>,
    /// The environment for the process that records a death.
    environment: Vec<*const c_char>,
}

// SAFETY: the pointers are to leaked memory that is never written.
unsafe impl Send for Prepared {}
// SAFETY: as above.
unsafe impl Sync for Prepared {}

static PREPARED: OnceLock<Prepared> = OnceLock::new();

unsafe extern "C" {
    /// As `atexit`, and says with which status.
    fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// Installs the handlers, once in a process.
pub(super) fn install() {
    static INSTALL: std::sync::Once = std::sync::Once::new();
    INSTALL.call_once(|| {
        // The first call loads a library, which a handler must not.
        // SAFETY: the buffer has the given length.
        unsafe { libc::backtrace([ptr::null_mut::<c_void>(); 1].as_mut_ptr(), 1) };
        let variables = std::env::vars_os().map(|(name, value)| {
            let mut text = name.into_vec();
            text.push(b'=');
            text.extend(value.into_vec());
            text
        });
        let own = format!("{DEATH_VARIABLE}=1").into_bytes();
        let environment = variables
            .chain([own])
            .filter_map(|text| CString::new(text).ok())
            .map(|text| text.into_raw().cast_const())
            .chain([ptr::null()])
            .collect();
        let mut before = Vec::new();
        let is_default = |signal| {
            // SAFETY: only asks what is installed.
            unsafe {
                let mut now: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal, ptr::null(), &raw mut now) == 0
                    && now.sa_sigaction == libc::SIG_DFL
            }
        };
        // What the program or its user handles or ignores is not touched.
        let from_outside = FROM_OUTSIDE.iter().filter(|signal| is_default(**signal));
        for signal in FATAL.iter().chain(from_outside) {
            if let Some(old) = replace(*signal, on_signal, libc::SA_ONSTACK | libc::SA_SIGINFO) {
                before.push((*signal, old));
            }
        }
        if is_default(LOOK) {
            let _ = replace(
                LOOK,
                on_look,
                libc::SA_ONSTACK | libc::SA_SIGINFO | libc::SA_RESTART,
            );
        }
        let _ = PREPARED.set(Prepared {
            before,
            environment,
        });
        // SAFETY: the function may be called at any time.
        unsafe { on_exit(on_process_exit, ptr::null_mut()) };
    });
}

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// Installs a handler, and returns what was there.
fn replace(signal: c_int, handler: Handler, flags: c_int) -> Option<libc::sigaction> {
    // SAFETY: both structures are whole; the handlers of this file do what a handler may do.
    unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        let mut new: libc::sigaction = std::mem::zeroed();
        new.sa_sigaction = handler as usize;
        new.sa_flags = flags;
        (libc::sigaction(signal, &raw const new, &raw mut old) == 0).then_some(old)
    }
}

/// The thread on which the process dies.
static DYING: AtomicI32 = AtomicI32::new(0);

/// Whether this thread is the first on which the process dies. Does not return on another one: the
/// process ends when the first has said what it has to say.
fn is_first_to_die() -> bool {
    // SAFETY: asks for a number.
    let thread = unsafe { libc::gettid() };
    match DYING.compare_exchange(0, thread, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => true,
        Err(dying) if dying == thread => false,
        Err(_) => loop {
            // SAFETY: waits for nothing, without end.
            unsafe { libc::poll(ptr::null_mut(), 0, -1) };
        },
    }
}

extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    let is_from_outside = FROM_OUTSIDE.contains(&signal);
    if is_first_to_die() {
        hermetic::outside(|| match OWN.get() {
            Some(own) if !is_from_outside => {
                own.signal.store(signal, Ordering::Relaxed);
                // SAFETY: not null, hence the operating system's description of the fault.
                let address = unsafe { info.as_ref() }.map(|info| unsafe { info.si_addr() }.addr());
                let end = own.stack_end.load(Ordering::Relaxed);
                if signal == libc::SIGSEGV
                    && address.is_some_and(|address| address.abs_diff(end) < NEAR_BYTES)
                {
                    own.beacon
                        .leave_message("the stack is used up: endless recursion?");
                }
                own.die();
            }
            _ => list_running(signal),
        });
    }
    // What was there before decides how the process ends. A fault happens again when this returns.
    let before = PREPARED.get().map(|prepared| &prepared.before);
    let before = before.and_then(|before| before.iter().find(|(one, _)| *one == signal));
    // SAFETY: restores what was there; `info` is null or the operating system's description.
    unsafe {
        match before {
            Some((_, before)) => libc::sigaction(signal, before, ptr::null_mut()),
            None => {
                libc::signal(signal, libc::SIG_DFL);
                0
            }
        };
        let is_fault = info.as_ref().is_some_and(|info| info.si_code > 0);
        if !is_fault {
            libc::raise(signal);
        }
    }
}

extern "C" fn on_look(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    if let Some(own) = OWN.get() {
        own.note_frames();
    }
}

extern "C" fn on_process_exit(status: c_int, _: *mut c_void) {
    let Some(own) = OWN.get() else {
        return;
    };
    if is_first_to_die() {
        own.signal.store(0, Ordering::Relaxed);
        own.status.store(status, Ordering::Relaxed);
        hermetic::outside(|| own.die());
    }
    if status == 0 {
        // SAFETY: ends the process at once. With the status it wanted, the test would have passed.
        unsafe { libc::_exit(TESTS_FAILED) };
    }
}

// From here on nothing allocates, locks or panics: it runs wherever a thread was interrupted.

impl Watched {
    fn note_frames(&self) {
        let mut frames = [ptr::null_mut(); FRAMES_MAX];
        // SAFETY: the buffer has the given length.
        let count = unsafe { libc::backtrace(frames.as_mut_ptr(), FRAMES_MAX as c_int) };
        self.beacon.leave_frames(&frames[..count as usize]);
    }

    /// Says what this seed did to the process, keeps the seed, and has its record made.
    fn die(&self) {
        if let Some(client) = crate::tester::current_client() {
            self.beacon.set_client(Some(client));
        }
        self.note_frames();
        say(b"\nshaketable: this process is ended by ");
        match self.signal.load(Ordering::Relaxed) {
            0 => {
                say(b"the code under test: exit(");
                say_number(self.status.load(Ordering::Relaxed).unsigned_abs());
                say(b")");
            }
            signal => say(signal_name(signal)),
        }
        say(b", by seed ");
        say_number(self.seed.load(Ordering::Relaxed));
        say(b" of `");
        say_text(&self.name);
        say(b"`\n");
        self.keep();
        let is_told = self.test.len() > 1 && self.record();
        if is_told {
            return;
        }
        if self.folder.len() > 1 && self.report() {
            say(b"everything about it: ");
            say_path(&self.folder);
            say(b"\n");
        }
        say(b"to run it again:\n  ");
        say_text(&self.replay);
        say(b"\n");
        if self.is_new() && self.kept.load(Ordering::Relaxed) == 0 {
            say(b"the seed is now in ");
            say_path(&self.regressions);
            say(b", and tried first from now on: commit the file\n");
        }
    }

    /// Appends the seed to the file that keeps failing seeds.
    fn keep(&self) {
        if !self.is_new() {
            return;
        }
        // SAFETY: a terminated path; a file that could be opened is written and closed.
        unsafe {
            let file = libc::open(
                self.regressions.as_ptr().cast(),
                libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | libc::O_CLOEXEC,
                0o644,
            );
            let (text, length) = (self.regression.as_ptr().cast(), self.regression.len());
            let is_kept = file >= 0 && libc::write(file, text, length) == length as isize;
            let error = if is_kept {
                0
            } else {
                *libc::__errno_location()
            };
            self.kept.store(error, Ordering::Relaxed);
            libc::close(file);
        }
    }

    /// Leaves at least a report in the folder, if there can be no record.
    fn report(&self) -> bool {
        let mut path = [0_u8; PATH_BYTES + REPORT.len()];
        // SAFETY: the text has this many bytes, and the path has room for all of them.
        let folder = unsafe {
            let length = self.folder.len() - 1;
            ptr::copy_nonoverlapping(self.folder.as_ptr(), path.as_mut_ptr(), length);
            length
        };
        for end in 1..=folder {
            if end == folder || path[end] == b'/' {
                let kept = path[end];
                path[end] = 0;
                // SAFETY: a terminated path. Folders that are there already are left as they are.
                unsafe { libc::mkdir(path.as_ptr().cast(), 0o755) };
                path[end] = kept;
            }
        }
        path[folder..folder + REPORT.len()].copy_from_slice(REPORT);
        // SAFETY: a terminated path, and texts with their lengths.
        unsafe {
            let file = libc::open(
                path.as_ptr().cast(),
                libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC,
                0o644,
            );
            if file < 0 {
                return false;
            }
            const WORDS: &[u8] = b"the process died; to run it again:\n  ";
            libc::write(file, WORDS.as_ptr().cast(), WORDS.len());
            libc::write(file, self.replay.as_ptr().cast(), self.replay.len());
            libc::write(file, b"\n".as_ptr().cast(), 1);
            libc::close(file);
        }
        true
    }

    /// Has another process of this program simulate the seed up to here, with a record. Returns
    /// whether that process has reported.
    fn record(&self) -> bool {
        let Some(prepared) = PREPARED.get() else {
            return false;
        };
        if super::in_process::records_a_death() {
            return false;
        }
        // SAFETY: system calls on files and processes that are made here. The child does nothing
        // but become another program.
        unsafe {
            let file = libc::memfd_create(c"shaketable".as_ptr(), 0);
            let all = ptr::from_ref(self).cast::<c_void>();
            if file < 0 || libc::write(file, all, size_of::<Self>()) != size_of::<Self>() as isize {
                return false;
            }
            libc::lseek(file, 0, libc::SEEK_SET);
            // Not `fork`, which waits for the allocator, whose lock this thread may hold.
            let child = libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as libc::pid_t;
            if child == 0 {
                let nowhere = libc::open(c"/dev/null".as_ptr(), libc::O_WRONLY);
                libc::dup2(nowhere, 1);
                libc::dup2(file, 0);
                let mut unblocked: libc::sigset_t = std::mem::zeroed();
                libc::sigemptyset(&raw mut unblocked);
                libc::sigprocmask(libc::SIG_SETMASK, &raw const unblocked, ptr::null_mut());
                let program = c"/proc/self/exe".as_ptr();
                let arguments = [
                    program,
                    self.test.as_ptr().cast(),
                    c"--exact".as_ptr(),
                    c"--include-ignored".as_ptr(),
                    ptr::null(),
                ];
                libc::execve(program, arguments.as_ptr(), prepared.environment.as_ptr());
                libc::_exit(1);
            }
            libc::close(file);
            child > 0 && wait_for(child) == Some(RECORDED)
        }
    }
}

const REPORT: &[u8] = b"/report.txt\0";

/// Waits for a child, for as long as a record may take. Returns its exit status, if it has one.
fn wait_for(child: libc::pid_t) -> Option<c_int> {
    const STEP_MILLIS: c_int = 10;
    let mut waited = 0;
    // SAFETY: `child` is a process that was started here and not yet waited for.
    unsafe {
        loop {
            let mut status = 0;
            match libc::waitpid(child, &raw mut status, libc::WNOHANG) {
                0 => {}
                found if found == child && libc::WIFEXITED(status) => {
                    return Some(libc::WEXITSTATUS(status));
                }
                _ => return None,
            }
            if waited >= RECORD_MILLIS_MAX {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, &raw mut status, 0);
                return None;
            }
            libc::poll(ptr::null_mut(), 0, STEP_MILLIS);
            waited += STEP_MILLIS.unsigned_abs();
        }
    }
}

/// Says which seeds were running when the process ended for a reason that is none of theirs.
fn list_running(signal: c_int) {
    let running = || {
        let all = ALL.iter().map(|cell| cell.load(Ordering::Acquire));
        // SAFETY: null, or a `Watched` that is never freed.
        let all = all.filter_map(|one| unsafe { one.as_ref() });
        all.filter(|one| one.is_running.load(Ordering::Acquire))
    };
    if running().next().is_none() {
        return;
    }
    say(b"\nshaketable: this process is ended by ");
    say(signal_name(signal));
    say(b", while these were running:\n");
    for one in running() {
        say(b"  seed ");
        say_number(one.seed.load(Ordering::Relaxed));
        say(b" of `");
        say_text(&one.name);
        say(b"`: ");
        say_text(&one.replay);
        say(b"\n");
    }
}

/// Writes to the standard error, past what captures the output of tests.
fn say(text: &[u8]) {
    // SAFETY: the bytes have this length.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
}

fn say_text<const ROOM: usize>(text: &SharedText<ROOM>) {
    // SAFETY: the bytes have this length.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
}

/// A path, without the byte that ends it.
fn say_path(path: &SharedText<PATH_BYTES>) {
    // SAFETY: the bytes have this length.
    unsafe { libc::write(2, path.as_ptr().cast(), path.len().saturating_sub(1)) };
}

fn say_number(mut number: u32) {
    let mut digits = [0_u8; 10];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    say(&digits[start..]);
}

fn signal_name(signal: c_int) -> &'static [u8] {
    match signal {
        libc::SIGSEGV => b"SIGSEGV (11)",
        libc::SIGBUS => b"SIGBUS (7)",
        libc::SIGILL => b"SIGILL (4)",
        libc::SIGFPE => b"SIGFPE (8)",
        libc::SIGABRT => b"SIGABRT (6)",
        libc::SIGINT => b"SIGINT (2)",
        libc::SIGTERM => b"SIGTERM (15)",
        _ => b"a signal",
    }
}
