/* What every program here needs: checks that say where they failed, and a network thread. */
#ifndef CONFORMANCE_CHECK_H
#define CONFORMANCE_CHECK_H

/* The newest version, unless the program has chosen one. */
#ifndef FDB_API_VERSION
#define FDB_API_VERSION 740
#endif
#include <foundationdb/fdb_c.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void expect(long long wanted, long long found, const char *what, int line) {
    if (wanted == found) return;
    fprintf(stderr, "line %d: %s is %lld, not %lld\n", line, what, found, wanted);
    exit(1);
}
#define EXPECT(wanted, what) expect((wanted), (what), #what, __LINE__)

/* Bytes of a literal, without its final zero. */
#define BYTES(text) (const uint8_t *)(text), (int)(sizeof(text) - 1)

static inline void *network_main(void *unused) {
    (void)unused;
    EXPECT(0, fdb_run_network());
    return NULL;
}

static inline pthread_t start_network(int runtime, int header) {
    pthread_t thread;
    EXPECT(0, fdb_select_api_version_impl(runtime, header));
    EXPECT(0, fdb_setup_network());
    EXPECT(0, pthread_create(&thread, NULL, network_main, NULL));
    return thread;
}

static inline void stop_network(pthread_t thread) {
    EXPECT(0, fdb_stop_network());
    EXPECT(0, pthread_join(thread, NULL));
}

/* Waits for a future and answers its error. */
static inline int wait_for(FDBFuture *future) {
    EXPECT(0, fdb_future_block_until_ready(future));
    return fdb_future_get_error(future);
}

/* Waits for a future that must succeed, and gives it back. */
static inline void finish(FDBFuture *future) {
    EXPECT(0, wait_for(future));
    fdb_future_destroy(future);
}

static inline FDBTransaction *begin(FDBDatabase *database) {
    FDBTransaction *transaction;
    EXPECT(0, fdb_database_create_transaction(database, &transaction));
    return transaction;
}

static inline const char *cluster_file(void) { return getenv("FDB_CLUSTER_FILE"); }

#endif
