/* plan.h: the plan entry's part that depends on sizes: checks, and places in the arena.
 *
 * Places are found as at compile time (Pisarchyk, Lee: "Efficient Memory Management for Deep Neural Net Inference", 2020):
 * the largest buffer first, each into the smallest gap that holds it between those that are live at the same time.
 */
#ifndef MCP26_PLAN_H
#define MCP26_PLAN_H

#include "kernel.h"

enum { PLAN_ALIGNMENT = 64 };

/* Steps `first` to `last` use the buffer; its size is known to the plan of step `phase`. */
typedef struct {
    uint32_t first, last, phase;
} plan_life;

MCP26_INLINE int32_t plan_fault(mcp26_env *env, uint32_t step, int32_t kind, int64_t index, int64_t bound) {
    env->fault = (mcp26_fault){.step = step, .kind = kind, .index = index, .bound = bound};
    return MCP26_STEP_DATA;
}

/* A kernel does not know which step it runs for. */
MCP26_INLINE int64_t step_failed(mcp26_env *env, uint32_t step, int32_t status) {
    if (status == MCP26_STEP_DATA) env->fault.step = step;
    return status;
}

/* Bytes of a tensor, rounded up; MOST_BYTES + 1 where they are more. */
static uint64_t plan_bytes(const int64_t *sizes, int64_t count) {
    uint64_t bytes = 1;
    for (int64_t i = 0; i < count; i++) {
        if (sizes[i] <= 0) return 0;
    }
    for (int64_t i = 0; i < count; i++) {
        if ((uint64_t)sizes[i] > (uint64_t)MOST_BYTES / bytes) return (uint64_t)MOST_BYTES + 1;
        bytes *= (uint64_t)sizes[i];
    }
    return (bytes + PLAN_ALIGNMENT - 1) / PLAN_ALIGNMENT * PLAN_ALIGNMENT;
}

/* env->offsets holds three tables of `count` entries: places (UINT64_MAX: none yet), sizes, and the placed buffers ordered
 * by place. Those of other phases stay where they are: a step in a loop plans for its phase again and again. */
static int32_t plan_place(mcp26_env *env, const plan_life *lives, uint32_t count, uint32_t phase) {
    uint64_t *places = env->offsets, *bytes = places + count, *order = bytes + count;
    uint32_t before = 0, placed = 0, open = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (phase == 0) places[i] = UINT64_MAX;
        before += places[i] != UINT64_MAX;
        open += lives[i].phase == phase;
    }
    for (uint32_t k = 0; k < before; k++) {
        if (lives[order[k]].phase != phase) order[placed++] = order[k];
        else places[order[k]] = UINT64_MAX;
    }
    for (; open > 0; open--) {
        uint32_t chosen = count;
        for (uint32_t i = 0; i < count; i++) {
            if (lives[i].phase != phase || places[i] != UINT64_MAX) continue;
            if (chosen == count || bytes[i] > bytes[chosen]) chosen = i;
        }
        if (bytes[chosen] > (uint64_t)MOST_BYTES) return MCP26_STEP_MEMORY;
        uint64_t cursor = 0, best = UINT64_MAX, best_gap = UINT64_MAX;
        for (uint32_t k = 0; k < placed; k++) {
            uint32_t other = (uint32_t)order[k];
            if (lives[other].last < lives[chosen].first || lives[other].first > lives[chosen].last) continue;
            uint64_t gap = places[other] > cursor ? places[other] - cursor : 0;
            if (gap >= bytes[chosen] && gap < best_gap && places[other] > cursor) best = cursor, best_gap = gap;
            cursor = places[other] + bytes[other] > cursor ? places[other] + bytes[other] : cursor;
        }
        if (best == UINT64_MAX) best = cursor;
        places[chosen] = best;
        if (best + bytes[chosen] > (uint64_t)MOST_BYTES) return MCP26_STEP_MEMORY;
        if (best + bytes[chosen] > env->plan_bytes) env->plan_bytes = best + bytes[chosen];
        uint32_t k = placed++;
        for (; k > 0 && places[order[k - 1]] > best; k--) order[k] = order[k - 1];
        order[k] = chosen;
    }
    return 0;
}

/* After a step that found sizes in the data: plan what follows, and make room for it. */
static int32_t plan_again(mcp26_env *env, uint32_t step, mcp26_plan_fn plan) {
    int32_t status = plan(env, step);
    return status != 0 || env->plan_bytes <= env->arena_bytes ? status : env->grow(env, env->plan_bytes);
}

#endif
