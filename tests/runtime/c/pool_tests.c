/* The thread pool by itself: every item once, errors, many threads, use from a forked child. */
#include "harness.h"

#include "pool.h"

enum { ITEMS = 10007, MAX_THREADS = 16 };

typedef struct {
    uint8_t seen[ITEMS];
    uint64_t per_worker[MAX_THREADS]; /* written by its worker alone: a race if two share a number */
    int64_t fail_at;                  /* item whose chunk fails; -1: none */
    int64_t grain;
} loop;

static int32_t visit(mcp26_env *env, void *arg, int64_t begin, int64_t end, uint32_t worker) {
    loop *state = arg;
    CHECK(begin < end && worker < env->workers && end <= ITEMS);
    for (int64_t i = begin; i < end; i++) {
        state->seen[i]++;
        state->per_worker[worker]++;
        if (i == state->fail_at) return -3;
    }
    return 0;
}

static mcp26_pool *start(mcp26_env *env, uint32_t threads) {
    mcp26_pool *pool = aligned_alloc(64, sizeof *pool);
    mcp26_worker *workers = aligned_alloc(64, threads * sizeof *workers);
    CHECK(pool != NULL && workers != NULL);
    memset(pool, 0, sizeof *pool);
    memset(workers, 0, threads * sizeof *workers);
    *env = (mcp26_env){.workers = threads};
    CHECK(mcp26_pool_start(pool, workers, threads, MCP26_AFFINITY_ALL, NULL) == MCP26_OK);
    return pool;
}

static void stop(mcp26_pool *pool) {
    mcp26_worker *workers = pool->workers;
    mcp26_pool_stop(pool);
    free(workers);
    free(pool);
}

static void check_loop(mcp26_pool *pool, mcp26_env *env, int64_t count, int64_t grain) {
    static loop state;
    memset(&state, 0, sizeof state);
    state.fail_at = -1;
    CHECK(mcp26_pool_run(pool, env, visit, &state, count, grain) == 0);
    uint64_t total = 0;
    for (uint32_t w = 0; w < env->workers; w++) total += state.per_worker[w];
    CHECK(total == (uint64_t)(count > 0 ? count : 0));
    for (int64_t i = 0; i < ITEMS; i++) CHECK(state.seen[i] == (i < count));
}

static void test_every_item_once(const char *folder) {
    (void)folder;
    static const int64_t COUNTS[] = {-1, 0, 1, 2, 7, 100, ITEMS}, GRAINS[] = {-1, 0, 1, 3, 64, ITEMS, INT64_MAX};
    for (uint32_t threads = 1; threads <= MAX_THREADS; threads *= 2) {
        mcp26_env env;
        mcp26_pool *pool = start(&env, threads);
        for (size_t c = 0; c < sizeof COUNTS / sizeof *COUNTS; c++) {
            for (size_t g = 0; g < sizeof GRAINS / sizeof *GRAINS; g++) check_loop(pool, &env, COUNTS[c], GRAINS[g]);
        }
        stop(pool);
    }
}

static void test_many_loops(const char *folder) {
    (void)folder;
    mcp26_env env;
    mcp26_pool *pool = start(&env, 4);
    for (int i = 0; i < 3000; i++) {
        check_loop(pool, &env, 1 + i % 50, 1);
        if (i % 500 == 0) { /* long enough for the workers to fall asleep */
            for (uint64_t end = mcp26_os_nanoseconds() + 2000000; mcp26_os_nanoseconds() < end;) mcp26_os_yield();
        }
    }
    stop(pool);
}

static void test_failure_ends_loop(const char *folder) {
    (void)folder;
    static loop state;
    for (uint32_t threads = 1; threads <= 8; threads *= 2) {
        mcp26_env env;
        mcp26_pool *pool = start(&env, threads);
        for (int i = 0; i < 100; i++) {
            memset(&state, 0, sizeof state);
            state.fail_at = 0;
            CHECK(mcp26_pool_run(pool, &env, visit, &state, ITEMS, 1) == -3);
            for (int64_t item = 0; item < ITEMS; item++) CHECK(state.seen[item] <= 1);
            check_loop(pool, &env, ITEMS, 100); /* and leaves nothing behind */
        }
        stop(pool);
    }
}

static void test_start_and_stop(const char *folder) {
    (void)folder;
    for (int i = 0; i < 50; i++) {
        mcp26_env env;
        mcp26_pool *pool = start(&env, 8);
        if (i % 2 == 0) check_loop(pool, &env, 100, 1);
        stop(pool);
    }
}

const test pool_tests[] = {
    {"every_item_once", test_every_item_once},
    {"many_loops", test_many_loops},
    {"failure_ends_loop", test_failure_ends_loop},
    {"start_and_stop", test_start_and_stop},
    {0},
};
