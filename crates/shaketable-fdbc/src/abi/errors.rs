//! Error texts and predicates. They need no network, no API version and no thread of their own.

use crate::types::{fdb_bool_t, fdb_error_t};
use shaketable_cluster::error;
use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int};
use std::sync::LazyLock;

/// The texts of all codes as C strings; -1 stands for what is not a code at all, 2 for an undefined
/// code.
static TEXTS: LazyLock<BTreeMap<fdb_error_t, CString>> = LazyLock::new(|| {
    error::all_codes()
        .chain([NO_CODE, UNDEFINED])
        .map(|code| (code, CString::new(error::message(code)).unwrap_or_default()))
        .collect()
});
const NO_CODE: fdb_error_t = -1;
const UNDEFINED: fdb_error_t = 2;

/// The text of an error code, as a static string.
#[unsafe(no_mangle)]
pub extern "C" fn fdb_get_error(code: fdb_error_t) -> *const c_char {
    let code = if (0..=30_000).contains(&code) {
        code
    } else {
        NO_CODE
    };
    TEXTS.get(&code).unwrap_or(&TEXTS[&UNDEFINED]).as_ptr()
}

/// Returns whether one of the three predicates holds for an error code.
#[unsafe(no_mangle)]
pub extern "C" fn fdb_error_predicate(predicate: c_int, code: fdb_error_t) -> fdb_bool_t {
    fdb_bool_t::from(error::predicate(predicate, code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn every_number_has_the_text_of_the_table() {
        for code in error::all_codes().chain([-7, 2, 29_999, 30_001]) {
            // SAFETY: the function returns a static string that ends with a zero byte.
            let text = unsafe { CStr::from_ptr(fdb_get_error(code)) };
            assert_eq!(text.to_str(), Ok(error::message(code)));
        }
    }
}
