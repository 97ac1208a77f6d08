//! The functions of transactions: arguments are copied, what the header refuses at once is refused,
//! the rest is posted.

use super::{borrow, bytes, failed, option_value, take, write};
use crate::future::FDBFuture;
use crate::outstanding::Ask;
use crate::transaction::FDBTransaction;
use crate::types::{fdb_bool_t, fdb_error_t};
use crate::value::{Keys, MappedRows, Rows, Strings, Value};
use shaketable_cluster::client::options::{Scope, find};
use shaketable_cluster::client::{ConflictRangeKind, RangeLimits, Transaction};
use shaketable_cluster::error::Error;
use shaketable_cluster::proto::{KeyRange, KeySelector};
use shaketable_record::text::atomic_name;
use shaketable_record::{Call, RangeCall};
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
    let known = match find(Scope::Transaction, option) {
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

/// The version at which the transaction reads.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_get_read_version(
    transaction: *mut FDBTransaction,
) -> *mut FDBFuture {
    // SAFETY: the contract of the header.
    let transaction = unsafe { borrow(transaction) };
    let noted = transaction.note(|_| Call::GetReadVersion);
    transaction
        .submit(
            Ask::ReadVersion,
            noted,
            Transaction::get_read_version,
            Value::Int64,
        )
        .into_raw()
}

/// Reads one key.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_get(
    transaction: *mut FDBTransaction,
    key: *const u8,
    key_length: c_int,
    snapshot: fdb_bool_t,
) -> *mut FDBFuture {
    // SAFETY: the contract of the header.
    let (transaction, key) = unsafe { (borrow(transaction), bytes(key, key_length)) };
    let noted = transaction.note(|keep| Call::Get {
        key: keep.key(&key),
        snapshot: snapshot != 0,
    });
    transaction
        .submit(
            Ask::Get(key.clone()),
            noted,
            move |transaction| transaction.get(key, snapshot != 0),
            Value::Optional,
        )
        .into_raw()
}

/// Resolves a key selector.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_get_key(
    transaction: *mut FDBTransaction,
    key: *const u8,
    key_length: c_int,
    or_equal: fdb_bool_t,
    offset: c_int,
    snapshot: fdb_bool_t,
) -> *mut FDBFuture {
    // SAFETY: the contract of the header.
    let (transaction, selector) = unsafe {
        (
            borrow(transaction),
            selector(key, key_length, or_equal, offset),
        )
    };
    let noted = transaction.note(|keep| Call::GetKey {
        selector: keep.selector(&selector),
        snapshot: snapshot != 0,
    });
    transaction
        .submit(
            Ask::GetKey(selector.key.clone()),
            noted,
            move |transaction| transaction.get_key(selector, snapshot != 0),
            Value::Key,
        )
        .into_raw()
}

/// The addresses of the storage servers that hold a key.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_get_addresses_for_key(
    transaction: *mut FDBTransaction,
    key: *const u8,
    key_length: c_int,
) -> *mut FDBFuture {
    // SAFETY: the contract of the header.
    let (transaction, key) = unsafe { (borrow(transaction), bytes(key, key_length)) };
    let noted =
        transaction.note(|_| Call::Other("fdb_transaction_get_addresses_for_key".to_owned()));
    transaction
        .submit(
            Ask::Addresses(key.clone()),
            noted,
            move |transaction| transaction.get_addresses_for_key(key),
            |addresses| {
                let addresses = addresses.iter().map(|address| address.as_bytes());
                Value::Strings(Strings::new(addresses))
            },
        )
        .into_raw()
}

/// Reads the rows between two key selectors. Limits that make no sense are an error of the future,
/// at once.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_get_range(
    transaction: *mut FDBTransaction,
    begin_key: *const u8,
    begin_key_length: c_int,
    begin_or_equal: fdb_bool_t,
    begin_offset: c_int,
    end_key: *const u8,
    end_key_length: c_int,
    end_or_equal: fdb_bool_t,
    end_offset: c_int,
    limit: c_int,
    target_bytes: c_int,
    mode: c_int,
    iteration: c_int,
    snapshot: fdb_bool_t,
    reverse: fdb_bool_t,
) -> *mut FDBFuture {
    let limits = match RangeLimits::from_parameters(limit, target_bytes, mode, iteration) {
        Ok(limits) => limits,
        Err(error) => return failed(error),
    };
    // SAFETY: the contract of the header.
    let (transaction, begin, end) = unsafe {
        (
            borrow(transaction),
            selector(begin_key, begin_key_length, begin_or_equal, begin_offset),
            selector(end_key, end_key_length, end_or_equal, end_offset),
        )
    };
    let noted = transaction.note(|keep| {
        Call::GetRange(RangeCall {
            begin: keep.selector(&begin),
            end: keep.selector(&end),
            limit,
            target_bytes,
            mode,
            iteration,
            snapshot: snapshot != 0,
            reverse: reverse != 0,
        })
    });
    transaction
        .submit(
            Ask::GetRange(begin.key.clone(), end.key.clone()),
            noted,
            move |transaction| {
                transaction.get_range(begin, end, limits, snapshot != 0, reverse != 0)
            },
            |rows| Value::Rows(Rows::new(rows)),
        )
        .into_raw()
}

/// Reads the rows between two key selectors and, for each, the rows its mapper names.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_get_mapped_range(
    transaction: *mut FDBTransaction,
    begin_key: *const u8,
    begin_key_length: c_int,
    begin_or_equal: fdb_bool_t,
    begin_offset: c_int,
    end_key: *const u8,
    end_key_length: c_int,
    end_or_equal: fdb_bool_t,
    end_offset: c_int,
    mapper: *const u8,
    mapper_length: c_int,
    limit: c_int,
    target_bytes: c_int,
    mode: c_int,
    iteration: c_int,
    snapshot: fdb_bool_t,
    reverse: fdb_bool_t,
) -> *mut FDBFuture {
    let limits = match RangeLimits::from_parameters(limit, target_bytes, mode, iteration) {
        Ok(limits) => limits,
        Err(error) => return failed(error),
    };
    // SAFETY: the contract of the header.
    let (transaction, begin, end, mapper) = unsafe {
        (
            borrow(transaction),
            selector(begin_key, begin_key_length, begin_or_equal, begin_offset),
            selector(end_key, end_key_length, end_or_equal, end_offset),
            bytes(mapper, mapper_length),
        )
    };
    let noted = transaction.note(|keep| {
        Call::GetMappedRange(RangeCall {
            begin: keep.selector(&begin),
            end: keep.selector(&end),
            limit,
            target_bytes,
            mode,
            iteration,
            snapshot: snapshot != 0,
            reverse: reverse != 0,
        })
    });
    transaction
        .submit(
            Ask::GetMappedRange(begin.key.clone(), end.key.clone()),
            noted,
            move |transaction| {
                let (snapshot, reverse) = (snapshot != 0, reverse != 0);
                transaction.get_mapped_range(begin, end, mapper, limits, snapshot, reverse)
            },
            |rows| Value::MappedRows(MappedRows::new(rows)),
        )
        .into_raw()
}

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

/// Becomes ready when the value of a key changes.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_watch(
    transaction: *mut FDBTransaction,
    key: *const u8,
    key_length: c_int,
) -> *mut FDBFuture {
    // SAFETY: the contract of the header.
    let (transaction, key) = unsafe { (borrow(transaction), bytes(key, key_length)) };
    let noted = transaction.note(|keep| Call::Watch {
        key: keep.key(&key),
    });
    transaction
        .submit(
            Ask::Watch(key.clone()),
            noted,
            move |transaction| transaction.watch(key),
            |()| Value::Void,
        )
        .into_raw()
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

/// The sampled number of bytes in a range.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_get_estimated_range_size_bytes(
    transaction: *mut FDBTransaction,
    begin_key: *const u8,
    begin_key_length: c_int,
    end_key: *const u8,
    end_key_length: c_int,
) -> *mut FDBFuture {
    // SAFETY: the contract of the header.
    let range = unsafe { range(begin_key, begin_key_length, end_key, end_key_length) };
    let range = match range {
        Ok(range) => range,
        Err(error) => return failed(error),
    };
    // SAFETY: the contract of the header.
    let transaction = unsafe { borrow(transaction) };
    let noted = transaction
        .note(|_| Call::Other("fdb_transaction_get_estimated_range_size_bytes".to_owned()));
    transaction
        .submit(
            Ask::Size(range.begin.clone(), range.end.clone()),
            noted,
            move |transaction| transaction.get_estimated_range_size_bytes(range),
            Value::Int64,
        )
        .into_raw()
}

/// Keys that cut a range into chunks of about that size.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_get_range_split_points(
    transaction: *mut FDBTransaction,
    begin_key: *const u8,
    begin_key_length: c_int,
    end_key: *const u8,
    end_key_length: c_int,
    chunk_size: i64,
) -> *mut FDBFuture {
    let no_limit = -1;
    // SAFETY: the contract of the header.
    unsafe {
        fdb_transaction_get_range_split_points_with_limit(
            transaction,
            begin_key,
            begin_key_length,
            end_key,
            end_key_length,
            chunk_size,
            no_limit,
        )
    }
}

/// Keys that cut a range into chunks of about that size: at most `limit` of them between its ends,
/// which are always there. A negative limit means no limit.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_get_range_split_points_with_limit(
    transaction: *mut FDBTransaction,
    begin_key: *const u8,
    begin_key_length: c_int,
    end_key: *const u8,
    end_key_length: c_int,
    chunk_size: i64,
    limit: c_int,
) -> *mut FDBFuture {
    // SAFETY: the contract of the header.
    let range = unsafe { range(begin_key, begin_key_length, end_key, end_key_length) };
    let range = match range {
        Ok(range) => range,
        Err(error) => return failed(error),
    };
    // SAFETY: the contract of the header.
    let transaction = unsafe { borrow(transaction) };
    let noted =
        transaction.note(|_| Call::Other("fdb_transaction_get_range_split_points".to_owned()));
    transaction
        .submit(
            Ask::SplitPoints(range.begin.clone(), range.end.clone()),
            noted,
            move |transaction| transaction.get_range_split_points(range, chunk_size),
            move |mut keys| {
                if let Ok(limit) = usize::try_from(limit)
                    && let Some(end) = keys.pop()
                {
                    keys.truncate(limit + 1);
                    keys.push(end);
                }
                Value::Keys(Keys::new(keys))
            },
        )
        .into_raw()
}

/// The first key after this one.
fn key_after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// # Safety
/// The key is readable for its length during the call.
unsafe fn selector(
    key: *const u8,
    key_length: c_int,
    or_equal: fdb_bool_t,
    offset: c_int,
) -> KeySelector {
    KeySelector {
        // SAFETY: the caller vouches for the key.
        key: unsafe { bytes(key, key_length) },
        or_equal: or_equal != 0,
        offset,
    }
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
