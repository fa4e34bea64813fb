/* conv_few.h: a convolution whose input has few channels (an image), in any layout, to an NHWC output: the first layer
 * of a network reads the NCHW graph input as it is.
 *
 * Weights, from ONNX's W[out_c][in_c][kernel_h][kernel_w]: packed as tile.h says, N = out_c, K = in_c * kernel_h *
 * kernel_w in the order (i, kh, kw). Epilogue as in conv.h. Units: output rows.
 */
#ifndef MCP26_CONV_FEW_H
#define MCP26_CONV_FEW_H

#include "conv.h"

enum {
    CONV_FEW_PATCH = 2048, /* floats on the stack */
    CONV_FEW_TAPS = 160,   /* taps of one call of a core */
    CONV_FEW_WIDTH = 8     /* columns of a kernel that are unrolled */
};

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
    return s.groups == 1 && s.in_c * s.kernel_h * conv_few_span(s, TILE_FEW) <= CONV_FEW_PATCH;
}

/* Where taps from ... from+count-1 are, the first tap's place being 0, `down` rows from one to the next. */
MCP26_INLINE void conv_few_offsets(conv_shape s, conv_strides st, int64_t down, int64_t from, int64_t count,
                                   int64_t *offsets) {
    int64_t kw = from % s.kernel_w, kh = from / s.kernel_w % s.kernel_h, c = from / s.kernel_w / s.kernel_h;
    for (int64_t i = 0; i < count; i++) {
        offsets[i] = c * st.channel + kh * down * st.row + kw * s.dilation_w * st.column;
        if (++kw < s.kernel_w) continue;
        kw = 0;
        if (++kh < s.kernel_h) continue;
        kh = 0;
        c++;
    }
}

#if TILE_PACKS
typedef struct {
    conv_shape s;
    const float *x;
    conv_strides st;
    const int64_t *offsets; /* of the first CONV_FEW_TAPS taps */
} conv_few_left;

/* The same tap of four pixels; stride - 1 elements before it are read too. */
MCP26_INLINE v4f conv_few_four(const float *x, int64_t stride) {
    v4f v;
    __builtin_memcpy(&v, x, sizeof v);
    if (stride == 1) return v;
    v8f both = v8f_load_all(x - 1);
    return __builtin_shufflevector(both, both, 1, 3, 5, 7);
}

/* Taps at `offsets` of eight pixels that are `stride` 1 or 2 columns apart and lie in a row of x. */
MCP26_INLINE void conv_few_pack_row(const float *x, int64_t stride, const int64_t *offsets, int64_t depth,
                                    float *packed) {
    typedef __attribute__((neon_vector_type(16))) signed char bytes;
    MCP26_ROLL for (int64_t k = 0; k < depth; k += 4) {
        MCP26_UNROLL for (int64_t half = 0; half < 2; half++, packed += 16) {
            v4f v[4];
            MCP26_UNROLL for (int64_t i = 0; i < 4; i++) {
                v[i] = conv_few_four(x + offsets[mcp26_min(k + i, depth - 1)] + 4 * half * stride, stride);
            }
            __builtin_neon_vst4q_v(packed, (bytes)v[0], (bytes)v[1], (bytes)v[2], (bytes)v[3], 41 /* float32x4_t */);
        }
    }
}

/* Taps k ... k+depth-1 of rows whose first one is at `top` and `side` of x. */
MCP26_INLINE void conv_few_gather(conv_shape s, const float *x, conv_strides st, float *packed, int64_t rows,
                                  int64_t top, int64_t side, int64_t k, int64_t depth, int64_t is_edge) {
    int64_t kw = k % s.kernel_w, kh = k / s.kernel_w % s.kernel_h, c = k / s.kernel_w / s.kernel_h;
    for (int64_t t = 0; t < depth; kw = 0) {
        int64_t line = top + kh * s.dilation_h, at = side + kw * s.dilation_w;
        const float *from = x + c * st.channel + line * st.row + at * st.column;
        MCP26_ROLL for (int64_t end = mcp26_min(depth, t + s.kernel_w - kw); t < end; t++) {
            float *to = packed + (t & ~3) * rows + (t & 3);
            for (int64_t i = 0; i < rows; i++) {
                int is_here = !is_edge || ((uint64_t)line < (uint64_t)s.in_h &&
                                           (uint64_t)(at + i * s.stride_w) < (uint64_t)s.in_w);
                to[4 * i] = is_here ? from[i * s.stride_w * st.column] : 0.0f;
            }
            at += s.dilation_w, from += s.dilation_w * st.column;
        }
        if (++kh == s.kernel_h) kh = 0, c++;
    }
}

MCP26_INLINE void conv_few_pack(const void *left, float *packed, int64_t rows, int64_t m, int64_t k, int64_t depth) {
    const conv_few_left *l = left;
    const conv_shape s = l->s;
    const float *x = l->x + m / s.out_w / s.out_h * l->st.item;
    int64_t top = m / s.out_w % s.out_h * s.stride_h - s.pad_top, side = m % s.out_w * s.stride_w - s.pad_left;
    int64_t bottom = top + (s.kernel_h - 1) * s.dilation_h, end = side + conv_few_span(s, rows);
    int64_t is_edge = top < 0 || bottom >= s.in_h || side < 0 || end > s.in_w;
    if (s.stride_w <= 2 && l->st.column == 1 && rows == MCP26_MR && k + depth <= CONV_FEW_TAPS && !is_edge &&
        side >= s.stride_w - 1)
        conv_few_pack_row(x + top * l->st.row + side, s.stride_w, l->offsets + k, depth, packed);
    else if (is_edge)
        conv_few_gather(s, x, l->st, packed, rows, top, side, k, depth, 1);
    else if (rows == MCP26_MR)
        conv_few_gather(s, x, l->st, packed, MCP26_MR, top, side, k, depth, 0);
    else
        conv_few_gather(s, x, l->st, packed, rows, top, side, k, depth, 0);
}
#else
/* The input of a tile of output pixels whose first tap is at (top, side), between zeros where taps leave the image:
 * patch[in_c][kernel_h][span]. */
MCP26_INLINE void conv_few_patch(conv_shape s, const float *x, conv_strides st, float *patch, int64_t top, int64_t side,
                                 int64_t span) {
    for (int64_t c = 0; c < s.in_c; c++) {
        for (int64_t kh = 0; kh < s.kernel_h; kh++) {
            int64_t line = top + kh * s.dilation_h, is_inside = line >= 0 && line < s.in_h;
            for (int64_t j = 0; j < span; j++) {
                int64_t at = side + j;
                int is_here = is_inside && at >= 0 && at < s.in_w;
                *patch++ = is_here ? x[c * st.channel + line * st.row + at * st.column] : 0.0f;
            }
        }
    }
}

/* Where the first taps are in the image, and in a patch, whose elements are where `patch` says. */
typedef struct {
    conv_strides patch;
    int64_t span;
    int64_t in_image[CONV_FEW_TAPS], in_patch[CONV_FEW_TAPS];
} conv_few_places;

MCP26_INLINE void conv_few_place(conv_shape s, conv_strides st, conv_few_places *p) {
    int64_t some = mcp26_min(CONV_FEW_TAPS, s.in_c * s.kernel_h * s.kernel_w);
    p->span = conv_few_span(s, TILE_FEW);
    p->patch = (conv_strides){0, s.kernel_h * p->span, p->span, 1};
    conv_few_offsets(s, st, s.dilation_h, 0, some, p->in_image);
    conv_few_offsets(s, p->patch, 1, 0, some, p->in_patch);
}

/* TILE_FEW whole pixels inside the image, `vectors` registers of channels from n on: the first tap of the first one is
 * at x. The kernel sums them itself, so that places of taps are literals, and finishes them in registers. */
MCP26_INLINE void conv_few_inside(conv_shape s, tile_product t, const float *x, conv_strides st,
                                  mcp26_epilogue epilogue, int64_t vectors, int64_t m, int64_t n) {
    tile_vector acc[TILE_FEW * TILE_VECTORS];
    const float *b = t.b + n / MCP26_NR * t.panel_stride;
    MCP26_UNROLL for (int64_t i = 0; i < TILE_FEW * vectors; i++) acc[i] = 0.0f;
    for (int64_t c = 0; c < s.in_c; c++) {
        MCP26_ROLL for (int64_t kh = 0; kh < s.kernel_h; kh++) {
            const float *from = x + c * st.channel + kh * s.dilation_h * st.row;
            MCP26_UNROLL for (int64_t kw = 0; kw < s.kernel_w; kw++, b += MCP26_NR) {
                tile_vector row[TILE_VECTORS];
                MCP26_UNROLL for (int64_t j = 0; j < vectors; j++) {
                    row[j] = tile_load(b + j * TILE_LANES / MCP26_NR * t.panel_stride + j * TILE_LANES % MCP26_NR);
                }
                MCP26_UNROLL for (int64_t i = 0; i < TILE_FEW; i++) {
                    tile_vector pixel = from[(i * s.stride_w + kw * s.dilation_w) * st.column];
                    MCP26_UNROLL for (int64_t j = 0; j < vectors; j++) {
                        acc[i * vectors + j] = __builtin_elementwise_fma(pixel, row[j], acc[i * vectors + j]);
                    }
                }
                __asm__ volatile("" ::: "memory"); /* or clang keeps pixels that taps share, without registers for them */
            }
        }
    }
    tile_finish_sums(t, epilogue, acc, TILE_FEW, vectors, m, n);
}

/* All channels of `count` pixels. */
MCP26_INLINE void conv_few_pixels(conv_shape s, tile_product t, const float *x, conv_strides image,
                                  const conv_few_places *p, mcp26_epilogue epilogue, int64_t row, int64_t column,
                                  int64_t count, int64_t m) {
    float patch[CONV_FEW_PATCH], sums[TILE_SUMS] __attribute__((aligned(64)));
    int64_t taps = s.in_c * s.kernel_h * s.kernel_w, reach = (s.kernel_h - 1) * s.dilation_h;
    int64_t top = row * s.stride_h - s.pad_top, side = column * s.stride_w - s.pad_left, down = s.dilation_h;
    const int64_t *offsets = p->in_image;
    conv_strides st = image;
    int64_t is_literal = __builtin_constant_p(s.kernel_w) && s.kernel_w <= CONV_FEW_WIDTH;
    int64_t is_inside = top >= 0 && top + reach < s.in_h && side >= 0 && side + conv_few_span(s, count) <= s.in_w;
    if (is_inside) {
        x += top * st.row + side * st.column;
    } else {
        conv_few_patch(s, x, st, patch, top, side, p->span);
        x = patch, st = p->patch, down = 1, offsets = p->in_patch;
    }
    const float *a[TILE_ROWS]; /* some beyond the tile */
    MCP26_UNROLL for (int64_t i = 0; i < TILE_ROWS; i++) a[i] = x + i * s.stride_w * st.column;
    for (int64_t n = 0; n < t.columns; n += TILE_WIDTH) {
        int64_t columns = mcp26_min(TILE_WIDTH, t.columns - n), vectors = columns <= TILE_LANES ? 1 : TILE_VECTORS;
        const float *b = t.b + n / MCP26_NR * t.panel_stride;
        if (is_inside && is_literal && count == TILE_FEW && columns == TILE_WIDTH) {
            conv_few_inside(s, t, x, image, epilogue, TILE_VECTORS, m, n);
            continue;
        }
        if (is_inside && is_literal && count == TILE_FEW && columns == TILE_LANES) {
            conv_few_inside(s, t, x, image, epilogue, 1, m, n);
            continue;
        }
        for (int64_t tap = 0; tap < taps || tap == 0; tap += CONV_FEW_TAPS) {
            int64_t some = mcp26_min(CONV_FEW_TAPS, taps - tap), other[CONV_FEW_TAPS];
            const int64_t *places = offsets;
            if (tap > 0) {
                conv_few_offsets(s, st, down, tap, some, other);
                places = other;
            }
            tile_few(count, vectors, sums, a, places, some, b + tap * MCP26_NR, t.panel_stride, tap > 0);
        }
        if (columns == TILE_WIDTH)
            tile_finish(t, epilogue, sums, TILE_WIDTH, count, TILE_WIDTH, m, n);
        else
            tile_finish(t, epilogue, sums, vectors * TILE_LANES, count, columns, m, n);
    }
}

#endif

MCP26_INLINE int64_t conv_few_f32_units(conv_shape s) { return s.batch * s.out_h; }

/* s.x_pixel is not used: `st` says where the input's elements are. conv_few_fits(s) must hold. */
MCP26_INLINE void conv_few_f32(conv_shape s, const float *x, conv_strides st, const float *w, float *y,
                               mcp26_epilogue epilogue, const void *const *args, int64_t begin, int64_t end) {
    tile_product t = {.columns = s.out_c, .b = w, .panel_stride = s.in_c * s.kernel_h * s.kernel_w * MCP26_NR, .c = y,
                      .ldc = s.y_pixel, .args = args};
    tile_rows cut = tile_cut(s.out_w, TILE_FEW);
#if TILE_PACKS
    int64_t offsets[CONV_FEW_TAPS];
    conv_few_left left = {s, x, st, offsets};
    t.left = &left;
    t.depth = s.in_c * s.kernel_h * s.kernel_w;
    conv_few_offsets(s, st, s.dilation_h, 0, mcp26_min(CONV_FEW_TAPS, t.depth), offsets);
#else
    conv_few_places places;
    conv_few_place(s, st, &places);
#endif
    for (int64_t u = begin; u < end; u++) {
        for (int64_t i = 0; i < cut.tiles && s.out_w > 0; i++) {
            int64_t column = tile_top(cut, i), count = tile_top(cut, i + 1) - column, m = u * s.out_w + column;
#if TILE_PACKS
            tile_band(t, conv_few_pack, epilogue, m, count, 0, s.out_c);
#else
            conv_few_pixels(s, t, x + u / s.out_h * st.item, st, &places, epilogue, u % s.out_h, column, count, m);
#endif
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
