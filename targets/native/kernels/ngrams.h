/* ngrams.h: how often the n-grams of a pool occur in a row. */
#ifndef MCP26_NGRAMS_H
#define MCP26_NGRAMS_H

#include "kernel.h"

/* counts[slots[g]] += the places where `grams[g]`, `n` items that are `step` apart, stands in `x`, for step 1 ... steps. */
#define NGRAMS_DEFINE(BITS)                                                                                            \
    MCP26_INLINE void ngrams_count_##BITS(const int##BITS##_t *x, int64_t length, const int64_t *grams, int64_t count, \
                                          int64_t n, const int64_t *slots, int64_t steps, float *counts) {             \
        for (int64_t step = 1; step <= steps; step++) {                                                                \
            for (int64_t at = 0; at + (n - 1) * step < length; at++) {                                                 \
                for (int64_t g = 0; g < count; g++) {                                                                  \
                    int64_t i = 0;                                                                                     \
                    while (i < n && x[at + i * step] == grams[g * n + i]) i++;                                         \
                    if (i == n) counts[slots[g]] += 1.0f;                                                              \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }

NGRAMS_DEFINE(32)
NGRAMS_DEFINE(64)

#endif
