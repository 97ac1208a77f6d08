// The few functions of libfdb_c that the workloads of the tests need, on a clock that the test owns.
// Every other function is added by the test as a stub that aborts.
//
// Futures behave as FoundationDB's do where it matters here: a callback set on a ready future runs
// inside the call; destroying a pending future cancels it, and its callback still runs, later.

#include "fake_fdb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct FDB_future {
    double due;
    int ready;
    int error;
    int destroyed;
    int calling;
    void (*callback)(FDBFuture*, void*);
    void* argument;
    FDBFuture* next;
    // What it is answered with, if it is a value or a number.
    int present;
    int length;
    uint8_t value[64];
    int64_t number;
};

static double clock_seconds = 92.5;
static FDBFuture* timers; // ordered by due time, then by age

static void insert(FDBFuture* future) {
    FDBFuture** at = &timers;
    while (*at && (*at)->due <= future->due) at = &(*at)->next;
    future->next = *at;
    *at = future;
}

static void unlink_timer(FDBFuture* future) {
    FDBFuture** at = &timers;
    while (*at && *at != future) at = &(*at)->next;
    if (*at) *at = future->next;
}

double fake_now(void) {
    return clock_seconds;
}

FDBFuture* fake_delay(double seconds) {
    FDBFuture* future = calloc(1, sizeof *future);
    future->due = clock_seconds + seconds;
    insert(future);
    return future;
}

int fake_step(void) {
    FDBFuture* future = timers;
    if (!future) return 0;
    timers = future->next;
    if (future->due > clock_seconds) clock_seconds = future->due;
    future->ready = 1;
    future->calling = 1;
    if (future->callback) future->callback(future, future->argument);
    future->calling = 0;
    if (future->destroyed) free(future);
    return 1;
}

int fdb_select_api_version_impl(int runtime, int header) {
    static int selected;
    if (selected) return 2201;
    if (runtime > header) return 2202;
    selected = runtime;
    return 0;
}

int fdb_get_max_api_version(void) {
    return 740;
}

const char* fdb_get_error(int code) {
    switch (code) {
    case 0: return "Success";
    case 1101: return "Asynchronous operation cancelled";
    case 2108: return "Operation is not supported";
    case 2202: return "API version not valid";
    default: return "An error";
    }
}

int fdb_future_is_ready(FDBFuture* future) {
    return future->ready;
}

int fdb_future_get_error(FDBFuture* future) {
    return future->error;
}

int fdb_future_set_callback(FDBFuture* future, void (*callback)(FDBFuture*, void*), void* argument) {
    if (future->ready) {
        callback(future, argument);
    } else {
        future->callback = callback;
        future->argument = argument;
    }
    return 0;
}

void fdb_future_destroy(FDBFuture* future) {
    if (future->ready) {
        // Inside its own callback the future is still in use; the loop frees it.
        if (future->calling) future->destroyed = 1;
        else free(future);
        return;
    }
    future->destroyed = 1;
    future->error = 1101;
    unlink_timer(future);
    future->due = clock_seconds;
    insert(future);
}

void fdb_database_destroy(FDBDatabase* database) {
    printf("BUG: the library destroyed database %p\n", (void*)database);
}

// A store with the few operations that a counter takes: no ranges, no conflicts, values of up to 64
// bytes.

typedef struct Row {
    struct Row* next;
    int key_length, length;
    uint8_t key[64], value[64];
} Row;

typedef struct FDB_transaction {
    Row* writes;
    int64_t committed;
} FDBTransaction;

static Row* rows;
static int64_t version = 1000;
static int commits;

static void write_row(Row** list, const uint8_t* key, int key_length, const uint8_t* value, int length) {
    Row* row = *list;
    while (row && (row->key_length != key_length || memcmp(row->key, key, key_length))) row = row->next;
    if (!row) {
        row = calloc(1, sizeof *row);
        row->next = *list;
        row->key_length = key_length;
        memcpy(row->key, key, key_length);
        *list = row;
    }
    row->length = length;
    memcpy(row->value, value, length);
}

static void forget(FDBTransaction* transaction) {
    while (transaction->writes) {
        Row* row = transaction->writes;
        transaction->writes = row->next;
        free(row);
    }
    transaction->committed = -1;
}

int fdb_database_create_transaction(FDBDatabase* database, void** transaction) {
    if (database->alive && database->has_store) {
        *transaction = calloc(1, sizeof(FDBTransaction));
        forget(*transaction);
        return 0;
    }
    printf("%s\n", database->alive ? "transaction on a live database" : "BUG: transaction on a dead database");
    *transaction = NULL;
    return 1;
}

void fdb_transaction_destroy(FDBTransaction* transaction) {
    forget(transaction);
    free(transaction);
}

void fdb_transaction_reset(FDBTransaction* transaction) {
    forget(transaction);
}

int fdb_transaction_set_option(FDBTransaction* transaction, int option, const uint8_t* value, int length) {
    (void)transaction, (void)option, (void)value, (void)length;
    return 0;
}

FDBFuture* fdb_transaction_get(FDBTransaction* transaction, const uint8_t* key, int key_length, int snapshot) {
    (void)snapshot;
    FDBFuture* future = fake_delay(0.001);
    Row* lists[] = { transaction->writes, rows };
    for (int i = 0; i < 2 && !future->present; i++)
        for (Row* row = lists[i]; row && !future->present; row = row->next)
            if (row->key_length == key_length && !memcmp(row->key, key, key_length)) {
                future->present = 1;
                future->length = row->length;
                memcpy(future->value, row->value, row->length);
            }
    return future;
}

void fdb_transaction_set(FDBTransaction* transaction, const uint8_t* key, int key_length, const uint8_t* value, int length) {
    write_row(&transaction->writes, key, key_length, value, length);
}

FDBFuture* fdb_transaction_commit(FDBTransaction* transaction) {
    FDBFuture* future = fake_delay(0.002);
    if (!transaction->writes) return future;
    for (Row* row = transaction->writes; row; row = row->next)
        write_row(&rows, row->key, row->key_length, row->value, row->length);
    transaction->committed = ++version;
    if (++commits % 3 == 0) future->error = 1021; // it has landed all the same
    return future;
}

int fdb_transaction_get_committed_version(FDBTransaction* transaction, int64_t* out) {
    *out = transaction->committed;
    return 0;
}

FDBFuture* fdb_transaction_get_read_version(FDBTransaction* transaction) {
    (void)transaction;
    FDBFuture* future = fake_delay(0);
    future->number = version;
    return future;
}

int fdb_error_predicate(int predicate, int error) {
    switch (predicate) {
    case 50000: return error == 1021 || error == 1020;
    case 50001: return error == 1021;
    case 50002: return error == 1020;
    default: return 0;
    }
}

FDBFuture* fdb_transaction_on_error(FDBTransaction* transaction, int error) {
    FDBFuture* future = fake_delay(0.01);
    if (fdb_error_predicate(50000, error)) forget(transaction);
    else future->error = error;
    return future;
}

int fdb_future_get_value(FDBFuture* future, int* present, const uint8_t** value, int* length) {
    *present = future->present;
    *value = future->value;
    *length = future->length;
    return future->error;
}

int fdb_future_get_int64(FDBFuture* future, int64_t* out) {
    *out = future->number;
    return future->error;
}
