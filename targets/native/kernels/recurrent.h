/* recurrent.h: one direction of ONNX's LSTM, GRU and RNN, of floats and of doubles. Gates lie in ONNX's order: i o f c,
 * z r h, and one.
 *
 * First one product for all time steps,
 *
 *     gates[time x batch][G * hidden] = X[time x batch][input] x W + bias    (G gates, by recurrent_product)
 *
 * then lstm, gru or rnn (one unit: steps follow one another). W and R of ONNX are [G * hidden][input or hidden]; here
 * they are packed as right operands, with K = input or hidden and N = G * hidden (B[k][n] = W[n][k]): as tile.h says
 * those of floats, [K][N] those of doubles. recurrent_pack does that as the network runs.
 */
#ifndef MCP26_RECURRENT_H
#define MCP26_RECURRENT_H

#include "gemm.h"
#include "product.h"
#include "transpose.h"
#include "vmath.h"

/* packed = w[columns][depth], transposed. */
MCP26_INLINE void recurrent_pack_f32(int64_t columns, int64_t depth, const float *w, float *packed) {
    pack_transposed(w, depth, 1, columns, depth, packed);
}
MCP26_INLINE void recurrent_pack_f64(int64_t columns, int64_t depth, const double *w, double *packed) {
    for (int64_t k = 0; k < depth; k++) {
        for (int64_t n = 0; n < columns; n++) packed[k * columns + n] = w[n * depth + k];
    }
}

MCP26_INLINE v8f recurrent_add(v8f acc, const void *const *args, int64_t m, int64_t n, int64_t lanes) {
    (void)m;
    return acc + v8f_load((const float *)args[0] + n, lanes);
}

/* c[rows][columns] (rows ldc apart) = a[rows][depth] (rows lda apart) x packed + bias, which may be NULL. */
MCP26_INLINE void recurrent_product_f32(int64_t rows, int64_t columns, int64_t depth, const float *a, int64_t lda,
                                        const float *packed, const float *bias, float *c, int64_t ldc) {
    const void *args[] = {bias};
    int64_t units = gemm_f32_units(rows, columns, depth);
    if (bias)
        gemm_f32(rows, columns, depth, a, lda, packed, c, ldc, recurrent_add, args, 0, units);
    else
        gemm_f32(rows, columns, depth, a, lda, packed, c, ldc, epilogue_none, NULL, 0, units);
}

/* Columns of a chunk: its packed R lies in the first cache beside another. */
enum { RECURRENT_CHUNK = 64 };

/* c[rows][columns] = a[rows][depth] x packed, as step number `step` needs it: by chunks of columns, from the first to the
 * last and in the next step back, since what was read last is what the first cache still holds. */
MCP26_INLINE void recurrent_turn_f32(int64_t step, int64_t rows, int64_t columns, int64_t depth, const float *a,
                                     int64_t lda, const float *packed, float *c, int64_t ldc) {
    int64_t chunks = mcp26_ceil_div(columns, RECURRENT_CHUNK);
    for (int64_t i = 0; i < chunks; i++) {
        int64_t n = (step % 2 ? chunks - 1 - i : i) * RECURRENT_CHUNK;
        int64_t end = mcp26_min(n + RECURRENT_CHUNK, columns);
        for (int64_t width; n < end; n += width) {
            int64_t vectors = tile_vectors(rows, end - n, 1);
            const float *b = packed + n * depth;
            width = vectors * TILE_LANES;
            if (TILE_PACKS || n + width > end) { /* the rest, packed or not a whole tile */
                width = end - n;
                recurrent_product_f32(rows, width, depth, a, lda, b, NULL, c + n, ldc);
            } else { /* sums go where they belong at once: of a product so small, anything else takes a part of the time */
                tile_sum_strip(rows, vectors, a, lda, depth, b, MCP26_NR, depth * MCP26_NR, c + n, ldc, 0);
            }
        }
    }
}

MCP26_INLINE void recurrent_product_f64(int64_t rows, int64_t columns, int64_t depth, const double *a, int64_t lda,
                                        const double *packed, const double *bias, double *c, int64_t ldc) {
    product_f64(1, rows, columns, depth, a, (product_steps){0, 0, lda, 1}, packed, (product_steps){0, 0, columns, 1}, c,
                (product_steps){0, 0, ldc, 1}, 0, product_units(1, 1, rows));
    for (int64_t i = 0; bias && i < rows * columns; i++) c[i / columns * ldc + i % columns] += bias[i % columns];
}
MCP26_INLINE void recurrent_turn_f64(int64_t step, int64_t rows, int64_t columns, int64_t depth, const double *a,
                                     int64_t lda, const double *packed, double *c, int64_t ldc) {
    (void)step;
    recurrent_product_f64(rows, columns, depth, a, lda, packed, NULL, c, ldc);
}

#define T float
#define V v8f
#define NAME(f) f##_f32
#define V_(f) v8f_##f
#include "recurrent_steps.h"

#define T double
#define V v8d
#define NAME(f) f##_f64
#define V_(f) v8d_##f
#include "recurrent_steps.h"

#endif
