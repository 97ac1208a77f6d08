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

/// Makes the linker take the functions of `fdb_c.h` from this program.
pub(super) fn keep_symbols() {
    shaketable_fdbc::keep_symbols();
}
