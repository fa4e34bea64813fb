#define _GNU_SOURCE
#include "platform.h"

#include "mcp26.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

#define HUGE_PAGE ((size_t)2 << 20)
#define THREAD_STACK ((size_t)512 << 10) /* generated code keeps large temporaries in its scratch */

/* ---- Files ---- */

int mcp26_os_file_open(mcp26_os_file *file, const char *path) {
    *file = (mcp26_os_file){0};
    int descriptor;
    do {
        descriptor = open(path, O_RDONLY | O_CLOEXEC);
    } while (descriptor < 0 && errno == EINTR);
    if (descriptor < 0) return errno;
    struct stat status;
    int failure = 0;
    if (fstat(descriptor, &status) != 0) {
        failure = errno;
    } else if (S_ISDIR(status.st_mode)) {
        failure = EISDIR;
    } else if (!S_ISREG(status.st_mode)) {
        failure = EINVAL;
    } else if ((uint64_t)status.st_size > SIZE_MAX) {
        failure = EFBIG;
    } else if (status.st_size > 0) {
        void *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
        if (bytes == MAP_FAILED) failure = errno;
        else file->bytes = bytes;
    }
    if (failure != 0) {
        close(descriptor);
        return failure;
    }
    file->size = (uint64_t)status.st_size;
    file->descriptor = descriptor;
    file->has_descriptor = 1;
    return 0;
}

void mcp26_os_file_close_descriptor(mcp26_os_file *file) {
    if (file->has_descriptor) close(file->descriptor);
    file->has_descriptor = 0;
}

void mcp26_os_file_close(mcp26_os_file *file) {
    mcp26_os_file_close_descriptor(file);
    if (file->bytes != NULL) munmap((void *)(uintptr_t)file->bytes, (size_t)file->size);
    *file = (mcp26_os_file){0};
}

/* madvise on the pages of a range. They are hints: where the kernel knows one not, or refuses, nothing is lost. */
static void advise(const uint8_t *bytes, uint64_t size, int advice) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = (uintptr_t)bytes & ~(page - 1);
    if (size == 0) return;
    int saved = errno;
    (void)madvise((void *)start, (size_t)((uintptr_t)bytes + size - start), advice);
    errno = saved;
}

void mcp26_os_file_read_ahead(const uint8_t *bytes, uint64_t size) { advise(bytes, size, MADV_WILLNEED); }
void mcp26_os_file_populate(const uint8_t *bytes, uint64_t size) { advise(bytes, size, MADV_POPULATE_READ); }
void mcp26_os_file_release(const uint8_t *bytes, uint64_t size) { advise(bytes, size, MADV_DONTNEED); }

int mcp26_os_code_open(mcp26_os_code *code, const mcp26_os_file *file, uint64_t offset, const uint8_t *source,
                       uint64_t size) {
    *code = (mcp26_os_code){0};
    if (size == 0 || size > SIZE_MAX) return EINVAL;
    if (file->has_descriptor) {
        void *mapped = mmap(NULL, (size_t)size, PROT_READ | PROT_EXEC, MAP_PRIVATE, file->descriptor, (off_t)offset);
        if (mapped != MAP_FAILED) {
            *code = (mcp26_os_code){mapped, size, 1};
            return 0;
        }
    }
    void *copy = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED) return errno;
    memcpy(copy, source, (size_t)size);
    if (mprotect(copy, (size_t)size, PROT_READ | PROT_EXEC) != 0) {
        int failure = errno;
        munmap(copy, (size_t)size);
        return failure;
    }
    __builtin___clear_cache((char *)copy, (char *)copy + size);
    *code = (mcp26_os_code){copy, size, 0};
    return 0;
}

void mcp26_os_code_close(mcp26_os_code *code) {
    if (code->bytes != NULL) munmap((void *)(uintptr_t)code->bytes, (size_t)code->size);
    *code = (mcp26_os_code){0};
}

/* ---- Memory ---- */

/* Large blocks lie on huge pages: an arena then faults and misses the TLB 512 times less. Only their first LEAD bytes
 * do not, where a session keeps its tables: else making one would clear a whole huge page. */
#define LEAD ((size_t)64 << 10)

static int is_large(uint64_t bytes) { return bytes >= 2 * HUGE_PAGE; }

static size_t mapped_size(uint64_t bytes) {
    if (!is_large(bytes)) return (size_t)bytes;
    return LEAD + ((size_t)bytes - LEAD + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
}

void *mcp26_os_allocate(uint64_t bytes) {
    if (bytes == 0 || bytes > SIZE_MAX / 2) return NULL;
    const size_t size = mapped_size(bytes);
    const size_t spare = is_large(bytes) ? HUGE_PAGE : 0; /* to cut the block out at the right place */
    uint8_t *memory = mmap(NULL, size + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    if (spare == 0) return memory;
    const size_t before = (size_t)(-((uintptr_t)memory + LEAD) & (HUGE_PAGE - 1)), after = spare - before;
    if (before != 0) munmap(memory, before);
    if (after != 0) munmap(memory + before + size, after);
    (void)madvise(memory + before, size, MADV_HUGEPAGE);
    return memory + before;
}

void mcp26_os_free(void *memory, uint64_t bytes) {
    if (memory != NULL) munmap(memory, mapped_size(bytes));
}

/* ---- Cores: /sys tells each core's capacity relative to the fastest, 1024, on machines that have several kinds ----
 */

static uint32_t core_capacity(size_t core) {
    char path[64], text[16];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%zu/cpu_capacity", core);
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return 1024;
    ssize_t length = read(descriptor, text, sizeof text - 1);
    close(descriptor);
    uint32_t capacity = 0;
    for (ssize_t i = 0; i < length && text[i] >= '0' && text[i] <= '9' && capacity < 100000; i++) {
        capacity = capacity * 10 + (uint32_t)(text[i] - '0');
    }
    return capacity != 0 ? capacity : 1024;
}

/* The usable cores of an affinity. Clusters of one kind differ by a few percent in capacity, kinds by far more than the
 * quarter that is allowed here. */
static int cores_of(uint32_t affinity, cpu_set_t *chosen) {
    cpu_set_t usable;
    CPU_ZERO(chosen);
    if (sched_getaffinity(0, sizeof usable, &usable) != 0) return errno;
    if (affinity == MCP26_AFFINITY_ALL) {
        *chosen = usable;
        return 0;
    }
    uint32_t least = UINT32_MAX, most = 0;
    for (size_t core = 0; core < CPU_SETSIZE; core++) {
        if (!CPU_ISSET(core, &usable)) continue;
        uint32_t capacity = core_capacity(core);
        if (capacity < least) least = capacity;
        if (capacity > most) most = capacity;
    }
    for (size_t core = 0; core < CPU_SETSIZE; core++) {
        if (!CPU_ISSET(core, &usable)) continue;
        uint32_t capacity = core_capacity(core);
        if (affinity == MCP26_AFFINITY_BIG ? 4 * capacity >= 3 * most : 3 * capacity <= 4 * least) {
            CPU_SET(core, chosen);
        }
    }
    return 0;
}

uint32_t mcp26_os_core_count(uint32_t affinity) {
    cpu_set_t cores;
    if (cores_of(affinity, &cores) != 0 || CPU_COUNT(&cores) < 1) return 1;
    return (uint32_t)CPU_COUNT(&cores);
}

int mcp26_os_place_thread(uint32_t affinity) {
    cpu_set_t cores;
    int failure = cores_of(affinity, &cores);
    if (failure != 0) return failure;
    return sched_setaffinity(0, sizeof cores, &cores) != 0 ? errno : 0;
}

/* ---- Threads ---- */

_Static_assert(sizeof(pthread_t) <= sizeof(uintptr_t), "a thread's handle fits");

static void *begin(void *argument) {
    const mcp26_os_thread *thread = argument;
    if (thread->affinity != MCP26_AFFINITY_ALL) (void)mcp26_os_place_thread(thread->affinity);
    thread->body(thread->argument);
    return NULL;
}

int mcp26_os_thread_start(mcp26_os_thread *thread) {
    pthread_attr_t attributes;
    pthread_t handle;
    sigset_t all, before;
    int failure = pthread_attr_init(&attributes);
    if (failure != 0) return failure;
    (void)pthread_attr_setstacksize(&attributes, THREAD_STACK);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failure = pthread_create(&handle, &attributes, begin, thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (failure == 0) memcpy(&thread->handle, &handle, sizeof handle);
    return failure;
}

void mcp26_os_thread_join(const mcp26_os_thread *thread) {
    pthread_t handle;
    memcpy(&handle, &thread->handle, sizeof handle);
    pthread_join(handle, NULL);
}

void mcp26_os_wait(uint32_t *word, uint32_t expected) {
    int saved = errno;
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
    errno = saved;
}

void mcp26_os_wake(uint32_t *word, uint32_t count) {
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count > INT_MAX ? INT_MAX : count, NULL, NULL, 0);
}

void mcp26_os_yield(void) { sched_yield(); }

uint64_t mcp26_os_process(void) { return (uint64_t)getpid(); }

uint64_t mcp26_os_nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
