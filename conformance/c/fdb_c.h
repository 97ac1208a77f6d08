/* The part of FoundationDB's C API that these programs use, declared by hand.
 *
 * Whoever declares a function by hand can get it wrong, so the programs also run against FoundationDB's own libfdb_c.so where there
 * is one: `run --lib PATH --cluster-file FILE`. */
#ifndef CONFORMANCE_FDB_C_H
#define CONFORMANCE_FDB_C_H

#include <stdint.h>

typedef struct FDBFuture FDBFuture;
typedef struct FDBCluster FDBCluster;
typedef struct FDBDatabase FDBDatabase;
typedef struct FDBTenant FDBTenant;
typedef struct FDBTransaction FDBTransaction;
typedef void (*FDBCallback)(FDBFuture *, void *);

#pragma pack(push, 4)
typedef struct {
    const uint8_t *key;
    int key_length;
    const uint8_t *value;
    int value_length;
} FDBKeyValue;
typedef struct {
    const uint8_t *key;
    int key_length;
} FDBKey;
#pragma pack(pop)

const char *fdb_get_error(int code);
int fdb_error_predicate(int predicate, int code);

int fdb_select_api_version_impl(int runtime, int header);
int fdb_get_max_api_version(void);
const char *fdb_get_client_version(void);
int fdb_network_set_option(int option, const uint8_t *value, int length);
int fdb_setup_network(void);
int fdb_run_network(void);
int fdb_stop_network(void);
int fdb_add_network_thread_completion_hook(void (*hook)(void *), void *parameter);

FDBFuture *fdb_create_cluster(const char *cluster_file);
FDBFuture *fdb_cluster_create_database(FDBCluster *, const uint8_t *name, int length);
void fdb_cluster_destroy(FDBCluster *);
int fdb_future_get_cluster(FDBFuture *, FDBCluster **);
int fdb_future_get_database(FDBFuture *, FDBDatabase **);
int fdb_future_get_version(FDBFuture *, int64_t *);

int fdb_create_database(const char *cluster_file, FDBDatabase **);
void fdb_database_destroy(FDBDatabase *);
int fdb_database_set_option(FDBDatabase *, int option, const uint8_t *value, int length);
int fdb_database_create_transaction(FDBDatabase *, FDBTransaction **);
FDBFuture *fdb_database_get_client_status(FDBDatabase *);
FDBFuture *fdb_database_get_server_protocol(FDBDatabase *, uint64_t expected);
double fdb_database_get_main_thread_busyness(FDBDatabase *);

int fdb_database_open_tenant(FDBDatabase *, const uint8_t *name, int length, FDBTenant **);
int fdb_tenant_create_transaction(FDBTenant *, FDBTransaction **);
void fdb_tenant_destroy(FDBTenant *);

void fdb_transaction_destroy(FDBTransaction *);
void fdb_transaction_cancel(FDBTransaction *);
void fdb_transaction_reset(FDBTransaction *);
int fdb_transaction_set_option(FDBTransaction *, int option, const uint8_t *value, int length);
void fdb_transaction_set_read_version(FDBTransaction *, int64_t version);
FDBFuture *fdb_transaction_get_read_version(FDBTransaction *);
FDBFuture *fdb_transaction_get(FDBTransaction *, const uint8_t *key, int length, int snapshot);
FDBFuture *fdb_transaction_get_range(FDBTransaction *, const uint8_t *begin, int begin_length, int begin_or_equal,
                                     int begin_offset, const uint8_t *end, int end_length, int end_or_equal,
                                     int end_offset, int limit, int target_bytes, int mode, int iteration,
                                     int snapshot, int reverse);
FDBFuture *fdb_transaction_get_addresses_for_key(FDBTransaction *, const uint8_t *key, int length);
void fdb_transaction_set(FDBTransaction *, const uint8_t *key, int length, const uint8_t *value, int value_length);
void fdb_transaction_clear(FDBTransaction *, const uint8_t *key, int length);
void fdb_transaction_clear_range(FDBTransaction *, const uint8_t *begin, int begin_length, const uint8_t *end,
                                 int end_length);
void fdb_transaction_atomic_op(FDBTransaction *, const uint8_t *key, int length, const uint8_t *operand,
                               int operand_length, int operation);
FDBFuture *fdb_transaction_watch(FDBTransaction *, const uint8_t *key, int length);
FDBFuture *fdb_transaction_commit(FDBTransaction *);
int fdb_transaction_get_committed_version(FDBTransaction *, int64_t *);
FDBFuture *fdb_transaction_get_versionstamp(FDBTransaction *);
FDBFuture *fdb_transaction_on_error(FDBTransaction *, int code);
int fdb_transaction_add_conflict_range(FDBTransaction *, const uint8_t *begin, int begin_length, const uint8_t *end,
                                       int end_length, int type);
FDBFuture *fdb_transaction_get_range_split_points(FDBTransaction *, const uint8_t *begin, int begin_length,
                                                  const uint8_t *end, int end_length, int64_t chunk);

void fdb_future_cancel(FDBFuture *);
void fdb_future_release_memory(FDBFuture *);
void fdb_future_destroy(FDBFuture *);
int fdb_future_block_until_ready(FDBFuture *);
int fdb_future_is_ready(FDBFuture *);
int fdb_future_set_callback(FDBFuture *, FDBCallback, void *parameter);
int fdb_future_get_error(FDBFuture *);
int fdb_future_get_int64(FDBFuture *, int64_t *);
int fdb_future_get_uint64(FDBFuture *, uint64_t *);
int fdb_future_get_key(FDBFuture *, const uint8_t **, int *length);
int fdb_future_get_value(FDBFuture *, int *present, const uint8_t **, int *length);
int fdb_future_get_keyvalue_array(FDBFuture *, const FDBKeyValue **, int *count, int *more);
int fdb_future_get_key_array(FDBFuture *, const FDBKey **, int *count);
int fdb_future_get_string_array(FDBFuture *, const char ***, int *count);

#endif
