//! The functions of databases.

use super::{borrow, code, option_value, take, write};
use crate::admin;
use crate::database::FDBDatabase;
use crate::future::FDBFuture;
use crate::network::{self, ClusterName};
use crate::transaction::FDBTransaction;
use crate::types::fdb_error_t;
use crate::version;
use shaketable_cluster::client::options::{Scope, find};
use std::ffi::{CStr, c_char, c_int};
use std::sync::Arc;

/// Bytes of a C string; null is the empty one.
///
/// # Safety
/// The pointer is null or points to a string that ends with a zero byte.
pub(super) unsafe fn string<'call>(pointer: *const c_char) -> &'call [u8] {
    if pointer.is_null() {
        return &[];
    }
    // SAFETY: not null; the caller vouches for the rest.
    unsafe { CStr::from_ptr(pointer) }.to_bytes()
}

/// Opens the database that a cluster file names.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_create_database(
    cluster_file_path: *const c_char,
    out_database: *mut *mut FDBDatabase,
) -> fdb_error_t {
    // SAFETY: the contract of the header.
    let cluster = ClusterName::of_file(unsafe { string(cluster_file_path) });
    // SAFETY: the contract of the header.
    unsafe { create(cluster, out_database) }
}

/// Opens the database that a connection string names.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_create_database_from_connection_string(
    connection_string: *const c_char,
    out_database: *mut *mut FDBDatabase,
) -> fdb_error_t {
    // SAFETY: the contract of the header.
    let cluster = ClusterName::of_connection_string(unsafe { string(connection_string) });
    // SAFETY: the contract of the header.
    unsafe { create(cluster, out_database) }
}

/// # Safety
/// The contract of the header.
unsafe fn create(cluster: ClusterName, out: *mut *mut FDBDatabase) -> fdb_error_t {
    code(network::open_database(cluster).map(|database| {
        // SAFETY: the contract of the header.
        unsafe { write(out, Arc::into_raw(database).cast_mut()) }
    }))
}

/// Gives the database back; its transactions live on. A database that a host has lent stays as it
/// is.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_database_destroy(database: *mut FDBDatabase) {
    // SAFETY: the contract of the header.
    if database.is_null() || !unsafe { borrow(database) }.may_be_destroyed() {
        return;
    }
    // SAFETY: the contract of the header.
    if let Some(database) = unsafe { take(database) } {
        database.destroy();
    }
}

/// Sets an option: an unknown code is refused now, a bad value later.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_database_set_option(
    database: *mut FDBDatabase,
    option: c_int,
    value: *const u8,
    value_length: c_int,
) -> fdb_error_t {
    if let Err(error) = find(version::release(), Scope::Database, option) {
        return error.0;
    }
    // SAFETY: the contract of the header.
    let (database, value) = unsafe { (borrow(database), option_value(value, value_length)) };
    database.apply(move |database| database.set_option(option, value.as_deref()));
    0
}

/// Begins a transaction.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_database_create_transaction(
    database: *mut FDBDatabase,
    out_transaction: *mut *mut FDBTransaction,
) -> fdb_error_t {
    // SAFETY: the contract of the header.
    let transaction = unsafe { borrow(database) }.create_transaction();
    // SAFETY: the contract of the header.
    unsafe { write(out_transaction, Arc::into_raw(transaction).cast_mut()) }
    0
}

/// How busy the network's thread was in the last second, from 0 to 1; 0 in a simulation.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_database_get_main_thread_busyness(database: *mut FDBDatabase) -> f64 {
    // SAFETY: the contract of the header.
    network::busyness(&unsafe { borrow(database) }.universe)
}

/// The client's own view of its connections, as JSON.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_database_get_client_status(
    database: *mut FDBDatabase,
) -> *mut FDBFuture {
    // SAFETY: the contract of the header.
    let database = unsafe { borrow(database) };
    admin::client_status(&database).into_raw()
}

/// The protocol of the cluster, once it differs from the expected one.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_database_get_server_protocol(
    database: *mut FDBDatabase,
    expected_version: u64,
) -> *mut FDBFuture {
    // SAFETY: the contract of the header.
    let database = unsafe { borrow(database) };
    admin::server_protocol(&database, expected_version).into_raw()
}
