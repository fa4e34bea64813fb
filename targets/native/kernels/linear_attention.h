/* linear_attention.h: LinearAttention, whose state is a matrix for every head of keys.
 *
 * The columns of a state do not depend on each other: a unit is LINEAR_COLUMNS of them, through all of time. Each sum
 * over the depth is one chain of fused multiply-adds, so results depend neither on the ISA nor on the split among
 * threads. All tensors are contiguous.
 */
#ifndef MCP26_LINEAR_ATTENTION_H
#define MCP26_LINEAR_ATTENTION_H

#include "vmath.h"

enum {
    LINEAR_COLUMNS = 32,
    LINEAR_VECTORS = LINEAR_COLUMNS / 8,
    LINEAR_ROWS = 64 /* for which factors of the decay are kept */
};

/* q [batch][time][heads][group][depth], k [batch][time][heads][depth], v [batch][time][heads][width], past and state
 * [batch][heads][depth][width], decay [batch][time][heads][decays], beta [batch][time][rates], y [batch][time][heads]
 * [group][width]. What is 0 is not there: a past of zeros, no decay, no correction. decays is 1 or depth, rates 1 or
 * heads. At every time step, for each head, with the rows S[d] of its state,
 *
 *     S[d] *= exp(decay[d]),   v = beta (v - sum of S[d] k[d]),   S[d] += k[d] v,   y = scale (sum of S[d] q[d])
 */
typedef struct {
    int64_t time, heads, group, depth, width, decays, rates;
    const float *q, *k, *v, *past, *decay, *beta;
    float scale;
    float *state, *y;
} linear_attention;

MCP26_INLINE int64_t linear_attention_units(int64_t batch, int64_t heads, int64_t width) {
    return batch * heads * mcp26_ceil_div(width, LINEAR_COLUMNS);
}

/* exp(g[d]) for `rows` rows from d on; one number for all where there are no more. */
MCP26_INLINE void linear_factors(const float *g, int64_t decays, int64_t d, int64_t rows, float *factors) {
    if (decays == 1) {
        v8f factor = v8f_exp(v8f_splat(g[0]));
        for (int64_t i = 0; i < rows; i++) factors[i] = factor[0];
        return;
    }
    for (int64_t i = 0; i < rows; i += 8) {
        int64_t lanes = mcp26_min(8, rows - i);
        v8f_store(factors + i, v8f_exp(v8f_load(g + d + i, lanes)), lanes);
    }
}

/* Columns of one head, `some` of them; the pointers are to their first elements. */
MCP26_INLINE void linear_columns(linear_attention a, const float *q, const float *k, const float *v, const float *past,
                                 const float *decay, const float *beta, float *state, float *y, int64_t some) {
    for (int64_t d = 0; d < a.depth && (!past || a.time == 0); d++) {
        for (int64_t c = 0; c < some; c++) state[d * a.width + c] = past ? past[d * a.width + c] : 0.0f;
    }
    const float *from = past ? past : state;
#define LINEAR_EACH(lanes)                                                                                             \
    MCP26_UNROLL for (int64_t i = 0; i < LINEAR_VECTORS; i++)                                                          \
        for (int64_t lanes = mcp26_min(8, some - 8 * i), once = 1; once && lanes > 0; once = 0)
#define LINEAR_BY_ROWS                                                                                                 \
    for (int64_t first = 0, rows; first < a.depth; first += rows)                                                      \
        if (rows = mcp26_min(LINEAR_ROWS, a.depth - first), 1)
    for (int64_t t = 0; t < a.time; t++) {
        v8f value[LINEAR_VECTORS], sum[LINEAR_VECTORS];
        float factors[LINEAR_ROWS];
        LINEAR_EACH(lanes) value[i] = v8f_load(v + 8 * i, lanes);
        if (beta) {
            MCP26_UNROLL for (int64_t i = 0; i < LINEAR_VECTORS; i++) sum[i] = 0.0f;
            LINEAR_BY_ROWS {
                if (decay) linear_factors(decay, a.decays, first, rows, factors);
                for (int64_t j = 0; j < rows; j++) {
                    const float *row = from + (first + j) * a.width;
                    LINEAR_EACH(lanes) {
                        v8f s = v8f_load(row + 8 * i, lanes);
                        if (decay) s = s * factors[j];
                        sum[i] = v8f_fma(s, v8f_splat(k[first + j]), sum[i]);
                    }
                }
            }
            LINEAR_EACH(lanes) value[i] = (value[i] - sum[i]) * beta[0];
        }
        for (int64_t g = 0; g < a.group; g++) { /* the first head of queries is read while the state is written */
            const float *query = q + g * a.depth;
            MCP26_UNROLL for (int64_t i = 0; i < LINEAR_VECTORS; i++) sum[i] = 0.0f;
            LINEAR_BY_ROWS {
                if (decay && g == 0) linear_factors(decay, a.decays, first, rows, factors);
                for (int64_t j = 0; j < rows; j++) {
                    int64_t at = (first + j) * a.width;
                    LINEAR_EACH(lanes) {
                        v8f s = v8f_load((g == 0 ? from : state) + at + 8 * i, lanes);
                        if (g == 0) {
                            if (decay) s = s * factors[j];
                            s = v8f_fma(v8f_splat(k[first + j]), value[i], s);
                            v8f_store(state + at + 8 * i, s, lanes);
                        }
                        sum[i] = v8f_fma(v8f_splat(query[first + j]), s, sum[i]);
                    }
                }
            }
            LINEAR_EACH(lanes) v8f_store(y + g * a.width + 8 * i, sum[i] * a.scale, lanes);
        }
        from = state;
        q += a.heads * a.group * a.depth;
        k += a.heads * a.depth;
        v += a.heads * a.width;
        y += a.heads * a.group * a.width;
        if (decay) decay += a.heads * a.decays;
        if (beta) beta += a.rates;
    }
#undef LINEAR_EACH
#undef LINEAR_BY_ROWS
}

MCP26_INLINE void linear_attention_f32(linear_attention a, int64_t begin, int64_t end) {
    int64_t blocks = mcp26_ceil_div(a.width, LINEAR_COLUMNS);
    for (int64_t u = begin; u < end; u++) {
        int64_t b = u / (a.heads * blocks), h = u / blocks % a.heads, column = u % blocks * LINEAR_COLUMNS;
        int64_t some = mcp26_min(LINEAR_COLUMNS, a.width - column), start = b * a.time;
        int64_t head = start * a.heads + h, matrix = (b * a.heads + h) * a.depth * a.width + column;
        const float *q = a.q + head * a.group * a.depth, *k = a.k + head * a.depth, *v = a.v + head * a.width + column;
        const float *decay = a.decay ? a.decay + head * a.decays : 0;
        const float *beta = a.beta ? a.beta + start * a.rates + (a.rates == 1 ? 0 : h) : 0;
        const float *past = a.past ? a.past + matrix : 0;
        float *y = a.y + head * a.group * a.width + column;
        if (some == LINEAR_COLUMNS) {
            linear_columns(a, q, k, v, past, decay, beta, a.state + matrix, y, LINEAR_COLUMNS);
        } else {
            linear_columns(a, q, k, v, past, decay, beta, a.state + matrix, y, some);
        }
    }
}

#endif
