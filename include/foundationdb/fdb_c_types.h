/* Written by conformance/headers.py; do not edit. */
/* Handles, which only the library can look into, and the structs that it hands out.
 *
 * Rows come in arrays whose elements are packed to four bytes: the next one begins where the last one ends. */
#ifndef FDB_C_TYPES_H
#define FDB_C_TYPES_H

#include <stdint.h>

#ifndef DLLEXPORT
#define DLLEXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* An error code; 0 is success. */
typedef int fdb_error_t;
/* A truth value. */
typedef int fdb_bool_t;
/* A result that is or will be there. */
typedef struct FDB_future FDBFuture;
/* An open database. */
typedef struct FDB_database FDBDatabase;
/* A transaction. */
typedef struct FDB_transaction FDBTransaction;
/* An open cluster, of API versions before 610. */
typedef struct FDB_cluster FDBCluster;
/* A result that is complete when it is returned. */
typedef struct FDB_result FDBResult;
/* An open tenant. */
typedef struct FDB_tenant FDBTenant;

/* Called when a future is ready, on the network's thread or inside fdb_future_set_callback. */
typedef void (*FDBCallback)(FDBFuture *future, void *parameter);

/* A row's pointers; headers before 630 left open what they point to. */
#if defined(FDB_API_VERSION) && FDB_API_VERSION < 630
typedef void fdb_row_byte_t;
#else
typedef uint8_t fdb_row_byte_t;
#endif

/* One row of a range. */
#pragma pack(push, 4)
typedef struct keyvalue {
    /* First byte of the key. */
    const fdb_row_byte_t *key;
    /* Bytes in the key. */
    int key_length;
    /* First byte of the value. */
    const fdb_row_byte_t *value;
    /* Bytes in the value. */
    int value_length;
} FDBKeyValue;
#pragma pack(pop)

/* A key. */
#pragma pack(push, 4)
typedef struct key {
    /* First byte of the key. */
    const uint8_t *key;
    /* Bytes in the key. */
    int key_length;
} FDBKey;
#pragma pack(pop)

/* The keys from one to before another. */
#pragma pack(push, 4)
typedef struct keyrange {
    /* First byte of the first key. */
    const uint8_t *begin_key;
    /* Bytes in the first key. */
    int begin_key_length;
    /* First byte of the key after the last. */
    const uint8_t *end_key;
    /* Bytes in the key after the last. */
    int end_key_length;
} FDBKeyRange;
#pragma pack(pop)

/* A key selector as a mapped range reports it. */
typedef struct keyselector {
    /* The key it starts from. */
    FDBKey key;
    /* Whether that key itself counts. */
    fdb_bool_t orEqual;
    /* How many keys to go from there. */
    int offset;
} FDBKeySelector;

/* The second read of a mapped range: what was asked and the rows it gave. */
typedef struct getrangereqandresult {
    /* Where the read began. */
    FDBKeySelector begin;
    /* Where it ended. */
    FDBKeySelector end;
    /* Its rows. */
    FDBKeyValue *data;
    /* How many rows. */
    int m_size;
    /* Room for how many. */
    int m_capacity;
} FDBGetRangeReqAndResult;

/* One row of a mapped range. */
typedef struct mappedkeyvalue {
    /* The key of the row. */
    FDBKey key;
    /* The value of the row. */
    FDBKey value;
    /* The read that the row led to. */
    FDBGetRangeReqAndResult getRange;
    /* Room that the library keeps for itself. */
    unsigned char buffer[32];
} FDBMappedKeyValue;

/* The functions through which a read of granules loads its files. */
typedef struct readgranulecontext {
    /* Handed to each function. */
    void *userContext;
    /* Begins to load a part of a file and names the load. */
    int64_t (*start_load_f)(const char *filename, int filename_length, int64_t offset, int64_t length, int64_t full_file_length, void *context);
    /* Waits for a load and gives its bytes. */
    uint8_t *(*get_load_f)(int64_t load, void *context);
    /* Gives the bytes of a load back. */
    void (*free_load_f)(int64_t load, void *context);
    /* Whether to load without decoding. */
    fdb_bool_t debugNoMaterialize;
    /* How many granules to load at a time. */
    int granuleParallelism;
} FDBReadBlobGranuleContext;

/* How large a granule is and how far it reaches. */
#pragma pack(push, 4)
typedef struct granulesummary {
    /* The keys of the granule. */
    FDBKeyRange key_range;
    /* The version of its snapshot file. */
    int64_t snapshot_version;
    /* Bytes in its snapshot file. */
    int64_t snapshot_size;
    /* The version its delta files reach. */
    int64_t delta_version;
    /* Bytes in its delta files. */
    int64_t delta_size;
} FDBGranuleSummary;
#pragma pack(pop)

/* The prefix of a tenant, if there is one. */
typedef struct bgtenantprefix {
    /* Whether there is one. */
    fdb_bool_t present;
    /* The prefix. */
    FDBKey prefix;
} FDBBGTenantPrefix;

/* A key that a granule's file is encrypted with. */
#pragma pack(push, 4)
typedef struct bgencryptionkey {
    /* The domain it belongs to. */
    int64_t domain_id;
    /* The number of the key it was derived from. */
    uint64_t base_key_id;
    /* The check value of the key it was derived from. */
    uint32_t base_kcv;
    /* The salt it was derived with. */
    uint64_t random_salt;
    /* Its bytes. */
    FDBKey base_key;
} FDBBGEncryptionKey;
#pragma pack(pop)

/* How a granule's file is encrypted, if it is. */
typedef struct bgencryptionctx {
    /* Whether it is. */
    fdb_bool_t present;
    /* The key of the text. */
    FDBBGEncryptionKey textKey;
    /* The check value of that key. */
    uint32_t textKCV;
    /* The key of the header. */
    FDBBGEncryptionKey headerKey;
    /* The check value of that key. */
    uint32_t headerKCV;
    /* The initialisation vector. */
    FDBKey iv;
} FDBBGEncryptionCtx;

/* A part of a granule's file. */
#pragma pack(push, 4)
typedef struct bgfilepointer {
    /* First byte of its name. */
    const uint8_t *filename_ptr;
    /* Bytes in its name. */
    int filename_length;
    /* Where the part begins. */
    int64_t file_offset;
    /* Bytes in the part. */
    int64_t file_length;
    /* Bytes in the whole file. */
    int64_t full_file_length;
    /* The version of the file. */
    int64_t file_version;
    /* How it is encrypted. */
    FDBBGEncryptionCtx encryption_ctx;
} FDBBGFilePointer;
#pragma pack(pop)

/* A mutation inside a granule; its type determines what its parameters mean. */
#pragma pack(push, 4)
typedef struct bgmutation {
    /* One of the `FDBBGMutationType` numbers. */
    uint8_t type;
    /* The version of the mutation. */
    int64_t version;
    /* First byte of the first parameter. */
    const uint8_t *param1_ptr;
    /* Bytes in the first parameter. */
    int param1_length;
    /* First byte of the second parameter. */
    const uint8_t *param2_ptr;
    /* Bytes in the second parameter. */
    int param2_length;
} FDBBGMutation;
#pragma pack(pop)

/* The files and mutations that a granule is made of. */
#pragma pack(push, 4)
typedef struct bgfiledescription {
    /* The keys of the granule. */
    FDBKeyRange key_range;
    /* Whether it has a snapshot file. */
    fdb_bool_t snapshot_present;
    /* Its snapshot file. */
    FDBBGFilePointer snapshot_file_pointer;
    /* How many delta files. */
    int delta_file_count;
    /* Its delta files. */
    FDBBGFilePointer *delta_files;
    /* How many mutations that are in no file yet. */
    int memory_mutation_count;
    /* Those mutations. */
    FDBBGMutation *memory_mutations;
    /* The prefix of the tenant it belongs to. */
    FDBBGTenantPrefix tenant_prefix;
} FDBBGFileDescription;
#pragma pack(pop)

/* What a mutation inside a granule does. */
typedef enum {
    FDB_BG_MUTATION_TYPE_SET_VALUE = 0,
    FDB_BG_MUTATION_TYPE_CLEAR_RANGE = 1
} FDBBGMutationType;

#ifdef __cplusplus
}
#endif
#endif
