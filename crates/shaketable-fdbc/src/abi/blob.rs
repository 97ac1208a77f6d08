//! Blob granules: FoundationDB keeps ranges as files in an object store, a miniature keeps nothing
//! outside the process.
//!
//! Every operation fails with 2108, through the future or through the `FDBResult` it returns. So a
//! result only ever holds an error, and the getters for what such operations would have given have
//! nothing to read.

use super::tenant::FDBTenant;
use super::{borrow, code, failed, take};
use crate::database::FDBDatabase;
use crate::future::FDBFuture;
use crate::transaction::FDBTransaction;
use crate::types::{FDBKeyValue, fdb_bool_t, fdb_error_t};
use shaketable_cluster::error::Error;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

/// What `FDBResult*` points to: the error with which the operation failed.
pub struct FDBResult {
    error: Error,
}

/// The functions through which a read would load its files. Passed by value, therefore laid out in
/// full.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FDBReadBlobGranuleContext {
    user_context: *mut c_void,
    start_load:
        Option<unsafe extern "C" fn(*const c_char, c_int, i64, i64, i64, *mut c_void) -> i64>,
    get_load: Option<unsafe extern "C" fn(i64, *mut c_void) -> *mut u8>,
    free_load: Option<unsafe extern "C" fn(i64, *mut c_void)>,
    debug_no_materialize: fdb_bool_t,
    granule_parallelism: c_int,
}

fn refused() -> *mut FDBFuture {
    failed(Error::UNSUPPORTED_OPERATION)
}

fn refused_result() -> *mut FDBResult {
    let error = Error::UNSUPPORTED_OPERATION;
    Arc::into_raw(Arc::new(FDBResult { error })).cast_mut()
}

/// Functions that refuse. Each is declared with what it would do, and what it refuses with.
macro_rules! refusals {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty = $answer:ident;)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($argument: $type),*) -> $result {
            $(let _ = $argument;)*
            $answer()
        }
    )*};
}

refusals! {
    /// Would purge a range of granules up to a version.
    fn fdb_database_purge_blob_granules(
        database: *mut FDBDatabase, begin: *const u8, begin_length: c_int, end: *const u8,
        end_length: c_int, purge_version: i64, force: fdb_bool_t,
    ) -> *mut FDBFuture = refused;
    /// Would wait for a purge.
    fn fdb_database_wait_purge_granules_complete(
        database: *mut FDBDatabase, purge_key: *const u8, purge_key_length: c_int,
    ) -> *mut FDBFuture = refused;
    /// Would turn a range into granules.
    fn fdb_database_blobbify_range(
        database: *mut FDBDatabase, begin: *const u8, begin_length: c_int, end: *const u8,
        end_length: c_int,
    ) -> *mut FDBFuture = refused;
    /// Would turn a range into granules and wait for it.
    fn fdb_database_blobbify_range_blocking(
        database: *mut FDBDatabase, begin: *const u8, begin_length: c_int, end: *const u8,
        end_length: c_int,
    ) -> *mut FDBFuture = refused;
    /// Would stop keeping a range as granules.
    fn fdb_database_unblobbify_range(
        database: *mut FDBDatabase, begin: *const u8, begin_length: c_int, end: *const u8,
        end_length: c_int,
    ) -> *mut FDBFuture = refused;
    /// Would list the ranges that are kept as granules.
    fn fdb_database_list_blobbified_ranges(
        database: *mut FDBDatabase, begin: *const u8, begin_length: c_int, end: *const u8,
        end_length: c_int, range_limit: c_int,
    ) -> *mut FDBFuture = refused;
    /// Would check that a range can be read from granules.
    fn fdb_database_verify_blob_range(
        database: *mut FDBDatabase, begin: *const u8, begin_length: c_int, end: *const u8,
        end_length: c_int, version: i64,
    ) -> *mut FDBFuture = refused;
    /// Would write a range of granules out.
    fn fdb_database_flush_blob_range(
        database: *mut FDBDatabase, begin: *const u8, begin_length: c_int, end: *const u8,
        end_length: c_int, compact: fdb_bool_t, version: i64,
    ) -> *mut FDBFuture = refused;
    /// Would purge a range of the tenant's granules up to a version.
    fn fdb_tenant_purge_blob_granules(
        tenant: *mut FDBTenant, begin: *const u8, begin_length: c_int, end: *const u8,
        end_length: c_int, purge_version: i64, force: fdb_bool_t,
    ) -> *mut FDBFuture = refused;
    /// Would wait for a purge.
    fn fdb_tenant_wait_purge_granules_complete(
        tenant: *mut FDBTenant, purge_key: *const u8, purge_key_length: c_int,
    ) -> *mut FDBFuture = refused;
    /// Would turn a range of the tenant into granules.
    fn fdb_tenant_blobbify_range(
        tenant: *mut FDBTenant, begin: *const u8, begin_length: c_int, end: *const u8,
        end_length: c_int,
    ) -> *mut FDBFuture = refused;
    /// Would turn a range of the tenant into granules and wait for it.
    fn fdb_tenant_blobbify_range_blocking(
        tenant: *mut FDBTenant, begin: *const u8, begin_length: c_int, end: *const u8,
        end_length: c_int,
    ) -> *mut FDBFuture = refused;
    /// Would stop keeping a range of the tenant as granules.
    fn fdb_tenant_unblobbify_range(
        tenant: *mut FDBTenant, begin: *const u8, begin_length: c_int, end: *const u8,
        end_length: c_int,
    ) -> *mut FDBFuture = refused;
    /// Would list the ranges of the tenant that are kept as granules.
    fn fdb_tenant_list_blobbified_ranges(
        tenant: *mut FDBTenant, begin: *const u8, begin_length: c_int, end: *const u8,
        end_length: c_int, range_limit: c_int,
    ) -> *mut FDBFuture = refused;
    /// Would check that a range of the tenant can be read from granules.
    fn fdb_tenant_verify_blob_range(
        tenant: *mut FDBTenant, begin: *const u8, begin_length: c_int, end: *const u8,
        end_length: c_int, version: i64,
    ) -> *mut FDBFuture = refused;
    /// Would write a range of the tenant's granules out.
    fn fdb_tenant_flush_blob_range(
        tenant: *mut FDBTenant, begin: *const u8, begin_length: c_int, end: *const u8,
        end_length: c_int, compact: fdb_bool_t, version: i64,
    ) -> *mut FDBFuture = refused;
    /// Would list the granules of a range. Headers before API version 730 have no limit; the call
    /// is the same.
    fn fdb_transaction_get_blob_granule_ranges(
        transaction: *mut FDBTransaction, begin: *const u8, begin_length: c_int, end: *const u8,
        end_length: c_int, range_limit: c_int,
    ) -> *mut FDBFuture = refused;
    /// Would summarise the granules of a range.
    fn fdb_transaction_summarize_blob_granules(
        transaction: *mut FDBTransaction, begin: *const u8, begin_length: c_int, end: *const u8,
        end_length: c_int, summary_version: i64, range_limit: c_int,
    ) -> *mut FDBFuture = refused;
    /// Would name the files that the granules of a range are made of.
    fn fdb_transaction_read_blob_granules_description(
        transaction: *mut FDBTransaction, begin: *const u8, begin_length: c_int, end: *const u8,
        end_length: c_int, begin_version: i64, read_version: i64, read_version_out: *mut i64,
    ) -> *mut FDBFuture = refused;
    /// Would begin reading granules.
    fn fdb_transaction_read_blob_granules_start(
        transaction: *mut FDBTransaction, begin: *const u8, begin_length: c_int, end: *const u8,
        end_length: c_int, begin_version: i64, read_version: i64, read_version_out: *mut i64,
    ) -> *mut FDBFuture = refused;
    /// Would finish reading granules.
    fn fdb_transaction_read_blob_granules_finish(
        transaction: *mut FDBTransaction, future: *mut FDBFuture, begin: *const u8,
        begin_length: c_int, end: *const u8, end_length: c_int, begin_version: i64,
        read_version: i64, context: *mut FDBReadBlobGranuleContext,
    ) -> *mut FDBResult = refused_result;
    /// Would read a range from granules, through the caller's file functions.
    fn fdb_transaction_read_blob_granules(
        transaction: *mut FDBTransaction, begin: *const u8, begin_length: c_int, end: *const u8,
        end_length: c_int, begin_version: i64, read_version: i64, context: FDBReadBlobGranuleContext,
    ) -> *mut FDBResult = refused_result;
    /// Would decode a snapshot file of a granule.
    fn fdb_readbg_parse_snapshot_file(
        file_data: *const u8, file_length: c_int, tenant_prefix: *const c_void,
        encryption_context: *const c_void,
    ) -> *mut FDBResult = refused_result;
    /// Would decode a delta file of a granule.
    fn fdb_readbg_parse_delta_file(
        file_data: *const u8, file_length: c_int, tenant_prefix: *const c_void,
        encryption_context: *const c_void,
    ) -> *mut FDBResult = refused_result;
}

/// Would read a list of granule summaries.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_get_granule_summary_array(
    future: *mut FDBFuture,
    _out_summaries: *mut *const c_void,
    _out_count: *mut c_int,
) -> fdb_error_t {
    // SAFETY: the contract of the header.
    code(unsafe { borrow(future) }.read(|_| None))
}

/// Would read a list of granule descriptions.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_readbg_get_descriptions(
    future: *mut FDBFuture,
    _out: *mut *mut c_void,
    _count: *mut c_int,
) -> fdb_error_t {
    // SAFETY: the contract of the header.
    code(unsafe { borrow(future) }.read(|_| None))
}

/// Would read the rows of a result.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_result_get_keyvalue_array(
    result: *mut FDBResult,
    _out_kv: *mut *const FDBKeyValue,
    _out_count: *mut c_int,
    _out_more: *mut fdb_bool_t,
) -> fdb_error_t {
    // SAFETY: the contract of the header.
    unsafe { borrow(result) }.error.0
}

/// Would read the mutations of a result.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_result_get_bg_mutations_array(
    result: *mut FDBResult,
    _out_mutations: *mut *const c_void,
    _out_count: *mut c_int,
) -> fdb_error_t {
    // SAFETY: the contract of the header.
    unsafe { borrow(result) }.error.0
}

/// Gives the result back.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_result_destroy(result: *mut FDBResult) {
    // SAFETY: the contract of the header.
    drop(unsafe { take(result) });
}
