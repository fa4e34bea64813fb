/* cores_i8.c: the cores of gemm_i8.h, compiled once a processor as those of cores.c are. */
#include "gemm_i8.h"

#if defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
#endif

/* Whether two products are added with saturation: PAIRS. */
#if defined(__AVX2__) && !defined(__AVX512BW__)
#define BYTE_HAS_PAIRS 1
#else
#define BYTE_HAS_PAIRS 0
#endif

/* BYTE_VECTORS: the largest number of vectors across a tile. BYTE_UNROLL: steps of a round of the loop, which count where
 * a processor issues few instructions beside its products. */
#if defined(__ARM_FEATURE_DOTPROD)
enum { BYTE_VECTORS = 2, BYTE_UNROLL = 4 };
#else
enum { BYTE_VECTORS = 2, BYTE_UNROLL = 1 };
#endif

#if defined(__AVX512F__)
typedef int32_t byte_sums __attribute__((ext_vector_type(16)));
typedef int32_t plain_sums __attribute__((vector_size(64)));
typedef int16_t word_pairs __attribute__((ext_vector_type(32)));
typedef int16_t plain_words __attribute__((vector_size(64)));
typedef int8_t byte_half __attribute__((ext_vector_type(32)));
typedef int8_t plain_bytes __attribute__((vector_size(64)));
enum { VECTOR_SUMS = 16 };
#else
typedef v8i byte_sums;
typedef int32_t plain_sums __attribute__((vector_size(32)));
typedef int16_t plain_words __attribute__((vector_size(32)));
typedef int8_t plain_bytes __attribute__((vector_size(32)));
enum { VECTOR_SUMS = 8 };
#endif
enum { VECTORS = BYTE_WIDTH * BYTE_PARTS / VECTOR_SUMS };
enum { BYTE_PANELS = BYTE_WIDTH > MCP26_NR ? BYTE_WIDTH / MCP26_NR : 1 }; /* across a tile */

/* Whether weights are fetched ahead: others foresee them, and issue few instructions beside products. */
#if defined(__x86_64__)
enum { BYTE_FETCHES = 1 };
#else
enum { BYTE_FETCHES = 0 };
#endif

#define BYTE_READ(type, p)                        \
    ({                                            \
        type value_;                              \
        __builtin_memcpy(&value_, p, sizeof value_); \
        value_;                                   \
    })

/* byte_group: the four bytes, or words, of all rows. BYTE_ROW: those of row i for all columns. BYTE_LOAD: vector j of the
 * weights that meet them. */
#if defined(__AVX512VNNI__)
typedef byte_sums byte_row, byte_columns;
#define BYTE_ROW(group, i) ((byte_sums)BYTE_READ(int32_t, group + 4 * (i)))
#define BYTE_LOAD(j) \
    (BYTE_READ(byte_sums, b + (j) * panel_stride + g * 4 * MCP26_NR) ^ (int32_t)(MCP26_WEIGHT_BIAS * 0x01010101u))
MCP26_INLINE byte_sums byte_dot(byte_sums sums, byte_row row, byte_columns w) {
    return (byte_sums)__builtin_ia32_vpdpbusd512((plain_sums)sums, (plain_bytes)row, (plain_bytes)w);
}
#elif defined(__AVX512BW__)
typedef word_pairs byte_row, byte_columns;
typedef int64_t byte_fours __attribute__((ext_vector_type(VECTOR_SUMS / 2)));
#define BYTE_ROW(group, i) ((word_pairs)(byte_fours)BYTE_READ(int64_t, group + 4 * (i)))
#define BYTE_LOAD(j)                                                                                               \
    __builtin_convertvector(                                                                                       \
        BYTE_READ(byte_half, b + g * MCP26_NR * 4 + (j) * 2 * VECTOR_SUMS) ^ BYTE_BIAS, word_pairs)
MCP26_INLINE byte_sums byte_dot(byte_sums sums, byte_row row, byte_columns w) {
    return (byte_sums)((plain_sums)sums + (plain_sums)__builtin_ia32_pmaddwd512((plain_words)row, (plain_words)w));
}
#elif defined(__AVX2__)
typedef byte_sums byte_row, byte_columns;
#define BYTE_ROW(group, i) ((byte_sums)BYTE_READ(int32_t, group + 4 * (i)))
#define BYTE_LOAD(j) (BYTE_READ(byte_sums, b + g * step) ^ (int32_t)(MCP26_WEIGHT_BIAS * 0x01010101u))
MCP26_INLINE byte_sums byte_dot(byte_sums sums, byte_row row, byte_columns w) {
    plain_words pairs = __builtin_ia32_pmaddubsw256((plain_bytes)row, (plain_bytes)w), ones = (plain_words){0} + 1;
    return (byte_sums)((plain_sums)sums + (plain_sums)__builtin_ia32_pmaddwd256(pairs, ones));
}
#elif defined(__ARM_FEATURE_DOTPROD)
typedef int32_t byte_row;
typedef struct {
    int8x16_t low, high;
} byte_columns;
typedef int32_t byte_quad __attribute__((ext_vector_type(4)));
typedef struct {
    byte_quad of[BYTE_TALL / 4];
} byte_group;
#define BYTE_GROUP(at) BYTE_READ(byte_group, at)
#define BYTE_ROW(group, i) group.of[(i) / 4][(i) % 4] /* which the instruction takes from there */
#define BYTE_LOAD(j)                                                                    \
    (byte_columns) {                                                                    \
        vld1q_s8(b + g * 4 * MCP26_NR) ^ BYTE_BIAS, vld1q_s8(b + g * 4 * MCP26_NR + 16) ^ BYTE_BIAS \
    }
MCP26_INLINE byte_sums byte_dot(byte_sums sums, byte_row row, byte_columns w) {
    int8x16_t left = vreinterpretq_s8_s32(vdupq_n_s32(row));
    int32x4_t low, high;
    __builtin_memcpy(&low, &sums, 16), __builtin_memcpy(&high, (char *)&sums + 16, 16);
    low = vdotq_s32(low, w.low, left), high = vdotq_s32(high, w.high, left);
    __builtin_memcpy(&sums, &low, 16), __builtin_memcpy((char *)&sums + 16, &high, 16);
    return sums;
}
#else
typedef const int16_t *byte_row;
typedef struct {
    v8s of[4];
} byte_columns;
typedef int8_t byte_panel __attribute__((ext_vector_type(32)));
#define BYTE_ROW(group, i) (group + 4 * (i))
#define BYTE_COLUMN(w, k)                                                                                           \
    __builtin_convertvector(__builtin_shufflevector(w, w, k, k + 4, k + 8, k + 12, k + 16, k + 20, k + 24, k + 28), v8s)
MCP26_INLINE byte_columns byte_spread(const int8_t *p) {
    byte_panel w;
    __builtin_memcpy(&w, p, sizeof w);
    w ^= BYTE_BIAS;
    return (byte_columns){{BYTE_COLUMN(w, 0), BYTE_COLUMN(w, 1), BYTE_COLUMN(w, 2), BYTE_COLUMN(w, 3)}};
}
#define BYTE_LOAD(j) byte_spread(b + g * MCP26_NR * 4)
MCP26_INLINE byte_sums byte_dot(byte_sums sums, byte_row row, byte_columns w) {
    MCP26_UNROLL for (int64_t k = 0; k < 4; k++) {
        v8s left = row[k];
        sums += __builtin_convertvector(left, v8i) * __builtin_convertvector(w.of[k], v8i);
    }
    return sums;
}
#endif

#ifndef BYTE_GROUP
typedef const byte_left *byte_group;
#define BYTE_GROUP(at) (at)
#endif

/* Weights of the first, or the second, of each pair. */
enum { BYTE_FIRST = 0x00ff00ff, BYTE_SECOND = ~BYTE_FIRST };

MCP26_INLINE void byte_core(int64_t rows, int32_t *sums, const byte_left *left, int64_t steps, const int8_t *b,
                            int64_t panel_stride, int64_t is_listed, const int32_t *places, const int8_t *ahead) {
    byte_sums acc[BYTE_TALL * BYTE_VECTORS];
    int64_t step = 4 * (is_listed ? BYTE_WIDTH : MCP26_NR);
    (void)panel_stride, (void)places, (void)ahead;
    MCP26_UNROLL for (int64_t i = 0; i < rows * VECTORS; i++) acc[i] = 0;
#pragma clang loop unroll_count(BYTE_UNROLL)
    for (int64_t g = 0; g < steps; g++) {
        byte_group group = BYTE_GROUP(left + (is_listed ? places[g] : g) * 4 * BYTE_TALL);
        for (int64_t p = 0; BYTE_FETCHES && p < BYTE_PANELS; p++) {
            __builtin_prefetch(ahead + p * panel_stride + g * step, 0, 2);
        }
        byte_columns w[BYTE_VECTORS];
        MCP26_UNROLL for (int64_t j = 0; j < VECTORS; j++) w[j] = BYTE_LOAD(j);
        MCP26_UNROLL for (int64_t i = 0; i < rows; i++) {
            byte_row row = BYTE_ROW(group, i);
            MCP26_UNROLL for (int64_t j = 0; j < VECTORS; j++) {
                byte_sums *sum = &acc[i * VECTORS + j];
#if BYTE_HAS_PAIRS
                if (!is_listed) {
                    *sum = byte_dot(byte_dot(*sum, row, w[j] & BYTE_FIRST), row, w[j] & BYTE_SECOND);
                    continue;
                }
#endif
                *sum = byte_dot(*sum, row, w[j]);
            }
        }
    }
    MCP26_UNROLL for (int64_t i = 0; i < rows * VECTORS; i++) {
        __builtin_memcpy(sums + i * VECTOR_SUMS, &acc[i], sizeof acc[i]);
    }
}

/* Heights that there are cores for, each with the next lower one: whole tiles first. */
#define BYTE_HEIGHTS(X) X(12, 8) X(8, 6) X(6, 4) X(4, 2) X(2, 1) X(1, 0)
#define BYTE_DEFINE(R, LOWER)                                                                                 \
    static __attribute__((noinline)) void bytes_##R(int32_t *sums, const byte_left *left, int64_t steps,      \
                                                    const int8_t *b, int64_t panel_stride, const int8_t *ahead) { \
        byte_core(R, sums, left, steps, b, panel_stride, 0, NULL, ahead);                                     \
    }
#define BYTE_CALL(R, LOWER)                                         \
    if (R <= BYTE_TALL && rows > LOWER) {                           \
        bytes_##R(sums, left, steps, b, panel_stride, ahead);       \
        return;                                                     \
    }
BYTE_HEIGHTS(BYTE_DEFINE)

#if BYTE_HAS_PAIRS
#define BYTE_DEFINE_PAIRS(R, LOWER)                                                                           \
    static __attribute__((noinline)) void pairs_##R(int32_t *sums, const byte_left *left, int64_t steps,      \
                                                    const int8_t *b, const int32_t *places, const int8_t *ahead) { \
        byte_core(R, sums, left, steps, b, 0, 1, places, ahead);                                              \
    }
#define BYTE_CALL_PAIRS(R, LOWER)                        \
    if (R <= BYTE_TALL && rows > LOWER) {                \
        pairs_##R(sums, left, steps, b, places, ahead);  \
        return;                                          \
    }
BYTE_HEIGHTS(BYTE_DEFINE_PAIRS)
#define BYTE_PAIRS            \
    if (places) {             \
        BYTE_HEIGHTS(BYTE_CALL_PAIRS) \
    }
#else
#define BYTE_PAIRS (void)places;
#endif

void mcp26_bytes(int64_t rows, int32_t *sums, const byte_left *left, int64_t steps, const int8_t *b,
                 int64_t panel_stride, const int32_t *places, const int8_t *ahead) {
    BYTE_PAIRS
    BYTE_HEIGHTS(BYTE_CALL)
}
