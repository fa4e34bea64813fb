/* product.h: matrix products of types that gemm.h has no kernels for. Sums run in the order of k; those of integers
 * wrap, those of doubles are fused multiply-adds.
 */
#ifndef MCP26_PRODUCT_H
#define MCP26_PRODUCT_H

#include "simd.h"

enum { PRODUCT_ROWS = 4 };

/* Elements from one batch, head, row, column to the next; 0 for a batch that is shared. */
typedef struct {
    int64_t batch, head, row, column;
} product_steps;

/* Units: batches x heads x groups of PRODUCT_ROWS rows. */
MCP26_INLINE int64_t product_units(int64_t batches, int64_t heads, int64_t rows) {
    return batches * heads * mcp26_ceil_div(rows, PRODUCT_ROWS);
}

#define PRODUCT_SUM(a, b, c) ((a) * (b) + (c))

/* c[batches][heads][rows][columns] = a[...][rows][depth] x b[...][depth][columns] */
#define PRODUCT_DEFINE(NAME, V, T, FMA)                                                                                \
    MCP26_INLINE void product_##NAME(int64_t heads, int64_t rows, int64_t columns, int64_t depth, const T *a,          \
                                     product_steps as, const T *b, product_steps bs, T *c, product_steps cs,           \
                                     int64_t begin, int64_t end) {                                                     \
        int64_t groups = mcp26_ceil_div(rows, PRODUCT_ROWS);                                                           \
        for (int64_t u = begin; u < end; u++) {                                                                        \
            int64_t batch = u / groups / heads, head = u / groups % heads, m = u % groups * PRODUCT_ROWS;              \
            int64_t some = mcp26_min(PRODUCT_ROWS, rows - m);                                                          \
            const T *left = a + batch * as.batch + head * as.head + m * as.row;                                        \
            const T *right = b + batch * bs.batch + head * bs.head;                                                    \
            T *to = c + batch * cs.batch + head * cs.head + m * cs.row;                                                \
            for (int64_t n = 0; n < columns; n += 8) {                                                                 \
                int64_t lanes = mcp26_min(8, columns - n);                                                             \
                V sum[PRODUCT_ROWS];                                                                                   \
                MCP26_UNROLL for (int64_t i = 0; i < PRODUCT_ROWS; i++) sum[i] = (T)0;                                 \
                for (int64_t k = 0; k < depth; k++) {                                                                  \
                    const T *from = right + k * bs.row + n * bs.column;                                                \
                    V v = bs.column == 1 ? V##_load(from, lanes) : V##_load_strided(from, bs.column, lanes);           \
                    MCP26_UNROLL for (int64_t i = 0; i < PRODUCT_ROWS; i++) {                                          \
                        V x = left[mcp26_min(i, some - 1) * as.row + k * as.column];                                   \
                        sum[i] = FMA(x, v, sum[i]);                                                                    \
                    }                                                                                                  \
                }                                                                                                      \
                MCP26_UNROLL for (int64_t i = 0; i < PRODUCT_ROWS; i++) {                                              \
                    if (i >= some) continue;                                                                           \
                    T *place = to + i * cs.row + n * cs.column;                                                        \
                    if (cs.column == 1)                                                                                \
                        V##_store(place, sum[i], lanes);                                                               \
                    else                                                                                               \
                        V##_store_strided(place, cs.column, sum[i], lanes);                                            \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }

PRODUCT_DEFINE(f64, v8d, double, v8d_fma)
PRODUCT_DEFINE(i32, v8i, int32_t, PRODUCT_SUM)
PRODUCT_DEFINE(i64, v8l, int64_t, PRODUCT_SUM)
PRODUCT_DEFINE(u32, v8u, uint32_t, PRODUCT_SUM)
PRODUCT_DEFINE(u64, v8q, uint64_t, PRODUCT_SUM)

#endif
