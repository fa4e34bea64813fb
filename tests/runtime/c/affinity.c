/* `affinity` places sessions and threads on machines that it makes up; the exit status is 0.
 *
 * This program's open, sched_getaffinity and sched_setaffinity take the place of the C library's for the runtime: cores
 * have the capacities of `machine`, and a thread has a set of cores that starts as all that the process may use.
 */
#define _GNU_SOURCE
#include "harness.h"

#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CORES = 8 };

typedef struct {
    const char *name;
    int capacities[CORES]; /* 0: the system does not tell */
    unsigned usable;       /* cores as bits */
    unsigned big, little;  /* what must be chosen of them */
} machine_description;

static const machine_description MACHINES[] = {
    {"RK3588", {414, 414, 414, 414, 1024, 1024, 1024, 1024}, 0xff, 0xf0, 0x0f},
    {"clusters of one kind differ a little", {530, 530, 530, 530, 1008, 1008, 1024, 1024}, 0xff, 0xf0, 0x0f},
    {"three kinds", {250, 250, 250, 250, 870, 870, 870, 1024}, 0xff, 0xf0, 0x0f},
    {"some cores only", {414, 414, 414, 414, 1024, 1024, 1024, 1024}, 0x3c, 0x30, 0x0c},
    {"little cores only", {414, 414, 414, 414, 1024, 1024, 1024, 1024}, 0x03, 0x03, 0x03},
    {"one kind", {0}, 0x0f, 0x0f, 0x0f},
};

static const machine_description *machine;
static _Thread_local unsigned placed; /* 0: nowhere yet */
static atomic_uint places[CORES], place_count;

int open(const char *path, int flags, ...) {
    int core;
    va_list arguments;
    va_start(arguments, flags);
    int mode = flags & O_CREAT ? va_arg(arguments, int) : 0;
    va_end(arguments);
    if (sscanf(path, "/sys/devices/system/cpu/cpu%d/cpu_capacity", &core) != 1) {
        return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    }
    if (machine->capacities[core] == 0) return -1;
    char text[16];
    size_t length = (size_t)snprintf(text, sizeof text, "%d\n", machine->capacities[core]);
    int file = memfd_create("capacity", 0);
    CHECK(write(file, text, length) == (ssize_t)length && lseek(file, 0, SEEK_SET) == 0);
    return file;
}

int sched_getaffinity(pid_t process, size_t size, cpu_set_t *set) {
    CHECK(process == 0 && size == sizeof *set);
    CPU_ZERO(set);
    for (size_t core = 0; core < CORES; core++) {
        if ((placed ? placed : machine->usable) >> core & 1) CPU_SET(core, set);
    }
    return 0;
}

int sched_setaffinity(pid_t process, size_t size, const cpu_set_t *set) {
    CHECK(process == 0 && size == sizeof *set);
    placed = 0;
    for (size_t core = 0; core < CORES; core++) placed |= (unsigned)(CPU_ISSET(core, set) != 0) << core;
    atomic_store(&places[atomic_fetch_add(&place_count, 1)], placed);
    return 0;
}

static unsigned count(unsigned cores) { return (unsigned)__builtin_popcount(cores); }

static void check(mcp26_model *model, mcp26_affinity affinity, unsigned cores) {
    atomic_store(&place_count, 0);
    placed = 0;
    mcp26_session *session;
    mcp26_session_options options = {.struct_size = sizeof options, .affinity = affinity};
    CHECK(mcp26_session_create(model, &options, &session, NULL) == MCP26_OK);
    CHECK(mcp26_session_threads(session) == count(cores));
    CHECK_STATUS(MCP26_OK, mcp26_session_run_golden(session, 0), mcp26_session_message(session));
    mcp26_session_close(session);
    /* The threads that the session started, not the calling one. */
    unsigned started = affinity == MCP26_AFFINITY_ALL ? 0 : count(cores) - 1;
    CHECK(placed == 0 && atomic_load(&place_count) == started);
    for (unsigned i = 0; i < started; i++) CHECK(atomic_load(&places[i]) == cores);

    CHECK(mcp26_place_thread(affinity) == MCP26_OK);
    CHECK(placed == cores);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    machine = &MACHINES[0];
    mcp26_model *model;
    CHECK(mcp26_model_open(argv[1], NULL, &model, NULL) == MCP26_OK);
    for (size_t i = 0; i < sizeof MACHINES / sizeof *MACHINES; i++) {
        machine = &MACHINES[i];
        printf("%s\n", machine->name);
        check(model, MCP26_AFFINITY_ALL, machine->usable);
        check(model, MCP26_AFFINITY_BIG, machine->big);
        check(model, MCP26_AFFINITY_LITTLE, machine->little);
    }
    mcp26_model_close(model);
    return 0;
}
