/* gemm.h: products with packed weights, and of two activations.
 *
 * Packed layout and the order of summation: tile.h; units of begin/end: tile_product.h. An epilogue gets m = row, n =
 * column of C.
 * C must not overlap A or B; an operand of the epilogue may be C itself (residual added in place).
 */
#ifndef MCP26_GEMM_H
#define MCP26_GEMM_H

#include "tile_product.h"

/* Rows of B are b_step elements apart. `is_loose`: B is row-major, no panels that are filled up to whole tiles. */
typedef struct {
    const float *a;
    int64_t lda, b_step, depth;
    int64_t is_loose;
} gemm_left;

MCP26_INLINE void gemm_source(const void *left, float *sums, int64_t rows, int64_t vectors, int64_t m, const float *b,
                              int64_t panel_stride, int64_t columns, const float *ahead) {
    const gemm_left *g = left;
    const float *a[TILE_ROWS]; /* some beyond the tile */
    MCP26_UNROLL for (int64_t i = 0; i < TILE_ROWS; i++) a[i] = g->a + (m + i) * g->lda;
    int64_t width = vectors * TILE_LANES, missing = width - columns;
    if (!g->is_loose || missing == 0) {
        tile_core_ahead(rows, vectors, columns, sums, a, 1, g->depth, b, g->b_step, panel_stride, 0, ahead);
        return;
    }
    /* A whole tile's row of B may run on into the next row, but not out of the last ones. */
    float patch[TILE_LANES * TILE_LANES] __attribute__((aligned(64))), *next = patch;
    int64_t inside = mcp26_max(0, g->depth - mcp26_ceil_div(missing, g->b_step));
    for (int64_t k = inside; k < g->depth; k++) {
        for (int64_t j = 0; j < width; j++) *next++ = j < columns ? b[k * g->b_step + j] : 0.0f;
    }
    tile_core(rows, vectors, columns, sums, a, 1, inside, b, g->b_step, panel_stride, 0);
    MCP26_UNROLL for (int64_t i = 0; i < TILE_ROWS; i++) a[i] += inside;
    tile_core(rows, vectors, columns, sums, a, 1, g->depth - inside, patch, width, MCP26_NR, 1);
}

#if TILE_PACKS
MCP26_INLINE void gemm_pack(const void *left, float *packed, int64_t rows, int64_t m, int64_t k, int64_t depth) {
    const gemm_left *g = left;
    const float *a[MCP26_MR]; /* some beyond the tile */
    MCP26_UNROLL for (int64_t i = 0; i < MCP26_MR; i++) a[i] = g->a + (m + i) * g->lda + k;
    mcp26_pack(rows, packed, a, depth);
}
#else
#define gemm_pack NULL
#endif

/* Units of gemm_f32: what `end` may be at most. */
MCP26_INLINE int64_t gemm_f32_units(int64_t M, int64_t N, int64_t K) { return tile_units(M, N, K); }

/* C[M, N] (rows ldc elements apart) = epilogue(A[M, K] (rows lda apart) x packed). */
MCP26_INLINE void gemm_f32(int64_t M, int64_t N, int64_t K, const float *a, int64_t lda, const float *packed, float *c,
                           int64_t ldc, mcp26_epilogue epilogue, const void *const *args, int64_t begin, int64_t end) {
    gemm_left left = {a, lda, MCP26_NR, K, 0};
    tile_product t = {.rows = M, .columns = N, .depth = K, .left = &left, .b = packed,
                      .panel_stride = K * MCP26_NR, .c = c, .ldc = ldc, .args = args, .row_step = lda,
                      .a = a};
    tile_units_pack(t, gemm_source, gemm_pack, epilogue, begin, end);
}

/* Units of matmul_f32: those of one product, times the batch. */
MCP26_INLINE int64_t matmul_f32_units(int64_t batch, int64_t M, int64_t N, int64_t K) {
    return batch * tile_units(M, N, K);
}

/* For each item i of the batch: C[M, N] at c + i * batch_c = epilogue(A[M, K] at a + i * batch_a  x  B[K, N],
 * row-major, at b + i * batch_b). A batch stride of 0 shares the operand. The epilogue's m is i * M + row. */
MCP26_INLINE void matmul_f32(int64_t batch, int64_t M, int64_t N, int64_t K, const float *a, int64_t lda,
                             int64_t batch_a, const float *b, int64_t ldb, int64_t batch_b, float *c, int64_t ldc,
                             int64_t batch_c, mcp26_epilogue epilogue, const void *const *args, int64_t begin,
                             int64_t end) {
    int64_t units = tile_units(M, N, K);
    (void)batch;
    for (int64_t u = begin; u < end;) {
        int64_t item = u / units, first = u % units, last = mcp26_min(units, first + end - u);
        gemm_left left = {a + item * batch_a, lda, ldb, K, 1};
        tile_product t = {.rows = M, .columns = N, .depth = K, .left = &left,
                          .b = b + item * batch_b, .panel_stride = MCP26_NR, .c = c + item * batch_c, .ldc = ldc,
                          .args = args, .row0 = item * M, .row_step = lda};
        tile_units_run(t, gemm_source, epilogue, first, last);
        u += last - first;
    }
}

#endif
