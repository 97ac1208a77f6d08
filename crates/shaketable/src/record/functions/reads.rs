//! What a transaction reads: a value, a key, a range, and a key that it watches.
//!
//! Each of these is answered by a future (`futures.rs`).

use super::futures::awaited;
use super::real;
use super::values::{key_of, selector};
use crate::record::recorder;
use foundationdb_sys::{FDBFuture, FDBTransaction};
use shaketable_record::{Call, RangeCall};
use std::ffi::c_int;

/// # Safety
///
/// As the C function.
pub(super) unsafe extern "C" fn fdb_transaction_get(
    transaction: *mut FDBTransaction,
    key: *const u8,
    key_length: c_int,
    snapshot: c_int,
) -> *mut FDBFuture {
    let ticket = recorder::note(transaction, || Call::Get {
        // SAFETY: the caller's promise.
        key: unsafe { key_of(key, key_length) },
        snapshot: snapshot != 0,
    });
    // SAFETY: the caller's promise.
    let future = unsafe { real::fdb_transaction_get(transaction, key, key_length, snapshot) };
    awaited(ticket, future)
}

/// # Safety
///
/// As the C function.
pub(super) unsafe extern "C" fn fdb_transaction_get_key(
    transaction: *mut FDBTransaction,
    key: *const u8,
    key_length: c_int,
    or_equal: c_int,
    offset: c_int,
    snapshot: c_int,
) -> *mut FDBFuture {
    let ticket = recorder::note(transaction, || Call::GetKey {
        // SAFETY: the caller's promise.
        selector: unsafe { selector(key, key_length, or_equal, offset) },
        snapshot: snapshot != 0,
    });
    // SAFETY: the caller's promise.
    let future = unsafe {
        real::fdb_transaction_get_key(transaction, key, key_length, or_equal, offset, snapshot)
    };
    awaited(ticket, future)
}

/// A read of a range: with which arguments beside those that all have, and what is recorded of it.
macro_rules! range_read {
    ($name:ident($($more:ident: $type:ty),*), $call:path) => {
        /// # Safety
        ///
        /// As the C function.
        pub(super) unsafe extern "C" fn $name(
            transaction: *mut FDBTransaction,
            begin: *const u8,
            begin_length: c_int,
            begin_or_equal: c_int,
            begin_offset: c_int,
            end: *const u8,
            end_length: c_int,
            end_or_equal: c_int,
            end_offset: c_int,
            $($more: $type,)*
            limit: c_int,
            target_bytes: c_int,
            mode: c_int,
            iteration: c_int,
            snapshot: c_int,
            reverse: c_int,
        ) -> *mut FDBFuture {
            let ticket = recorder::note(transaction, || {
                $call(RangeCall {
                    // SAFETY: the caller's promise.
                    begin: unsafe { selector(begin, begin_length, begin_or_equal, begin_offset) },
                    // SAFETY: the caller's promise.
                    end: unsafe { selector(end, end_length, end_or_equal, end_offset) },
                    limit,
                    target_bytes,
                    mode,
                    iteration,
                    snapshot: snapshot != 0,
                    reverse: reverse != 0,
                })
            });
            // SAFETY: the caller's promise.
            let future = unsafe {
                real::$name(
                    transaction,
                    begin,
                    begin_length,
                    begin_or_equal,
                    begin_offset,
                    end,
                    end_length,
                    end_or_equal,
                    end_offset,
                    $($more,)*
                    limit,
                    target_bytes,
                    mode,
                    iteration,
                    snapshot,
                    reverse,
                )
            };
            awaited(ticket, future)
        }
    };
}

range_read!(fdb_transaction_get_range(), Call::GetRange);
range_read!(
    fdb_transaction_get_mapped_range(mapper: *const u8, mapper_length: c_int),
    Call::GetMappedRange
);

/// # Safety
///
/// As the C function.
pub(super) unsafe extern "C" fn fdb_transaction_watch(
    transaction: *mut FDBTransaction,
    key: *const u8,
    key_length: c_int,
) -> *mut FDBFuture {
    let ticket = recorder::note(transaction, || Call::Watch {
        // SAFETY: the caller's promise.
        key: unsafe { key_of(key, key_length) },
    });
    // SAFETY: the caller's promise.
    let future = unsafe { real::fdb_transaction_watch(transaction, key, key_length) };
    awaited(ticket, future)
}
