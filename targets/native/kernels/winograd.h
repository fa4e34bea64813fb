/* winograd.h: 3x3 convolutions of stride 1, dilation 1 and one group over NHWC activations by minimal filtering,
 * F(m x m, 3 x 3) with m = 2, 4, 6 (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015).
 *
 * A TILE is m x m pixels of the result; it needs T x T pixels of the input, T = m + 2. With q = m / 2, both are
 * polynomials by their values at the T points
 *
 *     0, p[0], -p[0], ..., p[q-1], -p[q-1], infinity
 *
 * across and down: T * T points, at each of which the convolution is a product over channels. Pairs +p, -p share the
 * even and the odd part of a polynomial. Points of few bits make every constant of the transforms exact; those with
 * the least error are no powers of two (Barabasz et al., "Error Analysis and Improving the Accuracy of Winograd
 * Convolution for Deep Neural Networks", 2020).
 *
 * Weights, from ONNX's W[out_c][in_c][3][3]: U = G W[o][i] G', G as in the paper, in panels as tile.h says, but all
 * points of a panel behind one another, in the order in which they are read:
 *
 *     packed[ceil(out_c / MCP26_NR)][T * T][in_c][MCP26_NR]
 *
 * A BLOCK of tiles, in row-major order over the batch, is transformed into V[T * T][tiles][in_c] in the worker's
 * scratch; where TILE_PACKS, rows of a product are written as PACKED ROWS at once. Then for each tile of columns come
 * the products of all points, M[T * T][tiles][columns], the transform back and the epilogue: V and M stay in the second
 * cache. UNITS are block x groups of columns; one call transforms its input once for all groups of a block.
 *
 * FLOAT16 activations: V, U and M are float16 too. The panels of U are those of tile_f16.h, of as many rows behind the
 * bias as all points have. Transforms are computed in float16 where the processor has such arithmetic, in float32
 * elsewhere.
 *
 * All transforms work lane by lane, so that results do not depend on the split among threads, nor, of float32,
 * on the ISA.
 */
#ifndef MCP26_WINOGRAD_H
#define MCP26_WINOGRAD_H

#include "conv_f16.h"

enum {
    WINOGRAD_PAIRS = 3,                      /* q at most */
    WINOGRAD_SIDE = 2 * WINOGRAD_PAIRS + 2,  /* T at most */
    WINOGRAD_RUN = 8,                        /* tiles of a row that are transformed together */
    WINOGRAD_UNITS = 8,                      /* units that a layer of few blocks is cut into */
    WINOGRAD_GRAIN = TILE_PACKS ? MCP26_MR : 1, /* tiles that blocks do not part: rows of a product */
    WINOGRAD_LINE = 16                       /* floats: what keeps points apart in a cache's sets */
};

/* `block`: tiles of a block, at most. `chain`: channels, a multiple of 16, that are summed up in one chain:
 * rounding errors grow with the root of its length. */
typedef struct {
    conv_shape s;
    int64_t pairs;
    float points[WINOGRAD_PAIRS];
    int64_t block, chain;
} winograd_shape;

/* Polynomials in z = x * x: `outer` is the product of all z - p[i]^2, `inner[i]` that of all others. `power[i][k]` is
 * p[i]^k. */
typedef struct {
    float outer[WINOGRAD_PAIRS + 1], inner[WINOGRAD_PAIRS][WINOGRAD_PAIRS + 1], power[WINOGRAD_PAIRS][2 * WINOGRAD_PAIRS];
} winograd_constants;

/* The product of z - p[i]^2 over i < pairs, i != but. */
MCP26_INLINE void winograd_polynomial(int64_t pairs, const float *points, int64_t but, float *result) {
    int64_t degree = 0;
    result[0] = 1.0f;
    MCP26_UNROLL for (int64_t i = 0; i < pairs; i++) {
        if (i == but) continue;
        float square = points[i] * points[i];
        result[degree + 1] = result[degree];
        MCP26_UNROLL for (int64_t k = degree; k > 0; k--) result[k] = result[k - 1] - square * result[k];
        result[0] *= -square;
        degree++;
    }
}

MCP26_INLINE winograd_constants winograd_constants_of(winograd_shape w) {
    winograd_constants c;
    winograd_polynomial(w.pairs, w.points, -1, c.outer);
    MCP26_UNROLL for (int64_t i = 0; i < w.pairs; i++) {
        winograd_polynomial(w.pairs, w.points, i, c.inner[i]);
        c.power[i][0] = 1.0f;
        MCP26_UNROLL for (int64_t k = 1; k < 2 * w.pairs; k++) c.power[i][k] = c.power[i][k - 1] * w.points[i];
    }
    return c;
}

/* What follows from a shape: tiles down, across and in all, these cut into grains, blocks, groups of columns; elements
 * from one point of V to the next, from one tile of V to the next, from one point of M to the next. */
typedef struct {
    int64_t size, side, down, across, tiles;
    tile_rows grains;
    int64_t blocks, groups, v_point, v_tile, m_point;
} winograd_plan;

/* Where one point of a tile lies in V: channel n is at `at` + n * `rows`, runs of channels of packed rows are so many
 * times their length apart. */
typedef struct {
    int64_t at, rows;
} winograd_place;

/* ---- float32 */

/* The first `lanes` elements, zeros behind them. */
MCP26_INLINE tile_vector winograd_load(const float *p, int64_t lanes) {
    if (lanes >= TILE_LANES) return tile_load(p);
    v8f parts[TILE_LANES / 8];
    MCP26_UNROLL for (int64_t i = 0; i < TILE_LANES / 8; i++) {
        parts[i] = lanes > 8 * i ? v8f_load(p + 8 * i, lanes - 8 * i) : (v8f)0.0f;
    }
    return tile_load((const float *)parts);
}

MCP26_INLINE void winograd_put(float *to, winograd_place place, tile_vector v) {
#if TILE_PACKS
    MCP26_UNROLL for (int64_t i = 0; i < TILE_LANES / 4; i++) {
        __builtin_memcpy(to + i * 4 * place.rows, (const float *)&v + 4 * i, 4 * sizeof *to);
    }
#else
    (void)place;
    tile_store(to, v);
#endif
}

/* How the tiles of a block are cut into rows of products. */
MCP26_INLINE tile_rows winograd_cut(int64_t tiles, int64_t vectors) {
    return tile_cut(tiles, vectors == 1 ? TILE_SLIM : MCP26_MR);
}

typedef struct {
    float *y;
    int64_t y_pixel;
} winograd_result;

/* One pixel of the result, channels n ... n + `columns`-1 of one vector. */
MCP26_INLINE void winograd_store(tile_vector v, winograd_result y, int64_t pixel, int64_t n, int64_t columns,
                                 mcp26_epilogue epilogue, const void *const *args) {
    v8f parts[TILE_LANES / 8];
    __builtin_memcpy(parts, &v, sizeof parts);
    MCP26_UNROLL for (int64_t h = 0; h < TILE_LANES / 8; h++) {
        int64_t lanes = mcp26_min(8, columns - 8 * h);
        if (lanes <= 0) break;
        v8f_store(y.y + pixel * y.y_pixel + n + 8 * h, epilogue(parts[h], args, pixel, n + 8 * h, lanes), lanes);
    }
}

/* The products of one point, whose tiles lie at v, with the panels at b: m[tiles][vectors * TILE_LANES]. */
MCP26_INLINE void winograd_point_products(tile_rows cut, int64_t vectors, int64_t depth, int64_t chain, const float *v,
                                    int64_t v_tile, const float *b, int64_t panel_stride, float *m) {
    for (int64_t k = 0; k < cut.tiles; k++) {
        int64_t t = tile_top(cut, k), rows = tile_top(cut, k + 1) - t;
#if TILE_PACKS
        (void)panel_stride;
        mcp26_packed_parts(rows, m + t * vectors * TILE_LANES, v + t * v_tile, depth, chain, b);
#else
        const float *a[TILE_ROWS]; /* some beyond the tile */
        MCP26_UNROLL for (int64_t r = 0; r < TILE_ROWS; r++) a[r] = v + (t + r) * v_tile;
        /* Each tile of rows fetches its share of the next point's weights, which follow these. */
        int64_t share = mcp26_ceil_div(TILE_STEP, cut.tiles);
        const float *ahead = b + (depth + k * mcp26_ceil_div(depth, TILE_STEP) * share) * MCP26_NR;
        tile_parts(rows, vectors, m + t * vectors * TILE_LANES, a, depth, chain, b, panel_stride, ahead, share);
#endif
    }
}

/* The products of all points with the panels at b, whose points follow one another. */
MCP26_INLINE void winograd_all_products(int64_t points, tile_rows cut, int64_t vectors, int64_t depth, int64_t chain,
                                    const float *v, int64_t v_point, int64_t v_tile, const float *b,
                                    int64_t panel_stride, float *m, int64_t m_point) {
    for (int64_t i = 0; i < points; i++) {
        winograd_point_products(cut, vectors, depth, chain, v + i * v_point, v_tile, b + i * depth * MCP26_NR,
                                panel_stride, m + i * m_point);
    }
}

/* Those of `tiles` tiles and columns n ... n + `columns`-1; gives the vectors across M. */
MCP26_INLINE int64_t winograd_products(winograd_shape w, winograd_plan p, const float *v, const float *u, float *m,
                                       int64_t tiles, int64_t n, int64_t columns) {
    int64_t points = p.side * p.side, panel_stride = points * w.s.in_c * MCP26_NR;
    int64_t vectors = columns <= TILE_LANES ? 1 : TILE_VECTORS;
    winograd_all_products(points, winograd_cut(tiles, vectors), vectors, w.s.in_c, w.chain, v, p.v_point, p.v_tile,
                          u + n / MCP26_NR * panel_stride, panel_stride, m, p.m_point);
    return vectors;
}

#define WINOGRAD(NAME) winograd_##NAME
#define WINOGRAD_ELEMENT float
#define WINOGRAD_VECTOR tile_vector
#define WINOGRAD_SCALAR float
#define WINOGRAD_CONSTANTS winograd_constants
#define WINOGRAD_LANES TILE_LANES
#define WINOGRAD_WIDTH TILE_WIDTH
#define WINOGRAD_ROWS MCP26_MR
#define WINOGRAD_PACKS TILE_PACKS
#define WINOGRAD_TOGETHER 4
#define WINOGRAD_RESULT winograd_result
#include "winograd_tiles.h"

/* y = epilogue(x * u). `scratch`: winograd_scratch(w) bytes, aligned as a vector. */
MCP26_INLINE void winograd_f32(winograd_shape w, const float *x, const float *u, float *y, mcp26_epilogue epilogue,
                               const void *const *args, void *scratch, int64_t begin, int64_t end) {
    winograd_run(w, x, u, (winograd_result){y, w.s.y_pixel}, epilogue, args, scratch, begin, end);
}

/* ---- float16 */

typedef struct {
    half_scalar outer[WINOGRAD_PAIRS + 1], inner[WINOGRAD_PAIRS][WINOGRAD_PAIRS], power[WINOGRAD_PAIRS][2 * WINOGRAD_PAIRS];
} winograd_half_constants;

MCP26_INLINE winograd_half_constants winograd_half_constants_of(winograd_shape w) {
    winograd_constants exact = winograd_constants_of(w);
    winograd_half_constants c;
    MCP26_UNROLL for (int64_t i = 0; i <= w.pairs; i++) c.outer[i] = (half_scalar)exact.outer[i];
    MCP26_UNROLL for (int64_t i = 0; i < w.pairs; i++) {
        MCP26_UNROLL for (int64_t k = 0; k < w.pairs; k++) c.inner[i][k] = (half_scalar)exact.inner[i][k];
        MCP26_UNROLL for (int64_t k = 0; k < 2 * w.pairs; k++) c.power[i][k] = (half_scalar)exact.power[i][k];
    }
    return c;
}

MCP26_INLINE half_vector winograd_half_load(const uint16_t *p, int64_t lanes) { return half_load(p, lanes); }

MCP26_INLINE void winograd_half_put(uint16_t *to, winograd_place place, half_vector v) {
    (void)place;
    v8w_store_all(to, half_narrowed(v));
}

/* `product` says where sums go; biases are as far apart as panels. */
typedef struct {
    half_product product;
    const uint16_t *bias;
    int64_t panel_stride;
} winograd_half_result;

MCP26_INLINE void winograd_half_store(half_vector v, winograd_half_result y, int64_t pixel, int64_t n,
                                      int64_t columns, mcp26_epilogue epilogue, const void *const *args) {
    half_vector sum = v + half_load_all(y.bias + n / HALF_NR * y.panel_stride + n % HALF_NR);
    half_result to = y.product.y;
    (void)args;
    if (to.is_bounded) {
        v8w bounded = half_narrowed(half_bounded(sum, half_range_of(to.bounds)));
        v8w_store((uint16_t *)to.to + pixel * y.product.ldc + n, bounded, columns);
    } else {
        half_store(y.product, epilogue, half_narrowed(sum), pixel, n, columns);
    }
}

/* m[tiles][HALF_NR]. */
MCP26_INLINE int64_t winograd_half_products(winograd_shape w, winograd_plan p, const uint16_t *v, const uint16_t *u,
                                            uint16_t *m, int64_t tiles, int64_t n, int64_t columns) {
    int64_t depth = w.s.in_c, points = p.side * p.side;
    const uint16_t *b = u + n / HALF_NR * (1 + points * depth) * HALF_NR + HALF_NR;
    tile_rows cut = tile_cut(tiles, HALF_MR);
    (void)columns;
    for (int64_t i = 0; i < points; i++, v += p.v_point, b += depth * HALF_NR, m += p.m_point) {
        for (int64_t k = 0; k < cut.tiles; k++) {
            int64_t t = tile_top(cut, k), rows = tile_top(cut, k + 1) - t;
#if HALF_PACKS
            mcp26_half_parts(rows, m + t * HALF_NR, v + t * p.v_tile, depth, w.chain, b);
#else
            const uint16_t zeros[HALF_NR] = {0}, *a[HALF_MR]; /* some beyond the tile */
            MCP26_UNROLL for (int64_t r = 0; r < HALF_MR; r++) a[r] = v + (t + r) * p.v_tile;
            half_task task = {.a = a, .taps = 1, .depth = depth, .b = b, .bias = zeros, .c = m + t * HALF_NR,
                              .ldc = HALF_NR, .tiles = 1, .bounds = HALF_UNBOUNDED};
            half_core(rows, HALF_NR / 8, task); /* sums are float32: no chain is too long */
#endif
        }
    }
    return HALF_NR / 8;
}

#define WINOGRAD(NAME) winograd_half_##NAME
#define WINOGRAD_ELEMENT uint16_t
#define WINOGRAD_VECTOR half_vector
#define WINOGRAD_SCALAR half_scalar
#define WINOGRAD_CONSTANTS winograd_half_constants
#define WINOGRAD_LANES 8
#define WINOGRAD_WIDTH HALF_NR
#define WINOGRAD_ROWS HALF_MR
#define WINOGRAD_PACKS HALF_PACKS
#define WINOGRAD_TOGETHER HALF_EIGHT
#define WINOGRAD_RESULT winograd_half_result
#include "winograd_tiles.h"

/* y = epilogue(x * u), the bias taken from u; in_c is a multiple of HALF_EIGHT. `scratch`: winograd_half_scratch(w)
 * bytes. */
MCP26_INLINE void winograd_f16(winograd_shape w, const uint16_t *x, const uint16_t *u, half_result y,
                               mcp26_epilogue epilogue, const void *const *args, void *scratch, int64_t begin,
                               int64_t end) {
    int64_t side = 2 * w.pairs + 2, panel_stride = (1 + side * side * w.s.in_c) * HALF_NR;
    winograd_half_result result = {{.y = y, .ldc = w.s.y_pixel, .args = args}, u, panel_stride};
    winograd_half_run(w, x, u, result, epilogue, args, scratch, begin, end);
}

#endif
