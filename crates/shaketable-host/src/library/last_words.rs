//! The last words of a process that crashes, exits or is stopped: on which client that happened, and where in the code.
//!
//! A handler runs wherever the process was interrupted, so it only looks and writes: the client goes to the [`Beacon`], the frames of the
//! stack to standard error, as the C library shows them. Then the signal takes its course.

use super::beacon::Beacon;
use nix::sys::signal::Signal;
use std::ffi::{c_int, c_void};
use std::io;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Installs the handlers. `probe` finds out which client's code runs; it may only look.
pub fn install(probe: fn() -> Option<u32>) -> io::Result<()> {
    use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, sigaction};
    PROBE.store(probe as *mut (), Ordering::Release);
    let here = 0_u8;
    STACK_TOP.store((&raw const here).addr(), Ordering::Release);
    // The first call loads a library, which a handler must not.
    print_frames(&mut [std::ptr::null_mut(); 1], None);
    // A stack of its own, because the reason may be that there is none left.
    let stack: &'static mut [u8] = vec![0; STACK_BYTES].leak();
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
        SigHandler::SigAction(on_signal),
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
        // SAFETY: the handler looks, writes, and raises the signal again, which is allowed in one.
        unsafe { sigaction(signal, &action) }?;
    }
    // SAFETY: the function only stores a number.
    unsafe { libc::atexit(on_exit) };
    Ok(())
}

static PROBE: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
static STACK_TOP: AtomicUsize = AtomicUsize::new(0);
/// The stack of the handlers.
const STACK_BYTES: usize = 128 * 1024;
/// Deeper than this no reader follows.
const FRAMES_MAX: usize = 24;
/// The room of the stack that the operating system gives a program, and around its end what counts as running over it.
const MAIN_STACK_BYTES: usize = 8 << 20;
const NEAR_BYTES: usize = 1 << 20;

fn say_client() {
    let probe = PROBE.load(Ordering::Acquire);
    if probe.is_null() {
        return;
    }
    // SAFETY: not null, hence the function that `install` stored.
    let probe: fn() -> Option<u32> = unsafe { std::mem::transmute(probe) };
    if let Some(client) = probe() {
        Beacon::current().set_client(client);
    }
}

extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    say_client();
    if signal == libc::SIGSEGV && !info.is_null() {
        // SAFETY: not null, hence what the operating system says about the fault; a fault has an address.
        let address = unsafe { (*info).si_addr() }.addr();
        let end = STACK_TOP
            .load(Ordering::Acquire)
            .wrapping_sub(MAIN_STACK_BYTES);
        if address.abs_diff(end) < NEAR_BYTES {
            Beacon::current().leave_message("the stack is used up: endless recursion?");
        }
    }
    print_frames(
        &mut [std::ptr::null_mut(); FRAMES_MAX],
        Some(libc::STDERR_FILENO),
    );
    // SAFETY: the handler was reset when it was entered: this ends the process as the signal would have.
    unsafe { libc::raise(signal) };
}

extern "C" fn on_exit() {
    say_client();
}

/// Writes the frames of the stack to a file.
fn print_frames(frames: &mut [*mut c_void], file: Option<c_int>) {
    // SAFETY: the room is as long as the number says.
    let count = unsafe { libc::backtrace(frames.as_mut_ptr(), frames.len() as c_int) };
    if let Some(file) = file {
        // SAFETY: the frames that were just written; this function does not allocate.
        unsafe { libc::backtrace_symbols_fd(frames.as_ptr(), count, file) };
    }
}
