/* transpose.h: matrices packed as the transposed right operand of a product. */
#ifndef MCP26_TRANSPOSE_H
#define MCP26_TRANSPOSE_H

#include "tile.h"

#define TRANSPOSE_ZIP(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)

/* Rows become columns. */
MCP26_INLINE void v8f_transpose(v8f *r) {
    v8f t[8], u[8];
    MCP26_UNROLL for (int i = 0; i < 8; i += 2) {
        t[i] = TRANSPOSE_ZIP(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        t[i + 1] = TRANSPOSE_ZIP(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    MCP26_UNROLL for (int i = 0; i < 8; i += 4) {
        MCP26_UNROLL for (int j = 0; j < 2; j++) {
            u[i + 2 * j] = TRANSPOSE_ZIP(t[i + j], t[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            u[i + 2 * j + 1] = TRANSPOSE_ZIP(t[i + j], t[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    }
    MCP26_UNROLL for (int i = 0; i < 4; i++) {
        r[i] = TRANSPOSE_ZIP(u[i], u[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        r[i + 4] = TRANSPOSE_ZIP(u[i], u[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

/* packed (tile.h) = the transpose of x: `count` rows that are `row` elements apart become its columns, `depth` columns
 * that are `column` apart its rows. */
MCP26_INLINE void pack_transposed(const float *x, int64_t row, int64_t column, int64_t count, int64_t depth,
                                  float *packed) {
    for (int64_t n = 0; n < mcp26_ceil_div(count, MCP26_NR) * MCP26_NR; n += 8) {
        float *to = packed + n / MCP26_NR * MCP26_NR * depth + n % MCP26_NR;
        for (int64_t d = 0; d < depth; d += 8) {
            int64_t lanes = mcp26_min(8, depth - d);
            v8f r[8];
            for (int64_t i = 0; i < 8; i++) {
                const float *from = x + (n + i) * row + d * column;
                r[i] = n + i >= count ? v8f_splat(0.0f) : column == 1 ? v8f_load(from, lanes)
                                                                      : v8f_load_strided(from, column, lanes);
            }
            v8f_transpose(r);
            for (int64_t i = 0; i < lanes; i++) v8f_store_all(to + (d + i) * MCP26_NR, r[i]);
        }
    }
}

#endif
