//! Blob granules, since API version 710. Results come as an `FDBResult`, which is complete when it
//! is returned.

#![cfg(since_710)]

#[cfg(since_730)]
use crate::{
    FDBBGEncryptionCtx, FDBBGFileDescription, FDBBGMutation, FDBBGTenantPrefix, FDBGranuleSummary,
    FDBTenant,
};
use crate::{
    FDBDatabase, FDBFuture, FDBKeyValue, FDBReadBlobGranuleContext, FDBResult, FDBTransaction,
    fdb_bool_t, fdb_error_t,
};
use std::os::raw::c_int;

unsafe extern "C" {
    /// Reads a list of granule summaries.
    #[cfg(since_730)]
    pub fn fdb_future_get_granule_summary_array(
        future: *mut FDBFuture,
        out_summaries: *mut *const FDBGranuleSummary,
        out_count: *mut c_int,
    ) -> fdb_error_t;
    /// Reads a list of granule descriptions.
    #[cfg(since_730)]
    pub fn fdb_future_readbg_get_descriptions(
        future: *mut FDBFuture,
        out: *mut *mut FDBBGFileDescription,
        desc_count: *mut c_int,
    ) -> fdb_error_t;
    /// Decodes a snapshot file of a granule.
    #[cfg(since_730)]
    pub fn fdb_readbg_parse_snapshot_file(
        file_data: *const u8,
        file_len: c_int,
        tenant_prefix: *const FDBBGTenantPrefix,
        encryption_ctx: *const FDBBGEncryptionCtx,
    ) -> *mut FDBResult;
    /// Decodes a delta file of a granule.
    #[cfg(since_730)]
    pub fn fdb_readbg_parse_delta_file(
        file_data: *const u8,
        file_len: c_int,
        tenant_prefix: *const FDBBGTenantPrefix,
        encryption_ctx: *const FDBBGEncryptionCtx,
    ) -> *mut FDBResult;
    /// Gives the result back.
    #[cfg(since_710)]
    pub fn fdb_result_destroy(result: *mut FDBResult);
    /// Reads the rows of a result, and whether there are more.
    #[cfg(since_710)]
    pub fn fdb_result_get_keyvalue_array(
        result: *mut FDBResult,
        out_kv: *mut *const FDBKeyValue,
        out_count: *mut c_int,
        out_more: *mut fdb_bool_t,
    ) -> fdb_error_t;
    /// Reads the mutations of a result.
    #[cfg(since_730)]
    pub fn fdb_result_get_bg_mutations_array(
        result: *mut FDBResult,
        out_mutations: *mut *const FDBBGMutation,
        out_count: *mut c_int,
    ) -> fdb_error_t;
    /// Purges a range of granules up to a version.
    #[cfg(since_710)]
    pub fn fdb_database_purge_blob_granules(
        database: *mut FDBDatabase,
        begin_key: *const u8,
        begin_key_length: c_int,
        end_key: *const u8,
        end_key_length: c_int,
        purge_version: i64,
        force: fdb_bool_t,
    ) -> *mut FDBFuture;
    /// Waits for a purge.
    #[cfg(since_710)]
    pub fn fdb_database_wait_purge_granules_complete(
        database: *mut FDBDatabase,
        purge_key: *const u8,
        purge_key_length: c_int,
    ) -> *mut FDBFuture;
    /// Turns a range into granules.
    #[cfg(since_730)]
    pub fn fdb_database_blobbify_range(
        database: *mut FDBDatabase,
        begin_key: *const u8,
        begin_key_length: c_int,
        end_key: *const u8,
        end_key_length: c_int,
    ) -> *mut FDBFuture;
    /// Turns a range into granules and waits for it.
    #[cfg(since_730)]
    pub fn fdb_database_blobbify_range_blocking(
        database: *mut FDBDatabase,
        begin_key: *const u8,
        begin_key_length: c_int,
        end_key: *const u8,
        end_key_length: c_int,
    ) -> *mut FDBFuture;
    /// Stops keeping a range as granules.
    #[cfg(since_730)]
    pub fn fdb_database_unblobbify_range(
        database: *mut FDBDatabase,
        begin_key: *const u8,
        begin_key_length: c_int,
        end_key: *const u8,
        end_key_length: c_int,
    ) -> *mut FDBFuture;
    /// The ranges that are kept as granules.
    #[cfg(since_730)]
    pub fn fdb_database_list_blobbified_ranges(
        database: *mut FDBDatabase,
        begin_key: *const u8,
        begin_key_length: c_int,
        end_key: *const u8,
        end_key_length: c_int,
        range_limit: c_int,
    ) -> *mut FDBFuture;
    /// Checks that a range can be read from granules.
    #[cfg(since_730)]
    pub fn fdb_database_verify_blob_range(
        database: *mut FDBDatabase,
        begin_key: *const u8,
        begin_key_length: c_int,
        end_key: *const u8,
        end_key_length: c_int,
        version: i64,
    ) -> *mut FDBFuture;
    /// Writes a range of granules out.
    #[cfg(since_730)]
    pub fn fdb_database_flush_blob_range(
        database: *mut FDBDatabase,
        begin_key: *const u8,
        begin_key_length: c_int,
        end_key: *const u8,
        end_key_length: c_int,
        compact: fdb_bool_t,
        version: i64,
    ) -> *mut FDBFuture;
    /// Purges a range of the tenant's granules up to a version.
    #[cfg(since_730)]
    pub fn fdb_tenant_purge_blob_granules(
        tenant: *mut FDBTenant,
        begin_key: *const u8,
        begin_key_length: c_int,
        end_key: *const u8,
        end_key_length: c_int,
        purge_version: i64,
        force: fdb_bool_t,
    ) -> *mut FDBFuture;
    /// Waits for a purge.
    #[cfg(since_730)]
    pub fn fdb_tenant_wait_purge_granules_complete(
        tenant: *mut FDBTenant,
        purge_key: *const u8,
        purge_key_length: c_int,
    ) -> *mut FDBFuture;
    /// Turns a range of the tenant into granules.
    #[cfg(since_730)]
    pub fn fdb_tenant_blobbify_range(
        tenant: *mut FDBTenant,
        begin_key: *const u8,
        begin_key_length: c_int,
        end_key: *const u8,
        end_key_length: c_int,
    ) -> *mut FDBFuture;
    /// Turns a range of the tenant into granules and waits for it.
    #[cfg(since_730)]
    pub fn fdb_tenant_blobbify_range_blocking(
        tenant: *mut FDBTenant,
        begin_key: *const u8,
        begin_key_length: c_int,
        end_key: *const u8,
        end_key_length: c_int,
    ) -> *mut FDBFuture;
    /// Stops keeping a range of the tenant as granules.
    #[cfg(since_730)]
    pub fn fdb_tenant_unblobbify_range(
        tenant: *mut FDBTenant,
        begin_key: *const u8,
        begin_key_length: c_int,
        end_key: *const u8,
        end_key_length: c_int,
    ) -> *mut FDBFuture;
    /// The ranges of the tenant that are kept as granules.
    #[cfg(since_730)]
    pub fn fdb_tenant_list_blobbified_ranges(
        tenant: *mut FDBTenant,
        begin_key: *const u8,
        begin_key_length: c_int,
        end_key: *const u8,
        end_key_length: c_int,
        range_limit: c_int,
    ) -> *mut FDBFuture;
    /// Checks that a range of the tenant can be read from granules.
    #[cfg(since_730)]
    pub fn fdb_tenant_verify_blob_range(
        tenant: *mut FDBTenant,
        begin_key: *const u8,
        begin_key_length: c_int,
        end_key: *const u8,
        end_key_length: c_int,
        version: i64,
    ) -> *mut FDBFuture;
    /// Writes a range of the tenant's granules out.
    #[cfg(since_730)]
    pub fn fdb_tenant_flush_blob_range(
        tenant: *mut FDBTenant,
        begin_key: *const u8,
        begin_key_length: c_int,
        end_key: *const u8,
        end_key_length: c_int,
        compact: fdb_bool_t,
        version: i64,
    ) -> *mut FDBFuture;
    /// The granules of a range.
    #[cfg(all(since_710, not(since_730)))]
    pub fn fdb_transaction_get_blob_granule_ranges(
        transaction: *mut FDBTransaction,
        begin_key: *const u8,
        begin_key_length: c_int,
        end_key: *const u8,
        end_key_length: c_int,
    ) -> *mut FDBFuture;
    /// The granules of a range.
    #[cfg(since_730)]
    pub fn fdb_transaction_get_blob_granule_ranges(
        transaction: *mut FDBTransaction,
        begin_key: *const u8,
        begin_key_length: c_int,
        end_key: *const u8,
        end_key_length: c_int,
        range_limit: c_int,
    ) -> *mut FDBFuture;
    /// Reads a range from granules, through the caller's file functions.
    #[cfg(since_710)]
    pub fn fdb_transaction_read_blob_granules(
        transaction: *mut FDBTransaction,
        begin_key: *const u8,
        begin_key_length: c_int,
        end_key: *const u8,
        end_key_length: c_int,
        begin_version: i64,
        read_version: i64,
        context: FDBReadBlobGranuleContext,
    ) -> *mut FDBResult;
    /// Summaries of the granules of a range.
    #[cfg(since_730)]
    pub fn fdb_transaction_summarize_blob_granules(
        transaction: *mut FDBTransaction,
        begin_key: *const u8,
        begin_key_length: c_int,
        end_key: *const u8,
        end_key_length: c_int,
        summary_version: i64,
        range_limit: c_int,
    ) -> *mut FDBFuture;
    /// Which files the granules of a range are made of.
    #[cfg(since_730)]
    pub fn fdb_transaction_read_blob_granules_description(
        transaction: *mut FDBTransaction,
        begin_key: *const u8,
        begin_key_length: c_int,
        end_key: *const u8,
        end_key_length: c_int,
        begin_version: i64,
        read_version: i64,
        read_version_out: *mut i64,
    ) -> *mut FDBFuture;
}
