//! The course of a transaction: the version that it reads at, its commit, its errors, its end.
//!
//! These calls are only noted here. Which attempt a call belongs to, and whether it ends one, is
//! decided in `recorder.rs`.

use super::futures::awaited;
use super::real;
use super::values::value_of;
use crate::record::recorder;
use foundationdb_sys::{FDBFuture, FDBTransaction};
use shaketable_record::Call;
use std::ffi::c_int;

/// # Safety
///
/// As the C function.
pub(super) unsafe extern "C" fn fdb_transaction_get_read_version(
    transaction: *mut FDBTransaction,
) -> *mut FDBFuture {
    let ticket = recorder::note(transaction, || Call::GetReadVersion);
    // SAFETY: the caller's promise.
    let future = unsafe { real::fdb_transaction_get_read_version(transaction) };
    awaited(ticket, future)
}

/// # Safety
///
/// As the C function.
pub(super) unsafe extern "C" fn fdb_transaction_set_read_version(
    transaction: *mut FDBTransaction,
    version: i64,
) {
    recorder::note(transaction, || Call::SetReadVersion(version));
    // SAFETY: the caller's promise.
    unsafe { real::fdb_transaction_set_read_version(transaction, version) }
}

/// # Safety
///
/// As the C function.
pub(super) unsafe extern "C" fn fdb_transaction_set_option(
    transaction: *mut FDBTransaction,
    option: c_int,
    value: *const u8,
    value_length: c_int,
) -> c_int {
    recorder::note(transaction, || Call::SetOption {
        // The reader knows its name.
        name: option.to_string(),
        // SAFETY: the caller's promise.
        value: (!value.is_null()).then(|| unsafe { value_of(value, value_length) }),
    });
    // SAFETY: the caller's promise.
    unsafe { real::fdb_transaction_set_option(transaction, option, value, value_length) }
}

/// # Safety
///
/// As the C function.
pub(super) unsafe extern "C" fn fdb_transaction_commit(
    transaction: *mut FDBTransaction,
) -> *mut FDBFuture {
    let ticket = recorder::note(transaction, || Call::Commit);
    // SAFETY: the caller's promise.
    let future = unsafe { real::fdb_transaction_commit(transaction) };
    awaited(ticket, future)
}

/// # Safety
///
/// As the C function.
pub(super) unsafe extern "C" fn fdb_transaction_on_error(
    transaction: *mut FDBTransaction,
    error: c_int,
) -> *mut FDBFuture {
    let ticket = recorder::note(transaction, || Call::OnError(error));
    // SAFETY: the caller's promise.
    let future = unsafe { real::fdb_transaction_on_error(transaction, error) };
    awaited(ticket, future)
}

/// # Safety
///
/// As the C function.
pub(super) unsafe extern "C" fn fdb_transaction_cancel(transaction: *mut FDBTransaction) {
    recorder::note(transaction, || Call::Cancel);
    // SAFETY: the caller's promise.
    unsafe { real::fdb_transaction_cancel(transaction) }
}

/// # Safety
///
/// As the C function.
pub(super) unsafe extern "C" fn fdb_transaction_reset(transaction: *mut FDBTransaction) {
    recorder::note(transaction, || Call::Reset);
    // SAFETY: the caller's promise.
    unsafe { real::fdb_transaction_reset(transaction) }
}

/// # Safety
///
/// As the C function.
pub(super) unsafe extern "C" fn fdb_transaction_destroy(transaction: *mut FDBTransaction) {
    recorder::destroyed(transaction);
    // SAFETY: the caller's promise.
    unsafe { real::fdb_transaction_destroy(transaction) }
}
