/* select.h: results whose size only data can show: NonZero, Compress, Unique. Each has a function that counts, which
 * runs first. All tensors are contiguous, row-major.
 */
#ifndef MCP26_SELECT_H
#define MCP26_SELECT_H

#include "index.h"

#define SELECT_DEFINE(BITS, T)                                                                                         \
    /* Elements that are not zero; `mask` takes off the sign of floating-point numbers. */                             \
    MCP26_INLINE int64_t count_nonzero_##BITS(int64_t n, const T *x, T mask) {                                         \
        int64_t count = 0;                                                                                             \
        for (int64_t i = 0; i < n; i++) count += (x[i] & mask) != 0;                                                   \
        return count;                                                                                                  \
    }                                                                                                                  \
    /* y[rank][count]: the coordinates of these elements, in order. */                                                 \
    MCP26_INLINE void nonzero_##BITS(int64_t rank, const int64_t *sizes, int64_t n, const T *x, T mask, int64_t count, \
                                     int64_t *y) {                                                                     \
        index_walk walk = index_start(rank, sizes, sizes, 0);                                                          \
        for (int64_t i = 0, found = 0; i < n && found < count; i++) {                                                  \
            if ((x[i] & mask) != 0) {                                                                                  \
                for (int64_t d = 0; d < rank; d++) y[d * count + found] = walk.index[d];                               \
                found++;                                                                                               \
            }                                                                                                          \
            index_next(&walk, rank, sizes, sizes);                                                                     \
        }                                                                                                              \
    }                                                                                                                  \
    /* y[outer][count][inner]: the entries of x[outer][n][inner] whose flag is set, of which there are `flags`. Units: \
     * outer. */                                                                                                       \
    MCP26_INLINE void compress_##BITS(int64_t n, int64_t inner, const T *x, int64_t flags, const uint8_t *is_kept,     \
                                      int64_t count, T *y, int64_t begin, int64_t end) {                               \
        for (int64_t u = begin; u < end; u++) {                                                                        \
            T *to = y + u * count * inner;                                                                             \
            for (int64_t i = 0; i < mcp26_min(n, flags); i++) {                                                        \
                if (!is_kept[i]) continue;                                                                             \
                move_run_##BITS(to, x + (u * n + i) * inner, inner);                                                   \
                to += inner;                                                                                           \
            }                                                                                                          \
        }                                                                                                              \
    }
SELECT_DEFINE(8, uint8_t)
SELECT_DEFINE(16, uint16_t)
SELECT_DEFINE(32, uint32_t)
SELECT_DEFINE(64, uint64_t)

/* Of x[outer][n][inner], the n slices along the middle. A NaN is above every number, and equal to another. */
#define SELECT_DEFINE_UNIQUE(NAME, T)                                                                                  \
    /* Whether slice a goes before slice b; equal ones in the order in which they lie. */                              \
    MCP26_INLINE int64_t unique_##NAME##_before(int64_t outer, int64_t n, int64_t inner, const T *x, int64_t a,        \
                                                int64_t b, int64_t equal) {                                            \
        for (int64_t o = 0; o < outer; o++) {                                                                          \
            for (int64_t i = 0; i < inner; i++) {                                                                      \
                T left = x[(o * n + a) * inner + i], right = x[(o * n + b) * inner + i];                               \
                if (left == right || (left != left && right != right)) continue;                                       \
                return left < right || (left == left && right != right);                                               \
            }                                                                                                          \
        }                                                                                                              \
        return equal;                                                                                                  \
    }                                                                                                                  \
    MCP26_INLINE void unique_##NAME##_sift(int64_t outer, int64_t n, int64_t inner, const T *x, int64_t count,         \
                                           int64_t *heap, int64_t hole, int64_t slice) {                               \
        for (int64_t child = 2 * hole + 1; child < count; child = 2 * hole + 1) {                                      \
            int64_t *c = heap + child;                                                                                 \
            if (child + 1 < count && unique_##NAME##_before(outer, n, inner, x, c[0], c[1], c[0] < c[1])) child++;     \
            if (!unique_##NAME##_before(outer, n, inner, x, slice, heap[child], slice < heap[child])) break;           \
            heap[hole] = heap[child];                                                                                  \
            hole = child;                                                                                              \
        }                                                                                                              \
        heap[hole] = slice;                                                                                            \
    }                                                                                                                  \
    /* The number of different slices. order[n] becomes the slices in ascending order (a heap sort). */                \
    MCP26_INLINE int64_t unique_##NAME##_sort(int64_t outer, int64_t n, int64_t inner, const T *x, int64_t *order) {   \
        for (int64_t i = 0; i < n; i++) order[i] = i;                                                                  \
        for (int64_t i = n / 2 - 1; i >= 0; i--) unique_##NAME##_sift(outer, n, inner, x, n, order, i, order[i]);      \
        for (int64_t last = n - 1; last > 0; last--) {                                                                 \
            int64_t slice = order[last];                                                                               \
            order[last] = order[0];                                                                                    \
            unique_##NAME##_sift(outer, n, inner, x, last, order, 0, slice);                                           \
        }                                                                                                              \
        int64_t count = n > 0;                                                                                         \
        for (int64_t i = 1; i < n; i++) {                                                                              \
            count += unique_##NAME##_before(outer, n, inner, x, order[i - 1], order[i], 0);                            \
        }                                                                                                              \
        return count;                                                                                                  \
    }                                                                                                                  \
    /* The different slices y[outer][count][inner], ascending or in the order in which they first occur, where they    \
     * first occur, which of them each slice is [n], and how many of each there are. Each may be NULL. work: 2 n. */   \
    MCP26_INLINE void unique_##NAME(int64_t is_sorted, int64_t outer, int64_t n, int64_t inner, const T *x,            \
                                    int64_t count, T *y, int64_t *first, int64_t *inverse, int64_t *counts,            \
                                    int64_t *work) {                                                                   \
        int64_t *order = work, *place = work + n;                                                                      \
        unique_##NAME##_sort(outer, n, inner, x, order);                                                               \
        for (int64_t i = 0; i < n; i++) place[i] = 0;                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            place[order[i]] = i == 0 || unique_##NAME##_before(outer, n, inner, x, order[i - 1], order[i], 0);         \
        }                                                                                                              \
        int64_t next = 0;                                                                                              \
        for (int64_t i = 0; i < n; i++) { /* a first slice gets its place in y, the others -1 */                       \
            int64_t slice = is_sorted ? order[i] : i;                                                                  \
            place[slice] = place[slice] ? next++ : -1;                                                                 \
        }                                                                                                              \
        for (int64_t i = 0, at = 0; i < n; i++) {                                                                      \
            int64_t slice = order[i], is_first = place[slice] >= 0;                                                    \
            at = is_first ? place[slice] : at;                                                                         \
            if (inverse) inverse[slice] = at;                                                                          \
            if (counts) counts[at] = is_first ? 1 : counts[at] + 1;                                                    \
            if (first && is_first) first[at] = slice;                                                                  \
            for (int64_t o = 0; y && is_first && o < outer; o++) {                                                     \
                for (int64_t k = 0; k < inner; k++) y[(o * count + at) * inner + k] = x[(o * n + slice) * inner + k];  \
            }                                                                                                          \
        }                                                                                                              \
    }
SELECT_DEFINE_UNIQUE(f32, float)
SELECT_DEFINE_UNIQUE(f64, double)
SELECT_DEFINE_UNIQUE(i8, int8_t)
SELECT_DEFINE_UNIQUE(i16, int16_t)
SELECT_DEFINE_UNIQUE(i32, int32_t)
SELECT_DEFINE_UNIQUE(i64, int64_t)
SELECT_DEFINE_UNIQUE(u8, uint8_t)
SELECT_DEFINE_UNIQUE(u16, uint16_t)
SELECT_DEFINE_UNIQUE(u32, uint32_t)
SELECT_DEFINE_UNIQUE(u64, uint64_t)

#endif
