/* reduce_axes.h: reductions over axes that are data: which axes go, and the copy that puts them innermost. */
#ifndef MCP26_REDUCE_AXES_H
#define MCP26_REDUCE_AXES_H

#include "move.h"

enum { REDUCE_MAX_RANK = MOVE_MAX_RANK };

/* is_reduced[rank] from axes[count]; without axes, all are reduced if `is_all`. An axis out of range is a fault. */
MCP26_INLINE int32_t reduce_mark(mcp26_env *env, int64_t rank, int64_t count, const int64_t *axes, int64_t is_all,
                                 int64_t *is_reduced) {
    for (int64_t d = 0; d < REDUCE_MAX_RANK; d++) is_reduced[d] = count == 0 && is_all;
    for (int64_t i = 0; i < count; i++) {
        if (axes[i] < -rank || axes[i] >= rank) {
            env->fault = (mcp26_fault){0, MCP26_DATA_INDEX, axes[i], rank};
            return MCP26_STEP_DATA;
        }
        is_reduced[axes[i] + (axes[i] < 0 ? rank : 0)] = 1;
    }
    return 0;
}

/* The size of the axis that is left at `position`; 1 where fewer are left. */
MCP26_INLINE int64_t reduce_kept(int64_t rank, const int64_t *sizes, const int64_t *is_reduced, int64_t position) {
    for (int64_t d = 0; d < rank; d++) {
        if (!is_reduced[d] && position-- == 0) return sizes[d];
    }
    return 1;
}

/* Arguments of copy_nd from a row-major tensor to one whose reduced axes come last: [outer][count]. */
typedef struct {
    int64_t sizes[REDUCE_MAX_RANK], to[REDUCE_MAX_RANK], from[REDUCE_MAX_RANK];
    int64_t outer, count;
} reduce_order;

MCP26_INLINE reduce_order reduce_sort(int64_t rank, const int64_t *sizes, const int64_t *is_reduced) {
    reduce_order order = {{1}, {1}, {1}, 1, 1};
    int64_t at = 0, step = 1;
    for (int64_t reduced = 0; reduced < 2; reduced++) {
        for (int64_t d = 0; d < rank; d++) {
            if (is_reduced[d] != reduced) continue;
            order.sizes[at] = sizes[d];
            order.from[at] = 1;
            for (int64_t e = d + 1; e < rank; e++) order.from[at] *= sizes[e];
            if (reduced) {
                order.count *= sizes[d];
            } else {
                order.outer *= sizes[d];
            }
            at++;
        }
    }
    for (int64_t d = rank - 1; d >= 0; d--) {
        order.to[d] = step;
        step *= order.sizes[d];
    }
    return order;
}

#endif
