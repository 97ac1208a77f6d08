//! The functions of `fdb_c.h`, one file per object they work on, and nothing but the conversion:
//! pointers become references and bytes, the object does the work, results become codes and
//! pointers again.
//!
//! All functions share the contract of the C header: pointers to handles come from this library and
//! have not been destroyed, pointers to bytes are readable for their length during the call,
//! pointers for results are writable. That contract is what every `SAFETY` note here refers to as
//! *the contract of the header*.

pub(crate) mod admin;
pub(crate) mod blob;
pub(crate) mod database;
pub(crate) mod errors;
pub(crate) mod future;
pub(crate) mod legacy;
pub(crate) mod network;
pub(crate) mod tenant;
pub(crate) mod transaction;

use crate::future::FDBFuture;
use crate::types::fdb_error_t;
use bytes::Bytes;
use shaketable_cluster::error::Error;
use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// Borrows the object behind a handle for the duration of a call, with the means to keep a
/// reference of one's own.
///
/// # Safety
/// The pointer came from `Arc::into_raw` and its reference has not been given back.
unsafe fn borrow<T>(handle: *mut T) -> ManuallyDrop<Arc<T>> {
    // SAFETY: the caller vouches for the pointer; the reference it stands for is not given back
    // here.
    ManuallyDrop::new(unsafe { Arc::from_raw(handle) })
}

/// Takes the reference behind a handle back; a null handle has none.
///
/// # Safety
/// The pointer is null, or came from `Arc::into_raw` and its reference has not been given back.
unsafe fn take<T>(handle: *mut T) -> Option<Arc<T>> {
    if handle.is_null() {
        return None;
    }
    // SAFETY: the caller vouches for the pointer.
    Some(unsafe { Arc::from_raw(handle) })
}

/// Copies bytes of the caller.
///
/// # Safety
/// The pointer is readable for `length` bytes, or null.
unsafe fn bytes(pointer: *const u8, length: c_int) -> Bytes {
    // SAFETY: the caller vouches for the pointer.
    shaketable_cluster::short::copy(unsafe { slice(pointer, length) })
}

/// Looks at bytes of the caller during the call; a null pointer or a negative length is an empty
/// slice.
///
/// # Safety
/// The pointer is readable for `length` bytes during the call, or null.
unsafe fn slice<'call>(pointer: *const u8, length: c_int) -> &'call [u8] {
    match usize::try_from(length) {
        // SAFETY: not null and not empty; the caller vouches for the rest.
        Ok(length) if length > 0 && !pointer.is_null() => unsafe {
            std::slice::from_raw_parts(pointer, length)
        },
        _ => &[],
    }
}

/// The value of an option: a null pointer is none, whatever its length.
///
/// # Safety
/// As for [`bytes`].
unsafe fn option_value(pointer: *const u8, length: c_int) -> Option<Bytes> {
    // SAFETY: the caller vouches for the pointer.
    (!pointer.is_null()).then(|| unsafe { bytes(pointer, length) })
}

/// Writes a result where the caller wants it.
///
/// # Safety
/// The pointer is writable, or null.
unsafe fn write<T>(out: *mut T, value: T) {
    if !out.is_null() {
        // SAFETY: not null, and the caller vouches for the rest. Unaligned, because packed structs
        // of the caller may hold the place.
        unsafe { out.write_unaligned(value) }
    }
}

/// The code of an outcome.
fn code(outcome: Result<(), Error>) -> fdb_error_t {
    outcome.map_or_else(|error| error.0, |()| 0)
}

/// A future that is born with an error.
fn failed(error: Error) -> *mut FDBFuture {
    FDBFuture::ready(Err(error)).into_raw()
}
