/* pool.h: the threads of a session.
 *
 * A loop is a job that workers may join while it is open: the caller opens it, takes chunks like everybody, closes it
 * when none is left and waits for those who joined. Every worker has a share of the loop of its own, the same part of it
 * each time, since what it wrote in one step then is in its cache for the next; who is done helps the others. Nobody waits for a thread that sleeps or lost its core, and a
 * process without the threads (a forked child) still gets everything done, by itself. Idle workers spin for some
 * microseconds, since the next step's loop follows soon, and then sleep until woken.
 */
#ifndef MCP26_POOL_H
#define MCP26_POOL_H

#include "mcp26.h"
#include "mcp26_abi.h"
#include "platform.h"

#include <stdatomic.h>

typedef struct mcp26_pool mcp26_pool;

/* Thread `index` of a pool; 0 is whoever calls. */
typedef struct {
    mcp26_os_thread thread;
    mcp26_pool *pool;
    uint32_t index;

    _Alignas(64) _Atomic int64_t next; /* first item of its share that nobody has taken */
    int64_t end;                       /* of its share */
} mcp26_worker;

struct mcp26_pool {
    /* The job; written by the caller while it is closed and nobody is in it. */
    mcp26_env *env;
    mcp26_body body;
    void *argument;
    int64_t grain;

    _Atomic int32_t failure; /* of a body; 0: none */

    _Alignas(64) atomic_uint job; /* JOB_OPEN | workers in it */
    uint32_t announced;           /* changes with each job; what idle workers watch and sleep on */
    atomic_uint sleepers;
    atomic_uint quit;

    uint32_t worker_count; /* the caller included */
    uint32_t started;      /* threads that run */
    uint64_t process;      /* that started them */
    mcp26_worker *workers; /* worker_count entries */
};

/* Start worker_count - 1 threads. *pool is zeroed memory that stays where it is; `workers` has worker_count entries. */
mcp26_status mcp26_pool_start(mcp26_pool *pool, mcp26_worker *workers, uint32_t worker_count, uint32_t affinity,
                              mcp26_error *error);
void mcp26_pool_stop(mcp26_pool *pool);

/* mcp26_env.parallel_for on this pool; one caller at a time. */
int32_t mcp26_pool_run(mcp26_pool *pool, mcp26_env *env, mcp26_body body, void *argument, int64_t count, int64_t grain);

#endif
