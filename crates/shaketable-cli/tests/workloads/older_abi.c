/* A workload library of FoundationDB 7.4.0 to 7.4.5: function pointers inside the structures, nothing that says so. */
#include <stdint.h>
#include <stdlib.h>

typedef struct { const char *inner; void (*free)(const char *); } String;
typedef struct {
    void *inner;
    void *trace, *getProcessID, *setProcessID;
    double (*now)(void *);
    uint32_t (*rnd)(void *);
    String (*getOption)(void *, const char *, const char *);
    void *clientId, *clientCount, *sharedRandomNumber;
} Context;
typedef struct { void *inner, *setup, *start, *check, *getMetrics, *getCheckTimeout, *free; } Workload;

Workload workloadCFactory(const char *name, Context context) {
    if (name[0] == 'A') context.getOption(context.inner, "count", "1");
    return (Workload){ malloc(64), (void *)1, (void *)2, (void *)3, (void *)4, (void *)5, (void *)6 };
}
