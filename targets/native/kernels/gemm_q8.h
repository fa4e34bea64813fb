/* gemm_q8.h: products and convolutions whose weights lie in the file as small integers or floats.
 *
 * A weight is (stored - zero) * scale, rounded once: what DequantizeLinear makes. It is expanded panel by panel into
 * scratch, where all rows of a block of the left operand meet it as they would meet a float panel: so results are the
 * same to the last bit as with weights that were expanded beforehand, and the work of expanding is shared by the rows
 * of a block. (To scale the sums instead would save a multiplication a weight, but round differently and leave out
 * scales that change along the depth.) Few rows are multiplied by what is expanded in registers.
 *
 * `stored` is packed as tile.h says, in its own type. A scale, and a zero point, holds for `block` rows of B:
 *
 *     is_per_column   scale[ceil(N / MCP26_NR)][ceil(K / block)][MCP26_NR]
 *     otherwise       scale[ceil(K / block)]
 */
#ifndef MCP26_GEMM_Q8_H
#define MCP26_GEMM_Q8_H

#include "conv.h"

typedef struct {
    const void *stored;
    const float *scale, *zero; /* NULL: 1 and 0 */
    int64_t block, is_per_column;
    int64_t first; /* the panel that is column 0's */
} weight_panels;

/* Stored numbers i ... i+7. */
typedef v8f (*weight_load)(const void *stored, int64_t i);

MCP26_INLINE v8f weight_load_i8(const void *stored, int64_t i) {
    return v8f_from_v8i(__builtin_convertvector(v8c_load_all((const int8_t *)stored + i), v8i));
}
MCP26_INLINE v8f weight_load_u8(const void *stored, int64_t i) {
    return v8f_from_v8b(v8b_load_all((const uint8_t *)stored + i));
}
/* Numbers of four or two bits: eight of them in a word, the first in its lowest bits. */
MCP26_INLINE v8u weight_word(const void *stored, int64_t i) {
    uint32_t word;
    __builtin_memcpy(&word, (const uint8_t *)stored + i / 2, sizeof word);
    return v8u_splat(word);
}
MCP26_INLINE v8u weight_half_word(const void *stored, int64_t i) {
    uint16_t word;
    __builtin_memcpy(&word, (const uint8_t *)stored + i / 4, sizeof word);
    return v8u_splat(word);
}
MCP26_INLINE v8f weight_load_u4(const void *stored, int64_t i) {
    return v8f_from_v8i((v8i)(weight_word(stored, i) >> (v8u){0, 4, 8, 12, 16, 20, 24, 28} & 15u));
}
MCP26_INLINE v8f weight_load_i4(const void *stored, int64_t i) {
    return v8f_from_v8i((v8i)(weight_word(stored, i) << (v8u){28, 24, 20, 16, 12, 8, 4, 0}) >> 28);
}
MCP26_INLINE v8f weight_load_u2(const void *stored, int64_t i) {
    return v8f_from_v8i((v8i)(weight_half_word(stored, i) >> (v8u){0, 2, 4, 6, 8, 10, 12, 14} & 3u));
}
MCP26_INLINE v8f weight_load_i2(const void *stored, int64_t i) {
    return v8f_from_v8i((v8i)(weight_half_word(stored, i) << (v8u){30, 28, 26, 24, 22, 20, 18, 16}) >> 30);
}
MCP26_INLINE v8f weight_load_e2m1(const void *stored, int64_t i) {
    return v8f_from_e2m1(__builtin_convertvector(weight_word(stored, i) >> (v8u){0, 4, 8, 12, 16, 20, 24, 28}, v8b));
}
MCP26_INLINE v8f weight_load_half(const void *stored, int64_t i) {
    return v8f_from_half(v8w_load_all((const uint16_t *)stored + i));
}
MCP26_INLINE v8f weight_load_bfloat(const void *stored, int64_t i) {
    return v8f_from_bfloat(v8w_load_all((const uint16_t *)stored + i));
}
MCP26_INLINE v8f weight_load_e4m3(const void *stored, int64_t i) {
    return v8f_from_e4m3(v8b_load_all((const uint8_t *)stored + i));
}
MCP26_INLINE v8f weight_load_e4m3z(const void *stored, int64_t i) {
    return v8f_from_e4m3z(v8b_load_all((const uint8_t *)stored + i));
}
MCP26_INLINE v8f weight_load_e5m2z(const void *stored, int64_t i) {
    return v8f_from_e5m2z(v8b_load_all((const uint8_t *)stored + i));
}
MCP26_INLINE v8f weight_load_e5m2(const void *stored, int64_t i) {
    return v8f_from_e5m2(v8b_load_all((const uint8_t *)stored + i));
}

enum {
    WEIGHT_VECTORS = MCP26_NR / 8, /* vectors across a panel */
    WEIGHT_FEW = 4,                /* rows that are multiplied without scratch */
    WEIGHT_TILES = 4 * TILE_BLOCK, /* tiles of a block, at most */
    WEIGHT_BLOCK = 1 << 16,        /* numbers of the left operand that a block of more than TILE_BLOCK tiles may have */
    WEIGHT_SUMS = 8                /* vectors that accumulate then */
};

/* Vector j of the scales or zero points (`values`) of a block of a panel. */
MCP26_INLINE v8f weight_parameter(weight_panels w, const float *values, int64_t depth, int64_t panel, int64_t block,
                                  int64_t j) {
    int64_t blocks = mcp26_ceil_div(depth, w.block);
    if (!w.is_per_column) return v8f_splat(values[block]);
    return v8f_load_all(values + (panel * blocks + block) * MCP26_NR + 8 * j);
}

/* Panel `panel` as floats, [depth][MCP26_NR]. */
MCP26_INLINE void weight_expand(weight_panels w, weight_load load, int64_t depth, int64_t panel,
                                float *restrict to) {
    for (int64_t block = 0; block * w.block < depth; block++) {
        int64_t end = mcp26_min(depth, (block + 1) * w.block);
        v8f scale[WEIGHT_VECTORS], zero[WEIGHT_VECTORS];
        MCP26_UNROLL for (int64_t j = 0; j < WEIGHT_VECTORS; j++) {
            scale[j] = w.scale ? weight_parameter(w, w.scale, depth, panel, block, j) : 1.0f;
            zero[j] = w.zero ? weight_parameter(w, w.zero, depth, panel, block, j) : 0.0f;
        }
        for (int64_t k = block * w.block; k < end; k++) {
            MCP26_UNROLL for (int64_t j = 0; j < WEIGHT_VECTORS; j++) {
                v8f value = load(w.stored, (panel * depth + k) * MCP26_NR + 8 * j);
                if (w.zero) value = value - zero[j];
                if (w.scale) value = value * scale[j];
                v8f_store_all(to + k * MCP26_NR + 8 * j, value);
            }
        }
    }
}

/* Rows of a block share the work of expanding, so there are many, as far as the second cache has room. */
MCP26_INLINE int64_t weight_blocks(int64_t rows, int64_t depth) {
    int64_t fit = WEIGHT_BLOCK / mcp26_max(1, depth * MCP26_MR);
    int64_t tiles = mcp26_max(TILE_BLOCK, mcp26_min(fit, WEIGHT_TILES));
    return mcp26_max(1, tile_cut(rows, MCP26_MR).tiles / tiles);
}

/* Panels of a group: enough for a unit to be worth its while. */
MCP26_INLINE int64_t weight_group(int64_t rows, int64_t columns, int64_t depth) {
    int64_t work = mcp26_max(1, rows / weight_blocks(rows, depth) * depth * MCP26_NR), flight = tile_flight(rows);
    int64_t worth = mcp26_ceil_div(TILE_UNIT_WORK, work * flight) * flight;
    return mcp26_max(1, mcp26_min(worth, mcp26_ceil_div(columns, MCP26_NR)));
}
MCP26_INLINE int64_t weight_units(int64_t rows, int64_t columns, int64_t depth) {
    if (rows == 0) return 0;
    int64_t panels = mcp26_ceil_div(columns, MCP26_NR);
    return weight_blocks(rows, depth) * mcp26_ceil_div(panels, weight_group(rows, columns, depth));
}

/* Units begin ... end-1 of the product, of weight_units. `scratch`: depth * TILE_WIDTH floats. */
MCP26_INLINE void weight_units_run(tile_product t, weight_panels w, weight_load load, tile_source source,
                                   mcp26_epilogue epilogue, float *scratch, int64_t begin, int64_t end) {
    int64_t blocks = weight_blocks(t.rows, t.depth), group = weight_group(t.rows, t.columns, t.depth);
    int64_t panels = mcp26_ceil_div(t.columns, MCP26_NR), groups = mcp26_ceil_div(panels, group);
    tile_rows cut = tile_cut(t.rows, MCP26_MR);
    for (int64_t u = begin; u < end; u++) {
        int64_t from = u / groups * cut.tiles / blocks, to = (u / groups + 1) * cut.tiles / blocks;
        int64_t n = u % groups * group * MCP26_NR, last = mcp26_min(t.columns, n + group * MCP26_NR);
        for (; n < last; n += TILE_WIDTH) {
            int64_t columns = mcp26_min(TILE_WIDTH, last - n);
            for (int64_t i = 0; i * MCP26_NR < columns; i++) {
                weight_expand(w, load, t.depth, w.first + n / MCP26_NR + i, scratch + i * t.depth * MCP26_NR);
            }
            tile_product part = t;
            part.b = scratch, part.c = t.c + n, part.column0 = t.column0 + n;
            tile_strip(part, source, epilogue, cut, from, to, columns <= TILE_LANES ? 1 : TILE_VECTORS, columns, 0,
                       scratch);
        }
    }
}

/* Columns of `count` panels from column n on of the product of few rows. */
MCP26_INLINE void weight_rows(tile_product t, const float *a, int64_t lda, weight_panels w, weight_load load,
                              mcp26_epilogue epilogue, int64_t rows, int64_t count, int64_t n) {
    v8f sums[WEIGHT_SUMS];
    int64_t vectors = count * WEIGHT_VECTORS, panel = w.first + n / MCP26_NR;
    MCP26_UNROLL for (int64_t i = 0; i < rows * vectors; i++) sums[i] = 0.0f;
    for (int64_t block = 0; block * w.block < t.depth; block++) {
        int64_t end = mcp26_min(t.depth, (block + 1) * w.block);
        for (int64_t k = block * w.block; k < end; k++) {
            MCP26_UNROLL for (int64_t i = 0; i < vectors; i++) {
                int64_t p = panel + i / WEIGHT_VECTORS, j = i % WEIGHT_VECTORS;
                v8f value = load(w.stored, (p * t.depth + k) * MCP26_NR + 8 * j);
                if (w.zero) value = value - weight_parameter(w, w.zero, t.depth, p, block, j);
                if (w.scale) value = value * weight_parameter(w, w.scale, t.depth, p, block, j);
                MCP26_UNROLL for (int64_t m = 0; m < rows; m++) {
                    sums[m * vectors + i] = v8f_fma(v8f_splat(a[m * lda + k]), value, sums[m * vectors + i]);
                }
            }
        }
    }
    float copy[8 * WEIGHT_SUMS];
    MCP26_UNROLL for (int64_t i = 0; i < rows * vectors; i++) v8f_store_all(copy + 8 * i, sums[i]);
    MCP26_ROLL for (int64_t m = 0; m < rows; m++) {
        for (int64_t i = 0; i < vectors && n + 8 * i < t.columns; i++) {
            int64_t lanes = mcp26_min(8, t.columns - n - 8 * i);
            v8f sum = v8f_load_all(copy + 8 * (m * vectors + i));
            v8f_store(t.c + m * t.ldc + n + 8 * i, epilogue(sum, t.args, m, t.column0 + n + 8 * i, lanes), lanes);
        }
    }
}

/* C[M, N] (rows ldc elements apart) = epilogue(A[M, K] (rows lda apart) x weights). Units: weight_units. */
MCP26_INLINE void gemm_weights(int64_t M, int64_t N, int64_t K, const float *a, int64_t lda, weight_panels w,
                               weight_load load, float *c, int64_t ldc, mcp26_epilogue epilogue,
                               const void *const *args, float *scratch, int64_t begin, int64_t end) {
    gemm_left left = {a, lda, MCP26_NR, K, 0};
    tile_product t = {.rows = M, .columns = N, .depth = K, .left = &left, .panel_stride = K * MCP26_NR, .c = c,
                      .ldc = ldc, .args = args};
    if (M > WEIGHT_FEW || M == 0) {
        weight_units_run(t, w, load, gemm_source, epilogue, scratch, begin, end);
        return;
    }
    int64_t group = weight_group(M, N, K), p = begin * group;
    int64_t last = mcp26_min(mcp26_ceil_div(N, MCP26_NR), end * group);
#define WEIGHT_ROWS(R)                                                                                             \
    if (M == R) {                                                                                                  \
        enum { ABREAST_##R = (R == 1 ? 64 : R == 2 ? 32 : 16) / MCP26_NR };                                                      \
        for (; p + ABREAST_##R <= last; p += ABREAST_##R)                                                          \
            weight_rows(t, a, lda, w, load, epilogue, R, ABREAST_##R, p * MCP26_NR);                               \
        for (; p < last; p++) weight_rows(t, a, lda, w, load, epilogue, R, 1, p * MCP26_NR);                       \
    }
    WEIGHT_ROWS(1)
    WEIGHT_ROWS(2)
    WEIGHT_ROWS(3)
    WEIGHT_ROWS(4)
#undef WEIGHT_ROWS
}

MCP26_INLINE int64_t conv_weights_group_units(conv_shape s) {
    return weight_units(s.batch * s.out_h * s.out_w, s.out_c / s.groups, s.kernel_h * s.kernel_w * (s.in_c / s.groups));
}
MCP26_INLINE int64_t conv_weights_units(conv_shape s) { return s.groups * conv_weights_group_units(s); }

/* conv_f32 with the groups' panels one behind the other. Units: conv_weights_units. `scratch`: depth * TILE_WIDTH floats. */
MCP26_INLINE void conv_weights(conv_shape s, const float *x, weight_panels w, weight_load load, const float *zeros,
                               float *y, mcp26_epilogue epilogue, const void *const *args, float *scratch,
                               int64_t begin, int64_t end) {
    int64_t units = conv_weights_group_units(s), depth = s.in_c / s.groups, channels = s.out_c / s.groups;
    int64_t taps = s.kernel_h * s.kernel_w;
    for (int64_t u = begin; u < end;) {
        int64_t g = u / units, first = u % units, last = mcp26_min(units, first + end - u);
        conv_left left = {s, x + g * depth, zeros, depth};
        tile_product t = {.rows = s.batch * s.out_h * s.out_w, .columns = channels, .depth = taps * depth,
                          .left = &left, .panel_stride = taps * depth * MCP26_NR, .c = y + g * channels,
                          .ldc = s.y_pixel, .args = args, .column0 = g * channels};
        w.first = g * mcp26_ceil_div(channels, MCP26_NR);
        weight_units_run(t, w, load, conv_source, epilogue, scratch, first, last);
        u += last - first;
    }
}

#endif
