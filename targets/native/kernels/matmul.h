/* matmul.h: products of two activations whose rows, heads and batches lie any number of elements apart, so that they
 * need not be transposed first.
 *
 * Units: outer x inner batches x blocks of MATMUL_ROWS x MATMUL_COLUMNS. Every result is one chain of fused
 * multiply-adds (tile.h).
 */
#ifndef MCP26_MATMUL_H
#define MCP26_MATMUL_H

#include "gemm.h"
#include "transpose.h"

enum { MATMUL_ROWS = 64, MATMUL_COLUMNS = 64 };

/* Elements from one item to the next. */
typedef struct {
    int64_t outer, inner, row, column;
} matmul_steps;

MCP26_INLINE int64_t matmul_strided_units(int64_t outer, int64_t inner, int64_t M, int64_t N) {
    return outer * inner * mcp26_ceil_div(M, MATMUL_ROWS) * mcp26_ceil_div(N, MATMUL_COLUMNS);
}

/* C[M, N] = epilogue(A[M, K] x B[K, N]) for each of outer x inner. Columns of A and C are neighbours, and so are columns
 * of B, or else its rows: then `scratch` holds MATMUL_COLUMNS * K floats. The epilogue's m is item * M + row. */
MCP26_INLINE void matmul_strided_f32(int64_t outer, int64_t inner, int64_t M, int64_t N, int64_t K, const float *a,
                                     matmul_steps as, const float *b, matmul_steps bs, float *c, matmul_steps cs,
                                     mcp26_epilogue epilogue, const void *const *args, float *scratch, int64_t begin,
                                     int64_t end) {
    int64_t across = mcp26_ceil_div(N, MATMUL_COLUMNS), down = mcp26_ceil_div(M, MATMUL_ROWS);
    (void)outer;
    for (int64_t u = begin; u < end; u++) {
        int64_t item = u / (down * across), m = u / across % down * MATMUL_ROWS, n = u % across * MATMUL_COLUMNS;
        int64_t rows = mcp26_min(MATMUL_ROWS, M - m), columns = mcp26_min(MATMUL_COLUMNS, N - n);
        int64_t o = item / inner, i = item % inner, is_loose = bs.column == 1;
        const float *right = b + o * bs.outer + i * bs.inner + n * bs.column;
        if (!is_loose) pack_transposed(right, bs.column, bs.row, columns, K, scratch);
        gemm_left left = {a + o * as.outer + i * as.inner + m * as.row, as.row, is_loose ? bs.row : MCP26_NR, K,
                          is_loose};
        tile_product t = {.rows = rows, .columns = columns, .depth = K, .left = &left, .b = is_loose ? right : scratch,
                          .panel_stride = is_loose ? MCP26_NR : K * MCP26_NR,
                          .c = c + o * cs.outer + i * cs.inner + m * cs.row + n, .ldc = cs.row, .args = args,
                          .row0 = item * M + m, .column0 = n};
        tile_units_run(t, gemm_source, epilogue, 0, tile_units(rows, columns, K));
    }
}

#endif
