/* normalize.h: LayerNormalization and RMSNormalization of the rows of [rows][n] (contiguous).
 *
 * Mean and variance come in two passes over a row, which the first cache holds: no cancellation. Sums run in the order
 * of reduce.h. Units: rows.
 */
#ifndef MCP26_NORMALIZE_H
#define MCP26_NORMALIZE_H

#include "reduce.h"

typedef enum { NORMALIZE_MEAN_AND_VARIANCE, NORMALIZE_MEAN_SQUARE } normalize_kind;

/* A scale or bias: element c of row r is at data[r * row + c * column], where `column` is 0 or 1; data 0 for none. */
typedef struct {
    const float *data;
    int64_t row, column;
} normalize_operand;

MCP26_INLINE v8f normalize_load(normalize_operand o, int64_t r, int64_t c, int64_t lanes) {
    const float *p = o.data + r * o.row;
    return o.column ? v8f_load(p + c, lanes) : v8f_splat(*p);
}

/* The sum of (x - mean)^2. */
MCP26_INLINE float normalize_squares(int64_t n, const float *x, float mean) {
    v8f acc[4] = {0};
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) {
        MCP26_UNROLL for (int j = 0; j < 4; j++) {
            v8f v = v8f_load_all(x + i + 8 * j) - mean;
            acc[j] = v8f_fma(v, v, acc[j]);
        }
    }
    MCP26_UNROLL for (int j = 0; j < 4; j++) {
        int64_t lanes = mcp26_min(8, n - i - 8 * j);
        if (lanes <= 0) continue;
        v8f v = v8f_select(v8i_lane_mask(lanes), v8f_load(x + i + 8 * j, lanes) - mean, 0.0f);
        acc[j] = v8f_fma(v, v, acc[j]);
    }
    return v8f_sum((acc[0] + acc[1]) + (acc[2] + acc[3]));
}

/* y = epilogue((x - mean) / sqrt(variance + epsilon) * scale + bias), without a mean for NORMALIZE_MEAN_SQUARE. `means`
 * and `inverses` [rows] get the mean and the factor of each row. Each of the three results may be 0; y may be x. */
MCP26_INLINE void normalize_f32(normalize_kind kind, int64_t n, const float *x, normalize_operand scale,
                                normalize_operand bias, float epsilon, float *y, float *means, float *inverses,
                                mcp26_epilogue epilogue, const void *const *args, int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++) {
        const float *from = x + r * n;
        float mean = kind == NORMALIZE_MEAN_AND_VARIANCE ? reduce_f32_row(REDUCE_SUM, n, from) / (float)n : 0.0f;
        v8f spread = v8f_splat(normalize_squares(n, from, mean) / (float)n + epsilon);
        float inverse = (1.0f / v8f_sqrt(spread))[0];
        for (int64_t c = 0; y && c < n; c += 8) {
            int64_t lanes = mcp26_min(8, n - c);
            v8f v = v8f_load(from + c, lanes);
            v = kind == NORMALIZE_MEAN_AND_VARIANCE ? (v - mean) * inverse : v * inverse;
            if (scale.data) v = v * normalize_load(scale, r, c, lanes);
            if (bias.data) v = v + normalize_load(bias, r, c, lanes);
            v8f_store(y + r * n + c, epilogue(v, args, r, c, lanes), lanes);
        }
        if (means) means[r] = mean;
        if (inverses) inverses[r] = inverse;
    }
}

#endif
