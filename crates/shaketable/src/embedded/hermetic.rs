//! The operating system's time and randomness, taken from the seed while a simulation runs on the
//! thread.
//!
//! A test program that links this has its own `getrandom`, `clock_gettime` and the like, and so a
//! stray `HashMap` or `Instant::now()` in the code under test does not make a seed irreproducible.
//! On a thread without a simulation they are the C library's.

#[allow(missing_docs, reason = "the macro's functions are the C library's own")]
mod symbols {
    shaketable_host::export_hermetic_symbols!();
}

/// What prints: the output of seeds that run side by side is held back.
#[allow(missing_docs, reason = "the macro's functions are the C library's own")]
mod output {
    use shaketable_host::hermetic::symbols::{self, libc};
    use std::ffi::c_int;

    // With tokio, `executor::runtime::symbols` defines the name, and asks the same function.
    #[cfg(not(feature = "tokio"))]
    shaketable_host::hermetic_symbols! {
        fn write(file: c_int, bytes: *const std::ffi::c_void, length: usize) -> isize;
    }
    shaketable_host::hermetic_symbols! {
        fn writev(file: c_int, pieces: *const libc::iovec, count: c_int) -> isize;
    }
}

/// Makes the linker take the functions of `fdb_c.h` from this program.
pub(super) fn keep_symbols() {
    shaketable_fdbc::keep_symbols();
}
