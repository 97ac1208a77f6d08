/*
 * A workload without a database that does, in a phase of its choice, what the test file asks for:
 * every way in which code under test can misuse its host. For the External-workload ABI v1.
 */
#include <dirent.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

typedef struct { const char *key, *val; } Pair;
typedef struct { const char *key, *fmt; double val; bool avg; } Metric;
typedef struct { void (*free)(const char *); } StringTable;
typedef struct { const char *inner; StringTable *vt; } String;
typedef struct { void (*reserve)(void *, int); void (*push)(void *, Metric); } MetricsTable;
typedef struct { void *inner; MetricsTable *vt; } Metrics;
typedef struct { void (*free)(void *); void (*send)(void *, bool); } PromiseTable;
typedef struct { void *inner; PromiseTable *vt; } Promise;
typedef struct {
    void (*trace)(void *, int, const char *, const Pair *, int);
    uint64_t (*getProcessID)(void *);
    void (*setProcessID)(void *, uint64_t);
    double (*now)(void *);
    uint32_t (*rnd)(void *);
    String (*getOption)(void *, const char *, const char *);
    int (*clientId)(void *);
    int (*clientCount)(void *);
    int64_t (*sharedRandomNumber)(void *);
    void *(*delay)(void *, double);
} ContextTable;
typedef struct { int api_version; void *inner; ContextTable *vt; } Context;
typedef struct {
    void (*free)(void *);
    void (*setup)(void *, void *, Promise);
    void (*start)(void *, void *, Promise);
    void (*check)(void *, void *, Promise);
    void (*getMetrics)(void *, Metrics);
    double (*getCheckTimeout)(void *);
} WorkloadTable;
typedef struct { int api_version; void *inner; WorkloadTable *vt; } Workload;

typedef struct {
    Context context;
    char what[64], where[16];
    int on_client;
    /* Of "delay". */
    Promise done;
    double began;
    int refusal;
    /* Of "maze". */
    int room, steps;
} Self;

int fdb_future_set_callback(void *, void (*)(void *, void *), void *);
int fdb_future_get_error(void *);
void fdb_future_destroy(void *);

static void option(Context c, const char *name, const char *fallback, char *out, size_t size) {
    String s = c.vt->getOption(c.inner, name, fallback);
    snprintf(out, size, "%s", s.inner);
    s.vt->free(s.inner);
}

static void trace(Self *self, int severity, const char *name, const char *key, const char *value) {
    Pair pair = { key, value };
    self->context.vt->trace(self->context.inner, severity, name, &pair, 1);
}

static void *from_a_thread(void *arg) {
    Self *self = arg;
    self->context.vt->now(self->context.inner);
    return NULL;
}

static void *idle_thread(void *arg) { return arg; }

static int recurse(volatile int depth) {
    volatile char room[4096];
    room[0] = (char)depth;
    return recurse(depth + 1) + room[0];
}

static void delayed(void *future, void *arg) {
    Self *self = arg;
    char text[64];
    fdb_future_destroy(future);
    snprintf(text, sizeof text, "%d %.9f", self->refusal, self->context.vt->now(self->context.inner) - self->began);
    trace(self, 1, "Delayed", "Answer", text);
    self->done.vt->send(self->done.inner, true);
    self->done.vt->free(self->done.inner);
}

static void refused(void *future, void *arg) {
    Self *self = arg;
    self->refusal = fdb_future_get_error(future);
    fdb_future_destroy(future);
    self->began = self->context.vt->now(self->context.inner);
    fdb_future_set_callback(self->context.vt->delay(self->context.inner, 1), delayed, self);
}

/* A step each second: one door of six leads on, the others back to the beginning. */
static void step(void *future, void *arg) {
    Self *self = arg;
    Context c = self->context;
    char text[16];
    fdb_future_destroy(future);
    self->room = c.vt->rnd(c.inner) % 6 ? 0 : self->room + 1;
    snprintf(text, sizeof text, "%d", self->room);
    Pair pairs[] = {{"Kind", "sometimes_each"}, {"Message", "room"}, {"Site", "w.c:9"}, {"Value", text}};
    c.vt->trace(c.inner, 1, "WorkloadMark", pairs, 4);
    if (self->room == 8) trace(self, 4, "NoWall", "Room", text);
    if (self->steps++ < 30) {
        fdb_future_set_callback(c.vt->delay(c.inner, 1), step, self);
        return;
    }
    self->done.vt->send(self->done.inner, true);
    self->done.vt->free(self->done.inner);
}

/* Does it; returns whether the phase still has to be ended. */
static bool misbehave(Self *self, Promise done) {
    const char *what = self->what;
    if (!strcmp(what, "segfault")) { *(volatile int *)8 = 1; }
    if (!strcmp(what, "abort")) { fprintf(stderr, "about to abort\n"); abort(); }
    if (!strcmp(what, "exit")) { exit(7); }
    if (!strcmp(what, "exit0")) { exit(0); }
    if (!strcmp(what, "overflow")) { return recurse(0) != 0; }
    if (!strcmp(what, "spin")) { for (;;) { } }
    if (!strcmp(what, "sleep")) { sleep(100); return true; }
    if (!strcmp(what, "false")) { done.vt->send(done.inner, false); done.vt->free(done.inner); return false; }
    if (!strcmp(what, "break")) { done.vt->free(done.inner); return false; }
    if (!strcmp(what, "twice")) { done.vt->send(done.inner, true); return true; }
    if (!strcmp(what, "free-twice")) { done.vt->send(done.inner, true); done.vt->free(done.inner); return true; }
    if (!strcmp(what, "never")) { return false; }
    if (!strcmp(what, "delay")) {
        self->done = done;
        fdb_future_set_callback(self->context.vt->delay(self->context.inner, -1), refused, self);
        return false;
    }
    if (!strcmp(what, "maze")) {
        self->done = done;
        fdb_future_set_callback(self->context.vt->delay(self->context.inner, 1), step, self);
        return false;
    }
    /* Something is pending, and it takes longer than any limit. */
    if (!strcmp(what, "late")) { self->context.vt->delay(self->context.inner, 1e6); return false; }
    if (!strcmp(what, "leak")) { self->context.vt->delay(self->context.inner, 1); return true; }
    if (!strcmp(what, "pretend")) { self->context.vt->setProcessID(self->context.inner, 4711); return true; }
    if (!strcmp(what, "error-abort")) { trace(self, 4, "InvariantBroken", "Expected", "1"); abort(); }
    if (!strcmp(what, "error")) { trace(self, 4, "InvariantBroken", "Expected", "1"); return true; }
    if (!strcmp(what, "assertion")) {
        Pair pairs[] = {{"Kind", "sometimes"}, {"Message", "a retry"}, {"Site", "w.c:7"}, {"Held", "0"}, {"Broken", "2"}};
        self->context.vt->trace(self->context.inner, 1, "WorkloadAssertion", pairs, 5);
        return true;
    }
    if (!strcmp(what, "severity")) { trace(self, 9, "Odd", "Key", "1"); return true; }
    if (!strcmp(what, "unnamed")) { trace(self, 1, "", "Key", "1"); return true; }
    if (!strcmp(what, "large")) {
        char value[480];
        Pair pairs[10];
        memset(value, 'z', sizeof value - 1);
        value[sizeof value - 1] = 0;
        for (int i = 0; i < 10; i++) pairs[i] = (Pair){ "Key", value };
        self->context.vt->trace(self->context.inner, 1, "Large", pairs, 10);
        return true;
    }
    if (!strcmp(what, "thread")) {
        pthread_t thread;
        pthread_create(&thread, NULL, idle_thread, NULL);
        pthread_join(thread, NULL);
        return true;
    }
    if (!strcmp(what, "foreign")) {
        pthread_t thread;
        pthread_create(&thread, NULL, from_a_thread, self);
        pthread_join(thread, NULL);
        return true;
    }
    if (!strcmp(what, "file")) { FILE *file = fopen("notes.txt", "w"); fputs("x", file); fclose(file); remove("notes.txt"); return true; }
    if (!strcmp(what, "folder")) { closedir(opendir(".")); return true; }
    if (!strcmp(what, "child")) { system("true"); return true; }
    if (!strcmp(what, "socket")) { close(socket(AF_INET, SOCK_STREAM, 0)); return true; }
    if (!strcmp(what, "ask")) {
        /* What the operating system says is part of the run. */
        struct timespec real, mono;
        unsigned char bytes[8];
        char text[128];
        extern long getrandom(void *, size_t, unsigned);
        clock_gettime(CLOCK_REALTIME, &real);
        clock_gettime(CLOCK_MONOTONIC, &mono);
        getrandom(bytes, sizeof bytes, 0);
        snprintf(text, sizeof text, "%ld.%09ld %ld.%09ld %02x%02x%02x%02x %u %d", (long)real.tv_sec, real.tv_nsec,
                 (long)mono.tv_sec, mono.tv_nsec, bytes[0], bytes[1], bytes[2], bytes[3],
                 self->context.vt->rnd(self->context.inner), (int)getpid());
        trace(self, 1, "Asked", "Answer", text);
        return true;
    }
    if (!strcmp(what, "address")) {
        char text[64];
        snprintf(text, sizeof text, "%p", (void *)self);
        trace(self, 1, "Address", "Self", text);
        return true;
    }
    if (!strcmp(what, "print")) { printf("printed by client %d\n", self->context.vt->clientId(self->context.inner)); fflush(stdout); return true; }
    return true;
}

static void phase(Self *self, const char *where, Promise done) {
    int client = self->context.vt->clientId(self->context.inner);
    if (!strcmp(self->what, "log")) {
        char text[64];
        snprintf(text, sizeof text, "%s client %d of %d shared %ld", where, client,
                 self->context.vt->clientCount(self->context.inner),
                 (long)self->context.vt->sharedRandomNumber(self->context.inner));
        trace(self, 1, "Called", "What", text);
    }
    bool mine = self->on_client < 0 || self->on_client == client;
    if (mine && !strcmp(self->where, where) && !misbehave(self, done)) return;
    done.vt->send(done.inner, true);
    done.vt->free(done.inner);
}

static void setup(void *self, void *db, Promise done) { (void)db; phase(self, "setup", done); }
static void start(void *self, void *db, Promise done) { (void)db; phase(self, "start", done); }
static void check(void *self, void *db, Promise done) { (void)db; phase(self, "check", done); }
static void metrics(void *self, Metrics out) {
    Context c = ((Self *)self)->context;
    out.vt->reserve(out.inner, 2);
    out.vt->push(out.inner, (Metric){ "count", NULL, 3, false });
    if (!strcmp(((Self *)self)->what, "no-number")) {
        out.vt->push(out.inner, (Metric){ "nan", NULL, 0.0 / 0.0, false });
        out.vt->push(out.inner, (Metric){ "infinite", "%s%n", 1.0 / 0.0, true });
        out.vt->push(out.inner, (Metric){ NULL, NULL, 1, false });
        out.vt->reserve(out.inner, -7);
    }
    out.vt->push(out.inner, (Metric){ "mean", "%.1f", c.vt->clientId(c.inner), true });
}
static double timeout(void *self) { (void)self; return 50; }
static WorkloadTable table = { free, setup, start, check, metrics, timeout };

Workload workloadCFactory(const char *name, Context context) {
    if (!strcmp(name, "Nothing")) return (Workload){ 1, NULL, NULL };
    Self *self = calloc(1, sizeof *self);
    char number[16];
    self->context = context;
    option(context, "what", "nothing", self->what, sizeof self->what);
    option(context, "where", "start", self->where, sizeof self->where);
    option(context, "onClient", "-1", number, sizeof number);
    self->on_client = atoi(number);
    bool mine = self->on_client == context.vt->clientId(context.inner);
    if (mine && !strcmp(self->where, "factory") && !strcmp(self->what, "segfault")) *(volatile int *)8 = 1;
    return (Workload){ 1, self, &table };
}
