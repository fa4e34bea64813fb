/* conv_f16.h: float16 products with packed weights, and convolutions over NHWC activations of float16.
 *
 * As gemm.h, conv.h and conv_few.h, with the panels and sums of tile_f16.h. C, the output, is float32 if `is_wide`.
 */
#ifndef MCP26_CONV_F16_H
#define MCP26_CONV_F16_H

#include "conv.h"
#include "tile_f16.h"

typedef struct {
    const uint16_t *a;
    int64_t lda, depth;
} half_left;

MCP26_INLINE void half_gemm_source(const void *left, half_task task, int64_t rows, int64_t vectors, int64_t m) {
    const half_left *g = left;
    const uint16_t *a[HALF_MR]; /* some beyond the tile */
    MCP26_UNROLL for (int64_t i = 0; i < HALF_MR; i++) a[i] = g->a + (m + i) * g->lda;
    task.a = a, task.taps = 1, task.depth = g->depth, task.a_step = rows * g->lda;
    half_core(rows, vectors, task);
}

/* Packed rows of halves are those of pairs of them (tile_f16.h). */
#if HALF_PACKS
MCP26_INLINE void half_gemm_pack(const void *left, uint16_t *packed, int64_t rows, int64_t m, int64_t k,
                                 int64_t depth) {
    const half_left *g = left;
    gemm_left pairs = {.a = (const float *)(const void *)g->a, .lda = g->lda / 2};
    gemm_pack(&pairs, (float *)(void *)packed, rows, m, k / 2, depth / 2);
}
#else
#define half_gemm_pack NULL
#endif

MCP26_INLINE int64_t gemm_f16_units(int64_t M, int64_t N, int64_t K) { return half_units(M, N, K); }

/* C[M, N] (rows ldc elements apart) = epilogue(A[M, K] (rows lda apart) x packed). */
MCP26_INLINE void gemm_f16(int64_t M, int64_t N, int64_t K, const uint16_t *a, int64_t lda, const uint16_t *packed,
                           half_result y, int64_t ldc, mcp26_epilogue epilogue, const void *const *args,
                           int64_t begin, int64_t end) {
    half_left left = {a, lda, K};
    half_product t = {.rows = M, .columns = N, .depth = K, .left = &left, .packed = packed, .y = y, .ldc = ldc,
                      .is_run = 1, .args = args};
    if (K % HALF_EIGHT == 0 && lda % 2 == 0)
        half_units_run(t, half_gemm_source, half_gemm_pack, epilogue, begin, end);
    else
        half_units_run(t, half_gemm_source, NULL, epilogue, begin, end);
}

typedef struct {
    conv_shape s;
    const uint16_t *x, *zeros;
    int64_t depth; /* channels of a group */
} half_conv_left;

/* As conv_source. */
MCP26_INLINE void half_conv_source(const void *left, half_task task, int64_t rows, int64_t vectors, int64_t m) {
    const half_conv_left *l = left;
    const conv_shape s = l->s;
    float wide[HALF_SUMS] __attribute__((aligned(64)));
    const uint16_t *b = task.b;
    int64_t top[HALF_MR], side[HALF_MR], corner[HALF_MR], taps = s.kernel_h * s.kernel_w;
    int64_t column = m % s.out_w, row = m / s.out_w % s.out_h, item = m / s.out_w / s.out_h;
    int64_t reach_h = (s.kernel_h - 1) * s.dilation_h, reach_w = (s.kernel_w - 1) * s.dilation_w, is_inside = 1;
    MCP26_UNROLL for (int64_t i = 0; i < HALF_MR; i++) { /* some beyond the tile */
        top[i] = row * s.stride_h - s.pad_top;
        side[i] = column * s.stride_w - s.pad_left;
        corner[i] = ((item * s.in_h + top[i]) * s.in_w + side[i]) * s.x_pixel;
        int is_whole = top[i] >= 0 && top[i] + reach_h < s.in_h && side[i] >= 0 && side[i] + reach_w < s.in_w;
        is_inside &= i >= rows || is_whole;
        if (++column == s.out_w) {
            column = 0;
            if (++row == s.out_h) row = 0, item++;
        }
    }
    /* The taps of a row are one run of memory where nothing lies between them. */
    int64_t run = is_inside && s.dilation_w == 1 && l->depth == s.x_pixel ? s.kernel_w : 1, depth = run * l->depth;
    taps /= run;
    for (int64_t tap = 0; tap < taps || tap == 0; tap += CONV_TAPS) {
        const uint16_t *a[CONV_TAPS * HALF_MR], **next = a;
        int64_t count = mcp26_min(CONV_TAPS, taps - tap);
        for (int64_t t = tap; t < tap + count; t++, next += HALF_MR) {
            int64_t down = t * run / s.kernel_w * s.dilation_h, across = t * run % s.kernel_w * s.dilation_w;
            const uint16_t *x = l->x + (down * s.in_w + across) * s.x_pixel;
            MCP26_UNROLL for (int64_t i = 0; i < HALF_MR; i++) {
                int is_here = is_inside || ((uint64_t)(top[i] + down) < (uint64_t)s.in_h &&
                                            (uint64_t)(side[i] + across) < (uint64_t)s.in_w);
                next[i] = is_here ? x + corner[i] : l->zeros;
            }
        }
        task.a = a, task.taps = count, task.depth = depth, task.b = b + tap * depth * HALF_NR, task.wide = wide;
        task.goes_on = tap > 0, task.goes_further = tap + count < taps;
        half_core(rows, vectors, task);
    }
}

#if HALF_PACKS
MCP26_INLINE void half_conv_pack(const void *left, uint16_t *packed, int64_t rows, int64_t m, int64_t k,
                                 int64_t depth) {
    const half_conv_left *l = left;
    conv_left pairs = {l->s, (const float *)(const void *)l->x, (const float *)(const void *)l->zeros, l->depth / 2};
    pairs.s.x_pixel /= 2;
    conv_pack(&pairs, (float *)(void *)packed, rows, m, k / 2, depth / 2);
}
#else
#define half_conv_pack NULL
#endif

MCP26_INLINE int64_t conv_f16_group_units(conv_shape s) {
    return half_units(s.batch * s.out_h * s.out_w, s.out_c / s.groups, s.kernel_h * s.kernel_w * (s.in_c / s.groups));
}
MCP26_INLINE int64_t conv_f16_units(conv_shape s) { return s.groups * conv_f16_group_units(s); }

/* y = epilogue(x * w), any kernel, stride, dilation, padding and groups. `zeros`: in_c / groups zeros. */
MCP26_INLINE void conv_f16(conv_shape s, const uint16_t *x, const uint16_t *w, const uint16_t *zeros,
                           half_result y, mcp26_epilogue epilogue, const void *const *args, int64_t begin,
                           int64_t end) {
    int64_t units = conv_f16_group_units(s), depth = s.in_c / s.groups, channels = s.out_c / s.groups;
    int64_t terms = s.kernel_h * s.kernel_w * depth;
    for (int64_t u = begin; u < end;) {
        int64_t g = u / units, first = u % units, last = mcp26_min(units, first + end - u);
        half_conv_left left = {s, x + g * depth, zeros, depth};
        half_product t = {.rows = s.batch * s.out_h * s.out_w, .columns = channels, .depth = terms, .left = &left,
                          .packed = w + g * mcp26_ceil_div(channels, HALF_NR) * (1 + terms) * HALF_NR,
                          .y = half_result_at(y, g * channels), .ldc = s.y_pixel, .args = args,
                          .column0 = g * channels};
        if (depth % HALF_EIGHT == 0 && s.x_pixel % 2 == 0)
            half_units_run(t, half_conv_source, half_conv_pack, epilogue, first, last);
        else
            half_units_run(t, half_conv_source, NULL, epilogue, first, last);
        u += last - first;
    }
}

/* ---- the first layer: few channels of float32, row-major (NCHW), one group
 *
 * Input is rounded to float16 first, into runs of HALF_STRIP output pixels' lines, in each of which columns that are
 * stride_w apart are neighbours: so a tap's inputs to eight output pixels are one vector. */

enum { HALF_STRIP = 64, HALF_FEW_TAPS = 256 };

/* Elements of a line that hold every stride_w-th column: those that tiles of `pixels` read, in whole vectors. */
MCP26_INLINE int64_t half_few_run(conv_shape s, int64_t pixels) {
    int64_t reach = (s.kernel_w - 1) * s.dilation_w / s.stride_w;
    return mcp26_ceil_div(mcp26_ceil_div(pixels, HALF_MR) * HALF_MR + reach, 8) * 8;
}

/* x[0], x[step], … from element `first`, of which those at 0 ... limit-1 exist, as `count` halves. */
MCP26_INLINE void half_few_line(const float *x, int64_t first, int64_t step, int64_t limit, int64_t count,
                                uint16_t *to) {
    for (int64_t i = 0; i < count; i += 8) {
        int64_t at = first + i * step;
        v8f v;
        if (at >= 0 && at + 8 * step <= limit) {
            if (step == 2) {
                v8f low = v8f_load_all(x + at), high = v8f_load_all(x + at + 8);
                v = __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14);
            } else {
                v = step == 1 ? v8f_load_all(x + at) : v8f_load_strided(x + at, step, 8);
            }
        } else {
            float some[8];
            for (int64_t j = 0; j < 8; j++) {
                int64_t here = at + j * step;
                some[j] = here >= 0 && here < limit ? x[here] : 0.0f;
            }
            v = v8f_load_all(some);
        }
        v8w_store_all(to + i, half_from_v8f(v));
    }
}

MCP26_INLINE int64_t conv_few_f16_units(conv_shape s) { return s.batch * s.out_h; }

/* At most HALF_FEW_TAPS taps of all channels. `scratch`: in_c * kernel_h * stride_w * half_few_run(s, HALF_STRIP)
 * elements. Weights as conv_nchw_in_f32's, in
 * panels of tile_f16.h. */
MCP26_INLINE void conv_nchw_in_f16(conv_shape s, const float *x, const uint16_t *w, half_result y,
                                   mcp26_epilogue epilogue, const void *const *args, uint16_t *scratch, int64_t begin,
                                   int64_t end) {
    int64_t taps = s.in_c * s.kernel_h * s.kernel_w, run = half_few_run(s, HALF_STRIP), line = s.stride_w * run;
    int32_t offsets[HALF_FEW_TAPS];
    for (int64_t k = 0; k < taps; k++) {
        int64_t across = k % s.kernel_w * s.dilation_w;
        offsets[k] = (int32_t)(k / s.kernel_w * line + across % s.stride_w * run + across / s.stride_w);
    }
    half_product t = {.y = y, .ldc = s.y_pixel, .args = args};
    for (int64_t u = begin; u < end; u++) {
        int64_t item = u / s.out_h, top = u % s.out_h * s.stride_h - s.pad_top;
        for (int64_t strip = 0; strip < s.out_w; strip += HALF_STRIP) {
            int64_t pixels = mcp26_min(HALF_STRIP, s.out_w - strip), side = strip * s.stride_w - s.pad_left;
            int64_t some = half_few_run(s, pixels);
            uint16_t *to = scratch;
            for (int64_t c = 0; c < s.in_c; c++) {
                for (int64_t kh = 0; kh < s.kernel_h; kh++) {
                    int64_t at = top + kh * s.dilation_h, is_inside = at >= 0 && at < s.in_h;
                    const float *from = x + ((item * s.in_c + c) * s.in_h + (is_inside ? at : 0)) * s.in_w;
                    for (int64_t phase = 0; phase < s.stride_w; phase++, to += run) {
                        half_few_line(from, side + phase, s.stride_w, is_inside ? s.in_w : 0, some, to);
                    }
                }
            }
            for (int64_t i = 0; i < pixels; i += HALF_MR) {
                int64_t rows = mcp26_min(HALF_MR, pixels - i), m = u * s.out_w + strip + i;
                for (int64_t n = 0; n < s.out_c; n += HALF_NR) {
                    const uint16_t *b = w + n * (1 + taps) + HALF_NR;
                    if (y.is_bounded && rows == HALF_MR && n + HALF_NR <= s.out_c) {
                        uint16_t *c = (uint16_t *)y.to + m * s.y_pixel + n;
                        mcp26_half_few(scratch + i, offsets, taps, b, c, s.y_pixel, y.bounds);
                        continue;
                    }
                    uint16_t sums[HALF_SUMS];
                    mcp26_half_few(scratch + i, offsets, taps, b, sums, HALF_NR, y.bounds);
                    if (n + HALF_NR <= s.out_c)
                        half_finish(t, epilogue, sums, HALF_NR, rows, HALF_NR, m, n);
                    else
                        half_finish(t, epilogue, sums, HALF_NR, rows, s.out_c - n, m, n);
                }
            }
        }
    }
}

#endif
