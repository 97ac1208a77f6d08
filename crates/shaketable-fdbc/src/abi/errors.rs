//! Error texts and predicates. They need no network and no thread of their own; a few codes mean
//! something else to a program that has selected API version 800.

use crate::types::{fdb_bool_t, fdb_error_t};
use crate::version;
use shaketable_cluster::error;
use shaketable_cluster::release::Release;
use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int};
use std::sync::LazyLock;

/// The texts of all codes as C strings; -1 stands for what is not a code at all, 2 for an undefined
/// code.
type Texts = BTreeMap<fdb_error_t, CString>;
static TEXTS: LazyLock<Texts> = LazyLock::new(|| texts(Release::V7_4));
static TEXTS_OF_8_0: LazyLock<Texts> = LazyLock::new(|| texts(Release::V8_0));

fn texts(release: Release) -> Texts {
    let text = |code| CString::new(error::message(release, code)).unwrap_or_default();
    error::all_codes(release)
        .chain([NO_CODE, UNDEFINED])
        .map(|code| (code, text(code)))
        .collect()
}

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
    let texts = match version::release() {
        Release::V7_4 => &*TEXTS,
        Release::V8_0 => &*TEXTS_OF_8_0,
    };
    texts.get(&code).unwrap_or(&texts[&UNDEFINED]).as_ptr()
}

/// Returns whether one of the three predicates holds for an error code.
#[unsafe(no_mangle)]
pub extern "C" fn fdb_error_predicate(predicate: c_int, code: fdb_error_t) -> fdb_bool_t {
    fdb_bool_t::from(error::predicate(version::release(), predicate, code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn every_number_has_the_text_of_the_table() {
        for code in error::all_codes(Release::V7_4).chain([-7, 2, 29_999, 30_001]) {
            // SAFETY: the function returns a static string that ends with a zero byte.
            let text = unsafe { CStr::from_ptr(fdb_get_error(code)) };
            assert_eq!(text.to_str(), Ok(error::message(Release::V7_4, code)));
        }
    }
}
