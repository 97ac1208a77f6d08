/* Written by conformance/headers.py; do not edit. */
/* The numbers of options, atomic operations, streaming modes, conflict ranges and error predicates.
 *
 * An option without a remark takes no value. FoundationDB's documentation says what each of them does. */
#ifndef FDB_C_OPTIONS_G_H
#define FDB_C_OPTIONS_G_H

/* Options of the network. */
typedef enum {
    /* Takes a string. */
    FDB_NET_OPTION_LOCAL_ADDRESS = 10,
    /* Takes a string. */
    FDB_NET_OPTION_CLUSTER_FILE = 20,
    /* Takes a string. */
    FDB_NET_OPTION_TRACE_ENABLE = 30,
    /* Takes a number of 8 bytes, little-endian. */
    FDB_NET_OPTION_TRACE_ROLL_SIZE = 31,
    /* Takes a number of 8 bytes, little-endian. */
    FDB_NET_OPTION_TRACE_MAX_LOGS_SIZE = 32,
    /* Takes a string. */
    FDB_NET_OPTION_TRACE_LOG_GROUP = 33,
    /* Takes a string. */
    FDB_NET_OPTION_TRACE_FORMAT = 34,
    /* Takes a string. */
    FDB_NET_OPTION_TRACE_CLOCK_SOURCE = 35,
    /* Takes a string. */
    FDB_NET_OPTION_TRACE_FILE_IDENTIFIER = 36,
    FDB_NET_OPTION_TRACE_SHARE_AMONG_CLIENT_THREADS = 37,
    FDB_NET_OPTION_TRACE_INITIALIZE_ON_SETUP = 38,
    /* Takes a string. */
    FDB_NET_OPTION_TRACE_PARTIAL_FILE_SUFFIX = 39,
    /* Takes a string. */
    FDB_NET_OPTION_KNOB = 40,
    /* Takes a string. */
    FDB_NET_OPTION_TLS_PLUGIN = 41,
    /* Takes bytes. */
    FDB_NET_OPTION_TLS_CERT_BYTES = 42,
    /* Takes a string. */
    FDB_NET_OPTION_TLS_CERT_PATH = 43,
    /* Takes bytes. */
    FDB_NET_OPTION_TLS_KEY_BYTES = 45,
    /* Takes a string. */
    FDB_NET_OPTION_TLS_KEY_PATH = 46,
    /* Takes bytes. */
    FDB_NET_OPTION_TLS_VERIFY_PEERS = 47,
    FDB_NET_OPTION_BUGGIFY_ENABLE = 48,
    FDB_NET_OPTION_BUGGIFY_DISABLE = 49,
    /* Takes a number of 8 bytes, little-endian. */
    FDB_NET_OPTION_BUGGIFY_SECTION_ACTIVATED_PROBABILITY = 50,
    /* Takes a number of 8 bytes, little-endian. */
    FDB_NET_OPTION_BUGGIFY_SECTION_FIRED_PROBABILITY = 51,
    /* Takes bytes. */
    FDB_NET_OPTION_TLS_CA_BYTES = 52,
    /* Takes a string. */
    FDB_NET_OPTION_TLS_CA_PATH = 53,
    /* Takes a string. */
    FDB_NET_OPTION_TLS_PASSWORD = 54,
    FDB_NET_OPTION_TLS_DISABLE_PLAINTEXT_CONNECTION = 55,
    FDB_NET_OPTION_DISABLE_MULTI_VERSION_CLIENT_API = 60,
    FDB_NET_OPTION_CALLBACKS_ON_EXTERNAL_THREADS = 61,
    /* Takes a string. */
    FDB_NET_OPTION_EXTERNAL_CLIENT_LIBRARY = 62,
    /* Takes a string. */
    FDB_NET_OPTION_EXTERNAL_CLIENT_DIRECTORY = 63,
    FDB_NET_OPTION_DISABLE_LOCAL_CLIENT = 64,
    /* Takes a number of 8 bytes, little-endian. */
    FDB_NET_OPTION_CLIENT_THREADS_PER_VERSION = 65,
    /* Takes a string. */
    FDB_NET_OPTION_FUTURE_VERSION_CLIENT_LIBRARY = 66,
    FDB_NET_OPTION_RETAIN_CLIENT_LIBRARY_COPIES = 67,
    FDB_NET_OPTION_IGNORE_EXTERNAL_CLIENT_FAILURES = 68,
    FDB_NET_OPTION_FAIL_INCOMPATIBLE_CLIENT = 69,
    FDB_NET_OPTION_DISABLE_CLIENT_STATISTICS_LOGGING = 70,
    FDB_NET_OPTION_ENABLE_RUN_LOOP_PROFILING = 71,
    FDB_NET_OPTION_ENABLE_SLOW_TASK_PROFILING = 71,
    FDB_NET_OPTION_DISABLE_CLIENT_BYPASS = 72,
    FDB_NET_OPTION_CLIENT_BUGGIFY_ENABLE = 80,
    FDB_NET_OPTION_CLIENT_BUGGIFY_DISABLE = 81,
    /* Takes a number of 8 bytes, little-endian. */
    FDB_NET_OPTION_CLIENT_BUGGIFY_SECTION_ACTIVATED_PROBABILITY = 82,
    /* Takes a number of 8 bytes, little-endian. */
    FDB_NET_OPTION_CLIENT_BUGGIFY_SECTION_FIRED_PROBABILITY = 83,
#if defined(FDB_API_VERSION) && FDB_API_VERSION >= 800
    /* Takes a string. */
    FDB_NET_OPTION_TRACE_IP = 84,
#endif
    /* Takes a string. */
    FDB_NET_OPTION_DISTRIBUTED_CLIENT_TRACER = 90,
    /* Takes a string. */
    FDB_NET_OPTION_CLIENT_TMP_DIR = 91,
    /* Takes a string. */
    FDB_NET_OPTION_SUPPORTED_CLIENT_VERSIONS = 1000,
    FDB_NET_OPTION_EXTERNAL_CLIENT = 1001,
    /* Takes a number of 8 bytes, little-endian. */
    FDB_NET_OPTION_EXTERNAL_CLIENT_TRANSPORT_ID = 1002
} FDBNetworkOption;

/* Options of a database. */
typedef enum {
    /* Takes a number of 8 bytes, little-endian. */
    FDB_DB_OPTION_LOCATION_CACHE_SIZE = 10,
    /* Takes a number of 8 bytes, little-endian. */
    FDB_DB_OPTION_MAX_WATCHES = 20,
    /* Takes a string. */
    FDB_DB_OPTION_MACHINE_ID = 21,
    /* Takes a string. */
    FDB_DB_OPTION_DATACENTER_ID = 22,
    FDB_DB_OPTION_SNAPSHOT_RYW_ENABLE = 26,
    FDB_DB_OPTION_SNAPSHOT_RYW_DISABLE = 27,
    /* Takes a number of 8 bytes, little-endian. */
    FDB_DB_OPTION_TRANSACTION_LOGGING_MAX_FIELD_LENGTH = 405,
    /* Takes a number of 8 bytes, little-endian. */
    FDB_DB_OPTION_TRANSACTION_TIMEOUT = 500,
    /* Takes a number of 8 bytes, little-endian. */
    FDB_DB_OPTION_TRANSACTION_RETRY_LIMIT = 501,
    /* Takes a number of 8 bytes, little-endian. */
    FDB_DB_OPTION_TRANSACTION_MAX_RETRY_DELAY = 502,
    /* Takes a number of 8 bytes, little-endian. */
    FDB_DB_OPTION_TRANSACTION_SIZE_LIMIT = 503,
    FDB_DB_OPTION_TRANSACTION_CAUSAL_READ_RISKY = 504,
    FDB_DB_OPTION_TRANSACTION_INCLUDE_PORT_IN_ADDRESS = 505,
    FDB_DB_OPTION_TRANSACTION_AUTOMATIC_IDEMPOTENCY = 506,
    FDB_DB_OPTION_TRANSACTION_BYPASS_UNREADABLE = 700,
    FDB_DB_OPTION_TRANSACTION_USED_DURING_COMMIT_PROTECTION_DISABLE = 701,
    FDB_DB_OPTION_TRANSACTION_REPORT_CONFLICTING_KEYS = 702,
#if !defined(FDB_API_VERSION) || FDB_API_VERSION < 800
    FDB_DB_OPTION_USE_CONFIG_DATABASE = 800,
#endif
    /* Takes a number of 8 bytes, little-endian. */
    FDB_DB_OPTION_TEST_CAUSAL_READ_RISKY = 900
} FDBDatabaseOption;

/* Options of a transaction. */
typedef enum {
    FDB_TR_OPTION_CAUSAL_WRITE_RISKY = 10,
    FDB_TR_OPTION_CAUSAL_READ_RISKY = 20,
    FDB_TR_OPTION_CAUSAL_READ_DISABLE = 21,
    FDB_TR_OPTION_INCLUDE_PORT_IN_ADDRESS = 23,
    FDB_TR_OPTION_NEXT_WRITE_NO_WRITE_CONFLICT_RANGE = 30,
    FDB_TR_OPTION_COMMIT_ON_FIRST_PROXY = 40,
    FDB_TR_OPTION_CHECK_WRITES_ENABLE = 50,
    FDB_TR_OPTION_READ_YOUR_WRITES_DISABLE = 51,
    FDB_TR_OPTION_READ_AHEAD_DISABLE = 52,
    FDB_TR_OPTION_DURABILITY_DATACENTER = 110,
    FDB_TR_OPTION_DURABILITY_RISKY = 120,
    FDB_TR_OPTION_DURABILITY_DEV_NULL_IS_WEB_SCALE = 130,
    FDB_TR_OPTION_PRIORITY_SYSTEM_IMMEDIATE = 200,
    FDB_TR_OPTION_PRIORITY_BATCH = 201,
    FDB_TR_OPTION_INITIALIZE_NEW_DATABASE = 300,
    FDB_TR_OPTION_ACCESS_SYSTEM_KEYS = 301,
    FDB_TR_OPTION_READ_SYSTEM_KEYS = 302,
    FDB_TR_OPTION_RAW_ACCESS = 303,
    FDB_TR_OPTION_BYPASS_STORAGE_QUOTA = 304,
    FDB_TR_OPTION_DEBUG_DUMP = 400,
    /* Takes a string. */
    FDB_TR_OPTION_DEBUG_RETRY_LOGGING = 401,
    /* Takes a string. */
    FDB_TR_OPTION_TRANSACTION_LOGGING_ENABLE = 402,
    /* Takes a string. */
    FDB_TR_OPTION_DEBUG_TRANSACTION_IDENTIFIER = 403,
    FDB_TR_OPTION_LOG_TRANSACTION = 404,
    /* Takes a number of 8 bytes, little-endian. */
    FDB_TR_OPTION_TRANSACTION_LOGGING_MAX_FIELD_LENGTH = 405,
    FDB_TR_OPTION_SERVER_REQUEST_TRACING = 406,
    /* Takes a number of 8 bytes, little-endian. */
    FDB_TR_OPTION_TIMEOUT = 500,
    /* Takes a number of 8 bytes, little-endian. */
    FDB_TR_OPTION_RETRY_LIMIT = 501,
    /* Takes a number of 8 bytes, little-endian. */
    FDB_TR_OPTION_MAX_RETRY_DELAY = 502,
    /* Takes a number of 8 bytes, little-endian. */
    FDB_TR_OPTION_SIZE_LIMIT = 503,
    /* Takes a string. */
    FDB_TR_OPTION_IDEMPOTENCY_ID = 504,
    FDB_TR_OPTION_AUTOMATIC_IDEMPOTENCY = 505,
    FDB_TR_OPTION_READ_SERVER_SIDE_CACHE_ENABLE = 507,
    FDB_TR_OPTION_READ_SERVER_SIDE_CACHE_DISABLE = 508,
    FDB_TR_OPTION_READ_PRIORITY_NORMAL = 509,
    FDB_TR_OPTION_READ_PRIORITY_LOW = 510,
    FDB_TR_OPTION_READ_PRIORITY_HIGH = 511,
    FDB_TR_OPTION_SNAPSHOT_RYW_ENABLE = 600,
    FDB_TR_OPTION_SNAPSHOT_RYW_DISABLE = 601,
    FDB_TR_OPTION_LOCK_AWARE = 700,
    FDB_TR_OPTION_USED_DURING_COMMIT_PROTECTION_DISABLE = 701,
    FDB_TR_OPTION_READ_LOCK_AWARE = 702,
    FDB_TR_OPTION_FIRST_IN_BATCH = 710,
    FDB_TR_OPTION_USE_PROVISIONAL_PROXIES = 711,
    FDB_TR_OPTION_REPORT_CONFLICTING_KEYS = 712,
    FDB_TR_OPTION_SPECIAL_KEY_SPACE_RELAXED = 713,
    FDB_TR_OPTION_SPECIAL_KEY_SPACE_ENABLE_WRITES = 714,
    /* Takes a string. */
    FDB_TR_OPTION_TAG = 800,
    /* Takes a string. */
    FDB_TR_OPTION_AUTO_THROTTLE_TAG = 801,
    /* Takes bytes. */
    FDB_TR_OPTION_SPAN_PARENT = 900,
    FDB_TR_OPTION_EXPENSIVE_CLEAR_COST_ESTIMATION_ENABLE = 1000,
    FDB_TR_OPTION_BYPASS_UNREADABLE = 1100,
    FDB_TR_OPTION_USE_GRV_CACHE = 1101,
    FDB_TR_OPTION_SKIP_GRV_CACHE = 1102,
#if defined(FDB_API_VERSION) && FDB_API_VERSION >= 800
    /* Takes a number of 8 bytes, little-endian. */
    FDB_TR_OPTION_MAX_GRV_QUEUE_DELAY = 1103,
#endif
    /* Takes a string. */
    FDB_TR_OPTION_AUTHORIZATION_TOKEN = 2000,
    FDB_TR_OPTION_ENABLE_REPLICA_CONSISTENCY_CHECK = 4000,
    /* Takes a number of 8 bytes, little-endian. */
    FDB_TR_OPTION_CONSISTENCY_CHECK_REQUIRED_REPLICAS = 4001
} FDBTransactionOption;

/* How much of a range one read brings. */
typedef enum {
    FDB_STREAMING_MODE_WANT_ALL = -2,
    FDB_STREAMING_MODE_ITERATOR = -1,
    FDB_STREAMING_MODE_EXACT = 0,
    FDB_STREAMING_MODE_SMALL = 1,
    FDB_STREAMING_MODE_MEDIUM = 2,
    FDB_STREAMING_MODE_LARGE = 3,
    FDB_STREAMING_MODE_SERIAL = 4
} FDBStreamingMode;

/* Atomic operations. */
typedef enum {
    /* Takes bytes. */
    FDB_MUTATION_TYPE_ADD = 2,
    /* Takes bytes. */
    FDB_MUTATION_TYPE_BIT_AND = 6,
    /* Takes bytes. */
    FDB_MUTATION_TYPE_AND = 6,
    /* Takes bytes. */
    FDB_MUTATION_TYPE_OR = 7,
    /* Takes bytes. */
    FDB_MUTATION_TYPE_BIT_OR = 7,
    /* Takes bytes. */
    FDB_MUTATION_TYPE_XOR = 8,
    /* Takes bytes. */
    FDB_MUTATION_TYPE_BIT_XOR = 8,
    /* Takes bytes. */
    FDB_MUTATION_TYPE_APPEND_IF_FITS = 9,
    /* Takes bytes. */
    FDB_MUTATION_TYPE_MAX = 12,
    /* Takes bytes. */
    FDB_MUTATION_TYPE_MIN = 13,
    /* Takes bytes. */
    FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_KEY = 14,
    /* Takes bytes. */
    FDB_MUTATION_TYPE_SET_VERSIONSTAMPED_VALUE = 15,
    /* Takes bytes. */
    FDB_MUTATION_TYPE_BYTE_MIN = 16,
    /* Takes bytes. */
    FDB_MUTATION_TYPE_BYTE_MAX = 17,
    /* Takes bytes. */
    FDB_MUTATION_TYPE_COMPARE_AND_CLEAR = 20
} FDBMutationType;

/* Kinds of conflict ranges. */
typedef enum {
    FDB_CONFLICT_RANGE_TYPE_READ = 0,
    FDB_CONFLICT_RANGE_TYPE_WRITE = 1
} FDBConflictRangeType;

/* Questions about an error code. */
typedef enum {
    FDB_ERROR_PREDICATE_RETRYABLE = 50000,
    FDB_ERROR_PREDICATE_MAYBE_COMMITTED = 50001,
    FDB_ERROR_PREDICATE_RETRYABLE_NOT_COMMITTED = 50002
} FDBErrorPredicate;

/* Options of a cluster, of which there never were any. */
typedef enum {
    FDB_CLUSTER_OPTION_DUMMY_DO_NOT_USE = -1
} FDBClusterOption;

#endif
