/* reduce.h: reductions of [outer][n][inner] (contiguous) to [outer][inner].
 *
 * Order of a float sum with inner = 1: element i goes to chain i % 32 (8 lanes, 4 vectors); the four vectors are
 * joined as (0 + 1) + (2 + 3), the lanes as v8f_sum does. With inner > 1 there is one chain, in order of n. n = 0
 * gives the neutral element (a mean NaN, as numpy). Integer means, roots and logarithms truncate towards zero; integer
 * sums wrap. Units: outer x groups of REDUCE_INNER columns (with inner = 1: outer).
 */
#ifndef MCP26_REDUCE_H
#define MCP26_REDUCE_H

#include "vmath.h"

enum { REDUCE_INNER = 64 };

typedef enum {
    REDUCE_SUM,
    REDUCE_MEAN,
    REDUCE_MAX, /* NaN wins */
    REDUCE_MIN,
    REDUCE_PROD,
    REDUCE_SUM_SQUARE,
    REDUCE_L1,
    REDUCE_L2,
    REDUCE_LOG_SUM
} reduce_kind;

MCP26_INLINE int64_t reduce_units(int64_t outer, int64_t inner) { return outer * mcp26_ceil_div(inner, REDUCE_INNER); }

/* V vectors of T; unsigned arithmetic U makes integer overflow wrap. PRE(kind, v) is applied to elements, POST(kind, T)
 * to results; FOLD_x reduce lanes. */
#define REDUCE_DEFINE(NAME, V, T, MAX, MIN, LOWEST, HIGHEST, MASK, PRE, POST)                                        \
    MCP26_INLINE T NAME##_neutral(reduce_kind kind) {                                                                \
        return kind == REDUCE_MAX ? LOWEST : kind == REDUCE_MIN ? HIGHEST : kind == REDUCE_PROD ? (T)1 : (T)0;       \
    }                                                                                                                \
    MCP26_INLINE V NAME##_join(reduce_kind kind, V a, V b) {                                                         \
        return kind == REDUCE_MAX ? MAX(a, b) : kind == REDUCE_MIN ? MIN(a, b) : kind == REDUCE_PROD ? a * b : a + b; \
    }                                                                                                                \
    MCP26_INLINE T NAME##_lanes(reduce_kind kind, V v) {                                                             \
        V other = __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3);                                             \
        v = NAME##_join(kind, v, other);                                                                             \
        v = NAME##_join(kind, v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5));                             \
        v = NAME##_join(kind, v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6));                             \
        return v[0];                                                                                                 \
    }                                                                                                                \
    MCP26_INLINE T NAME##_row(reduce_kind kind, int64_t n, const T *x) {                                             \
        V acc[4];                                                                                                    \
        MCP26_UNROLL for (int j = 0; j < 4; j++) acc[j] = V##_splat(NAME##_neutral(kind));                           \
        int64_t i = 0;                                                                                               \
        for (; i + 32 <= n; i += 32) {                                                                               \
            MCP26_UNROLL for (int j = 0; j < 4; j++) {                                                               \
                acc[j] = NAME##_join(kind, acc[j], PRE(kind, V##_load_all(x + i + 8 * j)));                          \
            }                                                                                                        \
        }                                                                                                            \
        MCP26_UNROLL for (int j = 0; j < 4; j++) {                                                                   \
            int64_t lanes = mcp26_min(8, n - i - 8 * j);                                                             \
            if (lanes <= 0) continue;                                                                                \
            V v = V##_select(MASK(lanes), PRE(kind, V##_load(x + i + 8 * j, lanes)), V##_splat(NAME##_neutral(kind))); \
            acc[j] = NAME##_join(kind, acc[j], v);                                                                   \
        }                                                                                                            \
        return NAME##_lanes(kind, NAME##_join(kind, NAME##_join(kind, acc[0], acc[1]),                               \
                                              NAME##_join(kind, acc[2], acc[3])));                                   \
    }                                                                                                                \
    MCP26_INLINE void NAME(reduce_kind kind, int64_t outer, int64_t n, int64_t inner, const T *x, T *y,              \
                           int64_t begin, int64_t end) {                                                             \
        int64_t groups = mcp26_ceil_div(inner, REDUCE_INNER);                                                        \
        (void)outer;                                                                                                 \
        for (int64_t u = begin; u < end; u++) {                                                                      \
            if (inner == 1) {                                                                                        \
                V v = V##_splat(NAME##_row(kind, n, x + u * n));                                                     \
                y[u] = POST(kind, v, n)[0];                                                                          \
                continue;                                                                                            \
            }                                                                                                        \
            int64_t o = u / groups, c = u % groups * REDUCE_INNER, some = mcp26_min(REDUCE_INNER, inner - c);        \
            V acc[REDUCE_INNER / 8];                                                                                 \
            MCP26_UNROLL for (int j = 0; j < REDUCE_INNER / 8; j++) acc[j] = V##_splat(NAME##_neutral(kind));        \
            for (int64_t i = 0; i < n; i++) {                                                                        \
                const T *from = x + (o * n + i) * inner + c;                                                         \
                MCP26_UNROLL for (int j = 0; j < REDUCE_INNER / 8; j++) {                                            \
                    if (8 * j >= some) continue;                                                                     \
                    acc[j] = NAME##_join(kind, acc[j], PRE(kind, V##_load(from + 8 * j, mcp26_min(8, some - 8 * j)))); \
                }                                                                                                    \
            }                                                                                                        \
            MCP26_UNROLL for (int j = 0; j < REDUCE_INNER / 8; j++) {                                                \
                if (8 * j >= some) continue;                                                                         \
                V##_store(y + o * inner + c + 8 * j, POST(kind, acc[j], n), mcp26_min(8, some - 8 * j));             \
            }                                                                                                        \
        }                                                                                                            \
    }

MCP26_INLINE v8f reduce_f32_pre(reduce_kind kind, v8f v) {
    return kind == REDUCE_SUM_SQUARE || kind == REDUCE_L2 ? v * v : kind == REDUCE_L1 ? v8f_abs(v) : v;
}
MCP26_INLINE v8f reduce_f32_post(reduce_kind kind, v8f v, int64_t n) {
    if (kind == REDUCE_MEAN) return v / (float)n;
    return kind == REDUCE_L2 ? v8f_sqrt(v) : kind == REDUCE_LOG_SUM ? v8f_log(v) : v;
}
MCP26_INLINE v8d reduce_f64_pre(reduce_kind kind, v8d v) {
    return kind == REDUCE_SUM_SQUARE || kind == REDUCE_L2 ? v * v : kind == REDUCE_L1 ? v8d_abs(v) : v;
}
MCP26_INLINE v8d reduce_f64_post(reduce_kind kind, v8d v, int64_t n) {
    if (kind == REDUCE_MEAN) return v / (double)n;
    return kind == REDUCE_L2 ? v8d_sqrt(v) : kind == REDUCE_LOG_SUM ? v8d_log(v) : v;
}
#define REDUCE_LANES(M, lanes) __builtin_convertvector(v8i_lane_mask(lanes), M)
#define REDUCE_LANES_8(lanes) REDUCE_LANES(v8c, lanes)
#define REDUCE_LANES_16(lanes) REDUCE_LANES(v8s, lanes)
#define REDUCE_LANES_64(lanes) REDUCE_LANES(v8l, lanes)

#define REDUCE_DEFINE_INT(NAME, V, T, LOWEST, HIGHEST, MASK, ABS)                                                     \
    MCP26_INLINE V NAME##_pre(reduce_kind kind, V v) {                                                               \
        return kind == REDUCE_SUM_SQUARE || kind == REDUCE_L2 ? v * v : kind == REDUCE_L1 ? ABS(v) : v;              \
    }                                                                                                                \
    MCP26_INLINE V NAME##_post(reduce_kind kind, V v, int64_t n) {                                                   \
        if (kind == REDUCE_MEAN) return n > 0 ? v / (T)n : v;                                                        \
        if (kind != REDUCE_L2 && kind != REDUCE_LOG_SUM) return v;                                                   \
        v8d wide = __builtin_convertvector(v, v8d);                                                                  \
        return __builtin_convertvector(v8l_from_v8d(kind == REDUCE_L2 ? v8d_sqrt(wide) : v8d_log(wide)), V);         \
    }                                                                                                                \
    REDUCE_DEFINE(NAME, V, T, __builtin_elementwise_max, __builtin_elementwise_min, LOWEST, HIGHEST, MASK, NAME##_pre, \
                  NAME##_post)
#define REDUCE_SAME(v) (v)

REDUCE_DEFINE(reduce_f32, v8f, float, v8f_max, v8f_min, -MCP26_INFINITY, MCP26_INFINITY, v8i_lane_mask, reduce_f32_pre,
              reduce_f32_post)
REDUCE_DEFINE(reduce_f64, v8d, double, v8d_max, v8d_min, -(double)MCP26_INFINITY, (double)MCP26_INFINITY,
              REDUCE_LANES_64, reduce_f64_pre, reduce_f64_post)
REDUCE_DEFINE_INT(reduce_i8, v8c, int8_t, INT8_MIN, INT8_MAX, REDUCE_LANES_8, __builtin_elementwise_abs)
REDUCE_DEFINE_INT(reduce_i16, v8s, int16_t, INT16_MIN, INT16_MAX, REDUCE_LANES_16, __builtin_elementwise_abs)
REDUCE_DEFINE_INT(reduce_i32, v8i, int32_t, INT32_MIN, INT32_MAX, v8i_lane_mask, __builtin_elementwise_abs)
REDUCE_DEFINE_INT(reduce_i64, v8l, int64_t, INT64_MIN, INT64_MAX, REDUCE_LANES_64, __builtin_elementwise_abs)
REDUCE_DEFINE_INT(reduce_u8, v8b, uint8_t, 0, UINT8_MAX, REDUCE_LANES_8, REDUCE_SAME)
REDUCE_DEFINE_INT(reduce_u16, v8w, uint16_t, 0, UINT16_MAX, REDUCE_LANES_16, REDUCE_SAME)
REDUCE_DEFINE_INT(reduce_u32, v8u, uint32_t, 0, UINT32_MAX, v8i_lane_mask, REDUCE_SAME)
REDUCE_DEFINE_INT(reduce_u64, v8q, uint64_t, 0, UINT64_MAX, REDUCE_LANES_64, REDUCE_SAME)

#endif
