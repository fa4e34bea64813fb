/* winograd_line.h: convolutions along one axis, of stride 1, dilation 1 and one group, over NHWC activations by minimal
 * filtering, F(m, r) with r = 3, 5, 7 taps (Winograd, "Arithmetic Complexity of Computations", 1980).
 *
 * The other axis has one tap and no padding: x is [lines][length][inner][channels], and the taps lie `inner` pixels
 * apart. A TILE is m results along the axis; it needs T = m + r - 1 pixels of the input. Both are polynomials by their
 * values at T points, those of winograd.h: 0, p[0], -p[0], ..., and infinity where T is even. At each the convolution is
 * a product over channels. The transforms are winograd.h's, of which those of results use the first m rows.
 *
 * Weights, from ONNX's W[out_c][in_c][r]: U = G W[o][i], in panels as tile.h says, but all points of a panel behind one
 * another, in the order in which they are read:
 *
 *     packed[ceil(out_c / MCP26_NR)][T][in_c][MCP26_NR]
 *
 * A BLOCK of tiles, line by line, those of neighbouring inner pixels first, is transformed into V[T][tiles][in_c] in the
 * worker's scratch. Then for each tile of columns come the products of all points, M[T][tiles][columns], the transform
 * back and the epilogue: V and M stay in the second cache. UNITS are block x groups of columns; one call transforms its
 * input once for all groups of a block.
 *
 * All transforms work lane by lane, so that results do not depend on the ISA or the split among threads.
 */
#ifndef MCP26_WINOGRAD_LINE_H
#define MCP26_WINOGRAD_LINE_H

#include "winograd.h"

/* `side`: T. `block`: tiles of a block, at most. `chain`: as winograd_shape's. */
typedef struct {
    conv_shape s;
    int64_t side;
    float points[WINOGRAD_PAIRS];
    int64_t block, chain;
} winograd_line_shape;

/* What follows from a shape: m, tiles of a line, tiles in all, blocks, groups of columns; floats from one point of V to
 * the next, from one tile of V to the next, from one point of M to the next. */
typedef struct {
    int64_t length, out_length, inner, pad;
    int64_t pairs, size, across, tiles, blocks, groups, v_point, v_tile, m_point;
} winograd_line_plan;

MCP26_INLINE winograd_line_plan winograd_line_plan_of(winograd_line_shape w) {
    int64_t taps = w.s.kernel_h * w.s.kernel_w, is_across = w.s.kernel_w > 1;
    winograd_line_plan p = {.length = is_across ? w.s.in_w : w.s.in_h,
                            .out_length = is_across ? w.s.out_w : w.s.out_h,
                            .inner = is_across ? 1 : w.s.in_w,
                            .pad = is_across ? w.s.pad_left : w.s.pad_top,
                            .pairs = (w.side - 1) / 2,
                            .size = w.side + 1 - taps};
    p.across = mcp26_ceil_div(p.out_length, p.size);
    p.tiles = w.s.batch * (is_across ? w.s.out_h : 1) * p.across * p.inner;
    p.blocks = mcp26_ceil_div(p.tiles, w.block);
    p.groups = mcp26_min(mcp26_ceil_div(w.s.out_c, TILE_WIDTH), mcp26_ceil_div(WINOGRAD_UNITS, mcp26_max(1, p.blocks)));
    p.v_tile = mcp26_ceil_div(w.s.in_c, TILE_LANES) * TILE_LANES;
    p.v_point = w.block * p.v_tile + WINOGRAD_LINE;
    p.m_point = w.block * TILE_WIDTH + WINOGRAD_LINE;
    return p;
}

/* V of a tile, `lanes` channels of one vector: pixel i of the input is at x + i * step; first ... last-1 exist. */
MCP26_INLINE void winograd_line_in(winograd_line_shape w, winograd_line_plan p, const winograd_constants *c,
                                   const float *x, int64_t step, int64_t lanes, int64_t first, int64_t last, winograd_place place,
                                   float *v) {
    tile_vector d[WINOGRAD_SIDE], out[WINOGRAD_SIDE];
    d[2 * p.pairs + 1] = 0.0f; /* not used where infinity is no point */
    MCP26_UNROLL for (int64_t i = 0; i < w.side; i++) {
        d[i] = 0.0f;
        if (i >= first && i < last) d[i] = winograd_load(x + i * step, lanes);
    }
    winograd_in(p.pairs, c, d, out);
    MCP26_UNROLL for (int64_t i = 0; i < w.side; i++) winograd_put(v + i * p.v_point, place, out[i]);
}

/* V of tiles begin ... end-1. */
MCP26_INLINE void winograd_line_block_in(winograd_line_shape w, winograd_line_plan p, const winograd_constants *c,
                                         const float *x, int64_t begin, int64_t end, float *v) {
    int64_t step = p.inner * w.s.x_pixel;
    for (int64_t t = begin; t < end; t++) {
        winograd_place place = winograd_place_of(end - begin, t - begin, p.v_tile);
        int64_t top = t / p.inner % p.across * p.size - p.pad, line = t / p.inner / p.across;
        int64_t first = mcp26_max(0, -top), last = mcp26_min(w.side, p.length - top);
        const float *from = x + ((line * p.length + top) * p.inner + t % p.inner) * w.s.x_pixel;
        MCP26_ROLL for (int64_t n = 0; n < w.s.in_c; n += TILE_LANES) {
            int64_t lanes = mcp26_min(TILE_LANES, w.s.in_c - n);
            float *to = v + place.at + n * place.rows;
            if (first == 0 && last == w.side && lanes == TILE_LANES)
                winograd_line_in(w, p, c, from + n, step, TILE_LANES, 0, w.side, place, to);
            else
                winograd_line_in(w, p, c, from + n, step, lanes, first, last, place, to);
        }
    }
}

/* The results of tile t, channels n ... n + `columns`-1 of one vector, from the products at m. */
MCP26_INLINE void winograd_line_out(winograd_line_shape w, winograd_line_plan p, const winograd_constants *c,
                                    const float *m, int64_t t, int64_t n, int64_t columns, float *y,
                                    mcp26_epilogue epilogue, const void *const *args) {
    int64_t top = t / p.inner % p.across * p.size, line = t / p.inner / p.across;
    int64_t pixel = (line * p.out_length + top) * p.inner + t % p.inner, count = mcp26_min(p.size, p.out_length - top);
    tile_vector v[WINOGRAD_SIDE], out[2 * WINOGRAD_PAIRS];
    v[2 * p.pairs + 1] = 0.0f;
    MCP26_UNROLL for (int64_t i = 0; i < w.side; i++) v[i] = tile_load(m + i * p.m_point);
    winograd_out(p.pairs, c, v, out);
    if (p.size < 2 * p.pairs) out[p.size - 1] += v[2 * p.pairs + 1]; /* infinity gives the highest coefficient */
    MCP26_UNROLL for (int64_t j = 0; j < p.size; j++, pixel += p.inner) {
        if (j >= count) break;
        winograd_store(out[j], (winograd_result){y, w.s.y_pixel}, pixel, n, columns, epilogue, args);
    }
}

/* Columns n ... n + `columns`-1, at most TILE_WIDTH, of tiles begin ... end-1. */
MCP26_INLINE void winograd_line_strip(winograd_line_shape w, winograd_line_plan p, const winograd_constants *c,
                                      const float *v, const float *u, float *m, int64_t begin, int64_t end, int64_t n,
                                      int64_t columns, float *y, mcp26_epilogue epilogue, const void *const *args) {
    int64_t panel_stride = w.side * w.s.in_c * MCP26_NR, vectors = columns <= TILE_LANES ? 1 : TILE_VECTORS;
    winograd_all_products(w.side, winograd_cut(end - begin, vectors), vectors, w.s.in_c, w.chain, v, p.v_point, p.v_tile,
                      u + n / MCP26_NR * panel_stride, panel_stride, m, p.m_point);
    for (int64_t t = begin; t < end; t++) {
        const float *from = m + (t - begin) * vectors * TILE_LANES;
        MCP26_ROLL for (int64_t k = 0; k < columns; k += TILE_LANES) {
            if (k + TILE_LANES <= columns)
                winograd_line_out(w, p, c, from + k, t, n + k, TILE_LANES, y, epilogue, args);
            else
                winograd_line_out(w, p, c, from + k, t, n + k, columns - k, y, epilogue, args);
        }
    }
}

MCP26_INLINE int64_t winograd_line_units(winograd_line_shape w) {
    winograd_line_plan p = winograd_line_plan_of(w);
    return p.blocks * p.groups;
}

/* Floats of scratch of one worker. */
MCP26_INLINE int64_t winograd_line_f32_scratch(winograd_line_shape w) {
    winograd_line_plan p = winograd_line_plan_of(w);
    return w.side * (p.v_point + p.m_point);
}

/* y = epilogue(x * u). `scratch`: winograd_line_f32_scratch(w) floats, aligned as a vector. */
MCP26_INLINE void winograd_line_f32(winograd_line_shape w, const float *x, const float *u, float *y,
                                    mcp26_epilogue epilogue, const void *const *args, float *scratch, int64_t begin,
                                    int64_t end) {
    winograd_line_plan p = winograd_line_plan_of(w);
    winograd_shape transforms = {.pairs = p.pairs};
    MCP26_UNROLL for (int64_t i = 0; i < WINOGRAD_PAIRS; i++) transforms.points[i] = w.points[i];
    winograd_constants c = winograd_constants_of(transforms);
    float *m = scratch + w.side * p.v_point;
    int64_t tiles = mcp26_ceil_div(w.s.out_c, TILE_WIDTH), ready = -1;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t block = unit / p.groups, group = unit % p.groups;
        int64_t first = block * p.tiles / p.blocks, last = (block + 1) * p.tiles / p.blocks;
        if (block != ready) winograd_line_block_in(w, p, &c, x, first, last, scratch);
        ready = block;
        int64_t until = mcp26_min(w.s.out_c, (group + 1) * tiles / p.groups * TILE_WIDTH);
        for (int64_t n = group * tiles / p.groups * TILE_WIDTH; n < until; n += TILE_WIDTH) {
            int64_t columns = mcp26_min(TILE_WIDTH, w.s.out_c - n);
            if (columns == TILE_WIDTH)
                winograd_line_strip(w, p, &c, scratch, u, m, first, last, n, TILE_WIDTH, y, epilogue, args);
            else
                winograd_line_strip(w, p, &c, scratch, u, m, first, last, n, columns, y, epilogue, args);
        }
    }
}

#endif
