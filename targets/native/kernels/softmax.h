/* softmax.h: Softmax and LogSoftmax along the middle of [outer][n][inner] (contiguous). Sums in the order of reduce.h.
 * Units: with inner = 1 rows (outer), otherwise outer x groups of 8 columns.
 */
#ifndef MCP26_SOFTMAX_H
#define MCP26_SOFTMAX_H

#include "reduce.h"

typedef enum { SOFTMAX, SOFTMAX_LOG } softmax_kind;

MCP26_INLINE int64_t softmax_f32_units(int64_t outer, int64_t inner) { return outer * mcp26_ceil_div(inner, 8); }

MCP26_INLINE void softmax_row(softmax_kind kind, int64_t n, const float *x, float *y) {
    v8f peak = reduce_f32_row(REDUCE_MAX, n, x);
    for (int64_t i = 0; i < n; i += 8) {
        int64_t lanes = mcp26_min(8, n - i);
        v8f v = v8f_load(x + i, lanes) - peak;
        v8f_store(y + i, kind == SOFTMAX ? v8f_exp(v) : v, lanes);
    }
    v8f sum = 0.0f;
    if (kind == SOFTMAX) {
        sum = reduce_f32_row(REDUCE_SUM, n, y);
    } else {
        for (int64_t i = 0; i < n; i += 8) {
            int64_t lanes = mcp26_min(8, n - i);
            sum += v8f_select(v8i_lane_mask(lanes), v8f_exp(v8f_load(y + i, lanes)), 0.0f);
        }
        sum = v8f_log(v8f_sum(sum));
    }
    for (int64_t i = 0; i < n; i += 8) {
        int64_t lanes = mcp26_min(8, n - i);
        v8f v = v8f_load(y + i, lanes);
        v8f_store(y + i, kind == SOFTMAX ? v / sum : v - sum, lanes);
    }
}

MCP26_INLINE void softmax_columns(softmax_kind kind, int64_t n, int64_t inner, const float *x, float *y,
                                  int64_t lanes) {
    v8f peak = -MCP26_INFINITY, sum = 0.0f;
    for (int64_t i = 0; i < n; i++) peak = v8f_max(peak, v8f_load(x + i * inner, lanes));
    for (int64_t i = 0; i < n; i++) {
        v8f v = v8f_load(x + i * inner, lanes) - peak, e = v8f_exp(v);
        sum += e;
        v8f_store(y + i * inner, kind == SOFTMAX ? e : v, lanes);
    }
    if (kind == SOFTMAX_LOG) sum = v8f_log(sum);
    for (int64_t i = 0; i < n; i++) {
        v8f v = v8f_load(y + i * inner, lanes);
        v8f_store(y + i * inner, kind == SOFTMAX ? v / sum : v - sum, lanes);
    }
}

/* y may be x. */
MCP26_INLINE void softmax_f32(softmax_kind kind, int64_t outer, int64_t n, int64_t inner, const float *x, float *y,
                              int64_t begin, int64_t end) {
    int64_t groups = mcp26_ceil_div(inner, 8);
    (void)outer;
    for (int64_t u = begin; u < end; u++) {
        if (inner == 1) {
            softmax_row(kind, n, x + u * n, y + u * n);
        } else {
            int64_t at = u / groups * n * inner + u % groups * 8;
            softmax_columns(kind, n, inner, x + at, y + at, mcp26_min(8, inner - u % groups * 8));
        }
    }
}

#endif
