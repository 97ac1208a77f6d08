//! The functions of the C library that this program or library answers for tokio.
//!
//! They are [hidden](crate::hidden), so they work alike in a test program, under `shaketable run`
//! and inside fdbserver.

use super::turn;
use crate::executor::scope::Scope;
use crate::executor::{Failure, panics};
use crate::hidden::hidden;
use std::backtrace::Backtrace;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::os::fd::RawFd;
use std::ptr::{null, null_mut};

hidden!(
    shaketable_hidden_symbols,
    epoll_wait,
    epoll_ctl,
    sigaction,
    write
);

unsafe extern "C" {
    fn shaketable_hidden_symbols();
}

/// The descriptors by which a runtime is known.
#[derive(Clone, Copy)]
pub(super) struct Descriptors {
    /// What it hands to `epoll_wait`.
    pub(super) epoll: RawFd,
    /// What it writes to when it is woken from outside; the first that it waits for.
    pub(super) alarm: RawFd,
}

/// Whether a runtime is being made.
#[derive(Clone, Copy)]
enum Making {
    Nothing,
    /// It has not shown its descriptors yet.
    Unknown,
    Known(Descriptors),
}

thread_local! {
    static MAKING: Cell<Making> = const { Cell::new(Making::Nothing) };
}

/// What [`check`] asks for, which no runtime has.
const PROBE: RawFd = -3;

/// Checks that calls of `epoll_wait` come here: a runtime that really slept would stop the only
/// thread there is.
pub(super) fn check() -> Result<(), String> {
    std::hint::black_box(shaketable_hidden_symbols as *const ());
    // SAFETY: no descriptor, and room for no event.
    match unsafe { libc::epoll_wait(PROBE, null_mut(), 0, 0) } {
        PROBE => Ok(()),
        _ => Err(
            "tokio cannot run in simulated time: its calls of `epoll_wait` reach the C library \
             instead of the crate shaketable; link both into the same library"
                .to_owned(),
        ),
    }
}

/// Makes a runtime, and finds its descriptors.
pub(super) fn with_descriptors<T>(make: impl FnOnce() -> T) -> (T, Option<Descriptors>) {
    MAKING.set(Making::Unknown);
    let made = make();
    match MAKING.replace(Making::Nothing) {
        Making::Known(descriptors) => (made, Some(descriptors)),
        Making::Nothing | Making::Unknown => (made, None),
    }
}

/// # Safety
///
/// As the C function.
unsafe extern "C" fn epoll_wait(
    epoll: c_int,
    events: *mut libc::epoll_event,
    events_max: c_int,
    milliseconds: c_int,
) -> c_int {
    if epoll == PROBE {
        return PROBE;
    }
    if turn::wait(epoll, milliseconds).is_some() {
        return 0;
    }
    // SAFETY: the caller's promise; this is the system call behind the function.
    unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait,
            epoll,
            events,
            events_max,
            milliseconds,
            null::<c_void>(),
            0_usize,
        ) as c_int
    }
}

/// # Safety
///
/// As the C function.
unsafe extern "C" fn epoll_ctl(
    epoll: c_int,
    operation: c_int,
    descriptor: c_int,
    event: *mut libc::epoll_event,
) -> c_int {
    match MAKING.get() {
        Making::Unknown => MAKING.set(Making::Known(Descriptors {
            epoll,
            alarm: descriptor,
        })),
        Making::Nothing if operation == libc::EPOLL_CTL_ADD && turn::is_in_turn() => {
            return refuse();
        }
        Making::Nothing | Making::Known(_) => {}
    }
    // SAFETY: the caller's promise; this is the system call behind the function.
    unsafe { libc::syscall(libc::SYS_epoll_ctl, epoll, operation, descriptor, event) as c_int }
}

/// Tokio wakes a runtime that may be asleep with a few bytes. Those of a phase never sleep: what is
/// written is only noted. In a test program everything else goes to the host's function of that
/// name, which holds the output of seeds back.
///
/// # Safety
///
/// As the C function.
unsafe extern "C" fn write(descriptor: c_int, bytes: *const c_void, length: usize) -> isize {
    if super::note_alarm(descriptor) {
        return length as isize;
    }
    // SAFETY: the caller's promise, which is the host's function's as well.
    #[cfg(feature = "embedded")]
    return unsafe { shaketable_host::hermetic::symbols::write(descriptor, bytes, length) };
    // SAFETY: the caller's promise; this is the system call behind the function.
    #[cfg(not(feature = "embedded"))]
    return unsafe { libc::syscall(libc::SYS_write, descriptor, bytes, length) as isize };
}

/// Tokio asks for a signal the first time that code of the process listens for it; later it only
/// repeats that it could not have it. A signal that is given back, as by a handler that lets the
/// process die, is no wish to listen.
///
/// # Safety
///
/// As the C function.
unsafe extern "C" fn sigaction(
    signal: c_int,
    action: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    // SAFETY: null or an action, by the caller's promise.
    let handler = unsafe { action.as_ref() }.map(|action| action.sa_sigaction);
    let is_wish = handler.is_some_and(|handler| ![libc::SIG_DFL, libc::SIG_IGN].contains(&handler));
    if is_wish && turn::is_in_turn() {
        return refuse();
    }
    type Sigaction =
        unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int;
    // SAFETY: a NUL-terminated name. This one is hidden from the search, so it is the C library's.
    let original = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"sigaction".as_ptr()) };
    if original.is_null() {
        return -1;
    }
    // SAFETY: the C library's function of that name has this type.
    let original: Sigaction = unsafe { std::mem::transmute(original) };
    // SAFETY: the caller's promise.
    unsafe { original(signal, action, old) }
}

/// Code of a simulation waits for the operating system: for a socket, a signal, another program.
/// Reports it, and returns what a C function that fails returns.
#[cold]
fn refuse() -> c_int {
    let frames = panics::condense(&Backtrace::force_capture().to_string());
    if let Some(scope) = Scope::current() {
        scope.report(&Failure::NotSimulated(frames), true);
    }
    // SAFETY: the pointer is always valid.
    unsafe { *libc::__errno_location() = libc::EOPNOTSUPP };
    -1
}

#[cfg(tokio_unstable)]
/// The seed of tokio's own choices, such as the branch that `select!` looks at first.
pub(super) fn seed(context: &crate::context::WorkloadContext) -> tokio::runtime::RngSeed {
    let mut bytes = context.shared_random_number().to_le_bytes().to_vec();
    bytes.extend(context.client_id().to_le_bytes());
    tokio::runtime::RngSeed::from_bytes(&bytes)
}
