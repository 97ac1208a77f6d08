//! Handles, keys and rows: the types that every part of the API shares.
//!
//! Rows come in arrays whose elements are packed to four bytes, so a pointer inside one is often
//! not aligned: read it by value, never through a reference. Sizes and offsets are checked while
//! compiling.

use std::os::raw::{c_int, c_void};

/// An error code; 0 is success.
pub type fdb_error_t = c_int;
/// A truth value of C.
pub type fdb_bool_t = c_int;

/// Declares the handles, which only the library can look into.
macro_rules! handles {
    ($($(#[$attribute:meta])* $name:ident = $alias:ident;)+) => {$(
        $(#[$attribute])*
        #[repr(C)]
        #[derive(Debug, Copy, Clone)]
        pub struct $name {
            _unused: [u8; 0],
        }

        $(#[$attribute])*
        pub type $alias = $name;
    )+};
}

handles! {
    /// A result that is or will be there.
    FDB_future = FDBFuture;
    /// An open database.
    FDB_database = FDBDatabase;
    /// A transaction.
    FDB_transaction = FDBTransaction;
    /// An open cluster, of API versions before 610.
    #[cfg(any(not(since_610), since_710))]
    FDB_cluster = FDBCluster;
    /// A result that is complete when it is returned.
    #[cfg(since_710)]
    FDB_result = FDBResult;
    /// An open tenant.
    #[cfg(since_710)]
    FDB_tenant = FDBTenant;
}

/// Called when a future is ready, on the network's thread or inside `fdb_future_set_callback`.
pub type FDBCallback = Option<unsafe extern "C" fn(future: *mut FDBFuture, parameter: *mut c_void)>;

/// What a row's pointers point to: headers before API version 630 left it open.
#[cfg(not(since_630))]
type RowByte = c_void;
#[cfg(since_630)]
type RowByte = u8;

/// One row of a range.
#[repr(C, packed(4))]
#[derive(Debug, Copy, Clone)]
pub struct FDBKeyValue {
    /// First byte of the key.
    pub key: *const RowByte,
    /// Bytes in the key.
    pub key_length: c_int,
    /// First byte of the value.
    pub value: *const RowByte,
    /// Bytes in the value.
    pub value_length: c_int,
}

/// The struct behind [`FDBKeyValue`], as C calls it.
pub type keyvalue = FDBKeyValue;

/// A key.
#[cfg(since_700)]
#[repr(C, packed(4))]
#[derive(Debug, Copy, Clone)]
pub struct FDBKey {
    /// First byte of the key.
    pub key: *const u8,
    /// Bytes in the key.
    pub key_length: c_int,
}

/// The struct behind [`FDBKey`], as C calls it.
#[cfg(since_700)]
pub type key = FDBKey;

/// The keys from one to before another.
#[cfg(since_710)]
#[repr(C, packed(4))]
#[derive(Debug, Copy, Clone)]
pub struct FDBKeyRange {
    /// First byte of the first key.
    pub begin_key: *const u8,
    /// Bytes in the first key.
    pub begin_key_length: c_int,
    /// First byte of the key after the last.
    pub end_key: *const u8,
    /// Bytes in the key after the last.
    pub end_key_length: c_int,
}

/// The struct behind [`FDBKeyRange`], as C calls it.
#[cfg(since_710)]
pub type keyrange = FDBKeyRange;

/// A key selector as a mapped range reports it.
#[cfg(since_710)]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct FDBKeySelector {
    /// The key it starts from.
    pub key: FDBKey,
    /// Whether that key itself counts.
    pub orEqual: fdb_bool_t,
    /// How many keys to go from there.
    pub offset: c_int,
}

/// The struct behind [`FDBKeySelector`], as C calls it.
#[cfg(since_710)]
pub type keyselector = FDBKeySelector;

/// The second read of a mapped range: what was asked and the rows it gave.
#[cfg(since_710)]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct FDBGetRangeReqAndResult {
    /// Where the read began.
    pub begin: FDBKeySelector,
    /// Where it ended.
    pub end: FDBKeySelector,
    /// Its rows.
    pub data: *mut FDBKeyValue,
    /// How many rows.
    pub m_size: c_int,
    /// Room for how many.
    pub m_capacity: c_int,
}

/// The struct behind [`FDBGetRangeReqAndResult`], as C calls it.
#[cfg(since_710)]
pub type getrangereqandresult = FDBGetRangeReqAndResult;

/// One row of a mapped range.
#[cfg(since_710)]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct FDBMappedKeyValue {
    /// The key of the row.
    pub key: FDBKey,
    /// The value of the row.
    pub value: FDBKey,
    /// The read that the row led to.
    pub getRange: FDBGetRangeReqAndResult,
    /// Room that the library keeps for itself.
    pub buffer: [u8; 32],
}

/// The struct behind [`FDBMappedKeyValue`], as C calls it.
#[cfg(since_710)]
pub type mappedkeyvalue = FDBMappedKeyValue;

/// Asserts, while compiling, the size, alignment and offsets that a 64-bit C compiler gives a
/// struct.
macro_rules! assert_layout {
    ($type:ident, size $size:literal, align $align:literal, $($field:ident @ $offset:literal),+ $(,)?) => {
        #[cfg(target_pointer_width = "64")]
        const _: () = {
            assert!(size_of::<$crate::$type>() == $size);
            assert!(align_of::<$crate::$type>() == $align);
            $(assert!(std::mem::offset_of!($crate::$type, $field) == $offset);)+
        };
    };
}
#[cfg(since_710)]
pub(crate) use assert_layout;

assert_layout!(FDBKeyValue, size 24, align 4, key @ 0, key_length @ 8, value @ 12, value_length @ 20);

#[cfg(since_700)]
assert_layout!(FDBKey, size 12, align 4, key @ 0, key_length @ 8);

#[cfg(since_710)]
assert_layout!(
    FDBKeyRange, size 24, align 4,
    begin_key @ 0, begin_key_length @ 8, end_key @ 12, end_key_length @ 20,
);

#[cfg(since_710)]
assert_layout!(FDBKeySelector, size 20, align 4, key @ 0, orEqual @ 12, offset @ 16);

#[cfg(since_710)]
assert_layout!(
    FDBGetRangeReqAndResult, size 56, align 8,
    begin @ 0, end @ 20, data @ 40, m_size @ 48, m_capacity @ 52,
);

#[cfg(since_710)]
assert_layout!(
    FDBMappedKeyValue, size 112, align 8,
    key @ 0, value @ 12, getRange @ 24, buffer @ 80,
);
