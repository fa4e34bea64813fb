/* deform.h: convolutions whose taps are moved by data, channels-last x and y.
 *
 * Weights are packed as for conv.h: [groups][N = out_c / groups, K = (kh, kw, i)], or, where they are computed, as ONNX
 * has them: [out_c][in_c / groups][kh][kw]. `offset` and `mask` are row-major as
 * ONNX has them: [items][offset_groups][taps][2][out_h][out_w], rows before columns, and without the 2. A tap between
 * elements is mixed from the four around it; what is outside the image is zero. The samples of a tile of pixels are put
 * into the worker's scratch, MCP26_MR * taps * in_c floats, and multiplied from there.
 */
#ifndef MCP26_DEFORM_H
#define MCP26_DEFORM_H

#include "conv.h"

typedef struct {
    int64_t index[4]; /* pixels of the image, -1 outside */
    float weight[4];
} deform_tap;

MCP26_INLINE deform_tap deform_tap_at(conv_shape s, float y, float x) {
    deform_tap t = {{-1, -1, -1, -1}, {0.0f}};
    if (!(y > -1.0f && y < (float)s.in_h && x > -1.0f && x < (float)s.in_w)) return t;
    float top = __builtin_elementwise_floor(y), left = __builtin_elementwise_floor(x), down = y - top, across = x - left;
    MCP26_UNROLL for (int64_t i = 0; i < 4; i++) {
        int64_t row = (int64_t)top + i / 2, column = (int64_t)left + i % 2;
        t.weight[i] = (i / 2 ? down : 1.0f - down) * (i % 2 ? across : 1.0f - across);
        if (row >= 0 && row < s.in_h && column >= 0 && column < s.in_w) t.index[i] = row * s.in_w + column;
    }
    return t;
}

/* The window of output pixel m: tap k of channel n at to[k * by_tap + n * by_channel]. `mask` may be 0. */
MCP26_INLINE void deform_sample(conv_shape s, int64_t offset_groups, const float *x, const float *offset,
                                const float *mask, int64_t m, float *to, int64_t by_tap, int64_t by_channel) {
    int64_t plane = s.out_h * s.out_w, item = m / plane, pixel = m % plane, taps = s.kernel_h * s.kernel_w;
    int64_t row = pixel / s.out_w, column = pixel % s.out_w, width = s.in_c / offset_groups;
    const float *image = x + item * s.in_h * s.in_w * s.in_c;
    for (int64_t g = 0; g < offset_groups; g++) {
        for (int64_t k = 0; k < taps; k++) {
            int64_t place = (item * offset_groups + g) * taps + k;
            const float *moved = offset + 2 * place * plane + pixel;
            float at_y = (float)(row * s.stride_h - s.pad_top + k / s.kernel_w * s.dilation_h) + moved[0];
            float at_x = (float)(column * s.stride_w - s.pad_left + k % s.kernel_w * s.dilation_w) + moved[plane];
            deform_tap t = deform_tap_at(s, at_y, at_x);
            float scale = mask ? mask[place * plane + pixel] : 1.0f;
            for (int64_t n = g * width; n < (g + 1) * width; n += 8) {
                int64_t lanes = mcp26_min(8, (g + 1) * width - n);
                v8f sum = 0.0f;
                MCP26_UNROLL for (int64_t i = 0; i < 4; i++) {
                    if (t.index[i] < 0) continue;
                    sum = v8f_fma(v8f_load(image + t.index[i] * s.in_c + n, lanes), v8f_splat(t.weight[i]), sum);
                }
                float *place_to = to + k * by_tap + n * by_channel;
                if (by_channel == 1)
                    v8f_store(place_to, sum * scale, lanes);
                else
                    v8f_store_strided(place_to, by_channel, sum * scale, lanes);
            }
        }
    }
}

/* Units: tiles of MCP26_MR output pixels. */
MCP26_INLINE int64_t deform_f32_units(conv_shape s) { return mcp26_ceil_div(s.batch * s.out_h * s.out_w, MCP26_MR); }

MCP26_INLINE void deform_f32(conv_shape s, int64_t offset_groups, const float *x, const float *w, const float *offset,
                             const float *mask, float *y, float *scratch, mcp26_epilogue epilogue,
                             const void *const *args, int64_t begin, int64_t end) {
    int64_t taps = s.kernel_h * s.kernel_w, depth = s.in_c / s.groups, channels = s.out_c / s.groups;
    int64_t panel = taps * depth * MCP26_NR;
    for (int64_t u = begin; u < end; u++) {
        int64_t m = u * MCP26_MR, rows = mcp26_min(MCP26_MR, s.batch * s.out_h * s.out_w - m);
        for (int64_t i = 0; i < rows; i++) {
            deform_sample(s, offset_groups, x, offset, mask, m + i, scratch + i * taps * s.in_c, s.in_c, 1);
        }
        for (int64_t g = 0; g < s.groups; g++) {
            const float *b = w + g * mcp26_ceil_div(channels, MCP26_NR) * panel;
            for (int64_t n = 0; n < channels; n += TILE_WIDTH) {
                int64_t columns = mcp26_min(TILE_WIDTH, channels - n);
                int64_t vectors = columns <= TILE_LANES ? 1 : TILE_VECTORS;
                float sums[TILE_SUMS] __attribute__((aligned(64)));
                for (int64_t k = 0; k < taps; k++) {
                    const float *a[TILE_ROWS];
                    for (int64_t i = 0; i < rows; i++) a[i] = scratch + (i * taps + k) * s.in_c + g * depth;
                    tile_core(rows, vectors, columns, sums, a, 1, depth,
                              b + n / MCP26_NR * panel + k * depth * MCP26_NR, MCP26_NR, panel, k > 0);
                }
                for (int64_t i = 0; i < rows; i++) {
                    for (int64_t j = 0; j < columns; j += 8) {
                        int64_t lanes = mcp26_min(8, columns - j), c = g * channels + n + j;
                        v8f v = epilogue(v8f_load_all(sums + i * vectors * TILE_LANES + j), args, m + i, c, lanes);
                        v8f_store(y + (m + i) * s.out_c + c, v, lanes);
                    }
                }
            }
        }
    }
}

/* Computed weights; units: output pixels. Scratch: taps * in_c floats. */
MCP26_INLINE void deform_plain_f32(conv_shape s, int64_t offset_groups, const float *x, const float *w,
                                   const float *offset, const float *mask, float *y, float *scratch,
                                   mcp26_epilogue epilogue, const void *const *args, int64_t begin, int64_t end) {
    int64_t taps = s.kernel_h * s.kernel_w, depth = s.in_c / s.groups * taps, channels = s.out_c / s.groups;
    for (int64_t m = begin; m < end; m++) {
        deform_sample(s, offset_groups, x, offset, mask, m, scratch, 1, taps);
        for (int64_t c = 0; c < s.out_c; c++) {
            const float *window = scratch + c / channels * depth, *row = w + c * depth;
            v8f sum = 0.0f;
            for (int64_t i = 0; i < depth; i += 8) {
                int64_t lanes = mcp26_min(8, depth - i);
                sum = v8f_fma(v8f_load(window + i, lanes), v8f_load(row + i, lanes), sum);
            }
            v8f_store(y + m * s.out_c + c, epilogue(v8f_splat(v8f_sum(sum)), args, m, c, 1), 1);
        }
    }
}

#endif
