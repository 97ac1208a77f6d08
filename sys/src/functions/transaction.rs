//! Transactions.

use crate::{
    FDBConflictRangeType, FDBFuture, FDBMutationType, FDBStreamingMode, FDBTransaction,
    FDBTransactionOption, fdb_bool_t, fdb_error_t,
};
use std::os::raw::c_int;

unsafe extern "C" {
    /// Cancels what is outstanding and gives the transaction back.
    pub fn fdb_transaction_destroy(transaction: *mut FDBTransaction);
    /// Fails what is outstanding, and whatever follows until a reset.
    pub fn fdb_transaction_cancel(transaction: *mut FDBTransaction);
    /// Sets an option of the transaction; a null value means the option takes none.
    pub fn fdb_transaction_set_option(
        transaction: *mut FDBTransaction,
        option: FDBTransactionOption,
        value: *const u8,
        value_length: c_int,
    ) -> fdb_error_t;
    /// Reads at this version instead of asking for one.
    pub fn fdb_transaction_set_read_version(transaction: *mut FDBTransaction, version: i64);
    /// The version at which the transaction reads.
    pub fn fdb_transaction_get_read_version(transaction: *mut FDBTransaction) -> *mut FDBFuture;
    /// Reads one key.
    pub fn fdb_transaction_get(
        transaction: *mut FDBTransaction,
        key: *const u8,
        key_length: c_int,
        snapshot: fdb_bool_t,
    ) -> *mut FDBFuture;
    /// Resolves a key selector.
    pub fn fdb_transaction_get_key(
        transaction: *mut FDBTransaction,
        key: *const u8,
        key_length: c_int,
        or_equal: fdb_bool_t,
        offset: c_int,
        snapshot: fdb_bool_t,
    ) -> *mut FDBFuture;
    /// The addresses of the storage servers that hold a key.
    pub fn fdb_transaction_get_addresses_for_key(
        transaction: *mut FDBTransaction,
        key: *const u8,
        key_length: c_int,
    ) -> *mut FDBFuture;
    /// Reads the rows between two key selectors.
    pub fn fdb_transaction_get_range(
        transaction: *mut FDBTransaction,
        begin_key: *const u8,
        begin_key_length: c_int,
        begin_or_equal: fdb_bool_t,
        begin_offset: c_int,
        end_key: *const u8,
        end_key_length: c_int,
        end_or_equal: fdb_bool_t,
        end_offset: c_int,
        limit: c_int,
        target_bytes: c_int,
        mode: FDBStreamingMode,
        iteration: c_int,
        snapshot: fdb_bool_t,
        reverse: fdb_bool_t,
    ) -> *mut FDBFuture;
    /// Reads the rows between two key selectors and, for each, the rows its mapper names.
    #[cfg(since_710)]
    pub fn fdb_transaction_get_mapped_range(
        transaction: *mut FDBTransaction,
        begin_key: *const u8,
        begin_key_length: c_int,
        begin_or_equal: fdb_bool_t,
        begin_offset: c_int,
        end_key: *const u8,
        end_key_length: c_int,
        end_or_equal: fdb_bool_t,
        end_offset: c_int,
        mapper: *const u8,
        mapper_length: c_int,
        limit: c_int,
        target_bytes: c_int,
        mode: FDBStreamingMode,
        iteration: c_int,
        snapshot: fdb_bool_t,
        reverse: fdb_bool_t,
    ) -> *mut FDBFuture;
    /// Writes one key.
    pub fn fdb_transaction_set(
        transaction: *mut FDBTransaction,
        key: *const u8,
        key_length: c_int,
        value: *const u8,
        value_length: c_int,
    );
    /// Applies one of the `FDBMutationType` operations to a key.
    pub fn fdb_transaction_atomic_op(
        transaction: *mut FDBTransaction,
        key: *const u8,
        key_length: c_int,
        param: *const u8,
        param_length: c_int,
        operation_type: FDBMutationType,
    );
    /// Clears one key.
    pub fn fdb_transaction_clear(
        transaction: *mut FDBTransaction,
        key: *const u8,
        key_length: c_int,
    );
    /// Clears the keys from the first to before the second.
    pub fn fdb_transaction_clear_range(
        transaction: *mut FDBTransaction,
        begin_key: *const u8,
        begin_key_length: c_int,
        end_key: *const u8,
        end_key_length: c_int,
    );
    /// Becomes ready when the value of a key changes.
    pub fn fdb_transaction_watch(
        transaction: *mut FDBTransaction,
        key: *const u8,
        key_length: c_int,
    ) -> *mut FDBFuture;
    /// Commits.
    pub fn fdb_transaction_commit(transaction: *mut FDBTransaction) -> *mut FDBFuture;
    /// The version of a finished commit, or -1.
    pub fn fdb_transaction_get_committed_version(
        transaction: *mut FDBTransaction,
        out_version: *mut i64,
    ) -> fdb_error_t;
    /// How long the transaction waited because of its tags, in seconds.
    #[cfg(since_730)]
    pub fn fdb_transaction_get_tag_throttled_duration(
        transaction: *mut FDBTransaction,
    ) -> *mut FDBFuture;
    /// What the transaction cost so far, in bytes.
    #[cfg(since_730)]
    pub fn fdb_transaction_get_total_cost(transaction: *mut FDBTransaction) -> *mut FDBFuture;
    /// About how large the commit would be, in bytes.
    #[cfg(since_620)]
    pub fn fdb_transaction_get_approximate_size(transaction: *mut FDBTransaction)
    -> *mut FDBFuture;
    /// The versionstamp of the commit, once it is done.
    pub fn fdb_transaction_get_versionstamp(transaction: *mut FDBTransaction) -> *mut FDBFuture;
    /// Waits as the error demands and readies the transaction for another try.
    pub fn fdb_transaction_on_error(
        transaction: *mut FDBTransaction,
        error: fdb_error_t,
    ) -> *mut FDBFuture;
    /// Back to how the transaction was created.
    pub fn fdb_transaction_reset(transaction: *mut FDBTransaction);
    /// Adds a range to what the transaction has read or written.
    pub fn fdb_transaction_add_conflict_range(
        transaction: *mut FDBTransaction,
        begin_key: *const u8,
        begin_key_length: c_int,
        end_key: *const u8,
        end_key_length: c_int,
        type_: FDBConflictRangeType,
    ) -> fdb_error_t;
    /// About how many bytes a range holds.
    #[cfg(since_630)]
    pub fn fdb_transaction_get_estimated_range_size_bytes(
        transaction: *mut FDBTransaction,
        begin_key: *const u8,
        begin_key_length: c_int,
        end_key: *const u8,
        end_key_length: c_int,
    ) -> *mut FDBFuture;
    /// Keys that cut a range into pieces of about a size.
    #[cfg(since_700)]
    pub fn fdb_transaction_get_range_split_points(
        transaction: *mut FDBTransaction,
        begin_key: *const u8,
        begin_key_length: c_int,
        end_key: *const u8,
        end_key_length: c_int,
        chunk_size: i64,
    ) -> *mut FDBFuture;
}
