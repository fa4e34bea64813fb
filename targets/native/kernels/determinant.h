/* determinant.h: determinants of square matrices, by elimination with partial pivoting. */
#ifndef MCP26_DETERMINANT_H
#define MCP26_DETERMINANT_H

#include "simd.h"

/* y[batch] from x[batch][n][n]; work is as large as x. Units: batch. */
#define DETERMINANT_DEFINE(NAME, V, T)                                                                                 \
    MCP26_INLINE void determinant_##NAME(int64_t n, const T *x, T *y, T *work, int64_t begin, int64_t end) {           \
        for (int64_t u = begin; u < end; u++) {                                                                        \
            T *m = work + u * n * n, result = 1;                                                                       \
            for (int64_t i = 0; i < n * n; i++) m[i] = x[u * n * n + i];                                               \
            for (int64_t k = 0; k < n; k++) {                                                                          \
                int64_t pivot = k;                                                                                     \
                for (int64_t i = k + 1; i < n; i++) {                                                                  \
                    T here = m[i * n + k], best = m[pivot * n + k];                                                    \
                    if ((here < 0 ? -here : here) > (best < 0 ? -best : best)) pivot = i;                              \
                }                                                                                                      \
                T head = m[pivot * n + k];                                                                             \
                result *= pivot == k ? head : -head;                                                                   \
                if (head == 0) break;                                                                                  \
                for (int64_t j = k; j < n; j++) {                                                                      \
                    T swapped = m[k * n + j];                                                                          \
                    m[k * n + j] = m[pivot * n + j];                                                                   \
                    m[pivot * n + j] = swapped;                                                                        \
                }                                                                                                      \
                for (int64_t i = k + 1; i < n; i++) {                                                                  \
                    V factor = -m[i * n + k] / head;                                                                   \
                    for (int64_t j = k; j < n; j += 8) {                                                               \
                        int64_t lanes = mcp26_min(8, n - j);                                                           \
                        T *row = m + i * n + j;                                                                        \
                        V##_store(row, V##_fma(factor, V##_load(m + k * n + j, lanes), V##_load(row, lanes)), lanes);  \
                    }                                                                                                  \
                }                                                                                                      \
            }                                                                                                          \
            y[u] = result;                                                                                             \
        }                                                                                                              \
    }
DETERMINANT_DEFINE(f32, v8f, float)
DETERMINANT_DEFINE(f64, v8d, double)

#endif
