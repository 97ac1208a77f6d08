//! The API version of the process: chosen once, before anything else.
//!
//! `fdb_select_api_version_impl` gets two numbers: how the library should behave, and which header
//! the program was compiled with. FoundationDB checks them in a fixed order, and so does
//! [`select`]. Any behaviour from version 13 on can be selected, as there. A header must be of
//! version 23 at least: before that, functions of the same names had other parameters. The version
//! that is selected also decides which [`Release`] the program sees: 800 is FoundationDB 8.0.

use shaketable_cluster::error::Error;
use shaketable_cluster::release::{API_VERSION_8_0, Release};
use std::sync::atomic::{AtomicI32, Ordering};

/// What `fdb_get_max_api_version` reports.
pub const API_VERSION_MAX: i32 = API_VERSION_8_0;
/// The newest version of FoundationDB 7.4, which is the one that is simulated.
pub const API_VERSION_SIMULATED: i32 = 740;
/// The oldest behaviour that can be selected.
const API_VERSION_MIN: i32 = 13;
/// The oldest header that is accepted.
const HEADER_VERSION_MIN: i32 = 23;

/// 0 while nothing is selected.
static RUNTIME: AtomicI32 = AtomicI32::new(0);
static HEADER: AtomicI32 = AtomicI32::new(0);

/// Selects the versions for the process.
pub(crate) fn select(runtime: i32, header: i32) -> Result<(), Error> {
    if RUNTIME.load(Ordering::Acquire) != 0 {
        return Err(Error::API_VERSION_ALREADY_SET);
    }
    if runtime > header {
        return Err(Error::API_VERSION_INVALID);
    }
    let headers = HEADER_VERSION_MIN..=API_VERSION_MAX;
    if !headers.contains(&header) || runtime < API_VERSION_MIN {
        return Err(Error::API_VERSION_NOT_SUPPORTED);
    }
    HEADER.store(header, Ordering::Release);
    RUNTIME
        .compare_exchange(0, runtime, Ordering::AcqRel, Ordering::Acquire)
        .map_err(|_| Error::API_VERSION_ALREADY_SET)?;
    Ok(())
}

/// The selected behaviour; `None` before the selection.
pub(crate) fn selected() -> Option<i32> {
    match RUNTIME.load(Ordering::Acquire) {
        0 => None,
        version => Some(version),
    }
}

/// Which FoundationDB the program sees; 7.4 before the selection.
pub(crate) fn release() -> Release {
    Release::of(RUNTIME.load(Ordering::Acquire))
}

/// Whether the program was compiled with a header older than `version`.
pub(crate) fn header_is_before(version: i32) -> bool {
    (1..version).contains(&HEADER.load(Ordering::Acquire))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes the process as if no version had been selected.
    fn reset() {
        RUNTIME.store(0, Ordering::Release);
        HEADER.store(0, Ordering::Release);
    }

    #[test]
    fn a_version_is_selected_once() {
        assert_eq!(selected(), None);
        assert_eq!(select(740, 730), Err(Error::API_VERSION_INVALID));
        assert_eq!(select(801, 801), Err(Error::API_VERSION_NOT_SUPPORTED));
        assert_eq!(select(12, 740), Err(Error::API_VERSION_NOT_SUPPORTED));
        assert_eq!(select(22, 22), Err(Error::API_VERSION_NOT_SUPPORTED));
        assert_eq!(select(520, 600), Ok(()));
        assert_eq!(select(520, 600), Err(Error::API_VERSION_ALREADY_SET));
        assert_eq!(selected(), Some(520));
        assert!(header_is_before(610) && !header_is_before(600));
        reset();
        assert_eq!(select(13, 740), Ok(()));
        assert_eq!(selected(), Some(13));
        reset();
        assert_eq!(select(740, 800), Ok(()));
        assert!(!header_is_before(610));
        assert_eq!(release(), Release::V7_4);
        reset();
        assert_eq!(select(800, 800), Ok(()));
        assert_eq!(release(), Release::V8_0);
        reset();
        assert_eq!(selected(), None);
    }
}
