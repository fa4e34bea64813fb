/* gemm_i8.h: exact products and convolutions of 8-bit activations with packed 8-bit weights, in sums of 32 bits that
 * wrap. What becomes of a sum is the finish's affair, and so is the type of the result.
 *
 * PACKED weights of [K, N], numbers of -128 ... 127, zero beyond K and N (k4 counts groups of four rows):
 *
 *     packed[ceil(N / MCP26_NR)][ceil(K / 4)][MCP26_NR][4],   packed[p][k4][j][i] = W[4 * k4 + i][p * MCP26_NR + j]
 *
 * A tile of rows is packed too, [k4][BYTE_TALL][4], in the type that the processor multiplies: bytes shifted to the
 * sign that its dot product wants, or else 16-bit numbers with the zero point taken off. What the shift and the zero
 * point add to a sum is a multiple of the sum of the weights of its column. UNITS: row tiles x column groups.
 */
#ifndef MCP26_GEMM_I8_H
#define MCP26_GEMM_I8_H

#include "conv.h"

/* What is added to every stored weight: 0, or 128 for weights of uint8, which some neural processors share. Cores flip
 * the bits that make int8 of them. */
#ifndef MCP26_WEIGHT_BIAS
#define MCP26_WEIGHT_BIAS 0
#endif
#define BYTE_BIAS ((int8_t)MCP26_WEIGHT_BIAS)

/* BYTE_TALL: rows of a tile. BYTE_WIDTH: columns of a tile. BYTE_PARTS: sums of a column that are still to be added.
 * BYTE_FLIP: the bit that is flipped in bytes of the other sign, to add or take off 128. */
#if defined(__AVX512VNNI__)
typedef uint8_t byte_left;
enum { BYTE_TALL = 12, BYTE_WIDTH = 2 * MCP26_NR, BYTE_PARTS = 1, BYTE_IS_WIDE = 0, BYTE_IS_SIGNED = 0 };
#elif defined(__AVX512BW__)
typedef int16_t byte_left;
enum { BYTE_TALL = 12, BYTE_WIDTH = MCP26_NR, BYTE_PARTS = 2, BYTE_IS_WIDE = 1, BYTE_IS_SIGNED = 1 };
#elif defined(__AVX2__)
typedef int16_t byte_left;
enum { BYTE_TALL = 6, BYTE_WIDTH = MCP26_NR / 2, BYTE_PARTS = 2, BYTE_IS_WIDE = 1, BYTE_IS_SIGNED = 1 };
#elif defined(__ARM_FEATURE_DOTPROD)
typedef int8_t byte_left;
enum { BYTE_TALL = 8, BYTE_WIDTH = MCP26_NR, BYTE_PARTS = 1, BYTE_IS_WIDE = 0, BYTE_IS_SIGNED = 1 };
#else
typedef int16_t byte_left;
enum { BYTE_TALL = 8, BYTE_WIDTH = 8, BYTE_PARTS = 1, BYTE_IS_WIDE = 1, BYTE_IS_SIGNED = 1 };
#endif

enum { BYTE_SUMS = BYTE_TALL * BYTE_WIDTH * BYTE_PARTS, BYTE_UNITS = 8 };

/* sums[i][j][part] of `rows` rows, rounded up to a height that there is a core for, and one tile's columns. `left` is a
 * packed tile, `b` the panel of its first column, `column` that column's place in the panel; a second panel is
 * `panel_stride` bytes further on. */
__attribute__((visibility("hidden"))) void mcp26_bytes(int64_t rows, int32_t *sums, const byte_left *left,
                                                       int64_t groups, const int8_t *b, int64_t panel_stride,
                                                       int64_t column);

/* What becomes of 8 sums of row m, columns n ... n+7, of which `lanes` exist: it stores the results. */
typedef void (*byte_finish)(v8i sum, const void *const *args, int64_t m, int64_t n, int64_t lanes);

/* Activations: `zero` is what stands for 0. */
typedef struct {
    const void *data;
    int64_t is_signed;
    int32_t zero;
} byte_rows;

MCP26_INLINE int64_t gemm_i8_tiles(int64_t M) { return mcp26_ceil_div(M, BYTE_TALL); }

/* Column groups: a few where there are few tiles to share out. */
MCP26_INLINE int64_t gemm_i8_groups(int64_t M, int64_t N) {
    int64_t strips = mcp26_ceil_div(N, BYTE_WIDTH);
    return mcp26_max(1, mcp26_min(strips, BYTE_UNITS / mcp26_max(1, gemm_i8_tiles(M))));
}

MCP26_INLINE int64_t gemm_i8_units(int64_t M, int64_t N) { return gemm_i8_tiles(M) * gemm_i8_groups(M, N); }

/* Bytes of scratch that serve every processor. */
#define GEMM_I8_SCRATCH(K) (2 * 12 * 4 * (((K) + 3) / 4))

/* What a processor multiplies for a stored byte. */
MCP26_INLINE byte_left byte_factor_of(byte_rows a, uint8_t stored) {
    uint8_t flip = a.is_signed != BYTE_IS_SIGNED ? 0x80 : 0;
    int32_t wide = a.is_signed ? (int8_t)stored : stored;
    return BYTE_IS_WIDE ? (byte_left)(wide - a.zero) : (byte_left)(stored ^ flip);
}

/* The same for four bytes. */
MCP26_INLINE void byte_put_four(byte_rows a, byte_left *to, const uint8_t *from) {
    byte_left four[4];
    if (BYTE_IS_WIDE) {
        MCP26_UNROLL for (int64_t j = 0; j < 4; j++) four[j] = byte_factor_of(a, from[j]);
    } else {
        uint32_t word;
        __builtin_memcpy(&word, from, sizeof word);
        word ^= a.is_signed != BYTE_IS_SIGNED ? 0x80808080u : 0;
        __builtin_memcpy(four, &word, sizeof word);
    }
    __builtin_memcpy(to, four, sizeof four);
}

/* Columns k ... k+count-1 of row i of a packed tile; `from` NULL: zeros. */
MCP26_INLINE void byte_put(byte_rows a, byte_left *tile, int64_t i, int64_t k, const uint8_t *from, int64_t count) {
    byte_left *to = tile + k / 4 * 4 * BYTE_TALL + 4 * i;
    uint8_t zeros[4] = {(uint8_t)a.zero, (uint8_t)a.zero, (uint8_t)a.zero, (uint8_t)a.zero};
    int64_t n = 0;
    if (k % 4 == 0 && from) {
        for (; n + 4 <= count; n += 4, to += 4 * BYTE_TALL) byte_put_four(a, to, from + n);
    } else if (k % 4 == 0) {
        for (; n + 4 <= count; n += 4, to += 4 * BYTE_TALL) byte_put_four(a, to, zeros);
    }
    for (; n < count; n++) {
        int64_t at = k + n;
        tile[at / 4 * 4 * BYTE_TALL + 4 * i + at % 4] = byte_factor_of(a, from ? from[n] : zeros[0]);
    }
}

/* What a kernel brings: row m of its left operand, all columns, as row i of a packed tile. */
typedef void (*byte_source)(const void *left, byte_rows a, int64_t K, int64_t m, byte_left *tile, int64_t i);

/* finish((a - zero) x W), for which the first column is column `first`. column_sums[ceil(N / MCP26_NR) * MCP26_NR]: the
 * sums of the weights of each column. */
MCP26_INLINE void byte_units_run(int64_t M, int64_t N, int64_t K, byte_rows a, byte_source source, const void *rows_of,
                                 const int8_t *packed, const int32_t *column_sums, byte_finish finish,
                                 const void *const *args, int64_t first, void *scratch, int64_t begin, int64_t end) {
    int64_t strips = mcp26_ceil_div(N, BYTE_WIDTH), parts = gemm_i8_groups(M, N), groups = mcp26_ceil_div(K, 4);
    int64_t panel_stride = groups * MCP26_NR * 4;
    int32_t shift = BYTE_IS_WIDE || a.is_signed == BYTE_IS_SIGNED ? 0 : BYTE_IS_SIGNED ? -128 : 128;
    int32_t excess = BYTE_IS_WIDE ? 0 : a.zero + shift;
    byte_left *left = scratch;
    for (int64_t u = begin; u < end; u++) {
        int64_t m = u / parts * BYTE_TALL, rows = mcp26_min(BYTE_TALL, M - m);
        int64_t from = u % parts * strips / parts, to = (u % parts + 1) * strips / parts;
        for (int64_t i = 0; i < rows; i++) source(rows_of, a, K, m + i, left, i);
        for (int64_t n = from * BYTE_WIDTH; n < mcp26_min(N, to * BYTE_WIDTH); n += BYTE_WIDTH) {
            int32_t sums[BYTE_SUMS] __attribute__((aligned(64)));
            int64_t next = n + MCP26_NR < N ? panel_stride : 0; /* the last panel stands in for one that is not there */
            mcp26_bytes(rows, sums, left, groups, packed + n / MCP26_NR * panel_stride, next, n % MCP26_NR);
            for (int64_t j = 0; j < BYTE_WIDTH && n + j < N; j += 8) {
                int64_t lanes = mcp26_min(8, N - n - j);
                v8u correction = (v8u)v8i_splat(excess) * (v8u)v8i_load_all(column_sums + n + j);
                MCP26_ROLL for (int64_t i = 0; i < rows; i++) {
                    const int32_t *at = sums + (i * BYTE_WIDTH + j) * BYTE_PARTS;
                    v8u sum = (v8u)v8i_load_all(at);
                    if (BYTE_PARTS == 2) {
                        v8u next = (v8u)v8i_load_all(at + 8);
                        sum = __builtin_shufflevector(sum, next, 0, 2, 4, 6, 8, 10, 12, 14) +
                              __builtin_shufflevector(sum, next, 1, 3, 5, 7, 9, 11, 13, 15);
                    }
                    finish((v8i)(sum - correction), args, m + i, first + n + j, lanes);
                }
            }
        }
    }
}

MCP26_INLINE void gemm_i8_source(const void *left, byte_rows a, int64_t K, int64_t m, byte_left *tile, int64_t i) {
    byte_put(a, tile, i, 0, (const uint8_t *)left + m * K, K);
}

/* finish((a[M][K] - zero) x W). */
MCP26_INLINE void gemm_i8(int64_t M, int64_t N, int64_t K, byte_rows a, const int8_t *packed,
                          const int32_t *column_sums, byte_finish finish, const void *const *args, void *scratch,
                          int64_t begin, int64_t end) {
    byte_units_run(M, N, K, a, gemm_i8_source, a.data, packed, column_sums, finish, args, 0, scratch, begin, end);
}

/* Columns of the product that a row of a convolution's kernel takes, `depth` channels a group. */
MCP26_INLINE int64_t conv_bytes_row(conv_shape s, int64_t depth) { return mcp26_ceil_div(s.kernel_w * depth, 4) * 4; }

/* One output pixel's window. The taps of a row are one run of memory where nothing lies between them. */
MCP26_INLINE void conv_bytes_source(const void *left, byte_rows a, int64_t K, int64_t m, byte_left *tile, int64_t i) {
    const conv_shape s = *(const conv_shape *)left;
    int64_t depth = s.in_c / s.groups, run = s.dilation_w == 1 && s.x_pixel == depth ? s.kernel_w : 1;
    int64_t side = m % s.out_w * s.stride_w - s.pad_left, top = m / s.out_w % s.out_h * s.stride_h - s.pad_top;
    const uint8_t *item = (const uint8_t *)a.data + m / s.out_w / s.out_h * s.in_h * s.in_w * s.x_pixel;
    (void)K;
    for (int64_t kh = 0; kh < s.kernel_h; kh++) {
        int64_t line = top + kh * s.dilation_h, width = (uint64_t)line < (uint64_t)s.in_h ? s.in_w : 0;
        const uint8_t *from = item + line * s.in_w * s.x_pixel;
        for (int64_t kw = 0, k = kh * conv_bytes_row(s, depth); kw < s.kernel_w; kw += run, k += run * depth) {
            int64_t column = side + kw * s.dilation_w;
            int64_t before = mcp26_min(run, mcp26_max(0, -column)); /* taps beyond the left edge */
            int64_t inside = mcp26_max(0, mcp26_min(run, width - column) - before), behind = run - before - inside;
            if (before && inside) byte_put(a, tile, i, k, NULL, before * depth);
            if (inside)
                byte_put(a, tile, i, k + before * depth, from + (column + before) * s.x_pixel, inside * depth);
            else
                behind = run;
            if (behind) byte_put(a, tile, i, k + (run - behind) * depth, NULL, behind * depth);
        }
    }
}

MCP26_INLINE int64_t conv_bytes_group_units(conv_shape s) {
    return gemm_i8_units(s.batch * s.out_h * s.out_w, s.out_c / s.groups);
}

MCP26_INLINE int64_t conv_bytes_units(conv_shape s) { return s.groups * conv_bytes_group_units(s); }

/* finish((x - zero) * w), pixel by channel, over NHWC (conv.h); beyond the edge x is zero. Weights and sums of columns
 * lie one group behind the other. K is the rows of the kernel, each in the order (kw, channel) and filled up with zeros
 * to a multiple of four. */
MCP26_INLINE void conv_bytes(conv_shape s, byte_rows x, const int8_t *packed, const int32_t *column_sums,
                             byte_finish finish, const void *const *args, void *scratch, int64_t begin, int64_t end) {
    int64_t depth = s.in_c / s.groups, K = s.kernel_h * conv_bytes_row(s, depth), N = s.out_c / s.groups;
    int64_t units = conv_bytes_group_units(s), wide = mcp26_ceil_div(N, MCP26_NR) * MCP26_NR;
    for (int64_t g = begin / mcp26_max(1, units); g * units < end; g++) {
        byte_rows of = {(const uint8_t *)x.data + g * depth, x.is_signed, x.zero};
        byte_units_run(s.batch * s.out_h * s.out_w, N, K, of, conv_bytes_source, &s, packed + g * K * wide,
                       column_sums + g * wide, finish, args, g * N, scratch, mcp26_max(0, begin - g * units),
                       mcp26_min(units, end - g * units));
    }
}

#endif
