//! `libfdb_c.so`, as a file of its own.
//!
//! A crate has one name for both Rust and the linker. Rust programs know the code as
//! `shaketable_fdbc`, all other programs as `libfdb_c.so`; so this crate links the first into the
//! second and adds nothing. Its build script gives the library FoundationDB's name for the loader,
//! and keeps it loaded once it is: threads of the program may still be inside it when the program
//! closes it.

pub use shaketable_fdbc::keep_symbols;
