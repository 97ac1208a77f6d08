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

hidden!(shaketable_hidden_symbols, epoll_wait, epoll_ctl);

unsafe extern "C" {
    fn shaketable_hidden_symbols();
}

thread_local! {
    /// The descriptor of the runtime that is being made on this thread, or one of these two.
    static MAKING: Cell<RawFd> = const { Cell::new(NOTHING) };
}

/// No runtime is being made.
const NOTHING: RawFd = -1;
/// One is being made, and has not shown its descriptor yet.
const UNKNOWN: RawFd = -2;
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

/// Makes a runtime, and finds the descriptor that it waits for.
pub(super) fn with_epoll<T>(make: impl FnOnce() -> T) -> (T, Option<RawFd>) {
    MAKING.set(UNKNOWN);
    let made = make();
    let epoll = MAKING.replace(NOTHING);
    (made, (epoll >= 0).then_some(epoll))
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
    if MAKING.get() == UNKNOWN {
        MAKING.set(epoll);
    } else if operation == libc::EPOLL_CTL_ADD && MAKING.get() == NOTHING && turn::is_in_turn() {
        refuse_descriptor();
        // SAFETY: the pointer is always valid.
        unsafe { *libc::__errno_location() = libc::EOPNOTSUPP };
        return -1;
    }
    // SAFETY: the caller's promise; this is the system call behind the function.
    unsafe { libc::syscall(libc::SYS_epoll_ctl, epoll, operation, descriptor, event) as c_int }
}

/// Code of a simulation waits for the operating system: for a socket, a pipe, another program.
#[cold]
fn refuse_descriptor() {
    let frames = panics::condense(&Backtrace::force_capture().to_string());
    if let Some(scope) = Scope::current() {
        scope.report(&Failure::NotSimulated(frames), true);
    }
}

#[cfg(tokio_unstable)]
/// The seed of tokio's own choices, such as the branch that `select!` looks at first.
pub(super) fn seed(context: &crate::context::WorkloadContext) -> tokio::runtime::RngSeed {
    let mut bytes = context.shared_random_number().to_le_bytes().to_vec();
    bytes.extend(context.client_id().to_le_bytes());
    tokio::runtime::RngSeed::from_bytes(&bytes)
}
