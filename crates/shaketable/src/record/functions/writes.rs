//! What a transaction writes: values, atomic operations, clears, and conflict ranges.
//!
//! None of these is answered; what becomes of them is said by the commit.

use super::real;
use super::values::{KEY_BYTES_MAX, key_of, range, value_of};
use crate::record::recorder;
use foundationdb_sys::FDBTransaction;
use shaketable_record::text::atomic_name;
use shaketable_record::{Bytes, Call, Range};
use std::ffi::c_int;

/// # Safety
///
/// As the C function.
pub(super) unsafe extern "C" fn fdb_transaction_set(
    transaction: *mut FDBTransaction,
    key: *const u8,
    key_length: c_int,
    value: *const u8,
    value_length: c_int,
) {
    recorder::note(transaction, || Call::Set {
        // SAFETY: the caller's promise.
        key: unsafe { key_of(key, key_length) },
        // SAFETY: the caller's promise.
        value: unsafe { value_of(value, value_length) },
    });
    // SAFETY: the caller's promise.
    unsafe { real::fdb_transaction_set(transaction, key, key_length, value, value_length) }
}

/// # Safety
///
/// As the C function.
pub(super) unsafe extern "C" fn fdb_transaction_atomic_op(
    transaction: *mut FDBTransaction,
    key: *const u8,
    key_length: c_int,
    operand: *const u8,
    operand_length: c_int,
    operation: c_int,
) {
    recorder::note(transaction, || Call::Atomic {
        // SAFETY: the caller's promise.
        key: unsafe { key_of(key, key_length) },
        // SAFETY: the caller's promise.
        operand: unsafe { value_of(operand, operand_length) },
        name: atomic_name(operation),
    });
    // SAFETY: the caller's promise.
    unsafe {
        real::fdb_transaction_atomic_op(
            transaction,
            key,
            key_length,
            operand,
            operand_length,
            operation,
        );
    }
}

/// # Safety
///
/// As the C function.
pub(super) unsafe extern "C" fn fdb_transaction_clear(
    transaction: *mut FDBTransaction,
    key: *const u8,
    key_length: c_int,
) {
    recorder::note(transaction, || {
        // SAFETY: the caller's promise.
        let begin = unsafe { key_of(key, key_length) };
        let end = Bytes::shortened(&[begin.kept(), &[0]].concat(), KEY_BYTES_MAX);
        Call::Clear {
            range: Range { begin, end },
        }
    });
    // SAFETY: the caller's promise.
    unsafe { real::fdb_transaction_clear(transaction, key, key_length) }
}

/// # Safety
///
/// As the C function.
pub(super) unsafe extern "C" fn fdb_transaction_clear_range(
    transaction: *mut FDBTransaction,
    begin: *const u8,
    begin_length: c_int,
    end: *const u8,
    end_length: c_int,
) {
    recorder::note(transaction, || Call::Clear {
        // SAFETY: the caller's promise.
        range: unsafe { range(begin, begin_length, end, end_length) },
    });
    // SAFETY: the caller's promise.
    unsafe {
        real::fdb_transaction_clear_range(transaction, begin, begin_length, end, end_length);
    }
}

/// # Safety
///
/// As the C function.
pub(super) unsafe extern "C" fn fdb_transaction_add_conflict_range(
    transaction: *mut FDBTransaction,
    begin: *const u8,
    begin_length: c_int,
    end: *const u8,
    end_length: c_int,
    kind: c_int,
) -> c_int {
    recorder::note(transaction, || Call::AddConflictRange {
        // SAFETY: the caller's promise.
        range: unsafe { range(begin, begin_length, end, end_length) },
        write: kind == WRITE_CONFLICT,
    });
    // SAFETY: the caller's promise.
    unsafe {
        real::fdb_transaction_add_conflict_range(
            transaction,
            begin,
            begin_length,
            end,
            end_length,
            kind,
        )
    }
}

const WRITE_CONFLICT: c_int = 1;
