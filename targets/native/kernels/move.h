/* move.h: kernels that only move elements; one body per element size (move_8, _16, _32, _64 bits).
 *
 * copy_nd is Transpose, Slice (any step), Split, Concat's parts, Expand and Tile (stride 0): whatever is one strided
 * view into another. Units of all of them: indices of the outermost dimension (gather: rows of the result).
 */
#ifndef MCP26_MOVE_H
#define MCP26_MOVE_H

#include "mcp26_abi.h"
#include "simd.h"

enum { MOVE_MAX_RANK = 8, MOVE_ROWS = 64 };

typedef enum { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP } pad_mode;

/* Where element i of a padded line comes from, 0 ... n-1, or -1: the constant. */
MCP26_INLINE int64_t pad_index(pad_mode mode, int64_t i, int64_t n) {
    if (i >= 0 && i < n) return i;
    if (mode == PAD_CONSTANT || n == 0) return -1;
    if (mode == PAD_EDGE) return i < 0 ? 0 : n - 1;
    int64_t period = mode == PAD_WRAP ? n : mcp26_max(1, 2 * (n - 1)), at = ((i % period) + period) % period;
    return at < n ? at : period - at;
}

/* 8x8 blocks of 32-bit elements: row j of the result is column j of the source. */
MCP26_INLINE void move_transpose_block(const uint32_t *src, int64_t src_step, uint32_t *dst, int64_t dst_step) {
    v8u r[8], t[8];
    MCP26_UNROLL for (int i = 0; i < 8; i++) r[i] = v8u_load_all(src + i * src_step);
    MCP26_UNROLL for (int i = 0; i < 8; i += 2) {
        t[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        t[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
    MCP26_UNROLL for (int h = 0; h < 8; h += 4) {
        MCP26_UNROLL for (int i = h; i < h + 2; i++) {
            r[i] = __builtin_shufflevector(t[i], t[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            r[i + 2] = __builtin_shufflevector(t[i], t[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    }
    MCP26_UNROLL for (int i = 0; i < 4; i++) {
        v8u_store_all(dst + i * dst_step, __builtin_shufflevector(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11));
        v8u_store_all(dst + (i + 4) * dst_step, __builtin_shufflevector(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15));
    }
}

/* dst[j * dst_step + i] = src[i * src_step + j] for i < rows, j < columns. */
#define MOVE_TRANSPOSE_SCALAR(dst, dst_step, src, src_step, i0, rows, j0, columns)                          \
    for (int64_t q = j0; q < columns; q++) {                                                                           \
        for (int64_t p = i0; p < rows; p++) dst[q * dst_step + p] = src[p * src_step + q];                             \
    }

/* Index i of those that a Gather along n rows is given, as a row; -1 outside [-n, n), which is a fault of `step`. */
MCP26_INLINE int64_t gather_row(mcp26_env *env, uint32_t step, int64_t n, const void *indices, int64_t is_index64,
                                int64_t i) {
    int64_t at = is_index64 ? ((const int64_t *)indices)[i] : ((const int32_t *)indices)[i];
    if (at >= -n && at < n) return at < 0 ? at + n : at;
    env->fault = (mcp26_fault){step, MCP26_DATA_INDEX, at, n};
    return -1;
}

#define MOVE_DEFINE(BITS, T)                                                                                           \
    MCP26_INLINE void move_run_##BITS(T *dst, const T *src, int64_t n) {                                               \
        int64_t i = 0;                                                                                                 \
        for (; i + 64 / (BITS / 8) <= n; i += 64 / (BITS / 8)) {                                                       \
            v8l a = v8l_load_all((const int64_t *)(const void *)(src + i));                                            \
            v8l_store_all((int64_t *)(void *)(dst + i), a);                                                            \
        }                                                                                                              \
        for (; i < n; i++) dst[i] = src[i];                                                                            \
    }                                                                                                                  \
    MCP26_INLINE void fill_##BITS(T *dst, T value, int64_t n) {                                                        \
        for (int64_t i = 0; i < n; i++) dst[i] = value;                                                                \
    }                                                                                                                  \
    MCP26_INLINE void move_transpose_##BITS(T *dst, int64_t dst_step, const T *src, int64_t src_step, int64_t rows,    \
                                            int64_t columns) {                                                         \
        int64_t whole_rows = BITS == 32 ? rows / 8 * 8 : 0, whole = BITS == 32 ? columns / 8 * 8 : 0;                  \
        for (int64_t first = 0; first < whole_rows; first += MOVE_ROWS) { /* whose lines the first cache holds */      \
            int64_t last = mcp26_min(whole_rows, first + MOVE_ROWS);                                                   \
            for (int64_t j = 0; j < whole; j += 8) {                                                                   \
                for (int64_t i = first; i < last; i += 8) {                                                            \
                    move_transpose_block((const uint32_t *)(const void *)(src + i * src_step + j), src_step,           \
                                         (uint32_t *)(void *)(dst + j * dst_step + i), dst_step);                      \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
        if (BITS != 32) {                                                                                              \
            for (int64_t i = 0; i < rows; i += 8) {                                                                    \
                int64_t stop = mcp26_min(rows, i + 8);                                                                 \
                MOVE_TRANSPOSE_SCALAR(dst, dst_step, src, src_step, i, stop, 0, columns)                               \
            }                                                                                                          \
            return;                                                                                                    \
        }                                                                                                              \
        MOVE_TRANSPOSE_SCALAR(dst, dst_step, src, src_step, whole_rows, rows, 0, whole)                                \
        MOVE_TRANSPOSE_SCALAR(dst, dst_step, src, src_step, 0, rows, whole, columns)                                   \
    }                                                                                                                  \
    /* dst[sum i_d * dst_strides[d]] = src[sum i_d * src_strides[d]] for 0 <= i_d < sizes[d]; strides in elements, any \
     * sign. The fast paths want a contiguous innermost dimension of dst. rank 1 ... MOVE_MAX_RANK. */                 \
    MCP26_INLINE void copy_nd_##BITS(int64_t rank, const int64_t *sizes, T *dst, const int64_t *dst_strides,           \
                                     const T *src, const int64_t *src_strides, int64_t begin, int64_t end) {           \
        int64_t inner = rank - 1, n = sizes[inner], to = dst_strides[inner], from = src_strides[inner];                \
        int64_t across = -1; /* the dimension along which src is contiguous, if a transposition pays */                \
        for (int64_t d = 0; d < inner; d++) {                                                                          \
            if (to == 1 && from != 1 && from != 0 && src_strides[d] == 1 && sizes[d] > 1) across = d;                  \
        }                                                                                                              \
        int64_t count = 1, index[MOVE_MAX_RANK] = {0};                                                                 \
        for (int64_t d = 1; d < inner; d++) count *= d == across ? 1 : sizes[d];                                       \
        if (rank == 1) {                                                                                               \
            dst += begin * to, src += begin * from, n = end - begin, begin = 0, end = 1;                               \
        }                                                                                                              \
        int64_t width = across == 0 ? mcp26_max(1, end - begin) : 1; /* units that are one matrix */                   \
        for (int64_t u = begin; u < end; u += width) {                                                                 \
            T *d0 = rank == 1 ? dst : dst + u * dst_strides[0];                                                        \
            const T *s0 = rank == 1 ? src : src + u * src_strides[0];                                                  \
            for (int64_t k = 0; k < count; k++) {                                                                      \
                if (across >= 0)                                                                                       \
                    move_transpose_##BITS(d0, dst_strides[across], s0, from, n, across ? sizes[across] : width);       \
                else if (to == 1 && from == 1)                                                                         \
                    move_run_##BITS(d0, s0, n);                                                                        \
                else                                                                                                   \
                    for (int64_t i = 0; i < n; i++) d0[i * to] = s0[i * from];                                         \
                for (int64_t d = inner - 1; d >= 1; d--) {                                                             \
                    if (d == across) continue;                                                                         \
                    d0 += dst_strides[d], s0 += src_strides[d];                                                        \
                    if (++index[d] < sizes[d]) break;                                                                  \
                    d0 -= dst_strides[d] * sizes[d], s0 -= src_strides[d] * sizes[d];                                  \
                    index[d] = 0;                                                                                      \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    /* A row of each part, side by side, into every row of dst; rows of dst are `width` elements apart, those of part i\
     * are widths[i] long. The sum of widths. */                                                                       \
    MCP26_INLINE int64_t concat_##BITS(int64_t count, const T *const *parts, const int64_t *widths, int64_t width,     \
                                       T *dst, int64_t begin, int64_t end) {                                           \
        int64_t sum = 0;                                                                                               \
        for (int64_t i = 0; i < count; i++) sum += widths[i];                                                          \
        for (int64_t row = begin; row < end; row++) {                                                                  \
            T *to = dst + row * width;                                                                                 \
            for (int64_t i = 0; i < count; to += widths[i], i++)                                                       \
                move_run_##BITS(to, parts[i] + row * widths[i], widths[i]);                                            \
        }                                                                                                              \
        return sum;                                                                                                    \
    }                                                                                                                  \
    /* Contiguous src[sizes] into contiguous dst[out_sizes]: element i of dst's dimension d is element i - before[d]   \
     * of src's, or padding (negative `before` cuts off). */                                                           \
    MCP26_INLINE void pad_nd_##BITS(pad_mode mode, int64_t rank, const int64_t *sizes, const int64_t *before,          \
                                    const int64_t *out_sizes, const T *src, T *dst, T value, int64_t begin,            \
                                    int64_t end) {                                                                     \
int64_t inner = rank - 1, n = out_sizes[inner], lines = 1, index[MOVE_MAX_RANK] = {0};                         \
        int64_t first = rank == 1 ? begin : 0, last = rank == 1 ? end : n;                                             \
        int64_t left = before[inner], middle = mcp26_max(first, left), right = mcp26_min(last, left + sizes[inner]);   \
        for (int64_t d = 1; d < inner; d++) lines *= out_sizes[d];                                                     \
        if (rank > 1) {                                                                                                \
            index[0] = begin;                                                                                          \
            dst += begin * lines * n;                                                                                  \
            lines *= end - begin;                                                                                      \
        }                                                                                                              \
        for (int64_t k = 0; k < lines; k++, dst += n) {                                                                \
            int64_t offset = 0;                                                                                        \
            for (int64_t d = 0; d < inner; d++) {                                                                      \
                int64_t at = pad_index(mode, index[d] - before[d], sizes[d]);                                          \
                offset = at < 0 || offset < 0 ? -1 : offset * sizes[d] + at;                                           \
            }                                                                                                          \
            const T *line = src + mcp26_max(offset, 0) * sizes[inner];                                                 \
            for (int64_t i = first; i < last; i++) {                                                                   \
                int64_t at = offset < 0 ? -1 : pad_index(mode, i - left, sizes[inner]);                                \
                if (offset >= 0 && i == middle && middle < right) {                                                    \
                    move_run_##BITS(dst + i, line + i - left, right - middle);                                         \
                    i = right - 1;                                                                                     \
                } else {                                                                                               \
                    dst[i] = at < 0 ? value : line[at];                                                                \
                }                                                                                                      \
            }                                                                                                          \
            for (int64_t d = inner - 1; d >= 0; d--) {                                                                 \
                if (++index[d] < out_sizes[d] || d == 0) break;                                                        \
                index[d] = 0;                                                                                          \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    /* dst[outer][count][inner] = src[outer][n][inner] along the middle; units: outer * count rows. An index outside   \
     * [-n, n) is reported as a fault of `step`. */                                                                    \
    MCP26_INLINE int32_t gather_##BITS(mcp26_env *env, uint32_t step, int64_t n, int64_t inner, const T *src,          \
                                       int64_t count, const void *indices, int64_t is_index64, T *dst, int64_t begin,  \
                                       int64_t end) {                                                                  \
        for (int64_t u = begin; u < end; u++) {                                                                        \
            int64_t o = u / count, i = u % count;                                                                      \
            int64_t row = gather_row(env, step, n, indices, is_index64, i);                                            \
            if (row < 0) return MCP26_STEP_DATA;                                                                       \
            move_run_##BITS(dst + u * inner, src + (o * n + row) * inner, inner);                                      \
        }                                                                                                              \
        return 0;                                                                                                      \
    }

MOVE_DEFINE(8, uint8_t)
MOVE_DEFINE(16, uint16_t)
MOVE_DEFINE(32, uint32_t)
MOVE_DEFINE(64, uint64_t)

/* gather_8 of a packed constant of `bits` an element (narrow.h), whose sign fills the byte where it has one. */
MCP26_INLINE int32_t gather_packed(mcp26_env *env, uint32_t step, int64_t n, int64_t inner, const uint8_t *src,
                                   int64_t bits, int64_t is_signed, int64_t count, const void *indices,
                                   int64_t is_index64, uint8_t *dst, int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end; u++) {
        int64_t row = gather_row(env, step, n, indices, is_index64, u % count);
        if (row < 0) return MCP26_STEP_DATA;
        int64_t from = (u / count * n + row) * inner;
        for (int64_t j = 0; j < inner; j += 8) {
            v8b top = v8b_unpack(src, bits, from + j) << (uint8_t)(8 - bits);
            v8b numbers = is_signed ? (v8b)((v8c)top >> (int8_t)(8 - bits)) : top >> (uint8_t)(8 - bits);
            v8b_store(dst + u * inner + j, numbers, mcp26_min(8, inner - j));
        }
    }
    return 0;
}

#endif
