//! The shape of a workload library: a `cdylib` that exports a C function and uses the crate
//! `foundationdb`. `tests/linking.rs` looks at what the linker wrote into it.

use foundationdb::Database;

/// Something for the linker to keep, which reaches FoundationDB's C API.
#[unsafe(no_mangle)]
pub extern "C" fn workload_entry() -> bool {
    Database::default().is_ok()
}
