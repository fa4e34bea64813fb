/* resize.h: ONNX Resize. Along every axis an output element is a sum of `taps`, input elements times weights; over
 * several axes the taps are combined, all in one pass. Taps are computed as the kernel runs, so sizes may be run-time
 * values.
 *
 * A tensor is seen as [axes[0].in] ... [axes[rank-1].in][inner] in memory order: the last axis is one that is resized,
 * `inner` is what lies behind it, neighbours that stay as they are have been merged. Units: blocks of RESIZE_BLOCK
 * positions along the last axis, times lines (all axes but the last).
 *
 * Coordinates are computed in float, as in ONNX Runtime. Taps beyond the edge take the edge's element, or weigh nothing
 * with exclude_outside. A filter against aliasing is the kernel of the mode, stretched by the step between samples.
 */
#ifndef MCP26_RESIZE_H
#define MCP26_RESIZE_H

#include "move.h"

enum { RESIZE_RANK = 8, RESIZE_BLOCK = 64, RESIZE_ROWS = 16, RESIZE_INNER = 4, RESIZE_PIECE = 320 };

typedef enum { RESIZE_NEAREST, RESIZE_LINEAR, RESIZE_CUBIC } resize_mode;
typedef enum {
    RESIZE_HALF_PIXEL,
    RESIZE_HALF_PIXEL_SYMMETRIC,
    RESIZE_PYTORCH_HALF_PIXEL,
    RESIZE_ALIGN_CORNERS,
    RESIZE_ASYMMETRIC,
    RESIZE_TF_CROP_AND_RESIZE
} resize_coordinates;
typedef enum { RESIZE_ROUND_PREFER_FLOOR, RESIZE_ROUND_PREFER_CEIL, RESIZE_FLOOR, RESIZE_CEIL } resize_rounding;

/* `a` is the cubic coefficient. */
typedef struct {
    resize_mode mode;
    resize_coordinates coordinates;
    resize_rounding rounding;
    int antialias, exclude_outside;
    float a;
} resize_method;

/* `from` and `to` are the part of the axis that tf_crop_and_resize takes, 0 ... 1. */
typedef struct {
    int64_t in, out;
    int is_resized;
    float scale, from, to;
} resize_axis;

/* Taps first ... first+count-1, to be clamped into the axis. A filter's weights are computed one by one from `center`
 * and `step`, and divided by `total`. */
typedef struct {
    int64_t first, count;
    int is_outside;
    float weight[4], center, step, total;
} resize_taps;

/* The size of an axis times a scale that data give, rounded down; -1 where that is no size. */
MCP26_INLINE int64_t resize_scaled(int64_t size, float scale) {
    float scaled = (float)size * scale;
    return scale > 0.0f && scaled < 0x1p47f ? (int64_t)scaled : -1;
}

/* The scale that all axes share so that none gets larger (or smaller) than wanted, and what it makes of a size. */
MCP26_INLINE float resize_common(int is_least, int64_t count, const int64_t *wanted, const int64_t *sizes) {
    float scale = (float)wanted[0] / (float)sizes[0];
    for (int64_t i = 1; i < count; i++) {
        float other = (float)wanted[i] / (float)sizes[i];
        scale = is_least == (other < scale) ? other : scale;
    }
    return scale;
}

MCP26_INLINE int64_t resize_rounded(int64_t size, float scale) {
    double scaled = (double)scale * (double)size + 0.5;
    return scaled >= 0.0 && scaled < 0x1p47 ? (int64_t)scaled : -1;
}

MCP26_INLINE float resize_coordinate(resize_coordinates kind, resize_axis a, int64_t o) {
    float at = (float)o, in = (float)a.in, out = (float)a.out;
    if (kind == RESIZE_ASYMMETRIC) return at / a.scale;
    if (kind == RESIZE_ALIGN_CORNERS) return a.out == 1 ? 0.0f : at * (in - 1.0f) / (out - 1.0f);
    if (kind == RESIZE_PYTORCH_HALF_PIXEL) return a.out > 1 ? (at + 0.5f) / a.scale - 0.5f : 0.0f;
    if (kind == RESIZE_TF_CROP_AND_RESIZE) {
        if (a.out == 1) return 0.5f * (a.from + a.to) * (in - 1.0f);
        return a.from * (in - 1.0f) + at * (a.to - a.from) * (in - 1.0f) / (out - 1.0f);
    }
    float half = (at + 0.5f) / a.scale - 0.5f;
    return kind == RESIZE_HALF_PIXEL ? half : in / 2.0f * (1.0f - out / (a.scale * in)) + half;
}

/* Nothing beyond this is told apart: the index stays an integer, whatever a crop asks for. */
MCP26_INLINE float resize_bounded(float x) {
    float raised = x > -0x1p30f ? x : -0x1p30f; /* also for a NaN */
    return raised < 0x1p30f ? raised : 0x1p30f;
}

MCP26_INLINE int64_t resize_nearest_index(resize_rounding rounding, float x) {
    float low = __builtin_elementwise_floor(x), high = __builtin_elementwise_ceil(x);
    if (rounding == RESIZE_FLOOR) return (int64_t)low;
    if (rounding == RESIZE_CEIL) return (int64_t)high;
    return (int64_t)(x - low < 0.5f || (x - low == 0.5f && rounding == RESIZE_ROUND_PREFER_FLOOR) ? low : high);
}

/* The mode's kernel at `distance` from its centre. */
MCP26_INLINE float resize_filter(resize_method m, float distance) {
    float x = __builtin_elementwise_abs(distance);
    if (m.mode == RESIZE_LINEAR) return x < 1.0f ? 1.0f - x : 0.0f;
    if (x < 1.0f) return ((m.a + 2.0f) * x - (m.a + 3.0f)) * x * x + 1.0f;
    return x < 2.0f ? ((m.a * x - 5.0f * m.a) * x + 8.0f * m.a) * x - 4.0f * m.a : 0.0f;
}

MCP26_INLINE int resize_excludes(resize_method m, resize_axis a, int64_t at) {
    return m.exclude_outside && (at < 0 || at >= a.in);
}

MCP26_INLINE resize_taps resize_taps_at(resize_method m, resize_axis a, int64_t o) {
    if (!a.is_resized) return (resize_taps){.first = o, .count = 1, .weight = {1.0f}};
    float x = resize_bounded(resize_coordinate(m.coordinates, a, o)), last = (float)(a.in - 1);
    resize_taps t = {.is_outside = a.in == 0 || (m.coordinates == RESIZE_TF_CROP_AND_RESIZE && (x < 0.0f || x > last))};
    if (m.mode == RESIZE_NEAREST) {
        t.first = resize_nearest_index(m.rounding, x), t.count = 1, t.weight[0] = 1.0f;
        return t;
    }
    if (m.antialias) {
        float reach = m.mode == RESIZE_LINEAR ? 1.0f : 2.0f;
        t.step = a.scale < 1.0f ? a.scale : 1.0f;
        t.center = x;
        t.first = (int64_t)__builtin_elementwise_floor(x - reach / t.step);
        t.count = (int64_t)__builtin_elementwise_ceil(x + reach / t.step) + 1 - t.first;
        for (int64_t i = 0; i < t.count; i++) {
            if (!resize_excludes(m, a, t.first + i)) t.total += resize_filter(m, ((float)(t.first + i) - x) * t.step);
        }
        return t;
    }
    if (m.mode == RESIZE_LINEAR) {
        x = x < 0.0f ? 0.0f : x > last ? last : x;
        float low = __builtin_elementwise_floor(x);
        t.first = (int64_t)low, t.count = 2, t.weight[1] = x - low, t.weight[0] = 1.0f - t.weight[1];
        return t;
    }
    float low = __builtin_elementwise_floor(x), sum = 0.0f;
    t.first = (int64_t)low - 1, t.count = 4;
    MCP26_UNROLL for (int64_t i = 0; i < 4; i++) {
        float weight = resize_filter(m, (float)(i - 1) - (x - low));
        t.weight[i] = resize_excludes(m, a, t.first + i) ? 0.0f : weight;
        sum += t.weight[i];
    }
    MCP26_UNROLL for (int64_t i = 0; i < 4; i++) t.weight[i] = m.exclude_outside ? t.weight[i] / sum : t.weight[i];
    return t;
}

MCP26_INLINE int64_t resize_index(resize_axis a, const resize_taps *t, int64_t i) {
    return mcp26_max(0, mcp26_min(a.in - 1, t->first + i));
}

MCP26_INLINE float resize_weight(resize_method m, resize_axis a, const resize_taps *t, int64_t i) {
    if (!a.is_resized || !m.antialias || m.mode == RESIZE_NEAREST) return t->weight[i];
    if (resize_excludes(m, a, t->first + i)) return 0.0f;
    return resize_filter(m, ((float)(t->first + i) - t->center) * t->step) / t->total;
}

/* Input lines, `count` of them, that are added up with these weights. */
typedef struct {
    const float *line[RESIZE_ROWS];
    float weight[RESIZE_ROWS];
    int64_t count;
    int is_first; /* the output holds no sum yet */
} resize_rows;

/* The taps of a block of positions along the last axis, for all lines. */
MCP26_INLINE void resize_block(resize_method m, resize_axis a, int64_t block, resize_taps *taps) {
    int64_t from = block * RESIZE_BLOCK, to = mcp26_min(a.out, from + RESIZE_BLOCK);
    for (int64_t o = from; o < to; o++) taps[o - from] = resize_taps_at(m, a, o);
}

/* `count` positions with these taps, vectors along `inner`. */
MCP26_INLINE void resize_wide(resize_method m, resize_axis a, int64_t inner, const resize_rows *rows,
                              const resize_taps *taps, int64_t count, float *y, float outside) {
    for (int64_t o = 0; o < count; o++) {
        const resize_taps *t = taps + o;
        for (int64_t n = 0; n < inner; n += 8) {
            int64_t lanes = mcp26_min(8, inner - n);
            v8f sum = rows->is_first ? v8f_splat(0.0f) : v8f_load(y + o * inner + n, lanes);
            for (int64_t k = 0; k < rows->count; k++) {
                for (int64_t i = 0; i < t->count; i++) {
                    v8f weight = rows->weight[k] * resize_weight(m, a, t, i);
                    v8f v = v8f_load(rows->line[k] + resize_index(a, t, i) * inner + n, lanes);
                    sum = v8f_fma(v, weight, sum);
                }
            }
            v8f_store(y + o * inner + n, t->is_outside ? v8f_splat(outside) : sum, lanes);
        }
    }
}

/* The taps of a block where `inner` is small, by element of the block; all lie in low ... high-1 of a line. */
typedef struct {
    int32_t index[4][RESIZE_BLOCK * RESIZE_INNER];
    float weight[4][RESIZE_BLOCK * RESIZE_INNER];
    int32_t is_outside[RESIZE_BLOCK * RESIZE_INNER];
    int64_t low, high;
} resize_elements;

MCP26_INLINE int resize_is_narrow(resize_method m, resize_axis a, int64_t inner) {
    return inner <= RESIZE_INNER && a.in * inner < INT32_MAX && !m.antialias;
}

MCP26_INLINE int64_t resize_tap_count(resize_method m) { return m.mode == RESIZE_LINEAR ? 2 : 4; }

MCP26_INLINE void resize_spread(resize_method m, resize_axis a, int64_t inner, const resize_taps *taps, int64_t count,
                                resize_elements *e) {
    int64_t whole = mcp26_ceil_div(count * inner, 8) * 8;
    e->low = INT64_MAX, e->high = 0;
    for (int64_t j = 0; j < whole; j++) {
        int64_t at = mcp26_min(j, count * inner - 1);
        const resize_taps *t = taps + at / inner;
        e->is_outside[j] = t->is_outside ? -1 : 0;
        MCP26_UNROLL for (int64_t i = 0; i < resize_tap_count(m); i++) {
            int64_t index = resize_index(a, t, i) * inner + at % inner;
            e->index[i][j] = (int32_t)index;
            e->weight[i][j] = t->weight[i];
            e->low = mcp26_min(e->low, index), e->high = mcp26_max(e->high, index + 1);
        }
    }
}

/* Vectors along positions and `inner` together. Where the block reads a short piece of several lines, they are added up
 * before elements are picked. */
MCP26_INLINE void resize_narrow(resize_method m, const resize_rows *lines, const resize_elements *e, int64_t count,
                                float *y, float outside) {
    resize_rows rows = *lines;
    int64_t first = 0; /* the element of a line that rows.line points at */
    float piece[RESIZE_PIECE];
    if (rows.count > 1 && e->high - e->low <= RESIZE_PIECE) {
        for (int64_t j = e->low; j < e->high; j += 8) {
            int64_t lanes = mcp26_min(8, e->high - j);
            v8f sum = 0.0f;
            for (int64_t k = 0; k < rows.count; k++) sum = v8f_fma(v8f_load(rows.line[k] + j, lanes), rows.weight[k], sum);
            v8f_store(piece + (j - e->low), sum, lanes);
        }
        rows.line[0] = piece, rows.weight[0] = 1.0f, rows.count = 1, first = e->low;
    }
    for (int64_t j = 0; j < count; j += 8) {
        int64_t lanes = mcp26_min(8, count - j);
        v8f sum = rows.is_first ? v8f_splat(0.0f) : v8f_load(y + j, lanes);
        for (int64_t k = 0; k < rows.count; k++) {
            MCP26_UNROLL for (int64_t i = 0; i < resize_tap_count(m); i++) {
                v8f v = 0.0f;
                MCP26_UNROLL for (int64_t l = 0; l < 8; l++) v[l] = rows.line[k][e->index[i][j + l] - first];
                sum = v8f_fma(v, v8f_load_all(e->weight[i] + j) * rows.weight[k], sum);
            }
        }
        v8f_store(y + j, v8f_select(v8i_load_all(e->is_outside + j), v8f_splat(outside), sum), lanes);
    }
}

/* Fills `t` with the taps of the line `at` for all axes but the last; whether the line lies outside. */
MCP26_INLINE int resize_line(resize_method m, int64_t rank, const resize_axis *axes, int64_t at, resize_taps *t) {
    int is_outside = axes[rank - 1].in == 0;
    for (int64_t d = rank - 2; d >= 0; d--) {
        t[d] = resize_taps_at(m, axes[d], at % axes[d].out);
        at /= axes[d].out;
        is_outside |= t[d].is_outside;
    }
    return is_outside;
}

MCP26_INLINE int64_t resize_lines(int64_t rank, const resize_axis *axes) {
    int64_t lines = 1;
    for (int64_t d = 0; d + 1 < rank; d++) lines *= axes[d].out;
    return lines;
}

/* `lines` is the product of all axes' output sizes but the last one's, which is `out`. */
MCP26_INLINE int64_t resize_units(int64_t lines, int64_t out) { return lines * mcp26_ceil_div(out, RESIZE_BLOCK); }

/* Linear and cubic. `outside` is the value of elements outside a crop. rank 1 ... RESIZE_RANK. */
MCP26_INLINE void resize_f32(resize_method m, int64_t rank, const resize_axis *axes, int64_t inner, const float *x,
                             float *y, float outside, int64_t begin, int64_t end) {
    resize_axis a = axes[rank - 1];
    int64_t lines = resize_lines(rank, axes), block = -1, is_narrow = resize_is_narrow(m, a, inner);
    resize_taps taps[RESIZE_BLOCK];
    resize_elements elements;
    for (int64_t u = begin; u < end; u++) {
        int64_t from = u / lines * RESIZE_BLOCK, count = mcp26_min(RESIZE_BLOCK, a.out - from);
        float *to = y + (u % lines * a.out + from) * inner;
        resize_taps t[RESIZE_RANK];
        if (u / lines != block) {
            block = u / lines;
            resize_block(m, a, block, taps);
            if (is_narrow) resize_spread(m, a, inner, taps, count, &elements);
        }
        if (resize_line(m, rank, axes, u % lines, t)) {
            for (int64_t e = 0; e < count * inner; e++) to[e] = outside;
            continue;
        }
        int64_t index[RESIZE_RANK] = {0};
        int is_more = 1;
        for (resize_rows rows = {.is_first = 1}; is_more; rows.is_first = 0) {
            for (rows.count = 0; is_more && rows.count < RESIZE_ROWS; rows.count++) {
                int64_t offset = 0;
                float weight = 1.0f;
                for (int64_t d = 0; d + 1 < rank; d++) {
                    offset = offset * axes[d].in + resize_index(axes[d], &t[d], index[d]);
                    weight *= resize_weight(m, axes[d], &t[d], index[d]);
                }
                rows.line[rows.count] = x + offset * a.in * inner;
                rows.weight[rows.count] = weight;
                is_more = 0;
                for (int64_t d = rank - 2; d >= 0 && !is_more; d--) {
                    is_more = ++index[d] < t[d].count;
                    if (!is_more) index[d] = 0;
                }
            }
            if (is_narrow)
                resize_narrow(m, &rows, &elements, count * inner, to, outside);
            else
                resize_wide(m, a, inner, &rows, taps, count, to, outside);
        }
    }
}

/* Nearest, any element type: only moves. Where `inner` elements lie behind the last axis, x_step and y_step are from one
 * such run to the next. */
#define RESIZE_DEFINE(BITS, T)                                                                                        \
    MCP26_INLINE void resize_nearest_##BITS(resize_method m, int64_t rank, const resize_axis *axes, int64_t inner,    \
                                            int64_t x_step, int64_t y_step, const T *x, T *y, T outside,              \
                                            int64_t begin, int64_t end) {                                             \
        resize_axis a = axes[rank - 1];                                                                               \
        int64_t lines = resize_lines(rank, axes), block = -1;                                                         \
        int64_t index[RESIZE_BLOCK]; /* -1: outside */                                                                \
        for (int64_t u = begin; u < end; u++) {                                                                       \
            int64_t from = u / lines * RESIZE_BLOCK, count = mcp26_min(RESIZE_BLOCK, a.out - from), offset = 0;       \
            T *to = y + (u % lines * a.out + from) * y_step;                                                          \
            resize_taps t[RESIZE_RANK];                                                                               \
            int is_outside = resize_line(m, rank, axes, u % lines, t);                                                \
            for (int64_t d = 0; d + 1 < rank; d++) offset = offset * axes[d].in + resize_index(axes[d], &t[d], 0);    \
            const T *line = x + offset * a.in * x_step;                                                               \
            if (u / lines != block) {                                                                                 \
                block = u / lines;                                                                                    \
                for (int64_t o = 0; o < count; o++) {                                                                 \
                    resize_taps tap = resize_taps_at(m, a, from + o);                                                 \
                    index[o] = tap.is_outside ? -1 : resize_index(a, &tap, 0);                                        \
                }                                                                                                     \
            }                                                                                                         \
            if (inner == 1 && y_step == 1) {                                                                          \
                for (int64_t o = 0; o < count; o++) {                                                                 \
                    to[o] = is_outside || index[o] < 0 ? outside : line[index[o] * x_step];                           \
                }                                                                                                     \
            } else {                                                                                                  \
                for (int64_t o = 0; o < count; o++) {                                                                 \
                    if (is_outside || index[o] < 0)                                                                   \
                        fill_##BITS(to + o * y_step, outside, inner);                                                 \
                    else                                                                                              \
                        move_run_##BITS(to + o * y_step, line + index[o] * x_step, inner);                            \
                }                                                                                                     \
            }                                                                                                         \
        }                                                                                                             \
    }

RESIZE_DEFINE(8, uint8_t)
RESIZE_DEFINE(16, uint16_t)
RESIZE_DEFINE(32, uint32_t)
RESIZE_DEFINE(64, uint64_t)

#endif
