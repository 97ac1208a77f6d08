/* What a tool asks of a cluster: its status, its coordinators, a snapshot, a recovery, a reboot. With the argument
 * `shared`, the program disables the client's bypass, without which no transaction may use the cache of read versions. */
#include "check.h"

static FDBDatabase *database;

static int end_of(FDBFuture *future) {
    int error = wait_for(future);
    fdb_future_destroy(future);
    return error;
}

/* The value of a key that must be there, as a string that the caller frees. */
static char *read_key(const uint8_t *key, int key_length) {
    FDBTransaction *transaction = begin(database);
    EXPECT(0, fdb_transaction_set_option(transaction, FDB_TR_OPTION_READ_SYSTEM_KEYS, NULL, 0));
    FDBFuture *future = fdb_transaction_get(transaction, key, key_length, 0);
    int present, length;
    const uint8_t *value;
    EXPECT(0, wait_for(future));
    EXPECT(0, fdb_future_get_value(future, &present, &value, &length));
    EXPECT(1, present);
    char *text = malloc(length + 1);
    memcpy(text, value, length);
    text[length] = 0;
    fdb_future_destroy(future);
    fdb_transaction_destroy(transaction);
    return text;
}

/* The number behind a name in the status. */
static long number_in_status(const char *name) {
    char *status = read_key(BYTES("\xff\xff/status/json"));
    const char *found = strstr(status, name);
    EXPECT(1, found != NULL);
    found += strlen(name);
    long number = strtol(found + strspn(found, "\": "), NULL, 10);
    free(status);
    return number;
}

int main(int count, char **arguments) {
    int is_shared = count > 1 && !strcmp(arguments[1], "shared");
    EXPECT(0, fdb_select_api_version(FDB_API_VERSION));
    if (is_shared) EXPECT(0, fdb_network_set_option(FDB_NET_OPTION_DISABLE_CLIENT_BYPASS, NULL, 0));
    EXPECT(0, fdb_setup_network());
    pthread_t network;
    EXPECT(0, pthread_create(&network, NULL, network_main, NULL));
    EXPECT(0, fdb_create_database(cluster_file(), &database));

    /* The first thing that a monitoring tool does. */
    char *status = read_key(BYTES("\xff\xff/status/json"));
    EXPECT(1, strstr(status, "\"cluster\"") != NULL && strstr(status, "\"processes\"") != NULL);

    FDBTransaction *transaction = begin(database);
    EXPECT(0, fdb_transaction_set_option(transaction, FDB_TR_OPTION_USE_GRV_CACHE, NULL, 0));
    EXPECT(is_shared ? 0 : 2007, end_of(fdb_transaction_get(transaction, BYTES("administration"), 0)));
    fdb_transaction_destroy(transaction);

    char *coordinators = read_key(BYTES("\xff/coordinators"));
    const char *address = strchr(coordinators, '@');
    EXPECT(1, strchr(coordinators, ':') != NULL && address != NULL);
    address++;
    EXPECT(1, strstr(status, address) != NULL);

    EXPECT(2509, end_of(fdb_database_create_snapshot(database, BYTES("invalid"), BYTES("command"))));
    EXPECT(2505, end_of(fdb_database_create_snapshot(database, BYTES("0123456789abcdef0123456789ABCDEF"), BYTES("command"))));
    EXPECT(0, end_of(fdb_database_force_recovery_with_data_loss(database, BYTES("datacenter"))));

    transaction = begin(database);
    fdb_transaction_set(transaction, BYTES("administration"), BYTES("kept"));
    finish(fdb_transaction_commit(transaction));
    fdb_transaction_destroy(transaction);
    long before = number_in_status("\"generation\"");
    for (int64_t rebooted = 0; !rebooted;) {
        FDBFuture *reboot =
            fdb_database_reboot_worker(database, (const uint8_t *)address, (int)strlen(address), 0, 0);
        EXPECT(0, wait_for(reboot));
        EXPECT(0, fdb_future_get_int64(reboot, &rebooted));
        fdb_future_destroy(reboot);
    }
    char *kept = read_key(BYTES("administration"));
    EXPECT(0, strcmp(kept, "kept"));
    EXPECT(1, number_in_status("\"generation\"") > before);

    free(kept);
    free(status);
    free(coordinators);
    fdb_database_destroy(database);
    stop_network(network);
    return 0;
}
