//! Databases: opening one, beginning a transaction, and the administration of the cluster behind
//! it.

use crate::{FDBDatabase, FDBDatabaseOption, FDBTransaction, fdb_error_t};
#[cfg(since_700)]
use crate::{FDBFuture, fdb_bool_t};
#[cfg(since_610)]
use std::os::raw::c_char;
use std::os::raw::c_int;

unsafe extern "C" {
    /// Opens the database of a cluster file; null means the default file.
    #[cfg(since_610)]
    pub fn fdb_create_database(
        cluster_file: *const c_char,
        out_database: *mut *mut FDBDatabase,
    ) -> fdb_error_t;
    /// Opens the database of a connection string.
    #[cfg(since_730)]
    pub fn fdb_create_database_from_connection_string(
        connection_string: *const c_char,
        out_database: *mut *mut FDBDatabase,
    ) -> fdb_error_t;
    /// Gives the database back; its transactions live on.
    pub fn fdb_database_destroy(database: *mut FDBDatabase);
    /// Sets an option of the database.
    pub fn fdb_database_set_option(
        database: *mut FDBDatabase,
        option: FDBDatabaseOption,
        value: *const u8,
        value_length: c_int,
    ) -> fdb_error_t;
    /// Begins a transaction.
    pub fn fdb_database_create_transaction(
        database: *mut FDBDatabase,
        out_transaction: *mut *mut FDBTransaction,
    ) -> fdb_error_t;
    /// Reboots the process at an address.
    #[cfg(since_700)]
    pub fn fdb_database_reboot_worker(
        database: *mut FDBDatabase,
        address: *const u8,
        address_length: c_int,
        check: fdb_bool_t,
        duration: c_int,
    ) -> *mut FDBFuture;
    /// Recovers in another datacenter, giving up what was not copied there.
    #[cfg(since_700)]
    pub fn fdb_database_force_recovery_with_data_loss(
        database: *mut FDBDatabase,
        dcid: *const u8,
        dcid_length: c_int,
    ) -> *mut FDBFuture;
    /// Takes a snapshot of the disks of the cluster.
    #[cfg(since_700)]
    pub fn fdb_database_create_snapshot(
        database: *mut FDBDatabase,
        uid: *const u8,
        uid_length: c_int,
        snap_command: *const u8,
        snap_command_length: c_int,
    ) -> *mut FDBFuture;
    /// How busy the network's thread is, from 0 to 1.
    #[cfg(since_700)]
    pub fn fdb_database_get_main_thread_busyness(database: *mut FDBDatabase) -> f64;
    /// The protocol of the cluster, once it differs from the expected one.
    #[cfg(since_700)]
    pub fn fdb_database_get_server_protocol(
        database: *mut FDBDatabase,
        expected_version: u64,
    ) -> *mut FDBFuture;
    /// The client's own view of its connections, as JSON.
    #[cfg(since_730)]
    pub fn fdb_database_get_client_status(database: *mut FDBDatabase) -> *mut FDBFuture;
}
