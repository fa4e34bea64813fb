/* rotary.h: RotaryEmbedding (J. Su et al., RoFormer, 2021): pairs of components are turned by an angle that depends on
 * the row. Units: batch x rows.
 */
#ifndef MCP26_ROTARY_H
#define MCP26_ROTARY_H

#include "index.h"

/* `rotated` of the `size` components of every head are; component i belongs to i + rotated / 2, or with `interleaved` 2 i
 * to 2 i + 1. x and y have the same steps; components are neighbours. cos and sin have rotated / 2 columns, and a row for
 * each number that occurs in `positions` [batch][rows] out of `table`, or without positions for each of batch x rows. */
typedef struct {
    int64_t batch, heads, rows, size, rotated, interleaved;
    int64_t batch_step, head_step, row_step;
    const int64_t *positions;
    int64_t table;
} rotary;

#define ROTARY_DEFINE(NAME, V, T)                                                                                      \
    MCP26_INLINE int32_t rotary_##NAME(mcp26_env *env, rotary r, const T *x, const T *cos, const T *sin, T *y,         \
                                       int64_t begin, int64_t end) {                                                   \
        int64_t half = r.rotated / 2;                                                                                  \
        int64_t apart = r.interleaved ? 1 : half, step = r.interleaved ? 2 : 1;                                        \
        for (int64_t u = begin; u < end; u++) {                                                                        \
            int64_t at = r.positions ? r.positions[u] : u;                                                             \
            int32_t status = r.positions ? index_check(env, at, 0, r.table - 1) : 0;                                   \
            if (status) return status;                                                                                 \
            for (int64_t h = 0; h < r.heads; h++) {                                                                    \
                int64_t offset = u / r.rows * r.batch_step + h * r.head_step + u % r.rows * r.row_step;                \
                const T *from = x + offset;                                                                            \
                T *to = y + offset;                                                                                    \
                for (int64_t i = 0; i < half; i += 8) {                                                                \
                    int64_t lanes = mcp26_min(8, half - i);                                                            \
                    V c = V##_load(cos + at * half + i, lanes), s = V##_load(sin + at * half + i, lanes), a, b;        \
                    if (r.interleaved) {                                                                               \
                        a = V##_load_strided(from + 2 * i, 2, lanes);                                                  \
                        b = V##_load_strided(from + 2 * i + 1, 2, lanes);                                              \
                    } else {                                                                                           \
                        a = V##_load(from + i, lanes);                                                                 \
                        b = V##_load(from + half + i, lanes);                                                          \
                    }                                                                                                  \
                    V##_store_strided(to + i * step, step, c * a - s * b, lanes);                                      \
                    V##_store_strided(to + i * step + apart, step, s * a + c * b, lanes);                              \
                }                                                                                                      \
                for (int64_t i = r.rotated; i < r.size; i++) to[i] = from[i];                                          \
            }                                                                                                          \
        }                                                                                                              \
        return 0;                                                                                                      \
    }
ROTARY_DEFINE(f32, v8f, float)
ROTARY_DEFINE(f64, v8d, double)

#endif
