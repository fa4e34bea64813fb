/* gemm_q8.h: products and convolutions whose weights lie in the file as small integers or floats.
 *
 * A weight is (stored - zero) * scale, rounded once: what DequantizeLinear makes. It is expanded panel by panel into
 * scratch, where all rows of a block of the left operand meet it as they would meet a float panel: so results are the
 * same to the last bit as with weights that were expanded beforehand, and the work of expanding is shared by the rows
 * of a block. (To scale the sums instead would save a multiplication a weight, but round differently and leave out
 * scales that change along the depth.) One row alone multiplies what it expands in registers.
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
/* Four bits a number: eight of them in a word, the first in its lowest bits. */
MCP26_INLINE v8u weight_word(const void *stored, int64_t i) {
    uint32_t word;
    __builtin_memcpy(&word, (const uint8_t *)stored + i / 2, sizeof word);
    return v8u_splat(word);
}
MCP26_INLINE v8f weight_load_u4(const void *stored, int64_t i) {
    return v8f_from_v8i((v8i)(weight_word(stored, i) >> (v8u){0, 4, 8, 12, 16, 20, 24, 28} & 15u));
}
MCP26_INLINE v8f weight_load_i4(const void *stored, int64_t i) {
    return v8f_from_v8i((v8i)(weight_word(stored, i) << (v8u){28, 24, 20, 16, 12, 8, 4, 0}) >> 28);
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
MCP26_INLINE v8f weight_load_e5m2(const void *stored, int64_t i) {
    return v8f_from_e5m2(v8b_load_all((const uint8_t *)stored + i));
}

enum { WEIGHT_VECTORS = MCP26_NR / 8 }; /* vectors across a panel */

/* Vector j of row k, which is in block `block`, of a panel. */
MCP26_INLINE v8f weight_at(weight_panels w, weight_load load, int64_t depth, int64_t panel, int64_t block, int64_t k,
                           int64_t j) {
    int64_t blocks = mcp26_ceil_div(depth, w.block);
    int64_t at = w.is_per_column ? (panel * blocks + block) * MCP26_NR + 8 * j : block;
    v8f value = load(w.stored, (panel * depth + k) * MCP26_NR + 8 * j);
    if (w.zero) value = value - (w.is_per_column ? v8f_load_all(w.zero + at) : v8f_splat(w.zero[at]));
    if (w.scale) value = value * (w.is_per_column ? v8f_load_all(w.scale + at) : v8f_splat(w.scale[at]));
    return value;
}

/* Panel `panel` as floats, [depth][MCP26_NR]. */
MCP26_INLINE void weight_expand(weight_panels w, weight_load load, int64_t depth, int64_t panel, float *to) {
    for (int64_t block = 0; block * w.block < depth; block++) {
        int64_t end = mcp26_min(depth, (block + 1) * w.block);
        for (int64_t k = block * w.block; k < end; k++) {
            MCP26_UNROLL for (int64_t j = 0; j < WEIGHT_VECTORS; j++) {
                v8f_store_all(to + k * MCP26_NR + 8 * j, weight_at(w, load, depth, w.first + panel, block, k, j));
            }
        }
    }
}

/* Units begin ... end-1 of the product, as tile_units_run has them. `scratch`: depth * MCP26_NR floats. */
MCP26_INLINE void weight_units_run(tile_product t, weight_panels w, weight_load load, tile_source source,
                                   mcp26_epilogue epilogue, float *scratch, int64_t begin, int64_t end) {
    int64_t blocks = tile_blocks(t.rows), group = tile_group(t.rows, t.columns, t.depth);
    int64_t panels = mcp26_ceil_div(t.columns, MCP26_NR), groups = mcp26_ceil_div(panels, group);
    tile_rows cut = tile_cut(t.rows, MCP26_MR);
    for (int64_t u = begin; u < end; u++) {
        int64_t from = u / groups * cut.tiles / blocks, to = (u / groups + 1) * cut.tiles / blocks;
        int64_t p = u % groups * group, last = mcp26_min(panels, p + group);
        for (; p < last; p++) {
            int64_t n = p * MCP26_NR, columns = mcp26_min(MCP26_NR, t.columns - n);
            tile_product panel = t;
            panel.b = scratch, panel.c = t.c + n, panel.column0 = t.column0 + n;
            weight_expand(w, load, t.depth, p, scratch);
            tile_strip(panel, source, epilogue, cut, from, to, columns <= TILE_LANES ? 1 : TILE_VECTORS, columns, 0);
        }
    }
}

/* Columns of `count` panels from column n on of the product of one row. */
MCP26_INLINE void weight_row(tile_product t, const float *a, weight_panels w, weight_load load,
                             mcp26_epilogue epilogue, int64_t count, int64_t n) {
    enum { MOST = 8 };
    v8f sums[MOST];
    MCP26_UNROLL for (int64_t i = 0; i < count * WEIGHT_VECTORS; i++) sums[i] = 0.0f;
    int64_t panel = w.first + n / MCP26_NR;
    for (int64_t block = 0; block * w.block < t.depth; block++) {
        int64_t end = mcp26_min(t.depth, (block + 1) * w.block);
        for (int64_t k = block * w.block; k < end; k++) {
            v8f left = a[k];
            MCP26_UNROLL for (int64_t i = 0; i < count * WEIGHT_VECTORS; i++) {
                v8f right = weight_at(w, load, t.depth, panel + i / WEIGHT_VECTORS, block, k,
                                      i % WEIGHT_VECTORS);
                sums[i] = v8f_fma(left, right, sums[i]);
            }
        }
    }
    float copy[8 * MOST];
    MCP26_UNROLL for (int64_t i = 0; i < count * WEIGHT_VECTORS; i++) v8f_store_all(copy + 8 * i, sums[i]);
    MCP26_ROLL for (int64_t i = 0; i < count * MCP26_NR && n + i < t.columns; i += 8) {
        int64_t lanes = mcp26_min(8, t.columns - n - i);
        v8f result = epilogue(v8f_load_all(copy + i), t.args, t.row0, t.column0 + n + i, lanes);
        v8f_store(t.c + n + i, result, lanes);
    }
}

/* C[M, N] (rows ldc elements apart) = epilogue(A[M, K] (rows lda apart) x weights). Units: gemm_f32_units. */
MCP26_INLINE void gemm_weights(int64_t M, int64_t N, int64_t K, const float *a, int64_t lda, weight_panels w,
                               weight_load load, float *c, int64_t ldc, mcp26_epilogue epilogue,
                               const void *const *args, float *scratch, int64_t begin, int64_t end) {
    enum { ABREAST = 64 / MCP26_NR };
    gemm_left left = {a, lda, MCP26_NR, K, 0};
    tile_product t = {.rows = M, .columns = N, .depth = K, .left = &left, .panel_stride = K * MCP26_NR, .c = c,
                      .ldc = ldc, .args = args};
    if (M != 1) {
        weight_units_run(t, w, load, gemm_source, epilogue, scratch, begin, end);
        return;
    }
    int64_t group = tile_group(1, N, K), panels = mcp26_ceil_div(N, MCP26_NR);
    int64_t p = begin * group, last = mcp26_min(panels, end * group);
    for (; p + ABREAST <= last; p += ABREAST) weight_row(t, a, w, load, epilogue, ABREAST, p * MCP26_NR);
    for (; p < last; p++) weight_row(t, a, w, load, epilogue, 1, p * MCP26_NR);
}

/* conv_f32 with the groups' panels one behind the other. Units: conv_f32_units. `scratch`: a panel's floats. */
MCP26_INLINE void conv_weights(conv_shape s, const float *x, weight_panels w, weight_load load, const float *zeros,
                               float *y, mcp26_epilogue epilogue, const void *const *args, float *scratch,
                               int64_t begin, int64_t end) {
    int64_t units = conv_group_units(s), depth = s.in_c / s.groups, channels = s.out_c / s.groups;
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
