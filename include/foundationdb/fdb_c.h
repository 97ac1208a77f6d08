/* Written by conformance/headers.py; do not edit. */
/* The C API of FoundationDB, as our libfdb_c has it.
 *
 * A program says first which version of the API it was written for:
 *
 *     #define FDB_API_VERSION 740
 *     #include <foundationdb/fdb_c.h>
 *
 * then calls fdb_select_api_version, sets the network up, lends it a thread that runs it, opens a database, and stops the
 * network at its end. Whatever is handed to a function is copied before it returns. A function that returns a future
 * returns before anything has happened; what a future's getters hand out lives as long as the future. */
#ifndef FDB_C_H
#define FDB_C_H

#include "fdb_c_apiversion.g.h"

#ifdef FDB_USE_LATEST_API_VERSION
#define FDB_API_VERSION FDB_LATEST_API_VERSION
#elif defined(FDB_USE_LATEST_BINDINGS_API_VERSION)
#define FDB_API_VERSION FDB_LATEST_BINDINGS_API_VERSION
#endif
#ifndef FDB_API_VERSION
#error "define FDB_API_VERSION before this header is included"
#elif FDB_API_VERSION < 23
#error "this header has no declarations for an FDB_API_VERSION before 23"
#elif FDB_API_VERSION > 800
#error "this header is older than the FDB_API_VERSION that is asked of it"
#endif

#include "fdb_c_options.g.h"
#include "fdb_c_types.h"

/* The four common key selectors, as the arguments of a read: bytes, length, whether the key itself counts, offset. */
#define FDB_KEYSEL_LAST_LESS_THAN(key, length) key, length, 0, 0
#define FDB_KEYSEL_LAST_LESS_OR_EQUAL(key, length) key, length, 1, 0
#define FDB_KEYSEL_FIRST_GREATER_THAN(key, length) key, length, 1, 1
#define FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(key, length) key, length, 0, 1

/* Selects how the library behaves, once and before anything else. The second form is content with a library that is older
 * than this header. */
#define fdb_select_api_version(version) fdb_select_api_version_impl(version, FDB_API_VERSION)
#define fdb_select_api_version_capped(version)                                                                         \
    fdb_select_api_version_impl(                                                                                       \
        version, FDB_API_VERSION < fdb_get_max_api_version() ? FDB_API_VERSION : fdb_get_max_api_version())

#ifdef __cplusplus
extern "C" {
#endif

/* Errors, the API version, the network. */
/* The text of an error code, as a static string. */
DLLEXPORT const char *fdb_get_error(fdb_error_t code);
/* Returns whether one of the `FDBErrorPredicate` predicates holds for an error code. */
DLLEXPORT fdb_bool_t fdb_error_predicate(int predicate, fdb_error_t code);
/* Sets an option of the network; a null value means the option takes none. */
DLLEXPORT fdb_error_t fdb_network_set_option(FDBNetworkOption option, const uint8_t *value, int value_length);
/* Prepares the network. Once per process, before any database is opened. */
DLLEXPORT fdb_error_t fdb_setup_network(void);
/* Runs the network on the calling thread until it is stopped. */
DLLEXPORT fdb_error_t fdb_run_network(void);
/* Asks the network to stop; returns at once. */
DLLEXPORT fdb_error_t fdb_stop_network(void);
/* Registers a function to be called on the network's thread when it ends. */
DLLEXPORT fdb_error_t fdb_add_network_thread_completion_hook(void (*hook)(void *arg1), void *hook_parameter);
/* Selects the API version; first the version wanted, then that of the declarations in use. */
DLLEXPORT fdb_error_t fdb_select_api_version_impl(int runtime_version, int header_version);
/* The newest API version the library knows. */
DLLEXPORT int fdb_get_max_api_version(void);
/* Version, source id and protocol of the library, separated by commas. */
DLLEXPORT const char *fdb_get_client_version(void);

/* Futures. */
/* Gives up the operation; a pending future fails with 1101. */
DLLEXPORT void fdb_future_cancel(FDBFuture *future);
/* Gives back the memory of a result that was read. */
DLLEXPORT void fdb_future_release_memory(FDBFuture *future);
/* Cancels the operation and gives the future back. */
DLLEXPORT void fdb_future_destroy(FDBFuture *future);
/* Waits for the future; must not be called on the network's thread. */
DLLEXPORT fdb_error_t fdb_future_block_until_ready(FDBFuture *future);
/* Whether the future holds a result or an error. */
DLLEXPORT fdb_bool_t fdb_future_is_ready(FDBFuture *future);
/* Calls back when the future is ready, at once if it is already. */
DLLEXPORT fdb_error_t fdb_future_set_callback(FDBFuture *future, FDBCallback callback, void *callback_parameter);
/* The error the future ended with, or 0. */
DLLEXPORT fdb_error_t fdb_future_get_error(FDBFuture *future);
/* Reads a truth value. */
DLLEXPORT fdb_error_t fdb_future_get_bool(FDBFuture *future, fdb_bool_t *out);
/* Reads a signed integer. */
DLLEXPORT fdb_error_t fdb_future_get_int64(FDBFuture *future, int64_t *out);
/* Reads an unsigned integer. */
DLLEXPORT fdb_error_t fdb_future_get_uint64(FDBFuture *future, uint64_t *out);
/* Reads a floating point number. */
DLLEXPORT fdb_error_t fdb_future_get_double(FDBFuture *future, double *out);
/* Reads a key; it lives as long as the future. */
DLLEXPORT fdb_error_t fdb_future_get_key(FDBFuture *future, const uint8_t **out_key, int *out_key_length);
/* Reads a value that may be absent; it lives as long as the future. */
DLLEXPORT fdb_error_t fdb_future_get_value(FDBFuture *future, fdb_bool_t *out_present, const uint8_t **out_value,
    int *out_value_length);
/* Reads the rows of a range, and whether there are more. */
DLLEXPORT fdb_error_t fdb_future_get_keyvalue_array(FDBFuture *future, const FDBKeyValue **out_kv, int *out_count,
    fdb_bool_t *out_more);
/* Reads the rows of a mapped range, and whether there are more. */
DLLEXPORT fdb_error_t fdb_future_get_mappedkeyvalue_array(FDBFuture *future, const FDBMappedKeyValue **out_kv,
    int *out_count, fdb_bool_t *out_more);
/* Reads a list of keys. */
DLLEXPORT fdb_error_t fdb_future_get_key_array(FDBFuture *future, const FDBKey **out_key_array, int *out_count);
/* Reads a list of strings, each ending in a null byte. */
DLLEXPORT fdb_error_t fdb_future_get_string_array(FDBFuture *future, const char ***out_strings, int *out_count);
/* Reads a list of key ranges. */
DLLEXPORT fdb_error_t fdb_future_get_keyrange_array(FDBFuture *future, const FDBKeyRange **out_ranges,
    int *out_count);

/* Databases. */
/* Opens the database of a cluster file; null means the default file. */
DLLEXPORT fdb_error_t fdb_create_database(const char *cluster_file, FDBDatabase **out_database);
/* Opens the database of a connection string. */
DLLEXPORT fdb_error_t fdb_create_database_from_connection_string(const char *connection_string,
    FDBDatabase **out_database);
/* Gives the database back; its transactions live on. */
DLLEXPORT void fdb_database_destroy(FDBDatabase *database);
/* Sets an option of the database. */
DLLEXPORT fdb_error_t fdb_database_set_option(FDBDatabase *database, FDBDatabaseOption option, const uint8_t *value,
    int value_length);
/* Begins a transaction. */
DLLEXPORT fdb_error_t fdb_database_create_transaction(FDBDatabase *database, FDBTransaction **out_transaction);
/* Reboots the process at an address. */
DLLEXPORT FDBFuture *fdb_database_reboot_worker(FDBDatabase *database, const uint8_t *address, int address_length,
    fdb_bool_t check, int duration);
/* Recovers in another datacenter, giving up what was not copied there. */
DLLEXPORT FDBFuture *fdb_database_force_recovery_with_data_loss(FDBDatabase *database, const uint8_t *dcid,
    int dcid_length);
/* Takes a snapshot of the disks of the cluster. */
DLLEXPORT FDBFuture *fdb_database_create_snapshot(FDBDatabase *database, const uint8_t *uid, int uid_length,
    const uint8_t *snap_command, int snap_command_length);
/* How busy the network's thread is, from 0 to 1. */
DLLEXPORT double fdb_database_get_main_thread_busyness(FDBDatabase *database);
/* The protocol of the cluster, once it differs from the expected one. */
DLLEXPORT FDBFuture *fdb_database_get_server_protocol(FDBDatabase *database, uint64_t expected_version);
/* The client's own view of its connections, as JSON. */
DLLEXPORT FDBFuture *fdb_database_get_client_status(FDBDatabase *database);

/* Tenants. */
/* Opens a tenant by name. */
DLLEXPORT fdb_error_t fdb_database_open_tenant(FDBDatabase *database, const uint8_t *tenant_name,
    int tenant_name_length, FDBTenant **out_tenant);
/* Begins a transaction inside the tenant. */
DLLEXPORT fdb_error_t fdb_tenant_create_transaction(FDBTenant *tenant, FDBTransaction **out_transaction);
/* The number of the tenant. */
DLLEXPORT FDBFuture *fdb_tenant_get_id(FDBTenant *tenant);
/* Gives the tenant back. */
DLLEXPORT void fdb_tenant_destroy(FDBTenant *tenant);

/* Transactions. */
/* Cancels what is outstanding and gives the transaction back. */
DLLEXPORT void fdb_transaction_destroy(FDBTransaction *transaction);
/* Fails what is outstanding, and whatever follows until a reset. */
DLLEXPORT void fdb_transaction_cancel(FDBTransaction *transaction);
/* Sets an option of the transaction; a null value means the option takes none. */
DLLEXPORT fdb_error_t fdb_transaction_set_option(FDBTransaction *transaction, FDBTransactionOption option,
    const uint8_t *value, int value_length);
/* Reads at this version instead of asking for one. */
DLLEXPORT void fdb_transaction_set_read_version(FDBTransaction *transaction, int64_t version);
/* The version at which the transaction reads. */
DLLEXPORT FDBFuture *fdb_transaction_get_read_version(FDBTransaction *transaction);
/* Reads one key. */
DLLEXPORT FDBFuture *fdb_transaction_get(FDBTransaction *transaction, const uint8_t *key, int key_length,
    fdb_bool_t snapshot);
/* Resolves a key selector. */
DLLEXPORT FDBFuture *fdb_transaction_get_key(FDBTransaction *transaction, const uint8_t *key, int key_length,
    fdb_bool_t or_equal, int offset, fdb_bool_t snapshot);
/* The addresses of the storage servers that hold a key. */
DLLEXPORT FDBFuture *fdb_transaction_get_addresses_for_key(FDBTransaction *transaction, const uint8_t *key,
    int key_length);
/* Reads the rows between two key selectors. */
DLLEXPORT FDBFuture *fdb_transaction_get_range(FDBTransaction *transaction, const uint8_t *begin_key,
    int begin_key_length, fdb_bool_t begin_or_equal, int begin_offset, const uint8_t *end_key, int end_key_length,
    fdb_bool_t end_or_equal, int end_offset, int limit, int target_bytes, FDBStreamingMode mode, int iteration,
    fdb_bool_t snapshot, fdb_bool_t reverse);
/* Reads the rows between two key selectors and, for each, the rows its mapper names. */
DLLEXPORT FDBFuture *fdb_transaction_get_mapped_range(FDBTransaction *transaction, const uint8_t *begin_key,
    int begin_key_length, fdb_bool_t begin_or_equal, int begin_offset, const uint8_t *end_key, int end_key_length,
    fdb_bool_t end_or_equal, int end_offset, const uint8_t *mapper, int mapper_length, int limit, int target_bytes,
    FDBStreamingMode mode, int iteration, fdb_bool_t snapshot, fdb_bool_t reverse);
/* Writes one key. */
DLLEXPORT void fdb_transaction_set(FDBTransaction *transaction, const uint8_t *key, int key_length,
    const uint8_t *value, int value_length);
/* Applies one of the `FDBMutationType` operations to a key. */
DLLEXPORT void fdb_transaction_atomic_op(FDBTransaction *transaction, const uint8_t *key, int key_length,
    const uint8_t *param, int param_length, FDBMutationType operation_type);
/* Clears one key. */
DLLEXPORT void fdb_transaction_clear(FDBTransaction *transaction, const uint8_t *key, int key_length);
/* Clears the keys from the first to before the second. */
DLLEXPORT void fdb_transaction_clear_range(FDBTransaction *transaction, const uint8_t *begin_key,
    int begin_key_length, const uint8_t *end_key, int end_key_length);
/* Becomes ready when the value of a key changes. */
DLLEXPORT FDBFuture *fdb_transaction_watch(FDBTransaction *transaction, const uint8_t *key, int key_length);
/* Commits. */
DLLEXPORT FDBFuture *fdb_transaction_commit(FDBTransaction *transaction);
/* The version of a finished commit, or -1. */
DLLEXPORT fdb_error_t fdb_transaction_get_committed_version(FDBTransaction *transaction, int64_t *out_version);
/* How long the transaction waited because of its tags, in seconds. */
DLLEXPORT FDBFuture *fdb_transaction_get_tag_throttled_duration(FDBTransaction *transaction);
/* What the transaction cost so far, in bytes. */
DLLEXPORT FDBFuture *fdb_transaction_get_total_cost(FDBTransaction *transaction);
/* About how large the commit would be, in bytes. */
DLLEXPORT FDBFuture *fdb_transaction_get_approximate_size(FDBTransaction *transaction);
/* The versionstamp of the commit, once it is done. */
DLLEXPORT FDBFuture *fdb_transaction_get_versionstamp(FDBTransaction *transaction);
/* Waits as the error demands and readies the transaction for another try. */
DLLEXPORT FDBFuture *fdb_transaction_on_error(FDBTransaction *transaction, fdb_error_t error);
/* Back to how the transaction was created. */
DLLEXPORT void fdb_transaction_reset(FDBTransaction *transaction);
/* Adds a range to what the transaction has read or written. */
DLLEXPORT fdb_error_t fdb_transaction_add_conflict_range(FDBTransaction *transaction, const uint8_t *begin_key,
    int begin_key_length, const uint8_t *end_key, int end_key_length, FDBConflictRangeType type_);
/* About how many bytes a range holds. */
DLLEXPORT FDBFuture *fdb_transaction_get_estimated_range_size_bytes(FDBTransaction *transaction,
    const uint8_t *begin_key, int begin_key_length, const uint8_t *end_key, int end_key_length);
/* Keys that cut a range into pieces of about a size. */
DLLEXPORT FDBFuture *fdb_transaction_get_range_split_points(FDBTransaction *transaction, const uint8_t *begin_key,
    int begin_key_length, const uint8_t *end_key, int end_key_length, int64_t chunk_size);
#if FDB_API_VERSION >= 800
/* Cuts a range into chunks of about a size, and returns at most so many of the keys between them. */
DLLEXPORT FDBFuture *fdb_transaction_get_range_split_points_with_limit(FDBTransaction *transaction,
    const uint8_t *begin_key_name, int begin_key_name_length, const uint8_t *end_key_name, int end_key_name_length,
    int64_t chunk_size, int limit);
#endif

/* Blob granules. Our library answers all of them with 2108. */
#if FDB_API_VERSION < 800
/* Reads a list of granule summaries. */
DLLEXPORT fdb_error_t fdb_future_get_granule_summary_array(FDBFuture *future, const FDBGranuleSummary **out_summaries,
    int *out_count);
/* Reads a list of granule descriptions. */
DLLEXPORT fdb_error_t fdb_future_readbg_get_descriptions(FDBFuture *future, FDBBGFileDescription **out,
    int *desc_count);
/* Decodes a snapshot file of a granule. */
DLLEXPORT FDBResult *fdb_readbg_parse_snapshot_file(const uint8_t *file_data, int file_len,
    const FDBBGTenantPrefix *tenant_prefix, const FDBBGEncryptionCtx *encryption_ctx);
/* Decodes a delta file of a granule. */
DLLEXPORT FDBResult *fdb_readbg_parse_delta_file(const uint8_t *file_data, int file_len,
    const FDBBGTenantPrefix *tenant_prefix, const FDBBGEncryptionCtx *encryption_ctx);
/* Gives the result back. */
DLLEXPORT void fdb_result_destroy(FDBResult *result);
/* Reads the rows of a result, and whether there are more. */
DLLEXPORT fdb_error_t fdb_result_get_keyvalue_array(FDBResult *result, const FDBKeyValue **out_kv, int *out_count,
    fdb_bool_t *out_more);
/* Reads the mutations of a result. */
DLLEXPORT fdb_error_t fdb_result_get_bg_mutations_array(FDBResult *result, const FDBBGMutation **out_mutations,
    int *out_count);
/* Purges a range of granules up to a version. */
DLLEXPORT FDBFuture *fdb_database_purge_blob_granules(FDBDatabase *database, const uint8_t *begin_key,
    int begin_key_length, const uint8_t *end_key, int end_key_length, int64_t purge_version, fdb_bool_t force);
/* Waits for a purge. */
DLLEXPORT FDBFuture *fdb_database_wait_purge_granules_complete(FDBDatabase *database, const uint8_t *purge_key,
    int purge_key_length);
/* Turns a range into granules. */
DLLEXPORT FDBFuture *fdb_database_blobbify_range(FDBDatabase *database, const uint8_t *begin_key,
    int begin_key_length, const uint8_t *end_key, int end_key_length);
/* Turns a range into granules and waits for it. */
DLLEXPORT FDBFuture *fdb_database_blobbify_range_blocking(FDBDatabase *database, const uint8_t *begin_key,
    int begin_key_length, const uint8_t *end_key, int end_key_length);
/* Stops keeping a range as granules. */
DLLEXPORT FDBFuture *fdb_database_unblobbify_range(FDBDatabase *database, const uint8_t *begin_key,
    int begin_key_length, const uint8_t *end_key, int end_key_length);
/* The ranges that are kept as granules. */
DLLEXPORT FDBFuture *fdb_database_list_blobbified_ranges(FDBDatabase *database, const uint8_t *begin_key,
    int begin_key_length, const uint8_t *end_key, int end_key_length, int range_limit);
/* Checks that a range can be read from granules. */
DLLEXPORT FDBFuture *fdb_database_verify_blob_range(FDBDatabase *database, const uint8_t *begin_key,
    int begin_key_length, const uint8_t *end_key, int end_key_length, int64_t version);
/* Writes a range of granules out. */
DLLEXPORT FDBFuture *fdb_database_flush_blob_range(FDBDatabase *database, const uint8_t *begin_key,
    int begin_key_length, const uint8_t *end_key, int end_key_length, fdb_bool_t compact, int64_t version);
/* Purges a range of the tenant's granules up to a version. */
DLLEXPORT FDBFuture *fdb_tenant_purge_blob_granules(FDBTenant *tenant, const uint8_t *begin_key, int begin_key_length,
    const uint8_t *end_key, int end_key_length, int64_t purge_version, fdb_bool_t force);
/* Waits for a purge. */
DLLEXPORT FDBFuture *fdb_tenant_wait_purge_granules_complete(FDBTenant *tenant, const uint8_t *purge_key,
    int purge_key_length);
/* Turns a range of the tenant into granules. */
DLLEXPORT FDBFuture *fdb_tenant_blobbify_range(FDBTenant *tenant, const uint8_t *begin_key, int begin_key_length,
    const uint8_t *end_key, int end_key_length);
/* Turns a range of the tenant into granules and waits for it. */
DLLEXPORT FDBFuture *fdb_tenant_blobbify_range_blocking(FDBTenant *tenant, const uint8_t *begin_key,
    int begin_key_length, const uint8_t *end_key, int end_key_length);
/* Stops keeping a range of the tenant as granules. */
DLLEXPORT FDBFuture *fdb_tenant_unblobbify_range(FDBTenant *tenant, const uint8_t *begin_key, int begin_key_length,
    const uint8_t *end_key, int end_key_length);
/* The ranges of the tenant that are kept as granules. */
DLLEXPORT FDBFuture *fdb_tenant_list_blobbified_ranges(FDBTenant *tenant, const uint8_t *begin_key,
    int begin_key_length, const uint8_t *end_key, int end_key_length, int range_limit);
/* Checks that a range of the tenant can be read from granules. */
DLLEXPORT FDBFuture *fdb_tenant_verify_blob_range(FDBTenant *tenant, const uint8_t *begin_key, int begin_key_length,
    const uint8_t *end_key, int end_key_length, int64_t version);
/* Writes a range of the tenant's granules out. */
DLLEXPORT FDBFuture *fdb_tenant_flush_blob_range(FDBTenant *tenant, const uint8_t *begin_key, int begin_key_length,
    const uint8_t *end_key, int end_key_length, fdb_bool_t compact, int64_t version);
/* The granules of a range. */
DLLEXPORT FDBFuture *fdb_transaction_get_blob_granule_ranges(FDBTransaction *transaction, const uint8_t *begin_key,
    int begin_key_length, const uint8_t *end_key, int end_key_length, int range_limit);
/* Reads a range from granules, through the caller's file functions. */
DLLEXPORT FDBResult *fdb_transaction_read_blob_granules(FDBTransaction *transaction, const uint8_t *begin_key,
    int begin_key_length, const uint8_t *end_key, int end_key_length, int64_t begin_version, int64_t read_version,
    FDBReadBlobGranuleContext context);
/* Summaries of the granules of a range. */
DLLEXPORT FDBFuture *fdb_transaction_summarize_blob_granules(FDBTransaction *transaction, const uint8_t *begin_key,
    int begin_key_length, const uint8_t *end_key, int end_key_length, int64_t summary_version, int range_limit);
/* Which files the granules of a range are made of. */
DLLEXPORT FDBFuture *fdb_transaction_read_blob_granules_description(FDBTransaction *transaction,
    const uint8_t *begin_key, int begin_key_length, const uint8_t *end_key, int end_key_length, int64_t begin_version,
    int64_t read_version, int64_t *read_version_out);
#endif

/* Removed from later API versions. */
#if FDB_API_VERSION < 620
/* Reads a version; `fdb_future_get_int64` took its place. */
DLLEXPORT fdb_error_t fdb_future_get_version(FDBFuture *future, int64_t *out_version);
#endif
#if FDB_API_VERSION < 610
/* Reads the cluster that `fdb_create_cluster` promised. */
DLLEXPORT fdb_error_t fdb_future_get_cluster(FDBFuture *future, FDBCluster **out_cluster);
/* Reads the database that `fdb_cluster_create_database` promised. */
DLLEXPORT fdb_error_t fdb_future_get_database(FDBFuture *future, FDBDatabase **out_database);
/* Opens a cluster; `fdb_create_database` took its place. */
DLLEXPORT FDBFuture *fdb_create_cluster(const char *cluster_file);
/* Gives the cluster back. */
DLLEXPORT void fdb_cluster_destroy(FDBCluster *cluster);
/* Sets an option of the cluster, of which there are none. */
DLLEXPORT fdb_error_t fdb_cluster_set_option(FDBCluster *cluster, FDBClusterOption option, const uint8_t *value,
    int value_length);
/* Opens the cluster's database, whose name can only be `DB`. */
DLLEXPORT FDBFuture *fdb_cluster_create_database(FDBCluster *cluster, const uint8_t *db_name, int db_name_length);
#endif

#ifdef __cplusplus
}
#endif
#endif
