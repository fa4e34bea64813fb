/* depthwise.h: convolutions with one filter a channel (groups = in_c = out_c) over NHWC activations.
 *
 * Weights, from ONNX's W[C][1][kernel_h][kernel_w]: packed[kernel_h][kernel_w][ceil8(C)], zero beyond C. Vectors run
 * over channels, tiles of up to 8 output pixels along a row keep their sums in registers. Each result is one chain of
 * fused multiply-adds over the taps inside the image, in the order (kh, kw), from +0.
 */
#ifndef MCP26_DEPTHWISE_H
#define MCP26_DEPTHWISE_H

#include "conv.h"

enum { DEPTHWISE_TILE = 8 };

/* What is the same for all rows of an item's output. Row r of its input starts at x + (r & mask) * pitch, so that a
 * buffer of a power of two of rows may go round. */
typedef struct {
    conv_shape s;
    const float *x;
    int64_t pitch, mask;
    const float *w;
    const void *const *args;
} depthwise_item;

/* `lanes` floats, 1 ... 8 or TILE_LANES, in a vector as wide as a product's. */
MCP26_INLINE tile_vector depthwise_load(const float *p, int64_t lanes) {
#if defined(__AVX512F__)
    if (lanes == TILE_LANES) return tile_load(p);
    v8f low = v8f_load(p, lanes), none = 0.0f;
    return __builtin_shufflevector(low, none, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#else
    return v8f_load(p, lanes);
#endif
}

/* Output pixels column ... column+count-1 of a row that starts at `y` with pixel `m`, channels n ... n+lanes-1. */
MCP26_INLINE void depthwise_tile(depthwise_item d, mcp26_epilogue epilogue, float *y, int64_t m, int64_t row,
                                 int64_t column, int64_t count, int64_t is_edge, int64_t n, int64_t lanes) {
    const conv_shape s = d.s;
    tile_vector acc[DEPTHWISE_TILE];
    MCP26_UNROLL for (int64_t i = 0; i < count; i++) acc[i] = 0.0f;
    int64_t padded = mcp26_ceil_div(s.out_c, 8) * 8, top = row * s.stride_h - s.pad_top;
    int64_t side = column * s.stride_w - s.pad_left;
    for (int64_t kh = 0; kh < s.kernel_h; kh++) {
        int64_t line = top + kh * s.dilation_h;
        if ((uint64_t)line >= (uint64_t)s.in_h) continue;
        const float *from = d.x + (line & d.mask) * d.pitch + n;
        const float *taps = d.w + kh * s.kernel_w * padded + n;
#define DEPTHWISE_TAP                                                                                       \
    {                                                                                                       \
        tile_vector tap = depthwise_load(taps + kw * padded, lanes);                                        \
        MCP26_UNROLL for (int64_t i = 0; i < count; i++) {                                                  \
            int64_t at = side + i * s.stride_w + kw * s.dilation_w;                                         \
            if (is_edge && (uint64_t)at >= (uint64_t)s.in_w) continue;                                      \
            acc[i] = __builtin_elementwise_fma(depthwise_load(from + at * s.x_pixel, lanes), tap, acc[i]);  \
        }                                                                                                   \
    }
        if (s.kernel_w <= 7) { /* neighbouring pixels share their inputs */
            MCP26_UNROLL for (int64_t kw = 0; kw < s.kernel_w; kw++) DEPTHWISE_TAP
        } else {
            MCP26_ROLL for (int64_t kw = 0; kw < s.kernel_w; kw++) DEPTHWISE_TAP
        }
#undef DEPTHWISE_TAP
    }
    float sums[DEPTHWISE_TILE * TILE_LANES] __attribute__((aligned(64)));
    MCP26_UNROLL for (int64_t i = 0; i < count; i++) tile_store(sums + i * TILE_LANES, acc[i]);
    for (int64_t i = 0; i < count; i++) { /* short epilogues are unrolled, and then work on registers */
        for (int64_t j = 0; j < TILE_LANES && j < lanes; j += 8) {
            int64_t some = mcp26_min(8, lanes - j);
            v8f v = epilogue(v8f_load_all(sums + i * TILE_LANES + j), d.args, m + column + i, n + j, some);
            v8f_store(y + (column + i) * s.y_pixel + n + j, v, some);
        }
    }
}

/* A tile of 1 ... 8 pixels, all whole eights of channels: the run along them is what memory likes. */
MCP26_INLINE void depthwise_pixels(depthwise_item d, mcp26_epilogue epilogue, float *y, int64_t m, int64_t row,
                                   int64_t column, int64_t count, int64_t is_edge) {
    int64_t whole = d.s.out_c / TILE_LANES * TILE_LANES;
#define DEPTHWISE_CASE(C)                                                                                          \
    if (count == C) {                                                                                              \
        for (int64_t n = 0; n < whole; n += TILE_LANES) {                                                          \
            depthwise_tile(d, epilogue, y, m, row, column, C, is_edge, n, TILE_LANES);                             \
        }                                                                                                          \
        if (whole + 8 <= d.s.out_c) depthwise_tile(d, epilogue, y, m, row, column, C, is_edge, whole, 8);          \
    }
    DEPTHWISE_CASE(1) DEPTHWISE_CASE(2) DEPTHWISE_CASE(3) DEPTHWISE_CASE(4)
    DEPTHWISE_CASE(5) DEPTHWISE_CASE(6) DEPTHWISE_CASE(7) DEPTHWISE_CASE(8)
#undef DEPTHWISE_CASE
}

/* A row in tiles of nearly equal width: the first and the last look at the edges, so do those between where the kernel
 * reaches beyond the outer tiles. */
MCP26_INLINE void depthwise_fixed_row(depthwise_item d, mcp26_epilogue epilogue, float *y, int64_t m, int64_t row) {
    const conv_shape s = d.s;
    int64_t tiles = mcp26_ceil_div(s.out_w, DEPTHWISE_TILE), low = s.out_w / tiles, wider = s.out_w % tiles;
    int64_t head = low + (wider > 0), tail = s.out_w - low, reach = (s.kernel_w - 1) * s.dilation_w;
    int64_t is_edge = head * s.stride_w < s.pad_left || (tail - 1) * s.stride_w - s.pad_left + reach >= s.in_w;
    depthwise_pixels(d, epilogue, y, m, row, 0, head, 1);
    for (int64_t t = 1, column = head; t < tiles - 1; t++) {
        int64_t count = t < wider ? low + 1 : low;
        if (is_edge) {
            for (int64_t i = 0; i < count; i++) {
                depthwise_pixels(d, epilogue, y, m, row, column + i, 1, 1);
            }
        } else {
            depthwise_pixels(d, epilogue, y, m, row, column, count, 0);
        }
        column += count;
    }
    if (tiles > 1) depthwise_pixels(d, epilogue, y, m, row, tail, low, 1);
}

/* A row of run-time width: three bodies, since each is unrolled over the taps. */
MCP26_INLINE void depthwise_any_row(depthwise_item d, mcp26_epilogue epilogue, float *y, int64_t m, int64_t row) {
    const conv_shape s = d.s;
    int64_t inside = s.in_w - 1 - (s.kernel_w - 1) * s.dilation_w + s.pad_left, column = 0;
    int64_t left = mcp26_min(s.out_w, mcp26_ceil_div(mcp26_max(0, s.pad_left), s.stride_w));
    int64_t right = inside < 0 ? 0 : mcp26_min(s.out_w, inside / s.stride_w + 1);
    while (column < s.out_w) {
        int64_t count = column < left ? 1 : column + 8 <= right ? 8 : column + 4 <= right ? 4 : 1;
        if (count == 8)
            depthwise_pixels(d, epilogue, y, m, row, column, 8, 0);
        else if (count == 4)
            depthwise_pixels(d, epilogue, y, m, row, column, 4, 0);
        else
            depthwise_pixels(d, epilogue, y, m, row, column, 1, 1);
        column += count;
    }
}

/* Output row `row`, which starts at `y` with pixel `m`. */
MCP26_INLINE void depthwise_row(depthwise_item d, mcp26_epilogue epilogue, float *y, int64_t m, int64_t row) {
    if (__builtin_constant_p(d.s.out_w))
        depthwise_fixed_row(d, epilogue, y, m, row);
    else
        depthwise_any_row(d, epilogue, y, m, row);
    int64_t n = d.s.out_c / 8 * 8;
    for (int64_t i = 0; i < d.s.out_w && n < d.s.out_c; i++) {
        depthwise_tile(d, epilogue, y, m, row, i, 1, 1, n, d.s.out_c - n);
    }
}

/* Units of depthwise_f32: output rows. */
MCP26_INLINE int64_t depthwise_f32_units(conv_shape s) { return s.batch * s.out_h; }

MCP26_INLINE void depthwise_f32(conv_shape s, const float *x, const float *w, float *y, mcp26_epilogue epilogue,
                                const void *const *args, int64_t begin, int64_t end) {
    int64_t pitch = s.in_w * s.x_pixel;
    for (int64_t u = begin; u < end; u++) {
        depthwise_item d = {s, x + u / s.out_h * s.in_h * pitch, pitch, -1, w, args};
        depthwise_row(d, epilogue, y + u * s.out_w * s.y_pixel, u * s.out_w, u % s.out_h);
    }
}

#endif
