/* tile.h: the register-tiled product that GEMM, convolution and matrix multiplication share.
 *
 * PACKED weights of [K, N] (row-major, K outermost):
 *
 *     packed[ceil(N / MCP26_NR)][K][MCP26_NR],   packed[p][k][j] = B[k][p * MCP26_NR + j], zero where that is beyond N
 *
 * Every result is one chain of fused multiply-adds over k = 0 ... K-1, starting from +0, whatever the tile: results do
 * not depend on the ISA, on M, on the split among threads.
 *
 * UNITS (begin, end of a kernel): the result is cut into row blocks x panel groups; unit u is row block u / groups,
 * panel group u % groups. Within a unit each panel meets all rows of the block, so that panels are read from the
 * second cache once a block, and lines of C are complete before they leave the first.
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
    TILE_MAX = 12,                      /* accumulators of the largest tile */
    TILE_SLIM = MCP26_MR * TILE_VECTORS, /* rows of a tile of one vector */
    TILE_BLOCK = 8,                     /* tiles of a block, up to twice as many if there are no more */
    TILE_UNIT_WORK = 1 << 19            /* multiply-adds that are worth a unit of their own */
};

/* acc[i * vectors + j] += sum over k of a[i][k] * b[k * b_step + column(j)], for rows x vectors of 8 columns. Vector j
 * is in panel j / TILE_VECTORS, panels are `panel_stride` elements apart. `columns` of B exist. */
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

/* A product. `row0` and `column0` are what the epilogue's m and n start from. The two functions that belong to it are
 * passed beside it: the inliner follows a constant parameter, but only sometimes one in a structure. */
typedef struct {
    int64_t rows, columns, depth;
    const void *left;
    const float *b;
    int64_t panel_stride;
    float *c;
    int64_t ldc;
    const void *const *args;
    int64_t row0, column0;
} tile_product;

/* One tile: rows x vectors at (m, n), of which `columns` columns exist. */
MCP26_INLINE void tile_run(tile_product t, tile_source source, mcp26_epilogue epilogue, int64_t rows, int64_t vectors,
                           int64_t columns, int64_t m, int64_t n) {
    v8f acc[TILE_MAX];
    MCP26_UNROLL for (int64_t i = 0; i < rows * vectors; i++) acc[i] = 0.0f;
    source(t.left, acc, rows, vectors, m, t.b + n / MCP26_NR * t.panel_stride, t.panel_stride, columns);
    if (columns == 8 * vectors) {
        MCP26_UNROLL for (int64_t i = 0; i < rows; i++) {
            MCP26_UNROLL for (int64_t j = 0; j < vectors; j++) {
                v8f v = epilogue(acc[i * vectors + j], t.args, t.row0 + m + i, t.column0 + n + 8 * j, 8);
                v8f_store_all(t.c + (m + i) * t.ldc + n + 8 * j, v);
            }
        }
        return;
    }
    v8f copy[TILE_MAX]; /* a loop over registers would have to be unrolled, and partial vectors take much code */
    MCP26_UNROLL for (int64_t i = 0; i < rows * vectors; i++) copy[i] = acc[i];
    MCP26_ROLL for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < vectors; j++) {
            int64_t lanes = mcp26_min(8, columns - 8 * j);
            v8f v = epilogue(copy[i * vectors + j], t.args, t.row0 + m + i, t.column0 + n + 8 * j, lanes);
            v8f_store(t.c + (m + i) * t.ldc + n + 8 * j, v, lanes);
        }
    }
}

/* The rows are cut into tiles of nearly equal height (a last tile of one or two rows would wait for its own sums):
 * `taller` tiles of low + 1 rows, then tiles of `low`. */
typedef struct {
    int64_t tiles, low, taller;
} tile_rows;

MCP26_INLINE tile_rows tile_cut(int64_t rows) {
    int64_t tiles = mcp26_max(1, mcp26_ceil_div(rows, MCP26_MR));
    return (tile_rows){tiles, rows / tiles, rows % tiles};
}

MCP26_INLINE int64_t tile_top(tile_rows cut, int64_t tile) { return tile * cut.low + mcp26_min(tile, cut.taller); }

/* Tiles `from` ... `to`-1 of a whole panel, or of one with a tail of two vectors. */
MCP26_INLINE void tile_column(tile_product t, tile_source source, mcp26_epilogue epilogue, tile_rows cut, int64_t from,
                              int64_t to, int64_t columns, int64_t n) {
    for (int64_t i = from; i < to; i++) {
        int64_t rows = i < cut.taller ? cut.low + 1 : cut.low;
#define TILE_CASE(R) \
    if (rows == R && R <= MCP26_MR) tile_run(t, source, epilogue, R, TILE_VECTORS, columns, tile_top(cut, i), n);
        TILE_CASE(1) TILE_CASE(2) TILE_CASE(3) TILE_CASE(4) TILE_CASE(5) TILE_CASE(6) TILE_CASE(7) TILE_CASE(8)
#undef TILE_CASE
    }
}

/* Rows m ... end-1 of a tail of one vector: tiles are taller by the sums that a second vector would have taken. */
MCP26_INLINE void tile_slim_column(tile_product t, tile_source source, mcp26_epilogue epilogue, int64_t m, int64_t end,
                                   int64_t columns, int64_t n) {
    for (; m + TILE_SLIM <= end; m += TILE_SLIM) tile_run(t, source, epilogue, TILE_SLIM, 1, columns, m, n);
    for (; m + 4 <= end; m += 4) tile_run(t, source, epilogue, 4, 1, columns, m, n);
    for (; m < end; m++) tile_run(t, source, epilogue, 1, 1, columns, m, n);
}

/* Panels in flight: one row alone would wait for its own sums. */
MCP26_INLINE int64_t tile_flight(int64_t rows) { return rows == 1 ? 4 : rows <= 3 ? 2 : 1; }

MCP26_INLINE int64_t tile_blocks(int64_t rows) { return mcp26_max(1, tile_cut(rows).tiles / TILE_BLOCK); }

/* Panels of a group: enough for a unit to be worth its while. */
MCP26_INLINE int64_t tile_group(int64_t rows, int64_t columns, int64_t depth) {
    int64_t work = mcp26_max(1, rows / tile_blocks(rows) * depth * MCP26_NR), flight = tile_flight(rows);
    int64_t worth = mcp26_ceil_div(TILE_UNIT_WORK, work * flight) * flight;
    return mcp26_max(1, mcp26_min(worth, mcp26_ceil_div(columns, MCP26_NR)));
}

MCP26_INLINE int64_t tile_units(int64_t rows, int64_t columns, int64_t depth) {
    if (rows == 0) return 0;
    return tile_blocks(rows) * mcp26_ceil_div(mcp26_ceil_div(columns, MCP26_NR), tile_group(rows, columns, depth));
}

/* Units begin ... end-1 of the product. */
MCP26_INLINE void tile_units_run(tile_product t, tile_source source, mcp26_epilogue epilogue, int64_t begin,
                                 int64_t end) {
    int64_t blocks = tile_blocks(t.rows), group = tile_group(t.rows, t.columns, t.depth);
    int64_t panels = mcp26_ceil_div(t.columns, MCP26_NR), groups = mcp26_ceil_div(panels, group);
    int64_t tail = t.columns % MCP26_NR;
    tile_rows cut = tile_cut(t.rows);
    for (int64_t u = begin; u < end; u++) {
        int64_t from = u / groups * cut.tiles / blocks, to = (u / groups + 1) * cut.tiles / blocks;
        int64_t p = u % groups * group, last = mcp26_min(panels, p + group);
        int64_t full = mcp26_min(last, t.columns / MCP26_NR);
#define TILE_FLIGHT(R, P)                                                                                     \
    if (t.rows == R) {                                                                                        \
        for (; p + P <= full; p += P) {                                                                       \
            tile_run(t, source, epilogue, R, P * TILE_VECTORS, P * MCP26_NR, 0, p * MCP26_NR);                \
        }                                                                                                     \
    }
        TILE_FLIGHT(1, 4)
        TILE_FLIGHT(2, 2)
        TILE_FLIGHT(3, 2)
#undef TILE_FLIGHT
        for (; p < full; p++) tile_column(t, source, epilogue, cut, from, to, MCP26_NR, p * MCP26_NR);
        if (p == last || tail == 0) continue;
        if (tail <= 8)
            tile_slim_column(t, source, epilogue, tile_top(cut, from), tile_top(cut, to), tail, p * MCP26_NR);
        else
            tile_column(t, source, epilogue, cut, from, to, tail, p * MCP26_NR);
    }
}

#endif
