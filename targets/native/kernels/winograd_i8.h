/* winograd_i8.h: exact 3x3 convolutions of 8-bit integers at stride 1 by minimal filtering, F(2 x 2, 3 x 3) (A. Lavin and
 * S. Gray, Fast algorithms for convolutional neural networks, 2016), in integers of 16 bits and sums of 32.
 *
 *     y = A'[(G w G') * (B' d B)]A      B' d: d0 - d2, d1 + d2, d2 - d1, d1 - d3      A' m: m0 + m1 + m2, m1 - m2 - m3
 *
 * G' has halves, so weights are those of 2 G, and 4 y comes out: numbers of 16 bits, since inputs less their zero point
 * are at most 255, transformed 1020, and weights 9 * 128. Sums wrap, and 2 bits are left out at the end: y must have 30.
 * WEIGHTS, p counting the 16 points, k2 pairs of channels:
 *
 *     packed[ceil(N / 16)][p][C / 2][16][2]
 *
 * A block of `block` tiles is transformed, then multiplied by one panel of columns after another, whose points are
 * summed up as they are transformed back. Channels are a multiple of 16. UNITS: blocks of tiles.
 */
#ifndef MCP26_WINOGRAD_I8_H
#define MCP26_WINOGRAD_I8_H

#include "gemm_i8.h"
#include "words.h"

enum { WORDS_POINTS = 16, WORDS_LINE = 32 };

typedef int16_t words16 __attribute__((ext_vector_type(16)));

/* Elements from one point of V to the next: `block` tiles of all channels, and a line, so that points do not evict one
 * another. */
MCP26_INLINE int64_t winograd_i8_step(conv_shape s, int64_t block) { return block * s.in_c + WORDS_LINE; }

/* B' d B of one tile, all channels, whose pixels are `pixels`. */
MCP26_INLINE void winograd_i8_forth(const uint8_t *const *pixels, byte_rows x, int64_t channels, int64_t step,
                                    int16_t *v) {
    typedef uint8_t bytes __attribute__((ext_vector_type(16)));
    typedef int8_t signed_bytes __attribute__((ext_vector_type(16)));
    words16 zero = (words16)(int16_t)x.zero;
    for (int64_t c = 0; c < channels; c += 16) {
        words16 t[16];
        MCP26_UNROLL for (int64_t i = 0; i < 4; i++) {
            words16 d[4];
            MCP26_UNROLL for (int64_t j = 0; j < 4; j++) {
                bytes stored;
                __builtin_memcpy(&stored, pixels[4 * i + j] + c, sizeof stored);
                d[j] = (x.is_signed ? __builtin_convertvector((signed_bytes)stored, words16)
                                    : __builtin_convertvector(stored, words16)) - zero;
            }
            t[4 * i] = d[0] - d[2], t[4 * i + 1] = d[1] + d[2], t[4 * i + 2] = d[2] - d[1], t[4 * i + 3] = d[1] - d[3];
        }
        MCP26_UNROLL for (int64_t j = 0; j < 4; j++) {
            words16 r[4] = {t[j] - t[8 + j], t[4 + j] + t[8 + j], t[8 + j] - t[4 + j], t[4 + j] - t[12 + j]};
            MCP26_UNROLL for (int64_t i = 0; i < 4; i++) __builtin_memcpy(v + (4 * i + j) * step + c, &r[i], sizeof r[i]);
        }
    }
}

/* A' m A of 8 columns of a tile: points are `step` elements apart. y[row][column]. */
MCP26_INLINE void winograd_i8_back(const int32_t *m, int64_t step, v8i *y) {
    v8u t[8];
    MCP26_UNROLL for (int64_t j = 0; j < 4; j++) {
        v8u p[4];
        MCP26_UNROLL for (int64_t i = 0; i < 4; i++) p[i] = (v8u)v8i_load_all(m + (4 * i + j) * step);
        t[j] = p[0] + p[1] + p[2], t[4 + j] = p[1] - p[2] - p[3];
    }
    MCP26_UNROLL for (int64_t i = 0; i < 2; i++) {
        const v8u *p = t + 4 * i;
        y[2 * i] = (v8i)(p[0] + p[1] + p[2]) >> 2, y[2 * i + 1] = (v8i)(p[1] - p[2] - p[3]) >> 2;
    }
}

MCP26_INLINE int64_t winograd_i8_tiles(conv_shape s) {
    return s.batch * mcp26_ceil_div(s.out_h, 2) * mcp26_ceil_div(s.out_w, 2);
}

MCP26_INLINE int64_t winograd_i8_units(conv_shape s, int64_t block) {
    return mcp26_ceil_div(winograd_i8_tiles(s), block);
}

/* finish((x - zero) * w), pixel by channel. Scratch, in bytes: C for zeros, 32 * step for V, 1024 * (block + 1) for M. */
MCP26_INLINE void winograd_i8(conv_shape s, int64_t block, byte_rows x, const int16_t *packed, byte_finish finish,
                              const void *const *args, void *scratch, int64_t begin, int64_t end) {
    int64_t wide = mcp26_ceil_div(s.out_w, 2), high = mcp26_ceil_div(s.out_h, 2), all = winograd_i8_tiles(s);
    int64_t step = winograd_i8_step(s, block), sums_step = block * WORDS_COLUMNS + WORDS_COLUMNS;
    uint8_t *zeros = scratch;
    int16_t *v = (int16_t *)(void *)(zeros + s.in_c);
    int32_t *sums = (int32_t *)(void *)(v + WORDS_POINTS * step);
    __builtin_memset(zeros, (uint8_t)x.zero, (size_t)s.in_c);
    for (int64_t u = begin; u < end; u++) {
        int64_t first = u * block, count = mcp26_min(block, all - first);
        for (int64_t t = 0; t < count; t++) {
            int64_t tile = first + t, top = tile / wide % high * 2 - s.pad_top, side = tile % wide * 2 - s.pad_left;
            const uint8_t *item = (const uint8_t *)x.data + tile / wide / high * s.in_h * s.in_w * s.x_pixel;
            const uint8_t *pixels[16];
            for (int64_t p = 0; p < 16; p++) {
                int64_t row = top + p / 4, column = side + p % 4;
                int64_t is_inside = (uint64_t)row < (uint64_t)s.in_h && (uint64_t)column < (uint64_t)s.in_w;
                pixels[p] = is_inside ? item + (row * s.in_w + column) * s.x_pixel : zeros;
            }
            winograd_i8_forth(pixels, x, s.in_c, step, v + t * s.in_c);
        }
        for (int64_t n = 0; n < s.out_c; n += WORDS_COLUMNS) {
            const int16_t *panel = packed + n * WORDS_POINTS * s.in_c;
            for (int64_t p = 0; p < WORDS_POINTS; p++, panel += WORDS_COLUMNS * s.in_c) {
                for (int64_t t = 0; t < count; t += WORDS_ROWS) {
                    words_sum(mcp26_min(WORDS_ROWS, count - t), sums + p * sums_step + t * WORDS_COLUMNS,
                              v + p * step + t * s.in_c, s.in_c, s.in_c / 2, panel,
                              t ? panel : panel + WORDS_COLUMNS * s.in_c);
                }
            }
            for (int64_t t = 0; t < count; t++) {
                int64_t tile = first + t, row = tile / wide % high * 2, column = tile % wide * 2;
                int64_t m = (tile / wide / high * s.out_h + row) * s.out_w + column;
                for (int64_t j = 0; j < WORDS_COLUMNS && n + j < s.out_c; j += 8) {
                    v8i y[4];
                    winograd_i8_back(sums + t * WORDS_COLUMNS + j, sums_step, y);
                    MCP26_ROLL for (int64_t i = 0; i < 4; i++) {
                        if (row + i / 2 >= s.out_h || column + i % 2 >= s.out_w) continue;
                        finish(y[i], args, m + i / 2 * s.out_w + i % 2, n + j, mcp26_min(8, s.out_c - n - j));
                    }
                }
            }
        }
    }
}

#endif
