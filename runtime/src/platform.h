/* platform.h: all that the runtime wants of an operating system. platform_linux.c gives it on Linux; a port replaces
 * that one file. Everything else needs only a C11 compiler with atomics, string.h and snprintf. */
#ifndef MCP26_PLATFORM_H
#define MCP26_PLATFORM_H

#include <stdint.h>

/* ---- Files. Functions return 0 or an errno value. ---- */

/* A file's bytes, read-only. A zeroed one is closed. */
typedef struct {
    const uint8_t *bytes;
    uint64_t size;
    int descriptor; /* of the open file while `has_descriptor`, for mapping code */
    int has_descriptor;
} mcp26_os_file;

int mcp26_os_file_open(mcp26_os_file *file, const char *path);
void mcp26_os_file_close_descriptor(mcp26_os_file *file);
void mcp26_os_file_close(mcp26_os_file *file);

/* Hints about pages of a mapped file: will be read soon; is about to be read; will not be read for a while. */
void mcp26_os_file_read_ahead(const uint8_t *bytes, uint64_t size);
void mcp26_os_file_populate(const uint8_t *bytes, uint64_t size);
void mcp26_os_file_release(const uint8_t *bytes, uint64_t size);

/* Code that can be called. */
typedef struct {
    const uint8_t *bytes;
    uint64_t size;
    int mapped; /* straight from the file */
} mcp26_os_code;

/* Make `size` bytes executable that lie at `source` and, where `file` has a descriptor, at `offset` in the file. Copies
 * where the file cannot be mapped executable. */
int mcp26_os_code_open(mcp26_os_code *code, const mcp26_os_file *file, uint64_t offset, const uint8_t *source,
                       uint64_t size);
void mcp26_os_code_close(mcp26_os_code *code);

/* ---- Memory: zeroed and aligned to at least 64 bytes; NULL when exhausted ---- */

void *mcp26_os_allocate(uint64_t bytes);
void mcp26_os_free(void *memory, uint64_t bytes);

/* ---- Threads ---- */

/* A thread to start: the caller fills the first three, and keeps the structure where it is until joined. */
typedef struct {
    void (*body)(void *argument);
    void *argument;
    uint32_t affinity; /* an mcp26_affinity */
    uintptr_t handle;
} mcp26_os_thread;

/* Start a thread that blocks all signals. */
int mcp26_os_thread_start(mcp26_os_thread *thread);
void mcp26_os_thread_join(const mcp26_os_thread *thread);

/* Move the calling thread to cores of that affinity. */
int mcp26_os_place_thread(uint32_t affinity);

/* Cores of that affinity which this process may use, at least 1. */
uint32_t mcp26_os_core_count(uint32_t affinity);

/* Sleep while *word == expected (or wake for no reason); wake up to `count` sleepers. */
void mcp26_os_wait(uint32_t *word, uint32_t expected);
void mcp26_os_wake(uint32_t *word, uint32_t count);

/* Let another thread run. */
void mcp26_os_yield(void);

/* A number that differs between a process and its forked children. */
uint64_t mcp26_os_process(void);

uint64_t mcp26_os_nanoseconds(void);

#endif
