//! What a C function was given, as a record keeps it: bytes, ranges, key selectors.
//!
//! All of it is copied at once, because the caller's memory is its own again after the call, and
//! shortened to what a trace can hold.

use foundationdb_sys::{FDBKeyValue, FDBMappedKeyValue};
use shaketable_record::{Bytes, Range, Selector};
use std::ffi::c_int;
use std::slice;

/// # Safety
///
/// The pointer is null, or there are `length` bytes.
unsafe fn bytes<'a>(bytes: *const u8, length: c_int) -> &'a [u8] {
    match bytes.is_null() {
        true => &[],
        // SAFETY: the caller's promise.
        false => unsafe { slice::from_raw_parts(bytes, length_of(length)) },
    }
}

pub(super) fn length_of(length: c_int) -> usize {
    usize::try_from(length).unwrap_or(0)
}

/// # Safety
///
/// As [`bytes`].
pub(super) unsafe fn key_of(key: *const u8, length: c_int) -> Bytes {
    // SAFETY: the caller's promise.
    Bytes::shortened(unsafe { bytes(key, length) }, KEY_BYTES_MAX)
}

/// # Safety
///
/// As [`bytes`].
pub(super) unsafe fn value_of(value: *const u8, length: c_int) -> Bytes {
    // SAFETY: the caller's promise.
    Bytes::shortened(unsafe { bytes(value, length) }, VALUE_BYTES_MAX)
}

/// # Safety
///
/// A row of a future that is ready.
pub(super) unsafe fn row_of(row: &FDBKeyValue) -> (Bytes, Bytes) {
    // The C struct is packed; its fields are copied out of it.
    let (key, key_length) = (row.key, row.key_length);
    let (value, value_length) = (row.value, row.value_length);
    // SAFETY: the caller's promise.
    unsafe { (key_of(key, key_length), value_of(value, value_length)) }
}

/// A row of a mapped range, without what it led to.
///
/// # Safety
///
/// A row of a future that is ready.
pub(super) unsafe fn mapped_row_of(row: &FDBMappedKeyValue) -> (Bytes, Bytes) {
    // The C structs are packed; their fields are copied out of them.
    let (key, value) = (row.key, row.value);
    let (key, key_length) = (key.key, key.key_length);
    let (value, value_length) = (value.key, value.key_length);
    // SAFETY: the caller's promise.
    unsafe { (key_of(key, key_length), value_of(value, value_length)) }
}

/// # Safety
///
/// As [`bytes`].
pub(super) unsafe fn range(
    begin: *const u8,
    begin_length: c_int,
    end: *const u8,
    end_length: c_int,
) -> Range {
    Range {
        // SAFETY: the caller's promise.
        begin: unsafe { key_of(begin, begin_length) },
        // SAFETY: the caller's promise.
        end: unsafe { key_of(end, end_length) },
    }
}

/// # Safety
///
/// As [`bytes`].
pub(super) unsafe fn selector(
    key: *const u8,
    length: c_int,
    or_equal: c_int,
    offset: c_int,
) -> Selector {
    Selector {
        // SAFETY: the caller's promise.
        key: unsafe { key_of(key, length) },
        or_equal: or_equal != 0,
        offset,
    }
}

/// A trace is no place for long keys and values.
pub(super) const KEY_BYTES_MAX: usize = 1000;
const VALUE_BYTES_MAX: usize = 200;
pub(super) const ROWS_MAX: usize = 200;
