/* A program compiled with a header before 610: it opens a cluster first, and reads versions with another function. */
#define FDB_API_VERSION 510
#include "check.h"

int main(void) {
    pthread_t network = start_network(510, 510);

    FDBFuture *future = fdb_create_cluster(cluster_file());
    EXPECT(0, wait_for(future));
    FDBCluster *cluster;
    EXPECT(0, fdb_future_get_cluster(future, &cluster));
    fdb_future_destroy(future);

    future = fdb_cluster_create_database(cluster, BYTES("other"));
    EXPECT(2013, wait_for(future));
    fdb_future_destroy(future);
    future = fdb_cluster_create_database(cluster, BYTES("DB"));
    EXPECT(0, wait_for(future));
    FDBDatabase *database;
    EXPECT(0, fdb_future_get_database(future, &database));
    fdb_future_destroy(future);
    fdb_cluster_destroy(cluster);

    FDBTransaction *transaction = begin(database);
    int64_t version = 0;
    future = fdb_transaction_get_read_version(transaction);
    EXPECT(0, wait_for(future));
    EXPECT(0, fdb_future_get_version(future, &version));
    EXPECT(1, version > 0);
    fdb_future_destroy(future);
    fdb_transaction_set(transaction, BYTES("legacy"), BYTES("value"));
    finish(fdb_transaction_commit(transaction));
    fdb_transaction_destroy(transaction);
    fdb_database_destroy(database);
    stop_network(network);
    return 0;
}
