/* The life of a future: what is ready when, who calls back, and how long memory lives. */
#include "check.h"
#include <stdatomic.h>
#include <unistd.h>

static FDBDatabase *database;

/* Callbacks count here and note what they saw. */
struct notes {
    atomic_int calls;
    atomic_int order[4];
    int error;
    int blocked;
};

static void note(FDBFuture *future, void *parameter) {
    struct notes *notes = parameter;
    EXPECT(1, fdb_future_is_ready(future));
    notes->error = fdb_future_get_error(future);
    atomic_fetch_add(&notes->calls, 1);
}

static void await_calls(struct notes *notes, int calls) {
    while (atomic_load(&notes->calls) < calls) usleep(100);
}

static void nothing_is_ready_on_return_and_getters_say_so(void) {
    FDBTransaction *transaction = begin(database);
    int pending = 0;
    for (int i = 0; i < 1000; i++) {
        FDBFuture *future = fdb_transaction_get(transaction, BYTES("futures/absent"), 0);
        pending += !fdb_future_is_ready(future);
        fdb_future_destroy(future);
    }
    EXPECT(1, pending > 0);
    FDBFuture *watch = fdb_transaction_watch(transaction, BYTES("futures/watched"));
    int present;
    const uint8_t *value;
    int length;
    EXPECT(2015, fdb_future_get_value(watch, &present, &value, &length));
    EXPECT(2015, fdb_future_get_error(watch));
    fdb_future_destroy(watch);
    fdb_transaction_destroy(transaction);
}

static void arguments_that_make_no_sense_are_an_error_at_once(void) {
    FDBTransaction *transaction = begin(database);
    FDBFuture *future = fdb_transaction_get_range(transaction, BYTES("a"), 0, 1, BYTES("b"), 0, 1, 0, 0, 0, 1, 0, 0);
    EXPECT(1, fdb_future_is_ready(future));
    EXPECT(2210, fdb_future_get_error(future));
    fdb_future_destroy(future);
    future = fdb_transaction_get_range(transaction, BYTES("a"), 0, 1, BYTES("b"), 0, 1, 0, 0, 17, 1, 0, 0);
    EXPECT(1, fdb_future_is_ready(future));
    EXPECT(2000, fdb_future_get_error(future));
    fdb_future_destroy(future);
    EXPECT(2005, fdb_transaction_add_conflict_range(transaction, BYTES("b"), BYTES("a"), 0));
    EXPECT(2000, fdb_transaction_add_conflict_range(transaction, BYTES("a"), BYTES("b"), 7));
    EXPECT(2007, fdb_transaction_set_option(transaction, 99999, NULL, 0));
    EXPECT(2007, fdb_database_set_option(database, 99999, NULL, 0));
    fdb_transaction_destroy(transaction);
}

static void memory_lives_until_every_read_is_released(void) {
    FDBTransaction *transaction = begin(database);
    fdb_transaction_set(transaction, BYTES("futures/empty"), BYTES(""));
    fdb_transaction_set(transaction, BYTES("futures/full"), BYTES("value"));
    finish(fdb_transaction_commit(transaction));
    fdb_transaction_reset(transaction);

    int present, length;
    const uint8_t *value;
    FDBFuture *future = fdb_transaction_get(transaction, BYTES("futures/full"), 0);
    EXPECT(0, wait_for(future));
    EXPECT(0, fdb_future_get_value(future, &present, &value, &length));
    EXPECT(1, present);
    EXPECT(5, length);
    EXPECT(0, memcmp(value, "value", 5));
    EXPECT(0, fdb_future_get_value(future, &present, &value, &length));
    fdb_future_release_memory(future);
    EXPECT(0, fdb_future_get_value(future, &present, &value, &length));
    fdb_future_release_memory(future);
    EXPECT(0, memcmp(value, "value", 5));
    fdb_future_release_memory(future);
    EXPECT(1102, fdb_future_get_value(future, &present, &value, &length));
    EXPECT(1102, fdb_future_get_error(future));
    EXPECT(1, fdb_future_is_ready(future));
    fdb_future_destroy(future);

    future = fdb_transaction_get(transaction, BYTES("futures/empty"), 0);
    EXPECT(0, wait_for(future));
    value = NULL;
    EXPECT(0, fdb_future_get_value(future, &present, &value, &length));
    EXPECT(1, present);
    EXPECT(0, length);
    EXPECT(1, value != NULL);
    fdb_future_destroy(future);

    /* Absent: only `present` is written. */
    future = fdb_transaction_get(transaction, BYTES("futures/absent"), 0);
    EXPECT(0, wait_for(future));
    value = (const uint8_t *)"untouched";
    EXPECT(0, fdb_future_get_value(future, &present, &value, &length));
    EXPECT(0, present);
    EXPECT('u', value[0]);
    fdb_future_destroy(future);

    const FDBKeyValue *rows;
    int count, more;
    future = fdb_transaction_get_range(transaction, BYTES("futures/"), 0, 1, BYTES("futures0"), 0, 1, 0, 0, -2, 1, 0, 0);
    EXPECT(0, wait_for(future));
    EXPECT(0, fdb_future_get_keyvalue_array(future, &rows, &count, &more));
    EXPECT(2, count);
    EXPECT(0, more);
    EXPECT(0, memcmp(rows[0].key, "futures/empty", 13));
    EXPECT(0, rows[0].value_length);
    EXPECT(1, rows[0].value != NULL);
    EXPECT(0, memcmp(rows[1].key, "futures/full", 12));
    EXPECT(0, memcmp(rows[1].value, "value", 5));
    fdb_future_destroy(future);
    fdb_transaction_destroy(transaction);
}

static void a_destroyed_pending_future_still_calls_back(void) {
    FDBTransaction *transaction = begin(database);
    struct notes notes = {0};
    FDBFuture *watch = fdb_transaction_watch(transaction, BYTES("futures/watched"));
    finish(fdb_transaction_commit(transaction));
    EXPECT(0, fdb_future_set_callback(watch, note, &notes));
    fdb_future_destroy(watch);
    await_calls(&notes, 1);
    EXPECT(1101, notes.error);
    fdb_transaction_destroy(transaction);
}

static void cancelling_is_not_immediate_and_leaves_ready_futures_alone(void) {
    FDBTransaction *transaction = begin(database);
    FDBFuture *watch = fdb_transaction_watch(transaction, BYTES("futures/watched"));
    finish(fdb_transaction_commit(transaction));
    fdb_future_cancel(watch);
    EXPECT(1101, wait_for(watch));
    fdb_future_destroy(watch);
    fdb_transaction_reset(transaction);
    FDBFuture *future = fdb_transaction_get(transaction, BYTES("futures/absent"), 0);
    EXPECT(0, wait_for(future));
    fdb_future_cancel(future);
    EXPECT(0, wait_for(future));
    struct notes notes = {0};
    EXPECT(0, fdb_future_set_callback(future, note, &notes));
    EXPECT(1, atomic_load(&notes.calls));
    fdb_future_destroy(future);
    fdb_transaction_destroy(transaction);
}

static void block_inside(FDBFuture *future, void *parameter) {
    struct notes *notes = parameter;
    FDBTransaction *transaction = begin(database);
    FDBFuture *read = fdb_transaction_get(transaction, BYTES("futures/absent"), 0);
    notes->blocked = fdb_future_block_until_ready(read);
    fdb_future_destroy(read);
    fdb_transaction_destroy(transaction);
    fdb_future_destroy(future);
    atomic_fetch_add(&notes->calls, 1);
}

static void a_callback_may_do_anything_but_wait(void) {
    FDBTransaction *transaction = begin(database);
    struct notes notes = {0};
    FDBFuture *watch = fdb_transaction_watch(transaction, BYTES("futures/touched"));
    finish(fdb_transaction_commit(transaction));
    EXPECT(0, fdb_future_set_callback(watch, block_inside, &notes));
    fdb_transaction_reset(transaction);
    fdb_transaction_atomic_op(transaction, BYTES("futures/touched"), BYTES("\1\0\0\0\0\0\0\0"), 2);
    finish(fdb_transaction_commit(transaction));
    await_calls(&notes, 1);
    EXPECT(2026, notes.blocked);
    fdb_transaction_destroy(transaction);
}

struct ordered {
    struct notes *notes;
    int name;
};

static void note_order(FDBFuture *future, void *parameter) {
    struct ordered *ordered = parameter;
    (void)future;
    int position = atomic_fetch_add(&ordered->notes->calls, 1);
    atomic_store(&ordered->notes->order[position], ordered->name);
}

static void several_callbacks_run_the_last_registered_first(void) {
    FDBTransaction *transaction = begin(database);
    struct notes notes = {0};
    struct ordered ordered[3] = {{&notes, 1}, {&notes, 2}, {&notes, 3}};
    FDBFuture *watch = fdb_transaction_watch(transaction, BYTES("futures/watched"));
    finish(fdb_transaction_commit(transaction));
    for (int i = 0; i < 3; i++) EXPECT(0, fdb_future_set_callback(watch, note_order, &ordered[i]));
    fdb_future_cancel(watch);
    await_calls(&notes, 3);
    EXPECT(3, notes.order[0]);
    EXPECT(2, notes.order[1]);
    EXPECT(1, notes.order[2]);
    fdb_future_destroy(watch);
    fdb_transaction_destroy(transaction);
}

static void destroying_a_transaction_ends_its_pending_operations(void) {
    FDBTransaction *transaction = begin(database);
    FDBFuture *watch = fdb_transaction_watch(transaction, BYTES("futures/watched"));
    fdb_transaction_destroy(transaction);
    EXPECT(1025, wait_for(watch));
    fdb_future_destroy(watch);
}

static void errors_of_calls_that_return_nothing_are_deferred(void) {
    FDBTransaction *transaction = begin(database);
    fdb_transaction_clear_range(transaction, BYTES("b"), BYTES("a"));
    fdb_transaction_set(transaction, BYTES("futures/skipped"), BYTES("1"));
    FDBFuture *future = fdb_transaction_get(transaction, BYTES("futures/full"), 0);
    EXPECT(2005, wait_for(future));
    fdb_future_destroy(future);
    future = fdb_transaction_commit(transaction);
    EXPECT(2005, wait_for(future));
    fdb_future_destroy(future);
    fdb_transaction_reset(transaction);
    future = fdb_transaction_get(transaction, BYTES("futures/skipped"), 0);
    int present, length;
    const uint8_t *value;
    EXPECT(0, wait_for(future));
    EXPECT(0, fdb_future_get_value(future, &present, &value, &length));
    EXPECT(0, present);
    fdb_future_destroy(future);
    fdb_transaction_destroy(transaction);
}

/* The stamp of each commit is there when the commit's callback runs, and so it is for a program that waits. */
static int stamps_not_ready;

static void look_at_stamp(FDBFuture *commit, void *stamp) {
    (void)commit;
    stamps_not_ready += !fdb_future_is_ready(stamp);
}

/* And the version is there when the stamp is. */
static int versions_not_known;

static void look_at_version(FDBFuture *stamp, void *transaction) {
    int64_t version = -1;
    EXPECT(0, fdb_transaction_get_committed_version(transaction, &version));
    versions_not_known += fdb_future_get_error(stamp) == 0 && version < 0;
}

static void a_versionstamp_is_ready_when_its_commit_is(void) {
    for (int round = 0; round < 300; round++) {
        FDBTransaction *transaction = begin(database);
        if (round % 3) fdb_transaction_set(transaction, BYTES("futures/stamped"), BYTES("1"));
        FDBFuture *stamp = fdb_transaction_get_versionstamp(transaction);
        EXPECT(0, fdb_future_set_callback(stamp, look_at_version, transaction));
        FDBFuture *commit = fdb_transaction_commit(transaction);
        EXPECT(0, fdb_future_set_callback(commit, look_at_stamp, stamp));
        EXPECT(0, wait_for(commit));
        EXPECT(1, fdb_future_is_ready(stamp));
        EXPECT(round % 3 ? 0 : 2021, fdb_future_get_error(stamp));
        /* The waiting thread may be ahead of the callback, which still looks at the stamp. */
        fdb_future_destroy(commit);
        finish(fdb_transaction_get_read_version(transaction));
        fdb_future_destroy(stamp);
        fdb_transaction_destroy(transaction);
    }
    EXPECT(0, stamps_not_ready);
    EXPECT(0, versions_not_known);
}

static void versions_and_other_answers(void) {
    FDBTransaction *transaction = begin(database);
    int64_t version = 0;
    EXPECT(0, fdb_transaction_get_committed_version(transaction, &version));
    EXPECT(-1, version);
    fdb_transaction_set(transaction, BYTES("futures/version"), BYTES("1"));
    FDBFuture *stamp = fdb_transaction_get_versionstamp(transaction);
    finish(fdb_transaction_commit(transaction));
    EXPECT(0, fdb_transaction_get_committed_version(transaction, &version));
    EXPECT(1, version > 0);
    EXPECT(0, wait_for(stamp));
    const uint8_t *bytes;
    int length;
    EXPECT(0, fdb_future_get_key(stamp, &bytes, &length));
    EXPECT(10, length);
    int64_t stamped = 0;
    for (int i = 0; i < 8; i++) stamped = stamped << 8 | bytes[i];
    EXPECT(version, stamped);
    fdb_future_destroy(stamp);
    fdb_transaction_reset(transaction);

    FDBFuture *future = fdb_transaction_get_addresses_for_key(transaction, BYTES("futures/version"));
    const char **addresses;
    int count;
    EXPECT(0, wait_for(future));
    EXPECT(0, fdb_future_get_string_array(future, &addresses, &count));
    EXPECT(1, count);
    EXPECT(1, strchr(addresses[0], ':') != NULL);
    fdb_future_destroy(future);

    const FDBKey *keys;
    future = fdb_transaction_get_range_split_points(transaction, BYTES("futures/"), BYTES("futures0"), 1000000);
    EXPECT(0, wait_for(future));
    EXPECT(0, fdb_future_get_key_array(future, &keys, &count));
    EXPECT(2, count);
    EXPECT(0, memcmp(keys[0].key, "futures/", 8));
    EXPECT(0, memcmp(keys[1].key, "futures0", 8));
    fdb_future_destroy(future);
    fdb_transaction_destroy(transaction);

    future = fdb_database_get_client_status(database);
    EXPECT(0, wait_for(future));
    EXPECT(0, fdb_future_get_key(future, &bytes, &length));
    char *text = strndup((const char *)bytes, (size_t)length);
    EXPECT(1, strstr(text, "\"Healthy\":true") != NULL);
    free(text);
    fdb_future_destroy(future);

    uint64_t protocol = 0;
    future = fdb_database_get_server_protocol(database, 0);
    EXPECT(0, wait_for(future));
    EXPECT(0, fdb_future_get_uint64(future, &protocol));
    EXPECT(0xFDB00B0, (long long)(protocol >> 32) & 0xFFFFFFF0);
    fdb_future_destroy(future);
}

/* The error of a future that is no longer needed. */
static int end_of(FDBFuture *future) {
    int error = wait_for(future);
    fdb_future_destroy(future);
    return error;
}

static void what_a_transaction_in_a_tenant_does_without_its_tenant(void) {
    FDBTenant *tenant;
    FDBTransaction *transaction;
    EXPECT(0, fdb_database_open_tenant(database, BYTES("tenant"), &tenant));
    EXPECT(2131, end_of(fdb_tenant_get_id(tenant)));
    EXPECT(0, fdb_tenant_create_transaction(tenant, &transaction));
    fdb_tenant_destroy(tenant);
    EXPECT(0, end_of(fdb_transaction_get_read_version(transaction)));
    EXPECT(0, end_of(fdb_transaction_commit(transaction)));
    fdb_transaction_reset(transaction);
    fdb_transaction_set(transaction, BYTES("a"), BYTES("1"));
    EXPECT(0, end_of(fdb_transaction_get(transaction, BYTES("a"), 0)));
    EXPECT(0, end_of(fdb_transaction_get(transaction, BYTES("\xff\xff/status/json"), 0)));
    FDBFuture *size = fdb_transaction_get_approximate_size(transaction);
    int64_t bytes;
    EXPECT(0, wait_for(size));
    EXPECT(0, fdb_future_get_int64(size, &bytes));
    EXPECT(73, bytes);
    fdb_future_destroy(size);
    EXPECT(2131, end_of(fdb_transaction_commit(transaction)));
    EXPECT(2131, end_of(fdb_transaction_on_error(transaction, 2131)));
    fdb_transaction_reset(transaction);
    EXPECT(2131, end_of(fdb_transaction_get(transaction, BYTES("other"), 0)));
    EXPECT(2131, end_of(fdb_transaction_commit(transaction)));
    fdb_transaction_reset(transaction);
    EXPECT(0, fdb_transaction_set_option(transaction, FDB_TR_OPTION_RAW_ACCESS, NULL, 0));
    EXPECT(2007, end_of(fdb_transaction_get(transaction, BYTES("other"), 0)));
    fdb_transaction_destroy(transaction);
}

static void a_key_may_be_read_as_a_value(void) {
    FDBTransaction *transaction = begin(database);
    FDBFuture *future = fdb_transaction_get_key(transaction, FDB_KEYSEL_LAST_LESS_THAN((const uint8_t *)"", 0), 0);
    int present, length;
    const uint8_t *value;
    EXPECT(0, wait_for(future));
    EXPECT(0, fdb_future_get_value(future, &present, &value, &length));
    EXPECT(1, present);
    EXPECT(0, length);
    fdb_future_destroy(future);
    fdb_transaction_destroy(transaction);
}

static void the_network_has_worked_after_a_while(void) {
    double busyness = fdb_database_get_main_thread_busyness(database);
    for (int i = 0; busyness <= 0 && i < 1000; i++) {
        usleep(10000);
        busyness = fdb_database_get_main_thread_busyness(database);
    }
    EXPECT(1, busyness > 0 && busyness <= 1);
}

int main(void) {
    pthread_t network = start_network(740, 740);
    EXPECT(0, fdb_create_database(cluster_file(), &database));
    /* Where this program is slow, a first measurement may be there already. */
    double busyness = fdb_database_get_main_thread_busyness(database);
    EXPECT(1, busyness >= 0 && busyness <= 1);
    FDBTransaction *transaction = begin(database);
    fdb_transaction_clear_range(transaction, BYTES("futures/"), BYTES("futures0"));
    finish(fdb_transaction_commit(transaction));
    fdb_transaction_destroy(transaction);

    nothing_is_ready_on_return_and_getters_say_so();
    arguments_that_make_no_sense_are_an_error_at_once();
    memory_lives_until_every_read_is_released();
    a_destroyed_pending_future_still_calls_back();
    cancelling_is_not_immediate_and_leaves_ready_futures_alone();
    a_callback_may_do_anything_but_wait();
    several_callbacks_run_the_last_registered_first();
    destroying_a_transaction_ends_its_pending_operations();
    errors_of_calls_that_return_nothing_are_deferred();
    a_versionstamp_is_ready_when_its_commit_is();
    versions_and_other_answers();
    what_a_transaction_in_a_tenant_does_without_its_tenant();
    a_key_may_be_read_as_a_value();
    the_network_has_worked_after_a_while();

    fdb_database_destroy(database);
    stop_network(network);
    return 0;
}
