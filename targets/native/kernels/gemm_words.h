/* gemm_words.h: exact products of 8-bit activations with 8-bit weights as words.h has them, for those of which too many
 * pairs of bytes can saturate (PAIRS of gemm_i8.h): shallow ones. UNITS: blocks of rows. */
#ifndef MCP26_GEMM_WORDS_H
#define MCP26_GEMM_WORDS_H

#include "gemm_i8.h"
#include "words.h"

enum { WORDS_BLOCK = 8 * WORDS_ROWS }; /* rows of a block */

MCP26_INLINE int64_t gemm_words_units(int64_t M) { return mcp26_ceil_div(M, WORDS_BLOCK); }

/* A row less its zero point; `depth` is K, or one more. */
MCP26_INLINE void gemm_words_row(byte_rows a, const uint8_t *from, int64_t K, int64_t depth, int16_t *to) {
    typedef uint8_t bytes __attribute__((ext_vector_type(8)));
    typedef int8_t signed_bytes __attribute__((ext_vector_type(8)));
    int64_t k = 0;
    for (; k + 8 <= K; k += 8) {
        bytes stored;
        __builtin_memcpy(&stored, from + k, sizeof stored);
        v8s words = a.is_signed ? __builtin_convertvector((signed_bytes)stored, v8s) : __builtin_convertvector(stored, v8s);
        words -= (v8s)(int16_t)a.zero;
        __builtin_memcpy(to + k, &words, sizeof words);
    }
    for (; k < K; k++) to[k] = (int16_t)((a.is_signed ? (int8_t)from[k] : from[k]) - a.zero);
    if (K < depth) to[K] = 0;
}

/* Columns n ... n+lanes-1 of a tile's sums, plus `bias`; `lanes` is a literal where it is 8. */
MCP26_INLINE void gemm_words_finish(const int32_t *sums, const int32_t *bias, byte_finish finish, const void *const *args,
                                    int64_t m, int64_t rows, int64_t n, int64_t lanes) {
    v8u added = bias ? (v8u)v8i_load_all(bias + n) : (v8u)0;
    MCP26_ROLL for (int64_t i = 0; i < rows; i++) {
        finish((v8i)((v8u)v8i_load_all(sums + i * WORDS_COLUMNS) + added), args, m + i, n, lanes);
    }
}

/* finish((a[M][K] - zero) x W + bias). `bias`: ceil(N / 16) * 16 numbers, or NULL. Scratch: WORDS_BLOCK rows of words. */
MCP26_INLINE void gemm_words(int64_t M, int64_t N, int64_t K, byte_rows a, const int16_t *packed, const int32_t *bias,
                             byte_finish finish, const void *const *args, void *scratch, int64_t begin, int64_t end) {
    int64_t pairs = mcp26_ceil_div(K, 2), depth = 2 * pairs;
    int16_t *left = scratch;
    for (int64_t u = begin; u < end; u++) {
        int64_t top = u * WORDS_BLOCK, bottom = mcp26_min(M, top + WORDS_BLOCK);
        for (int64_t m = top; m < bottom; m++) {
            gemm_words_row(a, (const uint8_t *)a.data + m * K, K, depth, left + (m - top) * depth);
        }
        for (int64_t n = 0; n < N; n += WORDS_COLUMNS) {
            const int16_t *panel = packed + n * depth;
            for (int64_t m = top; m < bottom; m += WORDS_ROWS) {
                int32_t sums[WORDS_ROWS * WORDS_COLUMNS] __attribute__((aligned(64)));
                int64_t rows = mcp26_min(WORDS_ROWS, bottom - m);
                words_sum(rows, sums, left + (m - top) * depth, depth, pairs, panel, panel);
                for (int64_t j = 0; j < WORDS_COLUMNS && n + j < N; j += 8) {
                    if (N - n - j >= 8)
                        gemm_words_finish(sums + j, bias, finish, args, m, rows, n + j, 8);
                    else
                        gemm_words_finish(sums + j, bias, finish, args, m, rows, n + j, N - n - j);
                }
            }
        }
    }
}

#endif
