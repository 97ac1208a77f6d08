// Plays a server of FoundationDB 7.4.0 to 7.4.5: the C ABI with inline function pointers.
//
// A library for the newer ABI must notice before it touches anything.

#include "fake_fdb.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct { const char *key, *val; } Pair;
typedef struct { const char* inner; void (*free)(const char*); } String;
typedef struct {
    void* inner;
    void (*trace)(void*, int, const char*, const Pair*, int);
    uint64_t (*getProcessID)(void*);
    void (*setProcessID)(void*, uint64_t);
    double (*now)(void*);
    uint32_t (*rnd)(void*);
    String (*getOption)(void*, const char*, const char*);
    int (*clientId)(void*);
    int (*clientCount)(void*);
    int64_t (*sharedRandomNumber)(void*);
} Context;
typedef struct { void* slots[7]; } Workload;
typedef Workload (*Factory)(const char*, Context);

static void trace(void* i, int s, const char* name, const Pair* d, int n) { (void)i; (void)s; (void)d; (void)n; printf("trace %s\n", name); }
static uint64_t get_process_id(void* i) { (void)i; return 1; }
static void set_process_id(void* i, uint64_t p) { (void)i; (void)p; }
static double now(void* i) { (void)i; return fake_now(); }
static uint32_t rnd(void* i) { (void)i; return 4; }
static void free_string(const char* t) { (void)t; }
static String get_option(void* i, const char* n, const char* d) { (void)i; (void)n; String s = { d, free_string }; return s; }
static int client_id(void* i) { (void)i; return 0; }
static int client_count(void* i) { (void)i; return 1; }
static int64_t shared_random_number(void* i) { (void)i; return 7; }

int main(int argc, char** argv) {
    (void)argc;
    void* library = dlopen(argv[1], RTLD_LAZY | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    Factory factory = (Factory)dlsym(library, "workloadCFactory");
    Context context = { malloc(64), trace, get_process_id, set_process_id, now, rnd, get_option,
                        client_id, client_count, shared_random_number };
    factory(argv[2], context);
    printf("the factory returned\n");
    return 0;
}
