/* attention.h: softmax(score(Q K^T)) V by blocks of queries and keys, so that no more than a block of the scores exists
 * (T. Dao et al., FlashAttention, 2022; the running maximum and sum are M. Milakov's and N. Gimelshein's, 2018).
 *
 * Units: batch x heads x blocks of ATTENTION_ROWS queries; a single query brings several heads that share their keys
 * (attention_share). A score is one chain of fused multiply-adds over the depth, or with few queries, for which keys are
 * read as they lie, 8 lanes over it; a row's sum takes 8 lanes over the keys of a block, blocks follow each other: results
 * do not depend on the ISA, nor on the split among threads.
 */
#ifndef MCP26_ATTENTION_H
#define MCP26_ATTENTION_H

#include "gemm.h"
#include "mcp26_abi.h"
#include "transpose.h"
#include "vmath.h"

enum {
    ATTENTION_ROWS = 96,
    ATTENTION_KEYS = 256,
    ATTENTION_EDGE = 2 * 16, /* columns of a tile, at most */
    ATTENTION_FEW = 4,       /* queries that meet keys as they lie, and heads of one query that do together */
    ATTENTION_DOTS = 8,      /* chains of such products: as many as keep the multipliers busy */
    ATTENTION_DEPTH = 2048   /* components of a key, at most */
};

/* No bound of the keys that a query sees; sums of a few of these do not overflow. */
#define ATTENTION_ALL ((int64_t)1 << 40)

/* Elements from one item to the next. */
typedef struct {
    int64_t batch, head, row, column;
} attention_steps;

/* `count` keys and their values; a row is a key, a column a component. Columns of V are neighbours. */
typedef struct {
    const float *k, *v;
    attention_steps k_step, v_step;
    int64_t count;
} attention_keys;

typedef enum { ATTENTION_RAW, ATTENTION_BIASED, ATTENTION_SOFTMAX } attention_scores;

/* Head h of the queries meets head h / group of the keys; depth and width are the components of a key and of a value.
 * Columns of Q and Y are neighbours. The keys are keys[0], then keys[1]; query i sees key j where
 *
 *     i + offset - before <= j <= i + offset + after,   j < limit
 *
 * With `lengths` [batch], lengths[b] is a limit too, and where `offset` is -rows it counts from there (offset +=
 * lengths[b]). A query that sees no key, or only some with the score -infinity, gives NaN as softmax does, or 0 with
 * `is_guarded`. The kernel fills `scores` [batch][heads][rows][keys] where it is not 0, with the help of the score
 * function: what that stored there, with -infinity for keys that are not seen (BIASED), or the softmax of it. */
typedef struct {
    int64_t batch, heads, group, rows, depth, width;
    const float *q;
    attention_steps q_step;
    float *y;
    attention_steps y_step;
    attention_keys keys[2];
    int64_t before, after, offset, limit;
    const int64_t *lengths;
    int64_t is_offset_from_length, is_guarded;
    float scale; /* for the score function */
    float *scores;
    attention_scores scores_kind;
} attention;

/* What a score function gets as its `args`: the kernel's own, the steps of their operands, where it is, a factor. */
typedef struct {
    const void *const *args;
    const attention_steps *steps;
    int64_t batch, head;
    float scale;
} attention_place;

/* The element of operand `index` for a query and a key. */
MCP26_INLINE int64_t attention_at(const attention_place *at, int64_t index, int64_t query, int64_t key) {
    attention_steps s = at->steps[index];
    return at->batch * s.batch + at->head * s.head + query * s.row + key * s.column;
}

/* Units that the heads of a group make: with a single query, up to ATTENTION_FEW heads meet their keys together. */
MCP26_INLINE int64_t attention_shares(int64_t group, int64_t rows) {
    return rows == 1 ? mcp26_ceil_div(group, ATTENTION_FEW) : group;
}

MCP26_INLINE int64_t attention_units(int64_t batch, int64_t heads, int64_t group, int64_t rows) {
    return batch * (heads / group) * attention_shares(group, rows) * mcp26_ceil_div(rows, ATTENTION_ROWS);
}

/* e^x for x <= 0; 0 where it is less than 2^-126.5. */
MCP26_INLINE v8f attention_power(v8f x) {
    x = v8f_select(x < -88.0f, -88.0f, x); /* a NaN passes */
    /* As vmath_reduce, with the exponent of 2^n in the low bits: for n = -127 those make a zero. */
    v8f shifted = v8f_fma(x, 1.44269504f, 12582912.0f + 127.0f);
    v8f n = shifted - (12582912.0f + 127.0f);
    v8f r = v8f_fma(n, 0x1.05c61p-29f, v8f_fma(n, -0x1.62e43p-1f, x));
    v8f scale = (v8f)((v8i)shifted << 23);
    return v8f_fma(vmath_expm1(r), scale, scale);
}

/* The larger number, b where one is NaN: a NaN reaches the result through the sum of the powers. */
MCP26_INLINE v8f attention_larger(v8f a, v8f b) { return v8f_select(a > b, a, b); }

MCP26_INLINE float attention_largest(v8f v) {
    v = attention_larger(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3));
    v = attention_larger(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5));
    return attention_larger(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6))[0];
}

/* What goes on from block to block for each row: the maximum, the sum, what the last block multiplied the sum by. */
typedef struct {
    float peak[ATTENTION_ROWS], sum[ATTENTION_ROWS], rescale[ATTENTION_ROWS];
} attention_rows;

/* Row i of a block: products with `count` keys, of which columns from ... to-1 are seen, become scores (of query m and
 * the keys from n on), then powers. */
MCP26_INLINE void attention_row(float *p, int64_t count, int64_t from, int64_t to, mcp26_epilogue score,
                                const attention_place *place, int64_t m, int64_t n, attention_rows *all, int64_t i) {
    v8f top = -MCP26_INFINITY, total = 0.0f;
    for (int64_t c = 0; c < count; c += 8) {
        v8f v = score(v8f_load_all(p + c), (const void *)place, m, n + c, mcp26_min(8, count - c));
        if (c < from || c + 8 > to) {
            v8i key = (int32_t)c + (v8i){0, 1, 2, 3, 4, 5, 6, 7};
            v = v8f_select((key >= (int32_t)from) & (key < (int32_t)to), v, -MCP26_INFINITY);
        }
        v8f_store_all(p + c, v);
        top = attention_larger(v, top);
    }
    float before = all->peak[i], largest = attention_largest(top), high = largest > before ? largest : before;
    float base = high == -MCP26_INFINITY ? 0.0f : high;
    for (int64_t c = 0; c < count; c += 8) {
        v8f e = attention_power(v8f_load_all(p + c) - base);
        v8f_store_all(p + c, e);
        total += e;
    }
    all->peak[i] = high;
    all->rescale[i] = attention_power(v8f_splat(before - base))[0];
    all->sum[i] = all->sum[i] * all->rescale[i] + v8f_sum(total);
}

/* Rows i of y times factors[i]. */
MCP26_INLINE void attention_scale(int64_t rows, int64_t width, float *y, int64_t row, const float *factors) {
    for (int64_t i = 0; i < rows; i++, y += row) {
        for (int64_t c = 0; c < width; c += 8) {
            int64_t lanes = mcp26_min(8, width - c);
            v8f_store(y + c, v8f_load(y + c, lanes) * factors[i], lanes);
        }
    }
}

/* A right operand [depth][columns], which may have to be packed. */
typedef struct {
    const float *data;
    int64_t row, column;
} attention_right;

typedef struct {
    const float *b;
    int64_t b_step, panel_stride;
} attention_panels;

/* The strip that begins at from.data, packed. */
MCP26_INLINE attention_panels attention_pack(attention_right from, int64_t depth, int64_t columns, float *packed) {
    if (from.column != 1) {
        pack_transposed(from.data, from.column, from.row, columns, depth, packed);
    } else {
        for (int64_t n = 0; n < mcp26_ceil_div(columns, MCP26_NR) * MCP26_NR; n += 8) {
            float *to = packed + n / MCP26_NR * MCP26_NR * depth + n % MCP26_NR;
            int64_t lanes = mcp26_max(0, mcp26_min(8, columns - n));
            for (int64_t k = 0; k < depth; k++) {
                v8f_store_all(to + k * MCP26_NR, lanes ? v8f_load(from.data + k * from.row + n, lanes) : 0.0f);
            }
        }
    }
    return (attention_panels){packed, MCP26_NR, depth * MCP26_NR};
}

/* C[rows][columns] = A[rows][depth] x B, plus C if `goes_on`; rows of A and C are lda and ldc apart. With `is_loose` rows
 * of C go on to whole tiles. `packed` holds depth rows of a strip, `edge` a tile's columns of every row. */
MCP26_INLINE void attention_product(int64_t rows, int64_t columns, int64_t depth, const float *a, int64_t lda,
                                    attention_right b, float *c, int64_t ldc, int64_t is_loose, int64_t goes_on,
                                    float *packed, float *edge) {
    for (int64_t n = 0, width; n < columns; n += width) {
        int64_t vectors = tile_vectors(rows, columns - n, 1), here;
        width = vectors * TILE_LANES;
        here = mcp26_min(width, columns - n);
        attention_right strip = {b.data + n * b.column, b.row, b.column};
        attention_panels panels = here == width && b.column == 1 ? (attention_panels){strip.data, b.row, MCP26_NR}
                                                                 : attention_pack(strip, depth, here, packed);
        int64_t is_direct = is_loose || here == width, step = is_direct ? ldc : width;
        float *to = is_direct ? c + n : edge;
        for (int64_t i = 0; !is_direct && goes_on && i < rows; i++) {
            for (int64_t j = 0; j < here; j++) edge[i * width + j] = c[i * ldc + n + j];
        }
        tile_sum_strip(rows, vectors, a, lda, depth, panels.b, panels.b_step, panels.panel_stride, to, step, goes_on);
        for (int64_t i = 0; !is_direct && i < rows; i++) {
            for (int64_t j = 0; j < here; j++) c[i * ldc + n + j] = edge[i * width + j];
        }
    }
}

/* Sums of four vectors, each in the order of v8f_sum. */
MCP26_INLINE v4f attention_sums(const v8f *v) {
    v4f four[4], two[2];
    MCP26_UNROLL for (int64_t i = 0; i < 4; i++) four[i] = v[i].lo + v[i].hi;
    MCP26_UNROLL for (int64_t i = 0; i < 2; i++) {
        v4f a = four[2 * i], b = four[2 * i + 1];
        two[i] = __builtin_shufflevector(a, b, 0, 1, 4, 5) + __builtin_shufflevector(a, b, 2, 3, 6, 7);
    }
    return __builtin_shufflevector(two[0], two[1], 0, 2, 4, 6) + __builtin_shufflevector(two[0], two[1], 1, 3, 5, 7);
}

/* to[i * ATTENTION_KEYS + j] = the product of rows i of q and j of k, j < ATTENTION_DOTS / rows, a multiple of 4. Rows of
 * k beyond `count` - 1 are the last one again. */
MCP26_INLINE void attention_dots(int64_t rows, int64_t count, int64_t depth, const float *q, int64_t q_row,
                                 const float *k, int64_t k_row, float *to) {
    int64_t keys = ATTENTION_DOTS / rows;
    const float *key[ATTENTION_DOTS];
    v8f sums[ATTENTION_DOTS];
    MCP26_UNROLL for (int64_t j = 0; j < keys; j++) key[j] = k + mcp26_min(j, count - 1) * k_row;
    MCP26_UNROLL for (int64_t i = 0; i < ATTENTION_DOTS; i++) sums[i] = 0.0f;
    int64_t d = 0;
    MCP26_ROLL for (; d + 8 <= depth; d += 8) {
        v8f a[2];
        MCP26_UNROLL for (int64_t i = 0; i < rows; i++) a[i] = v8f_load_all(q + i * q_row + d);
        MCP26_UNROLL for (int64_t j = 0; j < keys; j++) {
            v8f b = v8f_load_all(key[j] + d);
            MCP26_UNROLL for (int64_t i = 0; i < rows; i++) sums[i * keys + j] = v8f_fma(a[i], b, sums[i * keys + j]);
        }
    }
    if (d < depth) {
        MCP26_UNROLL for (int64_t j = 0; j < keys; j++) {
            v8f b = v8f_load(key[j] + d, depth - d);
            MCP26_UNROLL for (int64_t i = 0; i < rows; i++) {
                sums[i * keys + j] = v8f_fma(v8f_load(q + i * q_row + d, depth - d), b, sums[i * keys + j]);
            }
        }
    }
    MCP26_UNROLL for (int64_t i = 0; i < ATTENTION_DOTS; i += 4) {
        v4f four = attention_sums(sums + i);
        __builtin_memcpy(to + i / keys * ATTENTION_KEYS + i % keys, &four, sizeof four);
    }
}

/* The products of up to ATTENTION_FEW queries and the `count` keys of a block, whose components are neighbours. */
MCP26_INLINE void attention_few(int64_t rows, int64_t count, int64_t depth, const float *q, int64_t q_row,
                                const float *k, int64_t k_row, float *p) {
    for (int64_t j = 0; j < count; j += 8) {
        if (rows == 1) {
            attention_dots(1, count - j, depth, q, q_row, k + j * k_row, k_row, p + j);
            continue;
        }
        for (int64_t pair = 0; pair < rows; pair += 2) { /* of three queries the second is in both */
            int64_t i = mcp26_min(pair, rows - 2);
            for (int64_t n = j; n < j + 8; n += 4) {
                attention_dots(2, count - n, depth, q + i * q_row, q_row, k + n * k_row, k_row,
                               p + i * ATTENTION_KEYS + n);
            }
        }
    }
}

/* The keys that query i sees, of those before `limit`. */
MCP26_INLINE int64_t attention_from(attention a, int64_t offset, int64_t i) {
    return mcp26_max(0, i + offset - a.before);
}
MCP26_INLINE int64_t attention_to(attention a, int64_t offset, int64_t limit, int64_t i) {
    return mcp26_min(limit, i + offset + a.after + 1);
}

/* A finished row of `scores`. */
MCP26_INLINE void attention_finish(attention a, float *row, int64_t count, int64_t from, int64_t to, float peak,
                                   float sum) {
    float base = peak == -MCP26_INFINITY ? 0.0f : peak;
    for (int64_t c = 0; c < count; c++) {
        int64_t is_seen = c >= from && c < to;
        if (a.scores_kind == ATTENTION_BIASED) {
            if (!is_seen) row[c] = -MCP26_INFINITY;
        } else {
            float e = is_seen ? v8f_exp(v8f_splat(row[c] - base))[0] : 0.0f;
            row[c] = sum == 0.0f && a.is_guarded ? 0.0f : e / sum;
        }
    }
}

/* The rows of a unit: queries of one head from `query` on, or heads of a single query. */
typedef struct {
    int64_t batch, head, query, rows;
} attention_part;

MCP26_INLINE attention_part attention_part_of(attention a, int64_t u) {
    int64_t blocks = mcp26_ceil_div(a.rows, ATTENTION_ROWS), shares = attention_shares(a.group, a.rows);
    int64_t block = u % blocks, share = u / blocks % shares, set = u / blocks / shares * a.group;
    int64_t query = block * a.rows / blocks, head = share * a.group / shares;
    int64_t rows = a.rows == 1 ? (share + 1) * a.group / shares - head : (block + 1) * a.rows / blocks - query;
    return (attention_part){set / a.heads, set % a.heads + head, query, rows};
}

/* `score` is what a product becomes before the softmax: an epilogue whose args are an attention_place, whose m is the
 * query and n the key. `scratch` of this worker holds ATTENTION_ROWS * (ATTENTION_KEYS + ATTENTION_EDGE) floats and a
 * strip: ATTENTION_EDGE columns of as many values, or where that is more ATTENTION_EDGE keys, four times as many if there
 * are no more than ATTENTION_FEW queries. A fault where keys have too many components. */
MCP26_INLINE int32_t attention_f32(mcp26_env *env, attention a, mcp26_epilogue score, const void *const *args,
                                   const attention_steps *steps, float *scratch, int64_t begin, int64_t end) {
    int64_t total = a.keys[0].count + a.keys[1].count, is_single = a.rows == 1;
    int64_t q_row = is_single ? a.q_step.head : a.q_step.row, y_row = is_single ? a.y_step.head : a.y_step.row;
    float *p = scratch, *edge = p + ATTENTION_ROWS * ATTENTION_KEYS, *packed = edge + ATTENTION_ROWS * ATTENTION_EDGE;
    attention_rows all;
    if (a.depth > ATTENTION_DEPTH) {
        env->fault = (mcp26_fault){0, MCP26_DATA_BOUND, a.depth, ATTENTION_DEPTH};
        return MCP26_STEP_DATA;
    }
    for (int64_t u = begin; u < end; u++) {
        attention_part unit = attention_part_of(a, u);
        int64_t b = unit.batch, rows = unit.rows, each = is_single ? 0 : 1; /* queries from row to row */
        int64_t offset = a.offset, limit = mcp26_min(total, a.limit);
        if (a.lengths) {
            int64_t length = mcp26_max(0, mcp26_min(total, a.lengths[b]));
            limit = mcp26_min(limit, length);
            if (a.is_offset_from_length) offset += length;
        }
        int64_t low = 0, high = total; /* of all keys that any of the rows sees */
        if (!a.scores) {
            low = mcp26_min(total, attention_from(a, offset, unit.query));
            high = mcp26_max(low, attention_to(a, offset, limit, unit.query + (rows - 1) * each));
        }
        const float *q = a.q + b * a.q_step.batch + unit.head * a.q_step.head + unit.query * a.q_step.row;
        float *y = a.y + b * a.y_step.batch + unit.head * a.y_step.head + unit.query * a.y_step.row;
        for (int64_t i = 0; i < rows; i++) {
            all.peak[i] = -MCP26_INFINITY;
            all.sum[i] = 0.0f;
            for (int64_t c = 0; low == high && c < a.width; c++) y[i * y_row + c] = 0.0f;
        }
        for (int64_t part = 0, start = 0; part < 2; start += a.keys[part].count, part++) {
            attention_keys keys = a.keys[part];
            int64_t stop = mcp26_min(keys.count, high - start), kv_head = unit.head / a.group;
            for (int64_t k0 = mcp26_max(0, low - start), count; k0 < stop; k0 += count) {
                int64_t n0 = start + k0;
                count = mcp26_min(ATTENTION_KEYS, stop - k0);
                const float *k = keys.k + b * keys.k_step.batch + kv_head * keys.k_step.head + k0 * keys.k_step.row;
                const float *v = keys.v + b * keys.v_step.batch + kv_head * keys.v_step.head + k0 * keys.v_step.row;
                if (a.rows <= ATTENTION_FEW && keys.k_step.column == 1) {
                    attention_few(rows, count, a.depth, q, q_row, k, keys.k_step.row, p);
                } else {
                    attention_product(rows, count, a.depth, q, q_row,
                                      (attention_right){k, keys.k_step.column, keys.k_step.row}, p, ATTENTION_KEYS, 1,
                                      0, packed, edge);
                }
                for (int64_t i = 0; i < rows; i++) {
                    int64_t query = unit.query + i * each;
                    int64_t from = attention_from(a, offset, query) - n0;
                    int64_t to = attention_to(a, offset, limit, query) - n0;
                    attention_place place = {args, steps, b, unit.head + i * (1 - each), a.scale};
                    attention_row(p + i * ATTENTION_KEYS, count, mcp26_min(count, mcp26_max(0, from)),
                                  mcp26_min(count, mcp26_max(0, to)), score, &place, query, n0, &all, i);
                }
                if (n0 != low) attention_scale(rows, a.width, y, y_row, all.rescale);
                attention_product(rows, a.width, count, p, ATTENTION_KEYS, (attention_right){v, keys.v_step.row, 1}, y,
                                  y_row, 0, n0 != low, packed, edge);
            }
        }
        for (int64_t i = 0; i < rows; i++) all.rescale[i] = all.sum[i] == 0.0f && a.is_guarded ? 0.0f : 1.0f / all.sum[i];
        if (low < high) attention_scale(rows, a.width, y, y_row, all.rescale);
        if (!a.scores || a.scores_kind == ATTENTION_RAW) continue;
        for (int64_t i = 0; i < rows; i++) {
            int64_t head = unit.head + i * (1 - each), query = unit.query + i * each;
            attention_finish(a, a.scores + ((b * a.heads + head) * a.rows + query) * total, total,
                             attention_from(a, offset, query), attention_to(a, offset, limit, query), all.peak[i],
                             all.sum[i]);
        }
    }
    return 0;
}

#endif
