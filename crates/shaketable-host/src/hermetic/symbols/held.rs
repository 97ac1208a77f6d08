//! Functions that print, for a thread whose output is held back.
//!
//! On any other thread, and for any other file, each makes the system call that the C library would
//! make.

use crate::hermetic::output::{self, Held};
use std::ffi::{c_int, c_void};
use std::slice;

/// # Safety
///
/// As the C function: `bytes` has `length` bytes.
pub unsafe fn write(file: c_int, bytes: *const c_void, length: usize) -> isize {
    match output::of(file) {
        // SAFETY: the caller's promise is the system call's.
        Held::No => unsafe { libc::syscall(libc::SYS_write, file, bytes, length) as isize },
        // SAFETY: the caller's promise.
        held => unsafe { keep(held, bytes, length) },
    }
}

/// # Safety
///
/// As the C function: `pieces` has `count` pieces, each as long as it says.
pub unsafe fn writev(file: c_int, pieces: *const libc::iovec, count: c_int) -> isize {
    let held = output::of(file);
    if let Held::No = held {
        // SAFETY: the caller's promise is the system call's.
        return unsafe { libc::syscall(libc::SYS_writev, file, pieces, count) as isize };
    }
    let count = usize::try_from(count).unwrap_or_default();
    if count == 0 {
        return 0;
    }
    // SAFETY: the caller's promise.
    unsafe {
        let pieces = slice::from_raw_parts(pieces, count).iter();
        pieces
            .map(|piece| keep(held, piece.iov_base, piece.iov_len))
            .sum()
    }
}

/// # Safety
///
/// `bytes` has `length` bytes.
unsafe fn keep(held: Held, bytes: *const c_void, length: usize) -> isize {
    if length > 0 {
        // SAFETY: the caller's promise.
        held.take(unsafe { slice::from_raw_parts(bytes.cast(), length) });
    }
    length as isize
}
