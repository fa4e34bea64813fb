/* softmax.h: Softmax, LogSoftmax and Hardmax along the middle of [outer][n][inner] (contiguous), and the reduction
 * log(sum(exp)) over it. A sum over rows takes 8 lanes, joined as in reduce.h. Units: with inner = 1 rows (outer),
 * otherwise outer x groups of 8 columns; those of log_sum_exp are reduce_units.
 */
#ifndef MCP26_SOFTMAX_H
#define MCP26_SOFTMAX_H

#include "reduce.h"

typedef enum { SOFTMAX, SOFTMAX_LOG } softmax_kind;

MCP26_INLINE int64_t softmax_units(int64_t outer, int64_t inner) { return outer * mcp26_ceil_div(inner, 8); }

/* V vectors of T with masks M. The results of softmax may lie where x does. */
#define SOFTMAX_DEFINE(NAME, V, M, T)                                                                                  \
    /* The sum of e^(x - peak). */                                                                                     \
    MCP26_INLINE T softmax_##NAME##_total(int64_t n, const T *x, T peak) {                                             \
        V sum = (T)0;                                                                                                  \
        for (int64_t i = 0; i < n; i += 8) {                                                                           \
            int64_t lanes = mcp26_min(8, n - i);                                                                       \
            M exist = __builtin_convertvector(v8i_lane_mask(lanes), M);                                                \
            sum += V##_select(exist, V##_exp(V##_load(x + i, lanes) - peak), V##_splat(0));                            \
        }                                                                                                              \
        return reduce_##NAME##_lanes(REDUCE_SUM, sum);                                                                 \
    }                                                                                                                  \
    /* The largest element, of those that are numbers: a NaN reaches the results through the sum. */                   \
    MCP26_INLINE V softmax_##NAME##_larger(V a, V b) { return V##_select(a > b, a, b); }                               \
    MCP26_INLINE T softmax_##NAME##_peak(int64_t n, const T *x) {                                                      \
        V top[4];                                                                                                      \
        MCP26_UNROLL for (int j = 0; j < 4; j++) top[j] = V##_splat((T)-MCP26_INFINITY);                               \
        int64_t i = 0;                                                                                                 \
        for (; i + 32 <= n; i += 32) {                                                                                 \
            MCP26_UNROLL for (int j = 0; j < 4; j++) {                                                                 \
                top[j] = softmax_##NAME##_larger(V##_load_all(x + i + 8 * j), top[j]);                                 \
            }                                                                                                          \
        }                                                                                                              \
        for (; i < n; i += 8) {                                                                                        \
            int64_t lanes = mcp26_min(8, n - i);                                                                       \
            M exist = __builtin_convertvector(v8i_lane_mask(lanes), M);                                                \
            V v = V##_select(exist, V##_load(x + i, lanes), V##_splat((T)-MCP26_INFINITY));                            \
            top[0] = softmax_##NAME##_larger(v, top[0]);                                                               \
        }                                                                                                              \
        V both = softmax_##NAME##_larger(top[0], top[1]), rest = softmax_##NAME##_larger(top[2], top[3]);              \
        return reduce_##NAME##_lanes(REDUCE_MAX, softmax_##NAME##_larger(both, rest));                                 \
    }                                                                                                                  \
    MCP26_INLINE void softmax_##NAME##_row(softmax_kind kind, int64_t n, const T *x, T *y) {                           \
        T peak = softmax_##NAME##_peak(n, x);                                                                          \
        if (kind == SOFTMAX_LOG) {                                                                                     \
            V lost = V##_log(V##_splat(softmax_##NAME##_total(n, x, peak)));                                           \
            for (int64_t i = 0; i < n; i += 8) {                                                                       \
                int64_t lanes = mcp26_min(8, n - i);                                                                   \
                V##_store(y + i, V##_load(x + i, lanes) - peak - lost, lanes);                                         \
            }                                                                                                          \
            return;                                                                                                    \
        }                                                                                                              \
        V sum = (T)0;                                                                                                  \
        int64_t i = 0;                                                                                                 \
        for (; i + 8 <= n; i += 8) {                                                                                   \
            V e = V##_exp(V##_load_all(x + i) - peak);                                                                 \
            V##_store_all(y + i, e);                                                                                   \
            sum += e;                                                                                                  \
        }                                                                                                              \
        if (i < n) {                                                                                                   \
            V e = V##_exp(V##_load(x + i, n - i) - peak);                                                              \
            V##_store(y + i, e, n - i);                                                                                \
            sum += V##_select(__builtin_convertvector(v8i_lane_mask(n - i), M), e, V##_splat(0));                      \
        }                                                                                                              \
        V factor = (T)1 / V##_splat(reduce_##NAME##_lanes(REDUCE_SUM, sum));                                           \
        for (i = 0; i + 8 <= n; i += 8) V##_store_all(y + i, V##_load_all(y + i) * factor);                            \
        if (i < n) V##_store(y + i, V##_load(y + i, n - i) * factor, n - i);                                           \
    }                                                                                                                  \
    MCP26_INLINE void softmax_##NAME##_columns(softmax_kind kind, int64_t n, int64_t inner, const T *x, T *y,          \
                                               int64_t lanes) {                                                        \
        V peak = (T)-MCP26_INFINITY, sum = (T)0;                                                                       \
        for (int64_t i = 0; i < n; i++) peak = V##_max(peak, V##_load(x + i * inner, lanes));                          \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            V v = V##_load(x + i * inner, lanes) - peak, e = V##_exp(v);                                               \
            sum += e;                                                                                                  \
            V##_store(y + i * inner, kind == SOFTMAX ? e : v, lanes);                                                  \
        }                                                                                                              \
        if (kind == SOFTMAX_LOG) sum = V##_log(sum);                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            V v = V##_load(y + i * inner, lanes);                                                                      \
            V##_store(y + i * inner, kind == SOFTMAX ? v / sum : v - sum, lanes);                                      \
        }                                                                                                              \
    }                                                                                                                  \
    MCP26_INLINE void softmax_##NAME(softmax_kind kind, int64_t outer, int64_t n, int64_t inner, const T *x, T *y,     \
                                     int64_t begin, int64_t end) {                                                     \
        int64_t groups = mcp26_ceil_div(inner, 8);                                                                     \
        (void)outer;                                                                                                   \
        for (int64_t u = begin; u < end; u++) {                                                                        \
            if (inner == 1) {                                                                                          \
                softmax_##NAME##_row(kind, n, x + u * n, y + u * n);                                                   \
                continue;                                                                                              \
            }                                                                                                          \
            int64_t at = u / groups * n * inner + u % groups * 8, lanes = mcp26_min(8, inner - u % groups * 8);        \
            softmax_##NAME##_columns(kind, n, inner, x + at, y + at, lanes);                                           \
        }                                                                                                              \
    }                                                                                                                  \
    /* 1 at the first of the largest elements, 0 elsewhere. */                                                         \
    MCP26_INLINE void hardmax_##NAME(int64_t outer, int64_t n, int64_t inner, const T *x, T *y, int64_t begin,         \
                                     int64_t end) {                                                                    \
        int64_t groups = mcp26_ceil_div(inner, 8);                                                                     \
        (void)outer;                                                                                                   \
        for (int64_t u = begin; u < end; u++) {                                                                        \
            int64_t first = u / groups * n * inner + u % groups * 8, lanes = mcp26_min(8, inner - u % groups * 8);     \
            for (int64_t l = 0; l < lanes; l++) {                                                                      \
                int64_t best = first + l;                                                                              \
                for (int64_t i = first + l; i < first + n * inner; i += inner) {                                       \
                    best = x[i] > x[best] || (x[i] != x[i] && x[best] == x[best]) ? i : best;                          \
                }                                                                                                      \
                for (int64_t i = first + l; i < first + n * inner; i += inner) y[i] = i == best;                       \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    /* Where the largest element is infinite, so is the result. */                                                     \
    MCP26_INLINE void log_sum_exp_##NAME(int64_t outer, int64_t n, int64_t inner, const T *x, T *y, int64_t begin,     \
                                         int64_t end) {                                                                \
        int64_t groups = mcp26_ceil_div(inner, REDUCE_INNER);                                                          \
        (void)outer;                                                                                                   \
        for (int64_t u = begin; u < end; u++) {                                                                        \
            if (inner == 1) {                                                                                          \
                T peak = reduce_##NAME##_row(REDUCE_MAX, n, x + u * n);                                                \
                T base = peak - peak == 0 ? peak : 0;                                                                  \
                y[u] = V##_log(V##_splat(softmax_##NAME##_total(n, x + u * n, base)))[0] + base;                       \
                continue;                                                                                              \
            }                                                                                                          \
            int64_t o = u / groups, last = mcp26_min(inner, (u % groups + 1) * REDUCE_INNER);                          \
            for (int64_t c = u % groups * REDUCE_INNER; c < last; c += 8) {                                            \
                int64_t lanes = mcp26_min(8, last - c);                                                                \
                const T *from = x + o * n * inner + c;                                                                 \
                V peak = (T)-MCP26_INFINITY, sum = (T)0;                                                               \
                for (int64_t i = 0; i < n; i++) peak = V##_max(peak, V##_load(from + i * inner, lanes));               \
                peak = V##_select(peak - peak == 0, peak, V##_splat(0));                                               \
                for (int64_t i = 0; i < n; i++) sum += V##_exp(V##_load(from + i * inner, lanes) - peak);              \
                V##_store(y + o * inner + c, V##_log(sum) + peak, lanes);                                              \
            }                                                                                                          \
        }                                                                                                              \
    }

SOFTMAX_DEFINE(f32, v8f, v8i, float)
SOFTMAX_DEFINE(f64, v8d, v8l, double)

#endif
