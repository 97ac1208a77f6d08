// What the test hosts share: a clock, delays, and databases that know whether they are alive.
#pragma once
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct FDB_future FDBFuture;
typedef struct FDB_database {
    int alive;
    // Whether it has transactions: of one store, and every third commit ends in doubt.
    int has_store;
} FDBDatabase;

double fake_now(void);
FDBFuture* fake_delay(double seconds);
// Resolves the earliest delay; 0 when there is none.
int fake_step(void);

#ifdef __cplusplus
}
#endif
