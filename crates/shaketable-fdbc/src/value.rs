//! What a future can hold, in the shape in which C reads it.
//!
//! A value is built once, on the kernel's thread, and never changes until it is dropped; the
//! pointers that a getter hands out point into it. Rows are packed when the value is built rather
//! than when it is read: a getter must not allocate, and may be called from several threads at
//! once. An empty key or value has a pointer that is not null, because bindings make slices of it
//! without looking.

use crate::legacy::FDBCluster;
use crate::network::ClusterName;
use crate::types::{
    FDBGetRangeReqAndResult, FDBKey, FDBKeySelector, FDBKeyValue, FDBMappedKeyValue,
};
use bytes::Bytes;
use shaketable_cluster::proto::{KeyValue, KeyValues, MappedKeyValue, MappedKeyValues};
use std::ffi::{CString, c_char, c_int};
use std::sync::Arc;

/// The result of a successful operation.
pub(crate) enum Value {
    /// Nothing but success.
    Void,
    /// A version, a size, a number.
    Int64(i64),
    /// A protocol version.
    Uint64(u64),
    /// A duration.
    Double(f64),
    /// A key that is there.
    Key(Bytes),
    /// A value that may be absent.
    Optional(Option<Bytes>),
    /// The rows of a range.
    Rows(Rows),
    /// The rows of a mapped range.
    MappedRows(MappedRows),
    /// Several keys.
    Keys(Keys),
    /// Several strings that end with a zero byte.
    Strings(Strings),
    /// A cluster of the API before version 610.
    Cluster(Arc<FDBCluster>),
    /// The name of the database that `fdb_future_get_database` opens, before API version 610.
    Database(ClusterName),
}

/// Rows and their packed form. The packed pointers point into `owners`.
pub(crate) struct Rows {
    packed: Vec<FDBKeyValue>,
    pub(crate) more: bool,
    owners: Vec<KeyValue>,
}

/// Mapped rows and their packed form.
pub(crate) struct MappedRows {
    packed: Vec<FDBMappedKeyValue>,
    pub(crate) more: bool,
    _secondary: Vec<Vec<FDBKeyValue>>,
    owners: MappedKeyValues,
}

/// Keys and their packed form.
pub(crate) struct Keys {
    packed: Vec<FDBKey>,
    _owners: Vec<Bytes>,
}

/// Strings and the array of pointers to them.
pub(crate) struct Strings {
    packed: Vec<*const c_char>,
    _owners: Vec<CString>,
}

// SAFETY: the raw pointers inside point into buffers that the same value owns and that nothing
// changes while it lives (`Bytes` and `CString` keep their bytes on the heap, so moving the value
// does not move them); sharing them between threads is sharing immutable memory.
unsafe impl Send for Value {}
// SAFETY: as above: everything reachable is immutable after construction.
unsafe impl Sync for Value {}

impl Rows {
    pub(crate) fn new(rows: KeyValues) -> Rows {
        Rows {
            packed: rows.rows.iter().map(pack_row).collect(),
            more: rows.more,
            owners: rows.rows,
        }
    }

    pub(crate) fn as_slice(&self) -> &[FDBKeyValue] {
        &self.packed
    }

    pub(crate) fn owners(&self) -> &[KeyValue] {
        &self.owners
    }
}

impl MappedRows {
    pub(crate) fn new(rows: MappedKeyValues) -> MappedRows {
        let secondary: Vec<Vec<FDBKeyValue>> = rows
            .rows
            .iter()
            .map(|row| row.rows.iter().map(pack_row).collect())
            .collect();
        let packed = rows
            .rows
            .iter()
            .zip(&secondary)
            .map(|(row, found)| FDBMappedKeyValue {
                key: pack_key(&row.row.key),
                value: pack_key(&row.row.value),
                get_range: FDBGetRangeReqAndResult {
                    begin: first_greater_or_equal(&row.range.begin),
                    end: first_greater_or_equal(&row.range.end),
                    data: found.as_ptr(),
                    m_size: found.len() as c_int,
                    m_capacity: found.len() as c_int,
                },
                buffer: [0; 32],
            })
            .collect();
        MappedRows {
            packed,
            more: rows.more,
            _secondary: secondary,
            owners: rows,
        }
    }

    pub(crate) fn as_slice(&self) -> &[FDBMappedKeyValue] {
        &self.packed
    }

    pub(crate) fn owners(&self) -> &[MappedKeyValue] {
        &self.owners.rows
    }
}

impl Keys {
    pub(crate) fn new(keys: Vec<Bytes>) -> Keys {
        Keys {
            packed: keys.iter().map(|key| pack_key(key)).collect(),
            _owners: keys,
        }
    }

    pub(crate) fn as_slice(&self) -> &[FDBKey] {
        &self.packed
    }
}

impl Strings {
    /// Zero bytes inside a string are left out: C would take the first for its end.
    pub(crate) fn new<S: Into<Vec<u8>>>(strings: impl IntoIterator<Item = S>) -> Strings {
        let owners: Vec<CString> = strings
            .into_iter()
            .map(|string| {
                let mut bytes = string.into();
                bytes.retain(|byte| *byte != 0);
                CString::new(bytes).unwrap_or_default()
            })
            .collect();
        Strings {
            packed: owners.iter().map(|string| string.as_ptr()).collect(),
            _owners: owners,
        }
    }

    pub(crate) fn as_slice(&self) -> &[*const c_char] {
        &self.packed
    }
}

fn pack_row(row: &KeyValue) -> FDBKeyValue {
    FDBKeyValue {
        key: row.key.as_ptr(),
        key_length: row.key.len() as c_int,
        value: row.value.as_ptr(),
        value_length: row.value.len() as c_int,
    }
}

fn pack_key(key: &[u8]) -> FDBKey {
    FDBKey {
        key: key.as_ptr(),
        key_length: key.len() as c_int,
    }
}

fn first_greater_or_equal(key: &[u8]) -> FDBKeySelector {
    FDBKeySelector {
        key: pack_key(key),
        or_equal: 0,
        offset: 1,
    }
}
