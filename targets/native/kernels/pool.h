/* pool.h: pools over channels-last activations of one to three axes, [batch][in[0]][in[1]][in[2]][channels]; missing
 * axes in front have size 1. Output sizes come from the caller (floor or ceil mode alike).
 *
 * Padding never wins a maximum, NaN does. Sums and maxima run over the taps inside the image in the order of kernel[0],
 * kernel[1], kernel[2]. Units: output rows (batch * out[0] * out[1]); of the global pools, groups of GLOBAL_CHANNELS
 * channels.
 */
#ifndef MCP26_POOL_H
#define MCP26_POOL_H

#include "mcp26_abi.h"
#include "vmath.h"

enum { GLOBAL_CHANNELS = 32, POOL_VECTORS = 4 };

/* POOL_AVERAGE divides by the elements inside the image, POOL_AVERAGE_WITH_PADDING (count_include_pad) by those inside
 * the padded image. POOL_LP is the p-norm. */
typedef enum { POOL_MAX, POOL_AVERAGE, POOL_AVERAGE_WITH_PADDING, POOL_LP } pool_kind;

/* `pad` is the padding before an axis, `end` that behind it; neighbouring pixels are x_pixel and y_pixel elements
 * apart, at least the channels. */
typedef struct {
    int64_t batch, channels, x_pixel, y_pixel;
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], pad[3], end[3];
} pool_shape;

/* The part of a window, along an axis, that lies inside the image: taps first ... last-1, of which tap k is at start +
 * k * dilation. `padded` taps lie inside the padded image. */
typedef struct {
    int64_t start, first, last, padded;
} pool_span;

MCP26_INLINE pool_span pool_span_at(pool_shape s, int64_t axis, int64_t o) {
    int64_t start = o * s.stride[axis] - s.pad[axis], by = s.dilation[axis];
    int64_t first = start < 0 ? mcp26_ceil_div(-start, by) : 0;
    int64_t room = s.in[axis] - start, padded = room + s.end[axis];
    int64_t last = mcp26_min(s.kernel[axis], room > 0 ? mcp26_ceil_div(room, by) : 0);
    return (pool_span){start, first, mcp26_max(first, last),
                       mcp26_min(s.kernel[axis], padded > 0 ? mcp26_ceil_div(padded, by) : 0)};
}

MCP26_INLINE int64_t pool_units(pool_shape s) { return s.batch * s.out[0] * s.out[1]; }

/* The spans of output row u along the first two axes; its item. */
MCP26_INLINE int64_t pool_row(pool_shape s, int64_t u, pool_span *spans) {
    spans[0] = pool_span_at(s, 0, u / s.out[1] % s.out[0]);
    spans[1] = pool_span_at(s, 1, u % s.out[1]);
    return u / s.out[1] / s.out[0];
}

/* Runs BODY for each tap of `spans`, with `pixel` the tap's place in the item. */
#define POOL_TAPS(s, spans, ...)                                                                               \
    for (int64_t k0 = spans[0].first; k0 < spans[0].last; k0++) {                                              \
        for (int64_t k1 = spans[1].first; k1 < spans[1].last; k1++) {                                          \
            int64_t line = ((spans[0].start + k0 * s.dilation[0]) * s.in[1] + spans[1].start + k1 * s.dilation[1]) * s.in[2]; \
            for (int64_t k2 = spans[2].first; k2 < spans[2].last; k2++) {                                      \
                int64_t pixel = line + spans[2].start + k2 * s.dilation[2];                                    \
                __VA_ARGS__                                                                                      \
            }                                                                                                  \
        }                                                                                                      \
    }

/* NAME(kind, p, s, x, y, begin, end), from the neutral element, JOIN(kind, p, acc, v) and FINISH(kind, p, acc, count).
 * M is V's mask: a comparison of bytes gives plain char, which has no sign on AArch64. */
#define POOL_DEFINE(NAME, V, M, T, NEUTRAL, JOIN, FINISH)                                                             \
    MCP26_INLINE void NAME(pool_kind kind, float p, pool_shape s, const T *x, T *y, int64_t begin, int64_t end) {     \
        (void)p;                                                                                                      \
        for (int64_t u = begin; u < end; u++) {                                                                       \
            pool_span spans[3];                                                                                       \
            const T *item = x + pool_row(s, u, spans) * s.in[0] * s.in[1] * s.in[2] * s.x_pixel;                      \
            for (int64_t column = 0; column < s.out[2]; column++) {                                                   \
                spans[2] = pool_span_at(s, 2, column);                                                                \
                int64_t count = 1;                                                                                    \
                for (int64_t d = 0; d < 3; d++) {                                                                     \
                    count *= kind == POOL_AVERAGE_WITH_PADDING ? spans[d].padded : spans[d].last - spans[d].first;    \
                }                                                                                                     \
                T *to = y + (u * s.out[2] + column) * s.y_pixel;                                                      \
                int64_t n = 0;                                                                                        \
                for (; n + 8 * POOL_VECTORS <= s.channels; n += 8 * POOL_VECTORS) {                                   \
                    V acc[POOL_VECTORS];                                                                              \
                    MCP26_UNROLL for (int j = 0; j < POOL_VECTORS; j++) acc[j] = V##_splat(NEUTRAL(kind));            \
                    POOL_TAPS(s, spans, MCP26_UNROLL for (int j = 0; j < POOL_VECTORS; j++) {                         \
                        acc[j] = JOIN(kind, p, acc[j], V##_load_all(item + pixel * s.x_pixel + n + 8 * j));           \
                    })                                                                                                \
                    MCP26_UNROLL for (int j = 0; j < POOL_VECTORS; j++) {                                             \
                        V##_store_all(to + n + 8 * j, FINISH(kind, p, acc[j], count));                                \
                    }                                                                                                 \
                }                                                                                                     \
                for (; n < s.channels; n += 8) {                                                                      \
                    int64_t lanes = mcp26_min(8, s.channels - n);                                                     \
                    V acc = V##_splat(NEUTRAL(kind));                                                                 \
                    POOL_TAPS(s, spans, acc = JOIN(kind, p, acc, V##_load(item + pixel * s.x_pixel + n, lanes));)     \
                    V##_store(to + n, FINISH(kind, p, acc, count), lanes);                                            \
                }                                                                                                     \
            }                                                                                                         \
        }                                                                                                             \
    }                                                                                                                 \
    /* Maxima, and where they lie: element (item, channel, pixel) of the row-major input, or, `by_columns`, of one    \
     * whose axes lie in memory the other way around. The first of equal ones; -1 where the window has no tap. */     \
    MCP26_INLINE void NAME##_max_indices(int by_columns, pool_shape s, const T *x, T *y, int64_t *indices,            \
                                         int64_t begin, int64_t end) {                                                \
        int64_t pixels = s.in[0] * s.in[1] * s.in[2];                                                                 \
        for (int64_t u = begin; u < end; u++) {                                                                       \
            pool_span spans[3];                                                                                       \
            int64_t item = pool_row(s, u, spans);                                                                     \
            for (int64_t column = 0; column < s.out[2]; column++) {                                                   \
                spans[2] = pool_span_at(s, 2, column);                                                                \
                for (int64_t n = 0; n < s.channels; n += 8) {                                                         \
                    int64_t lanes = mcp26_min(8, s.channels - n), is_first = 1;                                       \
                    V best = V##_splat(NEUTRAL(POOL_MAX));                                                            \
                    v8l where = -1, plane = (item * s.channels + n + (v8l){0, 1, 2, 3, 4, 5, 6, 7}) * pixels;         \
                    POOL_TAPS(s, spans, {                                                                             \
                        int64_t c[3] = {pixel / s.in[2] / s.in[1], pixel / s.in[2] % s.in[1], pixel % s.in[2]};       \
                        int64_t place = by_columns ? (c[2] * s.in[1] + c[1]) * s.in[0] + c[0] : pixel;                \
                        V v = V##_load(x + (item * pixels + pixel) * s.x_pixel + n, lanes);                           \
                        M wins = (M)((v > best) | ((v != v) & (best == best)));                                       \
                        best = JOIN(POOL_MAX, 0.0f, best, v);                                                         \
                        where = v8l_select(__builtin_convertvector(wins, v8l) | -is_first, plane + place, where);     \
                        is_first = 0;                                                                                 \
                    })                                                                                                \
                    if (y != 0) V##_store(y + (u * s.out[2] + column) * s.y_pixel + n, best, lanes);                  \
                    v8l_store(indices + (u * s.out[2] + column) * s.channels + n, where, lanes);                      \
                }                                                                                                     \
            }                                                                                                         \
        }                                                                                                             \
    }

#define POOL_DEFINE_FLOAT(NAME, V, T)                                                                                  \
    MCP26_INLINE T NAME##_neutral(pool_kind kind) { return kind == POOL_MAX ? -(T)MCP26_INFINITY : (T)0; }            \
    MCP26_INLINE V NAME##_join(pool_kind kind, float p, V acc, V v) {                                                 \
        if (kind == POOL_MAX) return V##_max(acc, v);                                                                 \
        if (kind != POOL_LP) return acc + v;                                                                          \
        V size = V##_abs(v);                                                                                          \
        return p == 1.0f ? acc + size : p == 2.0f ? V##_fma(v, v, acc) : acc + V##_pow(size, V##_splat((T)p));        \
    }                                                                                                                 \
    MCP26_INLINE V NAME##_finish(pool_kind kind, float p, V acc, int64_t count) {                                     \
        if (kind == POOL_MAX) return acc;                                                                             \
        if (kind != POOL_LP) return acc / (T)mcp26_max(count, 1);                                                     \
        return p == 1.0f ? acc : p == 2.0f ? V##_sqrt(acc) : V##_pow(acc, V##_splat((T)1 / (T)p));                    \
    }
#define POOL_INT_JOIN(kind, p, acc, v) __builtin_elementwise_max(acc, v)
#define POOL_INT_FINISH(kind, p, acc, count) (acc)
#define POOL_I8_NEUTRAL(kind) INT8_MIN
#define POOL_U8_NEUTRAL(kind) 0

POOL_DEFINE_FLOAT(pool_f32, v8f, float)
POOL_DEFINE_FLOAT(pool_f64, v8d, double)
POOL_DEFINE_FLOAT(pool_f16, v8f, float) /* of float16 in memory */
POOL_DEFINE(pool_f32, v8f, v8i, float, pool_f32_neutral, pool_f32_join, pool_f32_finish)
POOL_DEFINE(pool_f64, v8d, v8l, double, pool_f64_neutral, pool_f64_join, pool_f64_finish)
POOL_DEFINE(pool_f16, half8, v8i, uint16_t, pool_f16_neutral, pool_f16_join, pool_f16_finish)
POOL_DEFINE(pool_i8, v8c, v8c, int8_t, POOL_I8_NEUTRAL, POOL_INT_JOIN, POOL_INT_FINISH)
POOL_DEFINE(pool_u8, v8b, v8c, uint8_t, POOL_U8_NEUTRAL, POOL_INT_JOIN, POOL_INT_FINISH)

MCP26_INLINE int64_t pool_global_units(int64_t batch, int64_t channels) {
    return batch * mcp26_ceil_div(channels, GLOBAL_CHANNELS);
}

/* y[batch][channels] from x[batch][pixels][channels]. */
#define POOL_DEFINE_GLOBAL(NAME, V, T)                                                                                 \
    MCP26_INLINE void pool_global_##NAME(pool_kind kind, float p, int64_t batch, int64_t pixels, int64_t channels,     \
                                         const T *x, T *y, int64_t begin, int64_t end) {                               \
        int64_t groups = mcp26_ceil_div(channels, GLOBAL_CHANNELS);                                                    \
        (void)batch;                                                                                                   \
        for (int64_t u = begin; u < end; u++) {                                                                        \
            int64_t item = u / groups, n = u % groups * GLOBAL_CHANNELS;                                               \
            int64_t some = mcp26_min(GLOBAL_CHANNELS, channels - n);                                                   \
            const T *from = x + item * pixels * channels + n;                                                          \
            V acc[GLOBAL_CHANNELS / 8];                                                                                \
            MCP26_UNROLL for (int j = 0; j < GLOBAL_CHANNELS / 8; j++) acc[j] = pool_##NAME##_neutral(kind);           \
            for (int64_t i = 0; i < pixels; i++) {                                                                     \
                MCP26_UNROLL for (int j = 0; j < GLOBAL_CHANNELS / 8; j++) {                                           \
                    if (8 * j >= some) continue;                                                                       \
                    V v = V##_load(from + i * channels + 8 * j, mcp26_min(8, some - 8 * j));                           \
                    acc[j] = pool_##NAME##_join(kind, p, acc[j], v);                                                   \
                }                                                                                                      \
            }                                                                                                          \
            MCP26_UNROLL for (int j = 0; j < GLOBAL_CHANNELS / 8; j++) {                                               \
                int64_t lanes = mcp26_min(8, some - 8 * j);                                                            \
                if (lanes <= 0) continue;                                                                              \
                V v = pool_##NAME##_finish(kind, p, acc[j], pixels);                                                   \
                V##_store(y + item * channels + n + 8 * j, v, lanes);                                                  \
            }                                                                                                          \
        }                                                                                                              \
    }
POOL_DEFINE_GLOBAL(f32, v8f, float)
POOL_DEFINE_GLOBAL(f64, v8d, double)
POOL_DEFINE_GLOBAL(f16, half8, uint16_t)

/* The inverse of a maximum with indices, row-major: y, of size[rank], is zero but for x's `count` elements, element i
 * at indices[i], which counts in a tensor of `inner` sizes inside y's. One unit. An index outside, and a y
 * smaller than `inner`, are faults. */
#define MAX_UNPOOL_DEFINE(NAME, T)                                                                                     \
    MCP26_INLINE int32_t max_unpool_##NAME(mcp26_env *env, int64_t rank, const int64_t *inner, const int64_t *size,    \
                                        int64_t count, const T *x, const int64_t *indices, T *y) {                     \
        int64_t total = 1, most = 1;                                                                                   \
        for (int64_t d = 0; d < rank; d++) {                                                                           \
            total *= size[d], most *= inner[d];                                                                        \
            if (size[d] >= inner[d]) continue;                                                                         \
            env->fault = (mcp26_fault){0, MCP26_DATA_SHAPE, size[d], inner[d]};                                        \
            return MCP26_STEP_DATA;                                                                                    \
        }                                                                                                              \
        for (int64_t i = 0; i < total; i++) y[i] = (T)0;                                                               \
        for (int64_t i = 0; i < count; i++) {                                                                          \
            int64_t rest = indices[i], to = 0, step = 1;                                                               \
            if (rest < 0 || rest >= most) {                                                                            \
                env->fault = (mcp26_fault){0, MCP26_DATA_INDEX, rest, most};                                           \
                return MCP26_STEP_DATA;                                                                                \
            }                                                                                                          \
            for (int64_t d = rank - 1; d >= 0; d--) {                                                                  \
                to += rest % inner[d] * step;                                                                          \
                rest /= inner[d];                                                                                      \
                step *= size[d];                                                                                       \
            }                                                                                                          \
            y[to] = x[i];                                                                                              \
        }                                                                                                              \
        return 0;                                                                                                      \
    }
MAX_UNPOOL_DEFINE(f32, float)
MAX_UNPOOL_DEFINE(f64, double)

#endif
