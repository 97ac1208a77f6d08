//! The real functions: libfdb_c's own, or the program's, found by name.
//!
//! The name of each in this file is the one that it has in C, so that a call of `real::` reads like
//! the call it is.

use crate::hidden::real;
use foundationdb_sys::{FDBCallback, FDBFuture, FDBKeyValue, FDBMappedKeyValue, FDBTransaction};
use std::ffi::{c_int, c_void};

real! {
    fn fdb_future_destroy(future: *mut FDBFuture);
    fn fdb_future_get_error(future: *mut FDBFuture) -> c_int;
    fn fdb_future_get_int64(future: *mut FDBFuture, out: *mut i64) -> c_int;
    fn fdb_future_get_key(
        future: *mut FDBFuture, key: *mut *const u8, length: *mut c_int
    ) -> c_int;
    fn fdb_future_get_value(
        future: *mut FDBFuture, present: *mut c_int, value: *mut *const u8, length: *mut c_int
    ) -> c_int;
    fn fdb_future_get_keyvalue_array(
        future: *mut FDBFuture,
        rows: *mut *const FDBKeyValue,
        count: *mut c_int,
        more: *mut c_int
    ) -> c_int;
    fn fdb_future_get_mappedkeyvalue_array(
        future: *mut FDBFuture,
        rows: *mut *const FDBMappedKeyValue,
        count: *mut c_int,
        more: *mut c_int
    ) -> c_int;
    fn fdb_future_set_callback(
        future: *mut FDBFuture, callback: FDBCallback, argument: *mut c_void
    ) -> c_int;
    fn fdb_transaction_add_conflict_range(
        transaction: *mut FDBTransaction,
        begin: *const u8,
        begin_length: c_int,
        end: *const u8,
        end_length: c_int,
        kind: c_int
    ) -> c_int;
    fn fdb_transaction_atomic_op(
        transaction: *mut FDBTransaction,
        key: *const u8,
        key_length: c_int,
        operand: *const u8,
        operand_length: c_int,
        operation: c_int
    );
    fn fdb_transaction_cancel(transaction: *mut FDBTransaction);
    fn fdb_transaction_clear(
        transaction: *mut FDBTransaction, key: *const u8, key_length: c_int
    );
    fn fdb_transaction_clear_range(
        transaction: *mut FDBTransaction,
        begin: *const u8,
        begin_length: c_int,
        end: *const u8,
        end_length: c_int
    );
    fn fdb_transaction_commit(transaction: *mut FDBTransaction) -> *mut FDBFuture;
    fn fdb_transaction_destroy(transaction: *mut FDBTransaction);
    fn fdb_transaction_get(
        transaction: *mut FDBTransaction, key: *const u8, key_length: c_int, snapshot: c_int
    ) -> *mut FDBFuture;
    fn fdb_transaction_get_committed_version(
        transaction: *mut FDBTransaction, out: *mut i64
    ) -> c_int;
    fn fdb_transaction_get_key(
        transaction: *mut FDBTransaction,
        key: *const u8,
        key_length: c_int,
        or_equal: c_int,
        offset: c_int,
        snapshot: c_int
    ) -> *mut FDBFuture;
    fn fdb_transaction_get_mapped_range(
        transaction: *mut FDBTransaction,
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
    ) -> *mut FDBFuture;
    fn fdb_transaction_get_range(
        transaction: *mut FDBTransaction,
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
    ) -> *mut FDBFuture;
    fn fdb_transaction_get_read_version(transaction: *mut FDBTransaction) -> *mut FDBFuture;
    fn fdb_transaction_on_error(
        transaction: *mut FDBTransaction, error: c_int
    ) -> *mut FDBFuture;
    fn fdb_transaction_reset(transaction: *mut FDBTransaction);
    fn fdb_transaction_set(
        transaction: *mut FDBTransaction,
        key: *const u8,
        key_length: c_int,
        value: *const u8,
        value_length: c_int
    );
    fn fdb_transaction_set_option(
        transaction: *mut FDBTransaction, option: c_int, value: *const u8, value_length: c_int
    ) -> c_int;
    fn fdb_transaction_set_read_version(transaction: *mut FDBTransaction, version: i64);
    fn fdb_transaction_watch(
        transaction: *mut FDBTransaction, key: *const u8, key_length: c_int
    ) -> *mut FDBFuture;
}
