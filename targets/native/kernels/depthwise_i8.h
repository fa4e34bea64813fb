/* depthwise_i8.h: exact convolutions with one filter a channel (groups = in_c = out_c) over NHWC activations of 8 bits,
 * in sums of 32 bits that wrap.
 *
 * Processors multiply and add several taps of a channel at once: a dot product of four bytes, two 16-bit numbers on
 * AVX2. These lie one below the other in the kernel, so that the columns that are interleaved for one output pixel
 * serve its neighbours; a kernel of one row takes neighbours of the row instead. WEIGHTS, BYTE_BIAS more than they are,
 * with taps `down` the direction that is taken together and `across` the other one, zero beyond either:
 *
 *     packed[2 * ceil(down / 4)][across][ceil8(C)][2],   packed[p][a][c][i] = W[c][2 * p + i][a]
 *
 * What lies beyond the edge is the zero point; this, and the shift to bytes of a sign for the dot product, add a
 * multiple of the sum of a channel's weights.
 */
#ifndef MCP26_DEPTHWISE_I8_H
#define MCP26_DEPTHWISE_I8_H

#include "gemm_i8.h"
#include "pairs.h"

enum { DEPTHWISE_BYTES_TILE = 8 }; /* output pixels of a tile, at most */

typedef int8_t depthwise_signed __attribute__((ext_vector_type(16)));
typedef uint8_t depthwise_bytes __attribute__((ext_vector_type(16)));

/* Two taps of 8 channels, one behind the other. */
MCP26_INLINE depthwise_bytes depthwise_join(v8b a, v8b b) {
    return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
}

MCP26_INLINE depthwise_signed depthwise_load_pairs(const int8_t *w) {
    depthwise_signed pairs;
    __builtin_memcpy(&pairs, w, sizeof pairs);
    return pairs ^ BYTE_BIAS;
}

/* DEPTHWISE_TAPS: taps of a channel that are taken together. depthwise_column: those of one column of 8 channels,
 * depthwise_weights: what they meet, with `next` the distance from pairs to those of the next taps down. */
#if defined(__ARM_FEATURE_DOTPROD)
enum { DEPTHWISE_TAPS = 4, DEPTHWISE_IS_SHIFTED = 1 };
typedef struct {
    depthwise_signed low, high; /* four taps of four channels */
} depthwise_taps;

MCP26_INLINE depthwise_taps depthwise_fours(depthwise_signed a, depthwise_signed b) {
    return (depthwise_taps){
        __builtin_shufflevector(a, b, 0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23),
        __builtin_shufflevector(a, b, 8, 9, 24, 25, 10, 11, 26, 27, 12, 13, 28, 29, 14, 15, 30, 31)};
}

MCP26_INLINE depthwise_taps depthwise_column(const v8b *taps, int64_t is_signed) {
    depthwise_bytes flip = (depthwise_bytes)(uint8_t)(is_signed ? 0 : 0x80);
    return depthwise_fours((depthwise_signed)(depthwise_join(taps[0], taps[1]) ^ flip),
                           (depthwise_signed)(depthwise_join(taps[2], taps[3]) ^ flip));
}

MCP26_INLINE depthwise_taps depthwise_weights(const int8_t *w, int64_t next) {
    return depthwise_fours(depthwise_load_pairs(w), depthwise_load_pairs(w + next));
}

MCP26_INLINE v8i depthwise_dot(v8i sums, depthwise_taps column, depthwise_taps w) {
    typedef int8_t plain __attribute__((vector_size(16)));
    typedef int32_t v4i __attribute__((ext_vector_type(4)));
    v4i low = (v4i)__builtin_neon_vdotq_s32((plain)sums.lo, (plain)column.low, (plain)w.low, 34 /* int32x4 */);
    v4i high = (v4i)__builtin_neon_vdotq_s32((plain)sums.hi, (plain)column.high, (plain)w.high, 34);
    return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
}
#else
enum { DEPTHWISE_TAPS = 2, DEPTHWISE_IS_SHIFTED = 0 };
typedef v8p depthwise_taps;

MCP26_INLINE depthwise_taps depthwise_column(const v8b *taps, int64_t is_signed) {
    depthwise_bytes pairs = depthwise_join(taps[0], taps[1]);
    return is_signed ? __builtin_convertvector((depthwise_signed)pairs, depthwise_taps)
                     : __builtin_convertvector(pairs, depthwise_taps);
}

MCP26_INLINE depthwise_taps depthwise_weights(const int8_t *w, int64_t next) {
    (void)next;
    return __builtin_convertvector(depthwise_load_pairs(w), depthwise_taps);
}

MCP26_INLINE v8i depthwise_dot(v8i sums, depthwise_taps column, depthwise_taps w) { return v8p_dot(sums, column, w); }
#endif

/* What is the same for all tiles of a row. `pixels`: where each tap of a tile lies, by tap down and column. */
typedef struct {
    conv_shape s;
    byte_rows x;
    const uint8_t *item, *zeros;
    const int8_t *w;
    const int32_t *channel_sums;
    byte_finish finish;
    const void *const *args;
    const uint8_t **pixels;
} depthwise_bytes_row;

/* Taps of the two directions; a kernel of one row has its pixels across. */
MCP26_INLINE int64_t depthwise_down(conv_shape s) { return s.kernel_h == 1 ? s.kernel_w : s.kernel_h; }
MCP26_INLINE int64_t depthwise_across(conv_shape s) { return s.kernel_h == 1 ? 1 : s.kernel_w; }

/* Columns of the input that `count` output pixels share, or the pixels themselves. */
MCP26_INLINE int64_t depthwise_columns(conv_shape s, int64_t count) {
    return s.kernel_h == 1 ? count : (count - 1) * s.stride_w + (s.kernel_w - 1) * s.dilation_w + 1;
}

/* Fill `pixels` for a tile; what lies beyond the edge is at `zeros`. */
MCP26_INLINE void depthwise_bytes_pixels(depthwise_bytes_row d, int64_t row, int64_t column, int64_t count) {
    const conv_shape s = d.s;
    int64_t is_line = s.kernel_h == 1, down = depthwise_down(s), columns = depthwise_columns(s, count);
    int64_t top = row * s.stride_h - s.pad_top, side = column * s.stride_w - s.pad_left;
    for (int64_t k = 0; k < mcp26_ceil_div(down, DEPTHWISE_TAPS) * DEPTHWISE_TAPS; k++) {
        int64_t tap = mcp26_min(k, down - 1); /* beyond the kernel weights are zero */
        int64_t line = top + (is_line ? 0 : tap * s.dilation_h);
        for (int64_t at = 0; at < columns; at++) {
            int64_t place = side + (is_line ? at * s.stride_w + tap * s.dilation_w : at);
            int64_t is_inside = (uint64_t)line < (uint64_t)s.in_h && (uint64_t)place < (uint64_t)s.in_w;
            d.pixels[k * columns + at] = is_inside ? d.item + (line * s.in_w + place) * s.x_pixel : d.zeros;
        }
    }
}

/* Output pixels m ... m+count-1 of a row, channels n ... n+lanes-1. */
MCP26_INLINE void depthwise_bytes_tile(depthwise_bytes_row d, int64_t m, int64_t count, int64_t n, int64_t lanes) {
    const conv_shape s = d.s;
    int64_t down = depthwise_down(s), across = depthwise_across(s), columns = depthwise_columns(s, count);
    int64_t wide = mcp26_ceil_div(s.out_c, 8) * 16, next = across * wide;
    int64_t stride = s.kernel_h == 1 ? 1 : s.stride_w;
    v8i acc[DEPTHWISE_BYTES_TILE];
    MCP26_UNROLL for (int64_t i = 0; i < count; i++) acc[i] = 0;
    const int8_t *taps = d.w + 2 * n;
    const uint8_t **pixels = d.pixels;
    MCP26_ROLL for (int64_t k = 0; k < down; k += DEPTHWISE_TAPS) {
        MCP26_UNROLL for (int64_t at = 0; at < columns; at++) {
            depthwise_taps have;
            int64_t is_loaded = 0;
            MCP26_UNROLL for (int64_t kw = 0; kw < across; kw++) {
                int64_t from = at - kw * s.dilation_w, i = from / stride;
                if (from < 0 || from % stride || i >= count) continue;
                if (!is_loaded) {
                    v8b bytes[DEPTHWISE_TAPS];
                    MCP26_UNROLL for (int64_t t = 0; t < DEPTHWISE_TAPS; t++) {
                        bytes[t] = v8b_load(pixels[t * columns + at] + n, lanes);
                    }
                    have = depthwise_column(bytes, d.x.is_signed);
                    is_loaded = 1;
                }
                acc[i] = depthwise_dot(acc[i], have, depthwise_weights(taps + kw * wide, next));
            }
        }
        pixels += DEPTHWISE_TAPS * columns, taps += DEPTHWISE_TAPS / 2 * next;
    }
    int32_t excess = d.x.zero - (DEPTHWISE_IS_SHIFTED && !d.x.is_signed ? 128 : 0);
    v8u correction = (v8u)v8i_splat(excess) * (v8u)v8i_load_all(d.channel_sums + n);
    MCP26_ROLL for (int64_t i = 0; i < count; i++) {
        d.finish((v8i)((v8u)acc[i] - correction), d.args, m + i, n, lanes);
    }
}

/* A row in tiles of nearly equal width, each through all channels: the run along them is what memory likes. */
MCP26_INLINE void depthwise_bytes_all(depthwise_bytes_row d, int64_t m, int64_t row) {
    int64_t width = d.s.out_w, tiles = mcp26_ceil_div(width, DEPTHWISE_BYTES_TILE), low = width / mcp26_max(1, tiles);
    int64_t whole = d.s.out_c / 8 * 8, is_known = __builtin_constant_p(width);
    for (int64_t t = 0; t < tiles; t++) {
        int64_t column = t * width / tiles, count = (t + 1) * width / tiles - column;
#define DEPTHWISE_BYTES_CASE(C)                                                                     \
    if (count == C && (!is_known || C == low || C == low + 1)) {                                    \
        depthwise_bytes_pixels(d, row, column, C);                                                  \
        for (int64_t n = 0; n < whole; n += 8) depthwise_bytes_tile(d, m + column, C, n, 8);        \
        if (whole < d.s.out_c) depthwise_bytes_tile(d, m + column, C, whole, d.s.out_c - whole);    \
    }
        DEPTHWISE_BYTES_CASE(1) DEPTHWISE_BYTES_CASE(2) DEPTHWISE_BYTES_CASE(3) DEPTHWISE_BYTES_CASE(4)
        DEPTHWISE_BYTES_CASE(5) DEPTHWISE_BYTES_CASE(6) DEPTHWISE_BYTES_CASE(7) DEPTHWISE_BYTES_CASE(8)
#undef DEPTHWISE_BYTES_CASE
    }
}

/* Units of depthwise_i8: output rows. */
MCP26_INLINE int64_t depthwise_i8_units(conv_shape s) { return s.batch * s.out_h; }

/* finish((x - zero) * w), pixel by channel. channel_sums[ceil8(C)]: the sums of each channel's weights. Scratch: 8
 * bytes for each column of a tile and each tap down, as a multiple of 4, behind ceil8(C) bytes. */
MCP26_INLINE void depthwise_i8(conv_shape s, byte_rows x, const int8_t *w, const int32_t *channel_sums,
                               byte_finish finish, const void *const *args, void *scratch, int64_t begin, int64_t end) {
    uint8_t *zeros = scratch;
    const uint8_t **pixels = (const uint8_t **)(void *)(zeros + mcp26_ceil_div(s.out_c, 8) * 8);
    __builtin_memset(zeros, (uint8_t)x.zero, (size_t)s.out_c);
    for (int64_t u = begin; u < end; u++) {
        const uint8_t *item = (const uint8_t *)x.data + u / s.out_h * s.in_h * s.in_w * s.x_pixel;
        depthwise_bytes_row d = {s, x, item, zeros, w, channel_sums, finish, args, pixels};
        depthwise_bytes_all(d, u * s.out_w, u % s.out_h);
    }
}

#endif
