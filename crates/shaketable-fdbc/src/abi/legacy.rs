//! Functions that the API has removed, for programs compiled with an old header.
//!
//! Before version 610 a database was opened through a cluster. FoundationDB aborts a program that
//! calls these functions with a newer header; here they fail with 2108.

use super::database::string;
use super::{borrow, failed, take};
use crate::future::FDBFuture;
use crate::legacy::FDBCluster;
use crate::network::{self, ClusterName};
use crate::transaction::FDBTransaction;
use crate::types::{fdb_bool_t, fdb_error_t};
use crate::value::Value;
use crate::version;
use shaketable_cluster::error::Error;
use std::ffi::{c_char, c_int};
use std::sync::Arc;

/// FoundationDB kept a name for databases from the time when a cluster was meant to have several.
const INVALID_DATABASE_NAME: Error = Error(2013);

/// Whether the program may use clusters at all, and the network is there.
fn check() -> Result<(), Error> {
    if !version::header_is_before(610) {
        return Err(Error::UNSUPPORTED_OPERATION);
    }
    if !network::is_set_up() {
        return Err(Error::NETWORK_NOT_SETUP);
    }
    Ok(())
}

/// Opens a cluster. The future is ready at once, as it was when clusters became mere names.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_create_cluster(cluster_file_path: *const c_char) -> *mut FDBFuture {
    if let Err(error) = check() {
        return failed(error);
    }
    // SAFETY: the contract of the header.
    let name = ClusterName::of_file(unsafe { string(cluster_file_path) });
    FDBFuture::ready(Ok(Value::Cluster(Arc::new(FDBCluster { name })))).into_raw()
}

/// Sets an option of the cluster. There are none.
#[unsafe(no_mangle)]
pub extern "C" fn fdb_cluster_set_option(
    _cluster: *mut FDBCluster,
    _option: c_int,
    _value: *const u8,
    _value_length: c_int,
) -> fdb_error_t {
    Error::INVALID_OPTION.0
}

/// Gives the cluster back.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_cluster_destroy(cluster: *mut FDBCluster) {
    // SAFETY: the contract of the header.
    drop(unsafe { take(cluster) });
}

/// Opens a database of the cluster, whose only possible name is `DB`.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_cluster_create_database(
    cluster: *mut FDBCluster,
    db_name: *const u8,
    db_name_length: c_int,
) -> *mut FDBFuture {
    if let Err(error) = check() {
        return failed(error);
    }
    // SAFETY: the contract of the header.
    if unsafe { super::slice(db_name, db_name_length) } != b"DB" {
        return failed(INVALID_DATABASE_NAME);
    }
    // SAFETY: the contract of the header.
    let name = unsafe { borrow(cluster) }.name.clone();
    FDBFuture::ready(Ok(Value::Database(name))).into_raw()
}

/// A form of `fdb_transaction_get_range` before API version 14, which is too old to be selected.
#[unsafe(no_mangle)]
pub extern "C" fn fdb_transaction_get_range_selector(
    _transaction: *mut FDBTransaction,
    _begin_key: *const u8,
    _begin_key_length: c_int,
    _begin_or_equal: fdb_bool_t,
    _begin_offset: c_int,
    _end_key: *const u8,
    _end_key_length: c_int,
    _end_or_equal: fdb_bool_t,
    _end_offset: c_int,
    _limit: c_int,
) -> *mut FDBFuture {
    failed(Error::UNSUPPORTED_OPERATION)
}
