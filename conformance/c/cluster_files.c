/* Databases of missing, empty and invalid cluster files are opened, and then every operation on them
 * fails. Our library does so with SHAKETABLE_STRICT_CLUSTER_FILES=on, the real one always.
 *
 *     cluster_files FOLDER            a folder to write files in
 *     cluster_files FOLDER default    the file of FDB_CLUSTER_FILE is missing
 */
#include "check.h"

static char path[4096];

static const char *written(const char *folder, const char *name, const char *text) {
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    EXPECT(1, file != NULL);
    EXPECT((long long)strlen(text), (long long)fwrite(text, 1, strlen(text), file));
    EXPECT(0, fclose(file));
    return path;
}

static void fails(FDBDatabase *database, int code) {
    FDBTransaction *transaction = begin(database);
    FDBFuture *future = fdb_transaction_get(transaction, BYTES("key"), 0);
    EXPECT(code, wait_for(future));
    fdb_future_destroy(future);
    future = fdb_transaction_get_read_version(transaction);
    EXPECT(code, wait_for(future));
    fdb_future_destroy(future);
    /* It is no error that trying again could help. */
    future = fdb_transaction_on_error(transaction, code);
    EXPECT(code, wait_for(future));
    fdb_future_destroy(future);
    fdb_transaction_reset(transaction);
    fdb_transaction_set(transaction, BYTES("key"), BYTES("value"));
    future = fdb_transaction_commit(transaction);
    EXPECT(code, wait_for(future));
    fdb_future_destroy(future);
    fdb_transaction_destroy(transaction);
    /* The client says why it cannot work. */
    const uint8_t *status;
    int length;
    future = fdb_database_get_client_status(database);
    EXPECT(0, wait_for(future));
    EXPECT(0, fdb_future_get_key(future, &status, &length));
    char wanted[64], found[65536];
    snprintf(wanted, sizeof wanted, "\"InitializationError\":%d", code);
    EXPECT(1, length < (int)sizeof found);
    memcpy(found, status, (size_t)length);
    found[length] = 0;
    EXPECT(1, strstr(found, wanted) != NULL);
    fdb_future_destroy(future);
    fdb_database_destroy(database);
}

static void file_fails(const char *file, int code) {
    FDBDatabase *database;
    EXPECT(0, fdb_create_database(file, &database));
    fails(database, code);
}

static void text_fails(const char *text, int code) {
    FDBDatabase *database;
    EXPECT(0, fdb_create_database_from_connection_string(text, &database));
    fails(database, code);
}

int main(int count, char **arguments) {
    pthread_t network = start_network(740, 740);
    EXPECT(1, count >= 2);
    if (count > 2) {
        file_fails(NULL, 1515);
        file_fails("", 1515);
    } else {
        const char *folder = arguments[1];
        snprintf(path, sizeof path, "%s/missing", folder);
        file_fails(path, 1515);
        file_fails(written(folder, "empty", ""), 2104);
        file_fails(written(folder, "comment", "# nothing\n"), 2104);
        file_fails(written(folder, "letters", "abcdef"), 2104);
        file_fails(written(folder, "nowhere", "abc:def@"), 2104);
        file_fails(written(folder, "twice", "abc:def@127.0.0.1:4500,127.0.0.1:4500"), 2104);
        text_fails("abc:def@", 2104);
        text_fails("abcdef", 2104);
    }
    stop_network(network);
    return 0;
}
