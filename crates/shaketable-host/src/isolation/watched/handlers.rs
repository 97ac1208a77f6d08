//! The handlers: which signals they listen to, and what each of them means for a seed.
//!
//! They are installed once in a process, before its first seed, together with everything that a
//! handler needs and cannot make. A signal from outside that the program or its user handles or
//! ignores is left alone; for all others, what was installed before decides in the end how the
//! process dies.

use super::dying::list_running;
use super::{DEATH_VARIABLE, OWN};
use crate::hermetic;
use libc::{c_char, c_int, c_void};
use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

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
pub(super) const LOOK: c_int = libc::SIGURG;
/// Around the end of a stack, what counts as running over it.
const NEAR_BYTES: usize = 1 << 20;
/// The exit status of a process whose code under test ended it as if all were well: the one of a
/// test program with a failing test.
const TESTS_FAILED: c_int = 101;

/// What a handler needs and cannot make.
pub(super) struct Prepared {
    /// What was installed before, by signal.
    before: Vec<(c_int, libc::sigaction)>,
    /// The C library's `sigaction`. The program's own, which answers for tokio, refuses handlers to
    /// the code under test, and that is where the process dies.
    sigaction: Sigaction,
    /// The environment for the process that records a death.
    pub(super) environment: Vec<*const c_char>,
}

// SAFETY: the pointers are to leaked memory that is never written.
unsafe impl Send for Prepared {}
// SAFETY: as above.
unsafe impl Sync for Prepared {}

pub(super) static PREPARED: OnceLock<Prepared> = OnceLock::new();

unsafe extern "C" {
    /// As `atexit`, and says with which status.
    fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// Installs the handlers, once in a process.
pub(in crate::isolation) fn install() {
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
        // SAFETY: a NUL-terminated name; the function found has this type.
        let sigaction = unsafe {
            let found = libc::dlsym(libc::RTLD_NEXT, c"sigaction".as_ptr());
            std::mem::transmute::<*mut c_void, Option<Sigaction>>(found)
        };
        let _ = PREPARED.set(Prepared {
            before,
            sigaction: sigaction.unwrap_or(libc::sigaction),
            environment,
        });
        // SAFETY: the function may be called at any time.
        unsafe { on_exit(on_process_exit, ptr::null_mut()) };
    });
}

type Sigaction = unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int;

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
    let before = PREPARED.get().and_then(|prepared| {
        let (_, before) = prepared.before.iter().find(|(one, _)| *one == signal)?;
        Some((prepared.sigaction, before))
    });
    // SAFETY: restores what was there; `info` is null or the operating system's description.
    unsafe {
        match before {
            Some((sigaction, before)) => sigaction(signal, before, ptr::null_mut()),
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
