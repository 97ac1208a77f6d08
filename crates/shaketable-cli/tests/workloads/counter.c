/*
 * A workload in C that uses the database: every client adds 1 to a key, again and again, and records
 * each addition under a key of its own, so that one that may have been committed is not made twice.
 * Client 0 checks the sum. Linked against a library called libfdb_c.so, which need not be there when
 * it runs.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct FDBDatabase FDBDatabase;
typedef struct FDBTransaction FDBTransaction;
typedef struct FDBFuture FDBFuture;
typedef int fdb_error_t;
typedef int fdb_bool_t;
typedef void (*FDBCallback)(FDBFuture *, void *);

fdb_error_t fdb_select_api_version_impl(int, int);
fdb_error_t fdb_database_create_transaction(FDBDatabase *, FDBTransaction **);
void fdb_database_destroy(FDBDatabase *);
void fdb_transaction_destroy(FDBTransaction *);
void fdb_transaction_set(FDBTransaction *, const uint8_t *, int, const uint8_t *, int);
void fdb_transaction_atomic_op(FDBTransaction *, const uint8_t *, int, const uint8_t *, int, int);
FDBFuture *fdb_transaction_get(FDBTransaction *, const uint8_t *, int, fdb_bool_t);
FDBFuture *fdb_transaction_commit(FDBTransaction *);
FDBFuture *fdb_transaction_on_error(FDBTransaction *, fdb_error_t);
fdb_error_t fdb_future_set_callback(FDBFuture *, FDBCallback, void *);
fdb_error_t fdb_future_get_error(FDBFuture *);
fdb_error_t fdb_future_get_value(FDBFuture *, fdb_bool_t *, const uint8_t **, int *);
void fdb_future_destroy(FDBFuture *);

typedef struct { const char *key, *val; } Pair;
typedef struct { const char *inner; struct { void (*free)(const char *); } *vt; } String;
typedef struct { void *inner; struct { void (*free)(void *); void (*send)(void *, bool); } *vt; } Promise;
typedef struct {
    void (*trace)(void *, int, const char *, const Pair *, int);
    void *process[2];
    double (*now)(void *);
    uint32_t (*rnd)(void *);
    String (*getOption)(void *, const char *, const char *);
    int (*clientId)(void *);
    int (*clientCount)(void *);
    int64_t (*sharedRandomNumber)(void *);
    FDBFuture *(*delay)(void *, double);
} ContextTable;
typedef struct { int api_version; void *inner; ContextTable *vt; } Context;
typedef struct { void *inner, *vt; } Metrics;
typedef struct {
    void (*free)(void *);
    void (*setup)(void *, FDBDatabase *, Promise);
    void (*start)(void *, FDBDatabase *, Promise);
    void (*check)(void *, FDBDatabase *, Promise);
    void (*getMetrics)(void *, Metrics);
    double (*getCheckTimeout)(void *);
} WorkloadTable;
typedef struct { int api_version; void *inner; WorkloadTable *vt; } Workload;

typedef struct {
    Context context;
    int client, clients, count, made;
    bool careless, checking;
    bool keep, destroy;
    FDBTransaction *transaction;
    FDBDatabase *database;
    Promise done;
} Self;

static const uint8_t SUM[] = "sum";
enum { ADD = 2 };

static int option(Context c, const char *name, const char *fallback) {
    String s = c.vt->getOption(c.inner, name, fallback);
    int value = atoi(s.inner);
    s.vt->free(s.inner);
    return value;
}

static void finish(Self *self, bool ok) {
    fdb_transaction_destroy(self->transaction);
    Promise done = self->done;
    done.vt->send(done.inner, ok);
    done.vt->free(done.inner);
}

static void attempt(Self *self);

static void retried(FDBFuture *future, void *arg) {
    fdb_error_t error = fdb_future_get_error(future);
    fdb_future_destroy(future);
    if (error) finish(arg, false); else attempt(arg);
}

static void retry(Self *self, fdb_error_t error) {
    fdb_future_set_callback(fdb_transaction_on_error(self->transaction, error), retried, self);
}

static void next(Self *self) {
    self->made++;
    fdb_transaction_destroy(self->transaction);
    fdb_database_create_transaction(self->database, &self->transaction);
    attempt(self);
}

static void committed(FDBFuture *future, void *arg) {
    fdb_error_t error = fdb_future_get_error(future);
    fdb_future_destroy(future);
    if (error) retry(arg, error); else next(arg);
}

static int entry(Self *self, uint8_t *key) { return sprintf((char *)key, "entry/%d/%d", self->client, self->made); }

static void looked(FDBFuture *future, void *arg) {
    Self *self = arg;
    fdb_bool_t present = 0;
    const uint8_t *value;
    int length;
    fdb_error_t error = fdb_future_get_value(future, &present, &value, &length);
    int64_t sum = 0;
    if (!error && present && self->checking) memcpy(&sum, value, 8);
    fdb_future_destroy(future);
    if (error) { retry(self, error); return; }
    if (self->checking) {
        if (sum != (int64_t)self->count * self->clients) {
            char text[64];
            snprintf(text, sizeof text, "%ld of %d", (long)sum, self->count * self->clients);
            Pair pair = { "Sum", text };
            self->context.vt->trace(self->context.inner, 4, "WrongSum", &pair, 1);
        }
        finish(self, true);
        return;
    }
    if (present && !self->careless) { next(self); return; }
    uint8_t key[64], one[8] = { 1 };
    fdb_transaction_set(self->transaction, key, entry(self, key), one, 1);
    fdb_transaction_atomic_op(self->transaction, SUM, 3, one, 8, ADD);
    fdb_future_set_callback(fdb_transaction_commit(self->transaction), committed, self);
}

static void attempt(Self *self) {
    uint8_t key[64];
    if (!self->checking && self->made == self->count) { finish(self, true); return; }
    int length = self->checking ? (memcpy(key, SUM, 3), 3) : entry(self, key);
    fdb_future_set_callback(fdb_transaction_get(self->transaction, key, length, 0), looked, self);
}

static void begin(Self *self, FDBDatabase *database, Promise done, bool checking) {
    self->database = database;
    self->done = done;
    self->checking = checking;
    fdb_database_create_transaction(database, &self->transaction);
    attempt(self);
}

static void setup(void *self, FDBDatabase *database, Promise done) {
    ((Self *)self)->database = database;
    done.vt->send(done.inner, true);
    done.vt->free(done.inner);
}
static void start(void *arg, FDBDatabase *database, Promise done) {
    Self *self = arg;
    if (self->destroy) fdb_database_destroy(database);
    begin(self, self->keep ? self->database : database, done, false);
}
static void check(void *self, FDBDatabase *database, Promise done) {
    if (((Self *)self)->client == 0) begin(self, database, done, true); else setup(self, database, done);
}
static void metrics(void *self, Metrics out) { (void)self; (void)out; }
static double timeout(void *self) { (void)self; return 1000; }
static WorkloadTable table = { free, setup, start, check, metrics, timeout };

Workload workloadCFactory(const char *name, Context context) {
    Self *self = calloc(1, sizeof *self);
    (void)name;
    fdb_select_api_version_impl(740, 740);
    self->context = context;
    self->client = context.vt->clientId(context.inner);
    self->clients = context.vt->clientCount(context.inner);
    self->count = option(context, "count", "10");
    self->careless = option(context, "careless", "0") != 0;
    self->keep = option(context, "keep", "0") != 0;
    self->destroy = option(context, "destroy", "0") != 0;
    return (Workload){ 1, self, &table };
}
