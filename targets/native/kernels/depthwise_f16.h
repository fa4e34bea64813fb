/* depthwise_f16.h: convolutions with one filter a channel over NHWC activations of float16.
 *
 * As depthwise.h, but for float16 sums over the taps where the processor has such arithmetic (FEAT_FP16), float32
 * elsewhere; they are rounded to float16 before the epilogue. Sums start from the bias.
 */
#ifndef MCP26_DEPTHWISE_F16_H
#define MCP26_DEPTHWISE_F16_H

#include "conv_f16.h"

enum { DEPTHWISE_HALF_TILE = 8 };

/* Output pixels column ... column+count-1 of one row, channels n ... n+lanes-1. */
MCP26_INLINE void depthwise_half_tile(conv_shape s, half_product t, const uint16_t *x, const uint16_t *w,
                                      mcp26_epilogue epilogue, int64_t item, int64_t row, int64_t column,
                                      int64_t count, int64_t is_edge, int64_t n, int64_t lanes) {
    half_vector acc[DEPTHWISE_HALF_TILE];
    int64_t padded = mcp26_ceil_div(s.out_c, 8) * 8, top = row * s.stride_h - s.pad_top;
    int64_t side = column * s.stride_w - s.pad_left;
    MCP26_UNROLL for (int64_t i = 0; i < count; i++) acc[i] = half_load(w + n, 8);
    w += padded;
    for (int64_t kh = 0; kh < s.kernel_h; kh++) {
        int64_t line = top + kh * s.dilation_h;
        if ((uint64_t)line >= (uint64_t)s.in_h) continue;
        const uint16_t *from = x + (item * s.in_h + line) * s.in_w * s.x_pixel + n;
        const uint16_t *taps = w + kh * s.kernel_w * padded + n;
#define DEPTHWISE_HALF_TAP                                                                                           \
    {                                                                                                                \
        half_vector tap = half_load(taps + kw * padded, 8);                                             \
        MCP26_UNROLL for (int64_t i = 0; i < count; i++) {                                                           \
            int64_t at = side + i * s.stride_w + kw * s.dilation_w;                                                  \
            if (is_edge && (uint64_t)at >= (uint64_t)s.in_w) continue;                                               \
            acc[i] = __builtin_elementwise_fma(half_load(from + at * s.x_pixel, lanes), tap, acc[i]);      \
        }                                                                                                            \
    }
        if (s.kernel_w <= 7) { /* neighbouring pixels share their inputs */
            MCP26_UNROLL for (int64_t kw = 0; kw < s.kernel_w; kw++) DEPTHWISE_HALF_TAP
        } else {
            MCP26_ROLL for (int64_t kw = 0; kw < s.kernel_w; kw++) DEPTHWISE_HALF_TAP
        }
#undef DEPTHWISE_HALF_TAP
    }
    int64_t m = (item * s.out_h + row) * s.out_w + column;
    MCP26_UNROLL for (int64_t i = 0; i < count; i++) {
        half_store(t, epilogue, half_narrowed(acc[i]), m + i, n, lanes);
    }
}

/* A tile of 1 ... 8 pixels, all channels. */
MCP26_INLINE void depthwise_half_pixels(conv_shape s, half_product t, const uint16_t *x, const uint16_t *w,
                                        mcp26_epilogue epilogue, int64_t item, int64_t row, int64_t column,
                                        int64_t count, int64_t is_edge) {
    int64_t n = 0;
#define DEPTHWISE_HALF_CASE(C)                                                                             \
    if (count == C) {                                                                                      \
        for (; n + 8 <= s.out_c; n += 8) {                                                                 \
            depthwise_half_tile(s, t, x, w, epilogue, item, row, column, C, is_edge, n, 8);                \
        }                                                                                                  \
    }
    DEPTHWISE_HALF_CASE(1) DEPTHWISE_HALF_CASE(2) DEPTHWISE_HALF_CASE(3) DEPTHWISE_HALF_CASE(4)
    DEPTHWISE_HALF_CASE(5) DEPTHWISE_HALF_CASE(6) DEPTHWISE_HALF_CASE(7) DEPTHWISE_HALF_CASE(8)
#undef DEPTHWISE_HALF_CASE
}

/* A row in tiles of nearly equal width: the first and the last look at the edges, so do those between where the kernel
 * reaches beyond the outer tiles. */
MCP26_INLINE void depthwise_half_row(conv_shape s, half_product t, const uint16_t *x, const uint16_t *w,
                                     mcp26_epilogue epilogue, int64_t item, int64_t row) {
    int64_t tiles = mcp26_ceil_div(s.out_w, DEPTHWISE_HALF_TILE), low = s.out_w / tiles, wider = s.out_w % tiles;
    int64_t head = low + (wider > 0), tail = s.out_w - low, reach = (s.kernel_w - 1) * s.dilation_w;
    int64_t is_edge = head * s.stride_w < s.pad_left || (tail - 1) * s.stride_w - s.pad_left + reach >= s.in_w;
    depthwise_half_pixels(s, t, x, w, epilogue, item, row, 0, head, 1);
    for (int64_t tile = 1, column = head; tile < tiles - 1; tile++) {
        int64_t count = tile < wider ? low + 1 : low;
        if (is_edge) {
            for (int64_t i = 0; i < count; i++) depthwise_half_pixels(s, t, x, w, epilogue, item, row, column + i, 1, 1);
        } else {
            depthwise_half_pixels(s, t, x, w, epilogue, item, row, column, count, 0);
        }
        column += count;
    }
    if (tiles > 1) depthwise_half_pixels(s, t, x, w, epilogue, item, row, tail, low, 1);
}

/* A row of run-time width: three bodies, since each is unrolled over the taps. */
MCP26_INLINE void depthwise_half_any_row(conv_shape s, half_product t, const uint16_t *x, const uint16_t *w,
                                         mcp26_epilogue epilogue, int64_t item, int64_t row) {
    int64_t inside = s.in_w - 1 - (s.kernel_w - 1) * s.dilation_w + s.pad_left;
    int64_t left = mcp26_min(s.out_w, mcp26_ceil_div(mcp26_max(0, s.pad_left), s.stride_w));
    int64_t right = inside < 0 ? 0 : mcp26_min(s.out_w, inside / s.stride_w + 1);
    for (int64_t column = 0; column < s.out_w;) {
        int64_t room = column < left ? 0 : right - column, count = room >= 8 ? 8 : room >= 4 ? 4 : 1;
        if (count == 8) depthwise_half_pixels(s, t, x, w, epilogue, item, row, column, 8, 0);
        if (count == 4) depthwise_half_pixels(s, t, x, w, epilogue, item, row, column, 4, 0);
        if (count == 1) depthwise_half_pixels(s, t, x, w, epilogue, item, row, column, 1, 1);
        column += count;
    }
}

/* Units of depthwise_f16: output rows. */
MCP26_INLINE int64_t depthwise_f16_units(conv_shape s) { return s.batch * s.out_h; }

/* w: packed[1 + kernel_h * kernel_w][ceil8(C)], zero beyond C: a bias, then the taps. */
MCP26_INLINE void depthwise_f16(conv_shape s, const uint16_t *x, const uint16_t *w, half_result y,
                                mcp26_epilogue epilogue, const void *const *args, int64_t begin, int64_t end) {
    half_product t = {.y = y, .ldc = s.y_pixel, .args = args};
    for (int64_t u = begin; u < end; u++) {
        int64_t item = u / s.out_h, row = u % s.out_h, n = s.out_c / 8 * 8;
        if (__builtin_constant_p(s.out_w))
            depthwise_half_row(s, t, x, w, epilogue, item, row);
        else
            depthwise_half_any_row(s, t, x, w, epilogue, item, row);
        for (int64_t i = 0; i < s.out_w && n < s.out_c; i++) {
            depthwise_half_tile(s, t, x, w, epilogue, item, row, i, 1, 1, n, s.out_c - n);
        }
    }
}

#endif
