/* cores_f16.c: the cores of tile_f16.h, unrolled by height; all sizes are run-time variables. */
#include "registers.h"
#include "tile_f16.h"

enum { HALF_VECTORS = 8, HALF_ACCUMULATORS = HALF_SUMS / 8 };

/* How many vectors of sums there are registers for across a tile. */
#if HALF_PACKS
#define HALF_ABREAST(V) V
#else
#define HALF_ABREAST(V) 1
#endif

MCP26_INLINE half_vector half_one(const uint16_t *p) {
    _Float16 x;
    __builtin_memcpy(&x, p, sizeof x);
    return (half_vector)x;
}

/* wide (+)= acc. */
MCP26_INLINE void half_flush(half_vector *acc, int64_t rows, int64_t vectors, int64_t step, float *wide,
                             int64_t goes_on) {
    MCP26_UNROLL for (int64_t i = 0; i < rows * vectors; i++) {
        float *to = wide + i / vectors * step + i % vectors * 8;
        v8f v = half_widened(acc[i]);
        if (goes_on) v = v + v8f_load_all(to);
        v8f_store_all(to, v);
        acc[i] = 0.0f;
    }
}

/* A tile's registers `first` ... first+vectors-1 of `across`, its rows of A `moved` elements on. */
MCP26_INLINE void half_sum(int64_t rows, int64_t vectors, int64_t first, int64_t across, half_task task,
                           half_range range, int64_t moved, uint16_t *c) {
    half_vector acc[HALF_ACCUMULATORS];
    int64_t place = first / 2 * task.panel_stride + first % 2 * 8;
    const uint16_t *b = task.b + place, *bias = task.bias + place, *const *a = task.a;
    int64_t panel_stride = task.panel_stride, depth = task.depth, goes_on = task.goes_on, terms = 0;
    float *wide = task.wide + 8 * first;
    MCP26_UNROLL for (int64_t j = 0; j < vectors; j++) acc[j] = half_load_all(bias + j / 2 * panel_stride + j % 2 * 8);
    if (goes_on) {
        MCP26_UNROLL for (int64_t j = 0; j < vectors; j++) acc[j] = 0.0f;
    }
    MCP26_UNROLL for (int64_t i = vectors; i < rows * vectors; i++) acc[i] = acc[i % vectors];
    for (int64_t t = 0; t < task.taps; t++, a += HALF_MR) {
        const uint16_t *left[HALF_MR];
        MCP26_UNROLL for (int64_t i = 0; i < rows; i++) left[i] = a[i] + moved;
        for (int64_t k = 0; k < depth;) {
            if (terms == HALF_BLOCK) {
                half_flush(acc, rows, vectors, 8 * across, wide, goes_on);
                goes_on = 1, terms = 0;
            }
            int64_t end = mcp26_min(depth, k + HALF_BLOCK - terms);
            terms += end - k;
#define HALF_COLUMN(A)                                                                                          \
    {                                                                                                           \
        half_vector bv[HALF_VECTORS];                                                                           \
        MCP26_UNROLL for (int64_t j = 0; j < vectors; j++) {                                                    \
            bv[j] = half_load_all(b + j / 2 * panel_stride + j % 2 * 8);                                            \
        }                                                                                                       \
        b += HALF_NR;                                                                                           \
        MCP26_UNROLL for (int64_t i = 0; i < rows; i++) {                                                       \
            half_vector av = A;                                                                                 \
            MCP26_UNROLL for (int64_t j = 0; j < vectors; j++) {                                                \
                acc[i * vectors + j] = __builtin_elementwise_fma(av, bv[j], acc[i * vectors + j]);              \
            }                                                                                                   \
        }                                                                                                       \
    }
#define HALF_LANE(x, L) __builtin_shufflevector(x, x, L, L, L, L, L, L, L, L)
#if defined(__aarch64__)
            /* Eight columns of A a load, multiplied by lane. */
            int64_t at = k * (int64_t)sizeof **left;
            for (int64_t count = (end - k) / 8; count > 0; count--, at += 8 * (int64_t)sizeof **left, k += 8) {
                half_vector eight[HALF_MR];
                __asm__("" : "+r"(at)); /* or clang keeps a pointer a row, each of which it moves on */
                MCP26_UNROLL for (int64_t i = 0; i < rows; i++) {
                    eight[i] = half_load_all((const uint16_t *)(const void *)((const char *)left[i] + at));
                }
                HALF_COLUMN(HALF_LANE(eight[i], 0))
                HALF_COLUMN(HALF_LANE(eight[i], 1))
                HALF_COLUMN(HALF_LANE(eight[i], 2))
                HALF_COLUMN(HALF_LANE(eight[i], 3))
                HALF_COLUMN(HALF_LANE(eight[i], 4))
                HALF_COLUMN(HALF_LANE(eight[i], 5))
                HALF_COLUMN(HALF_LANE(eight[i], 6))
                HALF_COLUMN(HALF_LANE(eight[i], 7))
            }
#endif
            MCP26_ROLL for (; k < end; k++) HALF_COLUMN(half_one(left[i] + k))
        }
    }
    if (goes_on || task.goes_further) half_flush(acc, rows, vectors, 8 * across, wide, goes_on);
    if (task.goes_further) return;
    if (goes_on) {
        MCP26_UNROLL for (int64_t i = 0; i < rows * vectors; i++) {
            acc[i] = half_rounded(v8f_load_all(wide + i / vectors * 8 * across + i % vectors * 8));
        }
    }
    MCP26_UNROLL for (int64_t i = 0; i < rows; i++, c += task.ldc) {
        MCP26_UNROLL for (int64_t j = 0; j < vectors; j++) {
            v8w_store_all(c + 8 * (first + j), half_narrowed(half_bounded(acc[i * vectors + j], range)));
        }
    }
}

#define DEFINE_HALF(V, R)                                                                                          \
    static __attribute__((noinline)) void half_##R##x##V(const half_task *given) {                                 \
        const half_task task = *given;                                                                             \
        half_range range = half_range_of(task.bounds);                                                             \
        uint16_t *c = task.c;                                                                                      \
        for (int64_t tile = 0, moved = 0; tile < task.tiles; tile++, moved += task.a_step, c += R * task.ldc) {    \
            MCP26_ROLL for (int64_t j = 0; j < V; j += HALF_ABREAST(V)) {                                          \
                half_sum(R, HALF_ABREAST(V), j, V, task, range, moved, c);                                         \
            }                                                                                                      \
        }                                                                                                          \
    }
#define CALL_HALF(V, R) \
    if (rows == R) half_##R##x##V(task);
#define DEFINE_HALF_WIDTH(V)                                          \
    HALF_HEIGHTS_##V(DEFINE_HALF)                                     \
    void mcp26_half_##V(int64_t rows, const half_task *task) {        \
        HALF_HEIGHTS_##V(CALL_HALF)                                   \
    }
#define HALF_HEIGHTS_1(X) X(1, 8) X(1, 7) X(1, 6) X(1, 5) X(1, 4) X(1, 3) X(1, 2) X(1, 1)
#define HALF_HEIGHTS_2(X) X(2, 8) X(2, 7) X(2, 6) X(2, 5) X(2, 4) X(2, 3) X(2, 2) X(2, 1)
#define HALF_HEIGHTS_4(X) X(4, 1) X(4, 2) X(4, 3)
#define HALF_HEIGHTS_8(X) X(8, 1)
DEFINE_HALF_WIDTH(1)
DEFINE_HALF_WIDTH(2)
DEFINE_HALF_WIDTH(4)
DEFINE_HALF_WIDTH(8)
#undef HALF_COLUMN

#if HALF_PACKS
enum { HALF_TILE = HALF_NR / 8 /* registers across a panel */ };

/* N registers of halves by one instruction; gives the place behind them. */
#define DEFINE_LOAD(N)                                                                                           \
    MCP26_INLINE const uint16_t *half_load_##N(half_vector *to, const uint16_t *p) {                             \
        v4f loaded[N];                                                                                           \
        p = (const uint16_t *)(const void *)registers_load_##N(loaded, (const float *)(const void *)p);          \
        __builtin_memcpy(to, loaded, sizeof loaded);                                                             \
        return p;                                                                                                \
    }
DEFINE_LOAD(2)
DEFINE_LOAD(3)
DEFINE_LOAD(4)
#undef DEFINE_LOAD

/* Two columns of packed rows times a panel; gives the place behind its rows. What follows has to wait for these sums,
 * as in packed_four of cores.c. */
#define HALF_COLUMN(L, B)                                                                                           \
    MCP26_UNROLL for (int64_t i = 0; i < rows * HALF_TILE; i++) {                                                   \
        half_vector column = HALF_LANE(eight[i / HALF_TILE], L);                                                    \
        acc[i] = __builtin_elementwise_fma(column, bv[B * HALF_TILE + i % HALF_TILE], acc[i]);                      \
    }
#define HALF_COLUMNS(L)                                                                                \
    {                                                                                                  \
        half_vector bv[2 * HALF_TILE];                                                                 \
        b = half_load_4(bv, b);                                                                        \
        HALF_COLUMN(L, 0)                                                                              \
        HALF_COLUMN(L + 1, 1)                                                                          \
        MCP26_UNROLL for (int64_t i = 0; i < rows * HALF_TILE; i++) __asm__ volatile("" : "+w"(acc[i])); \
        __asm__ volatile("" ::: "memory");                                                             \
    }

/* acc += packed rows x a panel. */
MCP26_INLINE void half_packed_product(int64_t rows, half_vector *acc, const uint16_t *packed, int64_t depth,
                                      const uint16_t *b) {
    MCP26_ROLL for (int64_t rest = depth / HALF_EIGHT; rest != 0; rest--) {
        half_vector eight[HALF_MR];
        MCP26_UNROLL for (int64_t i = 0; i + 4 <= rows; i += 4) packed = half_load_4(eight + i, packed);
        if (rows % 4 == 3) packed = half_load_3(eight + rows - 3, packed);
        if (rows % 4 == 2) packed = half_load_2(eight + rows - 2, packed);
        if (rows % 4 == 1) eight[rows - 1] = half_load_all(packed), packed += HALF_EIGHT;
        HALF_COLUMNS(0)
        HALF_COLUMNS(2)
        HALF_COLUMNS(4)
        HALF_COLUMNS(6)
    }
}
#undef HALF_COLUMNS
#undef HALF_COLUMN

MCP26_INLINE void half_packed_sum(int64_t rows, const half_packed_task *task, const uint16_t *b, const uint16_t *bias,
                                  uint16_t *c, float *wide, half_range range) {
    half_vector acc[HALF_ACCUMULATORS];
    MCP26_UNROLL for (int64_t i = 0; i < rows * HALF_TILE; i++) {
        acc[i] = task->goes_on ? (half_vector)0.0f : half_load_all(bias + i % HALF_TILE * 8);
    }
    half_packed_product(rows, acc, task->packed, task->depth, b);
    if (task->goes_further) {
        half_flush(acc, rows, HALF_TILE, HALF_NR, wide, task->goes_on);
        return;
    }
    if (task->goes_on) {
        MCP26_UNROLL for (int64_t i = 0; i < rows * HALF_TILE; i++) {
            acc[i] = half_rounded(half_widened(acc[i]) + v8f_load_all(wide + 8 * i));
        }
    }
    MCP26_UNROLL for (int64_t i = 0; i < rows * HALF_TILE; i++) {
        v8w_store_all(c + i / HALF_TILE * task->ldc + i % HALF_TILE * 8, half_narrowed(half_bounded(acc[i], range)));
    }
}

#define DEFINE_HALF_PACKED(V, R)                                                                                   \
    static __attribute__((noinline)) void half_packed_##R(const half_packed_task *task) {                          \
        half_range range = half_range_of(task->bounds);                                                            \
        for (int64_t p = 0; p < task->panels; p++) {                                                               \
            half_packed_sum(R, task, task->b + p * task->panel_stride, task->bias + p * task->panel_stride,        \
                            task->c + p * HALF_NR, task->wide + p * HALF_SUMS, range);                             \
        }                                                                                                          \
    }
#define CALL_HALF_PACKED(V, R) \
    if (rows == R) half_packed_##R(task);
HALF_HEIGHTS_2(DEFINE_HALF_PACKED)
void mcp26_half_packed(int64_t rows, const half_packed_task *task) {
    HALF_HEIGHTS_2(CALL_HALF_PACKED)
}

MCP26_INLINE void half_packed_parts(int64_t rows, uint16_t *sums, const uint16_t *packed, int64_t depth, int64_t chain,
                                    const uint16_t *b) {
    half_vector acc[HALF_ACCUMULATORS];
    MCP26_ROLL for (int64_t k = 0; k < depth || k == 0; k += chain) {
        MCP26_UNROLL for (int64_t i = 0; i < rows * HALF_TILE; i++) acc[i] = 0.0f;
        half_packed_product(rows, acc, packed + k * rows, mcp26_min(chain, depth - k), b + k * HALF_NR);
        if (k > 0) {
            MCP26_UNROLL for (int64_t i = 0; i < rows * HALF_TILE; i++) acc[i] = half_load_all(sums + 8 * i) + acc[i];
        }
        MCP26_UNROLL for (int64_t i = 0; i < rows * HALF_TILE; i++) v8w_store_all(sums + 8 * i, half_narrowed(acc[i]));
    }
}

#define DEFINE_HALF_PARTS(V, R)                                                                             \
    static __attribute__((noinline)) void half_parts_##R(uint16_t *sums, const uint16_t *packed, int64_t depth, \
                                                         int64_t chain, const uint16_t *b) {                \
        half_packed_parts(R, sums, packed, depth, chain, b);                                                \
    }
#define CALL_HALF_PARTS(V, R) \
    if (rows == R) half_parts_##R(sums, packed, depth, chain, b);
HALF_HEIGHTS_2(DEFINE_HALF_PARTS)
void mcp26_half_parts(int64_t rows, uint16_t *sums, const uint16_t *packed, int64_t depth, int64_t chain,
                      const uint16_t *b) {
    HALF_HEIGHTS_2(CALL_HALF_PARTS)
}
#endif

#define HALF_COLUMN(L)                                                                                               \
    MCP26_UNROLL for (int64_t j = 0; j < vectors; j++) {                                                             \
        acc[L * vectors + j] = __builtin_elementwise_fma(HALF_LANE(column, L), bv[j], acc[L * vectors + j]);         \
    }

MCP26_INLINE void half_few(int64_t vectors, const uint16_t *x, const int32_t *offsets, int64_t depth,
                           const uint16_t *b, uint16_t *c, int64_t ldc, half_bounds bounds) {
    half_vector acc[HALF_ACCUMULATORS];
    half_range range = half_range_of(bounds);
    MCP26_UNROLL for (int64_t i = 0; i < HALF_MR * vectors; i++) acc[i] = half_load_all(b - HALF_NR + i % vectors * 8);
    MCP26_ROLL for (int64_t k = 0; k < depth; k++, b += HALF_NR) {
        half_vector column = half_load_all(x + offsets[k]), bv[2];
        MCP26_UNROLL for (int64_t j = 0; j < vectors; j++) bv[j] = half_load_all(b + 8 * j);
        HALF_COLUMN(0)
        HALF_COLUMN(1)
        HALF_COLUMN(2)
        HALF_COLUMN(3)
        HALF_COLUMN(4)
        HALF_COLUMN(5)
        HALF_COLUMN(6)
        HALF_COLUMN(7)
    }
    MCP26_UNROLL for (int64_t i = 0; i < HALF_MR * vectors; i++) {
        v8w_store_all(c + i / vectors * ldc + i % vectors * 8, half_narrowed(half_bounded(acc[i], range)));
    }
}

void mcp26_half_few(const uint16_t *x, const int32_t *offsets, int64_t depth, const uint16_t *b, uint16_t *c,
                    int64_t ldc, half_bounds bounds) {
    MCP26_ROLL for (int64_t j = 0; j < 2; j += HALF_ABREAST(2)) {
        half_few(HALF_ABREAST(2), x, offsets, depth, b + 8 * j, c + 8 * j, ldc, bounds);
    }
}
