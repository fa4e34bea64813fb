/* index.h: reading and writing at places that are data: GatherElements, GatherND, ScatterElements, ScatterND, OneHot.
 *
 * Indices are int64 or int32 (`is_index64`). One outside [-n, n) is reported as a fault, and nothing is read or written
 * there. All tensors are contiguous, row-major.
 */
#ifndef MCP26_INDEX_H
#define MCP26_INDEX_H

#include "move.h"

enum { INDEX_MAX_RANK = 16 };

MCP26_INLINE int64_t index_at(const void *indices, int64_t is_index64, int64_t i) {
    return is_index64 ? ((const int64_t *)indices)[i] : ((const int32_t *)indices)[i];
}

/* Counts `at` from the front of an axis of n elements. */
MCP26_INLINE int32_t index_resolve(mcp26_env *env, int64_t *at, int64_t n) {
    if (*at < -n || *at >= n) {
        env->fault = (mcp26_fault){0, MCP26_DATA_INDEX, *at, n}; /* the runtime fills in the step */
        return MCP26_STEP_DATA;
    }
    *at += *at < 0 ? n : 0;
    return 0;
}

/* A fault where value is not within low ... high. */
MCP26_INLINE int32_t index_check(mcp26_env *env, int64_t value, int64_t low, int64_t high) {
    if (value >= low && value <= high) return 0;
    env->fault = (mcp26_fault){0, MCP26_DATA_BOUND, value, high};
    return MCP26_STEP_DATA;
}

/* A walk over sizes[rank] in row-major order; `at` is the sum of index[d] * strides[d]. */
typedef struct {
    int64_t index[INDEX_MAX_RANK], at;
} index_walk;

MCP26_INLINE index_walk index_start(int64_t rank, const int64_t *sizes, const int64_t *strides, int64_t position) {
    index_walk walk = {{0}, 0};
    for (int64_t d = rank - 1; d >= 0; d--) {
        walk.index[d] = sizes[d] > 0 ? position % sizes[d] : 0;
        position = sizes[d] > 0 ? position / sizes[d] : 0;
        walk.at += walk.index[d] * strides[d];
    }
    return walk;
}

MCP26_INLINE void index_next(index_walk *walk, int64_t rank, const int64_t *sizes, const int64_t *strides) {
    for (int64_t d = rank - 1; d >= 0; d--) {
        walk->at += strides[d];
        if (++walk->index[d] < sizes[d]) return;
        walk->at -= strides[d] * sizes[d];
        walk->index[d] = 0;
    }
}

/* The offset at which a tuple of k indices points: sizes[k] and strides[k] are those of the axes that it indexes. */
MCP26_INLINE int32_t index_tuple(mcp26_env *env, int64_t k, const int64_t *sizes, const int64_t *strides,
                                 const void *indices, int64_t is_index64, int64_t tuple, int64_t *offset) {
    for (int64_t j = 0; j < k; j++) {
        int64_t at = index_at(indices, is_index64, tuple * k + j);
        if (index_resolve(env, &at, sizes[j]) < 0) return MCP26_STEP_DATA;
        *offset += at * strides[j];
    }
    return 0;
}

/* OneHot's indices may be of any type. */
typedef int64_t (*one_hot_index)(const void *indices, int64_t i);

/* A number that is no index becomes one that is out of range. */
MCP26_INLINE int64_t index_from_double(double x) {
    return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN;
}

#define INDEX_DEFINE_GATHER(BITS, T)                                                                                   \
    /* dst[p] = src[p with its coordinate along the axis replaced by indices[p]] for p in sizes[rank], the shape of    \
     * indices and dst. strides[rank] are src's, with 0 for the axis, which has n elements `axis_stride` apart there.  \
     * Units: rows along the innermost dimension. */                                                                   \
    MCP26_INLINE int32_t gather_elements_##BITS(mcp26_env *env, int64_t rank, const int64_t *sizes,                    \
                                                const int64_t *strides, int64_t axis_stride, int64_t n, const T *src,  \
                                                const void *indices, int64_t is_index64, T *dst, int64_t begin,        \
                                                int64_t end) {                                                         \
        int64_t length = sizes[rank - 1], step = strides[rank - 1];                                                    \
        index_walk row = index_start(rank - 1, sizes, strides, begin);                                                 \
        for (int64_t u = begin; u < end; u++) {                                                                        \
            for (int64_t i = 0; i < length; i++) {                                                                     \
                int64_t at = index_at(indices, is_index64, u * length + i);                                            \
                if (index_resolve(env, &at, n) < 0) return MCP26_STEP_DATA;                                            \
                dst[u * length + i] = src[row.at + i * step + at * axis_stride];                                       \
            }                                                                                                          \
            index_next(&row, rank - 1, sizes, strides);                                                                \
        }                                                                                                              \
        return 0;                                                                                                      \
    }                                                                                                                  \
    /* dst[item][tuple][inner] = src[item] at indices[item][tuple][k], of `tuples` each. Units: items * tuples. */     \
    MCP26_INLINE int32_t gather_nd_##BITS(mcp26_env *env, int64_t tuples, int64_t item_stride, int64_t k,              \
                                          const int64_t *sizes, const int64_t *strides, int64_t inner, const T *src,   \
                                          const void *indices, int64_t is_index64, T *dst, int64_t begin,              \
                                          int64_t end) {                                                               \
        for (int64_t u = begin; u < end; u++) {                                                                        \
            int64_t offset = u / tuples * item_stride;                                                                 \
            if (index_tuple(env, k, sizes, strides, indices, is_index64, u, &offset) < 0) return MCP26_STEP_DATA;      \
            move_run_##BITS(dst + u * inner, src + offset, inner);                                                     \
        }                                                                                                              \
        return 0;                                                                                                      \
    }                                                                                                                  \
    /* dst[outer][depth][inner]: values[1] where the middle coordinate is indices[outer][inner] (negative ones count   \
     * from the end), else values[0]. The index is given as int64 by index_of. Units: outer * depth. */                \
    MCP26_INLINE void one_hot_##BITS(int64_t depth, int64_t inner, const void *indices, one_hot_index index_of,        \
                                     const T *values, T *dst, int64_t begin, int64_t end) {                            \
        for (int64_t u = begin; u < end; u++) {                                                                        \
            int64_t first = u / depth * inner, at = u % depth;                                                         \
            for (int64_t i = 0; i < inner; i++) {                                                                      \
                int64_t index = index_of(indices, first + i);                                                          \
                dst[u * inner + i] = values[index == (index < 0 ? at - depth : at)];                                   \
            }                                                                                                          \
        }                                                                                                              \
    }

INDEX_DEFINE_GATHER(8, uint8_t)
INDEX_DEFINE_GATHER(16, uint16_t)
INDEX_DEFINE_GATHER(32, uint32_t)
INDEX_DEFINE_GATHER(64, uint64_t)

/* ---- scattering: updates are applied in the order in which they lie, so that of duplicates the last one wins. */

typedef enum { SCATTER_NONE, SCATTER_ADD, SCATTER_MUL, SCATTER_MAX, SCATTER_MIN } scatter_kind;

/* U: a type in which sums and products of T wrap around. */
#define INDEX_DEFINE_SCATTER(NAME, T, U, MAX, MIN)                                                                     \
    MCP26_INLINE T scatter_##NAME##_one(scatter_kind kind, T old, T update) {                                          \
        if (kind == SCATTER_ADD) return (T)((U)old + (U)update);                                                       \
        if (kind == SCATTER_MUL) return (T)((U)old * (U)update);                                                       \
        if (kind == SCATTER_MAX) return MAX(old, update);                                                              \
        return kind == SCATTER_MIN ? MIN(old, update) : update;                                                        \
    }                                                                                                                  \
    /* For p in sizes[rank], the shape of indices and updates: dst[p with its coordinate along the axis replaced by    \
     * indices[p]] takes updates[p]. Strides as for gather_elements, of dst. */                                        \
    MCP26_INLINE int32_t scatter_elements_##NAME(mcp26_env *env, scatter_kind kind, int64_t rank,                      \
                                                 const int64_t *sizes, const int64_t *strides, int64_t axis_stride,    \
                                                 int64_t n, int64_t count, const void *indices, int64_t is_index64,    \
                                                 const T *updates, T *dst) {                                           \
        index_walk walk = index_start(rank, sizes, strides, 0);                                                        \
        for (int64_t i = 0; i < count; i++) {                                                                          \
            int64_t at = index_at(indices, is_index64, i);                                                             \
            if (index_resolve(env, &at, n) < 0) return MCP26_STEP_DATA;                                                \
            T *place = dst + walk.at + at * axis_stride;                                                               \
            *place = scatter_##NAME##_one(kind, *place, updates[i]);                                                   \
            index_next(&walk, rank, sizes, strides);                                                                   \
        }                                                                                                              \
        return 0;                                                                                                      \
    }                                                                                                                  \
    /* dst at indices[tuple][k] takes the run updates[tuple][inner]. */                                                \
    MCP26_INLINE int32_t scatter_nd_##NAME(mcp26_env *env, scatter_kind kind, int64_t tuples, int64_t k,               \
                                           const int64_t *sizes, const int64_t *strides, int64_t inner,                \
                                           const void *indices, int64_t is_index64, const T *updates, T *dst) {        \
        for (int64_t u = 0; u < tuples; u++) {                                                                         \
            int64_t offset = 0;                                                                                        \
            if (index_tuple(env, k, sizes, strides, indices, is_index64, u, &offset) < 0) return MCP26_STEP_DATA;      \
            for (int64_t i = 0; i < inner; i++) {                                                                      \
                dst[offset + i] = scatter_##NAME##_one(kind, dst[offset + i], updates[u * inner + i]);                 \
            }                                                                                                          \
        }                                                                                                              \
        return 0;                                                                                                      \
    }

#define INDEX_DEFINE_SCATTER_INT(NAME, T, U)                                                                           \
    INDEX_DEFINE_SCATTER(NAME, T, U, __builtin_elementwise_max, __builtin_elementwise_min)
#define INDEX_DEFINE_SCATTER_FLOAT(NAME, T)                                                                            \
    INDEX_DEFINE_SCATTER(NAME, T, T, __builtin_elementwise_maximum, __builtin_elementwise_minimum)

INDEX_DEFINE_SCATTER_FLOAT(f32, float)
INDEX_DEFINE_SCATTER_FLOAT(f64, double)
INDEX_DEFINE_SCATTER_INT(i8, int8_t, uint32_t)
INDEX_DEFINE_SCATTER_INT(i16, int16_t, uint32_t)
INDEX_DEFINE_SCATTER_INT(i32, int32_t, uint32_t)
INDEX_DEFINE_SCATTER_INT(i64, int64_t, uint64_t)
INDEX_DEFINE_SCATTER_INT(u8, uint8_t, uint32_t)
INDEX_DEFINE_SCATTER_INT(u16, uint16_t, uint32_t)
INDEX_DEFINE_SCATTER_INT(u32, uint32_t, uint32_t)
INDEX_DEFINE_SCATTER_INT(u64, uint64_t, uint64_t)

#endif
