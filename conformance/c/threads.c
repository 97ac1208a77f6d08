/* Several threads on one database, on shared transactions, with callbacks, cancellations and destructions crossing one
 * another. What must hold at the end: every increment that was acknowledged is there, every callback ran once.
 * Meant to be run under a race detector as well. */
#include "check.h"
#include <stdatomic.h>
#include <unistd.h>

enum { THREADS = 4 };
static int rounds = 200;

static FDBDatabase *database;
static atomic_llong committed;
static atomic_llong callbacks_wanted, callbacks_seen;

static void seen(FDBFuture *future, void *parameter) {
    (void)future;
    atomic_fetch_add((atomic_llong *)parameter, 1);
}

static void listen_to(FDBFuture *future) {
    atomic_fetch_add(&callbacks_wanted, 1);
    EXPECT(0, fdb_future_set_callback(future, seen, &callbacks_seen));
}

static void increment(FDBTransaction *transaction) {
    for (;;) {
        fdb_transaction_atomic_op(transaction, BYTES("threads/sum"), BYTES("\1\0\0\0\0\0\0\0"), 2);
        FDBFuture *commit = fdb_transaction_commit(transaction);
        listen_to(commit);
        int error = wait_for(commit);
        fdb_future_destroy(commit);
        if (error == 0) {
            atomic_fetch_add(&committed, 1);
            fdb_transaction_reset(transaction);
            return;
        }
        FDBFuture *retry = fdb_transaction_on_error(transaction, error);
        EXPECT(0, wait_for(retry));
        fdb_future_destroy(retry);
    }
}

static void read_modify_write(FDBTransaction *transaction) {
    for (;;) {
        FDBFuture *read = fdb_transaction_get(transaction, BYTES("threads/value"), 0);
        int error = wait_for(read);
        if (error == 0) {
            int present, length;
            const uint8_t *value;
            int64_t number = 0;
            EXPECT(0, fdb_future_get_value(read, &present, &value, &length));
            if (present) memcpy(&number, value, sizeof number);
            number++;
            fdb_transaction_set(transaction, BYTES("threads/value"), (const uint8_t *)&number, sizeof number);
            FDBFuture *commit = fdb_transaction_commit(transaction);
            error = wait_for(commit);
            fdb_future_destroy(commit);
        }
        fdb_future_destroy(read);
        if (error == 0) {
            fdb_transaction_reset(transaction);
            return;
        }
        finish(fdb_transaction_on_error(transaction, error));
    }
}

/* Futures that are cancelled or destroyed while they may be completing. */
static void disturb(int round) {
    FDBTransaction *transaction = begin(database);
    FDBFuture *futures[8];
    for (int i = 0; i < 8; i++) {
        futures[i] = fdb_transaction_get(transaction, BYTES("threads/value"), i & 1);
        listen_to(futures[i]);
    }
    for (int i = 0; i < 8; i++) {
        if ((i + round) % 3 == 0) fdb_future_cancel(futures[i]);
        if ((i + round) % 3 == 1) fdb_transaction_cancel(transaction);
        fdb_future_destroy(futures[i]);
    }
    fdb_transaction_destroy(transaction);
}

static void *work(void *parameter) {
    FDBTransaction *transaction = begin(database);
    for (int round = 0; round < rounds; round++) {
        increment(transaction);
        read_modify_write(transaction);
        disturb(round);
    }
    fdb_transaction_destroy(transaction);
    return parameter;
}

/* One transaction and one future that all threads look at. */
static FDBTransaction *shared;
static FDBFuture *shared_read;

static void *share(void *parameter) {
    for (int round = 0; round < rounds; round++) {
        FDBFuture *read = fdb_transaction_get(shared, BYTES("threads/value"), 1);
        EXPECT(0, wait_for(read));
        fdb_future_destroy(read);
        int present, length;
        const uint8_t *value;
        EXPECT(0, fdb_future_block_until_ready(shared_read));
        EXPECT(0, fdb_future_get_value(shared_read, &present, &value, &length));
        EXPECT(8, length);
    }
    return parameter;
}

static void run_threads(void *(*body)(void *)) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) EXPECT(0, pthread_create(&threads[i], NULL, body, NULL));
    for (int i = 0; i < THREADS; i++) EXPECT(0, pthread_join(threads[i], NULL));
}

static int64_t number_at(const char *key) {
    FDBTransaction *transaction = begin(database);
    FDBFuture *read = fdb_transaction_get(transaction, (const uint8_t *)key, (int)strlen(key), 0);
    EXPECT(0, wait_for(read));
    int present, length;
    const uint8_t *value;
    int64_t number = 0;
    EXPECT(0, fdb_future_get_value(read, &present, &value, &length));
    EXPECT(1, present);
    EXPECT(8, length);
    memcpy(&number, value, sizeof number);
    fdb_future_destroy(read);
    fdb_transaction_destroy(transaction);
    return number;
}

int main(int count, char **arguments) {
    if (count > 1) rounds = atoi(arguments[1]);
    pthread_t network = start_network(740, 740);
    EXPECT(0, fdb_create_database(cluster_file(), &database));
    FDBTransaction *transaction = begin(database);
    fdb_transaction_clear_range(transaction, BYTES("threads/"), BYTES("threads0"));
    finish(fdb_transaction_commit(transaction));
    fdb_transaction_destroy(transaction);

    run_threads(work);
    EXPECT(atomic_load(&committed), number_at("threads/sum"));
    EXPECT((long long)THREADS * rounds, number_at("threads/value"));
    while (atomic_load(&callbacks_seen) < atomic_load(&callbacks_wanted)) usleep(100);
    EXPECT(atomic_load(&callbacks_wanted), atomic_load(&callbacks_seen));

    shared = begin(database);
    shared_read = fdb_transaction_get(shared, BYTES("threads/value"), 1);
    run_threads(share);
    fdb_future_destroy(shared_read);
    fdb_transaction_destroy(shared);

    fdb_database_destroy(database);
    stop_network(network);
    return 0;
}
