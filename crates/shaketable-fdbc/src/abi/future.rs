//! The functions of futures; the state machine is in `crate::future`.

use super::{borrow, code, take, write};
use crate::database::FDBDatabase;
use crate::future::FDBFuture;
use crate::legacy::FDBCluster;
use crate::network;
use crate::types::{
    FDBCallback, FDBKey, FDBKeyRange, FDBKeyValue, FDBMappedKeyValue, fdb_bool_t, fdb_error_t,
};
use crate::value::Value;
use bytes::Bytes;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

/// Reads a value and writes what `pick` makes of it; returns the error code of the function.
///
/// # Safety
/// The contract of the header.
unsafe fn get<T>(
    future: *mut FDBFuture,
    pick: impl FnOnce(&Value) -> Option<T>,
    put: impl FnOnce(T),
) -> fdb_error_t {
    // SAFETY: the caller vouches for the handle.
    let future = unsafe { borrow(future) };
    code(future.read(pick).map(put))
}

/// Gives up the operation; a pending future then fails with 1101.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_cancel(future: *mut FDBFuture) {
    // SAFETY: the contract of the header.
    let future = unsafe { borrow(future) };
    Arc::clone(&future).cancel();
}

/// Gives back the memory of a result that was read.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_release_memory(future: *mut FDBFuture) {
    // SAFETY: the contract of the header.
    unsafe { borrow(future) }.release_memory();
}

/// Cancels the operation and gives the future back. A callback that was registered still runs.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_destroy(future: *mut FDBFuture) {
    // SAFETY: the contract of the header.
    if let Some(future) = unsafe { take(future) } {
        future.cancel();
    }
}

/// Waits for the future. On the network's thread that is an error, 2026.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_block_until_ready(future: *mut FDBFuture) -> fdb_error_t {
    // SAFETY: the contract of the header.
    code(unsafe { borrow(future) }.block_until_ready())
}

/// Whether the future holds a value or an error.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_is_ready(future: *mut FDBFuture) -> fdb_bool_t {
    // SAFETY: the contract of the header.
    fdb_bool_t::from(unsafe { borrow(future) }.is_ready())
}

/// Whether the future holds an error; a function of API versions before 23.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_is_error(future: *mut FDBFuture) -> fdb_bool_t {
    // SAFETY: the contract of the header.
    let future = unsafe { borrow(future) };
    fdb_bool_t::from(future.is_ready() && future.error() != 0)
}

/// Calls back when the future is ready, inside this call if it is already.
///
/// # Safety
/// The contract of the header; the callback may be called on the network's thread with that
/// parameter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_set_callback(
    future: *mut FDBFuture,
    callback: FDBCallback,
    callback_parameter: *mut c_void,
) -> fdb_error_t {
    // SAFETY: the contract of the header. The reference of our own keeps the future alive if the
    // callback destroys it.
    let future = unsafe { borrow(future) };
    Arc::clone(&future).set_callback(callback, callback_parameter);
    0
}

/// The error the future ended with, or 0.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_get_error(future: *mut FDBFuture) -> fdb_error_t {
    // SAFETY: the contract of the header.
    unsafe { borrow(future) }.error()
}

/// Reads a truth value. No operation of this library has one.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_get_bool(
    future: *mut FDBFuture,
    _out: *mut fdb_bool_t,
) -> fdb_error_t {
    // SAFETY: the contract of the header.
    unsafe { get(future, |_| None::<()>, drop) }
}

/// Reads a signed integer.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_get_int64(
    future: *mut FDBFuture,
    out: *mut i64,
) -> fdb_error_t {
    let pick = |value: &Value| match value {
        Value::Int64(number) => Some(*number),
        _ => None,
    };
    // SAFETY: the contract of the header.
    unsafe { get(future, pick, |number| write(out, number)) }
}

/// Reads a version: the name of `fdb_future_get_int64` before API version 620.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_get_version(
    future: *mut FDBFuture,
    out: *mut i64,
) -> fdb_error_t {
    // SAFETY: the contract of the header.
    unsafe { fdb_future_get_int64(future, out) }
}

/// Reads an unsigned integer.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_get_uint64(
    future: *mut FDBFuture,
    out: *mut u64,
) -> fdb_error_t {
    let pick = |value: &Value| match value {
        Value::Uint64(number) => Some(*number),
        _ => None,
    };
    // SAFETY: the contract of the header.
    unsafe { get(future, pick, |number| write(out, number)) }
}

/// Reads a floating point number.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_get_double(
    future: *mut FDBFuture,
    out: *mut f64,
) -> fdb_error_t {
    let pick = |value: &Value| match value {
        Value::Double(number) => Some(*number),
        _ => None,
    };
    // SAFETY: the contract of the header.
    unsafe { get(future, pick, |number| write(out, number)) }
}

/// Reads a key.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_get_key(
    future: *mut FDBFuture,
    out_key: *mut *const u8,
    out_key_length: *mut c_int,
) -> fdb_error_t {
    let pick = |value: &Value| match value {
        Value::Key(key) => Some((key.as_ptr(), key.len() as c_int)),
        _ => None,
    };
    let put = |(key, length)| {
        // SAFETY: the contract of the header.
        unsafe {
            write(out_key, key);
            write(out_key_length, length);
        }
    };
    // SAFETY: the contract of the header.
    unsafe { get(future, pick, put) }
}

/// Reads a value that may be absent; then only `out_present` is written.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_get_value(
    future: *mut FDBFuture,
    out_present: *mut fdb_bool_t,
    out_value: *mut *const u8,
    out_value_length: *mut c_int,
) -> fdb_error_t {
    let place = |bytes: &Bytes| (bytes.as_ptr(), bytes.len() as c_int);
    let pick = |value: &Value| match value {
        Value::Optional(value) => Some(value.as_ref().map(place)),
        // Programs read the result of `fdb_transaction_get_key` this way, because it works.
        Value::Key(key) => Some(Some(place(key))),
        _ => None,
    };
    let put = |value: Option<(*const u8, c_int)>| {
        // SAFETY: the contract of the header.
        unsafe {
            write(out_present, fdb_bool_t::from(value.is_some()));
            if let Some((bytes, length)) = value {
                write(out_value, bytes);
                write(out_value_length, length);
            }
        }
    };
    // SAFETY: the contract of the header.
    unsafe { get(future, pick, put) }
}

/// Reads the rows of a range, and whether there are more.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_get_keyvalue_array(
    future: *mut FDBFuture,
    out_kv: *mut *const FDBKeyValue,
    out_count: *mut c_int,
    out_more: *mut fdb_bool_t,
) -> fdb_error_t {
    let pick = |value: &Value| match value {
        Value::Rows(rows) => Some((rows.as_slice().as_ptr(), rows.as_slice().len(), rows.more)),
        _ => None,
    };
    let put = |(rows, count, more)| {
        // SAFETY: the contract of the header.
        unsafe {
            write(out_kv, rows);
            write(out_count, count as c_int);
            write(out_more, fdb_bool_t::from(more));
        }
    };
    // SAFETY: the contract of the header.
    unsafe { get(future, pick, put) }
}

/// Reads the rows of a mapped range, and whether there are more.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_get_mappedkeyvalue_array(
    future: *mut FDBFuture,
    out_kvm: *mut *const FDBMappedKeyValue,
    out_count: *mut c_int,
    out_more: *mut fdb_bool_t,
) -> fdb_error_t {
    let pick = |value: &Value| match value {
        Value::MappedRows(rows) => {
            Some((rows.as_slice().as_ptr(), rows.as_slice().len(), rows.more))
        }
        _ => None,
    };
    let put = |(rows, count, more)| {
        // SAFETY: the contract of the header.
        unsafe {
            write(out_kvm, rows);
            write(out_count, count as c_int);
            write(out_more, fdb_bool_t::from(more));
        }
    };
    // SAFETY: the contract of the header.
    unsafe { get(future, pick, put) }
}

/// Reads several keys.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_get_key_array(
    future: *mut FDBFuture,
    out_key_array: *mut *const FDBKey,
    out_count: *mut c_int,
) -> fdb_error_t {
    let pick = |value: &Value| match value {
        Value::Keys(keys) => Some((keys.as_slice().as_ptr(), keys.as_slice().len())),
        _ => None,
    };
    let put = |(keys, count)| {
        // SAFETY: the contract of the header.
        unsafe {
            write(out_key_array, keys);
            write(out_count, count as c_int);
        }
    };
    // SAFETY: the contract of the header.
    unsafe { get(future, pick, put) }
}

/// Reads several strings, each of which ends with a zero byte.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_get_string_array(
    future: *mut FDBFuture,
    out_strings: *mut *const *const c_char,
    out_count: *mut c_int,
) -> fdb_error_t {
    let pick = |value: &Value| match value {
        Value::Strings(strings) => Some((strings.as_slice().as_ptr(), strings.as_slice().len())),
        _ => None,
    };
    let put = |(strings, count)| {
        // SAFETY: the contract of the header.
        unsafe {
            write(out_strings, strings);
            write(out_count, count as c_int);
        }
    };
    // SAFETY: the contract of the header.
    unsafe { get(future, pick, put) }
}

/// Reads several ranges. Only operations on blob granules have them, and those fail here.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_get_keyrange_array(
    future: *mut FDBFuture,
    _out_ranges: *mut *const FDBKeyRange,
    _out_count: *mut c_int,
) -> fdb_error_t {
    // SAFETY: the contract of the header.
    unsafe { get(future, |_| None::<()>, drop) }
}

/// Reads the cluster of `fdb_create_cluster`, before API version 610. The caller gets a reference
/// of its own.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_get_cluster(
    future: *mut FDBFuture,
    out_cluster: *mut *mut FDBCluster,
) -> fdb_error_t {
    let pick = |value: &Value| match value {
        Value::Cluster(cluster) => Some(cluster.clone()),
        _ => None,
    };
    let put = |cluster: Arc<FDBCluster>| {
        // SAFETY: the contract of the header.
        unsafe { write(out_cluster, Arc::into_raw(cluster).cast_mut()) }
    };
    // SAFETY: the contract of the header.
    unsafe { get(future, pick, put) }
}

/// Opens the database of `fdb_cluster_create_database`, before API version 610. Each call gives a
/// handle of its own.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_get_database(
    future: *mut FDBFuture,
    out_database: *mut *mut FDBDatabase,
) -> fdb_error_t {
    let pick = |value: &Value| match value {
        Value::Database(cluster) => Some(cluster.clone()),
        _ => None,
    };
    // SAFETY: the contract of the header.
    let opened = unsafe { borrow(future) }
        .read(pick)
        .and_then(network::open_database);
    code(opened.map(|database| {
        // SAFETY: the contract of the header.
        unsafe { write(out_database, Arc::into_raw(database).cast_mut()) }
    }))
}

/// Reads the state that clients of several versions would share. There is none.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_get_shared_state(
    future: *mut FDBFuture,
    _out: *mut *mut c_void,
) -> fdb_error_t {
    // SAFETY: the contract of the header.
    unsafe { get(future, |_| None::<()>, drop) }
}
