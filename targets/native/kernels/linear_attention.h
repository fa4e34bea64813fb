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
    LINEAR_COLUMNS = 64,
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

/* exp(g[d]) for `rows` rows from d on, rounded up to whole vectors; one number for all where there are no more. */
MCP26_INLINE void linear_factors(const float *g, int64_t decays, int64_t d, int64_t rows, float *factors) {
    v8f same = decays == 1 ? v8f_exp(v8f_splat(g[0])) : 0.0f;
    for (int64_t i = 0; i < rows; i += 8) {
        v8f_store_all(factors + i, decays == 1 ? same : v8f_exp(v8f_load(g + d + i, mcp26_min(8, rows - i))));
    }
}

/* sum[c] += S[d][c] factors[d] a[d] over `rows` rows, which are `step` apart; no factors where they are 0. */
MCP26_INLINE void linear_recall(const float *state, int64_t step, int64_t rows, const float *factors, const float *a,
                                int64_t some, v8f *sum) {
    for (int64_t d = 0; d < rows; d++) {
        MCP26_UNROLL for (int64_t i = 0; i < LINEAR_VECTORS; i++) {
            int64_t lanes = mcp26_min(8, some - 8 * i);
            if (lanes <= 0) continue;
            v8f s = v8f_load(state + d * step + 8 * i, lanes);
            if (factors) s = s * factors[d];
            sum[i] = v8f_fma(s, v8f_splat(a[d]), sum[i]);
        }
    }
}

/* The new state is S[d] factors[d] + k[d] value, of which sum[c] gets what linear_recall would give for q. */
MCP26_INLINE void linear_update(const float *from, int64_t from_step, float *to, int64_t to_step, int64_t rows,
                                const float *factors, const float *k, const v8f *value, const float *q, int64_t some,
                                v8f *sum) {
    for (int64_t d = 0; d < rows; d++) {
        MCP26_UNROLL for (int64_t i = 0; i < LINEAR_VECTORS; i++) {
            int64_t lanes = mcp26_min(8, some - 8 * i);
            if (lanes <= 0) continue;
            v8f s = v8f_load(from + d * from_step + 8 * i, lanes);
            if (factors) s = s * factors[d];
            s = v8f_fma(v8f_splat(k[d]), value[i], s);
            v8f_store(to + d * to_step + 8 * i, s, lanes);
            sum[i] = v8f_fma(s, v8f_splat(q[d]), sum[i]);
        }
    }
}

MCP26_INLINE void linear_copy(int64_t rows, const float *from, int64_t from_step, float *to, int64_t to_step,
                              int64_t some) {
    for (int64_t d = 0; d < rows; d++) {
        for (int64_t c = 0; c < some; c++) to[d * to_step + c] = from ? from[d * from_step + c] : 0.0f;
    }
}

/* Columns of one head, `some` of them; the pointers are to their first elements. Many tokens work on a copy of them in
 * `work`, where that is not 0: rows of a matrix whose sizes are powers of two evict each other from the cache. */
MCP26_INLINE void linear_columns(linear_attention a, const float *q, const float *k, const float *v, const float *past,
                                 const float *decay, const float *beta, float *state, float *y, float *work,
                                 int64_t some) {
    int64_t is_apart = work && a.time > 1, step = is_apart ? LINEAR_COLUMNS : a.width;
    float *to = is_apart ? work : state;
    if (is_apart || a.time == 0 || !past) linear_copy(a.depth, past, a.width, to, step, some);
    const float *from = is_apart || !past ? to : past;
    int64_t from_step = is_apart ? step : a.width;
    for (int64_t t = 0; t < a.time; t++) {
        v8f value[LINEAR_VECTORS], sum[LINEAR_VECTORS];
        float factors[LINEAR_ROWS];
        MCP26_UNROLL for (int64_t i = 0; i < LINEAR_VECTORS; i++) {
            value[i] = some > 8 * i ? v8f_load(v + 8 * i, mcp26_min(8, some - 8 * i)) : 0.0f;
            sum[i] = 0.0f;
        }
        for (int64_t d = 0, rows; beta && d < a.depth; d += rows) {
            rows = mcp26_min(LINEAR_ROWS, a.depth - d);
            if (decay) {
                linear_factors(decay, a.decays, d, rows, factors);
                linear_recall(from + d * from_step, from_step, rows, factors, k + d, some, sum);
            } else {
                linear_recall(from + d * from_step, from_step, rows, 0, k + d, some, sum);
            }
        }
        MCP26_UNROLL for (int64_t i = 0; beta && i < LINEAR_VECTORS; i++) value[i] = (value[i] - sum[i]) * beta[0];
        for (int64_t g = 0; g < a.group; g++) { /* for the first head of queries while the state is written */
            const float *query = q + g * a.depth;
            MCP26_UNROLL for (int64_t i = 0; i < LINEAR_VECTORS; i++) sum[i] = 0.0f;
            if (g > 0) linear_recall(to, step, a.depth, 0, query, some, sum);
            for (int64_t d = 0, rows; g == 0 && d < a.depth; d += rows) {
                const float *old = from + d * from_step, *key = k + d, *read = query + d;
                float *new = to + d * step;
                rows = mcp26_min(LINEAR_ROWS, a.depth - d);
                if (decay) {
                    linear_factors(decay, a.decays, d, rows, factors);
                    linear_update(old, from_step, new, step, rows, factors, key, value, read, some, sum);
                } else {
                    linear_update(old, from_step, new, step, rows, 0, key, value, read, some, sum);
                }
            }
            MCP26_UNROLL for (int64_t i = 0; i < LINEAR_VECTORS; i++) {
                if (some > 8 * i) v8f_store(y + g * a.width + 8 * i, sum[i] * a.scale, mcp26_min(8, some - 8 * i));
            }
        }
        from = to, from_step = step;
        q += a.heads * a.group * a.depth;
        k += a.heads * a.depth;
        v += a.heads * a.width;
        y += a.heads * a.group * a.width;
        if (decay) decay += a.heads * a.decays;
        if (beta) beta += a.rates;
    }
    if (is_apart) linear_copy(a.depth, to, step, state, a.width, some);
}

/* `work` holds depth * LINEAR_COLUMNS floats of this worker, or is 0. */
MCP26_INLINE void linear_attention_f32(linear_attention a, float *work, int64_t begin, int64_t end) {
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
            linear_columns(a, q, k, v, past, decay, beta, a.state + matrix, y, work, LINEAR_COLUMNS);
        } else {
            linear_columns(a, q, k, v, past, decay, beta, a.state + matrix, y, work, some);
        }
    }
}

#endif
