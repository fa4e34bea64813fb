/* tile.h: the register-tiled product that GEMM, convolution and matrix multiplication share.
 *
 * PACKED weights of [K, N] (row-major, K outermost):
 *
 *     packed[ceil(N / MCP26_NR)][K][MCP26_NR],   packed[p][k][j] = B[k][p * MCP26_NR + j], zero where that is beyond N
 *
 * Every result is one chain of fused multiply-adds over k = 0 ... K-1, starting from +0, whatever the tile: results do not
 * depend on the ISA, on M, on the split among threads.
 *
 * UNITS (begin, end of a kernel): the result is cut into blocks of TILE rows x panel groups; unit u is row block
 * u / groups, panel group u % groups. A block of rows of A stays in L2 while it meets its panels.
 */
#ifndef MCP26_TILE_H
#define MCP26_TILE_H

#include "simd.h"

#if defined(__x86_64__)
#define MCP26_NR 16 /* columns of a panel */
#define MCP26_MR 6  /* rows of a tile: 12 of 16 registers accumulate */
#else
#define MCP26_NR 8
#define MCP26_MR 8 /* 16 of 32 registers accumulate */
#endif

enum {
    TILE_VECTORS = MCP26_NR / 8,
    TILE_MAX = 12,                 /* accumulators of the largest tile */
    TILE_BLOCK_BYTES = 128 * 1024, /* of A, in L2 */
    TILE_BLOCK_ROWS = 96,          /* at most; a multiple of every tile's rows */
    TILE_UNIT_WORK = 1 << 19       /* multiply-adds that are worth a unit of their own */
};

/* acc[i * vectors + j] += sum over k of a[i][k] * b[k * b_step + column(j)], for rows x vectors of 8 columns. Vector j is
 * in panel j / TILE_VECTORS, panels are `panel_stride` elements apart. `columns` of B exist. */
#define TILE_B(k, j)                                                                             \
    v8f_load(b + (k) * b_step + (j) / TILE_VECTORS * panel_stride + (j) % TILE_VECTORS * 8, \
             mcp26_min(8, columns - (j) * 8))
MCP26_INLINE void tile_accumulate(v8f *acc, int64_t rows, int64_t vectors, const float *const *a, const float *b,
                                  int64_t b_step, int64_t panel_stride, int64_t columns, int64_t depth) {
    int64_t k = 0;
#if defined(__aarch64__)
    /* Four columns of A a load, multiplied by lane: loads would be the limit otherwise. */
#define TILE_LANE(lane)                                                                                    \
    {                                                                                                      \
        v8f bv[4];                                                                                         \
        MCP26_UNROLL for (int64_t j = 0; j < vectors; j++) bv[j] = TILE_B(k + lane, j);                    \
        MCP26_UNROLL for (int64_t i = 0; i < rows; i++) {                                                  \
            v8f av = __builtin_shufflevector(four[i], four[i], lane, lane, lane, lane, lane, lane, lane, lane); \
            MCP26_UNROLL for (int64_t j = 0; j < vectors; j++) {                                           \
                acc[i * vectors + j] = v8f_fma(av, bv[j], acc[i * vectors + j]);                           \
            }                                                                                              \
        }                                                                                                  \
    }
    for (; k + 4 <= depth; k += 4) {
        v4f four[TILE_MAX];
        MCP26_UNROLL for (int64_t i = 0; i < rows; i++) {
            __builtin_memcpy(&four[i], a[i] + k, sizeof four[i]);
        }
        TILE_LANE(0)
        TILE_LANE(1)
        TILE_LANE(2)
        TILE_LANE(3)
    }
#undef TILE_LANE
#endif
    for (; k < depth; k++) {
        v8f bv[8];
        MCP26_UNROLL for (int64_t j = 0; j < vectors; j++) bv[j] = TILE_B(k, j);
        MCP26_UNROLL for (int64_t i = 0; i < rows; i++) {
            v8f av = a[i][k];
            MCP26_UNROLL for (int64_t j = 0; j < vectors; j++) {
                acc[i * vectors + j] = v8f_fma(av, bv[j], acc[i * vectors + j]);
            }
        }
    }
}
#undef TILE_B

/* What a kernel brings: acc += rows m ... m+rows-1 of its left operand times the panels at b. */
typedef void (*tile_source)(const void *left, v8f *acc, int64_t rows, int64_t vectors, int64_t m, const float *b,
                            int64_t panel_stride, int64_t columns);

/* The result's side of a product. `column0` is what the epilogue's n starts from (a group's first channel). */
typedef struct {
    int64_t rows, columns, depth;
    tile_source source;
    const void *left;
    const float *b;
    int64_t panel_stride;
    float *c;
    int64_t ldc;
    mcp26_epilogue epilogue;
    const void *const *args;
    int64_t row0, column0;
} tile_product;

/* One tile: rows x vectors at (m, n), of which `columns` columns exist. */
MCP26_INLINE void tile_run(tile_product t, int64_t rows, int64_t vectors, int64_t columns, int64_t m, int64_t n) {
    v8f acc[TILE_MAX];
    MCP26_UNROLL for (int64_t i = 0; i < rows * vectors; i++) acc[i] = 0.0f;
    t.source(t.left, acc, rows, vectors, m, t.b + n / MCP26_NR * t.panel_stride, t.panel_stride, columns);
    MCP26_UNROLL for (int64_t i = 0; i < rows; i++) {
        v8f done[8];
        MCP26_UNROLL for (int64_t j = 0; j < vectors; j++) {
            done[j] = t.epilogue(acc[i * vectors + j], t.args, t.row0 + m + i, t.column0 + n + 8 * j,
                                 mcp26_min(8, columns - 8 * j));
        }
        MCP26_UNROLL for (int64_t j = 0; j < vectors; j++) {
            v8f_store(t.c + (m + i) * t.ldc + n + 8 * j, done[j], mcp26_min(8, columns - 8 * j));
        }
    }
}

/* `count` tiles of `rows` rows, down from m. */
MCP26_INLINE void tile_repeat(tile_product t, int64_t rows, int64_t vectors, int64_t columns, int64_t m, int64_t n,
                              int64_t count) {
#define TILE_CASE(R)                                                                          \
    if (rows == R && R * vectors <= TILE_MAX) {                                               \
        for (int64_t i = 0; i < count; i++) tile_run(t, R, vectors, columns, m + i * R, n);   \
        return;                                                                               \
    }
    TILE_CASE(1) TILE_CASE(2) TILE_CASE(3) TILE_CASE(4) TILE_CASE(5) TILE_CASE(6)
    TILE_CASE(7) TILE_CASE(8) TILE_CASE(9) TILE_CASE(10) TILE_CASE(11) TILE_CASE(12)
#undef TILE_CASE
}

/* Rows m0 ... m0+rows-1 in tiles of nearly equal height: a last tile of one or two rows would wait for its own sums. */
MCP26_INLINE void tile_column(tile_product t, int64_t vectors, int64_t columns, int64_t m0, int64_t rows, int64_t n) {
    int64_t height = vectors * MCP26_MR <= TILE_MAX ? mcp26_min(TILE_MAX, MCP26_MR * TILE_VECTORS / vectors) : TILE_MAX / vectors;
    int64_t tiles = mcp26_ceil_div(rows, height), low = rows / tiles, taller = rows % tiles;
    if (taller) tile_repeat(t, low + 1, vectors, columns, m0, n, taller);
    tile_repeat(t, low, vectors, columns, m0 + taller * (low + 1), n, tiles - taller);
}

/* Panels in flight: one row alone would wait for its own sums. */
MCP26_INLINE int64_t tile_flight(int64_t rows) { return rows == 1 ? 4 : rows <= 3 ? 2 : 1; }

MCP26_INLINE int64_t tile_block_rows(int64_t depth) {
    int64_t fit = TILE_BLOCK_BYTES / (4 * mcp26_max(depth, 1)) / 24 * 24;
    return mcp26_max(24, mcp26_min(TILE_BLOCK_ROWS, fit));
}

MCP26_INLINE int64_t tile_group_panels(int64_t rows, int64_t columns, int64_t depth) {
    int64_t panel = mcp26_min(rows, tile_block_rows(depth)) * mcp26_max(depth, 1) * MCP26_NR;
    int64_t flight = tile_flight(rows);
    int64_t worth = mcp26_ceil_div(mcp26_ceil_div(TILE_UNIT_WORK, panel), flight) * flight;
    return mcp26_max(1, mcp26_min(worth, mcp26_ceil_div(columns, MCP26_NR)));
}

MCP26_INLINE int64_t tile_units(int64_t rows, int64_t columns, int64_t depth) {
    return mcp26_ceil_div(rows, tile_block_rows(depth)) *
           mcp26_ceil_div(mcp26_ceil_div(columns, MCP26_NR), tile_group_panels(rows, columns, depth));
}

/* Rows m ... m+rows-1 against panels first ... last-1. */
MCP26_INLINE void tile_block(tile_product t, int64_t m, int64_t rows, int64_t first, int64_t last) {
    int64_t full = mcp26_min(last, t.columns / MCP26_NR), flight = tile_flight(t.rows), p = first;
    for (; p + flight <= full; p += flight) {
        tile_column(t, flight * TILE_VECTORS, flight * MCP26_NR, m, rows, p * MCP26_NR);
    }
    if (flight > 1) {
        for (; p < full; p++) tile_column(t, TILE_VECTORS, MCP26_NR, m, rows, p * MCP26_NR);
    }
    int64_t tail = t.columns % MCP26_NR;
    if (tail && p < last) tile_column(t, mcp26_ceil_div(tail, 8), tail, m, rows, p * MCP26_NR);
}

/* Units begin ... end-1 of the product. */
MCP26_INLINE void tile_units_run(tile_product t, int64_t begin, int64_t end) {
    int64_t block = tile_block_rows(t.depth), group = tile_group_panels(t.rows, t.columns, t.depth);
    int64_t panels = mcp26_ceil_div(t.columns, MCP26_NR), groups = mcp26_ceil_div(panels, group);
    int64_t whole = t.rows / block, rest = t.rows % block;
    for (int64_t u = begin; u < end; u++) {
        int64_t r = u / groups, first = u % groups * group, last = mcp26_min(panels, first + group);
        if (r < whole)
            tile_block(t, r * block, block, first, last);
        else if (rest)
            tile_block(t, r * block, rest, first, last);
    }
}

#endif
