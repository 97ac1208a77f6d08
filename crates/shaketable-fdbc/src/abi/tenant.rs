//! The functions of tenants. The cluster's tenant mode is `disabled`, as FoundationDB's is unless
//! it is configured otherwise: a tenant can be opened, and everything inside it fails with 2136.

use super::{borrow, failed, take, write};
use crate::database::FDBDatabase;
use crate::future::FDBFuture;
use crate::transaction::FDBTransaction;
use crate::types::fdb_error_t;
use crate::universe::Universe;
use shaketable_cluster::error::Error;
use std::ffi::c_int;
use std::sync::Arc;

/// What `FDBTenant*` points to.
pub struct FDBTenant {
    universe: Arc<Universe>,
}

/// Opens a tenant by name; if there is none, using it fails.
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
    // SAFETY: the contract of the header.
    let universe = unsafe { borrow(database) }.universe.clone();
    let tenant = Arc::new(FDBTenant { universe });
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
    let universe = unsafe { borrow(tenant) }.universe.clone();
    let transaction = FDBTransaction::refused(universe, Error::TENANTS_DISABLED);
    // SAFETY: the contract of the header.
    unsafe { write(out_transaction, Arc::into_raw(transaction).cast_mut()) }
    0
}

/// The number of the tenant.
#[unsafe(no_mangle)]
pub extern "C" fn fdb_tenant_get_id(_tenant: *mut FDBTenant) -> *mut FDBFuture {
    failed(Error::TENANTS_DISABLED)
}

/// Gives the tenant back; its transactions live on.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_tenant_destroy(tenant: *mut FDBTenant) {
    // SAFETY: the contract of the header.
    drop(unsafe { take(tenant) });
}
