//! What older API versions had and newer ones dropped. A library still exports these for programs
//! that were built with an old header, which is why they are in the stub whatever the version.

#[cfg(any(not(since_620), all(since_700, not(since_710))))]
use crate::FDBFuture;
#[cfg(not(since_620))]
use crate::fdb_error_t;
#[cfg(not(since_610))]
use crate::{FDBCluster, FDBClusterOption, FDBDatabase};
#[cfg(all(since_700, not(since_710)))]
use crate::{FDBStreamingMode, FDBTransaction, fdb_bool_t};
#[cfg(not(since_610))]
use std::os::raw::c_char;
#[cfg(any(not(since_610), all(since_700, not(since_710))))]
use std::os::raw::c_int;

unsafe extern "C" {
    /// Reads a version; `fdb_future_get_int64` took its place.
    #[cfg(not(since_620))]
    pub fn fdb_future_get_version(future: *mut FDBFuture, out_version: *mut i64) -> fdb_error_t;
    /// Reads the cluster that `fdb_create_cluster` promised.
    #[cfg(not(since_610))]
    pub fn fdb_future_get_cluster(
        future: *mut FDBFuture,
        out_cluster: *mut *mut FDBCluster,
    ) -> fdb_error_t;
    /// Reads the database that `fdb_cluster_create_database` promised.
    #[cfg(not(since_610))]
    pub fn fdb_future_get_database(
        future: *mut FDBFuture,
        out_database: *mut *mut FDBDatabase,
    ) -> fdb_error_t;
    /// Opens a cluster; `fdb_create_database` took its place.
    #[cfg(not(since_610))]
    pub fn fdb_create_cluster(cluster_file: *const c_char) -> *mut FDBFuture;
    /// Gives the cluster back.
    #[cfg(not(since_610))]
    pub fn fdb_cluster_destroy(cluster: *mut FDBCluster);
    /// Sets an option of the cluster, of which there are none.
    #[cfg(not(since_610))]
    pub fn fdb_cluster_set_option(
        cluster: *mut FDBCluster,
        option: FDBClusterOption,
        value: *const u8,
        value_length: c_int,
    ) -> fdb_error_t;
    /// Opens the cluster's database, whose name can only be `DB`.
    #[cfg(not(since_610))]
    pub fn fdb_cluster_create_database(
        cluster: *mut FDBCluster,
        db_name: *const u8,
        db_name_length: c_int,
    ) -> *mut FDBFuture;
    /// The first form of `fdb_transaction_get_mapped_range`, in one version only.
    #[cfg(all(since_700, not(since_710)))]
    pub fn fdb_transaction_get_range_and_flat_map(
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
        mode: FDBStreamingMode,
        iteration: c_int,
        snapshot: fdb_bool_t,
        reverse: fdb_bool_t,
    ) -> *mut FDBFuture;
}
