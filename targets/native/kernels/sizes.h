/* sizes.h: sizes that only the data show: what Reshape, Expand, Slice, … make of integer tensors.
 *
 * A function returns 0, or MCP26_STEP_DATA with the fault filled in but for the step.
 */
#ifndef MCP26_SIZES_H
#define MCP26_SIZES_H

#include "kernel.h"

MCP26_INLINE int32_t sizes_differ(mcp26_env *env, int64_t a, int64_t b) {
    env->fault = (mcp26_fault){.kind = MCP26_DATA_SHAPE, .index = a, .bound = b};
    return MCP26_STEP_DATA;
}

/* Element i of a shape tensor. */
MCP26_INLINE int64_t sizes_at(const void *data, int64_t is_int64, int64_t i) {
    return is_int64 ? ((const int64_t *)data)[i] : ((const int32_t *)data)[i];
}

MCP26_INLINE int32_t sizes_check(mcp26_env *env, int64_t size) {
    if (size >= 0 && size <= MOST_BYTES) return 0;
    env->fault = (mcp26_fault){.kind = MCP26_DATA_BOUND, .index = size, .bound = MOST_BYTES};
    return MCP26_STEP_DATA;
}

/* size * count and size + before + after; -1, which is no size, where they leave 64 bits. */
MCP26_INLINE int64_t sizes_times(int64_t size, int64_t count) {
    int64_t product;
    return __builtin_mul_overflow(size, count, &product) ? -1 : product;
}
MCP26_INLINE int64_t sizes_plus(int64_t size, int64_t before, int64_t after) {
    int64_t sum;
    return __builtin_add_overflow(size, before, &sum) || __builtin_add_overflow(sum, after, &sum) ? -1 : sum;
}

/* Reshape: `wanted` holds sizes, 0 for the input's own (unless keep_zero), one -1 for what is left. */
MCP26_INLINE int32_t sizes_reshape(mcp26_env *env, const int64_t *wanted, int64_t rank, const int64_t *own,
                                   int64_t own_rank, int64_t keep_zero, int64_t *sizes) {
    int64_t total = 1, known = 1, open = -1;
    for (int64_t i = 0; i < own_rank; i++) total *= own[i];
    for (int64_t i = 0; i < rank; i++) {
        int64_t size = wanted[i];
        if (size == 0 && !keep_zero) {
            if (i >= own_rank) return sizes_differ(env, i, own_rank);
            size = own[i];
        }
        if (size == -1 && open < 0) {
            open = i;
            continue;
        }
        int32_t status = sizes_check(env, size);
        if (status) return status;
        sizes[i] = size;
        if (size != 0 && known > MOST_BYTES / size) return sizes_differ(env, total, size);
        known *= size;
    }
    if (open >= 0) {
        sizes[open] = known == 0 ? 0 : total / known;
        known *= sizes[open];
    }
    if (known == total) return 0;
    int64_t rest = rank == 0 || sizes[rank - 1] == 0 ? 0 : known / sizes[rank - 1];
    int is_last = rest != 0 && total % rest == 0; /* the last size alone does not fit */
    return is_last ? sizes_differ(env, total / rest, sizes[rank - 1]) : sizes_differ(env, total, known);
}

/* One axis of Expand, which broadcasts both ways. */
MCP26_INLINE int32_t sizes_expand(mcp26_env *env, int64_t wanted, int64_t own, int64_t *size) {
    if (wanted != 1 && own != 1 && wanted != own) return sizes_differ(env, own, wanted);
    *size = wanted == 1 ? own : wanted;
    return sizes_check(env, *size);
}

/* One axis of Slice: the first index, and how many are picked. */
MCP26_INLINE int64_t slice_first(int64_t size, int64_t start, int64_t step) {
    if (start < 0) start += size;
    return min_size(max_size(start, 0), step > 0 ? size : size - 1);
}
MCP26_INLINE int64_t slice_count(int64_t size, int64_t start, int64_t end, int64_t step) {
    int64_t first = slice_first(size, start, step);
    if (end < 0) end = end < -size ? -1 : end + size;
    int64_t last = step > 0 ? min_size(max_size(end, 0), size) : min_size(max_size(end, -1), size - 1);
    int64_t span = step > 0 ? last - first : first - last, by = step > 0 ? step : -max_size(step, -INT64_MAX);
    return span <= 0 ? 0 : 1 + (span - 1) / by;
}

#endif
