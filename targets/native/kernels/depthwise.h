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

/* Output pixels column ... column+count-1 of one row, channels n ... n+lanes-1. */
MCP26_INLINE void depthwise_tile(conv_shape s, const float *x, const float *w, float *y, mcp26_epilogue epilogue,
                                 const void *const *args, int64_t item, int64_t row, int64_t column, int64_t count,
                                 int64_t is_edge, int64_t n, int64_t lanes) {
    v8f acc[DEPTHWISE_TILE];
    MCP26_UNROLL for (int64_t i = 0; i < count; i++) acc[i] = 0.0f;
    int64_t padded = mcp26_ceil_div(s.out_c, 8) * 8, top = row * s.stride_h - s.pad_top;
    int64_t side = column * s.stride_w - s.pad_left;
    for (int64_t kh = 0; kh < s.kernel_h; kh++) {
        int64_t line = top + kh * s.dilation_h;
        if ((uint64_t)line >= (uint64_t)s.in_h) continue;
        const float *from = x + (item * s.in_h + line) * s.in_w * s.x_pixel + n;
        const float *taps = w + kh * s.kernel_w * padded + n;
        MCP26_UNROLL for (int64_t kw = 0; kw < s.kernel_w; kw++) {
            v8f tap = v8f_load_all(taps + kw * padded);
            MCP26_UNROLL for (int64_t i = 0; i < count; i++) {
                int64_t at = side + i * s.stride_w + kw * s.dilation_w;
                if (is_edge && (uint64_t)at >= (uint64_t)s.in_w) continue;
                acc[i] = v8f_fma(v8f_load(from + at * s.x_pixel, lanes), tap, acc[i]);
            }
        }
    }
    int64_t m = (item * s.out_h + row) * s.out_w + column;
    MCP26_UNROLL for (int64_t i = 0; i < count; i++) {
        v8f_store(y + (m + i) * s.y_pixel + n, epilogue(acc[i], args, m + i, n, lanes), lanes);
    }
}

/* A tile of 1 ... 8 pixels, all whole vectors of channels: the run along channels is what memory likes. */
MCP26_INLINE void depthwise_pixels(conv_shape s, const float *x, const float *w, float *y, mcp26_epilogue epilogue,
                                   const void *const *args, int64_t item, int64_t row, int64_t column, int64_t count,
                                   int64_t is_edge) {
#define DEPTHWISE_CASE(C)                                                                            \
    if (count == C) {                                                                                \
        for (int64_t n = 0; n + 8 <= s.out_c; n += 8) {                                              \
            depthwise_tile(s, x, w, y, epilogue, args, item, row, column, C, is_edge, n, 8);         \
        }                                                                                            \
    }
    DEPTHWISE_CASE(1) DEPTHWISE_CASE(2) DEPTHWISE_CASE(3) DEPTHWISE_CASE(4)
    DEPTHWISE_CASE(5) DEPTHWISE_CASE(6) DEPTHWISE_CASE(7) DEPTHWISE_CASE(8)
#undef DEPTHWISE_CASE
}

/* A row in tiles of nearly equal width: the first and the last look at the edges, so do those between where the kernel
 * reaches beyond the outer tiles. */
MCP26_INLINE void depthwise_row(conv_shape s, const float *x, const float *w, float *y, mcp26_epilogue epilogue,
                                const void *const *args, int64_t item, int64_t row) {
    int64_t tiles = mcp26_ceil_div(s.out_w, DEPTHWISE_TILE), low = s.out_w / tiles, wider = s.out_w % tiles;
    int64_t head = low + (wider > 0), tail = s.out_w - low, reach = (s.kernel_w - 1) * s.dilation_w;
    int64_t is_edge = head * s.stride_w < s.pad_left || (tail - 1) * s.stride_w - s.pad_left + reach >= s.in_w;
    depthwise_pixels(s, x, w, y, epilogue, args, item, row, 0, head, 1);
    for (int64_t t = 1, column = head; t < tiles - 1; t++) {
        int64_t count = t < wider ? low + 1 : low;
        if (is_edge) {
            for (int64_t i = 0; i < count; i++) {
                depthwise_pixels(s, x, w, y, epilogue, args, item, row, column + i, 1, 1);
            }
        } else {
            depthwise_pixels(s, x, w, y, epilogue, args, item, row, column, count, 0);
        }
        column += count;
    }
    if (tiles > 1) depthwise_pixels(s, x, w, y, epilogue, args, item, row, tail, low, 1);
}

/* Units of depthwise_f32: output rows. */
MCP26_INLINE int64_t depthwise_f32_units(conv_shape s) { return s.batch * s.out_h; }

MCP26_INLINE void depthwise_f32(conv_shape s, const float *x, const float *w, float *y, mcp26_epilogue epilogue,
                                const void *const *args, int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end; u++) {
        int64_t item = u / s.out_h, row = u % s.out_h, n = s.out_c / 8 * 8;
        depthwise_row(s, x, w, y, epilogue, args, item, row);
        for (int64_t i = 0; i < s.out_w && n < s.out_c; i++) {
            depthwise_tile(s, x, w, y, epilogue, args, item, row, i, 1, 1, n, s.out_c - n);
        }
    }
}

#endif
