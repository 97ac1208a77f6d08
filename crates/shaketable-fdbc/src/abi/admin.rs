//! Administration of a cluster, and the state that clients of several versions share.

use super::{borrow, bytes, failed, slice};
use crate::admin;
use crate::database::FDBDatabase;
use crate::future::FDBFuture;
use crate::types::fdb_bool_t;
use shaketable_cluster::error::Error;
use std::ffi::{c_int, c_void};

/// Reboots the process at an address, at once: there is nothing to check first.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_database_reboot_worker(
    database: *mut FDBDatabase,
    address: *const u8,
    address_length: c_int,
    _check: fdb_bool_t,
    _duration: c_int,
) -> *mut FDBFuture {
    // SAFETY: the contract of the header.
    let (database, address) = unsafe { (borrow(database), bytes(address, address_length)) };
    admin::reboot_worker(&database, address).into_raw()
}

/// Would recover in another datacenter.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_database_force_recovery_with_data_loss(
    database: *mut FDBDatabase,
    _dcid: *const u8,
    _dcid_length: c_int,
) -> *mut FDBFuture {
    // SAFETY: the contract of the header.
    let database = unsafe { borrow(database) };
    admin::force_recovery_with_data_loss(&database).into_raw()
}

/// Would take a snapshot of the disks of the cluster.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_database_create_snapshot(
    database: *mut FDBDatabase,
    uid: *const u8,
    uid_length: c_int,
    _snap_command: *const u8,
    _snap_command_length: c_int,
) -> *mut FDBFuture {
    // SAFETY: the contract of the header.
    let (database, uid) = unsafe { (borrow(database), slice(uid, uid_length)) };
    admin::create_snapshot(&database, uid).into_raw()
}

/// Would create the state that clients of several versions share.
#[unsafe(no_mangle)]
pub extern "C" fn fdb_database_create_shared_state(_database: *mut FDBDatabase) -> *mut FDBFuture {
    failed(Error::UNSUPPORTED_OPERATION)
}

/// Would take over the state that clients of several versions share.
#[unsafe(no_mangle)]
pub extern "C" fn fdb_database_set_shared_state(_database: *mut FDBDatabase, _state: *mut c_void) {}
