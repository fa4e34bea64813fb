/* separable.h: depthwise convolutions together with the pointwise ones before and behind them, a few rows at a time,
 * so that what lies between them stays in a near cache: the blocks of MobileNets (Sandler et al., MobileNetV2, 2018).
 *
 *     expanded = e0(x * expand)            [batch][in_h][in_w][in_c]    one row after the other in a ring of rows
 *     filtered = e1(depthwise(expanded))   [batch][out_h][out_w][in_c]  a band of rows
 *     y        = e2(filtered * project)    [batch][out_h][out_w][out_c]
 *
 * The first or the last product may be missing. Layouts of activations and weights: conv.h, depthwise.h, tile.h. Every
 * result is computed as by these kernels one after the other; rows at the seam of two calls are expanded twice.
 */
#ifndef MCP26_SEPARABLE_H
#define MCP26_SEPARABLE_H

#include "depthwise.h"
#include "gemm.h"

/* `s` is the depthwise convolution, whose x_pixel and y_pixel are its channels. `expand_c`: channels of x, 0 where no
 * product comes before. `project_c`: channels of y, 0 where none comes behind. `band`: rows of output of a unit.
 * `ring`: a power of two of rows, at least those that a band's windows reach. */
typedef struct {
    conv_shape s;
    int64_t expand_c, project_c, band, ring;
} separable_shape;

/* One product with its packed weights. */
typedef struct {
    const float *packed;
    mcp26_epilogue epilogue;
} separable_product;

/* Rows `first` ... first+count-1 of a [..., K] matrix at `a`, times packed [K, N]: to rows at `c`. The epilogue's m
 * starts from row0. */
MCP26_INLINE void separable_pointwise(int64_t count, int64_t N, int64_t K, const float *a, const float *packed,
                                      float *c, mcp26_epilogue epilogue, const void *const *args, int64_t row0) {
    gemm_left left = {a, K, MCP26_NR, K, 0};
    tile_product t = {.rows = count, .columns = N, .depth = K, .left = &left, .b = packed,
                      .panel_stride = K * MCP26_NR, .c = c, .ldc = N, .args = args, .row0 = row0, .row_step = K,
                      .a = a};
    tile_units_pack(t, gemm_source, gemm_pack, epilogue, 0, tile_units(count, N, K));
}

/* Units of separable_f32: bands. */
MCP26_INLINE int64_t separable_f32_units(separable_shape p) { return p.s.batch * mcp26_ceil_div(p.s.out_h, p.band); }

/* `scratch`: ring * in_w * in_c floats if there is a product before, then band * out_w * in_c if there is one behind. */
MCP26_INLINE void separable_f32(separable_shape p, const float *x, const float *expand, mcp26_epilogue e0,
                                const float *w, mcp26_epilogue e1, const float *project, mcp26_epilogue e2, float *y,
                                const void *const *args, float *scratch, int64_t begin, int64_t end) {
    const conv_shape s = p.s;
    int64_t bands = mcp26_ceil_div(s.out_h, p.band), reach = (s.kernel_h - 1) * s.dilation_h + 1, next = 0;
    int64_t pitch = s.in_w * s.in_c;
    float *filtered = p.expand_c ? scratch + p.ring * pitch : scratch;
    for (int64_t u = begin; u < end; u++) {
        int64_t item = u / bands, row = u % bands * p.band, stop = mcp26_min(s.out_h, row + p.band);
        depthwise_item d = {s, x + item * s.in_h * pitch, pitch, -1, w, args};
        if (p.expand_c) {
            int64_t first = mcp26_max(0, row * s.stride_h - s.pad_top);
            int64_t last = mcp26_min(s.in_h, (stop - 1) * s.stride_h - s.pad_top + reach);
            next = u == begin || row == 0 ? first : mcp26_max(next, first);
            while (next < last) {
                int64_t at = next & (p.ring - 1), count = mcp26_min(last - next, p.ring - at);
                int64_t pixel = (item * s.in_h + next) * s.in_w;
                separable_pointwise(count * s.in_w, s.in_c, p.expand_c, x + pixel * p.expand_c, expand,
                                    scratch + at * pitch, e0, args, pixel);
                next += count;
            }
            d.x = scratch;
            d.mask = p.ring - 1;
        }
        int64_t m = (item * s.out_h + row) * s.out_w;
        for (int64_t r = row; r < stop; r++) {
            int64_t pixel = (item * s.out_h + r) * s.out_w;
            float *to = p.project_c ? filtered + (pixel - m) * s.in_c : y + pixel * s.in_c;
            depthwise_row(d, e1, to, pixel, r);
        }
        if (p.project_c) {
            separable_pointwise((stop - row) * s.out_w, p.project_c, s.in_c, filtered, project, y + m * p.project_c,
                                e2, args, m);
        }
    }
}

#endif
