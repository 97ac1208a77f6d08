// Plays a server that speaks the C ABI version 1, and writes down what the library does.
//
// usage: host_v1 LIBRARY WORKLOAD [--clients N] [--option KEY=VALUE]... [--break WHAT]...
//                [--trace FILE]
//
// Every call of the library becomes one line on stdout. `--break` makes this a bad host; see `broken`.
// With `--trace` its databases have transactions, and events go to a file, as fdbserver writes it.

#include "fake_fdb.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { const char *key, *val; } Pair;
typedef struct { const char *key, *fmt; double val; bool avg; } Metric;
typedef struct { const char* inner; const struct { void (*free)(const char*); }* vt; } String;
typedef struct { void (*reserve)(void*, int); void (*push)(void*, Metric); } MetricsVt;
typedef struct { void* inner; const MetricsVt* vt; } Metrics;
typedef struct { void (*free)(void*); void (*send)(void*, bool); } PromiseVt;
typedef struct { void* inner; const PromiseVt* vt; } Promise;
typedef struct {
    void (*trace)(void*, int, const char*, const Pair*, int);
    uint64_t (*getProcessID)(void*);
    void (*setProcessID)(void*, uint64_t);
    double (*now)(void*);
    uint32_t (*rnd)(void*);
    String (*getOption)(void*, const char*, const char*);
    int (*clientId)(void*);
    int (*clientCount)(void*);
    int64_t (*sharedRandomNumber)(void*);
    FDBFuture* (*delay)(void*, double);
} ContextVt;
typedef struct { int api_version; void* inner; const ContextVt* vt; } Context;
typedef struct {
    void (*free)(void*);
    void (*setup)(void*, FDBDatabase*, Promise);
    void (*start)(void*, FDBDatabase*, Promise);
    void (*check)(void*, FDBDatabase*, Promise);
    void (*getMetrics)(void*, Metrics);
    double (*getCheckTimeout)(void*);
} WorkloadVt;
typedef struct { int api_version; void* inner; const WorkloadVt* vt; } Workload;
typedef Workload (*Factory)(const char*, Context);

enum { OPTIONS_MAX = 16, CLIENTS_MAX = 8 };

typedef struct {
    int id;
    uint64_t process;
    char* options[OPTIONS_MAX]; // KEY=VALUE, cut to KEY= when read
    Workload workload;
    bool alive;
} Client;

static Client clients[CLIENTS_MAX];
static int client_count = 1;
static int option_count;
static const char* breaks[16];
static int break_count;
static int phases_pending;
static bool some_phase_broken;
static FILE* trace_file;

static bool broken(const char* what) {
    for (int i = 0; i < break_count; i++)
        if (!strcmp(breaks[i], what)) return true;
    return false;
}

static Client* client_of(void* inner, const char* call) {
    Client* client = inner;
    if (!client->alive) printf("BUG: %s on a dead context\n", call);
    return client;
}

// One event as fdbserver writes it.
static void trace_to_file(int severity, const char* name, const Pair* details, int n) {
    static const int severities[] = { 5, 10, 20, 30, 40 };
    fprintf(trace_file,
            "{  \"Severity\": \"%d\", \"Time\": \"%f\", \"DateTime\": \"2026-11-15T20:55:39Z\", "
            "\"Type\": \"%s\", \"Machine\": \"3.4.3.6:1\", \"ID\": \"0000000000000000\"",
            severities[severity], fake_now(), name);
    for (int i = 0; i < n; i++) fprintf(trace_file, ", \"%s\": \"%s\"", details[i].key, details[i].val);
    fprintf(trace_file, ", \"ThreadID\": \"12770302858035397241\", \"LogGroup\": \"default\", \"Roles\": \"TS\" }\n");
}

static void trace(void* inner, int severity, const char* name, const Pair* details, int n) {
    static const char* names[] = { "debug", "info", "warn", "warn-always", "error" };
    Client* client = client_of(inner, "trace");
    printf("client %d trace %s %s", client->id, names[severity], name);
    size_t bytes = 0;
    for (int i = 0; i < n; i++) {
        printf(" | %s=%s", details[i].key, details[i].val);
        bytes += strlen(details[i].key) + strlen(details[i].val);
    }
    printf("\n");
    if (trace_file) trace_to_file(severity, name, details, n);
    if (!*name) printf("BUG: an event without a name\n");
    if (bytes > 3500) printf("BUG: an event of %zu bytes\n", bytes);
}
static uint64_t get_process_id(void* inner) { return client_of(inner, "getProcessID")->process; }
static void set_process_id(void* inner, uint64_t process) {
    // fdbserver takes it for an address.
    if (process < 100) printf("BUG: setProcessID of a process that was never returned: %llu\n", (unsigned long long)process);
    client_of(inner, "setProcessID")->process = process;
}
static double now(void* inner) { client_of(inner, "now"); return fake_now(); }
static uint32_t rnd(void* inner) {
    static uint32_t state = 12345;
    client_of(inner, "rnd");
    return state = state * 1664525u + 1013904223u;
}
static void free_string(const char* text) { free((char*)text); }
static String get_option(void* inner, const char* name, const char* fallback) {
    static const struct { void (*free)(const char*); } table = { free_string };
    Client* client = client_of(inner, "getOption");
    size_t length = strlen(name);
    char* answer = NULL;
    for (int i = 0; i < option_count && !answer; i++) {
        char* option = client->options[i];
        if (!strncmp(option, name, length) && option[length] == '=') {
            answer = strdup(option + length + 1);
            option[length + 1] = 0;
        }
    }
    String string = { answer ? answer : strdup(fallback), (const void*)&table };
    return string;
}
static int client_id(void* inner) { return client_of(inner, "clientId")->id; }
static int count(void* inner) { client_of(inner, "clientCount"); return client_count; }
static int64_t shared_random_number(void* inner) { client_of(inner, "sharedRandomNumber"); return 4711; }
static FDBFuture* delay(void* inner, double seconds) {
    Client* client = client_of(inner, "delay");
    printf("client %d delay %g\n", client->id, seconds);
    return broken("null-delay") ? NULL : fake_delay(seconds);
}

typedef struct {
    Client* client;
    const char* phase;
    FDBDatabase* database;
    bool sent;
} Pending;

static void resolved(Pending* pending) {
    phases_pending--;
    // The server frees the database as soon as the phase is over.
    if (pending->database) pending->database->alive = 0;
}
static void promise_send(void* inner, bool value) {
    Pending* pending = inner;
    if (pending->sent) printf("BUG: a second value\n");
    pending->sent = true;
    printf("client %d %s -> %s\n", pending->client->id, pending->phase, value ? "true" : "false");
    resolved(pending);
}
static void promise_free(void* inner) {
    Pending* pending = inner;
    if (!pending->sent) {
        printf("client %d %s -> broken promise\n", pending->client->id, pending->phase);
        some_phase_broken = true;
        resolved(pending);
    }
    free(pending);
}

static void metrics_reserve(void* inner, int n) {
    // fdbserver allocates for as many, and ends if it cannot.
    if (n < 0 || n > 1000000) printf("BUG: reserve of %d metrics\n", n);
    printf("client %d reserve %d\n", ((Client*)inner)->id, n);
}
static void metrics_push(void* inner, Metric metric) {
    printf("client %d metric %s %s %s ", ((Client*)inner)->id, metric.avg ? "avg" : "sum", metric.key, metric.fmt);
    printf(metric.fmt, metric.val);
    printf("\n");
}

static FDBDatabase* databases[64];
static int database_count;

static void call_phase(Client* client, const char* phase, void (*function)(void*, FDBDatabase*, Promise)) {
    static const PromiseVt table = { promise_free, promise_send };
    Pending* pending = calloc(1, sizeof *pending);
    pending->client = client;
    pending->phase = phase;
    if (!broken("null-database")) {
        pending->database = calloc(1, sizeof(FDBDatabase));
        pending->database->alive = 1;
        pending->database->has_store = trace_file != NULL;
        databases[database_count++] = pending->database;
    }
    Promise promise = { pending, &table };
    if (broken("null-promise")) {
        promise.vt = NULL;
        free(pending);
        function(client->workload.inner, NULL, promise);
        return;
    }
    phases_pending++;
    printf("client %d %s called\n", client->id, phase);
    function(client->workload.inner, pending->database, promise);
    printf("client %d %s returned\n", client->id, phase);
}

static void run_until_resolved(const char* phase) {
    while (phases_pending > 0)
        if (!fake_step()) {
            printf("deadlock: %d clients never finished %s\n", phases_pending, phase);
            phases_pending = 0;
            some_phase_broken = true;
        }
}

// One life of the library, from loading it to unloading it; with one more option, if there is one.
static int live(int argc, char** argv, const char* option) {
    memset(clients, 0, sizeof clients);
    client_count = 1;
    option_count = break_count = database_count = 0;
    for (int i = 3; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--clients")) client_count = atoi(argv[i + 1]);
        if (!strcmp(argv[i], "--break")) breaks[break_count++] = argv[i + 1];
        if (!strcmp(argv[i], "--trace")) {
            if (!(trace_file = fopen(argv[i + 1], "w"))) return 2;
            Pair seed = { "RandomSeed", "4" };
            trace_to_file(1, "ProgramStart", &seed, 1);
        }
        if (!strcmp(argv[i], "--option")) {
            for (int c = 0; c < CLIENTS_MAX; c++) clients[c].options[option_count] = strdup(argv[i + 1]);
            option_count++;
        }
    }
    if (option) {
        for (int c = 0; c < CLIENTS_MAX; c++) clients[c].options[option_count] = strdup(option);
        option_count++;
    }
    void* library = dlopen(argv[1], RTLD_LAZY | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    Factory factory = (Factory)dlsym(library, "workloadCFactory");
    if (!factory || !dlsym(library, "workloadFactory")) {
        fprintf(stderr, "the library does not export both factories\n");
        return 2;
    }

    static ContextVt context_table = { trace, get_process_id, set_process_id, now, rnd, get_option,
                                       client_id, count, shared_random_number, delay };
    if (broken("null-now")) context_table.now = NULL;
    for (int c = 0; c < client_count; c++) {
        Client* client = &clients[c];
        client->id = c;
        client->process = 100 + c;
        client->alive = true;
        Context context = { 1, client, broken("null-context-table") ? NULL : &context_table };
        char* name = strdup(argv[2]);
        client->workload = factory(broken("null-name") ? NULL : name, context);
        memset(name, '?', strlen(name)); // valid during the call only
        free(name);
        printf("client %d created, api version %d\n", c, client->workload.api_version);
        for (int i = 0; i < option_count; i++)
            if (*(strchr(client->options[i], '=') + 1)) printf("client %d left option %s\n", c, client->options[i]);
    }

    struct { const char* name; size_t slot; } phases[] = {
        { "setup", offsetof(WorkloadVt, setup) },
        { "start", offsetof(WorkloadVt, start) },
        { "check", offsetof(WorkloadVt, check) },
    };
    for (int p = 0; p < 3 && !some_phase_broken; p++) {
        for (int c = 0; c < client_count; c++) {
            Client* client = &clients[c];
            void (*function)(void*, FDBDatabase*, Promise);
            memcpy(&function, (const char*)client->workload.vt + phases[p].slot, sizeof function);
            call_phase(client, phases[p].name, function);
            if (p == 2) printf("client %d check timeout %g\n", c, client->workload.vt->getCheckTimeout(client->workload.inner));
            if (broken("twice") && p == 1) call_phase(client, "again", function);
            if (broken("metrics-during-phase") && p == 1) {
                static const MetricsVt table = { metrics_reserve, metrics_push };
                Metrics metrics = { client, &table };
                client->workload.vt->getMetrics(client->workload.inner, metrics);
            }
        }
        if (broken("free-in-phase") && p == 1) break;
        run_until_resolved(phases[p].name);
    }
    for (int c = 0; c < client_count && !some_phase_broken && !broken("free-in-phase"); c++) {
        static const MetricsVt table = { metrics_reserve, metrics_push };
        Metrics metrics = { &clients[c], broken("null-metrics") ? NULL : &table };
        clients[c].workload.vt->getMetrics(clients[c].workload.inner, metrics);
    }
    for (int c = 0; c < client_count; c++) {
        clients[c].workload.vt->free(clients[c].workload.inner);
        clients[c].alive = false;
        printf("client %d freed\n", c);
    }
    void (*after_free)(void) = (void (*)(void))dlsym(library, "probe_after_free");
    if (after_free) after_free();
    dlclose(library);
    printf("library %s after dlclose\n", dlopen(argv[1], RTLD_LAZY | RTLD_NOLOAD) ? "mapped" : "gone");
    // What was cancelled above still calls back.
    while (fake_step()) {}
    for (int i = 0; i < database_count; i++) free(databases[i]);
    for (int c = 0; c < CLIENTS_MAX; c++)
        for (int i = 0; i < option_count; i++) free(clients[c].options[i]);
    if (trace_file) fclose(trace_file);
    printf("end\n");
    return 0;
}

// With `--seeds N` there are N lives, with the options seed=0, seed=1 and so on.
int main(int argc, char** argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    int seeds = 0;
    for (int i = 3; i + 1 < argc; i += 2)
        if (!strcmp(argv[i], "--seeds")) seeds = atoi(argv[i + 1]);
    if (!seeds) return live(argc, argv, NULL);
    for (int seed = 0; seed < seeds; seed++) {
        char option[32];
        snprintf(option, sizeof option, "seed=%d", seed);
        int code = live(argc, argv, option);
        if (code) return code;
    }
    return 0;
}
