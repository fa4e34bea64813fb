/* gemm_i8.h: exact products and convolutions of 8-bit activations with packed 8-bit weights, in sums of 32 bits that
 * wrap. What becomes of a sum is the finish's affair, and so is the type of the result.
 *
 * PACKED weights of [K, N], numbers of -128 ... 127, zero beyond K and N (k4 counts groups of four rows):
 *
 *     packed[ceil(N / MCP26_NR)][ceil(K / 4)][MCP26_NR][4],   packed[p][k4][j][i] = W[4 * k4 + i][p * MCP26_NR + j]
 *
 * A tile of rows is packed too, [k4][BYTE_TALL][4], in the type that the processor multiplies: bytes shifted to the
 * sign that its dot product wants, or else 16-bit numbers with the zero point taken off. What the shift and the zero
 * point add to a sum is a multiple of the sum of the weights of its column.
 *
 * PAIRS (AVX2): pmaddubsw adds two products in 16 bits, and saturates where both weights have one sign and more than
 * 128 together. So every BYTE_WIDTH columns, numbered c, have a list of steps starts[c] ... starts[c + 1],
 * packed[step][BYTE_WIDTH][4], in which no pair can: each is a group of four rows in the order in which that holds for
 * all columns, of BYTE_ORDERS, which the tile holds one behind the other; or, where it holds in none, every other
 * weight with zeros between them. Without lists every other weight is multiplied at a time. places[step] is the order
 * times ceil(K / 4) plus k4. Steps of zeros are left out.
 *
 * UNITS: blocks of row tiles x column groups.
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

/* BYTE_TALL: rows of a tile. BYTE_WIDTH: columns of a tile. BYTE_PARTS: sums of a column that are still to be added. */
#if defined(__AVX512VNNI__)
typedef uint8_t byte_left;
enum { BYTE_TALL = 12, BYTE_WIDTH = 2 * MCP26_NR, BYTE_PARTS = 1 };
enum { BYTE_IS_WIDE = 0, BYTE_IS_SIGNED = 0, BYTE_ORDERS = 1 };
#elif defined(__AVX512BW__)
typedef int16_t byte_left;
enum { BYTE_TALL = 12, BYTE_WIDTH = MCP26_NR, BYTE_PARTS = 2 };
enum { BYTE_IS_WIDE = 1, BYTE_IS_SIGNED = 1, BYTE_ORDERS = 1 };
#elif defined(__AVX2__)
typedef uint8_t byte_left;
enum { BYTE_TALL = 12, BYTE_WIDTH = 8, BYTE_PARTS = 1 }; /* few columns, more of which fit an order */
enum { BYTE_IS_WIDE = 0, BYTE_IS_SIGNED = 0, BYTE_ORDERS = 3 };
#elif defined(__ARM_FEATURE_DOTPROD)
typedef int8_t byte_left;
enum { BYTE_TALL = 12, BYTE_WIDTH = MCP26_NR, BYTE_PARTS = 1 };
enum { BYTE_IS_WIDE = 0, BYTE_IS_SIGNED = 1, BYTE_ORDERS = 1 };
#else
typedef int16_t byte_left;
enum { BYTE_TALL = 8, BYTE_WIDTH = 8, BYTE_PARTS = 1 };
enum { BYTE_IS_WIDE = 1, BYTE_IS_SIGNED = 1, BYTE_ORDERS = 1 };
#endif

/* BYTE_BLOCK: the most tiles of a block. BYTE_BLOCK_BYTES: what they may take, though it is one tile at least. Weights
 * come from far away once a block, tiles as they are met from the second cache, or the third. */
enum { BYTE_SUMS = BYTE_TALL * BYTE_WIDTH * BYTE_PARTS, BYTE_UNITS = 8, BYTE_BLOCK = 8, BYTE_BLOCK_BYTES = 512 << 10 };
enum { BYTE_RUN = 32 }; /* bytes of a row of a kernel's taps, up to which it is put together at the edge */

/* Activations: `zero` is what stands for 0. */
typedef struct {
    const void *data;
    int64_t is_signed;
    int32_t zero;
} byte_rows;

/* column_sums[ceil(N / MCP26_NR) * MCP26_NR]: the sums of the weights of each column. `bias`: as many numbers that are
 * added, or NULL. `starts` and `places`: of PAIRS, or NULL. */
typedef struct {
    const int8_t *packed;
    const int32_t *column_sums, *bias, *starts, *places;
} byte_weights;

/* What becomes of 8 sums of row m, columns n ... n+7, of which `lanes` exist: it stores the results. */
typedef void (*byte_finish)(v8i sum, const void *const *args, int64_t m, int64_t n, int64_t lanes);

/* sums[i][j][part] of `rows` rows, rounded up to a height that there is a core for, and one tile's columns. `left` is a
 * packed tile, `b` the `steps` of its columns; a second panel is `panel_stride` bytes further on. `places`: of the
 * steps, where there are PAIRS. As many steps at `ahead`, which need not exist, go to the second cache. */
__attribute__((visibility("hidden"))) void mcp26_bytes(int64_t rows, int32_t *sums, const byte_left *left,
                                                       int64_t steps, const int8_t *b, int64_t panel_stride,
                                                       const int32_t *places, const int8_t *ahead);

/* Elements of a packed tile. */
MCP26_INLINE int64_t byte_tile_size(int64_t K) { return BYTE_ORDERS * BYTE_TALL * 4 * mcp26_ceil_div(K, 4); }

/* Tiles of a block, which lie in a worker's scratch, and as many zeros behind them as a row may lack. */
MCP26_INLINE int64_t byte_block(int64_t K) {
    int64_t tile = mcp26_max(1, byte_tile_size(K) * (int64_t)sizeof(byte_left));
    return mcp26_max(1, mcp26_min(BYTE_BLOCK, BYTE_BLOCK_BYTES / tile));
}

MCP26_INLINE int64_t gemm_i8_blocks(int64_t M, int64_t K) {
    return mcp26_ceil_div(mcp26_ceil_div(M, BYTE_TALL), byte_block(K));
}

/* Column groups: a few where there are few blocks to share out. */
MCP26_INLINE int64_t gemm_i8_groups(int64_t M, int64_t N, int64_t K) {
    int64_t strips = mcp26_ceil_div(N, BYTE_WIDTH);
    return mcp26_max(1, mcp26_min(strips, BYTE_UNITS / mcp26_max(1, gemm_i8_blocks(M, K))));
}

MCP26_INLINE int64_t gemm_i8_units(int64_t M, int64_t N, int64_t K) {
    return gemm_i8_blocks(M, K) * gemm_i8_groups(M, N, K);
}

/* What a processor multiplies for a stored byte. */
MCP26_INLINE byte_left byte_factor_of(byte_rows a, uint8_t stored) {
    uint8_t flip = a.is_signed != BYTE_IS_SIGNED ? 0x80 : 0;
    int32_t wide = a.is_signed ? (int8_t)stored : stored;
    return BYTE_IS_WIDE ? (byte_left)(wide - a.zero) : (byte_left)(stored ^ flip);
}

/* One column of row i, in all orders, which are `all` elements apart. */
MCP26_INLINE void byte_put_one(byte_rows a, byte_left *tile, int64_t all, int64_t i, int64_t k, uint8_t stored) {
    int64_t orders[3][4] = {{0, 1, 2, 3}, {0, 2, 1, 3}, {0, 2, 3, 1}}; /* where each of four goes */
    MCP26_UNROLL for (int64_t order = 0; order < BYTE_ORDERS; order++) {
        tile[order * all + k / 4 * 4 * BYTE_TALL + 4 * i + orders[order][k % 4]] = byte_factor_of(a, stored);
    }
}

/* Four columns as 16-bit numbers. */
MCP26_INLINE void byte_put_four(byte_rows a, byte_left *to, const uint8_t *from) {
    MCP26_UNROLL for (int64_t j = 0; j < 4; j++) to[j] = byte_factor_of(a, from[j]);
}

typedef uint32_t byte_words __attribute__((ext_vector_type(4)));
typedef uint8_t byte_quads __attribute__((ext_vector_type(16)));

/* Four rows' words of one group of columns, in all orders. `tile`: the first of the rows in the group; `all`: elements
 * from order to order. */
MCP26_INLINE void byte_store_quad(byte_left *tile, int64_t all, byte_words four) {
    byte_quads bytes = (byte_quads)four;
    byte_quads orders[3] = {
        bytes,
        __builtin_shufflevector(bytes, bytes, 0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15),
        __builtin_shufflevector(bytes, bytes, 0, 3, 1, 2, 4, 7, 5, 6, 8, 11, 9, 10, 12, 15, 13, 14),
    };
    MCP26_UNROLL for (int64_t i = 0; i < BYTE_ORDERS; i++) __builtin_memcpy(tile + i * all, &orders[i], sizeof bytes);
}

/* Four columns of all rows as a group of a tile: those at `from`, shifted by so many bits, which leaves the first ones
 * out. */
MCP26_INLINE void byte_pack_four(byte_rows a, byte_left *to, int64_t all, const uint8_t *const *from, int64_t n,
                                 int64_t bits) {
    byte_words flip = a.is_signed != BYTE_IS_SIGNED ? 0x80808080u : 0u;
    MCP26_UNROLL for (int64_t i = 0; i < BYTE_TALL; i += 4) {
        byte_words four;
        MCP26_UNROLL for (int64_t r = 0; r < 4; r++) {
            uint32_t word;
            __builtin_memcpy(&word, from[i + r] + n, sizeof word);
            four[r] = word;
        }
        byte_store_quad(to + 4 * i, all, (four ^ flip) >> (uint32_t)bits);
    }
}

/* Sixteen columns of all rows as four groups of a tile. */
MCP26_INLINE void byte_pack_sixteen(byte_rows a, byte_left *to, int64_t all, const uint8_t *const *from, int64_t n) {
    byte_words flip = a.is_signed != BYTE_IS_SIGNED ? 0x80808080u : 0u;
    MCP26_UNROLL for (int64_t i = 0; i < BYTE_TALL; i += 4) {
        byte_words row[4];
        MCP26_UNROLL for (int64_t r = 0; r < 4; r++) {
            __builtin_memcpy(&row[r], from[i + r] + n, sizeof row[r]);
            row[r] ^= flip;
        }
        byte_words even = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5);
        byte_words even_high = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7);
        byte_words odd = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5);
        byte_words odd_high = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
        byte_left *group = to + 4 * i;
        byte_store_quad(group, all, __builtin_shufflevector(even, odd, 0, 1, 4, 5));
        byte_store_quad(group + 4 * BYTE_TALL, all, __builtin_shufflevector(even, odd, 2, 3, 6, 7));
        byte_store_quad(group + 8 * BYTE_TALL, all, __builtin_shufflevector(even_high, odd_high, 0, 1, 4, 5));
        byte_store_quad(group + 12 * BYTE_TALL, all, __builtin_shufflevector(even_high, odd_high, 2, 3, 6, 7));
    }
}

/* Columns k ... k+count-1 of all rows of a packed tile, from where these rows lie. */
MCP26_INLINE void byte_pack(byte_rows a, byte_left *tile, int64_t K, int64_t k, const uint8_t *const *from,
                            int64_t count) {
    int64_t all = BYTE_TALL * 4 * mcp26_ceil_div(K, 4), n = 0;
    if (k % 4) {
        n = mcp26_min(count, 4 - k % 4);
        for (int64_t i = 0; i < BYTE_TALL; i++) {
            for (int64_t j = 0; j < n; j++) byte_put_one(a, tile, all, i, k + j, from[i][j]);
        }
    }
    byte_left *to = tile + (k + n) / 4 * 4 * BYTE_TALL;
    for (; !BYTE_IS_WIDE && n + 16 <= count; n += 16, to += 16 * BYTE_TALL) byte_pack_sixteen(a, to, all, from, n);
    for (; n + 4 <= count; n += 4, to += 4 * BYTE_TALL) {
        if (!BYTE_IS_WIDE) byte_pack_four(a, to, all, from, n, 0);
        MCP26_UNROLL for (int64_t i = 0; BYTE_IS_WIDE && i < BYTE_TALL; i++) {
            byte_put_four(a, to + 4 * i, from[i] + n);
        }
    }
    if (!BYTE_IS_WIDE && n < count && count >= 4) { /* what follows meets weights of zero, or is to come */
        byte_pack_four(a, to, all, from, count - 4, 8 * (4 - count + n));
        return;
    }
    for (; n < count; n++) {
        MCP26_UNROLL for (int64_t i = 0; i < BYTE_TALL; i++) byte_put_one(a, tile, all, i, k + n, from[i][n]);
    }
}

/* What a kernel brings: packs rows m ... of its left operand, of which `rows` exist, as a tile. `zeros` are as many
 * zero points as a row may lack. */
typedef void (*byte_source)(const void *left, byte_rows a, int64_t K, int64_t m, int64_t rows, byte_left *tile,
                            const uint8_t *zeros);

/* Eight columns of a tile's sums, of which `lanes` exist: it is a literal where it is 8. */
MCP26_INLINE void byte_finish_rows(const int32_t *sums, v8u correction, byte_finish finish, const void *const *args,
                                   int64_t m, int64_t rows, int64_t n, int64_t lanes) {
#pragma clang loop unroll_count(4)
    for (int64_t i = 0; i < rows; i++, sums += BYTE_WIDTH * BYTE_PARTS) {
        v8u sum = (v8u)v8i_load_all(sums);
        if (BYTE_PARTS == 2) {
            v8u other = (v8u)v8i_load_all(sums + 8);
            sum = __builtin_shufflevector(sum, other, 0, 2, 4, 6, 8, 10, 12, 14) +
                  __builtin_shufflevector(sum, other, 1, 3, 5, 7, 9, 11, 13, 15);
        }
        finish((v8i)(sum - correction), args, m + i, n, lanes);
    }
}

/* The weights of columns n ... n+BYTE_WIDTH-1. */
MCP26_INLINE const int8_t *byte_strip(byte_weights w, int64_t n, int64_t panel_stride) {
    if (w.starts) return w.packed + w.starts[n / BYTE_WIDTH] * BYTE_WIDTH * 4;
    return w.packed + n / MCP26_NR * panel_stride + n % MCP26_NR * 4;
}

/* finish((a - zero) x W), for which the first column is column `column0`; `zeros`: how many zero points the source
 * wants. */
MCP26_INLINE void byte_units_run(int64_t M, int64_t N, int64_t K, byte_rows a, byte_source source, const void *rows_of,
                                 int64_t zeros, byte_weights w, byte_finish finish, const void *const *args,
                                 int64_t column0, void *scratch, int64_t begin, int64_t end) {
    int64_t strips = mcp26_ceil_div(N, BYTE_WIDTH), parts = gemm_i8_groups(M, N, K), groups = mcp26_ceil_div(K, 4);
    int64_t panel_stride = groups * MCP26_NR * 4, tall = byte_block(K) * BYTE_TALL;
    int32_t shift = BYTE_IS_WIDE || a.is_signed == BYTE_IS_SIGNED ? 0 : BYTE_IS_SIGNED ? -128 : 128;
    int32_t excess = BYTE_IS_WIDE ? 0 : a.zero + shift;
    byte_left *left = scratch;
    uint8_t *nothing = (uint8_t *)(left + byte_block(K) * byte_tile_size(K));
    for (int64_t i = 0; i < zeros; i++) nothing[i] = (uint8_t)a.zero;
    for (int64_t u = begin; u < end; u++) {
        int64_t top = u / parts * tall, bottom = mcp26_min(M, top + tall), is_packed = u > begin && u % parts;
        int64_t from = u % parts * strips / parts, to = (u % parts + 1) * strips / parts;
        for (int64_t m = top; m < bottom && !is_packed; m += BYTE_TALL) {
            byte_left *tile = left + (m - top) / BYTE_TALL * byte_tile_size(K);
            source(rows_of, a, K, m, mcp26_min(BYTE_TALL, bottom - m), tile, nothing);
        }
        for (int64_t n = from * BYTE_WIDTH; n < mcp26_min(N, to * BYTE_WIDTH); n += BYTE_WIDTH) {
            int64_t next = n + MCP26_NR < N ? panel_stride : 0; /* the last panel stands in for one that is not there */
            int64_t first = w.starts ? w.starts[n / BYTE_WIDTH] : 0;
            int64_t steps = w.starts ? w.starts[n / BYTE_WIDTH + 1] - first : groups;
            const int8_t *b = byte_strip(w, n, panel_stride), *ahead = byte_strip(w, n + BYTE_WIDTH, panel_stride);
            for (int64_t m = top; m < bottom; m += BYTE_TALL) {
                int32_t sums[BYTE_SUMS] __attribute__((aligned(64)));
                int64_t rows = mcp26_min(BYTE_TALL, bottom - m);
                mcp26_bytes(rows, sums, left + (m - top) / BYTE_TALL * byte_tile_size(K), steps, b, next,
                            w.places ? w.places + first : NULL, m == top ? ahead : b);
                for (int64_t j = 0; j < BYTE_WIDTH && n + j < N; j += 8) {
                    v8u correction = (v8u)v8i_splat(excess) * (v8u)v8i_load_all(w.column_sums + n + j);
                    if (w.bias) correction -= (v8u)v8i_load_all(w.bias + n + j);
                    const int32_t *of = sums + j * BYTE_PARTS;
                    if (N - n - j >= 8)
                        byte_finish_rows(of, correction, finish, args, m, rows, column0 + n + j, 8);
                    else
                        byte_finish_rows(of, correction, finish, args, m, rows, column0 + n + j, N - n - j);
                }
            }
        }
    }
}

MCP26_INLINE void gemm_i8_source(const void *left, byte_rows a, int64_t K, int64_t m, int64_t rows, byte_left *tile,
                                 const uint8_t *zeros) {
    const uint8_t *from[BYTE_TALL];
    (void)zeros;
    for (int64_t i = 0; i < BYTE_TALL; i++) from[i] = (const uint8_t *)left + (m + mcp26_min(i, rows - 1)) * K;
    byte_pack(a, tile, K, 0, from, K);
}

/* finish((a[M][K] - zero) x W). */
MCP26_INLINE void gemm_i8(int64_t M, int64_t N, int64_t K, byte_rows a, byte_weights w, byte_finish finish,
                          const void *const *args, void *scratch, int64_t begin, int64_t end) {
    byte_units_run(M, N, K, a, gemm_i8_source, a.data, 0, w, finish, args, 0, scratch, begin, end);
}

/* Columns of the product that a row of a convolution's kernel takes, `depth` channels a group. */
MCP26_INLINE int64_t conv_bytes_row(conv_shape s, int64_t depth) { return mcp26_ceil_div(s.kernel_w * depth, 4) * 4; }

/* A row of a kernel's taps that reach beyond the edge: `run` bytes, of which `line` (NULL: none) has those of pixels
 * side ... in the image. */
MCP26_INLINE const uint8_t *conv_bytes_edge(conv_shape s, byte_rows a, const uint8_t *line, int64_t side, int64_t depth,
                                            uint8_t *run) {
    int64_t low = line ? mcp26_max(0, -side) : s.kernel_w, high = mcp26_min(s.kernel_w, s.in_w - side);
    for (int64_t j = 0; j < s.kernel_w * depth; j++) {
        run[j] = j >= low * depth && j < high * depth ? line[j] : (uint8_t)a.zero;
    }
    return run;
}

/* The windows of a tile's output pixels. The taps of a row are one run of memory where nothing lies between them; short
 * runs are so at the edge too. */
MCP26_INLINE void conv_bytes_source(const void *left, byte_rows a, int64_t K, int64_t m, int64_t rows, byte_left *tile,
                                    const uint8_t *zeros) {
    const conv_shape s = *(const conv_shape *)left;
    int64_t depth = s.in_c / s.groups, is_run = s.dilation_w == 1 && s.x_pixel == depth;
    int64_t is_short = is_run && s.kernel_w * depth <= BYTE_RUN;
    int64_t top[BYTE_TALL], side[BYTE_TALL], column = m % s.out_w, row = m / s.out_w % s.out_h;
    const uint8_t *item[BYTE_TALL], *image = (const uint8_t *)a.data;
    image += m / s.out_w / s.out_h * s.in_h * s.in_w * s.x_pixel;
    for (int64_t i = 0; i < BYTE_TALL; i++) {
        top[i] = row * s.stride_h - s.pad_top;
        side[i] = column * s.stride_w - s.pad_left;
        item[i] = image;
        is_run &= side[i] >= 0 && side[i] + s.kernel_w <= s.in_w;
        if (i + 1 >= rows || ++column < s.out_w) continue; /* the last row is repeated */
        column = 0;
        if (++row < s.out_h) continue;
        row = 0, image += s.in_h * s.in_w * s.x_pixel;
    }
    for (int64_t kh = 0; kh < s.kernel_h; kh++) {
        const uint8_t *line[BYTE_TALL], *from[BYTE_TALL];
        uint8_t short_run[BYTE_TALL][BYTE_RUN];
        int64_t k = kh * conv_bytes_row(s, depth), is_inside = is_run;
        MCP26_UNROLL for (int64_t i = 0; i < BYTE_TALL; i++) {
            int64_t y = top[i] + kh * s.dilation_h, is_here = (uint64_t)y < (uint64_t)s.in_h;
            line[i] = is_here ? item[i] + (y * s.in_w + side[i]) * s.x_pixel : NULL;
            is_inside &= is_here;
        }
        if (is_inside || is_short) {
            MCP26_UNROLL for (int64_t i = 0; i < BYTE_TALL; i++) {
                int64_t is_whole = is_inside || (line[i] && side[i] >= 0 && side[i] + s.kernel_w <= s.in_w);
                from[i] = is_whole ? line[i] : conv_bytes_edge(s, a, line[i], side[i], depth, short_run[i]);
            }
            byte_pack(a, tile, K, k, from, s.kernel_w * depth);
            continue;
        }
        for (int64_t kw = 0; kw < s.kernel_w; kw++, k += depth) {
            MCP26_UNROLL for (int64_t i = 0; i < BYTE_TALL; i++) {
                int64_t x = side[i] + kw * s.dilation_w, is_here = line[i] && (uint64_t)x < (uint64_t)s.in_w;
                from[i] = is_here ? line[i] + kw * s.dilation_w * s.x_pixel : zeros;
            }
            byte_pack(a, tile, K, k, from, depth);
        }
    }
}

MCP26_INLINE int64_t conv_bytes_group_units(conv_shape s) {
    return gemm_i8_units(s.batch * s.out_h * s.out_w, s.out_c / s.groups,
                         s.kernel_h * conv_bytes_row(s, s.in_c / s.groups));
}

MCP26_INLINE int64_t conv_bytes_units(conv_shape s) { return s.groups * conv_bytes_group_units(s); }

/* finish((x - zero) * w), pixel by channel, over NHWC (conv.h); beyond the edge x is zero. The panels of weights and
 * sums of columns lie one group behind the other. K is the rows of the kernel, each in the order (kw, channel) and
 * filled up with zeros to a multiple of four. */
MCP26_INLINE void conv_bytes(conv_shape s, byte_rows x, byte_weights w, byte_finish finish, const void *const *args,
                             void *scratch, int64_t begin, int64_t end) {
    int64_t depth = s.in_c / s.groups, K = s.kernel_h * conv_bytes_row(s, depth), N = s.out_c / s.groups;
    int64_t units = conv_bytes_group_units(s), panels = mcp26_ceil_div(N, MCP26_NR), wide = panels * MCP26_NR;
    for (int64_t g = begin / mcp26_max(1, units); g * units < end; g++) {
        byte_rows of = {(const uint8_t *)x.data + g * depth, x.is_signed, x.zero};
        byte_weights own = {w.starts ? w.packed : w.packed + g * K * wide, w.column_sums + g * wide,
                            w.bias ? w.bias + g * wide : NULL,
                            w.starts ? w.starts + g * wide / BYTE_WIDTH : NULL, w.places};
        byte_units_run(s.batch * s.out_h * s.out_w, N, K, of, conv_bytes_source, &s, depth, own, finish, args, g * N,
                       scratch, mcp26_max(0, begin - g * units), mcp26_min(units, end - g * units));
    }
}

#endif
