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

/* A list of numbers that is data; where `data` is 0 it is left out. */
typedef struct {
    const void *data;
    int64_t is_int64;
} sizes_list;

MCP26_INLINE int64_t sizes_in(sizes_list list, int64_t i, int64_t absent) {
    return list.data == 0 ? absent : sizes_at(list.data, list.is_int64, i);
}

/* places[rank]: where each axis stands in a list of `count` axes (left out: 0, 1, ...), -1 where it does not. An axis out
 * of range is a fault, and so is one that is named twice. */
MCP26_INLINE int32_t sizes_axes(mcp26_env *env, int64_t rank, int64_t count, sizes_list axes, int64_t *places) {
    for (int64_t d = 0; d < rank; d++) places[d] = -1;
    for (int64_t i = 0; i < count; i++) {
        int64_t axis = sizes_in(axes, i, i);
        if (axis < -rank || axis >= rank) {
            env->fault = (mcp26_fault){.kind = MCP26_DATA_INDEX, .index = axis, .bound = rank};
            return MCP26_STEP_DATA;
        }
        axis += axis < 0 ? rank : 0;
        if (places[axis] >= 0) return sizes_differ(env, i, count);
        places[axis] = i;
    }
    return 0;
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

/* sizes are those of own[rank] without the axes that have places, each of which must be 1. */
MCP26_INLINE int32_t sizes_squeeze(mcp26_env *env, int64_t rank, const int64_t *own, const int64_t *places,
                                   int64_t *sizes) {
    for (int64_t d = 0, at = 0; d < rank; d++) {
        if (places[d] < 0) {
            sizes[at++] = own[d];
        } else if (own[d] != 1) {
            return sizes_differ(env, own[d], 1);
        }
    }
    return 0;
}

/* sizes[rank] are `own`, and 1 for the axes that have places. */
MCP26_INLINE int32_t sizes_unsqueeze(mcp26_env *env, int64_t rank, const int64_t *own, const int64_t *places,
                                     int64_t *sizes) {
    (void)env;
    for (int64_t d = 0, at = 0; d < rank; d++) sizes[d] = places[d] < 0 ? own[at++] : 1;
    return 0;
}

/* Pad: what `pads`, begins and then ends of `count` axes, says of each axis. */
MCP26_INLINE void sizes_pads(int64_t rank, const int64_t *places, int64_t count, sizes_list pads, int64_t *begins,
                             int64_t *ends) {
    for (int64_t d = 0; d < rank; d++) {
        begins[d] = places[d] < 0 ? 0 : sizes_in(pads, places[d], 0);
        ends[d] = places[d] < 0 ? 0 : sizes_in(pads, places[d] + count, 0);
    }
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

/* What Slice picks from an axis: `count` elements from `first`, `step` apart. */
typedef struct {
    int64_t first, step, count;
} slice_range;

/* Of every axis, by its place in the lists. A step of 0, which has no meaning, counts as 1. */
MCP26_INLINE void slice_ranges(int64_t rank, const int64_t *own, const int64_t *places, sizes_list starts,
                               sizes_list ends, sizes_list steps, slice_range *ranges) {
    for (int64_t d = 0; d < rank; d++) {
        int64_t i = places[d];
        ranges[d] = (slice_range){0, 1, own[d]};
        if (i < 0) continue;
        int64_t start = sizes_in(starts, i, 0), end = sizes_in(ends, i, 0), step = sizes_in(steps, i, 1);
        step = step == 0 ? 1 : step;
        int64_t count = slice_count(own[d], start, end, step);
        ranges[d] = (slice_range){slice_first(own[d], start, step), count > 1 ? step : 1, count};
    }
}

#endif
