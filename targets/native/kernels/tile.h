/* tile.h: the register-tiled product that GEMM, convolution and matrix multiplication share.
 *
 * PACKED weights of [K, N] (row-major, K outermost):
 *
 *     packed[ceil(N / MCP26_NR)][K][MCP26_NR],   packed[p][k][j] = B[k][p * MCP26_NR + j], zero where that is beyond N
 *
 * Every result is one chain of fused multiply-adds over k = 0 ... K-1, starting from +0, whatever the tile: results do
 * not depend on the ISA, on M, on the split among threads.
 *
 * CORES sum a tile of fixed height and width. They are unrolled by height, take all sizes at run time and are shared by
 * the kernels of a translation unit. What surrounds them (which tiles there are, where rows of the left operand lie, the
 * epilogue) is inlined into each kernel, where literal sizes leave few of the cores in use. A kernel of small depth has
 * a core of its own for whole tiles, which go through the epilogue from registers (tile_shallow).
 *
 * UNITS (begin, end of a kernel): the result is cut into row blocks x groups of panels, see tile_plan. A group stays in
 * the second cache; within a unit a band of rows, which the first cache holds, meets one strip of the group after
 * another, so that lines of C follow one another. What the cores can foresee, they fetch: the next group of weights, and
 * behind the last one the next layer's.
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
 * TILE_HEIGHTS_V: the cores V registers across. TILE_HALVES: whether some are half a register across, since a processor
 * may take twice as long for a whole one. */
#if defined(__AVX512F__)
typedef float tile_vector __attribute__((ext_vector_type(16)));
#define MCP26_NR 16
#define MCP26_MR 12 /* 24 of 32 registers accumulate */
#define TILE_HALVES 1
enum { TILE_LANES = 16, TILE_VECTORS = 2, TILE_SLIM = 12, TILE_LOW = 4, TILE_FEW = 8, TILE_FINISH = 1 };
enum { TILE_SPLIT = 2, TILE_FETCHED = 1 };
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
enum { TILE_SPLIT = 1, TILE_FETCHED = 1 };
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
enum { TILE_SPLIT = 1, TILE_FETCHED = 0 };
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
    TILE_KEPT = 1 << 17,                    /* floats of an operand that stays in the second cache */
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

/* What a kernel brings: sums[rows][vectors * TILE_LANES] = rows m ... m+rows-1 of its left operand times the panels at
 * b, of which `columns` columns exist. What is at `ahead`, which need not exist, goes to the second cache. */
typedef void (*tile_source)(const void *left, float *sums, int64_t rows, int64_t vectors, int64_t m, const float *b,
                            int64_t panel_stride, int64_t columns, const float *ahead);

/* The same operand, columns k ... k+depth-1 (k is a multiple of PACKED_DEPTH), as PACKED ROWS. */
typedef void (*tile_packer)(const void *left, float *packed, int64_t rows, int64_t m, int64_t k, int64_t depth);

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
    int64_t row_step; /* elements from one row of the left operand to the next; 0: these lie anywhere */
    const float *a;   /* the left operand, if its rows are row_step apart and those of B MCP26_NR, else NULL */
} tile_product;

/* C[m ...][n ...] = epilogue(sums), whose rows are `width` apart. */
MCP26_INLINE void tile_finish(tile_product t, mcp26_epilogue epilogue, const float *sums, int64_t width, int64_t rows,
                              int64_t columns, int64_t m, int64_t n) {
    const float *from = sums, *end = sums + rows / TILE_FINISH * TILE_FINISH * width;
    float *to = t.c + m * t.ldc + n;
    /* Several rows are read before the first is stored: a store might change what the epilogue reads for all rows. */
    MCP26_ROLL for (; TILE_FINISH > 1 && columns == 8 && from != end; from += TILE_FINISH * width) {
        v8f v[TILE_FINISH];
        for (int64_t i = 0; i < TILE_FINISH; i++) {
            v[i] = epilogue(v8f_load_all(from + i * width), t.args, t.row0 + m + i, t.column0 + n, 8);
        }
        for (int64_t i = 0; i < TILE_FINISH; i++) v8f_store_all(to + i * t.ldc, v[i]);
        to += TILE_FINISH * t.ldc, m += TILE_FINISH;
    }
    MCP26_ROLL for (end = sums + rows * width; from != end; from += width, to += t.ldc, m++) {
        int64_t j = 0;
        for (; j + 8 <= columns; j += 8) {
            v8f v = epilogue(v8f_load_all(from + j), t.args, t.row0 + m, t.column0 + n + j, 8);
            v8f_store_all(to + j, v);
        }
        if (j < columns) {
            int64_t lanes = columns - j;
            v8f v = epilogue(v8f_load_all(from + j), t.args, t.row0 + m, t.column0 + n + j, lanes);
            v8f_store(to + j, v, lanes);
        }
    }
}

/* The epilogue's memory, all of it before the sums: it lies too far apart for the processor to foresee. */
MCP26_INLINE void tile_fetch(tile_product t, mcp26_epilogue epilogue, int64_t rows, int64_t columns, int64_t m,
                             int64_t n) {
    MCP26_ROLL for (int64_t i = 0; TILE_FETCHED && i < rows; i++) {
        for (int64_t j = 0; j < columns; j += TILE_LINE) {
            __builtin_prefetch(t.c + (m + i) * t.ldc + n + j, 1);
            epilogue((v8f)0.0f, t.args, t.row0 + m + i, t.column0 + n + j, 0);
        }
    }
}

/* Whether the kernel sums whole tiles itself: of a shallow product, the call of a core takes a part of the time. */
MCP26_INLINE int64_t tile_is_shallow(tile_product t) {
    return !TILE_PACKS && t.a && __builtin_constant_p(t.depth) && t.depth <= TILE_SHALLOW && t.depth % TILE_STEPS == 0;
}

/* A whole tile of such a product at row m, column n, with panels at b. */
MCP26_INLINE void tile_shallow(tile_product t, mcp26_epilogue epilogue, int64_t m, int64_t n, const float *b) {
    const float *a[MCP26_MR];
    tile_vector acc[MCP26_MR * TILE_VECTORS];
    MCP26_UNROLL for (int64_t i = 0; i < MCP26_MR; i++) a[i] = t.a + (m + i) * t.row_step;
    MCP26_UNROLL for (int64_t i = 0; i < MCP26_MR * TILE_VECTORS; i++) acc[i] = 0.0f;
    MCP26_ROLL for (int64_t k = 0; k < t.depth; k += TILE_STEPS) {
        MCP26_UNROLL for (int64_t step = 0; step < TILE_STEPS; step++, b += MCP26_NR) {
            tile_vector row[TILE_VECTORS];
            MCP26_UNROLL for (int64_t j = 0; j < TILE_VECTORS; j++) {
                row[j] = tile_load(b + j * TILE_LANES / MCP26_NR * t.panel_stride + j * TILE_LANES % MCP26_NR);
            }
            MCP26_UNROLL for (int64_t i = 0; i < MCP26_MR * TILE_VECTORS; i++) {
                tile_vector column = a[i / TILE_VECTORS][k + step];
                acc[i] = __builtin_elementwise_fma(column, row[i % TILE_VECTORS], acc[i]);
            }
        }
    }
    float sums[MCP26_MR * TILE_WIDTH] __attribute__((aligned(64))), *to = t.c + m * t.ldc + n;
    MCP26_UNROLL for (int64_t i = 0; i < MCP26_MR * TILE_VECTORS; i++) tile_store(sums + i * TILE_LANES, acc[i]);
    MCP26_UNROLL for (int64_t i = 0; i < MCP26_MR; i++) { /* unrolled, so that no sum is stored before */
        MCP26_UNROLL for (int64_t j = 0; j < TILE_WIDTH; j += 8) {
            v8f v = v8f_load_all(sums + i * TILE_WIDTH + j);
            v8f_store_all(to + i * t.ldc + j, epilogue(v, t.args, t.row0 + m + i, t.column0 + n + j, 8));
        }
    }
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

/* Times that tiles are lower and wider: rows a multiple of TILE_WAY apart are in the same few places of the cache. */
MCP26_INLINE int64_t tile_split(tile_product t) {
    return t.row_step != 0 && t.row_step % TILE_WAY == 0 ? TILE_SPLIT : 1;
}

/* Registers across the next tiles, with `columns` left: a few rows alone would wait for their own sums. */
MCP26_INLINE int64_t tile_vectors(int64_t rows, int64_t columns, int64_t split) {
    if (rows == 1 && columns >= 4 * TILE_WIDTH) return 4 * TILE_VECTORS;
    if ((rows <= TILE_LOW || split == 2) && columns >= 2 * TILE_WIDTH) return 2 * TILE_VECTORS;
    return columns <= TILE_LANES ? 1 : TILE_VECTORS;
}

/* The same where tiles may be half a register across: one and a half take less time one after the other than as two. */
MCP26_INLINE int64_t tile_across(int64_t rows, int64_t columns, int64_t split) {
    int64_t is_half_more = TILE_HALVES && columns > TILE_LANES && columns <= TILE_LANES + 8;
    return is_half_more && rows > TILE_LOW ? 1 : tile_vectors(rows, columns, split);
}

/* Panels that the widest tile covers. */
MCP26_INLINE int64_t tile_flight(int64_t rows) { return tile_vectors(rows, 4 * TILE_WIDTH, 1) * TILE_LANES / MCP26_NR; }

/* How a product is cut. A group of panels stays in the second cache while the rows of a block meet it. Where neither
 * operand fits there as a whole, a block has as many rows as do. */
typedef struct {
    tile_rows cut;
    int64_t blocks; /* of rows */
    int64_t group;  /* panels of a group */
    int64_t groups;
    int64_t is_left_kept; /* the left operand stays in the second cache: each group meets all blocks, then the next */
} tile_plan;

MCP26_INLINE tile_plan tile_plan_of(int64_t rows, int64_t columns, int64_t depth) {
    tile_rows cut = tile_cut(rows, MCP26_MR);
    int64_t panels = mcp26_max(1, mcp26_ceil_div(columns, MCP26_NR)), flight = tile_flight(rows);
    int64_t panel = mcp26_max(1, depth * MCP26_NR), left = rows * depth;
    int64_t fit = mcp26_max(1, TILE_GROUP / (panel * flight)) * flight;
    /* A product of few rows has to be cut somewhere. */
    int64_t worth = mcp26_ceil_div(TILE_UNIT_WORK, mcp26_max(1, rows) * panel * flight) * flight;
    int64_t most = mcp26_min(panels, rows <= TILE_LOW ? worth : mcp26_max(fit, worth));
    int64_t group = mcp26_ceil_div(mcp26_ceil_div(panels, mcp26_ceil_div(panels, most)), flight) * flight;
    if (TILE_PACKS) { /* few blocks of rows, whose packing is worth its while */
        int64_t blocks = mcp26_max(1, cut.tiles / TILE_BLOCK), work = mcp26_max(1, rows / blocks * panel);
        int64_t least = mcp26_ceil_div(TILE_PACKED_WORK, work), share = panels * blocks / TILE_PACKED_UNITS;
        int64_t wide = mcp26_max(1, mcp26_min(mcp26_max(least, share), TILE_PACKED_GROUP / panel));
        int64_t groups = mcp26_ceil_div(panels, mcp26_min(panels, rows <= TILE_LOW ? worth : wide));
        group = mcp26_ceil_div(mcp26_ceil_div(panels, groups), flight) * flight;
        return (tile_plan){cut, blocks, group, mcp26_ceil_div(panels, group), 0};
    }
    int64_t is_left_kept = left <= TILE_KEPT, is_right_kept = panels * panel <= TILE_KEPT;
    int64_t is_free = is_left_kept || is_right_kept;
    int64_t tall = is_free ? TILE_BLOCK_WORK / (panel * group) : TILE_KEPT / mcp26_max(1, depth);
    int64_t block = mcp26_max(is_free ? 1 : TILE_BLOCK, tall / MCP26_MR); /* tiles */
    return (tile_plan){cut, mcp26_ceil_div(cut.tiles, block), group, mcp26_ceil_div(panels, group), is_left_kept};
}

MCP26_INLINE int64_t tile_units(int64_t rows, int64_t columns, int64_t depth) {
    if (rows == 0) return 0;
    tile_plan plan = tile_plan_of(rows, columns, depth);
    return plan.blocks * plan.groups;
}

/* Tiles `from` ... `to`-1 of the cut, `columns` columns from n on. Meanwhile `ahead` is fetched, a share for each. */
MCP26_INLINE void tile_strip(tile_product t, tile_source source, mcp26_epilogue epilogue, tile_rows cut, int64_t from,
                             int64_t to, int64_t vectors, int64_t columns, int64_t n, const float *ahead) {
    const float *b = t.b + n / MCP26_NR * t.panel_stride;
    int64_t step = vectors == 1 ? TILE_SLIM / MCP26_MR : 1;
    for (int64_t i = from; i < to; i += step) {
        float sums[TILE_SUMS] __attribute__((aligned(64)));
        int64_t m = tile_top(cut, i), rows = tile_top(cut, mcp26_min(i + step, to)) - m;
        tile_fetch(t, epilogue, rows, columns, m, n);
        if (tile_is_shallow(t) && rows == MCP26_MR && vectors == TILE_VECTORS && columns == TILE_WIDTH) {
            tile_shallow(t, epilogue, m, n, b);
            continue;
        }
        source(t.left, sums, rows, vectors, m, b, t.panel_stride, columns, ahead);
        if (columns == TILE_WIDTH)
            tile_finish(t, epilogue, sums, TILE_WIDTH, rows, TILE_WIDTH, m, n);
        else
            tile_finish(t, epilogue, sums, vectors * TILE_LANES, rows, columns, m, n);
    }
}

#if TILE_PACKS
/* Rows m ... m+rows-1, columns first ... last-1: packed rows meet all panels. */
MCP26_INLINE void tile_band(tile_product t, tile_packer pack, mcp26_epilogue epilogue, int64_t m, int64_t rows,
                            int64_t first, int64_t last) {
    float packed[MCP26_MR * PACKED_DEPTH] __attribute__((aligned(64)));
    float sums[PACKED_PANELS * PACKED_SUMS] __attribute__((aligned(64)));
    for (int64_t n = first; n < last; n += PACKED_PANELS * MCP26_NR) {
        int64_t columns = mcp26_min(last - n, PACKED_PANELS * MCP26_NR), panels = mcp26_ceil_div(columns, MCP26_NR);
        for (int64_t k = 0; k < t.depth || k == 0; k += PACKED_DEPTH) {
            int64_t depth = mcp26_min(PACKED_DEPTH, t.depth - k);
            if (n == first || t.depth > PACKED_DEPTH) pack(t.left, packed, rows, m, k, depth);
            mcp26_packed(rows, sums, packed, depth, t.b + n / MCP26_NR * t.panel_stride + k * MCP26_NR, t.panel_stride,
                         panels, k > 0);
        }
        for (int64_t p = 0; p < panels; p++) {
            const float *from = sums + p * PACKED_SUMS;
            int64_t left = columns - p * MCP26_NR;
            if (left >= MCP26_NR)
                tile_finish(t, epilogue, from, MCP26_NR, rows, MCP26_NR, m, n + p * MCP26_NR);
            else
                tile_finish(t, epilogue, from, MCP26_NR, rows, left, m, n + p * MCP26_NR);
        }
    }
}
#endif

/* Units begin ... end-1 of the product. `pack` may be NULL. */
MCP26_INLINE void tile_units_pack(tile_product t, tile_source source, tile_packer pack, mcp26_epilogue epilogue,
                                  int64_t begin, int64_t end) {
    (void)pack;
    tile_plan plan = tile_plan_of(t.rows, t.columns, t.depth);
    int64_t split = tile_split(t), tiles = plan.cut.tiles * split;
    tile_rows cut = tile_cut_into(t.rows, tiles);
    for (int64_t u = begin; u < end; u++) {
        int64_t block = plan.is_left_kept ? u % plan.blocks : u / plan.groups;
        int64_t first = (plan.is_left_kept ? u / plan.blocks : u % plan.groups) * plan.group * MCP26_NR;
        int64_t last = mcp26_min(t.columns, first + plan.group * MCP26_NR);
        int64_t from = block * tiles / plan.blocks, to = (block + 1) * tiles / plan.blocks;
#if TILE_PACKS
        if (pack && t.rows > TILE_LOW) {
            for (int64_t i = from; i < to; i++) {
                tile_band(t, pack, epilogue, tile_top(cut, i), tile_top(cut, i + 1) - tile_top(cut, i), first, last);
            }
            continue;
        }
#endif
        int64_t start = plan.is_left_kept ? 0 : from, all = plan.is_left_kept ? tiles : to - from;
        int64_t size = plan.group * t.depth * MCP26_NR;
        for (int64_t i = from; i < to; i += TILE_BAND) {
            for (int64_t n = first; n < last;) {
                int64_t vectors = tile_across(t.rows, last - n, split);
                int64_t columns = mcp26_min(vectors * TILE_LANES, last - n);
                /* The next group follows this one, and the next layer's weights the last one. */
                const float *ahead = t.b + first / MCP26_NR * t.panel_stride + size + (i - start) * size / all +
                                     (n - first) * t.depth / all;
                tile_strip(t, source, epilogue, cut, i, mcp26_min(to, i + TILE_BAND), vectors, columns, n, ahead);
                n += columns;
            }
        }
    }
}

MCP26_INLINE void tile_units_run(tile_product t, tile_source source, mcp26_epilogue epilogue, int64_t begin,
                                 int64_t end) {
    tile_units_pack(t, source, NULL, epilogue, begin, end);
}

#endif
