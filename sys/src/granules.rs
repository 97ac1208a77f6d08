//! The types of blob granules, since API version 710; all but the read context since 730.

use crate::fdb_bool_t;
use crate::types::assert_layout;
#[cfg(since_730)]
use crate::{FDBKey, FDBKeyRange};
use std::os::raw::{c_char, c_int, c_void};

/// The functions through which a read of granules loads its files.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct FDBReadBlobGranuleContext {
    /// Handed to each function.
    pub userContext: *mut c_void,
    /// Begins to load a part of a file and names the load.
    pub start_load_f: Option<
        unsafe extern "C" fn(
            filename: *const c_char,
            filename_length: c_int,
            offset: i64,
            length: i64,
            full_file_length: i64,
            context: *mut c_void,
        ) -> i64,
    >,
    /// Waits for a load and gives its bytes.
    pub get_load_f: Option<unsafe extern "C" fn(load: i64, context: *mut c_void) -> *mut u8>,
    /// Gives the bytes of a load back.
    pub free_load_f: Option<unsafe extern "C" fn(load: i64, context: *mut c_void)>,
    /// Whether to load without decoding.
    pub debugNoMaterialize: fdb_bool_t,
    /// How many granules to load at a time.
    pub granuleParallelism: c_int,
}

/// The struct behind [`FDBReadBlobGranuleContext`], as C calls it.
pub type readgranulecontext = FDBReadBlobGranuleContext;

assert_layout!(
    FDBReadBlobGranuleContext, size 40, align 8,
    userContext @ 0, start_load_f @ 8, get_load_f @ 16, free_load_f @ 24, debugNoMaterialize @ 32,
    granuleParallelism @ 36,
);

/// How large a granule is and how far it reaches.
#[cfg(since_730)]
#[repr(C, packed(4))]
#[derive(Debug, Copy, Clone)]
pub struct FDBGranuleSummary {
    /// The keys of the granule.
    pub key_range: FDBKeyRange,
    /// The version of its snapshot file.
    pub snapshot_version: i64,
    /// Bytes in its snapshot file.
    pub snapshot_size: i64,
    /// The version its delta files reach.
    pub delta_version: i64,
    /// Bytes in its delta files.
    pub delta_size: i64,
}

/// The struct behind [`FDBGranuleSummary`], as C calls it.
#[cfg(since_730)]
pub type granulesummary = FDBGranuleSummary;

#[cfg(since_730)]
assert_layout!(
    FDBGranuleSummary, size 56, align 4,
    key_range @ 0, snapshot_version @ 24, snapshot_size @ 32, delta_version @ 40, delta_size @ 48,
);

/// The prefix of a tenant, if there is one.
#[cfg(since_730)]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct FDBBGTenantPrefix {
    /// Whether there is one.
    pub present: fdb_bool_t,
    /// The prefix.
    pub prefix: FDBKey,
}

/// The struct behind [`FDBBGTenantPrefix`], as C calls it.
#[cfg(since_730)]
pub type bgtenantprefix = FDBBGTenantPrefix;

#[cfg(since_730)]
assert_layout!(FDBBGTenantPrefix, size 16, align 4, present @ 0, prefix @ 4);

/// A key that a granule's file is encrypted with.
#[cfg(since_730)]
#[repr(C, packed(4))]
#[derive(Debug, Copy, Clone)]
pub struct FDBBGEncryptionKey {
    /// The domain it belongs to.
    pub domain_id: i64,
    /// The number of the key it was derived from.
    pub base_key_id: u64,
    /// The check value of the key it was derived from.
    pub base_kcv: u32,
    /// The salt it was derived with.
    pub random_salt: u64,
    /// Its bytes.
    pub base_key: FDBKey,
}

/// The struct behind [`FDBBGEncryptionKey`], as C calls it.
#[cfg(since_730)]
pub type bgencryptionkey = FDBBGEncryptionKey;

#[cfg(since_730)]
assert_layout!(
    FDBBGEncryptionKey, size 40, align 4,
    domain_id @ 0, base_key_id @ 8, base_kcv @ 16, random_salt @ 20, base_key @ 28,
);

/// How a granule's file is encrypted, if it is.
#[cfg(since_730)]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct FDBBGEncryptionCtx {
    /// Whether it is.
    pub present: fdb_bool_t,
    /// The key of the text.
    pub textKey: FDBBGEncryptionKey,
    /// The check value of that key.
    pub textKCV: u32,
    /// The key of the header.
    pub headerKey: FDBBGEncryptionKey,
    /// The check value of that key.
    pub headerKCV: u32,
    /// The initialisation vector.
    pub iv: FDBKey,
}

/// The struct behind [`FDBBGEncryptionCtx`], as C calls it.
#[cfg(since_730)]
pub type bgencryptionctx = FDBBGEncryptionCtx;

#[cfg(since_730)]
assert_layout!(
    FDBBGEncryptionCtx, size 104, align 4,
    present @ 0, textKey @ 4, textKCV @ 44, headerKey @ 48, headerKCV @ 88, iv @ 92,
);

/// A part of a granule's file.
#[cfg(since_730)]
#[repr(C, packed(4))]
#[derive(Debug, Copy, Clone)]
pub struct FDBBGFilePointer {
    /// First byte of its name.
    pub filename_ptr: *const u8,
    /// Bytes in its name.
    pub filename_length: c_int,
    /// Where the part begins.
    pub file_offset: i64,
    /// Bytes in the part.
    pub file_length: i64,
    /// Bytes in the whole file.
    pub full_file_length: i64,
    /// The version of the file.
    pub file_version: i64,
    /// How it is encrypted.
    pub encryption_ctx: FDBBGEncryptionCtx,
}

/// The struct behind [`FDBBGFilePointer`], as C calls it.
#[cfg(since_730)]
pub type bgfilepointer = FDBBGFilePointer;

#[cfg(since_730)]
assert_layout!(
    FDBBGFilePointer, size 148, align 4,
    filename_ptr @ 0, filename_length @ 8, file_offset @ 12, file_length @ 20, full_file_length @ 28,
    file_version @ 36, encryption_ctx @ 44,
);

/// A mutation inside a granule; its type determines what its parameters mean.
#[cfg(since_730)]
#[repr(C, packed(4))]
#[derive(Debug, Copy, Clone)]
pub struct FDBBGMutation {
    /// One of the `FDBBGMutationType` numbers.
    pub type_: u8,
    /// The version of the mutation.
    pub version: i64,
    /// First byte of the first parameter.
    pub param1_ptr: *const u8,
    /// Bytes in the first parameter.
    pub param1_length: c_int,
    /// First byte of the second parameter.
    pub param2_ptr: *const u8,
    /// Bytes in the second parameter.
    pub param2_length: c_int,
}

/// The struct behind [`FDBBGMutation`], as C calls it.
#[cfg(since_730)]
pub type bgmutation = FDBBGMutation;

#[cfg(since_730)]
assert_layout!(
    FDBBGMutation, size 36, align 4,
    type_ @ 0, version @ 4, param1_ptr @ 12, param1_length @ 20, param2_ptr @ 24, param2_length @ 32,
);

/// The files and mutations that a granule is made of.
#[cfg(since_730)]
#[repr(C, packed(4))]
#[derive(Debug, Copy, Clone)]
pub struct FDBBGFileDescription {
    /// The keys of the granule.
    pub key_range: FDBKeyRange,
    /// Whether it has a snapshot file.
    pub snapshot_present: fdb_bool_t,
    /// Its snapshot file.
    pub snapshot_file_pointer: FDBBGFilePointer,
    /// How many delta files.
    pub delta_file_count: c_int,
    /// Its delta files.
    pub delta_files: *mut FDBBGFilePointer,
    /// How many mutations that are in no file yet.
    pub memory_mutation_count: c_int,
    /// Those mutations.
    pub memory_mutations: *mut FDBBGMutation,
    /// The prefix of the tenant it belongs to.
    pub tenant_prefix: FDBBGTenantPrefix,
}

/// The struct behind [`FDBBGFileDescription`], as C calls it.
#[cfg(since_730)]
pub type bgfiledescription = FDBBGFileDescription;

#[cfg(since_730)]
assert_layout!(
    FDBBGFileDescription, size 216, align 4,
    key_range @ 0, snapshot_present @ 24, snapshot_file_pointer @ 28, delta_file_count @ 176,
    delta_files @ 180, memory_mutation_count @ 188, memory_mutations @ 192, tenant_prefix @ 200,
);
