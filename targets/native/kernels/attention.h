/* attention.h: softmax(score(Q K^T)) V by blocks of queries and keys, so that no more than a block of the scores exists
 * (T. Dao et al., FlashAttention, 2022; the running maximum and sum are M. Milakov's and N. Gimelshein's, 2018).
 *
 * Units: batch x heads x blocks of ATTENTION_ROWS queries. A score is one chain of fused multiply-adds over the depth, a
 * row's sum takes 8 lanes over the keys of a block, blocks follow each other: results do not depend on the ISA, nor on
 * the split among threads.
 */
#ifndef MCP26_ATTENTION_H
#define MCP26_ATTENTION_H

#include "gemm.h"
#include "mcp26_abi.h"
#include "transpose.h"
#include "vmath.h"

enum {
    ATTENTION_ROWS = 64,
    ATTENTION_KEYS = 128,        /* of a block, at most */
    ATTENTION_PACKED = 128 * 256 /* floats of packed keys, at most: with more components, fewer keys make a block */
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

MCP26_INLINE int64_t attention_units(int64_t batch, int64_t heads, int64_t rows) {
    return batch * heads * mcp26_ceil_div(rows, ATTENTION_ROWS);
}

/* Keys of a block: whole panels. */
MCP26_INLINE int64_t attention_block_keys(int64_t depth) {
    int64_t fit = ATTENTION_PACKED / mcp26_max(1, depth) / 16 * 16;
    return mcp26_min(ATTENTION_KEYS, fit);
}

/* The larger number, b where one is NaN: a NaN reaches the result through the sum of the powers. */
MCP26_INLINE v8f attention_larger(v8f a, v8f b) { return v8f_select(a > b, a, b); }

MCP26_INLINE float attention_largest(v8f v) {
    v = attention_larger(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3));
    v = attention_larger(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5));
    return attention_larger(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6))[0];
}

/* A row of scores, of which columns from ... to-1 are seen, becomes powers; the maximum and the sum of the row go on. */
MCP26_INLINE void attention_row(float *p, int64_t count, int64_t from, int64_t to, float *peak, float *sum,
                                float *rescale) {
    v8f top = -MCP26_INFINITY, total = 0.0f;
    for (int64_t c = 0; c < count; c += 8) {
        v8f v = v8f_load_all(p + c);
        if (c < from || c + 8 > to) {
            v8i key = (int32_t)c + (v8i){0, 1, 2, 3, 4, 5, 6, 7};
            v = v8f_select((key >= (int32_t)from) & (key < (int32_t)to), v, -MCP26_INFINITY);
            v8f_store_all(p + c, v);
        }
        top = attention_larger(v, top);
    }
    float largest = attention_largest(top), high = largest > *peak ? largest : *peak;
    float base = high == -MCP26_INFINITY ? 0.0f : high;
    for (int64_t c = 0; c < count; c += 8) {
        v8f e = v8f_exp(v8f_load_all(p + c) - base);
        v8f_store_all(p + c, e);
        total += e;
    }
    *rescale = v8f_exp(v8f_splat(*peak - base))[0];
    *sum = *sum * *rescale + v8f_sum(total);
    *peak = high;
}

/* What the second product needs to add a block to the ones before. */
typedef struct {
    const float *y, *rescale, *sum;
    int64_t row, is_first, is_last, is_guarded;
} attention_block;

MCP26_INLINE v8f attention_add(v8f acc, const void *const *args, int64_t m, int64_t n, int64_t lanes) {
    const attention_block *b = (const void *)args;
    if (!b->is_first) acc = v8f_fma(v8f_load(b->y + m * b->row + n, lanes), v8f_splat(b->rescale[m]), acc);
    if (!b->is_last) return acc;
    v8f sum = v8f_splat(b->sum[m]);
    return v8f_select((sum == 0.0f) & (v8i)(int32_t)-b->is_guarded, 0.0f, acc / sum);
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

/* `score` is what a product becomes before the softmax: an epilogue whose args are an attention_place, whose m is the
 * query and n the key. `scratch` holds ATTENTION_ROWS * (ATTENTION_KEYS + 3) floats of this worker, and a block of keys. A
 * fault where there are too many components for a block. */
MCP26_INLINE int32_t attention_f32(mcp26_env *env, attention a, mcp26_epilogue score, const void *const *args,
                                const attention_steps *steps, float *scratch, int64_t begin, int64_t end) {
    int64_t blocks = mcp26_ceil_div(a.rows, ATTENTION_ROWS), total = a.keys[0].count + a.keys[1].count;
    float *p = scratch, *peak = p + ATTENTION_ROWS * ATTENTION_KEYS, *sum = peak + ATTENTION_ROWS;
    float *rescale = sum + ATTENTION_ROWS, *packed = rescale + ATTENTION_ROWS;
    int64_t most = attention_block_keys(a.depth);
    if (most == 0) {
        env->fault = (mcp26_fault){0, MCP26_DATA_BOUND, a.depth, ATTENTION_PACKED / 16};
        return MCP26_STEP_DATA;
    }
    for (int64_t u = begin; u < end; u++) {
        int64_t b = u / (a.heads * blocks), h = u / blocks % a.heads, first = u % blocks * ATTENTION_ROWS;
        int64_t rows = mcp26_min(ATTENTION_ROWS, a.rows - first), offset = a.offset;
        int64_t limit = mcp26_min(total, a.limit);
        if (a.lengths) {
            int64_t length = mcp26_max(0, mcp26_min(total, a.lengths[b]));
            limit = mcp26_min(limit, length);
            if (a.is_offset_from_length) offset += length;
        }
        int64_t low = 0, high = total; /* of all keys that any of the rows sees */
        if (!a.scores) {
            low = mcp26_min(total, attention_from(a, offset, first));
            high = mcp26_max(low, attention_to(a, offset, limit, first + rows - 1));
        }
        const float *q = a.q + b * a.q_step.batch + h * a.q_step.head + first * a.q_step.row;
        float *y = a.y + b * a.y_step.batch + h * a.y_step.head + first * a.y_step.row;
        for (int64_t i = 0; i < rows; i++) {
            peak[i] = -MCP26_INFINITY;
            sum[i] = 0.0f;
            for (int64_t c = 0; low == high && c < a.width; c++) y[i * a.y_step.row + c] = 0.0f;
        }
        attention_place place = {args, steps, b, h, a.scale};
        for (int64_t part = 0, start = 0; part < 2; start += a.keys[part].count, part++) {
            attention_keys keys = a.keys[part];
            int64_t stop = mcp26_min(keys.count, high - start);
            for (int64_t k0 = mcp26_max(0, low - start), count; k0 < stop; k0 += count) {
                int64_t n0 = start + k0;
                count = mcp26_min(most, stop - k0);
                const float *k = keys.k + b * keys.k_step.batch + h / a.group * keys.k_step.head + k0 * keys.k_step.row;
                const float *v = keys.v + b * keys.v_step.batch + h / a.group * keys.v_step.head + k0 * keys.v_step.row;
                int64_t is_transposed = keys.k_step.row == 1 && keys.k_step.column != 1;
                if (!is_transposed) {
                    pack_transposed(k, keys.k_step.row, keys.k_step.column, count, a.depth, packed);
                }
                gemm_left queries = {q, a.q_step.row, is_transposed ? keys.k_step.column : MCP26_NR, a.depth,
                                     is_transposed};
                tile_product qk = {.rows = rows, .columns = count, .depth = a.depth, .left = &queries,
                                   .b = is_transposed ? k : packed,
                                   .panel_stride = is_transposed ? MCP26_NR : a.depth * MCP26_NR, .c = p,
                                   .ldc = ATTENTION_KEYS, .args = (const void *)&place, .row0 = first, .column0 = n0};
                tile_units_run(qk, gemm_source, score, 0, tile_units(rows, count, a.depth));
                for (int64_t i = 0; i < rows; i++) {
                    int64_t from = attention_from(a, offset, first + i) - n0;
                    int64_t to = attention_to(a, offset, limit, first + i) - n0;
                    attention_row(p + i * ATTENTION_KEYS, count, mcp26_min(count, mcp26_max(0, from)),
                                  mcp26_min(count, mcp26_max(0, to)), peak + i, sum + i, rescale + i);
                }
                int64_t is_last = n0 + count == high;
                attention_block block = {y, rescale, sum, a.y_step.row, n0 == low, is_last, a.is_guarded};
                gemm_left powers = {p, ATTENTION_KEYS, keys.v_step.row, count, 1};
                tile_product pv = {.rows = rows, .columns = a.width, .depth = count, .left = &powers, .b = v,
                                   .panel_stride = MCP26_NR, .c = y, .ldc = a.y_step.row,
                                   .args = (const void *)&block};
                tile_units_run(pv, gemm_source, attention_add, 0, tile_units(rows, a.width, count));
            }
        }
        if (!a.scores || a.scores_kind == ATTENTION_RAW) continue;
        for (int64_t i = 0; i < rows; i++) {
            attention_finish(a, a.scores + ((b * a.heads + h) * a.rows + first + i) * total, total,
                             attention_from(a, offset, first + i), attention_to(a, offset, limit, first + i), peak[i],
                             sum[i]);
        }
    }
    return 0;
}

#endif
