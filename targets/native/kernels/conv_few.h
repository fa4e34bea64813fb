/* conv_few.h: a convolution whose input has few channels (an image), in any layout, to an NHWC output: the first layer
 * of a network reads the NCHW graph input as it is.
 *
 * Weights, from ONNX's W[out_c][in_c][kernel_h][kernel_w]: packed as tile.h says, N = out_c, K = in_c * kernel_h *
 * kernel_w in the order (i, kh, kw). Epilogue as in conv.h. Units: output rows.
 */
#ifndef MCP26_CONV_FEW_H
#define MCP26_CONV_FEW_H

#include "conv.h"

enum { CONV_FEW_PATCH = 2048 }; /* floats on the stack */

/* Elements from one item, channel, row, column to the next. */
typedef struct {
    int64_t item, channel, row, column;
} conv_strides;

/* Columns of input that a tile of `count` output pixels needs. */
MCP26_INLINE int64_t conv_few_span(conv_shape s, int64_t count) {
    return (count - 1) * s.stride_w + (s.kernel_w - 1) * s.dilation_w + 1;
}

/* Whether conv_few_f32 can do this shape: one group, and an edge tile's input that fits on the stack. */
MCP26_INLINE int conv_few_fits(conv_shape s) {
    return s.groups == 1 && s.in_c * s.kernel_h * conv_few_span(s, MCP26_MR) <= CONV_FEW_PATCH;
}

/* `count` output pixels from `column`; x points at the first one's tap (0, 0), which lies `st` away from the others. */
MCP26_INLINE void conv_few_tile(conv_shape s, const float *x, conv_strides st, const float *w, float *y,
                                mcp26_epilogue epilogue, const void *const *args, int64_t count, int64_t vectors,
                                int64_t columns, int64_t m, int64_t n) {
    v8f acc[TILE_MAX];
    int64_t depth = s.in_c * s.kernel_h * s.kernel_w;
    const float *b = w + n * depth;
    MCP26_UNROLL for (int64_t i = 0; i < count * vectors; i++) acc[i] = 0.0f;
    for (int64_t c = 0; c < s.in_c; c++) {
        for (int64_t kh = 0; kh < s.kernel_h; kh++) {
            const float *line = x + c * st.channel + kh * s.dilation_h * st.row;
            /* Unrolled, neighbouring taps would share inputs, at the price of registers. */
            MCP26_ROLL for (int64_t kw = 0; kw < s.kernel_w; kw++, b += MCP26_NR) {
                v8f bv[TILE_VECTORS];
                MCP26_UNROLL for (int64_t j = 0; j < vectors; j++) bv[j] = v8f_load_all(b + 8 * j);
                MCP26_UNROLL for (int64_t i = 0; i < count; i++) {
                    v8f av = line[(i * s.stride_w + kw * s.dilation_w) * st.column];
                    MCP26_UNROLL for (int64_t j = 0; j < vectors; j++) {
                        acc[i * vectors + j] = v8f_fma(av, bv[j], acc[i * vectors + j]);
                    }
                }
            }
        }
    }
    MCP26_UNROLL for (int64_t i = 0; i < count; i++) {
        MCP26_UNROLL for (int64_t j = 0; j < vectors; j++) {
            int64_t lanes = mcp26_min(8, columns - 8 * j);
            v8f v = epilogue(acc[i * vectors + j], args, m + i, n + 8 * j, lanes);
            v8f_store(y + (m + i) * s.y_pixel + n + 8 * j, v, lanes);
        }
    }
}

/* All channels of `count` pixels. Where taps leave the image, the tile's input is first copied between zeros. */
MCP26_INLINE void conv_few_pixels(conv_shape s, const float *x, conv_strides st, const float *w, float *y,
                                  mcp26_epilogue epilogue, const void *const *args, int64_t row, int64_t column,
                                  int64_t count, int64_t m) {
    float patch[CONV_FEW_PATCH];
    int64_t top = row * s.stride_h - s.pad_top, side = column * s.stride_w - s.pad_left, span = conv_few_span(s, count);
    int64_t reach = (s.kernel_h - 1) * s.dilation_h;
    if (top >= 0 && top + reach < s.in_h && side >= 0 && side + span <= s.in_w) {
        x += top * st.row + side * st.column;
    } else {
        float *to = patch;
        for (int64_t c = 0; c < s.in_c; c++) {
            for (int64_t kh = 0; kh < s.kernel_h; kh++) {
                int64_t line = top + kh * s.dilation_h;
                for (int64_t j = 0; j < span; j++) {
                    int64_t at = side + j;
                    int is_inside = line >= 0 && line < s.in_h && at >= 0 && at < s.in_w;
                    *to++ = is_inside ? x[c * st.channel + line * st.row + at * st.column] : 0.0f;
                }
            }
        }
        x = patch;
        st = (conv_strides){0, s.kernel_h * span, span, 1};
        s.dilation_h = 1;
    }
    int64_t n = 0, tail = s.out_c % MCP26_NR;
    for (; n + MCP26_NR <= s.out_c; n += MCP26_NR) {
        conv_few_tile(s, x, st, w, y, epilogue, args, count, TILE_VECTORS, MCP26_NR, m, n);
    }
    if (tail) conv_few_tile(s, x, st, w, y, epilogue, args, count, mcp26_ceil_div(tail, 8), tail, m, n);
}

MCP26_INLINE int64_t conv_few_f32_units(conv_shape s) { return s.batch * s.out_h; }

/* s.x_pixel is not used: `st` says where the input's elements are. conv_few_fits(s) must hold. */
MCP26_INLINE void conv_few_f32(conv_shape s, const float *x, conv_strides st, const float *w, float *y,
                               mcp26_epilogue epilogue, const void *const *args, int64_t begin, int64_t end) {
    tile_rows cut = tile_cut(s.out_w);
    for (int64_t u = begin; u < end; u++) {
        const float *item = x + u / s.out_h * st.item;
        for (int64_t t = 0; t < cut.tiles && s.out_w > 0; t++) {
            int64_t count = t < cut.taller ? cut.low + 1 : cut.low, column = tile_top(cut, t), m = u * s.out_w + column;
#define CONV_FEW_CASE(C) \
    if (count == C && C <= MCP26_MR) conv_few_pixels(s, item, st, w, y, epilogue, args, u % s.out_h, column, C, m);
            CONV_FEW_CASE(1) CONV_FEW_CASE(2) CONV_FEW_CASE(3) CONV_FEW_CASE(4)
            CONV_FEW_CASE(5) CONV_FEW_CASE(6) CONV_FEW_CASE(7) CONV_FEW_CASE(8)
#undef CONV_FEW_CASE
        }
    }
}

/* The NCHW graph input, read as it is. */
MCP26_INLINE void conv_nchw_in_f32(conv_shape s, const float *x, const float *w, float *y, mcp26_epilogue epilogue,
                                   const void *const *args, int64_t begin, int64_t end) {
    conv_strides st = {s.in_c * s.in_h * s.in_w, s.in_h * s.in_w, s.in_w, 1};
    conv_few_f32(s, x, st, w, y, epilogue, args, begin, end);
}

#endif
