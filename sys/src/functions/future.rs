//! Futures: waiting for a result, and one function per type of result to read it with.

#[cfg(since_700)]
use crate::FDBKey;
use crate::{FDBCallback, FDBFuture, FDBKeyValue, fdb_bool_t, fdb_error_t};
#[cfg(since_710)]
use crate::{FDBKeyRange, FDBMappedKeyValue};
use std::os::raw::{c_char, c_int, c_void};

unsafe extern "C" {
    /// Gives up the operation; a pending future fails with 1101.
    pub fn fdb_future_cancel(future: *mut FDBFuture);
    /// Gives back the memory of a result that was read.
    pub fn fdb_future_release_memory(future: *mut FDBFuture);
    /// Cancels the operation and gives the future back.
    pub fn fdb_future_destroy(future: *mut FDBFuture);
    /// Waits for the future; must not be called on the network's thread.
    pub fn fdb_future_block_until_ready(future: *mut FDBFuture) -> fdb_error_t;
    /// Whether the future holds a result or an error.
    pub fn fdb_future_is_ready(future: *mut FDBFuture) -> fdb_bool_t;
    /// Calls back when the future is ready, at once if it is already.
    pub fn fdb_future_set_callback(
        future: *mut FDBFuture,
        callback: FDBCallback,
        callback_parameter: *mut c_void,
    ) -> fdb_error_t;
    /// The error the future ended with, or 0.
    pub fn fdb_future_get_error(future: *mut FDBFuture) -> fdb_error_t;
    /// Reads a truth value.
    #[cfg(since_730)]
    pub fn fdb_future_get_bool(future: *mut FDBFuture, out: *mut fdb_bool_t) -> fdb_error_t;
    /// Reads a signed integer.
    #[cfg(since_620)]
    pub fn fdb_future_get_int64(future: *mut FDBFuture, out: *mut i64) -> fdb_error_t;
    /// Reads an unsigned integer.
    #[cfg(since_700)]
    pub fn fdb_future_get_uint64(future: *mut FDBFuture, out: *mut u64) -> fdb_error_t;
    /// Reads a floating point number.
    #[cfg(since_730)]
    pub fn fdb_future_get_double(future: *mut FDBFuture, out: *mut f64) -> fdb_error_t;
    /// Reads a key; it lives as long as the future.
    pub fn fdb_future_get_key(
        future: *mut FDBFuture,
        out_key: *mut *const u8,
        out_key_length: *mut c_int,
    ) -> fdb_error_t;
    /// Reads a value that may be absent; it lives as long as the future.
    pub fn fdb_future_get_value(
        future: *mut FDBFuture,
        out_present: *mut fdb_bool_t,
        out_value: *mut *const u8,
        out_value_length: *mut c_int,
    ) -> fdb_error_t;
    /// Reads the rows of a range, and whether there are more.
    pub fn fdb_future_get_keyvalue_array(
        future: *mut FDBFuture,
        out_kv: *mut *const FDBKeyValue,
        out_count: *mut c_int,
        out_more: *mut fdb_bool_t,
    ) -> fdb_error_t;
    /// Reads the rows of a mapped range, and whether there are more.
    #[cfg(since_710)]
    pub fn fdb_future_get_mappedkeyvalue_array(
        future: *mut FDBFuture,
        out_kv: *mut *const FDBMappedKeyValue,
        out_count: *mut c_int,
        out_more: *mut fdb_bool_t,
    ) -> fdb_error_t;
    /// Reads a list of keys.
    #[cfg(since_700)]
    pub fn fdb_future_get_key_array(
        future: *mut FDBFuture,
        out_key_array: *mut *const FDBKey,
        out_count: *mut c_int,
    ) -> fdb_error_t;
    /// Reads a list of strings, each ending in a null byte.
    pub fn fdb_future_get_string_array(
        future: *mut FDBFuture,
        out_strings: *mut *mut *const c_char,
        out_count: *mut c_int,
    ) -> fdb_error_t;
    /// Reads a list of key ranges.
    #[cfg(since_710)]
    pub fn fdb_future_get_keyrange_array(
        future: *mut FDBFuture,
        out_ranges: *mut *const FDBKeyRange,
        out_count: *mut c_int,
    ) -> fdb_error_t;
}
