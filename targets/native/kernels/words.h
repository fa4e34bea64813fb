/* words.h: tiles of products of 16-bit integers in pairs, in sums of 32 bits that wrap.
 *
 * WEIGHTS of [K, N], k2 counting pairs of rows, zero beyond K and N:
 *
 *     packed[ceil(N / 16)][ceil(K / 2)][16][2],   packed[p][k2][j][i] = W[2 * k2 + i][16 * p + j]
 */
#ifndef MCP26_WORDS_H
#define MCP26_WORDS_H

#include "pairs.h"

enum { WORDS_ROWS = 6, WORDS_COLUMNS = 16 };

/* sums[i][16] of rows i < R of `left`, which are `step` apart, and a panel `w`. As much at `ahead`, which need
 * not exist, goes to the second cache. */
MCP26_INLINE void words_core(int64_t rows, int32_t *sums, const int16_t *left, int64_t step, int64_t pairs,
                             const int16_t *w, const int16_t *ahead) {
    v8i acc[2 * WORDS_ROWS];
    MCP26_UNROLL for (int64_t i = 0; i < 2 * rows; i++) acc[i] = 0;
    MCP26_ROLL for (int64_t k = 0; k < pairs; k++, left += 2, w += 2 * WORDS_COLUMNS, ahead += 2 * WORDS_COLUMNS) {
        __builtin_prefetch(ahead, 0, 2);
        v8p low = v8p_load(w), high = v8p_load(w + 16);
        MCP26_UNROLL for (int64_t i = 0; i < rows; i++) {
            v8p row = v8p_splat(left + i * step);
            acc[2 * i] = v8p_dot(acc[2 * i], row, low), acc[2 * i + 1] = v8p_dot(acc[2 * i + 1], row, high);
        }
    }
    MCP26_UNROLL for (int64_t i = 0; i < 2 * rows; i++) v8i_store_all(sums + 8 * i, acc[i]);
}

#define WORDS_HEIGHTS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#define WORDS_DEFINE(R)                                                                                             \
    static __attribute__((noinline)) void words_##R(int32_t *sums, const int16_t *left, int64_t step, int64_t pairs, \
                                                    const int16_t *w, const int16_t *ahead) {                       \
        words_core(R, sums, left, step, pairs, w, ahead);                                                           \
    }
#define WORDS_CALL(R) \
    if (rows == R) words_##R(sums, left, step, pairs, w, ahead);
WORDS_HEIGHTS(WORDS_DEFINE)
MCP26_INLINE void words_sum(int64_t rows, int32_t *sums, const int16_t *left, int64_t step, int64_t pairs,
                            const int16_t *w, const int16_t *ahead) {
    WORDS_HEIGHTS(WORDS_CALL)
}

#endif
