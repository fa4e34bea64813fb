/* cores.c: the cores of tile.h, the code that is unrolled by each height of a tile. All sizes are run-time
 * variables, so that one copy serves every kernel of an image and is compiled once a processor.
 */
#include "registers.h"
#include "tile.h"

enum { CORE_VECTORS = 8, PACKED_ROUND = 4 /* fours of columns a round */ };

/* Where vector j of a row of B is. */
MCP26_INLINE int64_t tile_place(int64_t j, int64_t panel_stride) {
    return j * TILE_LANES / MCP26_NR * panel_stride + j * TILE_LANES % MCP26_NR;
}

MCP26_INLINE void tile_begin(tile_vector *acc, int64_t count, const float *sums, int64_t goes_on) {
    MCP26_UNROLL for (int64_t i = 0; i < count; i++) acc[i] = 0.0f;
    if (!goes_on) return;
    MCP26_UNROLL for (int64_t i = 0; i < count; i++) acc[i] = tile_load(sums + i * TILE_LANES);
}

#if TILE_PACKS
/* One of the four columns of A in `four` times a row of B. */
MCP26_INLINE void core_lane(int64_t rows, int64_t vectors, tile_vector *acc, const v4f *four, int64_t lane,
                            const tile_vector *row) {
    MCP26_UNROLL for (int64_t i = 0; i < rows; i++) {
        tile_vector column = four[i][lane];
        MCP26_UNROLL for (int64_t j = 0; j < vectors; j++) {
            acc[i * vectors + j] = v8f_fma(column, row[j], acc[i * vectors + j]);
        }
    }
}

/* Four columns of A times four rows of a panel; gives the row behind them. */
MCP26_INLINE const float *core_four(int64_t rows, tile_vector *acc, const v4f *four, const float *b) {
    MCP26_UNROLL for (int64_t lane = 0; lane < 4; lane += 2) {
        v4f halves[4];
        tile_vector row[2];
        b = registers_load_4(halves, b);
        __builtin_memcpy(row, halves, sizeof row);
        core_lane(rows, 1, acc, four, lane, &row[0]);
        core_lane(rows, 1, acc, four, lane + 1, &row[1]);
    }
    return b;
}

/* Whole fours of columns: a load for four columns of a row of A, multiplied by lane, since loads would be the limit
 * otherwise. Gives the row of B that is next. */
MCP26_INLINE const float *core_fours(int64_t rows, int64_t vectors, tile_vector *acc, const float **left,
                                     int64_t depth, const float *b, int64_t b_step, int64_t panel_stride) {
    int64_t rest = depth / 4;
    if (rest == 0) return b;
    if (vectors == 1 && b_step == MCP26_NR) {
        do {
            v4f four[TILE_ROWS];
            MCP26_UNROLL for (int64_t i = 0; i < rows; i++) {
                __builtin_memcpy(&four[i], left[i], sizeof four[i]);
                left[i] += 4;
            }
            b = core_four(rows, acc, four, b);
        } while (--rest);
        return b;
    }
    do {
        v4f four[TILE_ROWS];
        MCP26_UNROLL for (int64_t i = 0; i < rows; i++) {
            __builtin_memcpy(&four[i], left[i], sizeof four[i]);
            left[i] += 4;
        }
        MCP26_UNROLL for (int64_t lane = 0; lane < 4; lane++, b += b_step) {
            tile_vector row[CORE_VECTORS];
            MCP26_UNROLL for (int64_t j = 0; j < vectors; j++) row[j] = tile_load(b + tile_place(j, panel_stride));
            core_lane(rows, vectors, acc, four, lane, row);
        }
    } while (--rest);
    return b;
}
#endif

#if TILE_HALVES
MCP26_INLINE void half_sum(int64_t rows, float *sums, const float *const *a, int64_t taps, int64_t depth,
                           const float *b, int64_t b_step, int64_t goes_on) {
    v8f acc[TILE_ROWS];
    MCP26_UNROLL for (int64_t i = 0; i < rows; i++) acc[i] = 0.0f;
    if (goes_on) {
        MCP26_UNROLL for (int64_t i = 0; i < rows; i++) acc[i] = v8f_load_all(sums + i * TILE_LANES);
    }
    for (int64_t t = 0; t < taps; t++, a += TILE_ROWS) {
        const float *left[TILE_ROWS];
        MCP26_UNROLL for (int64_t i = 0; i < rows; i++) left[i] = a[i];
        MCP26_ROLL for (int64_t k = 0; k < depth; k++, b += b_step) {
            v8f row = v8f_load_all(b);
            MCP26_UNROLL for (int64_t i = 0; i < rows; i++) acc[i] = v8f_fma(v8f_splat(left[i][k]), row, acc[i]);
        }
    }
    MCP26_UNROLL for (int64_t i = 0; i < rows; i++) v8f_store_all(sums + i * TILE_LANES, acc[i]);
}
#endif

/* One column of A, at left[i][at], times one row of B. What is fewer stays in registers: the column of A in a low tile,
 * the row of B else. */
MCP26_INLINE void tile_step(int64_t rows, int64_t vectors, tile_vector *acc, const float *const *left, int64_t at,
                            const float *b, int64_t panel_stride) {
    tile_vector av[TILE_ROWS], bv[CORE_VECTORS];
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

/* Columns of A are at `offsets` if `is_few`, else they follow one another. Rows of `sums` are `width` apart. `ahead`
 * may be NULL. */
MCP26_INLINE void tile_sum(int64_t rows, int64_t vectors, float *sums, int64_t width, const float *const *a,
                           int64_t taps, int64_t depth, int64_t is_few, const int64_t *offsets, const float *b,
                           int64_t b_step, int64_t panel_stride, int64_t goes_on, const float *ahead) {
    tile_vector acc[TILE_ACCUMULATORS];
    MCP26_UNROLL for (int64_t i = 0; i < rows * vectors; i++) acc[i] = 0.0f;
    if (goes_on) {
        MCP26_UNROLL for (int64_t i = 0; i < rows * vectors; i++) {
            acc[i] = tile_load(sums + i / vectors * width + i % vectors * TILE_LANES);
        }
    }
    for (int64_t t = 0; t < taps; t++, a += TILE_ROWS) {
        const float *left[TILE_ROWS];
        MCP26_UNROLL for (int64_t i = 0; i < rows; i++) left[i] = a[i];
        int64_t k = 0;
#if TILE_PACKS
        if (!is_few) {
            b = core_fours(rows, vectors, acc, left, depth, b, b_step, panel_stride);
            k = depth / 4 * 4;
            MCP26_UNROLL for (int64_t i = 0; i < rows; i++) left[i] -= k;
        }
#elif defined(__x86_64__)
        /* Four columns a round: what else a round does is a fifth of the instructions that the multipliers wait for.
         * Slim tiles of many rows lack the registers for it; strips, which have nothing ahead, are as fast without, and
         * clang would keep some of their columns on the stack. */
        int64_t whole = !is_few && rows <= MCP26_MR && b_step == MCP26_NR && ahead ? depth / 4 * 4 : 0;
        MCP26_ROLL for (; k < whole; k += 4, b += 4 * MCP26_NR) {
            MCP26_UNROLL for (int64_t i = 0; i < TILE_AHEAD; i += TILE_LINE) __builtin_prefetch(ahead + i, 0, 2);
            ahead += TILE_AHEAD;
            MCP26_UNROLL for (int64_t i = 0; i < 4; i++) {
                tile_step(rows, vectors, acc, left, k + i, b + i * MCP26_NR, panel_stride);
            }
        }
#endif
        MCP26_ROLL for (; k < depth; k++, b += b_step) {
            tile_step(rows, vectors, acc, left, is_few ? offsets[k] : k, b, panel_stride);
        }
    }
    MCP26_UNROLL for (int64_t i = 0; i < rows * vectors; i++) {
        tile_store(sums + i / vectors * width + i % vectors * TILE_LANES, acc[i]);
    }
}

/* A function for each height, so that each has registers of its own. */
#define DEFINE_CORE(V, R)                                                                                             \
    static __attribute__((noinline)) void tile_##R##x##V(float *sums, const float *const *a, int64_t taps,            \
                                                         int64_t depth, const float *b, int64_t b_step,               \
                                                         int64_t panel_stride, int64_t goes_on,                       \
                                                         const float *ahead) {                                        \
        tile_sum(R, V, sums, V * TILE_LANES, a, taps, depth, 0, NULL, b, b_step, panel_stride, goes_on, ahead);       \
    }
#define CALL_CORE(V, R) \
    if (rows == R) tile_##R##x##V(sums, a, taps, depth, b, b_step, panel_stride, goes_on, ahead);
#define DEFINE_WIDTH(V)                                                                                               \
    TILE_HEIGHTS_##V(DEFINE_CORE)                                                                                     \
    void mcp26_tile_##V(int64_t rows, float *sums, const float *const *a, int64_t taps, int64_t depth,                \
                        const float *b, int64_t b_step, int64_t panel_stride, int64_t goes_on, const float *ahead) {  \
        TILE_HEIGHTS_##V(CALL_CORE)                                                                                   \
    }
DEFINE_WIDTH(1)
DEFINE_WIDTH(2)
DEFINE_WIDTH(4)
DEFINE_WIDTH(8)
#if TILE_HALVES
#define DEFINE_HALF(V, R)                                                                                             \
    static __attribute__((noinline)) void half_##R##x##V(float *sums, const float *const *a, int64_t taps,            \
                                                         int64_t depth, const float *b, int64_t b_step,               \
                                                         int64_t goes_on) {                                           \
        half_sum(R, sums, a, taps, depth, b, b_step, goes_on);                                                        \
    }
#define CALL_HALF(V, R) \
    if (rows == R) half_##R##x##V(sums, a, taps, depth, b, b_step, goes_on);
TILE_HEIGHTS_1(DEFINE_HALF)
void mcp26_tile_half(int64_t rows, float *sums, const float *const *a, int64_t taps, int64_t depth, const float *b,
                     int64_t b_step, int64_t panel_stride, int64_t goes_on, const float *ahead) {
    (void)panel_stride, (void)ahead;
    TILE_HEIGHTS_1(CALL_HALF)
}
#endif

#if TILE_PACKS
/* Four columns of packed rows; gives the place behind them. */
MCP26_INLINE const float *packed_load(int64_t rows, v4f *four, const float *a) {
    MCP26_UNROLL for (int64_t i = 0; i + 4 <= rows; i += 4) a = registers_load_4(four + i, a);
    if (rows % 4 == 3) a = registers_load_3(four + rows - 3, a);
    if (rows % 4 == 2) a = registers_load_2(four + rows - 2, a);
    if (rows % 4 == 1) {
        __builtin_memcpy(four + rows - 1, a, sizeof *four);
        a += 4;
    }
    return a;
}

/* The next four columns of packed rows times a panel. What follows has to wait for these sums: or clang would load what
 * it needs early, and there are no registers for it. */
MCP26_INLINE void packed_four(int64_t rows, tile_vector *acc, const float **packed, const float **b) {
    v4f four[MCP26_MR];
    *packed = packed_load(rows, four, *packed);
    *b = core_four(rows, acc, four, *b);
    MCP26_UNROLL for (int64_t i = 0; i < rows; i++) {
        v4f low = __builtin_shufflevector(acc[i], acc[i], 0, 1, 2, 3);
        v4f high = __builtin_shufflevector(acc[i], acc[i], 4, 5, 6, 7);
        __asm__ volatile("" : "+w"(low), "+w"(high));
        acc[i] = __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
    }
    __asm__ volatile("" ::: "memory");
}

/* One of the columns of A in `four` times row `lane` of a panel. */
MCP26_INLINE void packed_one(int64_t rows, tile_vector *acc, const v4f *four, int64_t lane, const float *b) {
    tile_vector row = tile_load(b + lane * MCP26_NR);
    core_lane(rows, 1, acc, four, lane, &row);
}

/* acc += packed rows x a panel. */
MCP26_INLINE void packed_product(int64_t rows, tile_vector *acc, const float *packed, int64_t depth, const float *b) {
    int64_t rounds = depth / (4 * PACKED_ROUND), fours = depth / 4 % PACKED_ROUND, over = depth % 4;
    MCP26_ROLL for (; rounds != 0; rounds--) {
        MCP26_UNROLL for (int64_t i = 0; i < PACKED_ROUND; i++) packed_four(rows, acc, &packed, &b);
    }
    MCP26_ROLL for (; fours != 0; fours--) packed_four(rows, acc, &packed, &b);
    if (over > 0) {
        v4f four[MCP26_MR];
        packed_load(rows, four, packed);
        packed_one(rows, acc, four, 0, b);
        if (over > 1) packed_one(rows, acc, four, 1, b);
        if (over > 2) packed_one(rows, acc, four, 2, b);
    }
}

MCP26_INLINE void packed_sum(int64_t rows, float *sums, const float *packed, int64_t depth, const float *b,
                             int64_t goes_on) {
    tile_vector acc[MCP26_MR];
    tile_begin(acc, rows, sums, goes_on);
    packed_product(rows, acc, packed, depth, b);
    MCP26_UNROLL for (int64_t i = 0; i < rows; i++) tile_store(sums + i * TILE_LANES, acc[i]);
}

#define DEFINE_PACKED(V, R)                                                                                       \
    static __attribute__((noinline)) void packed_##R(float *sums, const float *packed, int64_t depth,             \
                                                     const float *b, int64_t panel_stride, int64_t panels,        \
                                                     int64_t goes_on) {                                           \
        for (; panels > 0; panels--, sums += PACKED_SUMS, b += panel_stride) {                                    \
            packed_sum(R, sums, packed, depth, b, goes_on);                                                       \
        }                                                                                                         \
    }
#define CALL_PACKED(V, R) \
    if (rows == R) packed_##R(sums, packed, depth, b, panel_stride, panels, goes_on);
TILE_HEIGHTS_1(DEFINE_PACKED)
void mcp26_packed(int64_t rows, float *sums, const float *packed, int64_t depth, const float *b, int64_t panel_stride,
                  int64_t panels, int64_t goes_on) {
    TILE_HEIGHTS_1(CALL_PACKED)
}

MCP26_INLINE void packed_parts(int64_t rows, float *sums, const float *packed, int64_t depth, int64_t chain,
                               const float *b) {
    tile_vector acc[MCP26_MR];
    MCP26_ROLL for (int64_t k = 0; k < depth || k == 0; k += chain) {
        tile_begin(acc, rows, sums, 0);
        packed_product(rows, acc, packed + k * rows, mcp26_min(chain, depth - k), b + k * MCP26_NR);
        if (k > 0) {
            MCP26_UNROLL for (int64_t i = 0; i < rows; i++) acc[i] = tile_load(sums + i * TILE_LANES) + acc[i];
        }
        MCP26_UNROLL for (int64_t i = 0; i < rows; i++) tile_store(sums + i * TILE_LANES, acc[i]);
    }
}

#define DEFINE_PACKED_PARTS(V, R)                                                                                    \
    static __attribute__((noinline)) void parts_##R(float *sums, const float *packed, int64_t depth, int64_t chain,  \
                                                    const float *b) {                                                \
        packed_parts(R, sums, packed, depth, chain, b);                                                              \
    }
#define CALL_PACKED_PARTS(V, R) \
    if (rows == R) parts_##R(sums, packed, depth, chain, b);
TILE_HEIGHTS_1(DEFINE_PACKED_PARTS)
void mcp26_packed_parts(int64_t rows, float *sums, const float *packed, int64_t depth, int64_t chain, const float *b) {
    TILE_HEIGHTS_1(CALL_PACKED_PARTS)
}

/* Rows i ... i+pair-1; `pair` is 1 or 2. */
MCP26_INLINE void pack_pair(int64_t rows, int64_t pair, float *packed, const float *const *a, int64_t depth) {
    const float *from[2];
    MCP26_UNROLL for (int64_t i = 0; i < pair; i++) from[i] = a[i];
    MCP26_ROLL for (; depth >= 16; depth -= 16, packed += 16 * rows) {
        v4f four[2][4];
        MCP26_UNROLL for (int64_t i = 0; i < pair; i++) from[i] = registers_load_4(four[i], from[i]);
        MCP26_UNROLL for (int64_t j = 0; j < 4; j++) {
            MCP26_UNROLL for (int64_t i = 0; i < pair; i++) {
                __builtin_memcpy(packed + 4 * (rows * j + i), &four[i][j], sizeof four[i][j]);
            }
        }
    }
    MCP26_ROLL for (; depth >= 4; depth -= 4, packed += 4 * rows) {
        MCP26_UNROLL for (int64_t i = 0; i < pair; i++) {
            __builtin_memcpy(packed + 4 * i, from[i], 4 * sizeof *packed);
            from[i] += 4;
        }
    }
    MCP26_UNROLL for (int64_t i = 0; i < pair; i++) {
        MCP26_UNROLL for (int64_t j = 0; j < 3; j++) {
            if (j < depth) packed[4 * i + j] = from[i][j];
        }
    }
}

MCP26_INLINE void pack_rows(int64_t rows, float *packed, const float *const *a, int64_t depth) {
    int64_t i = 0;
    MCP26_ROLL for (; i + 2 <= rows; i += 2) pack_pair(rows, 2, packed + 4 * i, a + i, depth);
    if (i < rows) pack_pair(rows, 1, packed + 4 * i, a + i, depth);
}

void mcp26_pack(int64_t rows, float *packed, const float *const *a, int64_t depth) {
    if (rows == MCP26_MR)
        pack_rows(MCP26_MR, packed, a, depth);
    else
        pack_rows(rows, packed, a, depth);
}
#else
#define DEFINE_FEW(V, R)                                                                                              \
    static __attribute__((noinline)) void few_##R##x##V(float *sums, const float *const *a, const int64_t *offsets,   \
                                                        int64_t depth, const float *b, int64_t panel_stride,          \
                                                        int64_t goes_on) {                                            \
        tile_sum(R, V, sums, V * TILE_LANES, a, 1, depth, 1, offsets, b, MCP26_NR, panel_stride, goes_on, b);         \
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

/* Chains of `chain` columns, whose sums are added in order; fetches are spread over them. */
MCP26_INLINE void tile_sum_parts(int64_t rows, int64_t vectors, float *sums, const float *const *a, int64_t depth,
                                 int64_t chain, const float *b, int64_t panel_stride, const float *ahead,
                                 int64_t share) {
    const float *left[TILE_ROWS];
    float part[TILE_SUMS] __attribute__((aligned(64)));
    MCP26_UNROLL for (int64_t i = 0; i < rows; i++) left[i] = a[i];
    for (int64_t k = 0, end = 0; k < depth || k == 0; k += TILE_STEP, b += TILE_STEP * MCP26_NR) {
        int64_t starts = k == end;
        if (starts) end = k + chain;
        for (int64_t i = 0; i < share; i++, ahead += MCP26_NR) {
            MCP26_UNROLL for (int64_t j = 0; j < vectors; j++) {
                __builtin_prefetch(ahead + tile_place(j, panel_stride), 0, 2);
            }
        }
        tile_sum(rows, vectors, part, vectors * TILE_LANES, left, 1, mcp26_min(TILE_STEP, depth - k), 0, NULL, b,
                 MCP26_NR, panel_stride, !starts, b);
        MCP26_UNROLL for (int64_t i = 0; i < rows; i++) left[i] += TILE_STEP;
        if (k + TILE_STEP < mcp26_min(end, depth)) continue;
        MCP26_UNROLL for (int64_t i = 0; i < rows * vectors; i++) {
            tile_vector sum = tile_load(part + i * TILE_LANES);
            tile_store(sums + i * TILE_LANES, end == chain ? sum : tile_load(sums + i * TILE_LANES) + sum);
        }
    }
}

#define DEFINE_PARTS(V, R)                                                                                            \
    static __attribute__((noinline)) void parts_##R##x##V(float *sums, const float *const *a, int64_t depth,          \
                                                          int64_t chain, const float *b, int64_t panel_stride,        \
                                                          const float *ahead, int64_t share) {                        \
        tile_sum_parts(R, V, sums, a, depth, chain, b, panel_stride, ahead, share);                                   \
    }
#define CALL_PARTS(V, R) \
    if (rows == R) parts_##R##x##V(sums, a, depth, chain, b, panel_stride, ahead, share);
#define DEFINE_PARTS_WIDTH(V)                                                                                         \
    TILE_HEIGHTS_##V(DEFINE_PARTS)                                                                                    \
    void mcp26_parts_##V(int64_t rows, float *sums, const float *const *a, int64_t depth, int64_t chain,              \
                         const float *b, int64_t panel_stride, const float *ahead, int64_t share) {                   \
        TILE_HEIGHTS_##V(CALL_PARTS)                                                                                  \
    }
DEFINE_PARTS_WIDTH(1)
DEFINE_PARTS_WIDTH(2)
#endif

#define DEFINE_STRIP(V, R)                                                                                            \
    static __attribute__((noinline)) void strip_##R##x##V(const float *a, int64_t lda, int64_t depth, const float *b, \
                                                          int64_t b_step, int64_t panel_stride, float *c,             \
                                                          int64_t ldc, int64_t goes_on) {                             \
        const float *rows[R];                                                                                         \
        MCP26_UNROLL for (int64_t i = 0; i < R; i++) rows[i] = a + i * lda;                                           \
        tile_sum(R, V, c, ldc, rows, 1, depth, 0, NULL, b, b_step, panel_stride, goes_on, NULL);                      \
    }
#define CALL_STRIP(V, R) \
    if (height == R) strip_##R##x##V(a, lda, depth, b, b_step, panel_stride, c, ldc, goes_on);
/* Rows of tiles are nearly equal in number, as tile_cut has it. */
#define DEFINE_STRIP_WIDTH(V)                                                                                         \
    TILE_HEIGHTS_##V(DEFINE_STRIP)                                                                                    \
    void mcp26_strip_##V(int64_t rows, const float *a, int64_t lda, int64_t depth, const float *b, int64_t b_step,    \
                         int64_t panel_stride, float *c, int64_t ldc, int64_t goes_on) {                              \
        for (int64_t height; rows > 0; rows -= height, a += height * lda, c += height * ldc) {                        \
            height = mcp26_ceil_div(rows, mcp26_ceil_div(rows, V == 1 ? TILE_SLIM : MCP26_MR));                       \
            TILE_HEIGHTS_##V(CALL_STRIP)                                                                              \
        }                                                                                                             \
    }
DEFINE_STRIP_WIDTH(1)
DEFINE_STRIP_WIDTH(2)
DEFINE_STRIP_WIDTH(4)
DEFINE_STRIP_WIDTH(8)
