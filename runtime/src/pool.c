#include "pool.h"

#include "status.h"

#include <string.h>

#define JOB_OPEN 0x80000000u

/* Looks at an idle pool before sleeping: some 50 microseconds, longer than most steps between two loops. */
enum { SPINS = 2000 };

/* Chunks a worker that even out any loop; with more the workers only meet at the counter, and in lines of the result. */
enum { CHUNKS = 32 };

static void pause_briefly(void) {
#if defined(__x86_64__)
    __asm__ volatile("pause");
#elif defined(__aarch64__)
    __asm__ volatile("isb"); /* `yield` does nothing on most cores */
#endif
}

/* Run chunks of the share of `owner` until none is left or a body fails. */
static void take_share(mcp26_pool *pool, mcp26_worker *owner, uint32_t worker) {
    const int64_t end = owner->end, grain = pool->grain;
    /* Looking first keeps the line of an empty share from wandering about. */
    while (atomic_load_explicit(&owner->next, memory_order_relaxed) < end) {
        int64_t begin = atomic_fetch_add_explicit(&owner->next, grain, memory_order_relaxed);
        if (begin >= end) return;
        int32_t status = pool->body(pool->env, pool->argument, begin, end - begin < grain ? end : begin + grain, worker);
        if (status < 0) {
            int32_t none = 0;
            atomic_compare_exchange_strong(&pool->failure, &none, status);
            for (uint32_t i = 0; i < pool->worker_count; i++) {
                mcp26_worker *other = &pool->workers[i];
                atomic_store_explicit(&other->next, other->end, memory_order_relaxed);
            }
        }
    }
}

static void take_chunks(mcp26_pool *pool, uint32_t worker) {
    for (uint32_t i = worker; i < pool->worker_count; i++) take_share(pool, &pool->workers[i], worker);
    for (uint32_t i = 0; i < worker; i++) take_share(pool, &pool->workers[i], worker);
}

/* Wait until `announced` differs from `seen`; its new value. */
static uint32_t await_news(mcp26_pool *pool, uint32_t seen) {
    for (uint32_t i = 0; i < SPINS; i++) {
        uint32_t now = __atomic_load_n(&pool->announced, __ATOMIC_ACQUIRE);
        if (now != seen) return now;
        pause_briefly();
    }
    for (;;) {
        /* Sequentially consistent, as in announce(): either we see its news, or it sees us sleep. */
        atomic_fetch_add(&pool->sleepers, 1);
        if (__atomic_load_n(&pool->announced, __ATOMIC_SEQ_CST) == seen) mcp26_os_wait(&pool->announced, seen);
        atomic_fetch_sub(&pool->sleepers, 1);
        uint32_t now = __atomic_load_n(&pool->announced, __ATOMIC_ACQUIRE);
        if (now != seen) return now;
    }
}

static void announce(mcp26_pool *pool, uint32_t helpers) {
    __atomic_fetch_add(&pool->announced, 1, __ATOMIC_SEQ_CST);
    if (atomic_load(&pool->sleepers) != 0) mcp26_os_wake(&pool->announced, helpers);
}

static void work(void *argument) {
    const mcp26_worker *self = argument;
    mcp26_pool *pool = self->pool;
    for (uint32_t seen = 0;;) {
        seen = await_news(pool, seen);
        if (atomic_load(&pool->quit)) return;
        unsigned job = atomic_load_explicit(&pool->job, memory_order_relaxed);
        while (job & JOB_OPEN) {
            if (!atomic_compare_exchange_weak_explicit(&pool->job, &job, job + 1, memory_order_acquire,
                                                       memory_order_relaxed)) {
                continue;
            }
            take_chunks(pool, self->index);
            atomic_fetch_sub_explicit(&pool->job, 1, memory_order_release);
            break;
        }
    }
}

mcp26_status mcp26_pool_start(mcp26_pool *pool, mcp26_worker *workers, uint32_t worker_count, uint32_t affinity,
                              mcp26_error *error) {
    pool->workers = workers;
    pool->worker_count = worker_count;
    pool->process = mcp26_os_process();
    for (uint32_t i = 1; i < worker_count; i++) {
        workers[i] = (mcp26_worker){.thread = {work, &workers[i], affinity, 0}, .pool = pool, .index = i};
        int failure = mcp26_os_thread_start(&workers[i].thread);
        if (failure != 0) {
            mcp26_pool_stop(pool);
            return mcp26_fail(error, MCP26_ERR_MEMORY, "cannot start thread %u of %u: %s", i, worker_count,
                              strerror(failure));
        }
        pool->started++;
    }
    return MCP26_OK;
}

void mcp26_pool_stop(mcp26_pool *pool) {
    if (pool->started == 0 || pool->process != mcp26_os_process()) return; /* a forked child has no threads to join */
    atomic_store(&pool->quit, 1);
    announce(pool, pool->started);
    for (uint32_t i = 1; i <= pool->started; i++) mcp26_os_thread_join(&pool->workers[i].thread);
    pool->started = 0;
}

int32_t mcp26_pool_run(mcp26_pool *pool, mcp26_env *env, mcp26_body body, void *argument, int64_t count,
                       int64_t grain) {
    if (count <= 0) return 0;
    int64_t share = count / ((int64_t)CHUNKS * pool->worker_count);
    if (grain < share) grain = share;
    if (grain < 1) grain = 1;
    if (pool->worker_count == 1 || count <= grain) {
        int32_t status = body(env, argument, 0, count, 0);
        return status < 0 ? status : 0;
    }
    pool->env = env;
    pool->body = body;
    pool->argument = argument;
    pool->grain = grain;
    atomic_store_explicit(&pool->failure, 0, memory_order_relaxed);
    const int64_t chunks = (count - 1) / grain + 1;
    int64_t begin = 0;
    for (uint32_t i = 0; i < pool->worker_count; i++) {
        mcp26_worker *worker = &pool->workers[i];
        const int64_t end = i + 1 < pool->worker_count ? (int64_t)(i + 1) * chunks / pool->worker_count * grain : count;
        atomic_store_explicit(&worker->next, begin, memory_order_relaxed);
        worker->end = begin = end;
    }
    atomic_store_explicit(&pool->job, JOB_OPEN, memory_order_release);
    const int64_t helpers = chunks - 1;
    announce(pool, helpers < (int64_t)pool->worker_count ? (uint32_t)helpers : pool->worker_count - 1);

    take_chunks(pool, 0);
    unsigned inside = atomic_fetch_and_explicit(&pool->job, ~JOB_OPEN, memory_order_acq_rel) & ~JOB_OPEN;
    for (uint32_t i = 0; inside != 0; i++) {
        if (i < SPINS) pause_briefly();
        else mcp26_os_yield();
        inside = atomic_load_explicit(&pool->job, memory_order_acquire);
    }
    return atomic_load_explicit(&pool->failure, memory_order_relaxed);
}
