/* conv_nd.h: convolutions and transposed convolutions over one to three axes of channels-last activations.
 *
 * An activation is [batch][in[0]][in[1]][in[2]][channels], missing axes in front have size 1. The epilogue's m is the
 * output pixel, its n the output channel, as in conv.h. With G = groups, I = in_c / G, O = out_c / G and taps counted
 * in the order of kernel[0], kernel[1], kernel[2]:
 *
 *     packed    [G][packed as tile.h says, N = O, K = taps * I in the order (tap, i)]
 *     loose     row (tap, i) of group g is O contiguous numbers at tap * w_tap + g * w_group + i * w_row: weights that
 *               are computed as the network runs, in an order that the layout pass asks for; of doubles all weights
 *     channels  [taps][ceil8(C)], zero beyond C: groups = in_c = out_c = C
 *     spread    packed as tile.h says, N = taps * out_c, K = in_c
 *
 * TRANSPOSED: output position o along an axis takes tap k from input position (o + pad - k * dilation) / stride, where
 * that is whole. So outputs with equal remainders of (o + pad) by the stride, a phase, share their taps, and each phase
 * is an ordinary convolution. Every result is one chain of fused multiply-adds over (tap, i) from +0.
 */
#ifndef MCP26_CONV_ND_H
#define MCP26_CONV_ND_H

#include "gemm.h"

typedef struct {
    int64_t batch, in_c, out_c, groups;
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];
    int is_transposed;
} window_shape;

enum { WINDOW_TILES = 8, PLAIN_PIXELS = 4, PLAIN_VECTORS = 4 };

/* The input position that output position o of an axis takes tap k from; outside 0 ... in-1 for none. */
MCP26_INLINE int64_t window_source(window_shape s, int64_t axis, int64_t o, int64_t k) {
    if (!s.is_transposed) return o * s.stride[axis] - s.pad[axis] + k * s.dilation[axis];
    int64_t at = o + s.pad[axis] - k * s.dilation[axis];
    return at >= 0 && at % s.stride[axis] == 0 ? at / s.stride[axis] : -1;
}

MCP26_INLINE int64_t window_taps(window_shape s) { return s.kernel[0] * s.kernel[1] * s.kernel[2]; }
MCP26_INLINE int64_t window_pixels(window_shape s) { return s.batch * s.out[0] * s.out[1] * s.out[2]; }

/* Output pixels that share their taps: positions first[axis] + step[axis] * (0 ... count[axis]-1) of every axis. */
typedef struct {
    int64_t first[3], step[3], count[3];
} window_phase;

MCP26_INLINE int64_t window_phases(window_shape s) {
    return s.is_transposed ? s.stride[0] * s.stride[1] * s.stride[2] : 1;
}

/* The most pixels of a phase. */
MCP26_INLINE int64_t window_phase_pixels(window_shape s) {
    int64_t pixels = s.batch;
    for (int64_t d = 0; d < 3; d++) pixels *= s.is_transposed ? mcp26_ceil_div(s.out[d], s.stride[d]) : s.out[d];
    return pixels;
}

MCP26_INLINE window_phase window_phase_at(window_shape s, int64_t index) {
    window_phase p;
    for (int64_t d = 2; d >= 0; d--) {
        p.step[d] = s.is_transposed ? s.stride[d] : 1;
        p.first[d] = index % p.step[d];
        index /= p.step[d];
        p.count[d] = mcp26_max(0, mcp26_ceil_div(s.out[d] - p.first[d], p.step[d]));
    }
    return p;
}

/* Whether the phase has tap k along an axis. */
MCP26_INLINE int window_has_tap(window_shape s, window_phase p, int64_t axis, int64_t k) {
    return !s.is_transposed || (p.first[axis] + s.pad[axis] - k * s.dilation[axis]) % s.stride[axis] == 0;
}

/* Rows m ... m+rows-1 of a phase times the panels at b, which belong to group g. */
MCP26_INLINE void window_tile(window_shape s, window_phase p, const float *x, const float *zeros, const float *b,
                              float *y, mcp26_epilogue epilogue, const void *const *args, int64_t g, int64_t m,
                              int64_t rows, int64_t vectors, int64_t columns, int64_t n) {
    float sums[TILE_SUMS] __attribute__((aligned(64)));
    int64_t depth = s.in_c / s.groups, channels = s.out_c / s.groups, goes_on = 0;
    int64_t at[3][TILE_ROWS], item[TILE_ROWS], index[3];
    const float *a[TILE_ROWS];
    for (int64_t d = 2; d >= 0; d--) {
        index[d] = m % p.count[d];
        m /= p.count[d];
    }
    for (int64_t i = 0; i < rows; i++) {
        a[i] = zeros;
        item[i] = m;
        for (int64_t d = 0; d < 3; d++) at[d][i] = p.first[d] + index[d] * p.step[d];
        int64_t is_carry = 1;
        for (int64_t d = 2; d >= 0; d--) {
            index[d] += is_carry;
            is_carry = index[d] == p.count[d];
            index[d] = is_carry ? 0 : index[d];
        }
        m += is_carry;
    }
    for (int64_t tap = 0; tap < window_taps(s); tap++) {
        int64_t k[3] = {tap / s.kernel[2] / s.kernel[1], tap / s.kernel[2] % s.kernel[1], tap % s.kernel[2]};
        if (!window_has_tap(s, p, 0, k[0]) || !window_has_tap(s, p, 1, k[1]) || !window_has_tap(s, p, 2, k[2])) continue;
        for (int64_t i = 0; i < rows; i++) {
            int64_t offset = item[i], is_inside = 1;
            for (int64_t d = 0; d < 3; d++) {
                int64_t from = window_source(s, d, at[d][i], k[d]);
                is_inside &= (uint64_t)from < (uint64_t)s.in[d];
                offset = offset * s.in[d] + from;
            }
            a[i] = is_inside ? x + offset * s.in_c + g * depth : zeros;
        }
        tile_core(rows, vectors, columns, sums, a, 1, depth, b + tap * depth * MCP26_NR, MCP26_NR,
                  window_taps(s) * depth * MCP26_NR, goes_on);
        goes_on = 1;
    }
    if (!goes_on) tile_core(rows, vectors, columns, sums, a, 0, depth, b, MCP26_NR, 0, 0);
    for (int64_t i = 0; i < rows; i++) {
        int64_t pixel = ((item[i] * s.out[0] + at[0][i]) * s.out[1] + at[1][i]) * s.out[2] + at[2][i];
        for (int64_t j = 0; j < columns; j += 8) {
            int64_t lanes = mcp26_min(8, columns - j), c = g * channels + n + j;
            v8f v = epilogue(v8f_load_all(sums + i * vectors * TILE_LANES + j), args, pixel, c, lanes);
            v8f_store(y + pixel * s.out_c + c, v, lanes);
        }
    }
}

MCP26_INLINE int64_t window_blocks(window_shape s) {
    return mcp26_ceil_div(window_phase_pixels(s), WINDOW_TILES * MCP26_MR);
}

/* Units of window_f32: groups x phases x blocks of rows. */
MCP26_INLINE int64_t window_f32_units(window_shape s) { return s.groups * window_phases(s) * window_blocks(s); }

/* Packed weights. `zeros`: in_c / groups zeros. */
MCP26_INLINE void window_f32(window_shape s, const float *x, const float *w, const float *zeros, float *y,
                             mcp26_epilogue epilogue, const void *const *args, int64_t begin, int64_t end) {
    int64_t channels = s.out_c / s.groups, depth = window_taps(s) * (s.in_c / s.groups), blocks = window_blocks(s);
    for (int64_t u = begin; u < end; u++) {
        int64_t g = u / blocks / window_phases(s), m = u % blocks * WINDOW_TILES * MCP26_MR;
        window_phase p = window_phase_at(s, u / blocks % window_phases(s));
        int64_t stop = mcp26_min(m + WINDOW_TILES * MCP26_MR, s.batch * p.count[0] * p.count[1] * p.count[2]);
        const float *b = w + g * mcp26_ceil_div(channels, MCP26_NR) * depth * MCP26_NR;
        for (int64_t n = 0; n < channels; n += TILE_WIDTH) {
            int64_t columns = mcp26_min(TILE_WIDTH, channels - n), vectors = columns <= TILE_LANES ? 1 : TILE_VECTORS;
            int64_t step = vectors == 1 ? TILE_SLIM : MCP26_MR;
            for (int64_t i = m; i < stop; i += step) {
                window_tile(s, p, x, zeros, b + n * depth, y, epilogue, args, g, i, mcp26_min(step, stop - i), vectors,
                            columns, n);
            }
        }
    }
}

/* A transposed convolution whose windows lie side by side, which is for the caller to see: one group, kernel = stride, no
 * dilation, no padding, out = in * stride. It is one product, of pixels and [in_c][taps * out_c], whose rows are
 * spread over the output. Units: blocks of input pixels. */
MCP26_INLINE int64_t window_spread_units(window_shape s) {
    return mcp26_ceil_div(s.batch * s.in[0] * s.in[1] * s.in[2], WINDOW_TILES * MCP26_MR);
}

MCP26_INLINE void window_spread_f32(window_shape s, const float *x, const float *w, float *y, mcp26_epilogue epilogue,
                                    const void *const *args, int64_t begin, int64_t end) {
    int64_t pixels = s.batch * s.in[0] * s.in[1] * s.in[2], width = window_taps(s) * s.out_c;
    for (int64_t u = begin; u < end; u++) {
        int64_t stop = mcp26_min(pixels, (u + 1) * WINDOW_TILES * MCP26_MR);
        for (int64_t n = 0; n < width; n += TILE_WIDTH) {
            int64_t columns = mcp26_min(TILE_WIDTH, width - n), vectors = columns <= TILE_LANES ? 1 : TILE_VECTORS;
            int64_t step = vectors == 1 ? TILE_SLIM : MCP26_MR;
            for (int64_t m = u * WINDOW_TILES * MCP26_MR; m < stop; m += step) {
                int64_t rows = mcp26_min(step, stop - m), corner[TILE_ROWS];
                float sums[TILE_SUMS] __attribute__((aligned(64)));
                const float *a[TILE_ROWS];
                for (int64_t i = 0; i < rows; i++) {
                    int64_t at[3], rest = m + i;
                    for (int64_t d = 2; d >= 0; d--) at[d] = rest % s.in[d] * s.stride[d], rest /= s.in[d];
                    corner[i] = ((rest * s.out[0] + at[0]) * s.out[1] + at[1]) * s.out[2] + at[2];
                    a[i] = x + (m + i) * s.in_c;
                }
                tile_core(rows, vectors, columns, sums, a, 1, s.in_c, w + n * s.in_c, MCP26_NR, s.in_c * MCP26_NR, 0);
                for (int64_t j = 0, lanes; j < columns; j += lanes) {
                    int64_t tap = (n + j) / s.out_c, c = (n + j) % s.out_c;
                    int64_t k[3] = {tap / s.kernel[2] / s.kernel[1], tap / s.kernel[2] % s.kernel[1], tap % s.kernel[2]};
                    int64_t moved = (k[0] * s.out[1] + k[1]) * s.out[2] + k[2];
                    lanes = mcp26_min(8, mcp26_min(columns - j, s.out_c - c));
                    for (int64_t i = 0; i < rows; i++) {
                        int64_t pixel = corner[i] + moved;
                        v8f v = epilogue(v8f_load(sums + i * vectors * TILE_LANES + j, lanes), args, pixel, c, lanes);
                        v8f_store(y + pixel * s.out_c + c, v, lanes);
                    }
                }
            }
        }
    }
}

/* Units of window_plain_f32 and window_channels_f32: output pixels, in steps of PLAIN_PIXELS. */
MCP26_INLINE int64_t window_plain_units(window_shape s) { return mcp26_ceil_div(window_pixels(s), PLAIN_PIXELS); }

/* Where output pixel m lies: its place along the axes, and its item. */
MCP26_INLINE int64_t window_place(window_shape s, int64_t m, int64_t at[3]) {
    for (int64_t d = 2; d >= 0; d--) {
        at[d] = m % s.out[d];
        m /= s.out[d];
    }
    return m;
}

/* The input pixel that output pixel (item, at) takes tap `tap` from, -1 for none. */
MCP26_INLINE int64_t window_pixel(window_shape s, int64_t item, const int64_t at[3], int64_t tap) {
    int64_t k[3] = {tap / s.kernel[2] / s.kernel[1], tap / s.kernel[2] % s.kernel[1], tap % s.kernel[2]};
    for (int64_t d = 0; d < 3; d++) {
        int64_t from = window_source(s, d, at[d], k[d]);
        if ((uint64_t)from >= (uint64_t)s.in[d]) return -1;
        item = item * s.in[d] + from;
    }
    return item;
}

/* Loose weights. */
#define WINDOW_PLAIN_DEFINE(NAME, V, T)                                                                                \
    MCP26_INLINE void window_plain_##NAME(window_shape s, const T *x, const T *w, int64_t w_tap, int64_t w_group,      \
                                          int64_t w_row, T *y,                                                         \
                                          V (*epilogue)(V, const void *const *, int64_t, int64_t, int64_t),            \
                                          const void *const *args, int64_t begin, int64_t end) {                       \
        int64_t depth = s.in_c / s.groups, channels = s.out_c / s.groups, taps = window_taps(s);                       \
        for (int64_t u = begin; u < end; u++) {                                                                        \
            int64_t m = u * PLAIN_PIXELS, count = mcp26_min(PLAIN_PIXELS, window_pixels(s) - m);                       \
            int64_t at[PLAIN_PIXELS][3], item[PLAIN_PIXELS];                                                           \
            for (int64_t i = 0; i < PLAIN_PIXELS; i++) item[i] = window_place(s, m + mcp26_min(i, count - 1), at[i]);  \
            for (int64_t g = 0; g < s.groups; g++) {                                                                   \
                for (int64_t n = 0; n < channels; n += 8) {                                                            \
                    int64_t lanes = mcp26_min(8, channels - n);                                                        \
                    V sum[PLAIN_PIXELS];                                                                               \
                    MCP26_UNROLL for (int64_t i = 0; i < PLAIN_PIXELS; i++) sum[i] = (T)0;                             \
                    for (int64_t tap = 0; tap < taps; tap++) {                                                         \
                        int64_t from[PLAIN_PIXELS];                                                                    \
                        for (int64_t i = 0; i < PLAIN_PIXELS; i++) from[i] = window_pixel(s, item[i], at[i], tap);     \
                        for (int64_t c = 0; c < depth; c++) {                                                          \
                            V row = V##_load(w + tap * w_tap + g * w_group + c * w_row + n, lanes);                    \
                            MCP26_UNROLL for (int64_t i = 0; i < PLAIN_PIXELS; i++) {                                  \
                                T a = from[i] < 0 ? (T)0 : x[from[i] * s.in_c + g * depth + c];                        \
                                sum[i] = V##_fma(V##_splat(a), row, sum[i]);                                           \
                            }                                                                                          \
                        }                                                                                              \
                    }                                                                                                  \
                    MCP26_UNROLL for (int64_t i = 0; i < PLAIN_PIXELS; i++) {                                          \
                        int64_t to = g * channels + n;                                                                 \
                        if (i >= count) continue;                                                                      \
                        V##_store(y + (m + i) * s.out_c + to, epilogue(sum[i], args, m + i, to, lanes), lanes);        \
                    }                                                                                                  \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }
WINDOW_PLAIN_DEFINE(f32, v8f, float)
WINDOW_PLAIN_DEFINE(f64, v8d, double)

MCP26_INLINE v8d epilogue_none_f64(v8d acc, const void *const *args, int64_t m, int64_t n, int64_t lanes) {
    (void)args, (void)m, (void)n, (void)lanes;
    return acc;
}

/* One filter a channel. */
MCP26_INLINE void window_channels_f32(window_shape s, const float *x, const float *w, float *y,
                                      mcp26_epilogue epilogue, const void *const *args, int64_t begin, int64_t end) {
    int64_t padded = mcp26_ceil_div(s.out_c, 8) * 8, taps = window_taps(s);
    for (int64_t m = begin * PLAIN_PIXELS; m < mcp26_min(end * PLAIN_PIXELS, window_pixels(s)); m++) {
        int64_t at[3], item = window_place(s, m, at);
        for (int64_t n = 0; n < s.out_c; n += 8 * PLAIN_VECTORS) {
            int64_t some = mcp26_min(8 * PLAIN_VECTORS, s.out_c - n);
            v8f sum[PLAIN_VECTORS];
            MCP26_UNROLL for (int64_t j = 0; j < PLAIN_VECTORS; j++) sum[j] = 0.0f;
            for (int64_t tap = 0; tap < taps; tap++) {
                int64_t from = window_pixel(s, item, at, tap);
                if (from < 0) continue;
                MCP26_UNROLL for (int64_t j = 0; j < PLAIN_VECTORS; j++) {
                    if (8 * j >= some) continue;
                    v8f v = v8f_load(x + from * s.in_c + n + 8 * j, mcp26_min(8, some - 8 * j));
                    sum[j] = v8f_fma(v, v8f_load_all(w + tap * padded + n + 8 * j), sum[j]);
                }
            }
            MCP26_UNROLL for (int64_t j = 0; j < PLAIN_VECTORS; j++) {
                int64_t c = n + 8 * j, lanes = mcp26_min(8, some - 8 * j);
                if (lanes <= 0) continue;
                v8f_store(y + m * s.out_c + c, epilogue(sum[j], args, m, c, lanes), lanes);
            }
        }
    }
}

#endif
