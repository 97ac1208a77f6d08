//! The functions of tenants. The cluster's tenant mode is `disabled`, as FoundationDB's is unless
//! it is configured otherwise, so that no tenant exists: one can be opened and transactions begun
//! in it, and what needs the tenant itself fails with 2131. FoundationDB 8.0 has no tenants at all;
//! its functions end the program, and here opening a tenant fails at API version 800.

use super::{borrow, take, write};
use crate::admin;
use crate::database::FDBDatabase;
use crate::future::FDBFuture;
use crate::transaction::FDBTransaction;
use crate::types::fdb_error_t;
use crate::version;
use shaketable_cluster::error::Error;
use shaketable_cluster::release::Release;
use std::ffi::c_int;
use std::sync::Arc;

/// What `FDBTenant*` points to.
pub struct FDBTenant {
    /// A handle of its own: the program may destroy the one that it opened the tenant with.
    database: Arc<FDBDatabase>,
}

/// Opens a tenant by name; there is none of any name.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_database_open_tenant(
    database: *mut FDBDatabase,
    _tenant_name: *const u8,
    _tenant_name_length: c_int,
    out_tenant: *mut *mut FDBTenant,
) -> fdb_error_t {
    if version::release() == Release::V8_0 {
        return Error::UNSUPPORTED_OPERATION.0;
    }
    // SAFETY: the contract of the header.
    let database = unsafe { borrow(database) }.share();
    let tenant = Arc::new(FDBTenant { database });
    // SAFETY: the contract of the header.
    unsafe { write(out_tenant, Arc::into_raw(tenant).cast_mut()) }
    0
}

/// Begins a transaction inside the tenant.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_tenant_create_transaction(
    tenant: *mut FDBTenant,
    out_transaction: *mut *mut FDBTransaction,
) -> fdb_error_t {
    // SAFETY: the contract of the header.
    let tenant = unsafe { borrow(tenant) };
    let transaction = tenant.database.create_tenant_transaction();
    // SAFETY: the contract of the header.
    unsafe { write(out_transaction, Arc::into_raw(transaction).cast_mut()) }
    0
}

/// The number of the tenant.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_tenant_get_id(tenant: *mut FDBTenant) -> *mut FDBFuture {
    // SAFETY: the contract of the header.
    let tenant = unsafe { borrow(tenant) };
    admin::answer(&tenant.database, Err(Error::TENANT_NOT_FOUND)).into_raw()
}

/// Gives the tenant back; its transactions live on.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_tenant_destroy(tenant: *mut FDBTenant) {
    // SAFETY: the contract of the header.
    if let Some(tenant) = unsafe { take(tenant) } {
        tenant.database.clone().destroy();
    }
}
