//! Words on the standard error, said from a handler.
//!
//! Nothing here allocates, locks or panics, and so nothing formats: a sentence is written piece by
//! piece, and a number digit by digit.

use super::PATH_BYTES;
use crate::shared_text::SharedText;
use libc::c_int;

/// Writes to the standard error, past what captures the output of tests.
pub(super) fn say(text: &[u8]) {
    // SAFETY: the bytes have this length.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
}

pub(super) fn say_text<const ROOM: usize>(text: &SharedText<ROOM>) {
    // SAFETY: the bytes have this length.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
}

/// A path, without the byte that ends it.
pub(super) fn say_path(path: &SharedText<PATH_BYTES>) {
    // SAFETY: the bytes have this length.
    unsafe { libc::write(2, path.as_ptr().cast(), path.len().saturating_sub(1)) };
}

pub(super) fn say_number(mut number: u32) {
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
