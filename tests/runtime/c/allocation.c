/* `allocation ARTIFACT THREADS` counts what mcp26_session_run allocates: the number is printed, the exit status 0.
 *
 * This program's malloc family and mmap take the place of the C library's for the runtime, the compiled code and the C
 * library itself. Built without sanitizers, which bring their own.
 */
#define _GNU_SOURCE
#include "harness.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_ullong allocations;

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size) {
    atomic_fetch_add(&allocations, 1);
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    atomic_fetch_add(&allocations, 1);
    return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size) {
    atomic_fetch_add(&allocations, 1);
    return __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    atomic_fetch_add(&allocations, 1);
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size) {
    *memory = aligned_alloc(alignment, size);
    return *memory == NULL ? 12 : 0;
}

void *mmap(void *address, size_t length, int protection, int flags, int file, off_t offset) {
    atomic_fetch_add(&allocations, 1);
    return (void *)syscall(SYS_mmap, address, length, protection, flags, file, offset);
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    mcp26_model *model;
    CHECK(mcp26_model_open(argv[1], NULL, &model, NULL) == MCP26_OK);
    mcp26_session *session = open_session(model, (uint32_t)atoi(argv[2]));
    unsigned long long before = atomic_load(&allocations);
    CHECK(before > 0); /* open and create were seen to allocate: the counters work */
    for (uint32_t i = 0; i < 20; i++) {
        CHECK_STATUS(MCP26_OK, mcp26_session_run_golden(session, 0), mcp26_session_message(session));
        CHECK(mcp26_session_run(session) == MCP26_OK);
    }
    unsigned long long after = atomic_load(&allocations);
    mcp26_session_close(session);
    mcp26_model_close(model);
    printf("%llu\n", after - before);
    return 0;
}
