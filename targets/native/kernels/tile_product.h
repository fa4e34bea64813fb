/* tile_product.h: the product that GEMM, convolution and matrix multiplication share, cut into the tiles of tile.h.
 *
 * What surrounds the cores (which tiles there are, where rows of the left operand lie, the epilogue) is inlined into each
 * kernel, where literal sizes leave few of the cores in use. A kernel of small depth has a core of its own for whole
 * tiles, which go through the epilogue from registers (tile_shallow).
 *
 * UNITS (begin, end of a kernel): the result is cut into row blocks x groups of panels, see tile_plan. A group stays in
 * the second cache; within a unit a band of rows, which the first cache holds, meets one strip of the group after
 * another, so that lines of C follow one another. What the cores can foresee, they fetch: the next group of weights, and
 * behind the last one the next layer's.
 */
#ifndef MCP26_TILE_PRODUCT_H
#define MCP26_TILE_PRODUCT_H

#include "tile.h"

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

/* C[m ...][n ...] = epilogue(acc), registers that a kernel has summed itself: all of them leave before the first result
 * is stored, so that they need no memory. */
MCP26_INLINE void tile_finish_sums(tile_product t, mcp26_epilogue epilogue, const tile_vector *acc, int64_t rows,
                                   int64_t vectors, int64_t m, int64_t n) {
    float sums[TILE_SUMS] __attribute__((aligned(64))), *to = t.c + m * t.ldc + n;
    int64_t width = vectors * TILE_LANES;
    MCP26_UNROLL for (int64_t i = 0; i < rows * vectors; i++) tile_store(sums + i * TILE_LANES, acc[i]);
    MCP26_UNROLL for (int64_t i = 0; i < rows; i++) {
        MCP26_UNROLL for (int64_t j = 0; j < width; j += 8) {
            v8f v = v8f_load_all(sums + i * width + j);
            v8f_store_all(to + i * t.ldc + j, epilogue(v, t.args, t.row0 + m + i, t.column0 + n + j, 8));
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
    tile_finish_sums(t, epilogue, acc, MCP26_MR, TILE_VECTORS, m, n);
}

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

/* Panels of a group that packed rows meet: few groups, whose packing is worth its while. `panel` are the elements of a
 * panel, of which `narrow` take the room and the time of a float. */
MCP26_INLINE int64_t tile_packed_group(int64_t rows, int64_t blocks, int64_t panels, int64_t panel, int64_t narrow) {
    int64_t work = mcp26_max(1, rows / blocks * panel);
    int64_t least = mcp26_ceil_div(narrow * TILE_PACKED_WORK, work), share = panels * blocks / TILE_PACKED_UNITS;
    return mcp26_max(1, mcp26_min(mcp26_max(least, share), narrow * TILE_PACKED_GROUP / panel));
}

/* At most `most` panels, so that groups are nearly equal. */
MCP26_INLINE int64_t tile_even_group(int64_t panels, int64_t most) {
    return mcp26_ceil_div(panels, mcp26_ceil_div(panels, mcp26_min(panels, most)));
}

MCP26_INLINE tile_plan tile_plan_of(int64_t rows, int64_t columns, int64_t depth) {
    tile_rows cut = tile_cut(rows, MCP26_MR);
    int64_t panels = mcp26_max(1, mcp26_ceil_div(columns, MCP26_NR)), flight = tile_flight(rows);
    int64_t panel = mcp26_max(1, depth * MCP26_NR), left = rows * depth;
    int64_t fit = mcp26_max(1, TILE_GROUP / (panel * flight)) * flight;
    /* A product of few rows has to be cut somewhere. */
    int64_t worth = mcp26_ceil_div(TILE_UNIT_WORK, mcp26_max(1, rows) * panel * flight) * flight;
    int64_t most = mcp26_min(panels, rows <= TILE_LOW ? worth : mcp26_max(fit, worth));
    int64_t group = mcp26_ceil_div(tile_even_group(panels, most), flight) * flight;
    if (TILE_PACKS) {
        int64_t blocks = mcp26_max(1, cut.tiles / TILE_BLOCK);
        int64_t wide = tile_packed_group(rows, blocks, panels, panel, 1);
        group = mcp26_ceil_div(tile_even_group(panels, rows <= TILE_LOW ? worth : wide), flight) * flight;
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
