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
 * All transforms work lane by lane, so that results do not depend on the ISA or the split among threads.
 */
#ifndef MCP26_WINOGRAD_H
#define MCP26_WINOGRAD_H

#include "conv.h"

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

/* factor * v + sum with one rounding. */
MCP26_INLINE tile_vector winograd_fma(float factor, tile_vector v, tile_vector sum) {
    return __builtin_elementwise_fma((tile_vector)factor, v, sum);
}

/* v[T] = the values at the points whose products with those of three taps are the values of the result: B' d. */
MCP26_INLINE void winograd_in(int64_t q, const winograd_constants *c, const tile_vector *d, tile_vector *v) {
    v[0] = d[2 * q], v[2 * q + 1] = d[2 * q + 1];
    MCP26_UNROLL for (int64_t k = q - 1; k >= 0; k--) {
        v[0] = winograd_fma(c->outer[k], d[2 * k], v[0]);
        v[2 * q + 1] = winograd_fma(c->outer[k], d[2 * k + 1], v[2 * q + 1]);
    }
    MCP26_UNROLL for (int64_t i = 0; i < q; i++) {
        tile_vector even = d[2 * q], odd = d[2 * q - 1];
        MCP26_UNROLL for (int64_t k = q - 2; k >= 0; k--) {
            even = winograd_fma(c->inner[i][k], d[2 * k + 2], even);
            odd = winograd_fma(c->inner[i][k], d[2 * k + 1], odd);
        }
        v[2 * i + 1] = winograd_fma(c->power[i][1], odd, even);
        v[2 * i + 2] = winograd_fma(-c->power[i][1], odd, even);
    }
}

/* y[m] from the products at the points: A' v. */
MCP26_INLINE void winograd_out(int64_t q, const winograd_constants *c, const tile_vector *v, tile_vector *y) {
    tile_vector sum[WINOGRAD_PAIRS], difference[WINOGRAD_PAIRS];
    MCP26_UNROLL for (int64_t i = 0; i < q; i++) {
        sum[i] = v[2 * i + 1] + v[2 * i + 2];
        difference[i] = v[2 * i + 1] - v[2 * i + 2];
    }
    y[0] = v[0] + sum[0];
    y[2 * q - 1] = winograd_fma(c->power[0][2 * q - 1], difference[0], v[2 * q + 1]);
    MCP26_UNROLL for (int64_t k = 1; k < 2 * q - 1; k++) {
        y[k] = c->power[0][k] * (k % 2 ? difference[0] : sum[0]);
    }
    MCP26_UNROLL for (int64_t i = 1; i < q; i++) {
        MCP26_UNROLL for (int64_t k = 0; k < 2 * q; k++) {
            y[k] = winograd_fma(c->power[i][k], k % 2 ? difference[i] : sum[i], y[k]);
        }
    }
}

/* What follows from a shape: tiles down, across and in all, these cut into grains, blocks, groups of columns; floats from
 * one point of V to the next, from one tile of V to the next, from one point of M to the next. */
typedef struct {
    int64_t size, side, down, across, tiles;
    tile_rows grains;
    int64_t blocks, groups, v_point, v_tile, m_point;
} winograd_plan;

MCP26_INLINE winograd_plan winograd_plan_of(winograd_shape w) {
    winograd_plan p = {.size = 2 * w.pairs, .side = 2 * w.pairs + 2};
    p.down = mcp26_ceil_div(w.s.out_h, p.size), p.across = mcp26_ceil_div(w.s.out_w, p.size);
    p.tiles = w.s.batch * p.down * p.across;
    int64_t grain = mcp26_min(WINOGRAD_GRAIN, w.block);
    p.grains = tile_cut(p.tiles, grain);
    p.blocks = p.tiles == 0 ? 0 : mcp26_ceil_div(p.grains.tiles, w.block / grain);
    p.groups = mcp26_min(mcp26_ceil_div(w.s.out_c, TILE_WIDTH), mcp26_ceil_div(WINOGRAD_UNITS, mcp26_max(1, p.blocks)));
    p.v_tile = mcp26_ceil_div(w.s.in_c, TILE_LANES) * TILE_LANES;
    p.v_point = w.block * p.v_tile + WINOGRAD_LINE;
    p.m_point = w.block * TILE_WIDTH + WINOGRAD_LINE;
    return p;
}

/* The first `lanes` elements, zeros behind them. */
MCP26_INLINE tile_vector winograd_load(const float *p, int64_t lanes) {
    if (lanes >= TILE_LANES) return tile_load(p);
    v8f parts[TILE_LANES / 8];
    MCP26_UNROLL for (int64_t i = 0; i < TILE_LANES / 8; i++) {
        parts[i] = lanes > 8 * i ? v8f_load(p + 8 * i, lanes - 8 * i) : (v8f)0.0f;
    }
    return tile_load((const float *)parts);
}

/* Columns `from` ... `to`-1 of a strip [T][columns] of one vector of channels, transformed downwards. The columns of
 * the input that they come from start at x; rows first ... last-1 of it exist. */
MCP26_INLINE void winograd_columns(winograd_shape w, const winograd_constants *c, const float *x, int64_t lanes,
                                   int64_t first, int64_t last, tile_vector *strip, int64_t columns, int64_t from,
                                   int64_t to) {
    int64_t side = 2 * w.pairs + 2;
    MCP26_ROLL for (int64_t j = from; j < to; j++) {
        tile_vector d[WINOGRAD_SIDE], v[WINOGRAD_SIDE];
        MCP26_UNROLL for (int64_t i = 0; i < side; i++) {
            d[i] = 0.0f;
            if (i >= first && i < last) d[i] = winograd_load(x + (i * w.s.in_w + j) * w.s.x_pixel, lanes);
        }
        winograd_in(w.pairs, c, d, v);
        MCP26_UNROLL for (int64_t i = 0; i < side; i++) strip[i * columns + j] = v[i];
    }
}

/* How the tiles of a block are cut into rows of products. */
MCP26_INLINE tile_rows winograd_cut(int64_t tiles, int64_t vectors) {
    return tile_cut(tiles, vectors == 1 ? TILE_SLIM : MCP26_MR);
}

/* Where one point of a tile lies in V: channel n is at `at` + n * `rows`, fours of channels are 4 * `rows` apart. */
typedef struct {
    int64_t at, rows;
} winograd_place;

/* That of tile t of a block of so many, each of which takes `v_tile` floats a point. */
MCP26_INLINE winograd_place winograd_place_of(int64_t tiles, int64_t t, int64_t v_tile) {
#if TILE_PACKS
    tile_rows cut = winograd_cut(tiles, TILE_VECTORS);
    int64_t tall = cut.taller * (cut.low + 1), rows = t < tall ? cut.low + 1 : cut.low, row = t < tall ? t : t - tall;
    return (winograd_place){(t - row % rows) * v_tile + row % rows * 4, rows};
#else
    (void)tiles;
    return (winograd_place){t * v_tile, 1};
#endif
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

/* V of `count` tiles of one row of tiles, whose input starts at (`top`, `left`) of an item at x. */
MCP26_INLINE void winograd_run_in(winograd_shape w, winograd_plan p, const winograd_constants *c, const float *x,
                                  int64_t top, int64_t left, int64_t count, tile_vector *strip,
                                  const winograd_place *places, float *v) {
    int64_t columns = count * p.size + 2;
    int64_t first = mcp26_max(0, -top), last = mcp26_min(p.side, w.s.in_h - top);
    int64_t from = mcp26_min(mcp26_max(0, -left), columns), to = mcp26_max(from, mcp26_min(columns, w.s.in_w - left));
    for (int64_t i = 0; i < p.side; i++) {
        for (int64_t j = 0; j < from; j++) strip[i * columns + j] = 0.0f;
        for (int64_t j = to; j < columns; j++) strip[i * columns + j] = 0.0f;
    }
    x += (top * w.s.in_w + left) * w.s.x_pixel;
    for (int64_t n = 0; n < w.s.in_c; n += TILE_LANES) {
        int64_t lanes = mcp26_min(TILE_LANES, w.s.in_c - n);
        if (first == 0 && last == p.side && lanes == TILE_LANES)
            winograd_columns(w, c, x + n, TILE_LANES, 0, p.side, strip, columns, from, to);
        else
            winograd_columns(w, c, x + n, lanes, first, last, strip, columns, from, to);
        for (int64_t t = 0; t < count; t++) {
            MCP26_ROLL for (int64_t i = 0; i < p.side; i++) {
                tile_vector out[WINOGRAD_SIDE];
                winograd_in(w.pairs, c, strip + i * columns + t * p.size, out);
                float *to = v + i * p.side * p.v_point + places[t].at + n * places[t].rows;
                MCP26_UNROLL for (int64_t j = 0; j < p.side; j++) winograd_put(to + j * p.v_point, places[t], out[j]);
            }
        }
    }
}

/* V of tiles begin ... end-1. */
MCP26_INLINE void winograd_block_in(winograd_shape w, winograd_plan p, const winograd_constants *c, const float *x,
                                    int64_t begin, int64_t end, tile_vector *strip, float *v) {
    for (int64_t t = begin; t < end;) {
        int64_t column = t % p.across, row = t / p.across % p.down, item = t / p.across / p.down;
        int64_t count = mcp26_min(mcp26_min(p.across - column, end - t), WINOGRAD_RUN);
        winograd_place places[WINOGRAD_RUN];
        for (int64_t i = 0; i < count; i++) places[i] = winograd_place_of(end - begin, t - begin + i, p.v_tile);
        winograd_run_in(w, p, c, x + item * w.s.in_h * w.s.in_w * w.s.x_pixel, row * p.size - w.s.pad_top,
                        column * p.size - w.s.pad_left, count, strip, places, v);
        t += count;
    }
}

/* One pixel of the result at y, channels n ... n + `columns`-1 of one vector. */
MCP26_INLINE void winograd_store(tile_vector v, float *y, int64_t y_pixel, int64_t pixel, int64_t n, int64_t columns,
                                 mcp26_epilogue epilogue, const void *const *args) {
    v8f parts[TILE_LANES / 8];
    __builtin_memcpy(parts, &v, sizeof parts);
    MCP26_UNROLL for (int64_t h = 0; h < TILE_LANES / 8; h++) {
        int64_t lanes = mcp26_min(8, columns - 8 * h);
        if (lanes <= 0) break;
        v8f_store(y + pixel * y_pixel + n + 8 * h, epilogue(parts[h], args, pixel, n + 8 * h, lanes), lanes);
    }
}

/* The pixels of a tile, channels n ... n + `columns`-1 of one vector, from the products at m. */
MCP26_INLINE void winograd_tile_out(winograd_shape w, winograd_plan p, const winograd_constants *c, const float *m,
                                    int64_t t, int64_t n, int64_t columns, tile_vector *strip, float *y,
                                    mcp26_epilogue epilogue, const void *const *args) {
    int64_t left = t % p.across * p.size, top = t / p.across % p.down * p.size, item = t / p.across / p.down;
    int64_t rows = mcp26_min(p.size, w.s.out_h - top), pixels = mcp26_min(p.size, w.s.out_w - left);
    MCP26_ROLL for (int64_t j = 0; j < p.side; j++) {
        tile_vector v[WINOGRAD_SIDE], out[2 * WINOGRAD_PAIRS];
        MCP26_UNROLL for (int64_t i = 0; i < p.side; i++) v[i] = tile_load(m + (i * p.side + j) * p.m_point);
        winograd_out(w.pairs, c, v, out);
        MCP26_UNROLL for (int64_t i = 0; i < p.size; i++) strip[i * p.side + j] = out[i];
    }
    MCP26_ROLL for (int64_t i = 0; i < rows; i++) {
        tile_vector out[2 * WINOGRAD_PAIRS];
        winograd_out(w.pairs, c, strip + i * p.side, out);
        int64_t pixel = (item * w.s.out_h + top + i) * w.s.out_w + left;
        MCP26_UNROLL for (int64_t j = 0; j < p.size; j++) {
            if (j >= pixels) break;
            winograd_store(out[j], y, w.s.y_pixel, pixel + j, n, columns, epilogue, args);
        }
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
MCP26_INLINE void winograd_products(int64_t points, tile_rows cut, int64_t vectors, int64_t depth, int64_t chain,
                                    const float *v, int64_t v_point, int64_t v_tile, const float *b,
                                    int64_t panel_stride, float *m, int64_t m_point) {
    for (int64_t i = 0; i < points; i++) {
        winograd_point_products(cut, vectors, depth, chain, v + i * v_point, v_tile, b + i * depth * MCP26_NR,
                                panel_stride, m + i * m_point);
    }
}

/* Columns n ... n + `columns`-1, at most TILE_WIDTH, of tiles begin ... end-1. */
MCP26_INLINE void winograd_strip(winograd_shape w, winograd_plan p, const winograd_constants *c, const float *v,
                                 const float *u, float *m, int64_t begin, int64_t end, int64_t n, int64_t columns,
                                 tile_vector *strip, float *y, mcp26_epilogue epilogue, const void *const *args) {
    int64_t points = p.side * p.side, panel_stride = points * w.s.in_c * MCP26_NR;
    int64_t vectors = columns <= TILE_LANES ? 1 : TILE_VECTORS;
    winograd_products(points, winograd_cut(end - begin, vectors), vectors, w.s.in_c, w.chain, v, p.v_point, p.v_tile,
                      u + n / MCP26_NR * panel_stride, panel_stride, m, p.m_point);
    for (int64_t t = begin; t < end; t++) {
        const float *from = m + (t - begin) * vectors * TILE_LANES;
        MCP26_ROLL for (int64_t k = 0; k < columns; k += TILE_LANES) {
            if (k + TILE_LANES <= columns)
                winograd_tile_out(w, p, c, from + k, t, n + k, TILE_LANES, strip, y, epilogue, args);
            else
                winograd_tile_out(w, p, c, from + k, t, n + k, columns - k, strip, y, epilogue, args);
        }
    }
}

MCP26_INLINE int64_t winograd_f32_units(winograd_shape w) {
    winograd_plan p = winograd_plan_of(w);
    return p.blocks * p.groups;
}

/* Floats of scratch of one worker. */
MCP26_INLINE int64_t winograd_f32_scratch(winograd_shape w) {
    winograd_plan p = winograd_plan_of(w);
    int64_t strip = p.side * (WINOGRAD_RUN * p.size + 2) * TILE_LANES;
    return strip + p.side * p.side * (p.v_point + p.m_point);
}

/* y = epilogue(x * u). `scratch`: winograd_f32_scratch(w) floats, aligned as a vector. */
MCP26_INLINE void winograd_f32(winograd_shape w, const float *x, const float *u, float *y, mcp26_epilogue epilogue,
                               const void *const *args, float *scratch, int64_t begin, int64_t end) {
    winograd_plan p = winograd_plan_of(w);
    winograd_constants c = winograd_constants_of(w);
    tile_vector *strip = (tile_vector *)(void *)scratch;
    float *v = scratch + p.side * (WINOGRAD_RUN * p.size + 2) * TILE_LANES, *m = v + p.side * p.side * p.v_point;
    int64_t tiles = mcp26_ceil_div(w.s.out_c, TILE_WIDTH), ready = -1;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t block = unit / p.groups, group = unit % p.groups;
        int64_t first = tile_top(p.grains, block * p.grains.tiles / p.blocks);
        int64_t last = tile_top(p.grains, (block + 1) * p.grains.tiles / p.blocks);
        if (block != ready) winograd_block_in(w, p, &c, x, first, last, strip, v);
        ready = block;
        int64_t until = mcp26_min(w.s.out_c, (group + 1) * tiles / p.groups * TILE_WIDTH);
        for (int64_t n = group * tiles / p.groups * TILE_WIDTH; n < until; n += TILE_WIDTH) {
            int64_t columns = mcp26_min(TILE_WIDTH, w.s.out_c - n);
            if (columns == TILE_WIDTH)
                winograd_strip(w, p, &c, v, u, m, first, last, n, TILE_WIDTH, strip, y, epilogue, args);
            else
                winograd_strip(w, p, &c, v, u, m, first, last, n, columns, strip, y, epilogue, args);
        }
    }
}

#endif
