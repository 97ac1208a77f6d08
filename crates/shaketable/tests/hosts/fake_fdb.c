// The few functions of libfdb_c that a workload without transactions needs, on a clock that the test
// owns. Every other function is added by the test as a stub that aborts.
//
// Futures behave as FoundationDB's do where it matters here: a callback set on a ready future runs
// inside the call; destroying a pending future cancels it, and its callback still runs, later.

#include "fake_fdb.h"

#include <stdio.h>
#include <stdlib.h>

struct FDB_future {
    double due;
    int ready;
    int error;
    int destroyed;
    int calling;
    void (*callback)(FDBFuture*, void*);
    void* argument;
    FDBFuture* next;
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

int fdb_database_create_transaction(FDBDatabase* database, void** transaction) {
    printf("%s\n", database->alive ? "transaction on a live database" : "BUG: transaction on a dead database");
    *transaction = NULL;
    return 1;
}
