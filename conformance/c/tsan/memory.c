/* rustc's instrumentation calls three functions that the sanitizer's runtime of gcc 12 does not have yet. The runtime's own
 * versions of the C functions check the same accesses. */
#include <string.h>

void *__tsan_memcpy(void *to, const void *from, size_t count) { return memcpy(to, from, count); }
void *__tsan_memmove(void *to, const void *from, size_t count) { return memmove(to, from, count); }
void *__tsan_memset(void *to, int byte, size_t count) { return memset(to, byte, count); }
