//! Words on the standard error, said from a handler.
//!
//! Nothing here allocates, locks or panics, and so nothing formats: a sentence is written piece by
//! piece, and a number digit by digit.

use super::PATH_BYTES;
use crate::shared_text::{SharedTail, SharedText};
use libc::c_int;

/// Writes to the standard error, past what captures or holds back the output of tests.
///
/// # Safety
///
/// There are that many bytes.
unsafe fn write(bytes: *const u8, length: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::syscall(libc::SYS_write, libc::STDERR_FILENO, bytes, length) };
}

pub(super) fn say(text: &[u8]) {
    // SAFETY: the bytes have this length.
    unsafe { write(text.as_ptr(), text.len()) };
}

pub(super) fn say_text<const ROOM: usize>(text: &SharedText<ROOM>) {
    // SAFETY: the bytes have this length.
    unsafe { write(text.as_ptr(), text.len()) };
}

pub(super) fn say_tail<const ROOM: usize>(text: &SharedTail<ROOM>) {
    for piece in text.pieces() {
        // SAFETY: the bytes have this length.
        unsafe { write(piece.as_ptr().cast(), piece.len()) };
    }
}

/// A path, without the byte that ends it.
pub(super) fn say_path(path: &SharedText<PATH_BYTES>) {
    // SAFETY: the bytes have this length.
    unsafe { write(path.as_ptr(), path.len().saturating_sub(1)) };
}

pub(super) fn say_number(mut number: u64) {
    let mut digits = [0_u8; 20];
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

pub(super) fn signal_name(signal: c_int) -> &'static [u8] {
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
