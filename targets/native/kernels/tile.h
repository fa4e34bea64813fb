/* tile.h: tiles of products, and the cores that sum them.
 *
 * PACKED weights of [K, N] (row-major, K outermost):
 *
 *     packed[ceil(N / MCP26_NR)][K][MCP26_NR],   packed[p][k][j] = B[k][p * MCP26_NR + j], zero where that is beyond N
 *
 * Every result is one chain of fused multiply-adds over k = 0 ... K-1, starting from +0, whatever the tile: results do
 * not depend on the ISA, on M, on the split among threads.
 *
 * CORES sum a tile of fixed height and width. They are unrolled by height, take all sizes at run time and are shared by
 * the kernels of a translation unit. What surrounds them is inlined into each kernel: tile_product.h.
 */
#ifndef MCP26_TILE_H
#define MCP26_TILE_H

#include "simd.h"

/* MCP26_NR: columns of a panel. MCP26_MR: rows of a tile. TILE_VECTORS: registers across a tile, of TILE_LANES each.
 * TILE_SLIM: rows of a tile of one register across, as many as it takes to keep the multipliers busy. TILE_FEW: rows of
 * a tile of conv_few.h, where clang loads a whole column of A at once. TILE_LOW: up to so many rows tiles are wider.
 * TILE_FINISH: rows that go through the epilogue together. TILE_PACKS: whether there are PACKED ROWS.
 * TILE_FETCHED: whether tiles are as wide as a cache line, so that none has touched what the next is going to write.
 * TILE_SPLIT: so many times lower and wider are tiles whose rows would evict one another from the first cache.
 * TILE_KEPT: floats of an operand that stays in the second cache, half of what such processors have there.
 * TILE_HEIGHTS_V: the cores V registers across. TILE_HALVES: whether some are half a register across, since a processor
 * may take twice as long for a whole one. */
#if defined(__AVX512F__)
typedef float tile_vector __attribute__((ext_vector_type(16)));
#define MCP26_NR 16
#define MCP26_MR 12 /* 24 of 32 registers accumulate */
#define TILE_HALVES 1
enum { TILE_LANES = 16, TILE_VECTORS = 2, TILE_SLIM = 12, TILE_LOW = 4, TILE_FEW = 8, TILE_FINISH = 1 };
enum { TILE_SPLIT = 2, TILE_FETCHED = 1, TILE_KEPT = 1 << 17 };
#define TILE_PACKS 0
#define TILE_HEIGHTS_1(X) TILE_TO_8(X, 1) X(1, 9) X(1, 10) X(1, 11) X(1, 12)
#define TILE_HEIGHTS_2(X) TILE_TO_8(X, 2) X(2, 9) X(2, 10) X(2, 11) X(2, 12)
#define TILE_HEIGHTS_4(X) X(4, 1) X(4, 2) X(4, 3) X(4, 4) X(4, 5) X(4, 6)
#define TILE_HEIGHTS_8(X) X(8, 1)
#elif defined(__x86_64__)
typedef v8f tile_vector;
#define MCP26_NR 16
#define MCP26_MR 6 /* 12 of 16 registers accumulate */
#define TILE_HALVES 0
enum { TILE_LANES = 8, TILE_VECTORS = 2, TILE_SLIM = 12, TILE_LOW = 3, TILE_FEW = 6, TILE_FINISH = 1 };
enum { TILE_SPLIT = 1, TILE_FETCHED = 1, TILE_KEPT = 1 << 16 };
#define TILE_PACKS 0
#define TILE_HEIGHTS_1(X) TILE_TO_8(X, 1) X(1, 9) X(1, 10) X(1, 11) X(1, 12)
#define TILE_HEIGHTS_2(X) X(2, 1) X(2, 2) X(2, 3) X(2, 4) X(2, 5) X(2, 6)
#define TILE_HEIGHTS_4(X) X(4, 1) X(4, 2) X(4, 3)
#define TILE_HEIGHTS_8(X) X(8, 1)
#else
typedef v8f tile_vector;
#define MCP26_NR 8
#define MCP26_MR 8 /* 16 of 32 registers accumulate */
#define TILE_HALVES 0
enum { TILE_LANES = 8, TILE_VECTORS = 1, TILE_SLIM = 8, TILE_LOW = 3, TILE_FEW = 8, TILE_FINISH = 4 };
enum { TILE_SPLIT = 1, TILE_FETCHED = 0, TILE_KEPT = 1 << 16 };
#define TILE_PACKS 1
#define TILE_HEIGHTS_1(X) TILE_TO_8(X, 1)
#define TILE_HEIGHTS_2(X) X(2, 1) X(2, 2) X(2, 3)
#define TILE_HEIGHTS_4(X) X(4, 1)
#define TILE_HEIGHTS_8(X)
#endif
#define TILE_TO_8(X, V) X(V, 1) X(V, 2) X(V, 3) X(V, 4) X(V, 5) X(V, 6) X(V, 7) X(V, 8)

enum {
    TILE_WIDTH = TILE_VECTORS * TILE_LANES, /* columns of a tile */
    TILE_PANELS = TILE_WIDTH / MCP26_NR,    /* panels across a tile */
    TILE_ROWS = 12,                         /* rows of any tile, at most */
    TILE_ACCUMULATORS = 24,                 /* registers that accumulate, at most */
    TILE_SUMS = TILE_ACCUMULATORS * TILE_LANES,
    TILE_BAND = TILE_SLIM / MCP26_MR,       /* tiles of a band */
    TILE_SHALLOW = 64,                      /* depth up to which a tile that a kernel sums itself pays */
    TILE_STEPS = 4,                         /* columns of A that such a tile meets in a round */
    TILE_BLOCK = 8,                         /* tiles of a block, at least, where each block fetches all weights */
    TILE_UNIT_WORK = 1 << 19,               /* multiply-adds that are worth a unit of their own */
    TILE_PACKED_WORK = 1 << 21,             /* the same where rows are packed once a unit */
    TILE_PACKED_UNITS = 16,                 /* units that a larger product is cut into */
    TILE_PACKED_GROUP = 3 << 15,            /* floats of panels that meet packed rows, at most */
    TILE_BLOCK_WORK = 1 << 18,              /* multiply-adds of a block of rows that may be any */
    TILE_GROUP = 1 << 15,                   /* floats of a group of panels */
    TILE_WAY = 1024,                        /* floats of a way of the first cache */
    TILE_LINE = 16,                         /* floats of a cache line */
    TILE_AHEAD = 2 * TILE_LINE              /* floats that four columns of A give time to fetch */
};

typedef struct {
    tile_vector v;
} __attribute__((packed, may_alias)) tile_unaligned;
MCP26_INLINE tile_vector tile_load(const float *p) { return ((const tile_unaligned *)(const void *)p)->v; }
MCP26_INLINE void tile_store(float *p, tile_vector v) { ((tile_unaligned *)(void *)p)->v = v; }

/* The cores V registers across, for each height (`ahead` as in tile_source):
 *
 *     sums[i][j] = (`goes_on` ? sums[i][j] : 0) + sum over t < taps, k < depth in this order of
 *                  a[t * TILE_ROWS + i][k] * B[t * depth + k][j]        i < rows, j < V * TILE_LANES
 *
 * Row r of B starts at b + r * b_step, its columns lie in panels of MCP26_NR that are `panel_stride` elements apart. */
#define TILE_DECLARE(V)                                                                                               \
    __attribute__((visibility("hidden"))) void mcp26_tile_##V(int64_t rows, float *sums, const float *const *a,      \
                                                              int64_t taps, int64_t depth, const float *b,           \
                                                              int64_t b_step, int64_t panel_stride, int64_t goes_on, \
                                                              const float *ahead);
TILE_DECLARE(1)
TILE_DECLARE(2)
TILE_DECLARE(4)
TILE_DECLARE(8)
#if TILE_HALVES
TILE_DECLARE(half) /* the first 8 of a register's columns; rows of sums are TILE_LANES apart all the same */
#endif

/* `columns` exist of those that the vectors have. */
MCP26_INLINE void tile_core_ahead(int64_t rows, int64_t vectors, int64_t columns, float *sums, const float *const *a,
                                  int64_t taps, int64_t depth, const float *b, int64_t b_step, int64_t panel_stride,
                                  int64_t goes_on, const float *ahead) {
#if TILE_HALVES
    if (vectors == 1 && columns <= 8) {
        mcp26_tile_half(rows, sums, a, taps, depth, b, b_step, panel_stride, goes_on, ahead);
        return;
    }
#else
    (void)columns;
#endif
    if (vectors == 1) mcp26_tile_1(rows, sums, a, taps, depth, b, b_step, panel_stride, goes_on, ahead);
    if (vectors == 2) mcp26_tile_2(rows, sums, a, taps, depth, b, b_step, panel_stride, goes_on, ahead);
    if (vectors == 4) mcp26_tile_4(rows, sums, a, taps, depth, b, b_step, panel_stride, goes_on, ahead);
    if (vectors == 8) mcp26_tile_8(rows, sums, a, taps, depth, b, b_step, panel_stride, goes_on, ahead);
}

/* The same with nothing to look ahead to. */
MCP26_INLINE void tile_core(int64_t rows, int64_t vectors, int64_t columns, float *sums, const float *const *a,
                            int64_t taps, int64_t depth, const float *b, int64_t b_step, int64_t panel_stride,
                            int64_t goes_on) {
    tile_core_ahead(rows, vectors, columns, sums, a, taps, depth, b, b_step, panel_stride, goes_on, b);
}

#if TILE_PACKS
/* PACKED ROWS, in fours of columns, so that any four columns are loaded by few instructions and lie together:
 *
 *     packed[ceil(depth / 4)][rows][4],   rows <= MCP26_MR; what is beyond the depth is not looked at */
enum {
    PACKED_DEPTH = 256, /* columns that are packed at once */
    PACKED_PANELS = 16, /* panels that meet them at once */
    PACKED_SUMS = MCP26_MR * MCP26_NR
};

/* From rows that start at a[i]. */
__attribute__((visibility("hidden"))) void mcp26_pack(int64_t rows, float *packed, const float *const *a,
                                                      int64_t depth);

/* sums[p * PACKED_SUMS + i * MCP26_NR + j] = (`goes_on` ? that : 0) + the product of row i and column j of panel p, as
 * the cores have it. Panels are `panel_stride` elements apart. */
__attribute__((visibility("hidden"))) void mcp26_packed(int64_t rows, float *sums, const float *packed, int64_t depth,
                                                        const float *b, int64_t panel_stride, int64_t panels,
                                                        int64_t goes_on);

/* sums[i][j] = the product of row i and column j of one panel, where each `chain` columns, a multiple of 4, are a chain
 * of their own, whose sums are added in order: rounding errors grow with the root of a chain's length. */
__attribute__((visibility("hidden"))) void mcp26_packed_parts(int64_t rows, float *sums, const float *packed,
                                                              int64_t depth, int64_t chain, const float *b);
#else
/* Cores with one tap, where column k of A is at offsets[k] and b_step is MCP26_NR; up to TILE_FEW rows. */
#define TILE_DECLARE_FEW(V)                                                                                           \
    __attribute__((visibility("hidden"))) void mcp26_few_##V(int64_t rows, float *sums, const float *const *a,       \
                                                             const int64_t *offsets, int64_t depth, const float *b,  \
                                                             int64_t panel_stride, int64_t goes_on);
TILE_DECLARE_FEW(1)
TILE_DECLARE_FEW(2)

MCP26_INLINE void tile_few(int64_t rows, int64_t vectors, float *sums, const float *const *a, const int64_t *offsets,
                           int64_t depth, const float *b, int64_t panel_stride, int64_t goes_on) {
    if (vectors == 1) mcp26_few_1(rows, sums, a, offsets, depth, b, panel_stride, goes_on);
    if (vectors == 2) mcp26_few_2(rows, sums, a, offsets, depth, b, panel_stride, goes_on);
}

/* Cores with one tap and b_step MCP26_NR, where each `chain` columns of A are a chain of their own, whose sums are
 * added in order: rounding errors grow with the root of a chain's length. With each TILE_STEP columns, of which a chain
 * is a multiple, `share` rows of the panels at `ahead` are fetched, for what comes next. */
enum { TILE_STEP = 16 };
#define TILE_DECLARE_PARTS(V)                                                                                         \
    __attribute__((visibility("hidden"))) void mcp26_parts_##V(int64_t rows, float *sums, const float *const *a,     \
                                                               int64_t depth, int64_t chain, const float *b,         \
                                                               int64_t panel_stride, const float *ahead,             \
                                                               int64_t share);
TILE_DECLARE_PARTS(1)
TILE_DECLARE_PARTS(2)

MCP26_INLINE void tile_parts(int64_t rows, int64_t vectors, float *sums, const float *const *a, int64_t depth,
                             int64_t chain, const float *b, int64_t panel_stride, const float *ahead, int64_t share) {
    if (vectors == 1) mcp26_parts_1(rows, sums, a, depth, chain, b, panel_stride, ahead, share);
    if (vectors == 2) mcp26_parts_2(rows, sums, a, depth, chain, b, panel_stride, ahead, share);
}
#endif

/* A strip of tiles whose rows are `lda` apart, stored where they belong:
 *
 *     C[i][j] = (`goes_on` ? C[i][j] : 0) + sum over k < depth in this order of A[i][k] * B[k][j]
 *
 * with i < rows, which for V > TILE_VECTORS are a single tile, and j < V * TILE_LANES. */
#define TILE_DECLARE_STRIP(V)                                                                                         \
    __attribute__((visibility("hidden"))) void mcp26_strip_##V(int64_t rows, const float *a, int64_t lda,            \
                                                               int64_t depth, const float *b, int64_t b_step,        \
                                                               int64_t panel_stride, float *c, int64_t ldc,          \
                                                               int64_t goes_on);
TILE_DECLARE_STRIP(1)
TILE_DECLARE_STRIP(2)
TILE_DECLARE_STRIP(4)
TILE_DECLARE_STRIP(8)

MCP26_INLINE void tile_sum_strip(int64_t rows, int64_t vectors, const float *a, int64_t lda, int64_t depth,
                                 const float *b, int64_t b_step, int64_t panel_stride, float *c, int64_t ldc,
                                 int64_t goes_on) {
    if (vectors == 1) mcp26_strip_1(rows, a, lda, depth, b, b_step, panel_stride, c, ldc, goes_on);
    if (vectors == 2) mcp26_strip_2(rows, a, lda, depth, b, b_step, panel_stride, c, ldc, goes_on);
    if (vectors == 4) mcp26_strip_4(rows, a, lda, depth, b, b_step, panel_stride, c, ldc, goes_on);
    if (vectors == 8) mcp26_strip_8(rows, a, lda, depth, b, b_step, panel_stride, c, ldc, goes_on);
}

/* The rows are cut into tiles of up to `most` and nearly equal height (a last tile of one or two rows would wait for
 * its own sums): `taller` tiles of low + 1 rows, then tiles of `low`. */
typedef struct {
    int64_t tiles, low, taller;
} tile_rows;

MCP26_INLINE tile_rows tile_cut_into(int64_t rows, int64_t tiles) {
    return (tile_rows){tiles, rows / tiles, rows % tiles};
}
MCP26_INLINE tile_rows tile_cut(int64_t rows, int64_t most) {
    return tile_cut_into(rows, mcp26_max(1, mcp26_ceil_div(rows, most)));
}

MCP26_INLINE int64_t tile_top(tile_rows cut, int64_t tile) { return tile * cut.low + mcp26_min(tile, cut.taller); }

#endif
