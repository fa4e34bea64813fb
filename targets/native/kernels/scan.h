/* scan.h: CumSum and CumProd, and what keeps or moves elements by where they are: Trilu, EyeLike, ReverseSequence, Range. All
 * tensors are contiguous.
 */
#ifndef MCP26_SCAN_H
#define MCP26_SCAN_H

#include "move.h"

enum { SCAN_COLUMNS = 64 };

MCP26_INLINE int64_t cumulate_units(int64_t outer, int64_t inner) {
    return outer * mcp26_ceil_div(inner, SCAN_COLUMNS);
}

/* Sums, or products, along the middle of [outer][n][inner], in order, from the end if is_reverse; if is_exclusive,
 * without the element itself. Units: outer x groups of SCAN_COLUMNS columns. */
#define SCAN_DEFINE_CUMULATE(NAME, V, T)                                                                               \
    MCP26_INLINE void cumulate_##NAME(int64_t is_product, int64_t is_exclusive, int64_t is_reverse, int64_t n,         \
                                      int64_t inner, const T *x, T *y, int64_t begin, int64_t end) {                   \
        int64_t groups = mcp26_ceil_div(inner, SCAN_COLUMNS);                                                          \
        for (int64_t u = begin; u < end; u++) {                                                                        \
            int64_t column = u % groups * SCAN_COLUMNS, some = mcp26_min(SCAN_COLUMNS, inner - column);                \
            int64_t at = u / groups * n * inner + column;                                                              \
            V sum[SCAN_COLUMNS / 8];                                                                                   \
            MCP26_UNROLL for (int k = 0; k < SCAN_COLUMNS / 8; k++) sum[k] = is_product ? (T)1 : (T)0;                 \
            for (int64_t j = 0; j < n; j++) {                                                                          \
                int64_t i = at + (is_reverse ? n - 1 - j : j) * inner;                                                 \
                MCP26_UNROLL for (int k = 0; k < SCAN_COLUMNS / 8; k++) {                                              \
                    int64_t lanes = mcp26_min(8, some - 8 * k);                                                        \
                    if (lanes <= 0) continue;                                                                          \
                    V more = V##_load(x + i + 8 * k, lanes), next = is_product ? sum[k] * more : sum[k] + more;        \
                    V##_store(y + i + 8 * k, is_exclusive ? sum[k] : next, lanes);                                     \
                    sum[k] = next;                                                                                     \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }
SCAN_DEFINE_CUMULATE(f32, v8f, float)
SCAN_DEFINE_CUMULATE(f64, v8d, double)
SCAN_DEFINE_CUMULATE(i32, v8i, int32_t)
SCAN_DEFINE_CUMULATE(i64, v8l, int64_t)
SCAN_DEFINE_CUMULATE(u32, v8u, uint32_t)
SCAN_DEFINE_CUMULATE(u64, v8q, uint64_t)

#define SCAN_DEFINE(BITS, T)                                                                                           \
    /* y[item][rows][columns]: x on and above the diagonal k (is_upper), or on and below it, 0 elsewhere. Units:       \
     * items * rows. */                                                                                                \
    MCP26_INLINE void trilu_##BITS(int64_t is_upper, int64_t rows, int64_t columns, int64_t k, const T *x, T *y,       \
                                   int64_t begin, int64_t end) {                                                       \
        k = mcp26_max(-rows, mcp26_min(columns, k));                                                                   \
        for (int64_t u = begin; u < end; u++) {                                                                        \
            int64_t border = mcp26_max(0, mcp26_min(columns, u % rows + k + !is_upper));                               \
            int64_t first = is_upper ? border : 0, last = is_upper ? columns : border;                                 \
            fill_##BITS(y + u * columns, 0, first);                                                                    \
            move_run_##BITS(y + u * columns + first, x + u * columns + first, last - first);                           \
            fill_##BITS(y + u * columns + last, 0, columns - last);                                                    \
        }                                                                                                              \
    }                                                                                                                  \
    /* y[rows][columns]: `one` on the diagonal k, 0 elsewhere. Units: rows. */                                         \
    MCP26_INLINE void eye_##BITS(int64_t columns, int64_t k, T one, T *y, int64_t begin, int64_t end) {                \
        for (int64_t u = begin; u < end; u++) {                                                                        \
            fill_##BITS(y + u * columns, 0, columns);                                                                  \
            if (u + k >= 0 && u + k < columns) y[u * columns + u + k] = one;                                           \
        }                                                                                                              \
    }                                                                                                                  \
    /* y is x with the first lengths[b] time steps of every item b in reverse. Element (t, b) of x and y is a run of   \
     * inner at t * time_step + b * batch_step. Units: time * batch. */                                                \
    MCP26_INLINE void reverse_sequence_##BITS(int64_t time, int64_t batch, int64_t time_step, int64_t batch_step,      \
                                              int64_t inner, const T *x, const int64_t *lengths, T *y, int64_t begin,  \
                                              int64_t end) {                                                           \
        for (int64_t u = begin; u < end; u++) {                                                                        \
            int64_t t = u / batch, b = u % batch, length = mcp26_max(0, mcp26_min(time, lengths[b]));                  \
            int64_t from = t < length ? length - 1 - t : t;                                                            \
            move_run_##BITS(y + t * time_step + b * batch_step, x + from * time_step + b * batch_step, inner);         \
        }                                                                                                              \
    }
SCAN_DEFINE(8, uint8_t)
SCAN_DEFINE(16, uint16_t)
SCAN_DEFINE(32, uint32_t)
SCAN_DEFINE(64, uint64_t)

/* y[i] = start + i * step, wrapping. Units: elements. */
#define SCAN_DEFINE_RANGE(NAME, T, U)                                                                                  \
    MCP26_INLINE void range_##NAME(T start, T step, T *y, int64_t begin, int64_t end) {                                \
        for (int64_t i = begin; i < end; i++) y[i] = (T)((U)start + (U)i * (U)step);                                   \
    }
SCAN_DEFINE_RANGE(f32, float, float)
SCAN_DEFINE_RANGE(f64, double, double)
SCAN_DEFINE_RANGE(i16, int16_t, uint32_t)
SCAN_DEFINE_RANGE(i32, int32_t, uint32_t)
SCAN_DEFINE_RANGE(i64, int64_t, uint64_t)

/* The number of elements of a range; -1 where there is no such range. */
MCP26_INLINE int64_t range_count_i(int64_t start, int64_t limit, int64_t step) {
    if (step == 0) return -1;
    if (step > 0 ? limit <= start : limit >= start) return 0;
    uint64_t span = step > 0 ? (uint64_t)limit - (uint64_t)start : (uint64_t)start - (uint64_t)limit;
    uint64_t size = step > 0 ? (uint64_t)step : 0 - (uint64_t)step, count = span / size + (span % size != 0);
    return count > INT64_MAX ? -1 : (int64_t)count;
}
MCP26_INLINE int64_t range_count_d(double start, double limit, double step) {
    double count = __builtin_elementwise_ceil((limit - start) / step);
    return count < 1.0 ? 0 : count < 0x1p62 ? (int64_t)count : -1; /* -1 for NaN too */
}

#endif
