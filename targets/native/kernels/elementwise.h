/* elementwise.h: the loops around fused elementwise chains. The chain itself is a generated always_inline function that
 * loads its operands, computes and stores.
 */
#ifndef MCP26_ELEMENTWISE_H
#define MCP26_ELEMENTWISE_H

#include "simd.h"

enum { MAP_UNIT = 256, MAP_MAX_RANK = 16, MAP_MAX_OPERANDS = 64 };

/* Handles elements i ... i+lanes-1 of every operand: v8f_store(OUT(float, 1) + i, f(v8f_load(ARG(float, 0) + i,
 * lanes)), lanes) */
typedef void (*map_body)(const void *const *args, int64_t i, int64_t lanes);

/* Units of map: blocks of MAP_UNIT elements. */
MCP26_INLINE int64_t map_units(int64_t n) { return mcp26_ceil_div(n, MAP_UNIT); }

/* All operands contiguous, n elements. An output may be an operand, not overlap one otherwise. */
MCP26_INLINE void map(int64_t n, map_body body, const void *const *args, int64_t begin, int64_t end) {
    int64_t i = begin * MAP_UNIT, stop = mcp26_min(n, end * MAP_UNIT);
    for (; i + 8 <= stop; i += 8) body(args, i, 8);
    if (i < stop) body(args, i, stop - i);
}

/* As map_body, for one run along the innermost dimension: operand k starts at element at[k] of args[k], and the body
 * steps through it by the inner stride that it was generated for (i, 0, or i * stride). */
typedef void (*map_nd_body)(const void *const *args, const int64_t *at, int64_t i, int64_t lanes);

/* Units of map_nd: runs along the innermost dimension. */
MCP26_INLINE int64_t map_nd_units(int64_t outer_rank, const int64_t *sizes) {
    int64_t runs = 1;
    for (int64_t d = 0; d < outer_rank; d++) runs *= sizes[d];
    return runs;
}

/* Broadcast and strided operands: sizes[outer_rank] without the innermost dimension of n elements,
 * strides[operands][outer_rank] in elements, 0 for a broadcast operand. At most MAP_MAX_RANK, MAP_MAX_OPERANDS. */
MCP26_INLINE void map_nd(int64_t outer_rank, const int64_t *sizes, int64_t n, int64_t operands, const int64_t *strides,
                         map_nd_body body, const void *const *args, int64_t begin, int64_t end) {
    int64_t index[MAP_MAX_RANK], at[MAP_MAX_OPERANDS], rest = begin;
    for (int64_t k = 0; k < operands; k++) at[k] = 0;
    for (int64_t d = outer_rank - 1; d >= 0; d--) {
        index[d] = rest % sizes[d];
        rest /= sizes[d];
        for (int64_t k = 0; k < operands; k++) at[k] += index[d] * strides[k * outer_rank + d];
    }
    for (int64_t u = begin; u < end; u++) {
        int64_t i = 0;
        for (; i + 8 <= n; i += 8) body(args, at, i, 8);
        if (i < n) body(args, at, i, n - i);
        for (int64_t d = outer_rank - 1; d >= 0; d--) {
            int64_t is_carry = ++index[d] == sizes[d], back = is_carry ? sizes[d] : 0;
            for (int64_t k = 0; k < operands; k++) at[k] += (1 - back) * strides[k * outer_rank + d];
            if (!is_carry) break;
            index[d] = 0;
        }
    }
}

#endif
