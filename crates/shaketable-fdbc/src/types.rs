//! The types of `fdb_c.h` that are passed by value, laid out as a 64-bit C compiler lays them out.
//!
//! Handles ([`FDBFuture`](crate::FDBFuture) and its sisters) are opaque to C and live in their own
//! modules. Arrays of keys and rows are packed to four bytes, so that an element's pointers are
//! often not aligned; they are only ever written here and read by the program on the other side.
//! Sizes and offsets are checked while compiling.

use std::ffi::{c_int, c_void};

/// An error code; 0 is success.
#[allow(non_camel_case_types)]
pub type fdb_error_t = c_int;

/// A truth value of C.
#[allow(non_camel_case_types)]
pub type fdb_bool_t = c_int;

/// Called when a future is ready: on the network's thread, or inside `fdb_future_set_callback`.
pub type FDBCallback = Option<unsafe extern "C" fn(*mut crate::FDBFuture, *mut c_void)>;

/// A key.
#[repr(C, packed(4))]
#[derive(Clone, Copy, Debug)]
pub struct FDBKey {
    /// First byte; never null.
    pub key: *const u8,
    /// Bytes in the key.
    pub key_length: c_int,
}

/// One row of a range.
#[repr(C, packed(4))]
#[derive(Clone, Copy, Debug)]
pub struct FDBKeyValue {
    /// First byte of the key; never null.
    pub key: *const u8,
    /// Bytes in the key.
    pub key_length: c_int,
    /// First byte of the value; never null.
    pub value: *const u8,
    /// Bytes in the value.
    pub value_length: c_int,
}

/// The keys from one to before another.
#[repr(C, packed(4))]
#[derive(Clone, Copy, Debug)]
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

/// A key selector as a mapped row reports it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FDBKeySelector {
    /// The key it starts from.
    pub key: FDBKey,
    /// Whether that key itself counts.
    pub or_equal: fdb_bool_t,
    /// How many keys to go from there.
    pub offset: c_int,
}

/// The second read of a mapped row: what was asked, and the rows it gave.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FDBGetRangeReqAndResult {
    /// Where the read began.
    pub begin: FDBKeySelector,
    /// Where it ended.
    pub end: FDBKeySelector,
    /// Its rows.
    pub data: *const FDBKeyValue,
    /// How many rows.
    pub m_size: c_int,
    /// Room for how many.
    pub m_capacity: c_int,
}

/// One row of a mapped range.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FDBMappedKeyValue {
    /// The key of the row.
    pub key: FDBKey,
    /// The value of the row.
    pub value: FDBKey,
    /// The read that the row led to.
    pub get_range: FDBGetRangeReqAndResult,
    /// Room that FoundationDB keeps for itself; always zero here.
    pub buffer: [u8; 32],
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<FDBKey>() == 12 && align_of::<FDBKey>() == 4);
    assert!(size_of::<FDBKeyValue>() == 24 && offset_of!(FDBKeyValue, value) == 12);
    assert!(size_of::<FDBKeyRange>() == 24 && offset_of!(FDBKeyRange, end_key) == 12);
    assert!(size_of::<FDBKeySelector>() == 20 && align_of::<FDBKeySelector>() == 4);
    assert!(size_of::<FDBGetRangeReqAndResult>() == 56);
    assert!(offset_of!(FDBGetRangeReqAndResult, data) == 40);
    assert!(size_of::<FDBMappedKeyValue>() == 112);
    assert!(offset_of!(FDBMappedKeyValue, get_range) == 24);
    assert!(offset_of!(FDBMappedKeyValue, buffer) == 80);
};
