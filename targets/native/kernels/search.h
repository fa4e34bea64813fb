/* search.h: ArgMax, ArgMin and TopK along the middle of [outer][n][inner] (contiguous).
 *
 * A NaN is the extreme element of both kinds, as in numpy; to TopK it is larger than every number. Units: outer x inner
 * for top_k, outer x groups of 8 columns for arg_extreme.
 */
#ifndef MCP26_SEARCH_H
#define MCP26_SEARCH_H

#include "reduce.h"

MCP26_INLINE int64_t arg_extreme_units(int64_t outer, int64_t inner) { return outer * mcp26_ceil_div(inner, 8); }

/* Per type: V vectors of T with masks M.
 *
 * arg_extreme: y[outer][inner] is the index of the REDUCE_MAX or REDUCE_MIN element, the first or the last of several.
 *
 * top_k: places[outer][k][inner] are the indices of the k largest (or smallest) elements in their order, of equal ones
 * the first come first; values, which may be NULL, are the elements. n >= k. While it searches, places are a heap whose
 * root is the element that goes next. */
#define SEARCH_DEFINE(NAME, V, M, T)                                                                                   \
    /* Whether a is before b, which lies further on, in the order of top_k. */                                         \
    MCP26_INLINE int64_t NAME##_stays(int64_t is_largest, T a, T b) {                                                  \
        return is_largest ? !(b > a || (b != b && a == a)) : !(b < a || (a != a && b == b));                           \
    }                                                                                                                  \
    MCP26_INLINE M NAME##_beats(reduce_kind kind, V a, V b) {                                                          \
        return (M)((kind == REDUCE_MAX ? a > b : a < b) | ((a != a) & (b == b)));                                      \
    }                                                                                                                  \
    MCP26_INLINE int64_t arg_extreme_##NAME##_row(reduce_kind kind, int64_t is_last, int64_t n, const T *x) {          \
        T best = reduce_##NAME##_row(kind, n, x);                                                                      \
        int64_t blocks = mcp26_ceil_div(n, 8);                                                                         \
        for (int64_t j = 0; j < blocks; j++) {                                                                         \
            int64_t i = 8 * (is_last ? blocks - 1 - j : j), lanes = mcp26_min(8, n - i);                               \
            V v = V##_load(x + i, lanes);                                                                              \
            v8i found = __builtin_convertvector((v == best) | ((v != v) & (V##_splat(best) != best)), v8i) &           \
                        v8i_lane_mask(lanes);                                                                          \
            if (!v8i_any(found)) continue;                                                                             \
            for (int64_t l = 0; l < 8; l++) {                                                                          \
                int64_t lane = is_last ? 7 - l : l;                                                                    \
                if (found[lane]) return i + lane;                                                                      \
            }                                                                                                          \
        }                                                                                                              \
        return 0;                                                                                                      \
    }                                                                                                                  \
    MCP26_INLINE void arg_extreme_##NAME(reduce_kind kind, int64_t is_last, int64_t n, int64_t inner, const T *x,      \
                                         int64_t *y, int64_t begin, int64_t end) {                                     \
        int64_t groups = mcp26_ceil_div(inner, 8);                                                                     \
        for (int64_t u = begin; u < end; u++) {                                                                        \
            if (inner == 1) {                                                                                          \
                y[u] = arg_extreme_##NAME##_row(kind, is_last, n, x + u * n);                                          \
                continue;                                                                                              \
            }                                                                                                          \
            int64_t o = u / groups, c = u % groups * 8, lanes = mcp26_min(8, inner - c);                               \
            const T *from = x + o * n * inner + c;                                                                     \
            V best = V##_load(from, lanes);                                                                            \
            v8l place = 0;                                                                                             \
            for (int64_t i = 1; i < n; i++) {                                                                          \
                V v = V##_load(from + i * inner, lanes);                                                               \
                M goes = is_last ? ~NAME##_beats(kind, best, v) : NAME##_beats(kind, v, best);                         \
                best = V##_select(goes, v, best);                                                                      \
                place = v8l_select(__builtin_convertvector(goes, v8l), (v8l)i, place);                                 \
            }                                                                                                          \
            v8l_store(y + o * inner + c, place, lanes);                                                                \
        }                                                                                                              \
    }                                                                                                                  \
    /* Whether the element at place a goes before that at b. */                                                        \
    MCP26_INLINE int64_t top_k_##NAME##_before(int64_t is_largest, const T *x, int64_t step, int64_t a, int64_t b) {   \
        return a < b ? NAME##_stays(is_largest, x[a * step], x[b * step])                                              \
                     : !NAME##_stays(is_largest, x[b * step], x[a * step]);                                            \
    }                                                                                                                  \
    /* Puts `place` into the heap of `count` whose root is free. */                                                    \
    MCP26_INLINE void top_k_##NAME##_sift(int64_t is_largest, const T *x, int64_t step, int64_t count, int64_t *heap,  \
                                          int64_t place) {                                                             \
        int64_t hole = 0;                                                                                              \
        for (int64_t child = 1; child < count; child = 2 * hole + 1) {                                                 \
            if (child + 1 < count &&                                                                                   \
                top_k_##NAME##_before(is_largest, x, step, heap[child * step], heap[(child + 1) * step])) {            \
                child++;                                                                                               \
            }                                                                                                          \
            if (!top_k_##NAME##_before(is_largest, x, step, place, heap[child * step])) break;                         \
            heap[hole * step] = heap[child * step];                                                                    \
            hole = child;                                                                                              \
        }                                                                                                              \
        heap[hole * step] = place;                                                                                     \
    }                                                                                                                  \
    MCP26_INLINE void top_k_##NAME(int64_t is_largest, int64_t n, int64_t k, int64_t inner, const T *x, T *values,     \
                                   int64_t *places, int64_t begin, int64_t end) {                                      \
        for (int64_t u = begin; u < end && k > 0; u++) {                                                               \
            const T *from = x + u / inner * n * inner + u % inner;                                                     \
            int64_t *heap = places + u / inner * k * inner + u % inner;                                                \
            for (int64_t i = 0; i < k; i++) { /* append and sift up */                                                 \
                int64_t at = i;                                                                                        \
                for (int64_t up; at > 0; at = up) {                                                                    \
                    up = (at - 1) / 2;                                                                                 \
                    if (!top_k_##NAME##_before(is_largest, from, inner, heap[up * inner], i)) break;                   \
                    heap[at * inner] = heap[up * inner];                                                               \
                }                                                                                                      \
                heap[at * inner] = i;                                                                                  \
            }                                                                                                          \
            for (int64_t i = k; i < n; i++) {                                                                          \
                T root = from[heap[0] * inner];                                                                        \
                if (inner == 1 && i + 8 <= n) { /* eight at a time while none of them belongs into the heap */         \
                    V v = V##_load_all(from + i);                                                                      \
                    V r = V##_splat(root);                                                                             \
                    M enters = is_largest ? (M)((v > r) | ((v != v) & (r == r)))                                       \
                                          : (M)((v < r) | ((v == v) & (r != r)));                                      \
                    if (!v8i_any(__builtin_convertvector(enters, v8i))) {                                              \
                        i += 7;                                                                                        \
                        continue;                                                                                      \
                    }                                                                                                  \
                }                                                                                                      \
                if (!NAME##_stays(is_largest, root, from[i * inner])) {                                                \
                    top_k_##NAME##_sift(is_largest, from, inner, k, heap, i);                                          \
                }                                                                                                      \
            }                                                                                                          \
            for (int64_t last = k - 1; last > 0; last--) { /* the root goes last */                                    \
                int64_t root = heap[0], place = heap[last * inner];                                                    \
                top_k_##NAME##_sift(is_largest, from, inner, last, heap, place);                                       \
                heap[last * inner] = root;                                                                             \
            }                                                                                                          \
            if (!values) continue;                                                                                     \
            T *to = values + u / inner * k * inner + u % inner;                                                        \
            for (int64_t i = 0; i < k; i++) to[i * inner] = from[heap[i * inner] * inner];                             \
        }                                                                                                              \
    }

SEARCH_DEFINE(f32, v8f, v8i, float)
SEARCH_DEFINE(f64, v8d, v8l, double)
SEARCH_DEFINE(i8, v8c, v8c, int8_t)
SEARCH_DEFINE(i16, v8s, v8s, int16_t)
SEARCH_DEFINE(i32, v8i, v8i, int32_t)
SEARCH_DEFINE(i64, v8l, v8l, int64_t)
SEARCH_DEFINE(u8, v8b, v8c, uint8_t)
SEARCH_DEFINE(u16, v8w, v8s, uint16_t)
SEARCH_DEFINE(u32, v8u, v8i, uint32_t)
SEARCH_DEFINE(u64, v8q, v8l, uint64_t)

#endif
