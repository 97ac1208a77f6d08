//! Administration of a cluster, and the state that clients of several versions share: none of it
//! makes sense for a cluster inside the process, so it fails with 2108.

use super::failed;
use crate::database::FDBDatabase;
use crate::future::FDBFuture;
use crate::types::fdb_bool_t;
use shaketable_cluster::error::Error;
use std::ffi::{c_int, c_void};

/// Would reboot the process at an address.
#[unsafe(no_mangle)]
pub extern "C" fn fdb_database_reboot_worker(
    _database: *mut FDBDatabase,
    _address: *const u8,
    _address_length: c_int,
    _check: fdb_bool_t,
    _duration: c_int,
) -> *mut FDBFuture {
    failed(Error::UNSUPPORTED_OPERATION)
}

/// Would recover in another datacenter.
#[unsafe(no_mangle)]
pub extern "C" fn fdb_database_force_recovery_with_data_loss(
    _database: *mut FDBDatabase,
    _dcid: *const u8,
    _dcid_length: c_int,
) -> *mut FDBFuture {
    failed(Error::UNSUPPORTED_OPERATION)
}

/// Would take a snapshot of the disks of the cluster.
#[unsafe(no_mangle)]
pub extern "C" fn fdb_database_create_snapshot(
    _database: *mut FDBDatabase,
    _uid: *const u8,
    _uid_length: c_int,
    _snap_command: *const u8,
    _snap_command_length: c_int,
) -> *mut FDBFuture {
    failed(Error::UNSUPPORTED_OPERATION)
}

/// Would create the state that clients of several versions share.
#[unsafe(no_mangle)]
pub extern "C" fn fdb_database_create_shared_state(_database: *mut FDBDatabase) -> *mut FDBFuture {
    failed(Error::UNSUPPORTED_OPERATION)
}

/// Would take over the state that clients of several versions share.
#[unsafe(no_mangle)]
pub extern "C" fn fdb_database_set_shared_state(_database: *mut FDBDatabase, _state: *mut c_void) {}
