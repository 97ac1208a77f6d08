/* Which step of a program's life may follow which, and with what code the others are refused. */
#include "check.h"

static pthread_t hook_thread;
static int hook_calls;

static void hook(void *parameter) {
    EXPECT(42, *(int *)parameter);
    hook_thread = pthread_self();
    hook_calls++;
}

int main(void) {
    FDBDatabase *database = NULL;

    EXPECT(0, strcmp(fdb_get_error(1020), "Transaction not committed due to conflict with another transaction"));
    EXPECT(1, fdb_error_predicate(50000, 1020));
    EXPECT(0, fdb_error_predicate(50000, 2000));
    EXPECT(1, fdb_get_max_api_version() >= 740);

    EXPECT(2202, fdb_select_api_version_impl(741, 740));
    EXPECT(2203, fdb_select_api_version_impl(9000, 9000));
    EXPECT(2203, fdb_select_api_version_impl(12, 740));
    EXPECT(0, fdb_select_api_version_impl(740, 740));
    EXPECT(2201, fdb_select_api_version_impl(740, 740));

    EXPECT(2008, fdb_create_database(cluster_file(), &database));
    EXPECT(2008, fdb_run_network());
    EXPECT(2008, fdb_stop_network());
    EXPECT(2008, fdb_add_network_thread_completion_hook(hook, NULL));

    EXPECT(2007, fdb_network_set_option(9999, NULL, 0));
    EXPECT(2006, fdb_network_set_option(31, BYTES("1234567")));
    EXPECT(0, fdb_network_set_option(31, BYTES("\0\0\020\0\0\0\0\0")));
    EXPECT(2006, fdb_network_set_option(40, BYTES("no-equals-sign")));

    int parameter = 42;
    EXPECT(0, fdb_setup_network());
    EXPECT(2009, fdb_setup_network());
    EXPECT(0, fdb_add_network_thread_completion_hook(hook, &parameter));

    /* A database may be used before its network runs: the calls wait. */
    EXPECT(0, fdb_create_database(cluster_file(), &database));
    FDBTransaction *early = begin(database);
    fdb_transaction_set(early, BYTES("order/early"), BYTES("1"));
    FDBFuture *commit = fdb_transaction_commit(early);
    EXPECT(0, fdb_future_is_ready(commit));

    pthread_t thread;
    EXPECT(0, pthread_create(&thread, NULL, network_main, NULL));
    finish(commit);
    fdb_transaction_destroy(early);

    /* What is pending when the network stops stays pending, and everything can still be destroyed. */
    FDBTransaction *watcher = begin(database);
    FDBFuture *watch = fdb_transaction_watch(watcher, BYTES("order/never"));
    finish(fdb_transaction_commit(watcher));
    FDBTransaction *unused = begin(database);
    stop_network(thread);
    EXPECT(1, hook_calls);
    EXPECT(1, pthread_equal(hook_thread, thread) != 0);
    EXPECT(2025, fdb_run_network());
    EXPECT(0, fdb_stop_network());
    EXPECT(0, fdb_future_is_ready(watch));
    EXPECT(2015, fdb_future_get_error(watch));
    FDBFuture *late = fdb_transaction_get(unused, BYTES("order/early"), 0);
    EXPECT(0, fdb_future_is_ready(late));
    fdb_future_cancel(late);
    fdb_future_destroy(late);
    fdb_future_destroy(watch);
    fdb_transaction_destroy(unused);
    fdb_transaction_destroy(watcher);
    fdb_database_destroy(database);
    return 0;
}
