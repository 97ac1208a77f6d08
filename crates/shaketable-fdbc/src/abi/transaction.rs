//! The functions of transactions: arguments are copied, what the header refuses at once is refused,
//! the rest is posted.
//!
//! Here are those of a transaction's life: options, commit, errors, what it has cost. `reads` and
//! `writes` have the others.

mod reads;
mod writes;

pub use reads::*;
pub use writes::*;

use super::{borrow, bytes, option_value, take, write};
use crate::future::FDBFuture;
use crate::outstanding::Ask;
use crate::transaction::FDBTransaction;
use crate::types::fdb_error_t;
use crate::value::Value;
use crate::version;
use shaketable_cluster::client::Transaction;
use shaketable_cluster::client::options::{Scope, find};
use shaketable_cluster::error::Error;
use shaketable_cluster::proto::KeyRange;
use shaketable_record::Call;
use std::ffi::c_int;

/// Cancels what is outstanding and gives the transaction back.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_destroy(transaction: *mut FDBTransaction) {
    // SAFETY: the contract of the header.
    if let Some(transaction) = unsafe { take(transaction) } {
        transaction.destroy();
    }
}

/// Fails what is outstanding, and whatever follows until a reset.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_cancel(transaction: *mut FDBTransaction) {
    // SAFETY: the contract of the header.
    let transaction = unsafe { borrow(transaction) };
    let noted = transaction.note(|_| Call::Cancel);
    transaction.apply(noted, Transaction::cancel);
}

/// Makes the transaction as good as new.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_reset(transaction: *mut FDBTransaction) {
    // SAFETY: the contract of the header.
    let transaction = unsafe { borrow(transaction) };
    let noted = transaction.note(|_| Call::Reset);
    transaction.apply(noted, Transaction::reset);
}

/// Sets an option: an unknown code is refused now, a bad value later.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_set_option(
    transaction: *mut FDBTransaction,
    option: c_int,
    value: *const u8,
    value_length: c_int,
) -> fdb_error_t {
    let known = match find(version::release(), Scope::Transaction, option) {
        Ok(known) => known,
        Err(error) => return error.0,
    };
    // SAFETY: the contract of the header.
    let (transaction, value) = unsafe { (borrow(transaction), option_value(value, value_length)) };
    let noted = transaction.note(|keep| Call::SetOption {
        name: known.name.to_owned(),
        value: value.as_deref().map(|value| keep.value(value)),
    });
    transaction.apply(noted, move |transaction| {
        transaction.set_option(option, value.as_deref())
    });
    0
}

/// Reads at this version instead of asking for one.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_set_read_version(
    transaction: *mut FDBTransaction,
    version: i64,
) {
    // SAFETY: the contract of the header.
    let transaction = unsafe { borrow(transaction) };
    let noted = transaction.note(|_| Call::SetReadVersion(version));
    transaction.apply(noted, move |transaction| {
        transaction.set_read_version(version)
    });
}

/// Commits.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_commit(
    transaction: *mut FDBTransaction,
) -> *mut FDBFuture {
    // SAFETY: the contract of the header.
    unsafe { borrow(transaction) }.commit().into_raw()
}

/// The version of the last commit that wrote something, or -1. Does not wait.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_get_committed_version(
    transaction: *mut FDBTransaction,
    out_version: *mut i64,
) -> fdb_error_t {
    // SAFETY: the contract of the header.
    let version = unsafe { borrow(transaction) }.committed_version();
    // SAFETY: the contract of the header.
    unsafe { write(out_version, version) }
    0
}

/// The versionstamp of the commit to come.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_get_versionstamp(
    transaction: *mut FDBTransaction,
) -> *mut FDBFuture {
    // SAFETY: the contract of the header.
    unsafe { borrow(transaction) }.versionstamp().into_raw()
}

/// The size the commit is estimated to have.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_get_approximate_size(
    transaction: *mut FDBTransaction,
) -> *mut FDBFuture {
    // SAFETY: the contract of the header.
    let transaction = unsafe { borrow(transaction) };
    let noted =
        transaction.note(|_| Call::Other("fdb_transaction_get_approximate_size".to_owned()));
    transaction
        .submit(
            Ask::Estimate,
            noted,
            Transaction::get_approximate_size,
            Value::Int64,
        )
        .into_raw()
}

/// What the transaction has cost in the eyes of tag throttling.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_get_total_cost(
    transaction: *mut FDBTransaction,
) -> *mut FDBFuture {
    // SAFETY: the contract of the header.
    let transaction = unsafe { borrow(transaction) };
    let noted = transaction.note(|_| Call::Other("fdb_transaction_get_total_cost".to_owned()));
    transaction
        .submit(
            Ask::Estimate,
            noted,
            Transaction::get_total_cost,
            Value::Int64,
        )
        .into_raw()
}

/// For how many seconds tag throttling has held the transaction up.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_get_tag_throttled_duration(
    transaction: *mut FDBTransaction,
) -> *mut FDBFuture {
    // SAFETY: the contract of the header.
    let transaction = unsafe { borrow(transaction) };
    let noted =
        transaction.note(|_| Call::Other("fdb_transaction_get_tag_throttled_duration".to_owned()));
    transaction
        .submit(
            Ask::Estimate,
            noted,
            Transaction::get_tag_throttled_duration,
            Value::Double,
        )
        .into_raw()
}

/// Waits and makes the transaction ready for another attempt, or fails with the same error.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_on_error(
    transaction: *mut FDBTransaction,
    error: fdb_error_t,
) -> *mut FDBFuture {
    // SAFETY: the contract of the header.
    let transaction = unsafe { borrow(transaction) };
    let noted = transaction.note(|_| Call::OnError(error));
    transaction
        .submit(
            Ask::OnError(error),
            noted,
            move |transaction| transaction.on_error(Error(error)),
            |()| Value::Void,
        )
        .into_raw()
}

/// The range between two keys, or 2005.
///
/// # Safety
/// The keys are readable for their lengths during the call.
unsafe fn range(
    begin_key: *const u8,
    begin_key_length: c_int,
    end_key: *const u8,
    end_key_length: c_int,
) -> Result<KeyRange, Error> {
    // SAFETY: the caller vouches for the keys.
    let (begin, end) = unsafe {
        (
            bytes(begin_key, begin_key_length),
            bytes(end_key, end_key_length),
        )
    };
    if begin > end {
        return Err(Error::INVERTED_RANGE);
    }
    Ok(KeyRange { begin, end })
}
