/* winograd_tiles.h: the functions of winograd.h for one type of element, which winograd.h includes once a type.
 *
 * WINOGRAD(name) is a function's name for the type. WINOGRAD_ELEMENT are stored, WINOGRAD_LANES of them computed in a
 * WINOGRAD_VECTOR; tiles of products are WINOGRAD_WIDTH columns wide and WINOGRAD_ROWS high, rows of them are packed
 * in runs of WINOGRAD_TOGETHER columns if WINOGRAD_PACKS. WINOGRAD_CONSTANTS are of WINOGRAD_SCALAR, WINOGRAD_RESULT is
 * where results go. The type brings WINOGRAD(constants_of), (load), (put), (products) and (store). None of these names is
 * left defined.
 */

/* factor * v + sum with one rounding. */
MCP26_INLINE WINOGRAD_VECTOR WINOGRAD(fma)(WINOGRAD_SCALAR factor, WINOGRAD_VECTOR v, WINOGRAD_VECTOR sum) {
    return __builtin_elementwise_fma((WINOGRAD_VECTOR)factor, v, sum);
}

/* v[T] = the values at the points whose products with those of three taps are the values of the result: B' d. */
MCP26_INLINE void WINOGRAD(in)(int64_t q, const WINOGRAD_CONSTANTS *c, const WINOGRAD_VECTOR *d, WINOGRAD_VECTOR *v) {
    v[0] = d[2 * q], v[2 * q + 1] = d[2 * q + 1];
    MCP26_UNROLL for (int64_t k = q - 1; k >= 0; k--) {
        v[0] = WINOGRAD(fma)(c->outer[k], d[2 * k], v[0]);
        v[2 * q + 1] = WINOGRAD(fma)(c->outer[k], d[2 * k + 1], v[2 * q + 1]);
    }
    MCP26_UNROLL for (int64_t i = 0; i < q; i++) {
        WINOGRAD_VECTOR even = d[2 * q], odd = d[2 * q - 1];
        MCP26_UNROLL for (int64_t k = q - 2; k >= 0; k--) {
            even = WINOGRAD(fma)(c->inner[i][k], d[2 * k + 2], even);
            odd = WINOGRAD(fma)(c->inner[i][k], d[2 * k + 1], odd);
        }
        v[2 * i + 1] = WINOGRAD(fma)(c->power[i][1], odd, even);
        v[2 * i + 2] = WINOGRAD(fma)(-c->power[i][1], odd, even);
    }
}

/* y[m] from the products at the points: A' v. */
MCP26_INLINE void WINOGRAD(out)(int64_t q, const WINOGRAD_CONSTANTS *c, const WINOGRAD_VECTOR *v, WINOGRAD_VECTOR *y) {
    WINOGRAD_VECTOR sum[WINOGRAD_PAIRS], difference[WINOGRAD_PAIRS];
    MCP26_UNROLL for (int64_t i = 0; i < q; i++) {
        sum[i] = v[2 * i + 1] + v[2 * i + 2];
        difference[i] = v[2 * i + 1] - v[2 * i + 2];
    }
    y[0] = v[0] + sum[0];
    y[2 * q - 1] = WINOGRAD(fma)(c->power[0][2 * q - 1], difference[0], v[2 * q + 1]);
    MCP26_UNROLL for (int64_t k = 1; k < 2 * q - 1; k++) {
        y[k] = c->power[0][k] * (k % 2 ? difference[0] : sum[0]);
    }
    MCP26_UNROLL for (int64_t i = 1; i < q; i++) {
        MCP26_UNROLL for (int64_t k = 0; k < 2 * q; k++) {
            y[k] = WINOGRAD(fma)(c->power[i][k], k % 2 ? difference[i] : sum[i], y[k]);
        }
    }
}

MCP26_INLINE winograd_plan WINOGRAD(plan_of)(winograd_shape w) {
    winograd_plan p = {.size = 2 * w.pairs, .side = 2 * w.pairs + 2};
    p.down = mcp26_ceil_div(w.s.out_h, p.size), p.across = mcp26_ceil_div(w.s.out_w, p.size);
    p.tiles = w.s.batch * p.down * p.across;
    int64_t grain = mcp26_min(WINOGRAD_GRAIN, w.block);
    p.grains = tile_cut(p.tiles, grain);
    p.blocks = p.tiles == 0 ? 0 : mcp26_ceil_div(p.grains.tiles, w.block / grain);
    p.groups = mcp26_min(mcp26_ceil_div(w.s.out_c, WINOGRAD_WIDTH), mcp26_ceil_div(WINOGRAD_UNITS, mcp26_max(1, p.blocks)));
    p.v_tile = mcp26_ceil_div(w.s.in_c, WINOGRAD_LANES) * WINOGRAD_LANES;
    p.v_point = w.block * p.v_tile + WINOGRAD_LINE;
    p.m_point = w.block * WINOGRAD_WIDTH + WINOGRAD_LINE;
    return p;
}

/* Columns `from` ... `to`-1 of a strip [T][columns] of one vector of channels, transformed downwards. The columns of
 * the input that they come from start at x; rows first ... last-1 of it exist. */
MCP26_INLINE void WINOGRAD(columns)(winograd_shape w, const WINOGRAD_CONSTANTS *c, const WINOGRAD_ELEMENT *x, int64_t lanes,
                                   int64_t first, int64_t last, WINOGRAD_VECTOR *strip, int64_t columns, int64_t from,
                                   int64_t to) {
    int64_t side = 2 * w.pairs + 2;
    MCP26_ROLL for (int64_t j = from; j < to; j++) {
        WINOGRAD_VECTOR d[WINOGRAD_SIDE], v[WINOGRAD_SIDE];
        MCP26_UNROLL for (int64_t i = 0; i < side; i++) {
            d[i] = 0.0f;
            if (i >= first && i < last) d[i] = WINOGRAD(load)(x + (i * w.s.in_w + j) * w.s.x_pixel, lanes);
        }
        WINOGRAD(in)(w.pairs, c, d, v);
        MCP26_UNROLL for (int64_t i = 0; i < side; i++) strip[i * columns + j] = v[i];
    }
}

/* That of tile t of a block of so many, each of which takes `v_tile` elements a point. */
MCP26_INLINE winograd_place WINOGRAD(place_of)(int64_t tiles, int64_t t, int64_t v_tile) {
    if (!WINOGRAD_PACKS) return (winograd_place){t * v_tile, 1};
    tile_rows cut = tile_cut(tiles, WINOGRAD_ROWS);
    int64_t tall = cut.taller * (cut.low + 1), rows = t < tall ? cut.low + 1 : cut.low, row = t < tall ? t : t - tall;
    return (winograd_place){(t - row % rows) * v_tile + row % rows * WINOGRAD_TOGETHER, rows};
}

/* V of `count` tiles of one row of tiles, whose input starts at (`top`, `left`) of an item at x. */
MCP26_INLINE void WINOGRAD(run_in)(winograd_shape w, winograd_plan p, const WINOGRAD_CONSTANTS *c, const WINOGRAD_ELEMENT *x,
                                  int64_t top, int64_t left, int64_t count, WINOGRAD_VECTOR *strip,
                                  const winograd_place *places, WINOGRAD_ELEMENT *v) {
    int64_t columns = count * p.size + 2;
    int64_t first = mcp26_max(0, -top), last = mcp26_min(p.side, w.s.in_h - top);
    int64_t from = mcp26_min(mcp26_max(0, -left), columns), to = mcp26_max(from, mcp26_min(columns, w.s.in_w - left));
    for (int64_t i = 0; i < p.side; i++) {
        for (int64_t j = 0; j < from; j++) strip[i * columns + j] = 0.0f;
        for (int64_t j = to; j < columns; j++) strip[i * columns + j] = 0.0f;
    }
    x += (top * w.s.in_w + left) * w.s.x_pixel;
    for (int64_t n = 0; n < w.s.in_c; n += WINOGRAD_LANES) {
        int64_t lanes = mcp26_min(WINOGRAD_LANES, w.s.in_c - n);
        if (first == 0 && last == p.side && lanes == WINOGRAD_LANES)
            WINOGRAD(columns)(w, c, x + n, WINOGRAD_LANES, 0, p.side, strip, columns, from, to);
        else
            WINOGRAD(columns)(w, c, x + n, lanes, first, last, strip, columns, from, to);
        for (int64_t t = 0; t < count; t++) {
            MCP26_ROLL for (int64_t i = 0; i < p.side; i++) {
                WINOGRAD_VECTOR out[WINOGRAD_SIDE];
                WINOGRAD(in)(w.pairs, c, strip + i * columns + t * p.size, out);
                WINOGRAD_ELEMENT *to = v + i * p.side * p.v_point + places[t].at + n * places[t].rows;
                MCP26_UNROLL for (int64_t j = 0; j < p.side; j++) WINOGRAD(put)(to + j * p.v_point, places[t], out[j]);
            }
        }
    }
}

/* V of tiles begin ... end-1. */
MCP26_INLINE void WINOGRAD(block_in)(winograd_shape w, winograd_plan p, const WINOGRAD_CONSTANTS *c, const WINOGRAD_ELEMENT *x,
                                    int64_t begin, int64_t end, WINOGRAD_VECTOR *strip, WINOGRAD_ELEMENT *v) {
    for (int64_t t = begin; t < end;) {
        int64_t column = t % p.across, row = t / p.across % p.down, item = t / p.across / p.down;
        int64_t count = mcp26_min(mcp26_min(p.across - column, end - t), WINOGRAD_RUN);
        winograd_place places[WINOGRAD_RUN];
        for (int64_t i = 0; i < count; i++) places[i] = WINOGRAD(place_of)(end - begin, t - begin + i, p.v_tile);
        WINOGRAD(run_in)(w, p, c, x + item * w.s.in_h * w.s.in_w * w.s.x_pixel, row * p.size - w.s.pad_top,
                        column * p.size - w.s.pad_left, count, strip, places, v);
        t += count;
    }
}

/* The pixels of a tile, channels n ... n + `columns`-1 of one vector, from the products at m. */
MCP26_INLINE void WINOGRAD(tile_out)(winograd_shape w, winograd_plan p, const WINOGRAD_CONSTANTS *c, const WINOGRAD_ELEMENT *m,
                                    int64_t t, int64_t n, int64_t columns, WINOGRAD_VECTOR *strip, WINOGRAD_RESULT y,
                                    mcp26_epilogue epilogue, const void *const *args) {
    int64_t left = t % p.across * p.size, top = t / p.across % p.down * p.size, item = t / p.across / p.down;
    int64_t rows = mcp26_min(p.size, w.s.out_h - top), pixels = mcp26_min(p.size, w.s.out_w - left);
    MCP26_ROLL for (int64_t j = 0; j < p.side; j++) {
        WINOGRAD_VECTOR v[WINOGRAD_SIDE], out[2 * WINOGRAD_PAIRS];
        MCP26_UNROLL for (int64_t i = 0; i < p.side; i++) v[i] = WINOGRAD(load)(m + (i * p.side + j) * p.m_point, WINOGRAD_LANES);
        WINOGRAD(out)(w.pairs, c, v, out);
        MCP26_UNROLL for (int64_t i = 0; i < p.size; i++) strip[i * p.side + j] = out[i];
    }
    MCP26_ROLL for (int64_t i = 0; i < rows; i++) {
        WINOGRAD_VECTOR out[2 * WINOGRAD_PAIRS];
        WINOGRAD(out)(w.pairs, c, strip + i * p.side, out);
        int64_t pixel = (item * w.s.out_h + top + i) * w.s.out_w + left;
        MCP26_UNROLL for (int64_t j = 0; j < p.size; j++) {
            if (j >= pixels) break;
            WINOGRAD(store)(out[j], y, pixel + j, n, columns, epilogue, args);
        }
    }
}

/* Columns n ... n + `columns`-1, at most WINOGRAD_WIDTH, of tiles begin ... end-1. */
MCP26_INLINE void WINOGRAD(strip)(winograd_shape w, winograd_plan p, const WINOGRAD_CONSTANTS *c,
                                 const WINOGRAD_ELEMENT *v, const WINOGRAD_ELEMENT *u, WINOGRAD_ELEMENT *m,
                                 int64_t begin, int64_t end, int64_t n, int64_t columns, WINOGRAD_VECTOR *strip,
                                 WINOGRAD_RESULT y, mcp26_epilogue epilogue, const void *const *args) {
    int64_t vectors = WINOGRAD(products)(w, p, v, u, m, end - begin, n, columns);
    for (int64_t t = begin; t < end; t++) {
        const WINOGRAD_ELEMENT *from = m + (t - begin) * vectors * WINOGRAD_LANES;
        MCP26_ROLL for (int64_t k = 0; k < columns; k += WINOGRAD_LANES) {
            if (k + WINOGRAD_LANES <= columns)
                WINOGRAD(tile_out)(w, p, c, from + k, t, n + k, WINOGRAD_LANES, strip, y, epilogue, args);
            else
                WINOGRAD(tile_out)(w, p, c, from + k, t, n + k, columns - k, strip, y, epilogue, args);
        }
    }
}

MCP26_INLINE int64_t WINOGRAD(units)(winograd_shape w) {
    winograd_plan p = WINOGRAD(plan_of)(w);
    return p.blocks * p.groups;
}

/* Vectors of what is transformed in one direction. */
MCP26_INLINE int64_t WINOGRAD(strip_vectors)(winograd_plan p) { return p.side * (WINOGRAD_RUN * p.size + 2); }

/* Bytes of scratch of one worker. */
MCP26_INLINE int64_t WINOGRAD(scratch)(winograd_shape w) {
    winograd_plan p = WINOGRAD(plan_of)(w);
    int64_t elements = p.side * p.side * (p.v_point + p.m_point);
    return WINOGRAD(strip_vectors)(p) * (int64_t)sizeof(WINOGRAD_VECTOR) +
           elements * (int64_t)sizeof(WINOGRAD_ELEMENT);
}

/* Units begin ... end-1 of y = epilogue(x * u). `scratch`: so many bytes, aligned as a vector. */
MCP26_INLINE void WINOGRAD(run)(winograd_shape w, const WINOGRAD_ELEMENT *x, const WINOGRAD_ELEMENT *u,
                                WINOGRAD_RESULT y, mcp26_epilogue epilogue, const void *const *args, void *scratch,
                                int64_t begin, int64_t end) {
    winograd_plan p = WINOGRAD(plan_of)(w);
    WINOGRAD_CONSTANTS c = WINOGRAD(constants_of)(w);
    WINOGRAD_VECTOR *strip = scratch;
    WINOGRAD_ELEMENT *v = (WINOGRAD_ELEMENT *)(void *)(strip + WINOGRAD(strip_vectors)(p));
    WINOGRAD_ELEMENT *m = v + p.side * p.side * p.v_point;
    int64_t tiles = mcp26_ceil_div(w.s.out_c, WINOGRAD_WIDTH), ready = -1;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t block = unit / p.groups, group = unit % p.groups;
        int64_t first = tile_top(p.grains, block * p.grains.tiles / p.blocks);
        int64_t last = tile_top(p.grains, (block + 1) * p.grains.tiles / p.blocks);
        if (block != ready) WINOGRAD(block_in)(w, p, &c, x, first, last, strip, v);
        ready = block;
        int64_t until = mcp26_min(w.s.out_c, (group + 1) * tiles / p.groups * WINOGRAD_WIDTH);
        for (int64_t n = group * tiles / p.groups * WINOGRAD_WIDTH; n < until; n += WINOGRAD_WIDTH) {
            int64_t columns = mcp26_min(WINOGRAD_WIDTH, w.s.out_c - n);
            if (columns == WINOGRAD_WIDTH)
                WINOGRAD(strip)(w, p, &c, v, u, m, first, last, n, WINOGRAD_WIDTH, strip, y, epilogue, args);
            else
                WINOGRAD(strip)(w, p, &c, v, u, m, first, last, n, columns, strip, y, epilogue, args);
        }
    }
}

#undef WINOGRAD
#undef WINOGRAD_ELEMENT
#undef WINOGRAD_VECTOR
#undef WINOGRAD_SCALAR
#undef WINOGRAD_CONSTANTS
#undef WINOGRAD_LANES
#undef WINOGRAD_WIDTH
#undef WINOGRAD_ROWS
#undef WINOGRAD_PACKS
#undef WINOGRAD_TOGETHER
#undef WINOGRAD_RESULT
