//! Tenants, since API version 710.

#![cfg(since_710)]

#[cfg(since_730)]
use crate::FDBFuture;
use crate::{FDBDatabase, FDBTenant, FDBTransaction, fdb_error_t};
use std::os::raw::c_int;

unsafe extern "C" {
    /// Opens a tenant by name.
    #[cfg(since_710)]
    pub fn fdb_database_open_tenant(
        database: *mut FDBDatabase,
        tenant_name: *const u8,
        tenant_name_length: c_int,
        out_tenant: *mut *mut FDBTenant,
    ) -> fdb_error_t;
    /// Begins a transaction inside the tenant.
    #[cfg(since_710)]
    pub fn fdb_tenant_create_transaction(
        tenant: *mut FDBTenant,
        out_transaction: *mut *mut FDBTransaction,
    ) -> fdb_error_t;
    /// The number of the tenant.
    #[cfg(since_730)]
    pub fn fdb_tenant_get_id(tenant: *mut FDBTenant) -> *mut FDBFuture;
    /// Gives the tenant back.
    #[cfg(since_710)]
    pub fn fdb_tenant_destroy(tenant: *mut FDBTenant);
}
