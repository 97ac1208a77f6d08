//! The External-workload ABI of FoundationDB's simulator as plain C types.
//!
//! An External workload is a shared library. `fdbserver -r simulation` (or Shaketable's embedded
//! host) loads it, looks up [`FACTORY_SYMBOL`], hands the factory a context and receives a workload
//! whose phases it then calls. Both sides use the types in this crate, so a layout can be wrong in
//! one place only, and the assertions at the end of each module would catch it there.
//!
//! Two generations exist, exported under the same symbol, and nothing in the library file tells
//! them apart:
//!
//! * [`v1`], spoken by FoundationDB 7.4.6 and later: handles are `{ inner, vtable }` and the two
//!   structures that open the conversation start with a small integer, `api_version`.
//! * An older one, spoken by 7.4.0 to 7.4.5: function pointers are inline and the first word of
//!   every structure is a pointer. Shaketable does not speak it, and only recognises it.
//!
//! The first word of a context is therefore enough to know the host; see
//! [`looks_like_v1`].
//!
//! What passes between the two is only described here, never called: this crate contains no
//! behaviour beyond that one check, allocates nothing and depends on nothing.
#![no_std]

use core::ffi::{c_char, c_int};

pub mod v1;

/// The symbol a host looks up when a test file sets `useCAPI = true`.
pub const FACTORY_SYMBOL: &str = "workloadCFactory";

/// The symbol a host looks up for the C++ ABI.
pub const CPP_FACTORY_SYMBOL: &str = "workloadFactory";

/// A database handle of libfdb_c; only ever seen through a pointer.
#[repr(C)]
pub struct FDBDatabase {
    _opaque: [u8; 0],
}

/// A future of libfdb_c; only ever seen through a pointer.
#[repr(C)]
pub struct FDBFuture {
    _opaque: [u8; 0],
}

/// Severity of a trace event, as C passes it.
///
/// A plain integer and not a Rust enum: the other side may be a C program that passes anything, and
/// an enum with a foreign value would be undefined behaviour before it could be reported.
pub type FDBSeverity = c_int;

/// Written only where it was asked for.
pub const FDB_SEVERITY_DEBUG: FDBSeverity = 0;
/// An ordinary event.
pub const FDB_SEVERITY_INFO: FDBSeverity = 1;
/// Unusual, but expected to happen.
pub const FDB_SEVERITY_WARN: FDBSeverity = 2;
/// Unusual, and never suppressed.
pub const FDB_SEVERITY_WARN_ALWAYS: FDBSeverity = 3;
/// Fails the run.
pub const FDB_SEVERITY_ERROR: FDBSeverity = 4;

/// One detail of a trace event.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct FDBStringPair {
    /// NUL-terminated name of the detail.
    pub key: *const c_char,
    /// NUL-terminated value of the detail.
    pub val: *const c_char,
}

/// One metric a workload reports after its check.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct FDBMetric {
    /// NUL-terminated name; never null.
    pub key: *const c_char,
    /// NUL-terminated printf format for one double; null means `%.3g`.
    pub fmt: *const c_char,
    /// The value.
    pub val: f64,
    /// Whether the values of all clients are averaged (`true`) or summed (`false`).
    pub avg: bool,
}

/// Whether the first word of a context belongs to a [`v1`] host.
///
/// A v1 context opens with `api_version`, a small integer followed by four bytes of padding (which
/// may hold anything); an older context opens with the address of a heap object, whose low half is
/// practically never that small. Some C++ shims write FoundationDB's own API version (710, 730,
/// 740) instead of 1, so every small positive number counts.
///
/// `vt` is the third word: in v1 the address of a table, so aligned like a pointer; a null or odd
/// address is not one.
pub const fn looks_like_v1(api_version: c_int, vt_address: usize) -> bool {
    api_version > 0
        && api_version <= HIGHEST_PLAUSIBLE_API_VERSION
        && vt_address != 0
        && vt_address.is_multiple_of(align_of::<usize>())
}

/// No FoundationDB numbers its API above this; the low half of a pointer nearly always is.
pub const HIGHEST_PLAUSIBLE_API_VERSION: c_int = 4095;

#[cfg(target_pointer_width = "64")]
const _: () = {
    use core::mem::{offset_of, size_of};

    assert!(size_of::<FDBSeverity>() == 4);

    assert!(size_of::<FDBStringPair>() == 16);
    assert!(offset_of!(FDBStringPair, key) == 0);
    assert!(offset_of!(FDBStringPair, val) == 8);

    assert!(size_of::<FDBMetric>() == 32);
    assert!(offset_of!(FDBMetric, key) == 0);
    assert!(offset_of!(FDBMetric, fmt) == 8);
    assert!(offset_of!(FDBMetric, val) == 16);
    assert!(offset_of!(FDBMetric, avg) == 24);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_first_word_is_a_v1_host() {
        for version in [1, 2, 710, 730, 740] {
            assert!(looks_like_v1(version, 0x7f00_0000_1000), "{version}");
        }
    }

    #[test]
    fn a_pointer_as_first_word_is_not_a_v1_host() {
        for low_half in [0x5581_2a40u32, 0x7fff_f010, 0xdead_bee0, 0, 0x1000] {
            assert!(
                !looks_like_v1(low_half as c_int, 0x7f00_0000_1000),
                "{low_half:#x}"
            );
        }
    }

    #[test]
    fn a_table_that_is_null_or_not_aligned_is_not_a_v1_host() {
        assert!(!looks_like_v1(1, 0));
        assert!(!looks_like_v1(1, 0x7f00_0000_1003));
    }
}
