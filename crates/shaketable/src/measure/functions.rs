//! The functions of libfdb_c whose answers are counted: each notes the call and passes it on.
//!
//! With the feature `record` the recorder listens to the same functions, and counts for both.

use super::{Call, asked, destroyed, heard};
use crate::hidden::{hidden, real};
use foundationdb_sys::{FDBFuture, FDBTransaction};
use std::ffi::c_int;

hidden!(
    shaketable_hidden_measure,
    fdb_future_destroy,
    fdb_future_get_error,
    fdb_transaction_commit,
    fdb_transaction_get,
    fdb_transaction_get_key,
    fdb_transaction_get_mapped_range,
    fdb_transaction_get_range,
    fdb_transaction_get_read_version,
    fdb_transaction_watch,
);

unsafe extern "C" {
    fn shaketable_hidden_measure();
}

/// Keeps the functions in the library.
pub(super) fn keep() {
    std::hint::black_box(shaketable_hidden_measure as *const ());
}

/// # Safety
///
/// As the C function.
unsafe extern "C" fn fdb_future_destroy(future: *mut FDBFuture) {
    destroyed(future);
    // SAFETY: the caller's promise.
    unsafe { original::fdb_future_destroy(future) }
}

/// # Safety
///
/// As the C function.
unsafe extern "C" fn fdb_future_get_error(future: *mut FDBFuture) -> c_int {
    // SAFETY: the caller's promise.
    let error = unsafe { original::fdb_future_get_error(future) };
    if error != FUTURE_NOT_SET {
        heard(future, error);
    }
    error
}

/// The error of a future that is not ready.
const FUTURE_NOT_SET: c_int = 2015;

/// Functions that ask the database for something.
macro_rules! asks {
    ($(fn $name:ident($($argument:ident: $type:ty),*) is $call:ident;)+) => {
        $(
            /// # Safety
            ///
            /// As the C function.
            unsafe extern "C" fn $name(
                transaction: *mut FDBTransaction, $($argument: $type),*
            ) -> *mut FDBFuture {
                // SAFETY: the caller's promise.
                let future = unsafe { original::$name(transaction, $($argument),*) };
                asked(Call::$call, future);
                future
            }
        )+

        mod original {
            use super::*;

            real! {
                fn fdb_future_destroy(future: *mut FDBFuture);
                fn fdb_future_get_error(future: *mut FDBFuture) -> c_int;
                $(
                    fn $name(
                        transaction: *mut FDBTransaction $(, $argument: $type)*
                    ) -> *mut FDBFuture;
                )+
            }
        }
    };
}

asks! {
    fn fdb_transaction_commit() is Commit;
    fn fdb_transaction_get(key: *const u8, length: c_int, snapshot: c_int) is Read;
    fn fdb_transaction_get_key(
        key: *const u8, length: c_int, or_equal: c_int, offset: c_int, snapshot: c_int
    ) is Read;
    fn fdb_transaction_get_range(
        begin: *const u8,
        begin_length: c_int,
        begin_or_equal: c_int,
        begin_offset: c_int,
        end: *const u8,
        end_length: c_int,
        end_or_equal: c_int,
        end_offset: c_int,
        limit: c_int,
        target_bytes: c_int,
        mode: c_int,
        iteration: c_int,
        snapshot: c_int,
        reverse: c_int
    ) is RangeRead;
    fn fdb_transaction_get_mapped_range(
        begin: *const u8,
        begin_length: c_int,
        begin_or_equal: c_int,
        begin_offset: c_int,
        end: *const u8,
        end_length: c_int,
        end_or_equal: c_int,
        end_offset: c_int,
        mapper: *const u8,
        mapper_length: c_int,
        limit: c_int,
        target_bytes: c_int,
        mode: c_int,
        iteration: c_int,
        snapshot: c_int,
        reverse: c_int
    ) is RangeRead;
    fn fdb_transaction_get_read_version() is ReadVersion;
    fn fdb_transaction_watch(key: *const u8, length: c_int) is Watch;
}
