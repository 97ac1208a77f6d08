//! Satisfies `NEEDED libfdb_c.so` without a libfdb_c.
//!
//! The loader looks for a library that a workload needs first among those already loaded, by the
//! name they carry inside. So an empty shared object that carries the name `libfdb_c.so` is loaded
//! once, from memory. Symbols are looked up in the program first, which exports all of `fdb_*`; and
//! a real libfdb_c on the machine stays out of the process.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

static STAND_IN: OnceLock<io::Result<()>> = OnceLock::new();

/// Loads the empty object, once.
pub(super) fn load() -> Result<(), &'static io::Error> {
    STAND_IN.get_or_init(load_now).as_ref().copied()
}

fn load_now() -> io::Result<()> {
    const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/stand_in.so"));
    let file =
        nix::sys::memfd::memfd_create(c"libfdb_c.so", nix::sys::memfd::MFdFlags::MFD_CLOEXEC)?;
    let mut file = File::from(file);
    file.write_all(OBJECT)?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    // SAFETY: the object is empty: it has no constructors, and nothing it defines can be called.
    let library = unsafe { libloading::Library::new(path) }.map_err(io::Error::other)?;
    // Unloading it would forget the name.
    std::mem::forget(library);
    Ok(())
}
