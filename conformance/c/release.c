/* What a program of API version 800 sees: the client of FoundationDB 8.0. Options and error codes have come and gone, there
 * are no tenants, and one function is new. */
#define FDB_API_VERSION 800
#include "check.h"

static FDBDatabase *database;

/* How many split points a range has. */
static int split_points(int limit) {
    FDBTransaction *transaction = begin(database);
    FDBFuture *future =
        fdb_transaction_get_range_split_points_with_limit(transaction, BYTES("row"), BYTES("rox"), 100000, limit);
    const FDBKey *keys;
    int count;
    EXPECT(0, wait_for(future));
    EXPECT(0, fdb_future_get_key_array(future, &keys, &count));
    fdb_future_destroy(future);
    fdb_transaction_destroy(transaction);
    return count;
}

static void fill(void) {
    static uint8_t value[50000];
    FDBTransaction *transaction = begin(database);
    for (int row = 0; row < 40; row++) {
        uint8_t key[] = {'r', 'o', 'w', (uint8_t)row};
        fdb_transaction_set(transaction, key, sizeof key, value, sizeof value);
    }
    finish(fdb_transaction_commit(transaction));
    fdb_transaction_destroy(transaction);
}

int main(void) {
    EXPECT(800, fdb_get_max_api_version());
    /* Before the selection the library is that of 7.4. */
    EXPECT(0, strcmp("Tenant does not exist", fdb_get_error(2131)));
    EXPECT(2007, fdb_network_set_option(FDB_NET_OPTION_TRACE_IP, BYTES("10.0.0.1")));
    EXPECT(0, fdb_select_api_version(FDB_API_VERSION));

    EXPECT(0, strncmp("8.0.", fdb_get_client_version(), 4));
    EXPECT(0, strcmp("UNKNOWN_ERROR", fdb_get_error(2131)));
    EXPECT(1, strcmp("UNKNOWN_ERROR", fdb_get_error(1251)) != 0);
    EXPECT(0, fdb_error_predicate(FDB_ERROR_PREDICATE_RETRYABLE, 1223));
    EXPECT(1, fdb_error_predicate(FDB_ERROR_PREDICATE_RETRYABLE, 1020));

    EXPECT(0, fdb_network_set_option(FDB_NET_OPTION_TRACE_IP, BYTES("10.0.0.1")));
    EXPECT(2006, fdb_network_set_option(FDB_NET_OPTION_TRACE_IP, BYTES("here")));
    EXPECT(0, fdb_setup_network());
    pthread_t network;
    EXPECT(0, pthread_create(&network, NULL, network_main, NULL));
    EXPECT(0, fdb_create_database(cluster_file(), &database));
    EXPECT(2007, fdb_database_set_option(database, 800, NULL, 0));

    FDBTransaction *transaction = begin(database);
    int64_t delay = 1000;
    EXPECT(0, fdb_transaction_set_option(transaction, FDB_TR_OPTION_MAX_GRV_QUEUE_DELAY, (const uint8_t *)&delay, 8));
    finish(fdb_transaction_get(transaction, BYTES("anything"), 0));
    fdb_transaction_destroy(transaction);

    /* FoundationDB's function ends the program instead. */
    FDBTenant *tenant;
    EXPECT(2108, fdb_database_open_tenant(database, BYTES("tenant"), &tenant));

    fill();
    EXPECT(1, split_points(-1) > 4);
    /* So many between the two ends. */
    EXPECT(4, split_points(2));

    fdb_database_destroy(database);
    EXPECT(0, fdb_stop_network());
    EXPECT(0, pthread_join(network, NULL));
    return 0;
}
