//! Writing: sets, clears, atomic operations, and conflict ranges without a write.

use super::range;
use crate::abi::{borrow, bytes};
use crate::transaction::FDBTransaction;
use crate::types::fdb_error_t;
use shaketable_cluster::client::ConflictRangeKind;
use shaketable_cluster::error::Error;
use shaketable_record::Call;
use shaketable_record::text::atomic_name;
use std::ffi::c_int;

/// Writes one key.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_set(
    transaction: *mut FDBTransaction,
    key: *const u8,
    key_length: c_int,
    value: *const u8,
    value_length: c_int,
) {
    // SAFETY: the contract of the header.
    let (transaction, key, value) = unsafe {
        (
            borrow(transaction),
            bytes(key, key_length),
            bytes(value, value_length),
        )
    };
    let noted = transaction.note(|keep| Call::Set {
        key: keep.key(&key),
        value: keep.value(&value),
    });
    transaction.apply(noted, move |transaction| transaction.set(key, value));
}

/// Applies an atomic operation to a key.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_atomic_op(
    transaction: *mut FDBTransaction,
    key: *const u8,
    key_length: c_int,
    param: *const u8,
    param_length: c_int,
    operation_type: c_int,
) {
    // SAFETY: the contract of the header.
    let (transaction, key, operand) = unsafe {
        (
            borrow(transaction),
            bytes(key, key_length),
            bytes(param, param_length),
        )
    };
    let noted = transaction.note(|keep| Call::Atomic {
        key: keep.key(&key),
        operand: keep.value(&operand),
        name: atomic_name(operation_type),
    });
    transaction.apply(noted, move |transaction| {
        transaction.atomic_op(key, operand, operation_type)
    });
}

/// Clears one key.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_clear(
    transaction: *mut FDBTransaction,
    key: *const u8,
    key_length: c_int,
) {
    // SAFETY: the contract of the header.
    let (transaction, key) = unsafe { (borrow(transaction), bytes(key, key_length)) };
    let noted = transaction.note(|keep| Call::Clear {
        range: keep.range(&key, &key_after(&key)),
    });
    transaction.apply(noted, move |transaction| transaction.clear(key));
}

/// Clears the keys from the first to before the second.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_clear_range(
    transaction: *mut FDBTransaction,
    begin_key: *const u8,
    begin_key_length: c_int,
    end_key: *const u8,
    end_key_length: c_int,
) {
    // SAFETY: the contract of the header.
    let (transaction, begin, end) = unsafe {
        (
            borrow(transaction),
            bytes(begin_key, begin_key_length),
            bytes(end_key, end_key_length),
        )
    };
    let noted = transaction.note(|keep| Call::Clear {
        range: keep.range(&begin, &end),
    });
    transaction.apply(noted, move |transaction| {
        transaction.clear_range(begin, end)
    });
}

/// Adds a conflict range. An inverted range and an unknown kind are refused at once.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_add_conflict_range(
    transaction: *mut FDBTransaction,
    begin_key: *const u8,
    begin_key_length: c_int,
    end_key: *const u8,
    end_key_length: c_int,
    conflict_range_type: c_int,
) -> fdb_error_t {
    // SAFETY: the contract of the header.
    let range = unsafe { range(begin_key, begin_key_length, end_key, end_key_length) };
    let range = match range {
        Ok(range) => range,
        Err(error) => return error.0,
    };
    let kind = match conflict_range_type {
        0 => ConflictRangeKind::Read,
        1 => ConflictRangeKind::Write,
        _ => return Error::CLIENT_INVALID_OPERATION.0,
    };
    // SAFETY: the contract of the header.
    let transaction = unsafe { borrow(transaction) };
    let noted = transaction.note(|keep| Call::AddConflictRange {
        range: keep.range(&range.begin, &range.end),
        write: kind == ConflictRangeKind::Write,
    });
    transaction.apply(noted, move |transaction| {
        transaction.add_conflict_range(range, kind)
    });
    0
}

/// The first key after this one.
fn key_after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}
