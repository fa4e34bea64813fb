/* tile_f16.h: the register-tiled product of float16 operands, which float16 GEMM and convolution share.
 *
 * PACKED weights of [K, N] with a bias of N: in panels of HALF_NR columns, whose first row is the bias,
 *
 *     packed[ceil(N / HALF_NR)][1 + K][HALF_NR], zero beyond N
 *
 * SUMS start from the bias. They are taken in float16 over blocks of at most HALF_BLOCK terms where the processor has
 * such arithmetic (FEAT_FP16), in float32 elsewhere; blocks are added in float32. The result is rounded to float16
 * before the epilogue, whose acc is a float16 held as float32. So results depend on the processor within a rounding of
 * the partial sums, but neither on the tile nor on the split among threads.
 *
 * UNITS: row blocks x panel groups, as in tile_product.h.
 */
#ifndef MCP26_TILE_F16_H
#define MCP26_TILE_F16_H

#include "narrow.h"
#include "tile_product.h"

/* half_scalar, half_vector: what one half and eight are computed in. HALF_PACKS: whether there are packed rows. */
#if defined(__ARM_FEATURE_FP16_VECTOR_ARITHMETIC)
#define HALF_PACKS TILE_PACKS
typedef v8h half_vector;
typedef _Float16 half_scalar;
MCP26_INLINE half_vector half_load_all(const uint16_t *p) { return (v8h)v8w_load_all(p); }
MCP26_INLINE half_vector half_load(const uint16_t *p, int64_t lanes) { return (v8h)v8w_load(p, lanes); }
MCP26_INLINE v8f half_widened(half_vector v) { return __builtin_convertvector(v, v8f); }
MCP26_INLINE v8w half_narrowed(half_vector v) { return (v8w)v; }
MCP26_INLINE half_vector half_rounded(v8f v) { return __builtin_convertvector(v, v8h); }
#else
#define HALF_PACKS 0
typedef v8f half_vector;
typedef float half_scalar;
MCP26_INLINE half_vector half_load_all(const uint16_t *p) { return v8f_from_half(v8w_load_all(p)); }
MCP26_INLINE half_vector half_load(const uint16_t *p, int64_t lanes) { return v8f_from_half(v8w_load(p, lanes)); }
MCP26_INLINE v8f half_widened(half_vector v) { return v; }
MCP26_INLINE v8w half_narrowed(half_vector v) { return half_from_v8f(v); }
MCP26_INLINE half_vector half_rounded(v8f v) { return v8f_from_half(half_from_v8f(v)); }
#endif

enum {
    HALF_NR = 16,     /* columns of a panel: two registers */
    HALF_MR = 8,      /* rows of a tile: 16 of 32 registers accumulate, and lanes are of the lower 16 */
    HALF_WIDTH = 64,  /* columns across a tile, at most */
    HALF_LOW = 3,     /* up to so many rows tiles are wider */
    HALF_EIGHT = 8,   /* columns of a packed row that lie together */
    HALF_PANELS = 8,  /* panels that meet packed rows at once */
    HALF_BLOCK = 256,
    HALF_SUMS = HALF_MR * HALF_NR /* elements of any tile */
};

/* What an epilogue is that needs no operands: sums are cut off at `low` and `high`, infinite where they are not. */
typedef struct {
    float low, high;
} half_bounds;

#define HALF_UNBOUNDED {-__builtin_inff(), __builtin_inff()}

/* Bounds in registers. */
typedef struct {
    half_vector low, high;
} half_range;

MCP26_INLINE half_range half_range_of(half_bounds bounds) {
    return (half_range){(half_vector)(half_scalar)bounds.low, (half_vector)(half_scalar)bounds.high};
}

MCP26_INLINE half_vector half_bounded(half_vector v, half_range range) {
    return __builtin_elementwise_minimum(__builtin_elementwise_maximum(v, range.low), range.high);
}

/* Where results go: float32 if `is_wide`, else float16. Sums are bounded first; `is_bounded`: that is all there is to
 * do to them, and there is no epilogue. */
typedef struct {
    void *to;
    int64_t is_wide, is_bounded;
    half_bounds bounds;
} half_result;

MCP26_INLINE half_result half_result_at(half_result y, int64_t i) {
    y.to = y.is_wide ? (void *)((float *)y.to + i) : (uint16_t *)y.to + i;
    return y;
}

/* What a core does, V registers across: `tiles` tiles of the same panels, one behind the other,
 *
 *     c[i][j] = bounded(bias[j] + sum over t < taps, k < depth of a[t * HALF_MR + i][k] * B[t * depth + k][j])
 *
 * for i < rows, j < 8 V. Rows of c are ldc elements apart, panels at b and their biases panel_stride. From tile to tile
 * c moves on by its rows and every a by a_step. With `goes_on` sums start from `wide`[rows][8 V] instead of the bias;
 * with `goes_further` they are left there. */
typedef struct {
    const uint16_t *const *a;
    int64_t taps, depth, a_step;
    const uint16_t *b, *bias;
    int64_t panel_stride;
    uint16_t *c;
    int64_t ldc, tiles;
    half_bounds bounds;
    int64_t goes_on, goes_further;
    float *wide;
} half_task;

#define HALF_DECLARE(V) \
    __attribute__((visibility("hidden"))) void mcp26_half_##V(int64_t rows, const half_task *task);
HALF_DECLARE(1)
HALF_DECLARE(2)
HALF_DECLARE(4)
HALF_DECLARE(8)

MCP26_INLINE void half_core(int64_t rows, int64_t vectors, half_task task) {
    float wide[HALF_SUMS] __attribute__((aligned(64)));
    if (task.wide == NULL) task.wide = wide;
    if (vectors == 1) mcp26_half_1(rows, &task);
    if (vectors == 2) mcp26_half_2(rows, &task);
    if (vectors == 4) mcp26_half_4(rows, &task);
    if (vectors == 8) mcp26_half_8(rows, &task);
}

#if HALF_PACKS
/* PACKED ROWS, in eights of columns, so that any eight columns are loaded by few instructions and lie together:
 *
 *     packed[depth / HALF_EIGHT][rows][HALF_EIGHT],   rows <= HALF_MR
 *
 * which is how pairs of halves lie in those of tile.h, so that what packs floats packs these. What `panels` panels, one behind the other, do with them:
 *
 *     c[i][p * HALF_NR + j] = bounded(bias[j] + sum over k < depth of packed row i's column k * B[k][j])
 *
 * `goes_on`, `goes_further` and `wide`[panels][HALF_SUMS] are as in half_task; depth is at most HALF_BLOCK. */
typedef struct {
    const uint16_t *packed;
    int64_t depth;
    const uint16_t *b, *bias;
    int64_t panel_stride, panels;
    uint16_t *c;
    int64_t ldc;
    half_bounds bounds;
    int64_t goes_on, goes_further;
    float *wide;
} half_packed_task;

__attribute__((visibility("hidden"))) void mcp26_half_packed(int64_t rows, const half_packed_task *task);

/* sums[i][j] = the product of row i and column j of one panel, where each `chain` columns, a multiple of HALF_EIGHT, are
 * a chain of their own, whose sums are added in order, all of float16. */
__attribute__((visibility("hidden"))) void mcp26_half_parts(int64_t rows, uint16_t *sums, const uint16_t *packed,
                                                            int64_t depth, int64_t chain, const uint16_t *b);
#endif

/* HALF_MR rows of one panel, where columns of A lie as vectors at x + offsets[k]; one block of sums. */
__attribute__((visibility("hidden"))) void mcp26_half_few(const uint16_t *x, const int32_t *offsets, int64_t depth,
                                                          const uint16_t *b, uint16_t *c, int64_t ldc,
                                                          half_bounds bounds);

/* What a kernel brings: `tiles` tiles from row m on of its left operand, times the panels of `task`, whose a, taps,
 * depth and a_step it sets. */
typedef void (*half_source)(const void *left, half_task task, int64_t rows, int64_t vectors, int64_t m);

/* The same operand, columns k ... k+depth-1, as packed rows. Both are multiples of HALF_EIGHT. */
typedef void (*half_packer)(const void *left, uint16_t *packed, int64_t rows, int64_t m, int64_t k, int64_t depth);

/* A product. `is_run`: rows of A follow each other, so that one call of a core may do many tiles. */
typedef struct {
    int64_t rows, columns, depth;
    const void *left;
    const uint16_t *packed;
    half_result y;
    int64_t ldc, is_run;
    const void *const *args;
    int64_t row0, column0;
} half_product;

/* Eight sums through the epilogue to row m, column n of C. */
MCP26_INLINE void half_store(half_product t, mcp26_epilogue epilogue, v8w sums, int64_t m, int64_t n, int64_t lanes) {
    v8f v = epilogue(v8f_from_half(sums), t.args, t.row0 + m, t.column0 + n, lanes);
    if (t.y.is_wide)
        v8f_store((float *)t.y.to + m * t.ldc + n, v, lanes);
    else
        v8w_store((uint16_t *)t.y.to + m * t.ldc + n, half_from_v8f(v), lanes);
}

/* C[m ...][n ...] = epilogue(sums), whose rows are `width` apart. */
MCP26_INLINE void half_finish(half_product t, mcp26_epilogue epilogue, const uint16_t *sums, int64_t width,
                              int64_t rows, int64_t columns, int64_t m, int64_t n) {
    MCP26_ROLL for (int64_t i = 0; i < rows; i++) {
        int64_t j = 0;
        for (; j + 8 <= columns; j += 8) half_store(t, epilogue, v8w_load_all(sums + i * width + j), m + i, n + j, 8);
        if (j < columns) half_store(t, epilogue, v8w_load_all(sums + i * width + j), m + i, n + j, columns - j);
    }
}

/* Registers across the next tiles, with `columns` left: a few rows alone would wait for their own sums. */
MCP26_INLINE int64_t half_vectors(int64_t rows, int64_t columns) {
    if (rows == 1 && columns >= 4 * HALF_NR) return 8;
    if (rows <= HALF_LOW && columns >= 2 * HALF_NR) return 4;
    return columns <= 8 ? 1 : 2;
}

MCP26_INLINE int64_t half_blocks(int64_t rows) { return mcp26_max(1, tile_cut(rows, HALF_MR).tiles / TILE_BLOCK); }

/* Panels of a group: enough for a unit to be worth its while. */
MCP26_INLINE int64_t half_group(int64_t rows, int64_t columns, int64_t depth) {
    int64_t blocks = half_blocks(rows), work = mcp26_max(1, rows / blocks * depth * HALF_NR);
    int64_t flight = half_vectors(rows, HALF_WIDTH) * 8 / HALF_NR;
#if HALF_PACKS
    int64_t panels = mcp26_max(1, mcp26_ceil_div(columns, HALF_NR)), panel = mcp26_max(1, depth * HALF_NR);
    if (rows > HALF_LOW) return tile_even_group(panels, tile_packed_group(rows, blocks, panels, panel, 2));
#endif
    int64_t worth = mcp26_ceil_div(2 * TILE_UNIT_WORK, work * flight) * flight;
    return mcp26_max(1, mcp26_min(worth, mcp26_ceil_div(columns, HALF_NR)));
}

MCP26_INLINE int64_t half_units(int64_t rows, int64_t columns, int64_t depth) {
    if (rows == 0) return 0;
    return half_blocks(rows) * mcp26_ceil_div(mcp26_ceil_div(columns, HALF_NR), half_group(rows, columns, depth));
}

/* Tiles `from` ... `to`-1 of the cut, all of one height, `columns` columns from n on. */
MCP26_INLINE void half_strip(half_product t, half_source source, mcp26_epilogue epilogue, tile_rows cut, int64_t from,
                             int64_t to, int64_t vectors, int64_t columns, int64_t n) {
    half_task task = {.panel_stride = (1 + t.depth) * HALF_NR, .bounds = t.y.bounds};
    task.bias = t.packed + n / HALF_NR * task.panel_stride, task.b = task.bias + HALF_NR;
    int64_t is_direct = t.y.is_bounded && columns == 8 * vectors, step = is_direct && t.is_run ? to - from : 1;
    for (int64_t i = from; i < to; i += step) {
        uint16_t sums[HALF_SUMS] __attribute__((aligned(64)));
        int64_t m = tile_top(cut, i), rows = tile_top(cut, i + 1) - m;
        task.tiles = step;
        task.c = is_direct ? (uint16_t *)t.y.to + m * t.ldc + n : sums;
        task.ldc = is_direct ? t.ldc : 8 * vectors;
        source(t.left, task, rows, vectors, m);
        if (is_direct) continue;
        if (columns == HALF_NR)
            half_finish(t, epilogue, sums, HALF_NR, rows, HALF_NR, m, n);
        else
            half_finish(t, epilogue, sums, 8 * vectors, rows, columns, m, n);
    }
}

#if HALF_PACKS
/* Rows m ... m+rows-1, columns first ... last-1: packed rows meet all panels. */
MCP26_INLINE void half_band(half_product t, half_packer pack, mcp26_epilogue epilogue, int64_t m, int64_t rows,
                            int64_t first, int64_t last) {
    uint16_t packed[HALF_MR * HALF_BLOCK] __attribute__((aligned(64)));
    uint16_t sums[HALF_PANELS * HALF_SUMS] __attribute__((aligned(64)));
    float wide[HALF_PANELS * HALF_SUMS] __attribute__((aligned(64)));
    half_packed_task task = {.packed = packed, .panel_stride = (1 + t.depth) * HALF_NR, .bounds = t.y.bounds,
                             .wide = wide};
    for (int64_t n = first; n < last; n += HALF_PANELS * HALF_NR) {
        int64_t columns = mcp26_min(last - n, HALF_PANELS * HALF_NR);
        int64_t is_direct = t.y.is_bounded && columns % HALF_NR == 0;
        task.panels = mcp26_ceil_div(columns, HALF_NR);
        task.c = is_direct ? (uint16_t *)t.y.to + m * t.ldc + n : sums;
        task.ldc = is_direct ? t.ldc : HALF_PANELS * HALF_NR;
        task.bias = t.packed + n / HALF_NR * task.panel_stride;
        for (int64_t k = 0; k < t.depth || k == 0; k += HALF_BLOCK) {
            task.depth = mcp26_min(HALF_BLOCK, t.depth - k), task.b = task.bias + (1 + k) * HALF_NR;
            task.goes_on = k > 0, task.goes_further = k + HALF_BLOCK < t.depth;
            if (n == first || t.depth > HALF_BLOCK) pack(t.left, packed, rows, m, k, task.depth);
            mcp26_half_packed(rows, &task);
        }
        if (!is_direct) half_finish(t, epilogue, sums, HALF_PANELS * HALF_NR, rows, columns, m, n);
    }
}
#endif

/* Units begin ... end-1 of the product. `pack` may be NULL. */
MCP26_INLINE void half_units_run(half_product t, half_source source, half_packer pack, mcp26_epilogue epilogue,
                                 int64_t begin, int64_t end) {
    (void)pack;
    int64_t blocks = half_blocks(t.rows), group = half_group(t.rows, t.columns, t.depth);
    int64_t panels = mcp26_ceil_div(t.columns, HALF_NR), groups = mcp26_ceil_div(panels, group);
    tile_rows cut = tile_cut(t.rows, HALF_MR);
    for (int64_t u = begin; u < end; u++) {
        int64_t from = u / groups * cut.tiles / blocks, to = (u / groups + 1) * cut.tiles / blocks;
        int64_t middle = mcp26_max(from, mcp26_min(to, cut.taller));
        int64_t n = u % groups * group * HALF_NR, last = mcp26_min(t.columns, n + group * HALF_NR);
#if HALF_PACKS
        if (pack && t.rows > HALF_LOW) {
            for (int64_t i = from; i < to; i++) {
                half_band(t, pack, epilogue, tile_top(cut, i), tile_top(cut, i + 1) - tile_top(cut, i), n, last);
            }
            continue;
        }
#endif
        while (n < last) {
            int64_t vectors = half_vectors(t.rows, last - n), columns = mcp26_min(8 * vectors, last - n);
            for (int64_t part = 0; part < 2; part++) {
                half_strip(t, source, epilogue, cut, part ? middle : from, part ? to : middle, vectors, columns, n);
            }
            n += columns;
        }
    }
}

#endif
