/* cores.c: the cores of tile.h, the only code that is unrolled by the height of a tile. All sizes are run-time
 * variables, so that one copy serves every kernel of an image and is compiled once a processor.
 */
#include "tile.h"

enum { CORE_VECTORS = 8 };

/* Where vector j of a row of B is. */
MCP26_INLINE int64_t tile_place(int64_t j, int64_t panel_stride) {
    return j * TILE_LANES / MCP26_NR * panel_stride + j * TILE_LANES % MCP26_NR;
}

MCP26_INLINE void tile_begin(tile_vector *acc, int64_t count, const float *sums, int64_t goes_on) {
    MCP26_UNROLL for (int64_t i = 0; i < count; i++) acc[i] = 0.0f;
    if (!goes_on) return;
    MCP26_UNROLL for (int64_t i = 0; i < count; i++) acc[i] = tile_load(sums + i * TILE_LANES);
}

/* Columns of A are at `offsets` if `is_few`, else they follow one another. */
MCP26_INLINE void tile_sum(int64_t rows, int64_t vectors, float *sums, const float *const *a, int64_t taps,
                           int64_t depth, int64_t is_few, const int64_t *offsets, const float *b, int64_t b_step,
                           int64_t panel_stride, int64_t goes_on) {
    tile_vector acc[TILE_ACCUMULATORS];
    tile_begin(acc, rows * vectors, sums, goes_on);
    for (int64_t t = 0; t < taps; t++, a += TILE_ROWS) {
        const float *left[TILE_ROWS];
        MCP26_UNROLL for (int64_t i = 0; i < rows; i++) left[i] = a[i];
        int64_t k = 0;
#if defined(__aarch64__)
        /* Four columns of A a load, multiplied by lane: loads would be the limit otherwise. */
#define TILE_LANE(lane)                                                                                        \
    {                                                                                                          \
        tile_vector bv[CORE_VECTORS];                                                                          \
        MCP26_UNROLL for (int64_t j = 0; j < vectors; j++) bv[j] = tile_load(b + tile_place(j, panel_stride)); \
        b += b_step;                                                                                           \
        MCP26_UNROLL for (int64_t i = 0; i < rows; i++) {                                                      \
            v8f av = __builtin_shufflevector(four[i], four[i], lane, lane, lane, lane, lane, lane, lane, lane); \
            MCP26_UNROLL for (int64_t j = 0; j < vectors; j++) {                                               \
                acc[i * vectors + j] = v8f_fma(av, bv[j], acc[i * vectors + j]);                               \
            }                                                                                                  \
        }                                                                                                      \
    }
        for (; !is_few && k + 4 <= depth; k += 4) {
            v4f four[TILE_ROWS];
            MCP26_UNROLL for (int64_t i = 0; i < rows; i++) __builtin_memcpy(&four[i], left[i] + k, sizeof four[i]);
            TILE_LANE(0)
            TILE_LANE(1)
            TILE_LANE(2)
            TILE_LANE(3)
        }
#undef TILE_LANE
#endif
        MCP26_ROLL for (; k < depth; k++, b += b_step) {
            /* What is fewer stays in registers: columns of A in a low tile, of B else. */
            tile_vector av[TILE_ROWS], bv[CORE_VECTORS];
            int64_t at = is_few ? offsets[k] : k;
            if (rows < vectors) {
                MCP26_UNROLL for (int64_t i = 0; i < rows; i++) av[i] = left[i][at];
                MCP26_UNROLL for (int64_t j = 0; j < vectors; j++) {
                    bv[j] = tile_load(b + tile_place(j, panel_stride));
                    MCP26_UNROLL for (int64_t i = 0; i < rows; i++) {
                        acc[i * vectors + j] = __builtin_elementwise_fma(av[i], bv[j], acc[i * vectors + j]);
                    }
                }
            } else {
                MCP26_UNROLL for (int64_t j = 0; j < vectors; j++) bv[j] = tile_load(b + tile_place(j, panel_stride));
                MCP26_UNROLL for (int64_t i = 0; i < rows; i++) {
                    av[i] = left[i][at];
                    MCP26_UNROLL for (int64_t j = 0; j < vectors; j++) {
                        acc[i * vectors + j] = __builtin_elementwise_fma(av[i], bv[j], acc[i * vectors + j]);
                    }
                }
            }
        }
    }
    MCP26_UNROLL for (int64_t i = 0; i < rows * vectors; i++) tile_store(sums + i * TILE_LANES, acc[i]);
}

/* A function for each height, so that each has registers of its own. */
#define DEFINE_CORE(V, R)                                                                                             \
    static __attribute__((noinline)) void tile_##R##x##V(float *sums, const float *const *a, int64_t taps,            \
                                                         int64_t depth, const float *b, int64_t b_step,               \
                                                         int64_t panel_stride, int64_t goes_on) {                     \
        tile_sum(R, V, sums, a, taps, depth, 0, NULL, b, b_step, panel_stride, goes_on);                             \
    }
#define CALL_CORE(V, R) \
    if (rows == R) tile_##R##x##V(sums, a, taps, depth, b, b_step, panel_stride, goes_on);
#define DEFINE_WIDTH(V)                                                                                               \
    TILE_HEIGHTS_##V(DEFINE_CORE)                                                                                     \
    void mcp26_tile_##V(int64_t rows, float *sums, const float *const *a, int64_t taps, int64_t depth,                \
                        const float *b, int64_t b_step, int64_t panel_stride, int64_t goes_on) {                      \
        TILE_HEIGHTS_##V(CALL_CORE)                                                                                   \
    }
DEFINE_WIDTH(1)
DEFINE_WIDTH(2)
DEFINE_WIDTH(4)
DEFINE_WIDTH(8)

#define DEFINE_FEW(V, R)                                                                                              \
    static __attribute__((noinline)) void few_##R##x##V(float *sums, const float *const *a, const int64_t *offsets,   \
                                                        int64_t depth, const float *b, int64_t panel_stride,          \
                                                        int64_t goes_on) {                                            \
        tile_sum(R, V, sums, a, 1, depth, 1, offsets, b, MCP26_NR, panel_stride, goes_on);                          \
    }
#define CALL_FEW(V, R) \
    if (R <= TILE_FEW && rows == R) few_##R##x##V(sums, a, offsets, depth, b, panel_stride, goes_on);
#define DEFINE_FEW_WIDTH(V)                                                                                           \
    TILE_HEIGHTS_##V(DEFINE_FEW)                                                                                      \
    void mcp26_few_##V(int64_t rows, float *sums, const float *const *a, const int64_t *offsets, int64_t depth,       \
                       const float *b, int64_t panel_stride, int64_t goes_on) {                                       \
        TILE_HEIGHTS_##V(CALL_FEW)                                                                                    \
    }
DEFINE_FEW_WIDTH(1)
DEFINE_FEW_WIDTH(2)
