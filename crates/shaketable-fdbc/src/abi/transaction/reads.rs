//! Reading: versions, keys, ranges, watches, and estimates about ranges.

use super::range;
use crate::abi::{borrow, bytes, failed};
use crate::future::FDBFuture;
use crate::outstanding::Ask;
use crate::transaction::FDBTransaction;
use crate::types::fdb_bool_t;
use crate::value::{Keys, MappedRows, Rows, Strings, Value};
use shaketable_cluster::client::{RangeLimits, Transaction};
use shaketable_cluster::proto::KeySelector;
use shaketable_record::{Call, RangeCall};
use std::ffi::c_int;

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
