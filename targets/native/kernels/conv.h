/* conv.h: convolutions over NHWC activations, without an im2col buffer.
 *
 * An activation is [batch][height][width][channels]; two neighbouring pixels are `x_pixel` (input) or `y_pixel`
 * (output) elements apart, at least the channels: so that an operand may be a slice of the channels of a larger
 * tensor. 1-D is height 1. The epilogue's m is the output pixel ((item * out_h) + row) * out_w + column, its n the
 * output channel.
 *
 * Weights, from ONNX's W[out_c][in_c / groups][kernel_h][kernel_w] with G = groups, O = out_c / G, I = in_c / G:
 *
 *     conv_f32          [G][packed as tile.h says, N = O, K = kernel_h * kernel_w * I in the order (kh, kw, i)]
 *     conv_nchw_in_f32  [packed as tile.h says, N = out_c, K = in_c * kernel_h * kernel_w in the order (i, kh, kw)]
 *
 * Pointwise (1x1, stride 1, no padding, one group) is gemm_f32 with M = batch * height * width.
 * Padding at the bottom and right follows from the output's size.
 */
#ifndef MCP26_CONV_H
#define MCP26_CONV_H

#include "gemm.h"

typedef struct {
    int64_t batch;
    int64_t in_h, in_w, in_c, x_pixel;
    int64_t out_h, out_w, out_c, y_pixel;
    int64_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
    int64_t pad_top, pad_left;
    int64_t groups;
} conv_shape;

typedef struct {
    conv_shape s;
    const float *x, *zeros;
    int64_t depth; /* channels of a group */
} conv_left;

enum { CONV_TAPS = 16 }; /* taps of one call of a core */

/* Each of the tile's output pixels points, for each tap, at its input pixel, or at zeros beyond the edge. */
MCP26_INLINE void conv_source(const void *left, float *sums, int64_t rows, int64_t vectors, int64_t m, const float *b,
                              int64_t panel_stride, int64_t columns, const float *ahead) {
    const conv_left *l = left;
    const conv_shape s = l->s;
    int64_t top[TILE_ROWS], side[TILE_ROWS], corner[TILE_ROWS], taps = s.kernel_h * s.kernel_w;
    int64_t column = m % s.out_w, row = m / s.out_w % s.out_h, item = m / s.out_w / s.out_h;
    int64_t reach_h = (s.kernel_h - 1) * s.dilation_h, reach_w = (s.kernel_w - 1) * s.dilation_w, is_inside = 1;
    int is_unpadded = s.pad_top == 0 && s.pad_left == 0 && (s.out_h - 1) * s.stride_h + reach_h < s.in_h &&
                      (s.out_w - 1) * s.stride_w + reach_w < s.in_w;
    MCP26_UNROLL for (int64_t i = 0; i < TILE_ROWS; i++) { /* some beyond the tile */
        top[i] = row * s.stride_h - s.pad_top;
        side[i] = column * s.stride_w - s.pad_left;
        corner[i] = ((item * s.in_h + top[i]) * s.in_w + side[i]) * s.x_pixel;
        int is_whole = top[i] >= 0 && top[i] + reach_h < s.in_h && side[i] >= 0 && side[i] + reach_w < s.in_w;
        is_inside &= is_unpadded || i >= rows || is_whole;
        if (++column == s.out_w) {
            column = 0;
            if (++row == s.out_h) row = 0, item++;
        }
    }
    /* The taps of a row are one run of memory where nothing lies between them. */
    int64_t run = is_inside && s.dilation_w == 1 && l->depth == s.x_pixel ? s.kernel_w : 1, depth = run * l->depth;
    taps /= run;
    for (int64_t tap = 0; tap < taps || tap == 0; tap += CONV_TAPS) {
        const float *a[CONV_TAPS * TILE_ROWS], **next = a;
        int64_t count = mcp26_min(CONV_TAPS, taps - tap);
        for (int64_t t = tap; t < tap + count; t++, next += TILE_ROWS) {
            int64_t down = t * run / s.kernel_w * s.dilation_h, across = t * run % s.kernel_w * s.dilation_w;
            const float *x = l->x + (down * s.in_w + across) * s.x_pixel;
            MCP26_UNROLL for (int64_t i = 0; i < TILE_ROWS; i++) {
                int is_here = is_inside || ((uint64_t)(top[i] + down) < (uint64_t)s.in_h &&
                                            (uint64_t)(side[i] + across) < (uint64_t)s.in_w);
                next[i] = is_here ? x + corner[i] : l->zeros;
            }
        }
        tile_core_ahead(rows, vectors, columns, sums, a, count, depth, b + tap * depth * MCP26_NR, MCP26_NR,
                        panel_stride, tap > 0, ahead + tap * depth * TILE_AHEAD / 4);
    }
}

#if TILE_PACKS
/* Channels of a group must be a multiple of 4. */
MCP26_INLINE void conv_pack(const void *left, float *packed, int64_t rows, int64_t m, int64_t k, int64_t depth) {
    const conv_left *l = left;
    const conv_shape s = l->s;
    int64_t top[MCP26_MR], side[MCP26_MR], column = m % s.out_w, row = m / s.out_w % s.out_h;
    const float *item[MCP26_MR], *next = l->x + m / s.out_w / s.out_h * s.in_h * s.in_w * s.x_pixel;
    for (int64_t i = 0; i < rows; i++) {
        top[i] = row * s.stride_h - s.pad_top;
        side[i] = column * s.stride_w - s.pad_left;
        item[i] = next;
        if (++column < s.out_w) continue;
        column = 0;
        if (++row < s.out_h) continue;
        row = 0, next += s.in_h * s.in_w * s.x_pixel;
    }
    for (int64_t done = 0, count; done < depth; done += count) {
        int64_t tap = (k + done) / l->depth, channel = (k + done) % l->depth;
        int64_t down = tap / s.kernel_w * s.dilation_h, across = tap % s.kernel_w * s.dilation_w;
        const float *a[MCP26_MR];
        count = mcp26_min(l->depth - channel, depth - done);
        for (int64_t i = 0; i < rows; i++) {
            int64_t y = top[i] + down, x = side[i] + across;
            int is_here = (uint64_t)y < (uint64_t)s.in_h && (uint64_t)x < (uint64_t)s.in_w;
            a[i] = is_here ? item[i] + (y * s.in_w + x) * s.x_pixel + channel : l->zeros;
        }
        mcp26_pack(rows, packed + done * rows, a, count);
    }
}
#else
#define conv_pack NULL
#endif

MCP26_INLINE int64_t conv_group_units(conv_shape s) {
    return tile_units(s.batch * s.out_h * s.out_w, s.out_c / s.groups,
                      s.kernel_h * s.kernel_w * (s.in_c / s.groups));
}

/* Units of conv_f32: those of one group, times the groups. */
MCP26_INLINE int64_t conv_f32_units(conv_shape s) { return s.groups * conv_group_units(s); }

/* y = epilogue(x * w), any kernel, stride, dilation, padding and groups. `zeros`: in_c / groups zeros. */
MCP26_INLINE void conv_f32(conv_shape s, const float *x, const float *w, const float *zeros, float *y,
                           mcp26_epilogue epilogue, const void *const *args, int64_t begin, int64_t end) {
    int64_t units = conv_group_units(s), depth = s.in_c / s.groups, channels = s.out_c / s.groups;
    int64_t panel_stride = s.kernel_h * s.kernel_w * depth * MCP26_NR;
    for (int64_t u = begin; u < end;) {
        int64_t g = u / units, first = u % units, last = mcp26_min(units, first + end - u);
        conv_left left = {s, x + g * depth, zeros, depth};
        tile_product t = {.rows = s.batch * s.out_h * s.out_w, .columns = channels,
                          .depth = s.kernel_h * s.kernel_w * depth, .left = &left,
                          .b = w + g * mcp26_ceil_div(channels, MCP26_NR) * panel_stride,
                          .panel_stride = panel_stride, .c = y + g * channels, .ldc = s.y_pixel, .args = args,
                          .column0 = g * channels, .row_step = s.x_pixel * s.stride_w};
        if (depth % 4 == 0)
            tile_units_pack(t, conv_source, conv_pack, epilogue, first, last);
        else
            tile_units_run(t, conv_source, epilogue, first, last);
        u += last - first;
    }
}

#endif
